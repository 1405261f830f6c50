"""st.async and red.async to the shared memory of a cluster (PTX ISA 9.7.9.12, 9.7.13.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from schedgen.emulator.instructions.access import Access, executing_rows
from schedgen.emulator.instructions.memory import rows_of
from schedgen.emulator.instructions.operands import address, executing, items
from schedgen.emulator.instructions.table import Environment, Execute, builds, unsupported
from schedgen.emulator.instructions.tma_reduce import OPERATIONS, reduce, supported
from schedgen.emulator.machine.block import Block
from schedgen.emulator.machine.lanes import NUMPY, Decoder, Lanes, error
from schedgen.emulator.machine.mbarrier import Mbarrier
from schedgen.emulator.machine.memory import Offsets
from schedgen.emulator.machine.steps import WarpOperation
from schedgen.emulator.order.tracker import Queue
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_KNOWN = {"async", "cluster", "shared::cluster", "mbarrier::complete_tx::bytes"}
_REDUCED = ("u32", "s32", "u64", "b32")


class _RemoteStore(WarpOperation):
    """Values for the shared memory of one CTA, or reductions there, and complete-tx."""

    __slots__ = ("_access", "_addresses", "_barrier", "_reduction", "_target", "_values")

    def __init__(
        self,
        warp: Warp,
        access: Access,
        target: Block,
        barrier: Mbarrier,
        addresses: Offsets,
        values: Lanes,
        reduction: tuple[str, str] | None,
    ) -> None:
        name = "st.async" if reduction is None else "red.async"
        super().__init__(warp, name, access.where.line, Queue.STORE_ASYNC)
        self._reduction = reduction
        self._access = access
        self._target = target
        self._barrier = barrier
        self._addresses = addresses
        self._values = values

    def execute(self) -> None:
        access, shared = self._access, self._target.shared
        size = access.width * access.count
        if self._reduction is None:
            shared.store(self._addresses, self._values, access.width, access.count, access.where)
        else:
            self._reduce(*self._reduction)
        machine = self.warp.machine
        if machine.tracking:
            cells = shared.cells(self._addresses, size)
            atomic = self._reduction is not None
            machine.tracker.access(self.handle, cells, write=True, atomic=atomic)
            machine.tracker.track(self.handle, self._barrier.key, self._barrier.phase)
        self._barrier.complete(size * len(self._addresses), access.where)

    def _reduce(self, operation: str, type_: str) -> None:
        """One lane after the other: they may name the same address."""
        memory, width = self._target.shared.bytes, self._access.width
        for at, value in zip(self._addresses.tolist(), self._values[0], strict=True):
            new = np.array([value]).view(np.uint8)
            memory[at : at + width] = reduce(memory[at : at + width].copy(), new, operation, type_)


@builds("st.async")
def _st_async(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    *modifiers, type_ = instruction.modifiers
    left = set(modifiers) - _KNOWN - {"weak", "v2", "v4"}
    if left or type_ not in NUMPY:
        raise unsupported(instruction, left or (type_,))
    return _issuing(instruction, decoder, None)


@builds("red.async")
def _red_async(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    *modifiers, type_ = instruction.modifiers
    operation = next((one for one in modifiers if one in OPERATIONS), "")
    left = set(modifiers) - _KNOWN - {"relaxed", operation}
    if left or not operation or type_ not in _REDUCED or not supported(operation, type_):
        raise unsupported(instruction, left or (type_,))
    return _issuing(instruction, decoder, (operation, type_))


def _issuing(where: Instruction, decoder: Decoder, reduction: tuple[str, str] | None) -> Execute:
    """What issues the operations of a warp, one for each CTA and mbarrier."""
    type_ = where.modifiers[-1]
    sources = items(where.operands[1])
    space = "shared::cluster" if "shared::cluster" in where.modifiers else ""
    access = Access(where, space, np.dtype(NUMPY[type_]).itemsize, len(sources))
    addresses = address(where.operands[0], decoder, where)
    reads = [decoder.read(source, type_, where) for source in sources]
    barriers = address(where.operands[2], decoder, where)

    def run(warp: Warp) -> None:
        cluster = warp.block.cluster
        data = executing(warp, addresses(warp)).tolist()
        signal = executing(warp, barriers(warp)).tolist()
        values = executing_rows(warp, rows_of([read(warp) for read in reads]))
        for pair in dict.fromkeys((a >> 24, b) for a, b in zip(data, signal, strict=True)):
            target, offset = cluster.locate(pair[1] & 0xFFFFFFFF, where)
            if target.rank != pair[0] & 0xFF:
                raise error(where, "data and mbarrier are in different CTAs (rule T12)")
            mine = [
                at
                for at, (a, b) in enumerate(zip(data, signal, strict=True))
                if (a >> 24, b) == pair
            ]
            offsets = np.array([data[at] & 0xFFFFFF for at in mine], np.int64)
            target.shared.plain(offsets, access.width * access.count, where)
            barrier = target.mbarrier(offset, where)
            warp.machine.operations.issue(
                _RemoteStore(warp, access, target, barrier, offsets, values[:, mine], reduction)
            )

    return run
