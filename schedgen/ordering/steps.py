"""What a single step says about itself: its text, when it runs, where it stands."""

from __future__ import annotations

from schedgen.program.model import (
    EVERY,
    Arrive,
    Commit,
    Fence,
    Guard,
    Run,
    Step,
    Wait,
    WaitGroup,
    When,
)
from schedgen.program.operations import Number

_NEVER = 1 << 20


def describe(step: Step) -> str:
    """``wait sA full[c-3]``."""
    match step.action:
        case Run(operation=operation):
            return operation
        case Wait(barrier, number):
            return f"wait {barrier}[{number.text}]"
        case Arrive(barrier, number, count):
            return f"arrive {barrier}[{number.text}] x {count}"
        case Commit(barrier, number):
            return f"commit {barrier}[{number.text}]"
        case WaitGroup(operation, lag):
            return f"wait_group {operation}" + (f" of {lag} before" if lag else "")
        case Fence(kind):
            return str(kind)


def loop_distance(a: Step, a_position: int, b: Step, b_position: int) -> int:
    """Smallest d with a(c) before b(c + d) in the turns of one role's loop."""
    return a.shift - b.shift + (0 if a_position < b_position else 1)


def section_of(section: str, step: Step) -> str:
    """``first`` and ``last`` steps of the loop are tile events, unless they number iterations."""
    if section != "loop" or step.guard.kind is When.EVERY:
        return section
    numbered = isinstance(step.action, Wait | Arrive | Commit) and not step.action.number.per_tile
    return "loop" if numbered else step.guard.kind


def margins(section: str, step: Step | None) -> tuple[int, int]:
    """Iterations at both ends of a tile in which a step of the loop may not run."""
    if step is None or section in {"before", "after"}:
        return 0, 0
    if step.guard.kind is When.EVERY:
        return step.guard.low, step.guard.high
    return (_NEVER, _NEVER) if section == "loop" or step.guard.low else (0, 0)


def fires_always(guard: Guard, section: str, number: Number) -> bool:
    """Whether a step runs once for each value of its running number, whatever the trip counts."""
    if section == "loop":
        return not number.per_tile and guard == EVERY
    return number.per_tile and guard.low == 0
