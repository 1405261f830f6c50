"""What warps, CTAs and operations of one launch share.

Whoever executes instructions knows this, and this knows none of them: `residency.Grid` has the
clusters and warps of the launch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from schedgen.emulator.machine.agents import Chance, Operations
from schedgen.emulator.machine.lanes import LANES, EmulationError
from schedgen.emulator.machine.memory import HostMemory
from schedgen.emulator.machine.switches import Switches, Verdict
from schedgen.emulator.order.tracker import Ignore, Tracker
from schedgen.emulator.ptx.tree import Instruction

Triple = tuple[int, int, int]
POISON = 0xFF
"""Byte that memory holds at the start: NaN in every floating-point format that has one."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The sizes of a launch.

    ``shared`` bytes of shared memory per CTA, the system's 1024 bytes included; ``dynamic`` those
    of the dynamic part; ``local`` bytes of local memory per thread. ``registers`` per thread at
    launch, ``known`` if that is what the kernel was compiled for, and not just the most that fit.
    """

    grid: Triple
    block: Triple
    cluster: Triple
    explicit_cluster: bool
    shared: int
    dynamic: int
    local: int
    registers: int
    known_registers: bool

    @property
    def threads(self) -> int:
        """Threads of a CTA."""
        return math.prod(self.block)

    @property
    def cluster_size(self) -> int:
        """CTAs of a cluster."""
        return math.prod(self.cluster)

    @property
    def warps(self) -> int:
        """Warps of a CTA; the last one may have fewer than 32 threads."""
        return -(-self.threads // LANES)


def block_number(grid: Triple, index: Triple) -> int:
    """The number in the launch of the CTA with a %ctaid."""
    return index[0] + grid[0] * (index[1] + grid[1] * index[2])


def cluster_number(grid: Triple, cluster: Triple, block: int) -> int:
    """The number in the launch of the cluster that contains a CTA, by the number of the CTA."""
    x, y, z = block % grid[0], block // grid[0] % grid[1], block // (grid[0] * grid[1])
    counts = grid[0] // cluster[0], grid[1] // cluster[1], grid[2] // cluster[2]
    return block_number(counts, (x // cluster[0], y // cluster[1], z // cluster[2]))


class Machine:
    """A launch under execution.

    Attributes:
        tracking: whether there is a race checker, ``tracker``. Nothing must be computed for it
            otherwise.
        executed: warp instructions so far.
        blocked: PTX lines of instructions that warps had to wait in.
        events: counts what may let others go on: arrivals, operations, exits.
        policy: what has a choice asks it.
        operations: those in flight.
        poison: the byte that shared and tensor memory hold at the start.

    Args:
        tolerated: of the id of a rule: whether breaking it is a finding (`broken`) and no error.
        warnings: deviations from the ISA that are tolerated.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        memory: HostMemory,
        policy: Chance,
        tracker: Tracker | None,
        switches: Switches,
        processors: int,
        poison: int = POISON,
        tolerated: Callable[[str], bool] | None = None,
    ) -> None:
        self.shape = shape
        self.memory = memory
        memory.on_released = lambda where, region: self.broken(
            where,
            "released",
            f"an access to {region.name}, which was released before the launch; the program has to "
            "keep it until the kernel has ended",
        )
        memory.on_slack = lambda where, region: self.broken(
            where,
            "bounds",
            f"an access to {region.name}; an allocator happens to leave memory there",
        )
        self.policy = policy
        self.tracking = tracker is not None
        self.tracker: Tracker = tracker or cast(Tracker, Ignore())
        self.switches = switches
        self.processors = processors
        self.poison = poison
        self._tolerated = tolerated or _nothing
        self.operations = Operations(self)
        self.executed = 0
        self.blocked: set[int] = set()
        self.events = 0
        self.warnings: list[str] = []
        self.kept: dict[object, Any] = {}
        """What families of instructions remember of the launch, each under a key of its own."""
        self._unstarted = _order(shape)
        self._next = next(self._unstarted, None)

    @property
    def unstarted(self) -> bool:
        """Whether clusters of the grid have not started."""
        return self._next is not None

    def cancel(self) -> Triple | None:
        """Takes a cluster that has not started off the grid (clusterlaunchcontrol.try_cancel).

        Returns %ctaid of its first CTA, or None if all have started.
        """
        first, self._next = self._next, next(self._unstarted, None)
        return first

    def release(self) -> None:
        """The launch is over: lets go of what is large, although warps and CTAs know each other."""
        self.tracker = cast(Tracker, Ignore())
        self.kept.clear()

    def broken(
        self, where: Instruction, rule: str, problem: str, verdict: Verdict = Verdict.ERROR
    ) -> None:
        """A rule is broken in a way that execution can survive: an error, or a finding.

        A ``verdict`` is the reading of the ISA where its text leaves it open.

        Raises:
            EmulationError: it is not to be reported and survived.
        """
        text = f"PTX line {where.line}: {where.name}: {problem} (rule {rule})"
        if verdict is not Verdict.ERROR:
            if verdict is Verdict.WARNING:
                self.warn(text)
                self.tracker.broken(where.line, rule, problem, warning=True)
            return
        if not self.tracking or not self._tolerated(rule):
            raise EmulationError(text)
        self.tracker.broken(where.line, rule, problem)

    def warn(self, text: str) -> None:
        """Notes something that is wrong by the letter of the ISA but no error here."""
        if text not in self.warnings:
            self.warnings.append(text)


def _nothing(_rule: str) -> bool:
    return False


def _order(shape: Shape) -> Iterator[Triple]:
    """%ctaid of the first CTA of each cluster, x fastest."""
    width, height, depth = shape.cluster
    for z in range(0, shape.grid[2], depth):
        for y in range(0, shape.grid[1], height):
            for x in range(0, shape.grid[0], width):
                yield x, y, z
