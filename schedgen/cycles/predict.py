"""What an iteration of a compiled kernel takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from schedgen.conform.assembly import disassembler
from schedgen.conform.listing import Listing, disassembled
from schedgen.cycles.executing import Executed
from schedgen.cycles.matching import Matched, matched
from schedgen.errors import SchedgenError
from schedgen.machine import Machine
from schedgen.program.model import Program

ARCH = "sm_90a"
"""Whose machine code is priced."""
_FILLED, _COUNTED = 12, 24
_SETTLED, _MOST_FILLED = 6000, 60
"""Iterations until a kernel is in its steady state: those of so many cycles; and those counted."""


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles of an iteration, and of each role what they go into: waits by what is waited for.

    ``instructions``: of each role in a turn of its loop. ``share``: of synchronization in program
    and machine code that was found in both; the least of all roles.
    """

    iteration: float
    instructions: Mapping[str, int]
    spent: Mapping[str, Mapping[str, float]]
    share: float


def cycles(program: Program, cubin: Path, machine: Machine) -> Cycles:
    """What an iteration of ``program`` takes as it was assembled; copies are those of
    `schedgen.execution.issuing.issued`, constants of ``machine`` at the high end.

    Raises SchedgenError: there is no disassembler, or the machine's code is not priced.
    """
    if program.arch != ARCH:
        raise SchedgenError(unpriced(program.arch))
    tool = disassembler()
    if tool is None:
        raise SchedgenError(
            "there is no nvdisasm; fix: pip install nvidia-cuda-nvdisasm, or put it on the path"
        )
    text = disassembled(tool, cubin, encodings=True)
    return of_code(program, matched(program, Listing(text).turns()), machine)


def unpriced(arch: str) -> str:
    """Why there is nothing to say of a kernel for ``arch``."""
    return (
        f"machine code of {arch} is not priced, only that of {ARCH}, which was measured; "
        "fix: a kernel for h200"
    )


def of_code(program: Program, code: Mapping[str, Matched], machine: Machine) -> Cycles:
    """The same of machine code that was matched: the mean of roles that begin together and of roles
    that begin half an II after each other. Raises SchedgenError: as `cycles`.
    """
    found = [_steady(program, code, machine, apart) for apart in (0.0, program.ii_cycles / 2)]
    roles = {name: {what for _, spent in found for what in spent[name]} for name in code}
    return Cycles(
        fmean(time for time, _ in found),
        {name: len(one.turn) for name, one in code.items()},
        {
            name: {what: fmean(spent[name].get(what, 0.0) for _, spent in found) for what in whats}
            for name, whats in roles.items()
        },
        min((one.share for one in code.values()), default=0.0),
    )


def _steady(
    program: Program, code: Mapping[str, Matched], machine: Machine, apart: float
) -> tuple[float, Mapping[str, Mapping[str, float]]]:
    """Cycles of an iteration in the steady state, and what each role's go into."""
    filled = min(max(_FILLED, _SETTLED // max(program.ii_cycles, 1)), _MOST_FILLED)
    few, many = (
        Executed(program, machine, trips, code, apart) for trips in (filled, filled + _COUNTED)
    )
    time = many.cycles() - few.cycles()
    return time / _COUNTED, {n: _each(spent, few.spent[n]) for n, spent in many.spent.items()}


def _each(many: Mapping[str, float], few: Mapping[str, float]) -> dict[str, float]:
    """Cycles of an iteration, by what they went into."""
    found = {what: (many[what] - few.get(what, 0.0)) / _COUNTED for what in many}
    return {what: spent for what, spent in found.items() if spent > 0}
