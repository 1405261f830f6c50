"""How many groups of asynchronous operations may be unfinished after a wait for one of them."""

from __future__ import annotations

from collections.abc import Callable

from schedgen.codegen.errors import EmitError
from schedgen.codegen.plan import Plan
from schedgen.kernel import Kind
from schedgen.program.added import is_added
from schedgen.program.model import EVERY, RoleProgram, Run, Step, WaitGroup


def pending(plan: Plan, role: RoleProgram, waiting: Step) -> int:
    """How many later groups may be unfinished when ``waiting`` is over: a wait_group, or what waits
    for copies of the role's threads.

    Each operation of an engine is a group, and in turns in which it does not run an empty one is
    committed in its place, so that the number is the same in all turns. A wait_group outside of the
    loop of what ran in it waits for everything.

    Raises:
        EmitError: an operation that is counted runs in some iterations only. There are empty groups
            for turns, not for conditions.
    """
    target, lag, issues = _awaited(plan, role, waiting)
    section = next(s for s in (role.before, role.loop, role.after) if waiting in s)
    groups = [place for place, step in enumerate(section) if issues(_operation(step))]
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
    place, at = mine[0], section.index(waiting)
    if section is not role.loop:
        return sum(1 for p in groups if place < p < at)
    turns = waiting.shift + lag - section[place].shift
    return (
        turns * len(groups)
        - sum(1 for p in groups if p <= place)
        + sum(1 for p in groups if p < at)
    )


def _awaited(
    plan: Plan, role: RoleProgram, waiting: Step
) -> tuple[str, int, Callable[[str], bool]]:
    """The operation that is waited for, how many iterations before, and whether one commits groups
    to the same queue.
    """
    if isinstance(waiting.action, WaitGroup):
        engine = plan.program.operation[waiting.action.operation].engine
        of_engine = {n for n, one in plan.program.operation.items() if one.engine is engine}
        return waiting.action.operation, waiting.action.lag, of_engine.__contains__
    names = filter(None, map(_operation, role.steps))
    gathers = {n for n in names if not is_added(n) and plan.operation(n).kind is Kind.GATHER}
    writes = plan.operation(_operation(waiting)).writes
    target = next(name for name in gathers if plan.operation(name).writes == writes)
    return target, 0, gathers.__contains__


def _operation(step: Step) -> str:
    return step.action.operation if isinstance(step.action, Run) else ""
