"""Kernels in which some waits and barriers tell nothing: is everything ordered all the same?

A wait that is removed, or waits for something else, orders nothing of what it did. So let the
kernel itself run, and let the race checker pass over what these waits tell. If it finds no fault,
all conflicting accesses of the launch are ordered by the rest, in whatever order things happen: no
accident of a schedule is needed for it, as it might be where the mutant itself runs. What the waits
would have told is followed through the run, so that the reason can name who tells it instead.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from emulated_mutants.run import SEEDS, Campaign

from schedgen.emulator.emulation import Emulator
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.policies import Adversarial
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.order.knowledge import (
    CAUSAL,
    TENSOR,
    Message,
    Rows,
    empty,
    learn,
    merge,
    widen,
)
from schedgen.emulator.order.warps import Warp
from schedgen.emulator.ptx.tree import Kernel

Key = tuple[int, int]
_NAMED = 2
"""Lines that a reason names."""


@dataclass
class Deaf:
    """What tells nothing, and what was seen of it.

    Attributes:
        lines: of waits and barriers.
        absent: the barriers there are not met at all, not even by those who arrive.
        told: lines that told what these lines did not, how often.
        missed: whether nobody told some of it.
        clash: why barriers would be mixed up without the waiting, if they might be.
    """

    lines: frozenset[int]
    absent: bool = True
    told: Counter[int] = field(default_factory=Counter[int])
    missed: bool = False
    clash: str = ""

    def reason(self) -> str:
        """Why nothing needs these waits, after a run without a fault."""
        if not self.told:
            return "without what it tells everything is ordered: nobody uses it"
        lines = ", ".join(str(line) for line, _ in self.told.most_common(_NAMED))
        rest = ", the rest is not used" if self.missed else ""
        return f"without what it tells everything is ordered: line {lines} tells it{rest}"


class DeafChecker(Checker):
    """A race checker that passes over what some lines tell."""

    def __init__(self, deaf: Deaf, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._deaf = deaf
        self._missing: dict[int, Rows] = {}
        """By warp, what it was not told so far."""
        self._left: dict[tuple[int, Key], int] = {}
        """Barriers that warps left without waiting, and their generations."""
        self._meeting: dict[tuple[Key, int], set[int]] = defaultdict(set)
        self._last: dict[Key, dict[int, int]] = defaultdict(dict)
        """By barrier and warp, the generation that it arrived for last, at lines that tell."""
        self._waited: set[Key] = set()
        """Barriers at which other lines wait: only these may take one warp for another."""
        self._clashes: list[tuple[Key, str]] = []
        self._skipped: dict[Key, dict[int, Message | None]] = defaultdict(dict)
        """Barriers that nobody meets at, and what they would have told."""

    def wait(
        self, warp: int, barrier: Key, phase: int, *,
        line: int, cluster: bool = False, relaxed: bool = False,
    ) -> None:  # fmt: skip
        if line not in self._deaf.lines:
            super().wait(warp, barrier, phase, line=line, cluster=cluster, relaxed=relaxed)
            self._hears(warp, line)
        elif phase >= 0:
            known = self._mbarriers._barrier(barrier)  # pyright: ignore[reportPrivateUsage]
            self._misses(warp, known.received(phase, far=True, copies_far=True))

    def signal(self, warp: int, barrier: Key, generation: int, **options: Any) -> None:
        if (warp, barrier) in self._left:
            self._again(self._state.warp(warp), barrier, self._left.pop((warp, barrier)))
        self._meeting[barrier, generation].add(warp)
        if options["line"] in self._deaf.lines and self._deaf.absent:
            told = self._skipped[barrier]
            told[generation] = merge(told.get(generation), self._state.warp(warp).message())
            return
        self._beside(self._state.warp(warp), barrier, generation)
        self._last[barrier][warp] = generation
        super().signal(warp, barrier, generation, **options)

    def leave(self, warp: int, barrier: Key, generation: int, **options: Any) -> None:
        if options["line"] not in self._deaf.lines:
            self._waited.add(barrier)
            super().leave(warp, barrier, generation, **options)
            self._hears(warp, options["line"])
            return
        skipped = self._skipped.get(barrier, {}).get(generation)
        message = merge(self._told(barrier, generation), skipped)
        if message is not None:
            self._misses(warp, message)
        if not self._deaf.absent:
            self._left[warp, barrier] = generation

    def close(self) -> None:
        super().close()
        self._deaf.missed = any(bool(rows.any()) for rows in self._missing.values())
        found = [clash for barrier, clash in self._clashes if barrier in self._waited]
        self._deaf.clash = next(iter(found), "")

    def _told(self, barrier: Key, generation: int) -> Message | None:
        return self._barriers._arrived.get(barrier, {}).get(generation)  # pyright: ignore[reportPrivateUsage]

    def _again(self, warp: Warp, barrier: Key, generation: int) -> None:
        """A warp arrives at a barrier for which it did not wait before: it has to know otherwise
        that the others have arrived, or it would be counted twice."""
        if not self._knows(warp, barrier, generation):
            clash = f"warp {warp.number} arrives again, perhaps before the others"
            self._clashes.append((barrier, clash))

    def _beside(self, warp: Warp, barrier: Key, generation: int) -> None:
        """Others met at a barrier before: a warp that comes has to know that they all arrived, or
        it would be counted among them."""
        before = {one for other, one in self._last[barrier].items() if other != warp.number}
        for one in before - {generation}:
            without = warp.number not in self._meeting[barrier, one]
            if without and not self._knows(warp, barrier, one):
                clash = "other warps meet at the same barrier, perhaps at the same time"
                self._clashes.append((barrier, clash))

    def _knows(self, warp: Warp, barrier: Key, generation: int) -> bool:
        """Whether a warp knows all that those knew who arrived."""
        message = self._told(barrier, generation)
        if message is None:
            return True
        rows = widen(warp.rows, message.rows.shape[1])
        return bool((rows[CAUSAL, : message.rows.shape[1]] >= message.rows[CAUSAL]).all())

    def _misses(self, number: int, message: Message) -> None:
        warp = self._state.warp(number)
        before = widen(warp.rows, message.rows.shape[1])
        after = learn(before.copy(), message, implied=False)
        news = np.where(after > before, after, 0)
        news[TENSOR] = 0  # follows from the rest
        news[:, warp.cluster.observed[: news.shape[1]]] = 0  # only for errors of counts (B7)
        known = widen(self._missing.get(number, empty(0)), news.shape[1])
        self._missing[number] = np.maximum(known, widen(news, known.shape[1]))

    def _hears(self, number: int, line: int) -> None:
        missing = self._missing.get(number)
        if missing is None or not missing.any():
            return
        rows = widen(self._state.warp(number).rows, missing.shape[1])
        told = (missing > 0) & (rows[:, : missing.shape[1]] >= missing)
        if told.any():
            self._deaf.told[line] += int(told.sum())
            self._missing[number] = np.where(told, 0, missing)


class _Patient(Adversarial):
    """No try_wait returns False while something else can go on: no second wait tells what the first
    one should have told."""

    def spurious(self) -> bool:
        return False


class _Emulator(Emulator):
    """Runs launches with such a checker."""

    deaf: Deaf

    def _new_checker(self, *arguments: Any, **options: Any) -> Checker:
        return DeafChecker(self.deaf, *arguments, **options)


def superfluous_order(
    campaign: Campaign, kernel: Kernel, deaf: Deaf, launches: Iterable[int],
    seeds: Iterable[int] = SEEDS[:1],
) -> str:  # fmt: skip
    """Why nothing needs what some lines of a kernel tell; empty if something does."""
    for number in launches:
        for seed in seeds:
            emulator = _Emulator(
                _Patient(seed), "first", campaign.capture.switches,
                rewrite=lambda module: replace(
                    module, kernels={**module.kernels, kernel.name: kernel}
                ),
            )  # fmt: skip
            emulator.deaf = deaf
            try:
                campaign.execute(number, emulator)
            except EmulationError:
                return ""
            if deaf.clash:
                return ""
    return deaf.reason()
