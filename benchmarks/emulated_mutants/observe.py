"""What waits and barriers of a kernel tell that the waiting warp does not know yet.

A wait that only ever tells what its warp already knows from elsewhere orders nothing: whoever
leaves it out loses no order. Knowledge is that of the race checker (`schedgen.emulator.order`), in
the schedules that are executed here.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from emulated_mutants.run import SEEDS, Campaign

from schedgen.benchmarks.mutants.kernels import Mutant
from schedgen.emulator.emulation import Emulator
from schedgen.emulator.machine.policies import Adversarial
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.order.knowledge import TENSOR, Message, Rows, learn, widen
from schedgen.emulator.order.mbarriers import Barrier
from schedgen.emulator.order.tracker import Cells, Space
from schedgen.emulator.order.warps import Warp
from schedgen.emulator.ptx.tree import Address, Guard, Immediate, Instruction, Kernel, Register

Key = tuple[int, int]
Object = tuple[int, int, int]
"""An mbarrier in one of the runs: number of the run, CTA and offset."""
BEHIND = 1_000_000
"""Added to the line of a wait that was put behind another one."""
_PASSED = "%passed"


class Seen:
    """What some executions had in common.

    Attributes:
        waits: lines of waits and barriers -> whether one of them told something new.
        used: lines of waits that told something new which their warp may have used: it did
            something before a barrier told it the same.
        inits: lines of mbarrier.init -> the objects.
        arrivals: lines of arrives and commits -> the objects, and the first phase that they met.
        observed: objects -> the last phase that somebody waited for.
        groups: who met at barriers: warps and lines, how often.
    """

    def __init__(self) -> None:
        self.waits: dict[int, bool] = {}
        self.used: set[int] = set()
        self.inits: dict[int, set[Object]] = defaultdict(set)
        self.arrivals: dict[int, dict[Object, int]] = defaultdict(dict)
        self.observed: dict[Object, int] = {}
        self.run = 0
        self.groups: Counter[frozenset[tuple[int, int]]] = Counter()

    def told(self, lines: Iterable[int], new: bool) -> None:
        """Notes what a wait told."""
        for line in lines:
            self.waits[line] = self.waits.get(line, False) or new

    def named(self, barrier: Key) -> Object:
        """An mbarrier of the current run."""
        return self.run, *barrier

    def unobserved(self, objects: dict[Object, int]) -> bool:
        """Whether nobody waits for any of these objects' phases from the given ones on."""
        return all(self.observed.get(key, -1) < phase for key, phase in objects.items())


@dataclass(frozen=True)
class _News:
    """What a warp knew before and after a wait."""

    line: int
    before: Rows
    after: Rows

    def known(self, others: Iterable[Rows]) -> bool:
        """Whether others know together what was new."""
        wide = self.after.shape[1]
        told = np.zeros_like(self.after)
        for rows in others:
            columns = min(wide, rows.shape[1])
            np.maximum(told[:, :columns], rows[:, :columns], out=told[:, :columns])
        before = np.zeros_like(self.after)
        before[:, : self.before.shape[1]] = self.before
        return bool(np.all((told >= self.after) | (self.after <= before)))


def _travels(rows: Rows) -> Rows:
    """What a barrier hands on."""
    return rows[:TENSOR]


class _Observer(Checker):
    """A race checker that looks at what is told before it passes it on."""

    def __init__(self, seen: Seen, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._seen = seen
        self._met: dict[tuple[Key, int], set[tuple[int, int]]] = defaultdict(set)
        self._open: dict[int, list[_News]] = defaultdict(list)
        """What warps were told and did not use so far."""
        self._signals: dict[tuple[Key, int], list[tuple[int, Rows, list[_News]]]] = defaultdict(
            list
        )

    def _acts(self, warp: int) -> None:
        self._seen.used.update(one.line for one in self._open.pop(warp, ()))

    def generic(self, warp: int, *arguments: Any, **options: Any) -> None:
        self._acts(warp)
        super().generic(warp, *arguments, **options)

    def together(self, *_: object, **__: object) -> bool:
        return False

    def issue(self, warp: int, *arguments: Any, **options: Any) -> int:
        self._acts(warp)
        return super().issue(warp, *arguments, **options)

    def allocate(self, warp: int, cells: Cells, line: int) -> None:
        self._acts(warp)
        super().allocate(warp, cells, line)

    def deallocate(self, warp: int, cells: Cells, line: int, peer: Cells | None = None) -> None:
        self._acts(warp)
        super().deallocate(warp, cells, line, peer)

    def proxy_fence(self, warp: int, space: Space | None) -> None:
        self._acts(warp)
        super().proxy_fence(warp, space)

    def thread_fence(self, warp: int, **options: Any) -> None:
        self._acts(warp)
        super().thread_fence(warp, **options)

    def barrier_init(self, warp: int, barrier: Key, line: int) -> None:
        self._seen.inits[line].add(self._seen.named(barrier))
        super().barrier_init(warp, barrier, line)

    def arrive(self, warp: int, barrier: Key, phase: int, **options: Any) -> None:
        self._seen.arrivals[options["line"]].setdefault(self._seen.named(barrier), phase)
        self._acts(warp)
        super().arrive(warp, barrier, phase, **options)

    def commit(self, warp: int, barrier: Key, phase: int, **options: Any) -> None:
        self._seen.arrivals[options["line"]].setdefault(self._seen.named(barrier), phase)
        self._acts(warp)
        super().commit(warp, barrier, phase, **options)

    def wait(
        self, warp: int, barrier: Key, phase: int, *,
        line: int, cluster: bool = False, relaxed: bool = False,
    ) -> None:  # fmt: skip
        new = False
        if phase >= 0:
            one = self._seen.named(barrier)
            self._seen.observed[one] = max(self._seen.observed.get(one, -1), phase)
            new = relaxed or self._news(self._state.warp(warp), barrier, phase)
        self._seen.told([line], new)
        executor = self._state.warp(warp)
        before = executor.rows.copy()
        super().wait(warp, barrier, phase, line=line, cluster=cluster, relaxed=relaxed)
        if relaxed:
            self._seen.used.add(line)
        elif new:
            after = _travels(executor.rows).copy()
            after[:, executor.agent.column] = 0
            after[:, executor.cluster.observed[: after.shape[1]]] = 0
            after[:, self._besides(barrier)] = 0
            self._open[warp].append(_News(line, _travels(before), after))

    def signal(self, warp: int, barrier: Key, generation: int, **options: Any) -> None:
        self._met[barrier, generation].add((warp, options["line"]))
        rows = _travels(self._state.warp(warp).message().rows)
        self._signals[barrier, generation].append((warp, rows, list(self._open[warp])))
        super().signal(warp, barrier, generation, **options)

    def leave(self, warp: int, barrier: Key, generation: int, **options: Any) -> None:
        message = self._barriers._arrived.get(barrier, {}).get(generation)  # pyright: ignore[reportPrivateUsage]
        executor = self._state.warp(warp)
        new = message is not None and _adds(executor, message, [])
        lines = {line for _, line in self._met[barrier, generation]}
        self._seen.told(lines, new)
        super().leave(warp, barrier, generation, **options)
        self._open.pop(warp, None)

    def close(self) -> None:
        for met in self._signals.values():
            for warp, _, news in met:
                others = [rows for number, rows, _ in met if number != warp]
                self._seen.used.update(one.line for one in news if not one.known(others))
        self._seen.groups.update(frozenset(group) for group in self._met.values())
        super().close()

    def _news(self, warp: Warp, key: Key, phase: int) -> bool:
        barrier: Barrier = self._mbarriers._barrier(key)  # pyright: ignore[reportPrivateUsage]
        message = barrier.received(phase, far=True, copies_far=True)
        return _adds(warp, message, self._besides(key))

    def _besides(self, key: Key) -> list[int]:
        """Columns that say that a phase is over: of interest if copies bring data by then."""
        barrier: Barrier = self._mbarriers._barrier(key)  # pyright: ignore[reportPrivateUsage]
        return [] if barrier.tracked else barrier.completes


def _adds(warp: Warp, message: Message, besides: list[int]) -> bool:
    """Whether a message tells a warp something; who waited for which phase does not count: that
    is about errors of the count of a barrier only (B7)."""
    if message.foreign:
        return True
    rows = widen(warp.rows, message.rows.shape[1]).copy()
    # Not implied: what a fence::after adds follows from the rest.
    after = learn(rows.copy(), message, implied=False)
    differ = (after != rows).any(axis=0)
    observed = warp.cluster.observed[: len(differ)]
    differ[: len(observed)] &= ~observed
    differ[besides] = False
    return bool(np.any(differ))


class _Emulator(Emulator):
    """Runs launches with an observer."""

    seen: Seen

    def _new_checker(self, *arguments: Any, **options: Any) -> Checker:
        return _Observer(self.seen, *arguments, **options)


def observed(
    campaign: Campaign, kernel: Kernel, launches: Iterable[int], seeds: Iterable[int] = SEEDS
) -> Seen:
    """What a kernel, or a mutant of it, does in some launches.

    Raises:
        EmulationError: it has a fault.
    """
    seen = Seen()
    for number in launches:
        for seed in seeds:
            emulator = _Emulator(
                Adversarial(seed), "first", campaign.capture.switches,
                rewrite=lambda module: replace(
                    module, kernels={**module.kernels, kernel.name: kernel}
                ),
            )  # fmt: skip
            emulator.seen = seen
            seen.run += 1
            campaign.execute(number, emulator)
    return seen


def both(mutant: Mutant) -> Kernel | None:
    """The kernel with a wait for the next mbarrier and, once that is over, the wait itself.

    The latter has the line of the former and `BEHIND`.
    """
    kernel, line = mutant.original, mutant.instruction.line
    at = next(n for n, one in enumerate(kernel.body) if one.line == line)
    own = kernel.body[at]
    if own.guard is not None or not isinstance(own.operands[0], Register):
        return None
    passed = Register(_PASSED)
    operands = tuple(
        replace(o, offset=o.offset + 8) if isinstance(o, Address) else o for o in own.operands[1:]
    )
    first = replace(own, operands=(passed, *operands))
    never = Instruction(
        "setp", ("ne", "s32"), (own.operands[0], Immediate(0), Immediate(0)),
        line, Guard(_PASSED, negated=True), own.location,
    )  # fmt: skip
    second = replace(own, line=line + BEHIND, guard=Guard(_PASSED))
    return replace(
        kernel,
        body=(*kernel.body[:at], first, never, second, *kernel.body[at + 1 :]),
        labels={name: to + 2 * (to > at) for name, to in kernel.labels.items()},
        registers={**kernel.registers, _PASSED: "pred"},
    )
