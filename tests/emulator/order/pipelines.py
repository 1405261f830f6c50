"""Random correct pipelines, for the checker and its reference."""

from __future__ import annotations

import random
from collections.abc import Callable

from schedgen.emulator.order.tracker import Cells, Queue, Space
from tests.emulator.order.kernel import shared, tensor
from tests.emulator.order.recorder import TILE, Event, Machine, Role


def blackwell(seed: int) -> list[Event]:
    """Copies, products, epilogue; perhaps threads that read the copies, too; perhaps threads that
    write an operand into tensor memory."""
    kernel = _Blackwell(seed)
    roles = [kernel.producer(), kernel.products(), kernel.epilogue(4), kernel.epilogue(5)]
    if kernel.readers:
        roles.append(kernel.reader())
    if kernel.operand:
        roles.append(kernel.writer())
    kernel.machine.run(*roles)
    return kernel.machine.trace


class _Blackwell:
    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        m = self.machine = Machine(rng)
        self.stages, self.accumulators = rng.randint(1, 3), rng.randint(1, 2)
        self.outs, self.rounds = rng.randint(1, 2), rng.randint(2, 5)
        self.readers, self.operand = rng.random() < 0.5, rng.random() < 0.5
        self.tiles = [4096 + TILE * i for i in range(self.stages)]
        self.out = [16384 + TILE * i for i in range(self.outs)]
        self.full = [m.barrier(8 * i) for i in range(self.stages)]
        self.empty = [m.barrier(64 + 8 * i, 1 + self.readers) for i in range(self.stages)]
        self.done = [m.barrier(128 + 8 * i) for i in range(self.accumulators)]
        self.free = [m.barrier(192 + 8 * i, 2) for i in range(self.accumulators)]
        self.given, self.taken = m.barrier(256), m.barrier(264)

    def producer(self) -> Role:
        m = self.machine
        for i in range(self.rounds):
            s, phase = i % self.stages, i // self.stages
            yield from m.wait(1, self.empty[s], phase - 1)
            m.arrive(1, self.full[s], copies=1)
            yield _now
            m.load(1, self.tiles[s], self.full[s])
            yield _now

    def products(self) -> Role:
        m = self.machine
        for i in range(self.rounds):
            s, a = i % self.stages, i % self.accumulators
            yield from m.wait(2, self.full[s], i // self.stages)
            yield from m.wait(2, self.free[a], i // self.accumulators - 1)
            accesses = [(shared((self.tiles[s], TILE)), False)]
            if self.operand:
                yield from m.wait(2, self.given, i)
                accesses.append((_columns(256, 0), False))
            m.tell("tcgen05_fence", 2, before=False)
            m.issue(2, Queue.MMA, [*accesses, (tensor((64 * a, 64)), True)])
            yield _now
            m.commit(2, self.empty[s])
            if self.operand:
                m.commit(2, self.taken)
            m.commit(2, self.done[a])
            yield _now

    def reader(self) -> Role:
        m = self.machine
        for i in range(self.rounds):
            s, phase = i % self.stages, i // self.stages
            yield from m.wait(3, self.full[s], phase)
            m.touch(3, self.tiles[s], write=False)
            yield _now
            m.tell("proxy_fence", 3, space=Space.SHARED)
            m.arrive(3, self.empty[s])
            yield _now

    def writer(self) -> Role:
        m = self.machine
        for i in range(self.rounds):
            yield from m.wait(0, self.taken, i - 1)
            m.tell("tcgen05_fence", 0, before=False)
            m.issue(0, Queue.TMEM_STORE, [(_columns(256, 0), True)])
            yield _now
            yield from m.tensor_wait(0, Queue.TMEM_STORE)
            m.tell("tcgen05_fence", 0, before=True)
            m.arrive(0, self.given)
            yield _now

    def epilogue(self, warp: int) -> Role:
        m = self.machine
        for i in range(self.rounds):
            a = i % self.accumulators
            yield from m.wait(warp, self.done[a], i // self.accumulators)
            m.tell("tcgen05_fence", warp, before=False)
            m.issue(warp, Queue.TMEM_LOAD, [(_columns(64 * a, warp), False)])
            yield _now
            yield from m.tensor_wait(warp, Queue.TMEM_LOAD)
            m.tell("tcgen05_fence", warp, before=True)
            m.arrive(warp, self.free[a])
            yield _now
            yield from self._store(warp, i)

    def _store(self, warp: int, i: int) -> Role:
        """Two warps write a half of a tile each, one of them stores it."""
        m, out = self.machine, self.out[i % self.outs]
        if warp == 4:
            yield from m.store_wait(warp, self.outs - 1)
        yield from m.sync(warp, (4, 5), 1, 2 * i)
        half = out + (warp - 4) * TILE // 2
        m.tell("generic", warp, cells=shared((half, TILE // 2)), write=True)
        yield _now
        m.tell("proxy_fence", warp, space=Space.SHARED)
        yield from m.sync(warp, (4, 5), 1, 2 * i + 1)
        if warp == 4:
            m.store(warp, out, 1 << 30 | i << 12)
        yield _now


def hopper(seed: int) -> list[Event]:
    """Copies -> wgmma of one or two warpgroups, of which one thread releases the stage."""
    rng = random.Random(seed)
    m = Machine(rng)
    stages, rounds, groups = rng.randint(1, 3), rng.randint(2, 5), rng.randint(1, 2)
    behind = rng.randint(0, min(1, stages - 1))
    tiles = [4096 + TILE * i for i in range(stages)]
    full = [m.barrier(8 * i) for i in range(stages)]
    empty = [m.barrier(64 + 8 * i, groups) for i in range(stages)]

    def producer() -> Role:
        for i in range(rounds):
            s, phase = i % stages, i // stages
            yield from m.wait(12, empty[s], phase - 1)
            m.arrive(12, full[s], copies=1)
            yield _now
            m.load(12, tiles[s], full[s])
            yield _now

    def consumer(first: int) -> Role:
        """The warps of a group in lockstep."""
        warps = tuple(range(first, first + 4))
        for i in range(rounds):
            for warp in warps:
                yield from m.wait(warp, full[i % stages], i // stages)
            m.wgmma(warps, tiles[i % stages])
            for warp in warps:
                m.tell("group_commit", warp, queue=Queue.WGMMA)
            yield _now
            for warp in warps:
                yield from m.wgmma_wait(warp, first, behind)
            if i >= behind:
                m.arrive(first + 1, empty[(i - behind) % stages])
            yield _now

    m.run(producer(), *(consumer(4 * group) for group in range(groups)))
    return m.trace


def _columns(start: int, warp: int) -> Cells:
    return tensor((start, 32), (32 * (warp % 4), 32 * (warp % 4) + 32))


_now: Callable[[], bool] = lambda: True  # noqa: E731
