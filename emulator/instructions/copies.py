"""Asynchronous copies that are not bulk: cp.async (PTX ISA 9.7.9.25.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from schedgen.emulator.instructions.operands import HINTS, address, executing
from schedgen.emulator.instructions.table import Environment, Execute, builds, unsupported
from schedgen.emulator.machine.addresses import resolver
from schedgen.emulator.machine.conditions import Condition
from schedgen.emulator.machine.lanes import Decoder, Lanes, Read, error
from schedgen.emulator.machine.mbarrier import Mbarrier
from schedgen.emulator.machine.memory import Offsets
from schedgen.emulator.machine.operations import Operation
from schedgen.emulator.machine.steps import Control, WarpOperation
from schedgen.emulator.order.tracker import Queue
from schedgen.emulator.ptx.tree import Immediate, Instruction, Negated, Operand, Register

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_SHARED = ("shared", "shared::cta")


class _Copy(WarpOperation):
    """One cp.async of some lanes: ``read`` bytes from global to shared memory, zeros up to size."""

    __slots__ = ("_from", "_read", "_size", "_to", "_where")

    def __init__(
        self, warp: Warp, where: Instruction, to: Offsets, source: Lanes, size: int, read: Lanes
    ) -> None:
        super().__init__(warp, "cp.async", where.line, Queue.CP_ASYNC)
        self._where = where
        self._to = to
        self._from = source
        self._size = size
        self._read = read

    def execute(self) -> None:
        data = np.zeros((self._size, len(self._to)), np.uint8)
        tracker = self.warp.machine.tracker if self.warp.machine.tracking else None
        for count in sorted(set(self._read.tolist()) - {0}):
            lanes = np.flatnonzero(self._read == count)
            parts = resolver("global")(self.warp, self._from[lanes], self._where)
            for flat, offsets, some in parts:
                flat.check(offsets, count, self._where, align=self._size)
                mine = lanes if some is None else lanes[some]
                data[:count, mine] = flat.bytes[offsets + np.arange(count)[:, None]]
                if tracker is not None:
                    tracker.access(self.handle, flat.cells(offsets, count), write=False)
        shared = self.warp.block.shared
        shared.store(self._to, data, 1, self._size, self._where)
        if tracker is not None:
            tracker.access(self.handle, shared.cells(self._to, self._size), write=True)


@builds("cp.async")
def _cp_async(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    modifiers = set(instruction.modifiers) - HINTS
    space = next((m for m in instruction.modifiers if m in _SHARED), "")
    if modifiers != {"async", space, "global"} or not {"ca", "cg"} & set(instruction.modifiers):
        raise unsupported(instruction, instruction.modifiers)
    to, source, size, *rest = instruction.operands
    if not isinstance(size, Immediate) or size.value not in (4, 8, 16):
        raise error(instruction, "the size of a copy is 4, 8 or 16 bytes")
    if "cg" in instruction.modifiers and size.value != 16:
        raise error(instruction, "with .cg the size of a copy is 16 bytes")
    bytes_ = int(size.value)
    if "L2::cache_hint" in instruction.modifiers:
        rest.pop()  # the cache policy
    read = _source_size(instruction, decoder, rest[0], bytes_) if rest else None
    destinations = address(to, decoder, instruction)
    sources = address(source, decoder, instruction)
    every = np.full(32, bytes_, np.uint32)

    def run(warp: Warp) -> None:
        where = executing(warp, destinations(warp))
        ((shared, offsets, _),) = resolver(space)(warp, where, instruction)
        shared.check(offsets, bytes_, instruction)
        warp.block.shared.plain(offsets, bytes_, instruction)
        counts = executing(warp, every if read is None else read(warp))
        if max(counts.tolist()) > bytes_:
            raise error(instruction, f"the source has more bytes than the {bytes_} copied")
        origin = executing(warp, sources(warp))
        copy = _Copy(warp, instruction, offsets, origin, bytes_, counts)
        warp.machine.operations.issue(copy)
        warp.copies.add(copy)
        warp.tracked.append(copy)

    return run


def _source_size(instruction: Instruction, decoder: Decoder, operand: Operand, size: int) -> Read:
    """Bytes to read: the src-size operand, or nothing where the ignore-src predicate holds."""
    predicate = isinstance(operand, Negated) or (
        isinstance(operand, Register)
        and operand.name in decoder.slot
        and decoder.types[decoder.slot[operand.name]] == "pred"
    )
    if not predicate:
        return decoder.read(operand, "u32", instruction)
    ignore = decoder.read(operand, "pred", instruction)
    return lambda warp: np.where(ignore(warp), np.uint32(0), np.uint32(size))


@builds("cp.async.commit_group")
def _commit(_instruction: Instruction, _decoder: Decoder, _environment: Environment) -> Execute:
    return _commit_group


def _commit_group(warp: Warp) -> None:
    warp.copies.commit()
    if warp.machine.tracking:
        warp.machine.tracker.group_commit(warp.number, Queue.CP_ASYNC)


@builds("cp.async.wait_group", "cp.async.wait_all")
def _wait(instruction: Instruction, _decoder: Decoder, _environment: Environment) -> Control:
    everything = instruction.modifiers[1] == "wait_all"
    left = 0
    if not everything:
        operand = instruction.operands[0]
        if not isinstance(operand, Immediate):
            raise error(instruction, "the number of pending groups is a constant")
        left = int(operand.value)

    def run(warp: Warp) -> Condition | None:
        if everything and warp.resumed is None:
            _commit_group(warp)
        condition = warp.copies.wait(left)
        if condition is not None:
            return condition
        if left == 0:
            warp.tracked.clear()
        if warp.machine.tracking:
            warp.machine.tracker.group_wait(warp.number, Queue.CP_ASYNC, left)
        return None

    return Control(run)


class _Arrival(WarpOperation):
    """The arrive-on that cp.async.mbarrier.arrive triggers once earlier copies are complete."""

    __slots__ = ("_barrier", "_copies", "_count", "_where")

    def __init__(
        self,
        warp: Warp,
        where: Instruction,
        barrier: Mbarrier,
        count: int,
        copies: list[Operation],
    ) -> None:
        super().__init__(warp, "cp.async.mbarrier.arrive", where.line, None)
        self._where = where
        self._barrier = barrier
        self._count = count
        self._copies = copies

    def execute(self) -> None:
        if self.warp.machine.tracking:
            for copy in self._copies:
                self.warp.machine.tracker.track(copy.handle, self._barrier.key, self._barrier.phase)
        self._barrier.arrive(self._count, f"the copies of {self.warp.title}", self._where)


@builds("cp.async.mbarrier.arrive")
def _mbarrier_arrive(
    instruction: Instruction, decoder: Decoder, _environment: Environment
) -> Execute:
    left = set(instruction.modifiers[3:]) - {"noinc", "b64", *_SHARED}
    if left:
        raise unsupported(instruction, left)
    increments = "noinc" not in instruction.modifiers
    space = next((m for m in instruction.modifiers if m in _SHARED), "")
    addresses = address(instruction.operands[0], decoder, instruction)

    def run(warp: Warp) -> None:
        ((_, offsets, _),) = resolver(space)(warp, executing(warp, addresses(warp)), instruction)
        values = offsets.tolist()
        for offset in dict.fromkeys(values):
            barrier = warp.block.mbarrier(offset, instruction)
            count = values.count(offset)
            if increments:
                barrier.increment(count, instruction)
            arrival = _Arrival(warp, instruction, barrier, count, [*warp.tracked])
            warp.machine.operations.issue(arrival, after=warp.tracked)

    return run
