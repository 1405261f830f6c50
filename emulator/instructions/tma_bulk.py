"""Bulk copies without a tensor map, bulk groups, prefetches.

Source: PTX ISA 9.7.9.25.4 and 9.7.9.27.2; rules T1 to T9 of the project's notes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.instructions.forms import Form
from schedgen.emulator.instructions.operands import address
from schedgen.emulator.instructions.table import Environment, Execute, builds, unsupported
from schedgen.emulator.instructions.tma_operands import (
    Destination,
    check_range,
    check_source,
    destinations,
    global_range,
    lanes_of,
    place,
    tensor_map,
)
from schedgen.emulator.instructions.tma_reduce import OPERATIONS, TYPES, reduce, supported
from schedgen.emulator.instructions.windows import WINDOWS
from schedgen.emulator.machine.conditions import Condition
from schedgen.emulator.machine.lanes import Decoder, error
from schedgen.emulator.machine.memory import Flat
from schedgen.emulator.machine.steps import Control, WarpOperation
from schedgen.emulator.order.tracker import Cells, Queue, Space
from schedgen.emulator.ptx.tree import Immediate, Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_UNIT = 16
"""Bytes of which sizes and addresses are multiples."""
_EVERY = 0xFFFF
"""Mask of all bytes of a unit."""

_Reduction = tuple[str, str] | None
"""Operation and type, or None for a copy."""


class _Copy(WarpOperation):
    """One bulk copy or reduction of ``size`` adjacent bytes.

    ``source`` and ``targets`` are views of memory with what the race checker calls them.
    """

    __slots__ = ("_mask", "_reduction", "_source", "_targets", "_where")

    def __init__(
        self,
        warp: Warp,
        where: Instruction,
        queue: Queue,
        source: tuple[Flat, int, int],
        targets: list[tuple[Flat, int, Destination | None]],
        reduction: _Reduction,
        mask: int = _EVERY,
    ) -> None:
        super().__init__(warp, "bulk copy", where.line, queue)
        self._where = where
        self._source = source
        self._targets = targets
        self._reduction = reduction
        self._mask = mask

    def execute(self) -> None:
        machine, where = self.warp.machine, self._where
        memory, start, size = self._source
        if memory.space is Space.SHARED:
            check_source(self.warp, self.warp.block, where)
        data = memory.bytes[start : start + size].copy()
        if machine.tracking:
            machine.tracker.access(self.handle, _cells(memory, start, size), write=False)
        for target, offset, destination in self._targets:
            barrier = destination.mbarrier(where) if destination is not None else None
            if destination is not None:
                destination.block.shared.plain_range(offset, size, where)
            self._put(target.bytes[offset : offset + size], data)
            if machine.tracking:
                cells = _cells(target, offset, size)
                atomic = self._reduction is not None
                machine.tracker.access(self.handle, cells, write=True, atomic=atomic)
            if barrier is not None:
                phase = barrier.complete(size, where)
                if machine.tracking:
                    machine.tracker.track(self.handle, barrier.key, phase)

    def _put(self, view: NDArray[np.uint8], data: NDArray[np.uint8]) -> None:
        if self._reduction is not None:
            data = reduce(view.copy(), data, *self._reduction)
        if self._mask == _EVERY:
            view[...] = data
            return
        chosen = np.array([self._mask >> byte & 1 for byte in range(_UNIT)], np.bool_)
        every = np.broadcast_to(chosen, (len(data) // _UNIT, _UNIT)).reshape(-1)
        view[every] = data[every]


def _cells(memory: Flat, start: int, size: int) -> Cells:
    if memory.space is Space.SHARED:
        return Cells(Space.SHARED, memory.cta, slice(start, start + size))
    first = memory.origin + start
    return Cells(memory.space, -1, slice(first, first + size))


@builds("cp.async.bulk")
def _copy(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    for name in ("async", "bulk"):
        form.flag(name)
    return _outward(form, None) if form.flag("bulk_group") else _inward(form, None)


@builds("cp.reduce.async.bulk")
def _reduce(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    for name in ("reduce", "async", "bulk"):
        form.flag(name)
    operation, type_ = form.choose(*OPERATIONS), form.choose(*TYPES)
    form.flag("noftz")
    if not supported(operation, type_):
        raise form.error(f".{operation} does not exist for .{type_}")
    if form.flag("bulk_group"):
        return _outward(form, (operation, type_))
    return _inward(form, (operation, type_))


def _inward(form: Form, reduction: _Reduction) -> Execute:
    """Into shared memory, with an mbarrier: from global memory, or from this CTA into another."""
    where, decoder = form.where, form.decoder
    form.choose("mbarrier::complete_tx::bytes")
    spaces = [one for one in form.left if one in ("shared::cta", "shared::cluster", "global")]
    if spaces not in (
        ["shared::cta", "global"],
        ["shared::cluster", "global"],
        ["shared::cluster", "shared::cta"],
    ):
        raise form.error("the state spaces of destination and source do not fit together")
    for space in spaces:
        form.flag(space)
    remote, local = spaces[0] == "shared::cluster", spaces[1] == "shared::cta"
    many = not local and form.flag("multicast::cluster")
    hinted = not local and form.flag("L2::cache_hint")
    form.finish(4 + many + hinted)
    targets, sources = (address(form.operands[i], decoder, where) for i in (0, 1))
    sizes = decoder.read(form.operands[2], "u32", where)
    barriers = address(form.operands[3], decoder, where)
    masks = decoder.read(form.operands[4], "b16", where) if many else None

    def run(warp: Warp) -> None:
        target, source, size, barrier = targets(warp), sources(warp), sizes(warp), barriers(warp)
        mask = masks(warp) if masks is not None else None
        for lane in lanes_of(warp):
            count = int(size[lane])
            to = place(warp, int(target[lane]), where, remote=remote)
            if local and to[0] is warp.block:
                warp.machine.broken(
                    where,
                    "T5",
                    "the destination is in the executing CTA; a copy from .shared::cta goes to "
                    "another CTA of the cluster",
                )
            signal = place(warp, int(barrier[lane]), where, remote=remote)
            chosen = None if mask is None else int(mask[lane])
            places = destinations(warp, to, signal, chosen, 1, where)
            for one in places:
                check_range(one.block, one.offset, count, _UNIT, where)
                one.mbarrier(where)
            if local:
                block, offset = place(warp, int(source[lane]), where, remote=False)
                check_range(block, offset, count, _UNIT, where)
                found = _checked(block.shared, offset, count, where)
            else:
                found = _global(warp, int(source[lane]), count, where)
            into = [(one.block.shared, one.offset, one) for one in places]
            copy = _Copy(warp, where, Queue.BULK_LOAD, found, list(into), reduction)
            warp.machine.operations.issue(copy)

    return run


def _outward(form: Form, reduction: _Reduction) -> Execute:
    """Shared to global memory, in a bulk group."""
    where, decoder = form.where, form.decoder
    for name in ("global", "shared::cta"):
        form.choose(name)
    hinted, masked = form.flag("L2::cache_hint"), form.flag("cp_mask")
    form.finish(3 + hinted + masked)
    targets, sources = (address(form.operands[i], decoder, where) for i in (0, 1))
    sizes = decoder.read(form.operands[2], "u32", where)
    masks = decoder.read(form.operands[-1], "b16", where) if masked else None

    def run(warp: Warp) -> None:
        target, source, size = targets(warp), sources(warp), sizes(warp)
        mask = masks(warp) if masks is not None else None
        for lane in lanes_of(warp):
            count = int(size[lane])
            block, offset = place(warp, int(source[lane]), where, remote=False)
            check_range(block, offset, count, _UNIT, where)
            memory, start, _ = _global(warp, int(target[lane]), count, where)
            copy = _Copy(
                warp,
                where,
                Queue.BULK_STORE,
                _checked(block.shared, offset, count, where),
                [(memory, start, None)],
                reduction,
                _EVERY if mask is None else int(mask[lane]),
            )
            warp.machine.operations.issue(copy)
            warp.bulk.add(copy)

    return run


def _global(warp: Warp, start: int, size: int, where: Instruction) -> tuple[Flat, int, int]:
    if start % _UNIT:
        raise error(where, f"global address {start:#x} is not a multiple of {_UNIT} bytes")
    region = global_range(warp, start, size, where)
    return _checked(region, start - region.origin, size, where)


def _checked(memory: Flat, start: int, size: int, where: Instruction) -> tuple[Flat, int, int]:
    if size % _UNIT:
        raise error(where, f"{size} bytes; the size of a bulk copy is a multiple of {_UNIT}")
    return memory, start, size


@builds("cp.async.bulk.prefetch")
def _prefetch(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    for name in ("async", "bulk", "prefetch", "L2", "global"):
        form.flag(name)
    form.finish(3 if form.flag("L2::cache_hint") else 2)
    sources = address(form.operands[0], decoder, instruction)
    sizes = decoder.read(form.operands[1], "u32", instruction)

    def run(warp: Warp) -> None:
        source, size = sources(warp), sizes(warp)
        for lane in lanes_of(warp):
            _global(warp, int(source[lane]), int(size[lane]), instruction)

    return run


@builds("prefetch.tensormap", "prefetch.param.tensormap", "prefetch.const.tensormap")
def _map(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    maps = address(instruction.operands[0], decoder, instruction)
    window = next((WINDOWS[one] for one in instruction.modifiers if one in WINDOWS), 0)

    def run(warp: Warp) -> None:
        found = maps(warp)
        for lane in lanes_of(warp):
            tensor_map(warp, int(found[lane]) | window, instruction)

    return run


@builds("cp.async.bulk.commit_group")
def _commit(instruction: Instruction, _decoder: Decoder, _environment: Environment) -> Execute:
    if instruction.modifiers[3:]:
        raise unsupported(instruction, instruction.modifiers[3:])

    def run(warp: Warp) -> None:
        warp.bulk.commit()
        if warp.machine.tracking:
            warp.machine.tracker.bulk_commit(warp.number)

    return run


@builds("cp.async.bulk.wait_group")
def _wait(instruction: Instruction, _decoder: Decoder, _environment: Environment) -> Control:
    if instruction.modifiers[3:] not in ((), ("read",)):
        raise unsupported(instruction, instruction.modifiers[3:])
    match instruction.operands:
        case (Immediate(int(left)),):
            pass
        case _:
            raise error(instruction, "one integer literal expected")
    read = "read" in instruction.modifiers

    def run(warp: Warp) -> Condition | None:
        condition = warp.bulk.wait(left)
        if condition is None and warp.machine.tracking:
            warp.machine.tracker.bulk_wait(warp.number, left, read=read)
        return condition

    return Control(run)
