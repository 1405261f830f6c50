"""Steps of a role as lines of the DSL: what is the same on every architecture."""

from __future__ import annotations

from schedgen.codegen.errors import EmitError
from schedgen.codegen.plan import Plan
from schedgen.codegen.running import phase_of, slot_of
from schedgen.codegen.source import Source
from schedgen.program.model import Arrive, Barrier, Number, RoleProgram, Wait


class Barriers:
    """Waits and arrivals."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def name(self, barrier: str) -> str:
        """The variable that points to the first word of an array."""
        return self.plan.names.of("barrier", barrier, "bar_")

    def at(self, barrier: str, value: Number, iteration: str) -> str:
        """A pointer to the barrier of a running number."""
        slots = self.plan.program.barrier[barrier].slots
        if slots == 1:
            return self.name(barrier)
        return f"{self.name(barrier)} + {slot_of(value, slots, iteration)}"

    def phase(self, barrier: str, value: Number, iteration: str) -> str:
        slots = self.plan.program.barrier[barrier].slots
        return phase_of(value, slots, iteration)

    def declare(self, source: Source) -> dict[str, str]:
        """Writes pointers to the arrays; returns their names and types."""
        for barrier in self.plan.program.barriers:
            word = self.plan.barrier_words[barrier.name]
            source.add(f"{self.name(barrier.name)} = barriers + {word}")
        return {self.name(barrier.name): "cute.Pointer" for barrier in self.plan.program.barriers}

    def initialize(self, source: Source) -> None:
        """By one thread, before all threads meet."""
        for barrier in self.plan.program.barriers:
            self._initialize(source, barrier)

    def _initialize(self, source: Source, barrier: Barrier) -> None:
        for text in barrier.protects[:4]:
            source.comment(text)
        if len(barrier.protects) > 4:
            source.comment(f"and {len(barrier.protects) - 4} more")
        name = self.name(barrier.name)
        with source.block(f"for i in cutlass.range_constexpr({barrier.slots}):"):
            source.add(f"cute.arch.mbarrier_init({name} + i, {barrier.arrivals})")
        for skipped in barrier.skipped:
            source.comment(f"nobody produces number {skipped}")
            at = f"{name} + {skipped % barrier.slots}" if barrier.slots > 1 else name
            source.add(f"cute.arch.mbarrier_arrive({at}, arrive_count={barrier.arrivals})")
            # The next phase may begin only after somebody has seen this one (PTX ISA, mbarrier).
            source.add(f"cute.arch.mbarrier_wait({at}, {skipped // barrier.slots % 2})")

    def wait(self, source: Source, action: Wait, iteration: str) -> None:
        at = self.at(action.barrier, action.number, iteration)
        source.add(
            f"cute.arch.mbarrier_wait({at}, {self.phase(action.barrier, action.number, iteration)})"
        )

    def arrive(
        self, source: Source, role: RoleProgram, action: Arrive, iteration: str, announced: str = ""
    ) -> None:
        """``announced``: how many bytes, where that is not known before; else ""."""
        at = self.at(action.barrier, action.number, iteration)
        threads = 32 * role.warps
        if action.bytes:
            line = f"cute.arch.mbarrier_arrive_and_expect_tx({at}, {announced or action.bytes})"
        else:
            line = f"cute.arch.mbarrier_arrive({at})"
        if action.count == threads and not action.bytes:
            source.add(line)
        elif action.count == 1 and role.warps == 1:
            with source.block("with cute.arch.elect_one():"):
                source.add(line)
        else:
            raise EmitError(
                f"{role.name}: {action.count} arrivals of {threads} threads at '{action.barrier}'"
            )
