"""bar, barrier, bar.warp.sync and barrier.cluster (PTX ISA 9.7.13.1 to 9.7.13.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from schedgen.emulator.instructions.operands import executing, uniform
from schedgen.emulator.instructions.table import Environment, Execute, builds, unsupported
from schedgen.emulator.machine.barriers import BARRIERS, NamedBarrier
from schedgen.emulator.machine.conditions import Condition
from schedgen.emulator.machine.lanes import LANES, Decoder, Read, error
from schedgen.emulator.machine.steps import Control
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

Find = Callable[["Warp"], tuple[NamedBarrier, int | None]]
"""The barrier that a warp names, and how many threads it says take part (None: all)."""


@builds("bar.warp.sync")
def _warp(_instruction: Instruction, _decoder: Decoder, _environment: Environment) -> Execute:
    """Nothing is left to do once the lanes have met: lanes of a warp count as ordered."""
    return lambda _warp: None


@builds("bar", "barrier")
def _bar(instruction: Instruction, decoder: Decoder, _environment: Environment) -> Control:
    kind, *rest = [m for m in instruction.modifiers if m not in ("cta", "aligned")]
    operands = instruction.operands
    if kind == "sync" and not rest:
        return _sync(instruction, _find(instruction, decoder, operands))
    if kind == "arrive" and not rest:
        return _arrive(instruction, _find(instruction, decoder, operands))
    if kind == "red" and len(rest) == 2 and rest[0] in ("popc", "and", "or"):
        return _red(instruction, decoder, rest[0])
    raise unsupported(instruction, instruction.modifiers)


def _find(instruction: Instruction, decoder: Decoder, operands: tuple[object, ...]) -> Find:
    reads: list[Read] = [decoder.read(o, "u32", instruction) for o in operands]  # type: ignore[arg-type]

    def find(warp: Warp) -> tuple[NamedBarrier, int | None]:
        number = uniform(warp, reads[0](warp), "the barrier", instruction)
        if number >= BARRIERS:
            raise error(instruction, f"barrier {number}; there are 0…{BARRIERS - 1} (rule N1)")
        count = None
        if len(reads) > 1:
            count = uniform(warp, reads[1](warp), "the thread count", instruction)
        return warp.block.barriers[number], count

    return find


def _signal(warp: Warp, barrier: NamedBarrier, generation: int, line: int) -> None:
    machine = warp.machine
    if machine.tracking:
        machine.tracker.signal(
            warp.number, (warp.block.number, barrier.number), generation, line=line
        )


def _leave(warp: Warp, barrier: NamedBarrier, generation: int, line: int) -> None:
    machine = warp.machine
    if machine.tracking:
        machine.tracker.leave(
            warp.number, (warp.block.number, barrier.number), generation, line=line
        )


def _sync(instruction: Instruction, find: Find) -> Control:
    line = instruction.line

    def run(warp: Warp) -> Condition | None:
        barrier, count = find(warp)
        if warp.resumed is not None:
            _leave(warp, barrier, _generation(warp.resumed), line)
            return None
        _signal(warp, barrier, barrier.generation, line)
        generation = barrier.arrive(warp, count, instruction)
        if barrier.generation == generation:
            return barrier.until(generation)
        _leave(warp, barrier, generation, line)
        return None

    return Control(run)


def _arrive(instruction: Instruction, find: Find) -> Control:
    def run(warp: Warp) -> Condition | None:
        barrier, count = find(warp)
        if count is None:
            raise error(instruction, "bar.arrive needs a thread count (rule N1)")
        _signal(warp, barrier, barrier.generation, instruction.line)
        barrier.arrive(warp, count, instruction)

    return Control(run)


def _red(instruction: Instruction, decoder: Decoder, operation: str) -> Control:
    write = decoder.write(instruction.operands[0], instruction)
    vote = decoder.read(instruction.operands[-1], "pred", instruction)
    find = _find(instruction, decoder, instruction.operands[1:-1])
    line = instruction.line

    def finish(warp: Warp, barrier: NamedBarrier, generation: int) -> None:
        true, voted = barrier.results[generation]
        _leave(warp, barrier, generation, line)
        if operation == "popc":
            write(warp, np.full(LANES, true, np.uint32))
        else:
            write(warp, np.full(LANES, true == voted if operation == "and" else true > 0))

    def run(warp: Warp) -> Condition | None:
        barrier, count = find(warp)
        if warp.resumed is not None:
            finish(warp, barrier, _generation(warp.resumed))
            return None
        votes = executing(warp, vote(warp))
        _signal(warp, barrier, barrier.generation, line)
        generation = barrier.arrive(warp, count, instruction, (int(votes.sum()), len(votes)))
        if barrier.generation == generation:
            return barrier.until(generation)
        finish(warp, barrier, generation)
        return None

    return Control(run)


@builds("barrier.cluster.arrive")
def _cluster_arrive(
    instruction: Instruction, _decoder: Decoder, _environment: Environment
) -> Control:
    rest = set(instruction.modifiers[2:])
    if extra := rest - {"release", "relaxed", "aligned"}:
        raise unsupported(instruction, extra)
    relaxed = "relaxed" in rest

    def run(warp: Warp) -> Condition | None:
        cluster = warp.block.cluster
        machine = warp.machine
        if machine.tracking:
            machine.tracker.signal(
                warp.number,
                (cluster.number, -1),
                cluster.barrier.generation,
                line=instruction.line,
                cluster=True,
                relaxed=relaxed,
            )
        warp.cluster_generation = cluster.barrier.arrive(warp, instruction)

    return Control(run)


@builds("barrier.cluster.wait")
def _cluster_wait(
    instruction: Instruction, _decoder: Decoder, _environment: Environment
) -> Control:
    if extra := set(instruction.modifiers[2:]) - {"acquire", "aligned"}:
        raise unsupported(instruction, extra)

    def run(warp: Warp) -> Condition | None:
        cluster = warp.block.cluster
        barrier = cluster.barrier
        generation = warp.cluster_generation
        if warp.resumed is not None:
            generation = _generation(warp.resumed)
        elif generation < 0:  # not arrived since the last wait: all threads have to, this one too
            return barrier.until(barrier.generation)
        elif barrier.generation <= generation:
            return barrier.until(generation)
        warp.cluster_generation = -1
        machine = warp.machine
        if machine.tracking:
            machine.tracker.leave(
                warp.number, (cluster.number, -1), generation, line=instruction.line, cluster=True
            )
        return None

    return Control(run)


def _generation(resumed: Condition) -> int:
    assert isinstance(resumed.tag, int)
    return resumed.tag
