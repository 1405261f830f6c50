"""What completes the phases that a wait waits for, and a schedule in which that comes last.

A wait that is not repeated goes on too early only where it finds its phase incomplete. Operations
that execute in the order of issue never show it where a warp waits for the second of two copies
first: the first one is complete by then. So the kernel itself runs once, and the race checker notes
which lines complete what.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from schedgen.benchmarks.mutants.kernels import Mutant, paused
from schedgen.emulator.emulation import Emulator
from schedgen.emulator.machine.policies import Starved
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.order.tracker import Queue

Key = tuple[int, int]
Lines = Mapping[int, Collection[int]]
"""PTX lines of waits -> lines of the arrivals and operations that complete what they wait for."""


class _Completing(Checker):
    """A race checker that notes who completes phases."""

    def __init__(self, found: dict[int, set[int]], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._found = found
        self._issued: dict[int, int] = {}
        """Lines of operations."""
        self._lines: dict[tuple[Key, int], set[int]] = defaultdict(set)
        """By barrier and phase."""

    def issue(self, warp: int, queue: Queue, line: int, **options: Any) -> int:
        handle = super().issue(warp, queue, line, **options)
        self._issued[handle] = line
        return handle

    def arrive(self, warp: int, barrier: Key, phase: int, **options: Any) -> None:
        super().arrive(warp, barrier, phase, **options)
        self._lines[barrier, phase].add(options["line"])

    def commit(self, warp: int, barrier: Key, phase: int, **options: Any) -> None:
        super().commit(warp, barrier, phase, **options)
        self._lines[barrier, phase].add(options["line"])

    def track(self, operation: int, barrier: Key, phase: int) -> None:
        super().track(operation, barrier, phase)
        self._lines[barrier, phase].add(self._issued[operation])

    def wait(self, warp: int, barrier: Key, phase: int, **options: Any) -> None:
        super().wait(warp, barrier, phase, **options)
        if phase >= 0:
            self._found[options["line"]] |= self._lines[barrier, phase]


class Watching(Emulator):
    """Runs launches of a kernel without faults, and notes in ``awaited`` what completes what."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.awaited: defaultdict[int, set[int]] = defaultdict(set)

    def _new_checker(self, *arguments: Any, **options: Any) -> Checker:
        return _Completing(self.awaited, *arguments, **options)


def starved(mutant: Mutant, awaited: Lines) -> tuple[Mutant, Starved] | None:
    """A mutant of a wait, whose warps end their turns where that takes, and the schedule for it;
    None if there is no wait any more."""
    at = mutant.place()
    if at is None:
        return None
    lines = frozenset(awaited.get(mutant.instruction.line, ()))
    arrivals = [
        place
        for place, one in enumerate(mutant.kernel.body)
        if one.line in lines and one.opcode == "mbarrier" and place != at
    ]
    before = sorted([at, *arrivals])
    kernel = paused(mutant.kernel, *before)
    new = {place: place + more for more, place in enumerate(before, 1)}
    policy = Starved(0, [new.pop(at)], new.values(), lines)
    return replace(mutant, kernel=kernel), policy
