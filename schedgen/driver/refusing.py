"""Why the compiler made no kernel that is to be used."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from schedgen.driver.variations import Variation
from schedgen.kernel import Space
from schedgen.program.model import Run

if TYPE_CHECKING:
    from schedgen.driver.attempts import Attempt
    from schedgen.program.model import Program

_SHOWN = 4


def refusal(attempts: list[Attempt], program: Program, scarce: str) -> str:
    """Why none of ``attempts`` at a program is taken, and what to do about it; ``scarce``: why
    there are no more schedules, behind a semicolon.
    """
    if scarce:
        return f"{_scarce(attempts)}{scarce}"
    unfenced = attempts[-1].report.unfenced
    slow = f"{_held(program)}, or --no-compile for a kernel that is slow"
    return f"{_scarce(attempts)}\n  fix: {unfenced[0].fix if unfenced else slow}"


def _held(program: Program) -> str:
    """Which role has most registers, and what it holds there: other tiles take compiling to try."""
    role = max(program.roles, key=lambda role: role.registers)
    runs = (step.action.operation for step in role.steps if isinstance(step.action, Run))
    touched = dict.fromkeys(a.allocation for name in runs for a in program.operation[name].accesses)
    sizes = {name: program.allocation[name].size for name in touched}
    held = {n: s for n, s in sizes.items() if program.allocation[n].space is Space.REGISTERS}
    largest = sorted(held.items(), key=lambda one: -one[1])[:_SHOWN]
    listed = ", ".join(f"{name} {size}" for name, size in largest)
    return f"give role {role.name} less to hold in the registers of a thread ({listed})"


def _scarce(attempts: list[Attempt]) -> str:
    """What registers were too few for."""
    tried = ", ".join(_lack(a) + _with(a.variation) for a in attempts)
    if attempts[-1].report.unfenced:
        return f"the compiler moves registers of products across what orders them ({tried})"
    if any(a.report.local_bytes for a in attempts):
        return f"registers do not suffice ({tried})"
    return f"registers do not suffice, or conditions stand around accumulators ({tried})"


def _with(variation: Variation) -> str:
    """How an attempt was made, behind what it lacks."""
    more = f"{variation.more_registers} more" if variation.more_registers else ""
    rest = replace(variation, more_registers=0)
    other = "" if rest == Variation() else rest.text
    parts = " and ".join(filter(None, (more, other)))
    return f" with {parts}" if parts else ""


def _lack(attempt: Attempt) -> str:
    if attempt.report.local_bytes:
        return f"{attempt.report.local_bytes} bytes are spilled to local memory"
    if attempt.report.unfenced:
        first = attempt.report.unfenced[0]
        return f"{first} with no {first.missing} between them"
    return "products are serialized"
