"""Cycles of a compiled kernel, as lines and as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from schedgen.cycles.predict import Cycles
from schedgen.program.model import Program

_LEAST = 0.5
"""Cycles of an iteration that are worth a word."""


def lines(found: Cycles, program: Program) -> Iterator[str]:
    """For a person: the iteration, and what each role's cycles go into, most first."""
    ii = program.ii_cycles
    yield f"  an iteration   {found.iteration:.0f} cycles by its machine code; II {ii}"
    for role, spent in found.spent.items():
        parts = ", ".join(f"{what} {cycles:.0f}" for what, cycles in _ordered(spent))
        yield f"  {role:14} {found.instructions[role]} instructions: {parts}"
    if found.share < 1:
        yield f"  {found.share:.0%} of what synchronizes was found in program and machine code"


def data(found: Cycles, program: Program) -> dict[str, Any]:
    """For `--json`; cycles of an iteration."""
    return {
        "kernel": program.kernel,
        "target": program.target,
        "ii_cycles": program.ii_cycles,
        "cycles": round(found.iteration, 1),
        "matched": round(found.share, 3),
        "roles": {
            role: {
                "instructions": found.instructions[role],
                "cycles": {what: round(cycles, 1) for what, cycles in _ordered(spent)},
            }
            for role, spent in found.spent.items()
        },
    }


def _ordered(spent: Mapping[str, float]) -> list[tuple[str, float]]:
    most = sorted(spent.items(), key=lambda one: -one[1])
    return [(what, cycles) for what, cycles in most if cycles >= _LEAST]
