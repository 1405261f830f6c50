"""Steps of a role as lines of the DSL: what is the same on every architecture."""

from __future__ import annotations

from schedgen.codegen.errors import EmitError
from schedgen.codegen.ir import Arrive as ArriveNode
from schedgen.codegen.ir import Code, Name, Phase, Stage, code
from schedgen.codegen.ir import Wait as WaitNode
from schedgen.codegen.plan import Plan
from schedgen.codegen.running import Iteration, Running
from schedgen.codegen.source import Source
from schedgen.program.model import Arrive, Barrier, Number, RoleProgram, Wait


class Barriers:
    """Waits and arrivals."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

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
        return Running(value, found.slots, iteration, found.stores)

    def declare(self, source: Source) -> dict[str, str]:
        """Writes pointers to the arrays; returns their names and types."""
        for barrier in self.plan.program.barriers:
            word = self.plan.barrier_words[barrier.name]
            source.add(f"{self.name(barrier.name)} = barriers + {word}")
        return {self.name(barrier.name): "cute.Pointer" for barrier in self.plan.program.barriers}

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

    def wait(self, source: Source, action: Wait, iteration: Iteration | None) -> None:
        at = self.at(action.barrier, action.number, iteration)
        source.put(WaitNode(at, self.phase(action.barrier, action.number, iteration)))

    def arrive(
        self,
        source: Source,
        role: RoleProgram,
        action: Arrive,
        iteration: Iteration | None,
        announced: Code | None = None,
    ) -> None:
        """``announced``: how many bytes, where that is not known before."""
        at = self.at(action.barrier, action.number, iteration)
        threads = 32 * role.warps
        size = (announced or code(str(action.bytes))) if action.bytes else None
        if action.count == threads and not action.bytes:
            source.put(ArriveNode(at, elected=False))
        elif action.count == 1 and role.warps == 1:
            source.put(ArriveNode(at, elected=True, bytes=size))
        else:
            raise EmitError(
                f"{role.name}: {action.count} arrivals of {threads} threads at '{action.barrier}'"
            )
