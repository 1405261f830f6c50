"""The register pool of a CTA, from which setmaxnreg takes and to which it gives (N7)."""

from __future__ import annotations

from collections.abc import Sequence

from schedgen.emulator.machine.conditions import Condition, Resource
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.machine import Machine
from schedgen.emulator.machine.participants import Participant
from schedgen.emulator.ptx.tree import Instruction


class Registers(Resource):
    """The registers of a CTA that setmaxnreg moves between warps (N7).

    Args:
        machine: the launch, which has the registers per thread and whether they are what the
            kernel was compiled for, and not the most that fit.
        title: how messages name the CTA.
        warps: of the CTA, in order; they may join later.
    """

    __slots__ = ("_history", "_machine", "_owned", "_title", "_warps", "free")

    def __init__(self, machine: Machine, title: str, warps: Sequence[Participant]) -> None:
        super().__init__()
        self._machine = machine
        self._title = title
        self._warps = warps
        self._owned = [machine.shape.registers] * machine.shape.warps
        self._history: list[list[tuple[str, int, Instruction]]] = [[] for _ in self._owned]
        self.free = 0
        """Registers in the pool, in units of one per thread of a warp."""

    def begin(self, warp: Participant, action: str, count: int, where: Instruction) -> None:
        """A warp executes setmaxnreg.

        Raises:
            EmulationError: N7: count out of range, wrong direction, or the warps of the warpgroup
                do not execute the same ones.
        """
        if not 24 <= count <= 256 or count % 8:
            raise self._broken(where, f"{count} is no multiple of 8 in 24…256")
        owned = self._owned[warp.rank]
        if self._machine.shape.known_registers and (
            count > owned if action == "dec" else count < owned
        ):
            raise self._broken(
                where, f"{warp.title} owns {owned} registers per thread; .{action} to {count}"
            )
        mine = self._history[warp.rank]
        first = warp.rank // 4 * 4
        for rank in range(first, min(first + 4, len(self._history))):
            other = self._history[rank]
            if len(other) > len(mine) and other[len(mine)][:2] != (action, count):
                kind, value, executed = other[len(mine)]
                self._machine.broken(
                    where,
                    "N7",
                    f"{warp.title} executes .{action} {count}, warp {rank} of its warpgroup "
                    f".{kind} {value} (PTX line {executed.line}); all warps of a warpgroup have to "
                    "execute the same setmaxnreg",
                )
            if len(other) <= len(mine) and self._warps[rank].finished:
                problem = f"warp {rank} of the warpgroup has exited without executing it"
                self._machine.broken(where, "N7", problem)
            elif len(other) < len(mine):
                self._machine.broken(
                    where,
                    "N7",
                    f"{warp.title} is at its setmaxnreg number {len(mine) + 1}, warp {rank} of its "
                    f"warpgroup has executed {len(other)}; synchronize the warpgroup in between",
                )
        mine.append((action, count, where))
        if count <= owned:
            self._give(warp.rank, owned - count)

    def take(self, warp: Participant, count: int) -> bool:
        """Moves registers from the pool to a warp until it owns ``count``; False: too few."""
        more = count - self._owned[warp.rank]
        if more > self.free:
            return False
        self.free -= more
        self._owned[warp.rank] = count
        return True

    def until(self, warp: Participant, count: int) -> Condition:
        """The condition that the pool suffices."""
        more = count - self._owned[warp.rank]
        return Condition(
            self,
            lambda: more <= self.free,
            lambda: (
                f"setmaxnreg: {more} more registers per thread; the pool of {self._title} "
                f"has {self.free}; owned by its warps: {', '.join(map(str, self._owned))}"
            ),
        )

    def ended(self, warp: Participant) -> None:
        """A warp exits: the rest of its warpgroup must not have executed more setmaxnreg.

        Raises:
            EmulationError: N7.
        """
        first = warp.rank // 4 * 4
        group = self._history[first : first + 4]
        mine = len(self._history[warp.rank])
        most = max(group, key=len)
        if len(most) > mine:
            action, count, where = most[mine]
            self._machine.broken(
                where,
                "N7",
                f"setmaxnreg.{action} {count}: {warp.title} of the same warpgroup exits without "
                "executing it; all warps of a warpgroup must",
            )

    def _give(self, rank: int, count: int) -> None:
        self.free += count
        self._owned[rank] -= count
        self._machine.events += 1
        if count:
            self.changed()

    def _broken(self, where: Instruction, problem: str) -> EmulationError:
        return EmulationError(f"PTX line {where.line}: {where.name}: {problem} (rule N7)")
