"""mbarrier.* but for the waits (PTX ISA 9.7.13.15)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from schedgen.emulator.instructions.operands import SCOPES, address, common, each_of, executing
from schedgen.emulator.instructions.table import Environment, Execute, builds, unsupported
from schedgen.emulator.machine.addresses import SHARED_WINDOW
from schedgen.emulator.machine.block import RANK_SHIFT, Block
from schedgen.emulator.machine.conditions import Condition
from schedgen.emulator.machine.lanes import LANES, Decoder, Lanes, Read, error
from schedgen.emulator.machine.mbarrier import Mbarrier
from schedgen.emulator.machine.steps import Control
from schedgen.emulator.ptx.tree import Instruction, Register

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_SPACES = frozenset({"shared", "shared::cta", "shared::cluster"})
STATE_PHASE = 32
"""Bits of the opaque state: from here on the phase; below, the pending count (B15)."""
_NO_COMPLETE = 1 << 31
"""Set in the state that a .noComplete arrive returns."""


@dataclass(frozen=True)
class Form:
    """What the modifiers of an mbarrier instruction say."""

    remote: bool
    """Whether the object may be in another CTA of the cluster."""
    cluster: bool
    """Whether the scope is the cluster."""
    relaxed: bool


def form_of(instruction: Instruction, known: Iterable[str], sem: tuple[str, ...]) -> Form:
    modifiers = set(instruction.modifiers[1:]) - {"b64"}
    allowed = {*known, *sem, "relaxed", *(SCOPES - {"gpu", "sys"}), *_SPACES}
    if extra := modifiers - allowed:
        raise unsupported(instruction, extra)
    space = next(iter(modifiers & _SPACES), "")
    return Form(
        remote=space in ("", "shared::cluster"),
        cluster="cluster" in modifiers,
        relaxed="relaxed" in modifiers,
    )


def locate(warp: Warp, value: int, where: Instruction, *, remote: bool) -> tuple[Block, int]:
    """CTA and byte offset of an mbarrier's address, generic or shared.

    Raises:
        EmulationError: not shared memory, or another CTA's where that is not allowed (B8).
    """
    if value >> 32:
        if value >> 32 != SHARED_WINDOW >> 32:
            raise error(where, f"the generic address {value:#x} is not in shared memory (rule B2)")
        value &= 0xFFFFFFFF
    rank = value >> RANK_SHIFT
    block = warp.block
    if rank == block.rank:
        return block, value & ((1 << RANK_SHIFT) - 1)
    if not remote:
        raise error(
            where,
            f"address {value:#x} is in the CTA of rank {rank}, this one has rank {block.rank}; "
            "only arrive, expect_tx and complete_tx may be remote, with .shared::cluster (rule B8)",
        )
    return block.cluster.locate(value, where)


def _places(
    warp: Warp, addresses: Read, where: Instruction, *, remote: bool
) -> list[tuple[Block, int, int]]:
    """CTA, offset and number of lanes for each object that the executing lanes name."""
    values = executing(warp, addresses(warp)).tolist()
    first = values[0]
    if values.count(first) == len(values):
        return [(*locate(warp, first, where, remote=remote), len(values))]
    return [
        (*locate(warp, value, where, remote=remote), values.count(value))
        for value in dict.fromkeys(values)
    ]


@builds("mbarrier.init")
def _init(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    form_of(instruction, (), ())
    addresses = address(instruction.operands[0], decoder, instruction)
    counts = decoder.read(instruction.operands[1], "u32", instruction)

    def run(warp: Warp) -> None:
        count = int(executing(warp, counts(warp))[0])
        for block, offset, _ in _places(warp, addresses, instruction, remote=False):
            live = block.shared.barriers.get(offset)
            if live is not None:
                problem = f"the {live.title} is live; invalidate it first"
                warp.machine.broken(instruction, "B2", problem)
                if live.fresh(count):  # nothing changes: another warp was told to do it, too
                    continue
                if live.waiting:
                    raise error(instruction, f"{problem}; somebody waits for it (rule B2)")
                block.shared.remove(offset)
                if warp.machine.tracking:
                    line = instruction.line
                    warp.machine.tracker.barrier_invalidate(warp.number, live.key, line)
            block.shared.check(np.array([offset]), 8, instruction)
            machine, cta = warp.machine, (block.number, block.title)
            block.shared.install(Mbarrier(machine, cta, offset, count, instruction))
            machine.events += 1
            if machine.tracking:
                machine.tracker.barrier_init(warp.number, (block.number, offset), instruction.line)

    return run


@builds("mbarrier.inval")
def _inval(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    form_of(instruction, (), ())
    addresses = address(instruction.operands[0], decoder, instruction)

    def run(warp: Warp) -> None:
        for block, offset, _ in _places(warp, addresses, instruction, remote=False):
            barrier = block.mbarrier(offset, instruction)
            if barrier.waiting:
                raise error(instruction, f"somebody waits for the {barrier.title} (rule B2)")
            block.shared.remove(offset)
            machine = warp.machine
            if machine.tracking:
                machine.tracker.barrier_invalidate(warp.number, barrier.key, instruction.line)

    return run


def _shares(warp: Warp, lanes: Lanes, operand: Read | None) -> dict[int, list[int]]:
    """By the address of an object, what each lane that names it gives: 1 without an operand."""
    values = each_of(warp, lanes)
    amounts = [1] if operand is None else each_of(warp, operand(warp))
    if len(values) == 1 == len(amounts) and warp.full:
        return {values[0]: amounts * LANES}
    values = executing(warp, lanes).tolist()
    amounts = [1] * len(values) if operand is None else executing(warp, operand(warp)).tolist()
    found: dict[int, list[int]] = {}
    for value, amount in zip(values, amounts, strict=True):
        found.setdefault(value, []).append(amount)
    return found


@builds("mbarrier.arrive", "mbarrier.arrive_drop")
def _arrive(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Control:
    form = form_of(instruction, ("expect_tx", "noComplete"), ("release",))
    expects = "expect_tx" in instruction.modifiers
    completes = "noComplete" not in instruction.modifiers
    drop = instruction.modifiers[0] == "arrive_drop"
    destination = instruction.operands[0]
    sink = isinstance(destination, Register) and destination.name == "_"
    write = decoder.write(destination, instruction)
    addresses = address(instruction.operands[1], decoder, instruction)
    operand = (
        decoder.read(instruction.operands[2], "u32", instruction)
        if len(instruction.operands) > 2
        else None
    )
    line = instruction.line

    def run(warp: Warp) -> Condition | None:
        state = 0
        for value, mine in _shares(warp, addresses(warp), operand).items():
            block, offset = locate(warp, value, instruction, remote=form.remote)
            barrier = block.mbarrier(offset, instruction)
            if not sink and block is not warp.block:
                raise error(
                    instruction, "an arrive on a remote mbarrier returns no state (rule B8)"
                )
            count = len(mine) if expects else sum(mine)
            if expects:
                barrier.expect(sum(mine), instruction)
            state = barrier.phase << STATE_PHASE | barrier.pending
            machine = warp.machine
            if machine.tracking:
                # Before the arrival: a phase that it completes may be waited for at once.
                machine.tracker.arrive(
                    warp.number,
                    barrier.key,
                    barrier.phase,
                    line=line,
                    cluster=form.cluster,
                    relaxed=form.relaxed,
                )
            barrier.arrive(count, warp.title, instruction, drop=drop, complete=completes)
        if not sink:
            write(warp, _state(state if completes else state | _NO_COMPLETE))

    def several(warps: Sequence[Warp]) -> bool:
        """All lanes of all warps arrive on one object of their CTA, in a phase that does not end
        before the last of them has come."""
        value = common(warps, addresses)
        if value is None or value >> 32 or value >> RANK_SHIFT != warps[0].block.rank:
            return False
        barrier = warps[0].block.shared.barriers.get(value & ((1 << RANK_SHIFT) - 1))
        amount = 1 if operand is None else common(warps, operand)
        count = LANES * (amount or 0)
        if barrier is None or not count or not barrier.takes(count * len(warps)):
            return False
        key, phase, machine = barrier.key, barrier.phase, warps[0].machine
        cluster, relaxed = form.cluster, form.relaxed
        for warp in warps:
            if not sink:
                write(warp, _state(phase << STATE_PHASE | barrier.pending))
            if machine.tracking:
                machine.tracker.arrive(
                    warp.number, key, phase, line=line, cluster=cluster, relaxed=relaxed
                )
            barrier.arrive(count, warp.title, instruction)
        return True

    alone = not expects and not drop and completes
    return Control(run, several=several if alone else None)


@lru_cache(maxsize=1024)
def _state(value: int) -> Lanes:
    """The opaque state that an arrive returns, in all lanes."""
    lanes = np.full(LANES, value, np.uint64)
    lanes.flags.writeable = False
    return lanes


@builds("mbarrier.expect_tx", "mbarrier.complete_tx")
def _transactions(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Control:
    form = form_of(instruction, (), ())
    addresses = address(instruction.operands[0], decoder, instruction)
    counts = decoder.read(instruction.operands[1], "u32", instruction)
    expects = instruction.modifiers[0] == "expect_tx"

    def run(warp: Warp) -> Condition | None:
        values = executing(warp, addresses(warp)).tolist()
        amounts = executing(warp, counts(warp)).tolist()
        for value, amount in zip(values, amounts, strict=True):
            block, offset = locate(warp, value, instruction, remote=form.remote)
            barrier = block.mbarrier(offset, instruction)
            if expects:
                barrier.expect(amount, instruction)
            else:
                barrier.complete(amount, instruction)

    return Control(run)


@builds("mbarrier.pending_count")
def _pending(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Execute:
    write = decoder.write(instruction.operands[0], instruction)
    states = decoder.read(instruction.operands[1], "u64", instruction)

    def run(warp: Warp) -> None:
        lanes = states(warp)
        if not all(state & _NO_COMPLETE for state in executing(warp, lanes).tolist()):
            raise error(instruction, "the state is not of a .noComplete arrive (rule B15)")
        write(warp, (lanes & np.uint64(_NO_COMPLETE - 1)).astype(np.uint32))

    return run
