"""The decisions that a schedule file stands for, as the solver's own functions want them."""

from __future__ import annotations

from schedgen.dependence import Choice, RingOption
from schedgen.schedule import Schedule, ScheduledBuffer
from schedgen.solver.decisions import Decisions
from schedgen.solver.problem import Problem


def decisions(schedule: Schedule, problem: Problem) -> Decisions | None:
    """What was decided, None if the schedule took a choice that the problem does not have."""
    role_of = {op.id: op.role for op in schedule.ops}
    leader: dict[str, str] = {}
    role: dict[str, str] = {}
    for group in problem.body_groups:
        name = role_of.get(problem.in_body(group)[0])
        if name is None:
            return None
        role[group.name] = leader.setdefault(name, group.name)
    buffers = {buffer.name: buffer for buffer in schedule.buffers}
    option: dict[str, int] = {}
    for choice in problem.graph.choices:
        taken = [n for n in range(len(choice.options)) if _taken(problem, choice, n, buffers)]
        if len(taken) != 1:
            return None
        option[choice.name] = taken[0]
    return Decisions(
        ii=schedule.ii_cycles,
        start={op.id: op.start for op in schedule.body},
        role=role,
        depth={name: buffer.depth for name, buffer in buffers.items()},
        option=option,
    )


def _taken(
    problem: Problem, choice: Choice, number: int, buffers: dict[str, ScheduledBuffer]
) -> bool:
    """Whether the storage of ``buffers`` is alternative ``number`` of ``choice``."""
    option = choice.options[number]
    if isinstance(option, RingOption):
        regions = problem.kernel.ring[choice.about].regions
        found = [buffers[name] for name in regions]
        same = tuple(buffer.lag for buffer in found) == option.lags
        return same and found[0].depth == option.depth
    buffer = buffers[choice.about]
    if option.host is None or buffer.alias is None:
        return option.host == buffer.alias
    unit = 4 if buffer.space == "tmem" else 1
    column = (buffer.address - buffers[option.host].address) * unit
    return (option.host, option.skew, option.column) == (buffer.alias, buffer.skew, column)
