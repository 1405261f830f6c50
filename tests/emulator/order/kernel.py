"""Kernels in short form for tests: every call is an instruction with a line of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from schedgen.emulator.machine.switches import Switches, Verdict
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.order.findings import Defect, Flaw, Missing, Race
from schedgen.emulator.order.footprint import Footprint, Ranges
from schedgen.emulator.order.tracker import Cells, Queue, Space

Bytes = tuple[int, int]
"""First byte (or cell of tensor memory) and number."""


def shared(where: Bytes, cta: int = 0) -> Cells:
    return Cells(Space.SHARED, cta, slice(where[0], where[0] + where[1]))


def memory(where: Bytes) -> Cells:
    return Cells(Space.GLOBAL, -1, slice(where[0], where[0] + where[1]))


def tensor(where: Bytes, lanes: tuple[int, int] = (0, 128), cta: int = 0) -> Cells:
    """Columns ``where`` of some lanes."""
    starts = np.arange(*lanes) * 512 + where[0]
    return Cells(Space.TENSOR, cta, starts, where[1])


class Kernel:
    """A launch of CTAs.

    Args:
        warps: warps per CTA; warp 8 is the first of CTA 1.
        cluster: CTAs per cluster.
        dependent: launched before the kernel in front of it has ended.
        settings: fields of `Switches`.
    """

    MMA = Queue.MMA

    def __init__(
        self,
        *,
        warps: int = 8,
        cluster: int = 1,
        uninitialized: Verdict = Verdict.OFF,
        dependent: bool = False,
        followed: Ranges | None = None,
        before: Footprint | None = None,
        **settings: Any,
    ) -> None:
        self.checker = Checker(
            warps, lambda cta: cta // cluster, switches=Switches(**settings),
            uninitialized=uninitialized, dependent=dependent, followed=followed,
            before=before,
        )  # fmt: skip
        self.line = 0
        self._generations = 0

    def at(self) -> int:
        self.line += 1
        return self.line

    # -- threads --------------------------------------------------------------------------------

    def read(self, warp: int, where: Bytes, cta: int = 0) -> int:
        line = self.at()
        self.checker.generic(warp, shared(where, cta), write=False, line=line)
        return line

    def write(
        self,
        warp: int,
        where: Bytes,
        cta: int = 0,
        *,
        same: bool = False,
        changed: Iterable[int] | None = None,
        line: int | None = None,
    ) -> int:
        """``changed``: the bytes that held something else, where that is known."""
        line = line or self.at()
        told = None if changed is None else lambda: np.array([*changed], np.int64)
        cells = shared(where, cta)
        self.checker.generic(warp, cells, write=True, line=line, same=same, changed=told)
        return line

    def fence(self, warp: int, space: Space | None = Space.SHARED) -> None:
        self.at()
        self.checker.proxy_fence(warp, space)

    def sync(self, *warps: int) -> None:
        """bar.sync"""
        self._generations += 1
        line = self.at()
        for warp in warps:
            self.checker.signal(warp, (0, 1), self._generations, line=line)
        for warp in warps:
            self.checker.leave(warp, (0, 1), self._generations, line=line)

    def barrier(self, *offsets: int, cta: int = 0, warps: Iterable[int] = range(8)) -> None:
        """mbarrier.init by the first of some warps, then bar.sync of all."""
        everyone = tuple(warps)
        for offset in offsets:
            self.checker.barrier_init(everyone[0], (cta, offset), self.at())
        self.checker.barrier_init_fence(everyone[0])
        self.checker.join(everyone, everyone, cluster=False)

    def arrive(self, warp: int, offset: int, phase: int = 0, cta: int = 0, **how: bool) -> None:
        self.checker.arrive(warp, (cta, offset), phase, line=self.at(), **how)

    def wait(self, warp: int, offset: int, phase: int = 0, cta: int = 0, **how: bool) -> None:
        self.checker.wait(warp, (cta, offset), phase, line=self.at(), **how)

    # -- copies ---------------------------------------------------------------------------------

    def load(
        self,
        warp: int,
        where: Bytes,
        offset: int,
        phase: int = 0,
        ctas: tuple[int, ...] = (0,),
        signal: int | None = None,
    ) -> None:
        """A bulk load that executes at once; ``signal``: the CTA of the mbarrier (T4)."""
        copy = self.copy(warp)
        self.loaded(copy, where, offset, phase, ctas, signal)

    def copy(self, warp: int) -> int:
        """A bulk load is issued."""
        return self.checker.issue(warp, Queue.BULK_LOAD, self.at())

    def loaded(
        self,
        copy: int,
        where: Bytes,
        offset: int,
        phase: int = 0,
        ctas: tuple[int, ...] = (0,),
        signal: int | None = None,
    ) -> None:
        for cta in ctas:
            self.checker.access(copy, shared(where, cta), write=True)
        for cta in ctas if signal is None else (signal,):
            self.checker.track(copy, (cta, offset), phase)
        self.checker.finish(copy)

    def store(self, warp: int, where: Bytes, to: Bytes = (0, 0)) -> None:
        """A bulk store that executes at once."""
        self.stored(self.checker.issue(warp, Queue.BULK_STORE, self.at()), where, to)

    def stored(self, copy: int, where: Bytes, to: Bytes = (0, 0)) -> None:
        self.checker.access(copy, shared(where), write=False)
        self.checker.access(copy, memory(to), write=True)
        self.checker.finish(copy)

    # -- tensor cores ---------------------------------------------------------------------------

    def mma(
        self,
        warp: int,
        out: Bytes,
        operands: Iterable[Bytes] = (),
        probabilities: Bytes | None = None,
        chain: object = None,
    ) -> None:
        """tcgen05.mma that reads shared memory, and tensor memory where given."""
        product = self.checker.issue(warp, Queue.MMA, self.at(), chain=chain)
        for operand in operands:
            self.checker.access(product, shared(operand), write=False)
        if probabilities is not None:
            self.checker.access(product, tensor(probabilities), write=False)
        self.checker.access(product, tensor(out), write=True)
        self.checker.finish(product)

    def copy_in(self, warp: int, out: Bytes) -> None:
        """tcgen05.cp"""
        copy = self.checker.issue(warp, Queue.MMA, self.at())
        self.checker.access(copy, tensor(out), write=True)
        self.checker.finish(copy)

    def commit(self, warp: int, offset: int, phase: int = 0, cta: int = 0) -> None:
        line = self.at()
        ticket = self.checker.issue(warp, Queue.MMA, line)
        self.checker.commit(warp, (cta, offset), phase, line=line, operation=ticket)
        self.checker.finish(ticket)

    def ld(self, warp: int, columns: Bytes) -> int:
        """tcgen05.ld of the 32 lanes of a warp; returns its handle."""
        return self._tensor(warp, Queue.TMEM_LOAD, columns)

    def st(self, warp: int, columns: Bytes, cta: int = 0) -> int:
        return self._tensor(warp, Queue.TMEM_STORE, columns, cta)

    def wait_ld(self, warp: int) -> None:
        self.checker.tmem_wait(warp, Queue.TMEM_LOAD)

    def wait_st(self, warp: int) -> None:
        self.checker.tmem_wait(warp, Queue.TMEM_STORE)

    def before(self, warp: int) -> None:
        self.checker.tcgen05_fence(warp, before=True)

    def after(self, warp: int) -> None:
        self.checker.tcgen05_fence(warp, before=False)

    def wgmma(self, warps: tuple[int, ...], operand: Bytes) -> None:
        line = self.at()
        product = self.checker.issue(warps[0], Queue.WGMMA, line, together=warps)
        self.checker.access(product, shared(operand), write=False)
        self.checker.finish(product)
        for warp in warps:
            self.checker.group_commit(warp, Queue.WGMMA)

    def _tensor(self, warp: int, queue: Queue, columns: Bytes, cta: int = 0) -> int:
        operation = self.checker.issue(warp, queue, self.at())
        lanes = 32 * (warp % 4)
        cells = tensor(columns, (lanes, lanes + 32), cta)
        self.checker.access(operation, cells, write=queue is Queue.TMEM_STORE)
        self.checker.finish(operation)
        return operation

    # -- verdicts -------------------------------------------------------------------------------

    def clean(self) -> bool:
        """Nothing found; prints what was."""
        print(self.checker.report())
        return not self.checker.findings

    def race(self) -> Race:
        """The only finding."""
        print(self.checker.report())
        (finding,) = self.checker.findings
        assert isinstance(finding, Race)
        return finding

    def races(self) -> list[Race]:
        return [finding for finding in self.checker.findings if isinstance(finding, Race)]

    def defects(self) -> list[Defect]:
        return [finding for finding in self.checker.findings if isinstance(finding, Defect)]

    def missing(self) -> set[Missing | Flaw]:
        """What all findings are about."""
        return {f.missing for f in self.races()} | {f.flaw for f in self.defects()}

    def defect(self) -> Defect:
        """The only finding."""
        print(self.checker.report())
        (finding,) = self.checker.findings
        assert isinstance(finding, Defect)
        return finding
