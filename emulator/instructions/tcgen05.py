"""tcgen05: allocation, fences, waits and commits (PTX ISA 9.7.16.7, .8.5, .11, .12).

Rules C1 to C18 of the project's notes. Copies, loads, stores and products have modules of their
own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from schedgen.emulator.instructions.access import Access
from schedgen.emulator.instructions.forms import Form
from schedgen.emulator.instructions.in_flight import flight
from schedgen.emulator.instructions.operands import address, uniform
from schedgen.emulator.instructions.table import Environment, Execute, builds, unsupported
from schedgen.emulator.instructions.tcgen05_operands import (
    blocks_of,
    group_of,
    meet,
    tensor_cells,
)
from schedgen.emulator.instructions.tma_operands import lanes_of, place
from schedgen.emulator.machine.block import Block
from schedgen.emulator.machine.conditions import Condition
from schedgen.emulator.machine.lanes import Decoder, error
from schedgen.emulator.machine.steps import Control, WarpOperation
from schedgen.emulator.machine.switches import EmptyCommit
from schedgen.emulator.order.tracker import Queue
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp


@builds("tcgen05.alloc")
def _alloc(instruction: Instruction, decoder: Decoder, environment: Environment) -> Control:
    form = Form(instruction, decoder, environment)
    group = group_of(form)
    for name in ("alloc", "sync", "aligned", "b32"):
        form.choose(name)
    space = "shared::cta" if form.flag("shared::cta") else ""
    form.finish(2)
    targets = address(form.operands[0], decoder, instruction)
    counts = form.source(form.operands[1], "u32")
    access = Access(instruction, space, 4, 1)

    def run(warp: Warp) -> Condition | None:
        columns = uniform(warp, counts(warp), "the number of columns", instruction)
        tensor = warp.block.tensor
        if warp.resumed is None:
            blocks_of(warp, group, instruction)
        number = 0
        if group == 2:
            number, condition = meet(warp, "tcgen05.alloc")
            if condition is not None:
                return condition
        tensor.check(columns, instruction)
        if not tensor.granted:
            # In both CTAs at once: who returns first may use the peer's columns.
            blocks = blocks_of(warp, group, instruction)
            for block in blocks:
                if not block.tensor.fits(columns):
                    condition = block.tensor.until(columns)
                    condition.tag = number
                    return condition
            for block in blocks:
                block.tensor.grant(columns, instruction)
                if warp.machine.tracking:
                    cells = tensor_cells(block, block.tensor.granted[-1][0], columns)
                    warp.machine.tracker.allocate(warp.number, cells, instruction.line)
        first = tensor.take(columns, instruction)
        lane = np.array([uniform(warp, targets(warp), "the address", instruction)], np.uint64)
        access.put(warp, lane, np.array([[first]], np.uint32))
        return None

    return Control(run)


@builds("tcgen05.dealloc")
def _dealloc(instruction: Instruction, decoder: Decoder, environment: Environment) -> Control:
    form = Form(instruction, decoder, environment)
    group = group_of(form)
    for name in ("dealloc", "sync", "aligned", "b32"):
        form.choose(name)
    form.finish(2)
    targets = form.source(form.operands[0], "u32")
    counts = form.source(form.operands[1], "u32")

    def run(warp: Warp) -> Condition | None:
        if warp.resumed is None:
            warp.block.tensor.use(group, instruction)
        if group == 2 and warp.machine.switches.dealloc_blocks:
            _, condition = meet(warp, "tcgen05.dealloc")
            if condition is not None:
                return condition
        columns = uniform(warp, counts(warp), "the number of columns", instruction)
        first = uniform(warp, targets(warp), "the address", instruction)
        warp.block.tensor.held(first, columns, instruction)
        if warp.machine.tracking:
            cells, peer = tensor_cells(warp.block, first, columns), None
            if group == 2:
                other = warp.block.cluster.blocks[warp.block.rank ^ 1]
                peer = tensor_cells(other, first, columns)
            warp.machine.tracker.deallocate(warp.number, cells, instruction.line, peer)
        warp.block.tensor.free(first, columns, instruction)
        return None

    return Control(run)


@builds("tcgen05.relinquish_alloc_permit")
def _relinquish(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    group = group_of(form)
    for name in ("relinquish_alloc_permit", "sync", "aligned"):
        form.choose(name)
    form.finish(0)

    def run(warp: Warp) -> None:
        warp.block.tensor.use(group, instruction)
        warp.block.tensor.relinquish(instruction)

    return run


@builds("tcgen05.fence::before_thread_sync", "tcgen05.fence::after_thread_sync")
def _fence(instruction: Instruction, _decoder: Decoder, _environment: Environment) -> Execute:
    kind, *rest = instruction.modifiers
    if rest:
        raise unsupported(instruction, rest)
    before = kind == "fence::before_thread_sync"

    def run(warp: Warp) -> None:
        if warp.machine.tracking:
            warp.machine.tracker.tcgen05_fence(warp.number, before=before)

    return run


@builds("tcgen05.wait::ld", "tcgen05.wait::st")
def _wait(instruction: Instruction, _decoder: Decoder, _environment: Environment) -> Control:
    if instruction.modifiers[1:] != ("sync", "aligned"):
        raise unsupported(instruction, instruction.modifiers[1:])
    load = instruction.modifiers[0] == "wait::ld"
    queue = Queue.TMEM_LOAD if load else Queue.TMEM_STORE

    def run(warp: Warp) -> Condition | None:
        groups = flight(warp).loads if load else flight(warp).stores
        groups.commit()
        condition = groups.wait(0)
        if condition is None and warp.machine.tracking:
            warp.machine.tracker.tmem_wait(warp.number, queue)
        return condition

    return Control(run)


class _Commit(WarpOperation):
    """Arrives on mbarriers when all products and copies before it have executed."""

    __slots__ = ("_where", "targets")

    def __init__(self, warp: Warp, where: Instruction, targets: list[tuple[Block, int]]) -> None:
        super().__init__(warp, "tcgen05.commit", where.line, Queue.MMA)
        self._where = where
        self.targets = targets

    def execute(self) -> None:
        machine, where = self.warp.machine, self._where
        for block, offset in self.targets:
            if block is self.warp.block and block.finished:
                # Nobody can wait for it any more: it is dropped.
                machine.broken(
                    where,
                    "N9",
                    f"may arrive when {block.title}, which has issued it, has exited, so that the "
                    "mbarrier is gone; wait for its phase before the exit",
                    machine.switches.store_at_exit,
                )
                continue
            block.cluster.peer(block.rank, where)
            barrier = block.mbarrier(offset, where)
            phase = barrier.arrive(1, f"tcgen05.commit of {self.warp.title}", where)
            if machine.tracking:
                machine.tracker.commit(
                    self.warp.number, barrier.key, phase, line=self.line, operation=self.handle
                )

    def explain(self) -> str:
        found = ", ".join(f"{offset:#x} of {block.title}" for block, offset in self.targets)
        return f"{super().explain()}, that arrives on the mbarrier at {found}"


@builds("tcgen05.commit")
def _commit(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    group = group_of(form)
    for name in ("commit", "mbarrier::arrive::one", "b64"):
        form.choose(name)
    form.flag("shared::cluster")
    many = form.flag("multicast::cluster")
    form.finish(1 + many)
    barriers = address(form.operands[0], decoder, instruction)
    masks = form.source(form.operands[1], "b16", wider=True) if many else None

    def run(warp: Warp) -> None:
        blocks_of(warp, group, instruction)
        found = barriers(warp)
        mask = masks(warp) if masks is not None else None
        for lane in lanes_of(warp):
            target = place(warp, int(found[lane]), instruction, remote=True)
            targets = [target]
            if mask is not None:
                targets = _multicast(warp, target, int(mask[lane]) & 0xFFFF, group, instruction)
            for block, offset in targets:
                block.mbarrier(offset, instruction)
            commit = _Commit(warp, instruction, targets)
            warp.machine.operations.issue(commit, warp.block.products)

    return run


def _multicast(
    warp: Warp, target: tuple[Block, int], mask: int, group: int, where: Instruction
) -> list[tuple[Block, int]]:
    """The mbarriers that a multicast commit arrives on.

    With cta_group::2 and nothing to track only that of the executing CTA, by switch S7. A warp
    counts as having something to track once it has issued any product or copy.
    """
    cluster = warp.block.cluster
    if not mask or mask >> cluster.size:
        raise error(where, f"CTA mask {mask:#x} for a cluster of {cluster.size} CTAs")
    local = warp.machine.switches.empty_commit is EmptyCommit.LOCAL_ONLY
    if group == 2 and local and not flight(warp).products:
        return [(warp.block, target[1])]
    ranks = [rank for rank in range(cluster.size) if mask >> rank & 1]
    return [(cluster.peer(rank, where), target[1]) for rank in ranks]
