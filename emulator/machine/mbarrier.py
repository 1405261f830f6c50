"""The mbarrier object (PTX ISA 9.7.13.15), rules B1 to B15 of the project's notes."""

from __future__ import annotations

from schedgen.emulator.machine.conditions import Condition, Resource
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.machine import Machine
from schedgen.emulator.machine.switches import Verdict
from schedgen.emulator.ptx.tree import Instruction

LIMIT = (1 << 20) - 1
"""The largest arrival count, and the largest magnitude of the transaction count (B1)."""
SIZE = 8
"""Bytes of the object, and its alignment."""


class Mbarrier(Resource):
    """A live mbarrier object.

    ``phase`` counts from 0; the current phase is incomplete, all earlier ones are complete.
    ``key`` is how the race checker names it: number of the CTA, byte offset.

    Args:
        machine: the launch.
        cta: number and title of the CTA.
        offset: in bytes, in its shared memory.
        count: arrivals that a phase takes.
        where: the instruction that initializes it.

    Raises:
        EmulationError: B1 (count).
    """

    __slots__ = (
        "_cta",
        "_machine",
        "_seen",
        "_who",
        "expected",
        "key",
        "line",
        "offset",
        "pending",
        "phase",
        "transactions",
    )

    def __init__(
        self,
        machine: Machine,
        cta: tuple[int, str],
        offset: int,
        count: int,
        where: Instruction,
    ) -> None:
        super().__init__()
        if not 1 <= count <= LIMIT:
            raise _broken(where, "B1", f"arrival count {count} is not in 1…{LIMIT}")
        self._machine = machine
        number, self._cta = cta
        self.key = number, offset
        self.offset = offset
        self.line = where.line
        self.expected = count
        self.pending = count
        self.transactions = 0
        self.phase = 0
        self._seen = -1
        self._who: dict[tuple[str, int], int] = {}
        """Arrivals in this phase, by whose they are and by the line of PTX."""

    @property
    def title(self) -> str:
        """How messages name it."""
        return (
            f"mbarrier at shared offset {self.offset:#x} of {self._cta} "
            f"(initialized in PTX line {self.line} with count {self.expected})"
        )

    def fresh(self, count: int) -> bool:
        """Whether it is as ``init`` with this count would make it."""
        states = self.phase, self.transactions, self.pending, self.expected
        return states == (0, 0, count, count)

    def takes(self, count: int) -> bool:
        """Whether this phase takes so many arrivals, and somebody has seen the preceding one."""
        return count <= self.pending and self._seen >= self.phase - 1

    def arrive(
        self, count: int, who: str, where: Instruction, *, drop: bool = False, complete: bool = True
    ) -> int:
        """An arrive-on with ``count``. Returns the phase that it counts for.

        Args:
            count: arrivals; those of all lanes of a warp at once.
            who: for messages, as ``warp 3``.
            where: the instruction.
            drop: also lowers the count expected in later phases (arrive_drop).
            complete: False for ``.noComplete``: completing the phase is an error.

        Raises:
            EmulationError: B6 (count), B7 (the preceding phase was not observed).
        """
        if not 1 <= count <= LIMIT:
            raise _broken(where, "B6", f"arrival count {count} is not in 1…{LIMIT}")
        if count > self.pending:
            raise _broken(
                where,
                "B6",
                f"{count} arrivals of {who}, but phase {self.phase} of the {self.title} takes only "
                f"{self.pending} more; arrived so far: {self._arrived()}",
            )
        self._consumed(who, where)
        phase = self.phase
        key = who, where.line
        self._who[key] = self._who.get(key, 0) + count
        self.pending -= count
        if drop:
            self.expected -= count
        if not complete and self.pending == 0 and self.transactions == 0:
            raise _broken(where, "B6", f".noComplete completes a phase of the {self.title}")
        self._machine.events += 1
        self._advance()
        return phase

    def expect(self, count: int, where: Instruction) -> None:
        """Adds ``count`` bytes to the transactions that the current phase awaits."""
        self._transact(count, where)
        self._machine.events += 1

    def complete(self, count: int, where: Instruction) -> int:
        """Reports ``count`` bytes as transferred. Returns the phase that they count for."""
        phase = self.phase
        self._transact(-count, where)
        self._machine.events += 1
        self._advance()
        return phase

    def increment(self, count: int, where: Instruction) -> None:
        """Adds pending arrivals to this phase (cp.async.mbarrier.arrive without .noinc, B14)."""
        if self.pending + count > LIMIT:
            raise _broken(where, "B14", f"more than {LIMIT} pending arrivals of the {self.title}")
        self.pending += count

    def observe(self) -> int:
        """A wait returned True: notes and returns the phase that it has seen complete."""
        self._seen = self.phase - 1
        return self._seen

    def until(self, phase: int, *, again: bool, timed: bool) -> Condition:
        """The condition that ``phase`` is complete."""
        return Condition(
            self,
            lambda: self.phase > phase,
            lambda: self.explain(phase),
            again=again,
            timed=timed,
            tag=phase,
        )

    def explain(self, phase: int) -> str:
        """The state of the object, for somebody who waits for ``phase``."""
        missing: list[str] = []
        if self.pending:
            missing.append(f"{self.pending} of its arrivals")
        if self.transactions > 0:
            missing.append(f"{self.transactions} bytes of expected copies")
        if self.transactions < 0:
            missing.append(f"an expect_tx of {-self.transactions} bytes that were copied already")
        return (
            f"phase {phase} (parity {phase & 1}) of the {self.title}; phase {self.phase} lacks "
            f"{' and '.join(missing)}; arrived: {self._arrived()}"
        )

    def _transact(self, change: int, where: Instruction) -> None:
        self.transactions += change
        if abs(self.transactions) > LIMIT:
            raise _broken(
                where,
                "B1",
                f"the transaction count of the {self.title} becomes {self.transactions}; it must "
                f"stay within ±{LIMIT}",
            )

    def _advance(self) -> None:
        if self.pending == 0 and self.transactions == 0:
            self.phase += 1
            self.pending = self.expected
            self._who.clear()
            self.changed()

    def _consumed(self, who: str, where: Instruction) -> None:
        verdict = self._machine.switches.consumption
        if self._seen >= self.phase - 1 or verdict is Verdict.OFF:
            return
        text = (
            f"{who} arrives for phase {self.phase} of the {self.title}, but no wait has seen phase "
            f"{self.phase - 1} complete; wait for a phase before the arrivals of the next one"
        )
        if verdict is Verdict.ERROR:
            self._machine.broken(where, "B7", text)
            return
        self._machine.warn(f"PTX line {where.line}: {where.name}: {text} (rule B7)")

    def _arrived(self) -> str:
        if not self._who:
            return "nobody"
        return ", ".join(
            f"{who} (PTX line {line}) ×{count}" for (who, line), count in self._who.items()
        )


def _broken(where: Instruction, rule: str, problem: str) -> EmulationError:
    return EmulationError(f"PTX line {where.line}: {where.name}: {problem} (rule {rule})")
