"""Attempts at a kernel: what the compiler made of each, how far that is from what was planned, and
which is the best.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from schedgen.conform.overlap import Overlap
from schedgen.driver.pricing import cycles_of, prices
from schedgen.driver.variations import HASTY, Variation

if TYPE_CHECKING:
    from schedgen.codegen.report import Report
    from schedgen.driver.emitting import Emission
    from schedgen.emulator.ptx.tree import Module
    from schedgen.stored import Store

_SLACK = 50
"""One of so many cycles beside products may be lost: single instructions that conditions need."""
_NEAR = 100
"""Cycles of iterations that differ by one of so many are taken for the same: predictions are no
closer to what is measured (docs/calibration.md)."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A kernel that was compiled, and what came of it.

    Attributes:
        variation: how it was made.
        report: what the compiler says.
        overlap: what its machine code has beside products; None if that is not known, because
            there is no disassembler, or the kernel is not acceptable anyway.
        differences: where its PTX is not its program; None if that was not compared.
        cycles: of an iteration, by its machine code; None if that is not known.
        chosen: whether it is the one that is taken.
    """

    variation: Variation
    report: Report
    overlap: Overlap | None = None
    differences: tuple[str, ...] | None = None
    cycles: float | None = None
    chosen: bool = False

    @property
    def usable(self) -> bool:
        """Whether it may be taken at all."""
        return acceptable(self.report) and not self.differences

    @property
    def keeps(self) -> bool:
        """Whether its machine code has beside products what its PTX has there, or nobody knows."""
        if self.overlap is None:
            return True
        lost, planned = self.overlap.lost_cycles, self.overlap.cycles
        return not self.overlap.unknown and lost * _SLACK <= planned


def acceptable(report: Report) -> bool:
    """Whether a kernel is to be used: nothing is spilled, no product waits for another, and the
    compiler left registers of products alone behind their fences.
    """
    return not (report.local_bytes or report.serialized or report.unfenced)


def best(attempts: Sequence[Attempt]) -> int | None:
    """Which of ``attempts`` is to be taken; None if none is usable.

    The one with the fewest cycles by its machine code, if those of all are known. Of equal ones,
    and if not, one without words of `HASTY`; of those the one that loses least of what the first of
    them has beside products in its PTX, so that one which plans less does not win by that; of those
    the one with the fewest instructions in loops with products; of those the first. Where roles
    share instructions there are fewer loops, so work beside products is compared by the loop. One
    that cannot be compared comes behind all that can.
    """
    usable = _fastest([n for n, one in enumerate(attempts) if one.usable], attempts)
    known = [one.overlap for one in attempts if one.overlap is not None and not one.overlap.unknown]
    planned = _by_loop(known[0].cycles, known[0]) if known else Fraction(0)

    def rank(number: int) -> tuple[int, bool, Fraction, int, int]:
        found, words = attempts[number].overlap, attempts[number].variation.style.words
        hasty = len(set(words).intersection(HASTY))
        if found is None or found.unknown:
            return hasty, True, Fraction(0), 0, number
        lost = max(Fraction(0), planned - _by_loop(found.cycles - found.lost_cycles, found))
        lost = Fraction(0) if lost * _SLACK <= planned else lost
        return hasty, False, lost, found.instructions, number

    return min(usable, key=rank, default=None)


def _fastest(usable: list[int], attempts: Sequence[Attempt]) -> list[int]:
    """Those of ``usable`` with the fewest cycles, or all if nobody knows."""
    known = {n: cycles for n in usable if (cycles := attempts[n].cycles) is not None}
    if len(known) < len(usable):
        return usable
    return [n for n in usable if known[n] * _NEAR <= min(known.values()) * (_NEAR + 1)]


def _by_loop(cycles: int, overlap: Overlap) -> Fraction:
    return Fraction(cycles, max(1, len(overlap.loops)))


def compiled(
    emitted: Emission, variation: Variation, store: Store | None, *, conform: bool
) -> Attempt:
    """What the compiler makes of ``emitted``; if that is `acceptable`, what of it is beside
    products, what an iteration takes and, with ``conform``, whether it is its program. ``store``
    may have all of it, by the text of the file and the versions of the compiler. The files that it
    wrote are gone.

    Raises CompileError.
    """
    from pydantic import TypeAdapter

    from schedgen.codegen.compiling import packages
    from schedgen.codegen.report import Report, compile_report

    reports: TypeAdapter[Report] = TypeAdapter(Report)
    overlaps: TypeAdapter[Overlap] = TypeAdapter(Overlap)
    made_from = [sha256(emitted.text.encode()).hexdigest(), emitted.name, *packages()]
    kept = store.get("report", made_from) if store is not None else None
    if store is not None and kept:
        report = reports.validate_json(kept)
        if not acceptable(report):
            return Attempt(variation, report)
        beside = store.get("overlap", made_from)
        same = store.get("conformance", made_from)
        priced = store.get("cycles", [*made_from, *prices(emitted)])
        if ((priced and beside) or not measurable()) and (same or not conform):
            overlap = overlaps.validate_json(beside) if beside else None
            differences = tuple(json.loads(same)) if conform and same else None
            cycles = json.loads(priced) if priced else None
            return Attempt(variation, report, overlap, differences, cycles)
    with TemporaryDirectory(prefix="schedgen-") as scratch:
        path = Path(scratch) / emitted.name
        path.write_text(emitted.text, encoding="utf-8")
        report = compile_report(path, Path(scratch) / "compiled")
        overlap, differences, cycles = None, None, None
        if acceptable(report):
            overlap, cycles = overlap_of(report), cycles_of(report, emitted)
            differences = differences_of(report, emitted) if conform else None
    if store is not None:
        store.put("report", made_from, reports.dump_json(report).decode())
        if overlap is not None:
            store.put("overlap", made_from, overlaps.dump_json(overlap).decode())
            store.put("cycles", [*made_from, *prices(emitted)], json.dumps(cycles))
        if differences is not None:
            store.put("conformance", made_from, json.dumps(differences))
    return Attempt(variation, report, overlap, differences, cycles)


def measurable() -> bool:
    """Whether machine code can be read."""
    from schedgen.conform.assembly import disassembler

    return disassembler() is not None


def overlap_of(report: Report) -> Overlap | None:
    """What a compiled kernel has beside products of Hopper, in its PTX and in its machine code;
    None if there is no nvdisasm. Raises SchedgenError if that cannot read it.
    """
    from schedgen.conform.assembly import disassembler
    from schedgen.conform.listing import disassembled
    from schedgen.conform.overlap import NOTHING, overlap

    (kernel,) = _module(report).kernels.values()
    tool = disassembler()
    if not any(one.opcode == "wgmma" for one in kernel.body):
        return NOTHING
    if tool is None:
        return None
    return overlap(kernel, disassembled(tool, report.built.cubin, encodings=True))


def differences_of(report: Report, emitted: Emission) -> tuple[str, ...]:
    """Where a compiled kernel is not its program, or cannot be compared with it."""
    from schedgen.conform.check import conform

    kernel = emitted.solution.problem.kernel
    found = conform(_module(report), emitted.proven.program, kernel)
    return tuple(finding.text for finding in found.findings)


def _module(report: Report) -> Module:
    return _parsed(report.built.ptx, report.built.ptx.stat().st_mtime_ns)


@lru_cache(maxsize=1)
def _parsed(path: Path, _: int) -> Module:
    """The PTX of a file as it was changed last: what it has beside products and whether it is its
    program are asked one after the other."""
    from schedgen.emulator.ptx.parse import parse

    return parse(path.read_text("utf-8"), str(path))
