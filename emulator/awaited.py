"""What completes the phases that waits wait for, and a schedule in which that comes last.

A wait that is not repeated goes on too early only where it finds its phase incomplete. Operations
that execute in the order of issue never show it where a warp waits for the second of two copies
first: the first one is complete by then. So the kernel is executed once, and the race checker notes
which lines complete what.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from schedgen.emulator.launch.capture import Launch
from schedgen.emulator.machine.conditions import Condition
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.mbarrier import Mbarrier
from schedgen.emulator.machine.policies import RoundRobin, Starved
from schedgen.emulator.machine.program import Decoded
from schedgen.emulator.machine.warp import Warp
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.order.tracker import Queue
from schedgen.emulator.ptx.tree import Instruction, Kernel

Key = tuple[int, int]
Lines = Mapping[int, Collection[int]]
"""PTX lines of waits -> lines of the arrivals and operations that complete what they wait for."""


class Completing(Checker):
    """A race checker that notes who completes phases, and who waits for them."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._issued: dict[int, int] = {}
        """Lines of operations."""
        self._lines: dict[tuple[Key, int], set[int]] = defaultdict(set)
        """By barrier and phase."""
        self._waits: dict[int, set[tuple[Key, int]]] = defaultdict(set)
        """By line."""

    @property
    def awaited(self) -> Lines:
        """What was noted so far."""
        return {
            line: frozenset[int]().union(*(self._lines.get(one, ()) for one in phases))
            for line, phases in self._waits.items()
        }

    def hear(self, warp: Warp, instruction: Instruction) -> Callable[[Condition | None], None]:
        """A warp tests a phase that may be incomplete; for `program.Decoded.hear`."""

        def after(condition: Condition | None) -> None:
            if condition is None or not isinstance(condition.tag, int):
                return
            if isinstance(condition.resource, Mbarrier):
                self._waits[instruction.line].add((condition.resource.key, condition.tag))

        return after

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
            self._waits[options["line"]].add((barrier, phase))


def starved(kernel: Kernel, waits: Collection[int], awaited: Lines) -> Starved:
    """The schedule in which comes last what some waits, by their places in the body, wait for."""
    lines = frozenset(line for at in waits for line in awaited.get(kernel.body[at].line, ()))
    arrivals = [
        place
        for place, one in enumerate(kernel.body)
        if one.line in lines and one.opcode == "mbarrier" and place not in waits
    ]
    return Starved(0, waits, arrivals, lines)


def starving(
    again: Callable[..., object], launch: Launch, kernel: Kernel, waits: Collection[int]
) -> Callable[[], Starved]:
    """What makes that schedule; ``again`` executes the launch, as `Emulator.again`, to find out."""
    decoded = Decoded()
    made: list[Completing] = []

    def make(*arguments: Any, **options: Any) -> Completing:
        made.append(Completing(*arguments, **options))
        decoded.hear = made[-1].hear
        return made[-1]

    with suppress(EmulationError):  # which will be met again
        again(launch, RoundRobin(), make, decoded)
    return partial(starved, kernel, waits, made[-1].awaited)
