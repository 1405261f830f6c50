"""How many groups of asynchronous operations may be unfinished after a wait for one of them."""

from __future__ import annotations

from schedgen.codegen.errors import EmitError
from schedgen.codegen.plan import Plan
from schedgen.program.model import EVERY, RoleProgram, Run, Step, WaitGroup
from schedgen.program.operations import Engine


def pending(plan: Plan, role: RoleProgram, wait_group: Step) -> int:
    """How many later groups may be unfinished when a wait_group is over.

    Each operation of an engine is a group, and in turns in which it does not run an empty one is
    committed in its place, so that the number is the same in all turns. A wait_group outside of the
    loop of what ran in it waits for everything.

    Raises:
        EmitError: an operation that is counted runs in some iterations only. There are empty groups
            for turns, not for conditions.
    """
    assert isinstance(wait_group.action, WaitGroup)
    target = wait_group.action.operation
    engine = plan.program.operation[target].engine
    section = next(s for s in (role.before, role.loop, role.after) if wait_group in s)
    groups = [place for place, step in enumerate(section) if _issues(plan, step, engine)]
    mine = [p for p in groups if _operation(section[p]) == target]
    if not mine:
        return 0
    for step in (section[place] for place in groups):
        if step.guard != EVERY:
            raise EmitError(
                f"{role.name}: '{_operation(step)}' does not run in every iteration, so what is "
                f"unfinished before it cannot be counted",
                rule="groups-on-conditions",
                fix=f"wait for '{target}' in another role, or let both run always",
            )
    place, at = mine[0], section.index(wait_group)
    if section is not role.loop:
        return sum(1 for p in groups if place < p < at)
    turns = wait_group.shift + wait_group.action.lag - section[place].shift
    return (
        turns * len(groups)
        - sum(1 for p in groups if p <= place)
        + sum(1 for p in groups if p < at)
    )


def _operation(step: Step) -> str:
    return step.action.operation if isinstance(step.action, Run) else ""


def _issues(plan: Plan, step: Step, engine: Engine) -> bool:
    name = _operation(step)
    return bool(name) and plan.program.operation[name].engine is engine
