"""Tensor copies: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor and prefetches.

Source: PTX ISA 9.7.9.27.1; rules T1 to T13 and X12 of the project's notes.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.instructions.forms import Form
from schedgen.emulator.instructions.operands import address
from schedgen.emulator.instructions.table import Environment, Execute, builds
from schedgen.emulator.instructions.tma_box import Box, Source
from schedgen.emulator.instructions.tma_operands import (
    Destination,
    check_range,
    check_source,
    chunks_of,
    destinations,
    lanes_of,
    place,
    shared_cells,
)
from schedgen.emulator.instructions.tma_reduce import OPERATIONS, reduce, type_of
from schedgen.emulator.layouts.products import CHUNK_TYPE
from schedgen.emulator.layouts.tiles import (
    ALIGNMENT,
    box_chunks,
    converted,
    fill,
    padded,
)
from schedgen.emulator.machine.lanes import Decoder, Lanes, error
from schedgen.emulator.machine.steps import WarpOperation
from schedgen.emulator.machine.switches import OutOfBoundsBytes
from schedgen.emulator.order.tracker import Queue
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.block import Block as Cta
    from schedgen.emulator.machine.warp import Warp


class _Load(WarpOperation):
    """Global to shared memory, of one or several CTAs."""

    __slots__ = ("_box", "_destinations", "_where")

    def __init__(
        self, warp: Warp, where: Instruction, box: Box, targets: list[Destination]
    ) -> None:
        super().__init__(warp, "tensor copy to shared memory", where.line, Queue.BULK_LOAD)
        self._where = where
        self._box = box
        self._destinations = targets

    def execute(self) -> None:
        box, where, machine = self._box, self._where, self.warp.machine
        box.operand.check_unchanged(machine, where)
        tensor = box.operand.tensor
        stored = padded(_contents(box), tensor.element).reshape(-1).view(CHUNK_TYPE)
        if machine.tracking:
            for _, _, cells in box.parts:
                machine.tracker.access(self.handle, cells, write=False)
        full = machine.switches.out_of_bounds_bytes is OutOfBoundsBytes.FULL_BOX
        for target in self._destinations:
            barrier = target.mbarrier(where)
            target.block.shared.plain_range(target.offset, box.size, where)
            chunks_of(target.block)[box_chunks(box.size, target.offset, tensor.swizzle)] = stored
            phase = barrier.complete(box.packed if full else box.inside, where)
            if machine.tracking:
                cells = shared_cells(target.block, target.offset, box.size)
                machine.tracker.access(self.handle, cells, write=True)
                machine.tracker.track(self.handle, barrier.key, phase)

    def explain(self) -> str:
        signals = ", ".join(
            f"{target.barrier:#x} of {target.signal.title}" for target in self._destinations
        )
        return f"{super().explain()}, that reports to the mbarrier at {signals}"


def _contents(box: Box) -> NDArray[np.uint8]:
    """What a load makes of a box, with what it fills in where that is outside of the tensor."""
    tensor = box.operand.tensor
    if (whole := box.whole) is not None:
        return converted(whole, tensor.element)
    nan = fill(tensor)
    if nan is None:
        data = np.zeros(box.shape, np.uint8)
    else:
        data = np.frombuffer(nan * (prod(box.shape) // len(nan)), np.uint8).copy()
        data = data.reshape(box.shape)
    for part, view, _ in box.parts:
        data[part.place] = converted(view, tensor.element)
    return data


_Stored = tuple[Box, "tuple[Cta, int]", tuple[str, str] | None]
"""What a store copies, from where, and how it reduces."""


class _Store(WarpOperation):
    """Shared memory to global memory, or a reduction there."""

    __slots__ = ("_block", "_box", "_offset", "_reduction", "_size", "_where")

    def __init__(
        self,
        warp: Warp,
        where: Instruction,
        box: Box,
        source: tuple[Cta, int],
        reduction: tuple[str, str] | None,
    ) -> None:
        super().__init__(warp, "tensor copy to global memory", where.line, Queue.BULK_STORE)
        self._where = where
        self._box = box
        self._block, self._offset = source
        self._size = box.size
        self._reduction = reduction

    def execute(self) -> None:
        box, machine = self._box, self.warp.machine
        box.operand.check_unchanged(machine, self._where)
        check_source(self.warp, self._block, self._where)
        tensor = box.operand.tensor
        found = chunks_of(self._block)[box_chunks(self._size, self._offset, tensor.swizzle)]
        data = found.view(np.uint8).reshape(box.shape)
        if machine.tracking:
            cells = shared_cells(self._block, self._offset, self._size)
            machine.tracker.access(self.handle, cells, write=False)
        for part, view, cells in box.parts:
            inside = data[part.place]
            if self._reduction is None:
                view[...] = inside
            else:
                new = np.ascontiguousarray(inside)
                view[...] = reduce(np.ascontiguousarray(view), new, *self._reduction)
            if machine.tracking:
                atomic = self._reduction is not None
                machine.tracker.access(self.handle, cells, write=True, atomic=atomic)


@builds("cp.async.bulk.tensor")
def _tensor(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    for name in ("async", "bulk", "tensor"):
        form.flag(name)
    if form.flag("bulk_group"):
        return _store(form, None)
    return _load(form)


@builds("cp.reduce.async.bulk.tensor")
def _reduce(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    for name in ("reduce", "async", "bulk", "tensor"):
        form.flag(name)
    if not form.flag("bulk_group"):
        raise form.error(".bulk_group is needed")
    return _store(form, form.choose(*OPERATIONS))


@builds("cp.async.bulk.prefetch.tensor")
def _prefetch(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    for name in ("async", "bulk", "prefetch", "tensor", "L2", "global"):
        form.flag(name)
    source = Source(form, form.operands[0], "gather4")
    form.finish(2 if form.flag("L2::cache_hint") else 1)

    def run(warp: Warp) -> None:
        lanes = source.read(warp)
        for lane in lanes_of(warp):
            source.box(warp, lanes, lane, store=False)

    return run


def _load(form: Form) -> Execute:
    where, decoder = form.where, form.decoder
    remote = form.choose("shared::cta", "shared::cluster") == "shared::cluster"
    form.choose("global")
    form.choose("mbarrier::complete_tx::bytes")
    group = 2 if form.flag("cta_group::2") else 1
    form.flag("cta_group::1")
    many = remote and form.flag("multicast::cluster")
    hinted = form.flag("L2::cache_hint")
    source = Source(form, form.operands[1], "gather4")
    form.finish(3 + many + hinted)
    targets = address(form.operands[0], decoder, where)
    barriers = address(form.operands[2], decoder, where)
    masks = decoder.read(form.operands[3], "b16", where) if many else None

    def run(warp: Warp) -> None:
        lanes, target, barrier = source.read(warp), targets(warp), barriers(warp)
        mask = masks(warp) if masks is not None else None
        for lane in lanes_of(warp):
            box = source.box(warp, lanes, lane, store=False)
            places = destinations(
                warp,
                place(warp, int(target[lane]), where, remote=remote),
                place(warp, int(barrier[lane]), where, remote=remote or group == 2),
                None if mask is None else int(mask[lane]),
                group,
                where,
            )
            for one in places:
                check_range(one.block, one.offset, box.size, ALIGNMENT, where)
                one.mbarrier(where)
            warp.machine.operations.issue(_Load(warp, where, box, places))

    return run


def _store(form: Form, operation: str | None) -> Execute:
    where = form.where
    for name in ("global", "shared::cta"):
        form.choose(name)
    hinted = form.flag("L2::cache_hint")
    source = Source(form, form.operands[0], "scatter4")
    form.finish(2 + hinted)
    sources = address(form.operands[1], form.decoder, where)

    def one(warp: Warp, lanes: tuple[Lanes, ...], start: int, lane: int) -> _Stored:
        box = source.box(warp, lanes, lane, store=True)
        from_ = place(warp, start, where, remote=False)
        check_range(*from_, box.size, ALIGNMENT, where)
        element = box.operand.tensor.element
        if element.is_padded:
            raise error(where, f"elements {element.name} can only be loaded")
        if operation is None:
            return box, from_, None
        type_ = type_of(operation, element)
        if type_ is None:
            raise error(where, f".{operation} does not exist for {element.name} elements")
        return box, from_, (operation, type_)

    def run(warp: Warp) -> None:
        lanes, found = source.read(warp), sources(warp)
        values = list(zip(*(each.tolist() for each in (found, *lanes)), strict=True))
        known: dict[tuple[int, ...], _Stored] = {}
        for lane in lanes_of(warp):
            value = values[lane]
            if value in known:  # CuTe DSL lets all lanes of a warp issue the same copy
                if operation is None:
                    continue  # which leaves the same, and begins and ends together with the others
                source.used(warp, value[1])
            else:
                known[value] = one(warp, lanes, value[0], lane)
            store = _Store(warp, where, *known[value])
            warp.machine.operations.issue(store)
            warp.bulk.add(store)

    return run
