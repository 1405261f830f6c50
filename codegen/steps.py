"""Steps of a role as lines of the DSL: what is the same on every architecture."""

from __future__ import annotations

from itertools import pairwise

from schedgen.codegen.errors import EmitError
from schedgen.codegen.ir import Arrive as ArriveNode
from schedgen.codegen.ir import Code, Name, Numbered, Phase, Stage, code
from schedgen.codegen.ir import Wait as WaitNode
from schedgen.codegen.plan import Plan
from schedgen.codegen.running import Iteration, Running
from schedgen.codegen.source import Source
from schedgen.program.model import MEETINGS, Arrive, Barrier, Grant, RoleProgram, Step, Wait
from schedgen.program.operations import Number


class Barriers:
    """Waits and arrivals."""

    def __init__(self, plan: Plan, *, prompt: bool = False) -> None:
        self.plan, self.prompt = plan, prompt

    def name(self, barrier: str) -> str:
        """The variable that points to the first word of an array."""
        return self.plan.names.of("barrier", barrier, "bar_")

    def at(self, barrier: str, value: Number, iteration: Iteration | None) -> Code:
        """A pointer to the barrier of a running number."""
        pointer = Name(self.name(barrier))
        if self.plan.program.barrier[barrier].slots == 1:
            return code("{}", pointer)
        return code("{} + {}", pointer, Stage(self._running(barrier, value, iteration)))

    def phase(self, barrier: str, value: Number, iteration: Iteration | None) -> Code:
        """The parity of a running number's phase."""
        return code("{}", Phase(self._running(barrier, value, iteration)))

    def _running(self, barrier: str, value: Number, iteration: Iteration | None) -> Running:
        found = self.plan.program.barrier[barrier]
        return Running(value, found.slots, iteration, found.allocations)

    def declare(self, source: Source) -> dict[str, str]:
        """Writes pointers to the arrays; returns their names and types."""
        words = self.plan.mbarriers
        for barrier, word in words.items():
            source.add(f"{self.name(barrier)} = barriers + {word}")
        return {self.name(barrier): "cute.Pointer" for barrier in words}

    def initialize(self, source: Source, barrier: Barrier, arrivals: int) -> None:
        """By one thread, before all threads meet; phases take so many ``arrivals``."""
        for text in barrier.protects[:4]:
            source.comment(text)
        if len(barrier.protects) > 4:
            source.comment(f"and {len(barrier.protects) - 4} more")
        name = self.name(barrier.name)
        with source.block(f"for i in cutlass.range_constexpr({barrier.slots}):"):
            source.add(f"cute.arch.mbarrier_init({name} + i, {arrivals})")
        for skipped in barrier.skipped:
            source.comment(f"nobody produces number {skipped}")
            at = f"{name} + {skipped % barrier.slots}" if barrier.slots > 1 else name
            source.add(f"cute.arch.mbarrier_arrive({at}, arrive_count={arrivals})")
            # The next phase may begin only after somebody has seen this one (PTX ISA, mbarrier).
            source.add(f"cute.arch.mbarrier_wait({at}, {skipped // barrier.slots % 2})")

    def meet(self, source: Source, role: RoleProgram, step: Step) -> bool:
        """Writes the meeting of a role's warps, of each of them, or of those of several roles, if
        ``step`` is part of one.

        Arriving and waiting are one instruction, which stands where the wait does.
        """
        action = step.action
        if not isinstance(action, Arrive | Wait):
            return False
        barrier = self.plan.program.barrier[action.barrier]
        if barrier.kind not in MEETINGS:
            return False
        for section in (role.before, role.loop, role.after):
            for one, other in pairwise(section):
                if other is step:
                    _check_meeting(role, one, other)
        if isinstance(action, Wait) and barrier.kind == "warp":
            source.add("cute.arch.sync_warp()")
        elif isinstance(action, Wait):
            number = self.plan.numbered.meeting(role, barrier)
            if barrier.kind == "roles":
                source.comment(barrier.name)
            source.add(
                f"cute.arch.barrier(barrier_id={number}, number_of_threads={barrier.arrivals})"
            )
        return True

    def pace(self, source: Source, action: Wait | Arrive | Grant) -> bool:
        """Writes a step at a barrier of pace, if it is one."""
        barrier = self.plan.program.barrier[action.barrier]
        if barrier.kind != "pace":
            return False
        if barrier.slots > 1:
            raise EmitError(
                f"'{barrier.name}' has {barrier.slots} slots, a barrier of pace has one"
            )
        numbered = self.plan.numbered
        number, threads = numbered.of_pace[barrier.name], numbered.pace_threads(barrier.name)
        source.put(Numbered(number, threads, waits=isinstance(action, Wait)))
        return True

    def wait(self, source: Source, action: Wait, iteration: Iteration | None) -> None:
        if self.pace(source, action):
            return
        at = self.at(action.barrier, action.number, iteration)
        phase = self.phase(action.barrier, action.number, iteration)
        source.put(WaitNode(at, phase, self.prompt))

    def arrive(
        self,
        source: Source,
        role: RoleProgram,
        action: Arrive,
        iteration: Iteration | None,
        expect_tx: Code | None = None,
    ) -> None:
        """``expect_tx``: how many bytes, where that is not known before."""
        if self.pace(source, action):
            return
        at = self.at(action.barrier, action.number, iteration)
        threads = 32 * role.warps
        size = (expect_tx or code(str(action.bytes))) if action.bytes else None
        if action.count == threads and not action.bytes:
            source.put(ArriveNode(at, elected=False))
        elif action.count == 1 and role.warps == 1:
            source.put(ArriveNode(at, elected=True, bytes=size))
        else:
            raise EmitError(
                f"{role.name}: {action.count} arrivals of {threads} threads at '{action.barrier}'"
            )


def _check_meeting(role: RoleProgram, one: Step, other: Step) -> None:
    """A wait of a meeting comes right behind the arrival of all threads of the role."""
    if not isinstance(other.action, Wait):
        return
    arrive = Arrive(other.action.barrier, other.action.number, 32 * role.warps)
    if (one.action, one.shift, one.guard) != (arrive, other.shift, other.guard):
        raise EmitError(f"{role.name}: '{other.action.barrier}' is no meeting of its warps")
