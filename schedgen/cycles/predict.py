"""What an iteration of a compiled kernel takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from schedgen.conform.assembly import disassembler
from schedgen.conform.listing import Listing, disassembled
from schedgen.conform.listing import Machine as Instruction
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
    and machine code that was found in both; the least of all roles. ``each``: a turn of each role's
    loop, with the cycles from when the instruction before is issued until this one is.
    """

    iteration: float
    instructions: Mapping[str, int]
    spent: Mapping[str, Mapping[str, float]]
    share: float
    each: Mapping[str, tuple[tuple[Instruction, float], ...]]


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
    roles = {name: {what for one in found for what in one.spent[name]} for name in code}
    return Cycles(
        fmean(one.time for one in found),
        {name: len(one.turn) for name, one in code.items()},
        {
            name: {what: fmean(one.spent[name].get(what, 0.0) for one in found) for what in whats}
            for name, whats in roles.items()
        },
        min((one.share for one in code.values()), default=0.0),
        {
            name: tuple(
                (instruction, fmean(one.each[name][at] for one in found))
                for at, instruction in enumerate(turned.turn)
            )
            for name, turned in code.items()
        },
    )


@dataclass(frozen=True, slots=True)
class _Steady:
    """Cycles of an iteration, what each role's go into, and those of each of its instructions."""

    time: float
    spent: Mapping[str, Mapping[str, float]]
    each: Mapping[str, Sequence[float]]


def _steady(
    program: Program, code: Mapping[str, Matched], machine: Machine, apart: float
) -> _Steady:
    filled = min(max(_FILLED, _SETTLED // max(program.ii_cycles, 1)), _MOST_FILLED)
    few, many = (
        Executed(program, machine, trips, code, apart) for trips in (filled, filled + _COUNTED)
    )
    time = many.cycles() - few.cycles()
    spent = {name: _each(all_, few.spent[name]) for name, all_ in many.spent.items()}
    before = few.each
    each = {
        name: [(a - b) / _COUNTED for a, b in zip(all_, before[name], strict=True)]
        for name, all_ in many.each.items()
    }
    return _Steady(time / _COUNTED, spent, each)


def _each(many: Mapping[str, float], few: Mapping[str, float]) -> dict[str, float]:
    """Cycles of an iteration, by what they went into."""
    found = {what: (many[what] - few.get(what, 0.0)) / _COUNTED for what in many}
    return {what: spent for what, spent in found.items() if spent > 0}
