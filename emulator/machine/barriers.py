"""Named barriers of a CTA (PTX ISA 9.7.13.1) and the barrier of a cluster (9.7.13.3)."""

from __future__ import annotations

from collections.abc import Sequence

from schedgen.emulator.machine.conditions import Condition, Resource
from schedgen.emulator.machine.lanes import LANES, EmulationError
from schedgen.emulator.machine.machine import Machine
from schedgen.emulator.machine.participants import Participant
from schedgen.emulator.machine.switches import RepeatedArrival
from schedgen.emulator.ptx.tree import Instruction

BARRIERS = 16
"""Named barriers of a CTA (N1)."""


class NamedBarrier(Resource):
    """One of the 16 barriers of a CTA.

    ``generation`` counts completions. An arrival counts all 32 threads of its warp (N1), whoever
    has arrived before: a barrier of 256 threads is complete when eight warps have arrived, or four
    of them twice. The ISA asks for care "to keep a warp from executing more barrier instructions
    than intended" before the barrier is reset; turns that warpgroups take (ping-pong) intend it.

    Args:
        machine: the launch.
        number: 0 to 15.
        cta: how messages name the CTA.
        warps: of the CTA; they may join later.
    """

    __slots__ = (
        "_arrivals",
        "_arrived",
        "_count",
        "_machine",
        "_red",
        "_votes",
        "_warps",
        "generation",
        "number",
        "results",
        "title",
    )

    def __init__(
        self, machine: Machine, number: int, cta: str, warps: Sequence[Participant]
    ) -> None:
        super().__init__()
        self._machine = machine
        self._warps = warps
        self.number = number
        self.title = f"named barrier {number} of {cta}"
        """How messages name it."""
        self.generation = 0
        self.results: dict[int, tuple[int, int]] = {}
        """Of bar.red, by generation: lanes that voted true, lanes that voted."""
        self._count: int | None = 0
        self._arrived: dict[int, list[tuple[str, int]]] = {}
        self._arrivals = 0
        self._red = False
        self._votes = (0, 0)

    def arrive(
        self,
        warp: Participant,
        count: int | None,
        where: Instruction,
        votes: tuple[int, int] | None = None,
    ) -> int:
        """A warp arrives. Returns the generation that it arrives in.

        Args:
            warp: the whole warp.
            count: threads that take part, None for all of the CTA.
            where: the instruction.
            votes: of bar.red: lanes that vote true, lanes that vote.

        Raises:
            EmulationError: N1 (count); N3: counts disagree, red is mixed with other forms or a warp
                arrives at it twice, or, by switch S26, a warp arrives at any form twice.
        """
        if count is not None and (count <= 0 or count % LANES):
            raise self._broken(
                where, "N1", f"the thread count {count} is no positive multiple of {LANES}"
            )
        if warp.rank in self._arrived and (
            self._red or self._machine.switches.repeated_arrival is RepeatedArrival.ERROR
        ):
            kind, line = self._arrived[warp.rank][-1]
            raise self._broken(
                where,
                "N3",
                f"{warp.title} arrives again at {self.title} before its generation "
                f"{self.generation} is complete; it arrived with {kind} in PTX line {line}",
            )
        if not self._arrived:
            self._count, self._red = count, votes is not None
        elif self._red != (votes is not None):
            raise self._broken(where, "N3", f"bar.red is mixed with other forms on {self.title}")
        elif self._needed(count) != self._needed(self._count):
            raise self._broken(
                where,
                "N3",
                f"{warp.title} says that {self._needed(count)} threads take part in {self.title}, "
                f"but the generation was begun with {self._needed(self._count)}",
            )
        generation = self.generation
        self._arrived.setdefault(warp.rank, []).append((where.name, where.line))
        self._arrivals += 1
        if votes is not None:
            self._votes = (self._votes[0] + votes[0], self._votes[1] + votes[1])
        self._machine.events += 1
        self.settle()
        return generation

    def settle(self) -> None:
        """Completes the generation if all have arrived; also called when warps exit (N5)."""
        if not self._arrived or self._arrivals * LANES < self._needed(self._count):
            return
        if self._red:
            self.results[self.generation] = self._votes
            self._votes = (0, 0)
        self.generation += 1
        self._arrived = {}
        self._arrivals = 0
        self.changed()

    def until(self, generation: int) -> Condition:
        """The condition that a generation is complete; ``tag`` is the generation."""
        return Condition(
            self,
            lambda: self.generation > generation,
            self.explain,
            tag=generation,
        )

    def explain(self) -> str:
        """The state of the barrier."""
        arrived = ", ".join(
            f"warp {warp} ({kind}, PTX line {line})"
            for warp, arrivals in sorted(self._arrived.items())
            for kind, line in arrivals
        )
        return (
            f"{self.title}, generation {self.generation}: {self._arrivals * LANES} of "
            f"{self._needed(self._count)} threads have arrived: {arrived or 'nobody'}"
        )

    def _needed(self, count: int | None) -> int:
        """Threads to wait for. Those that have exited are, of the whole CTA, not waited for."""
        if count is not None:
            return count
        return LANES * sum(not warp.finished or warp.rank in self._arrived for warp in self._warps)

    def _broken(self, where: Instruction, rule: str, problem: str) -> EmulationError:
        return EmulationError(f"PTX line {where.line}: {where.name}: {problem} (rule {rule})")


class ClusterBarrier(Resource):
    """The barrier of all threads of a cluster (N6); ``warps`` are those of all its CTAs."""

    __slots__ = ("_arrived", "_machine", "_warps", "generation")

    def __init__(self, machine: Machine, warps: Sequence[Participant]) -> None:
        super().__init__()
        self._machine = machine
        self._warps = warps
        self.generation = 0
        self._arrived: dict[int, int] = {}

    def arrive(self, warp: Participant, where: Instruction) -> int:
        """A warp arrives. Returns the generation.

        Raises:
            EmulationError: it has arrived already in this generation.
        """
        if warp.number in self._arrived:
            raise EmulationError(
                f"PTX line {where.line}: {where.name}: {warp.title} arrives again at the barrier "
                f"of the cluster before its generation {self.generation} is complete; it arrived "
                f"in PTX line {self._arrived[warp.number]}; wait before arriving again (rule N6)"
            )
        generation = self.generation
        self._arrived[warp.number] = where.line
        self._machine.events += 1
        self.settle()
        return generation

    def settle(self) -> None:
        """Completes the generation if all threads that have not exited have arrived."""
        if not self._arrived or self._missing():
            return
        self.generation += 1
        self._arrived = {}
        self.changed()

    def until(self, generation: int) -> Condition:
        """The condition that a generation is complete; ``tag`` is the generation."""
        return Condition(
            self,
            lambda: self.generation > generation,
            self._explain,
            tag=generation,
        )

    def _missing(self) -> list[Participant]:
        return [
            warp for warp in self._warps if not warp.finished and warp.number not in self._arrived
        ]

    def _explain(self) -> str:
        missing = ", ".join(warp.title for warp in self._missing()[:6])
        return f"the barrier of the cluster, generation {self.generation}; not arrived: {missing}"
