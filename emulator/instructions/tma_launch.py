"""clusterlaunchcontrol: taking over clusters that have not started (PTX ISA 9.7.13.17 and .18)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from schedgen.emulator.instructions.forms import Form
from schedgen.emulator.instructions.operands import address, items
from schedgen.emulator.instructions.table import Environment, Execute, builds, unsupported
from schedgen.emulator.instructions.tma_operands import (
    Destination,
    check_range,
    lanes_of,
    place,
    shared_cells,
)
from schedgen.emulator.machine.lanes import Decoder, Lanes
from schedgen.emulator.machine.steps import WarpOperation
from schedgen.emulator.order.tracker import Queue
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

SIZE = 16
"""Bytes of a response: %ctaid of the first CTA, 32 bits each, then 1 if a cluster was taken."""
_DIMENSIONS = {"x": 0, "y": 1, "z": 2}


class _Request(WarpOperation):
    """Takes a cluster off the grid and writes the response into some CTAs."""

    __slots__ = ("_destinations", "_where")

    def __init__(self, warp: Warp, where: Instruction, targets: list[Destination]) -> None:
        super().__init__(warp, "clusterlaunchcontrol.try_cancel", where.line, Queue.BULK_LOAD)
        self._where = where
        self._destinations = targets

    def execute(self) -> None:
        machine, where = self.warp.machine, self._where
        first = machine.cancel()
        response = np.array([*(first or (0, 0, 0)), first is not None], np.uint32).view(np.uint8)
        for target in self._destinations:
            barrier = target.mbarrier(where)
            shared = target.block.shared
            shared.plain_range(target.offset, SIZE, where)
            shared.bytes[target.offset : target.offset + SIZE] = response
            phase = barrier.complete(SIZE, where)
            if machine.tracking:
                cells = shared_cells(target.block, target.offset, SIZE)
                machine.tracker.access(self.handle, cells, write=True)
                machine.tracker.track(self.handle, barrier.key, phase)


@builds("clusterlaunchcontrol.try_cancel")
def _try_cancel(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    for name in ("try_cancel", "async", "mbarrier::complete_tx::bytes", "b128"):
        form.choose(name)
    form.flag("shared::cta")
    everywhere = form.flag("multicast::cluster::all")
    form.finish(2)
    targets, barriers = (address(operand, decoder, instruction) for operand in form.operands)

    def run(warp: Warp) -> None:
        target, barrier = targets(warp), barriers(warp)
        for lane in lanes_of(warp):
            block, offset = place(warp, int(target[lane]), instruction, remote=False)
            _, signal = place(warp, int(barrier[lane]), instruction, remote=False)
            blocks = [block]
            if everywhere:
                cluster = block.cluster
                blocks = [cluster.peer(rank, instruction) for rank in range(cluster.size)]
            places = [Destination(one, offset, one, signal) for one in blocks]
            for one in places:
                check_range(one.block, offset, SIZE, SIZE, instruction)
                one.mbarrier(instruction)
            warp.machine.operations.issue(_Request(warp, instruction, places))

    return run


@builds("clusterlaunchcontrol.query_cancel.is_canceled")
def _is_canceled(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    if instruction.modifiers[2:] != ("pred", "b128"):
        raise unsupported(instruction, instruction.modifiers[2:])
    write = decoder.write(instruction.operands[0], instruction)
    response = decoder.read(instruction.operands[1], "b128", instruction)
    return lambda warp: write(warp, _words(response(warp))[3] != 0)


@builds(
    "clusterlaunchcontrol.query_cancel.get_first_ctaid",
    *(f"clusterlaunchcontrol.query_cancel.get_first_ctaid::{one}" for one in _DIMENSIONS),
)
def _first(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    _, which, *rest = instruction.modifiers
    response = decoder.read(instruction.operands[1], "b128", instruction)
    targets = items(instruction.operands[0])
    dimension = which.partition("::")[2]
    if dimension:
        words, expected = [_DIMENSIONS[dimension]], ["b32", "b128"]
    else:
        words, expected = [0, 1, 2, 3], ["v4", "b32", "b128"]
    if rest != expected or len(targets) != len(words):
        raise unsupported(instruction, rest)
    writes = [decoder.write(target, instruction) for target in targets]

    def run(warp: Warp) -> None:
        found = _words(response(warp))
        for write, word in zip(writes, words, strict=True):
            write(warp, found[word])

    return run


def _words(response: Lanes) -> Lanes:
    """(32, 2) 64-bit halves of a response as (4, 32) 32-bit words."""
    return np.ascontiguousarray(response).view(np.uint32).T.copy()
