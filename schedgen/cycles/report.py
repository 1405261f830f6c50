"""Cycles of a compiled kernel, as lines and as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from schedgen.cycles.predict import Cycles
from schedgen.program.model import Program

_LEAST = 0.5
"""Cycles of an iteration that are worth a word."""


def lines(found: Cycles, program: Program, *, each: bool = False) -> Iterator[str]:
    """For a person: the iteration, and what each role's cycles go into, most first; with ``each``
    those of its instructions, too, from when the one before is issued.
    """
    ii = program.ii_cycles
    yield f"  an iteration   {found.iteration:.0f} cycles by its machine code; II {ii}"
    for role, spent in found.spent.items():
        parts = ", ".join(f"{what} {cycles:.0f}" for what, cycles in _ordered(spent))
        yield f"  {role:14} {found.instructions[role]} instructions: {parts}"
        for one, cycles in found.each[role] if each else ():
            yield f"    {cycles:7.1f}  {one.address:>7}  {one.text}"
    if found.share < 1:
        yield f"  {found.share:.0%} of what synchronizes was found in program and machine code"


def data(found: Cycles, program: Program, *, each: bool = False) -> dict[str, Any]:
    """For `--json`; cycles of an iteration, with ``each`` of instructions, too."""
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
                **({"each": _each(found, role)} if each else {}),
            }
            for role, spent in found.spent.items()
        },
    }


def _each(found: Cycles, role: str) -> list[dict[str, Any]]:
    return [
        {"address": one.address, "instruction": one.text, "cycles": round(cycles, 1)}
        for one, cycles in found.each[role]
    ]


def _ordered(spent: Mapping[str, float]) -> list[tuple[str, float]]:
    most = sorted(spent.items(), key=lambda one: -one[1])
    return [(what, cycles) for what, cycles in most if cycles >= _LEAST]
