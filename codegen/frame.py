"""What surrounds the steps of roles in a kernel, from the setup and teardown of its program."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

from schedgen.codegen.architecture import Architecture
from schedgen.codegen.ir import Fence as FenceNode
from schedgen.codegen.ir import WaitGroup
from schedgen.codegen.source import Source
from schedgen.codegen.steps import Barriers
from schedgen.program.model import (
    PRODUCTS,
    Allocate,
    AwaitKernel,
    Budget,
    Fence,
    Finish,
    Free,
    Initialize,
    Meet,
    Publish,
    ReleaseKernel,
    RoleProgram,
    SetUp,
)
from schedgen.program.operations import Engine

_AWAIT = "cute.arch.griddepcontrol_wait()"


class Frame:
    """Writes it for one kernel."""

    def __init__(self, architecture: Architecture, barriers: Barriers) -> None:
        self.architecture, self.barriers = architecture, barriers
        self.plan = architecture.plan

    # -- by all threads ------------------------------------------------------------------------

    def setup(self, source: Source, beside: Callable[[], None]) -> None:
        """Before the roles; ``beside`` writes what may be done while one thread makes barriers."""
        pending = beside
        for barriers, steps in groupby(
            self.plan.program.setup, lambda step: isinstance(step, Initialize)
        ):
            if barriers:
                with source.block("if warp == 0:"), source.block("with cute.arch.elect_one():"):
                    for step in steps:
                        self._setup(source, step)
                continue
            pending()
            pending = _nothing
            for step in steps:
                self._setup(source, step)
        pending()

    def _setup(self, source: Source, step: SetUp) -> None:
        match step:
            case Initialize(barrier=name, arrivals=arrivals) if name == PRODUCTS:
                self.architecture.initialize(source, arrivals)
            case Initialize(barrier=name, arrivals=arrivals):
                self.barriers.initialize(source, self.plan.program.barrier[name], arrivals)
            case Allocate(columns=columns):
                self.architecture.allocate(source, columns)
            case Publish():
                source.add("cute.arch.mbarrier_init_fence()")
            case Meet():
                source.add("cute.arch.sync_threads()")
            case AwaitKernel():
                source.comment("all above may run while the kernel before this one still does")
                source.add(_AWAIT)
            case ReleaseKernel():
                source.add("cute.arch.griddepcontrol_launch_dependents()")

    def teardown(self, source: Source) -> None:
        """After the roles: all threads meet, one warp does the rest, but for what all wait for."""
        steps = self.plan.program.teardown
        for meet, group in groupby(steps, lambda step: isinstance(step, Meet)):
            if meet:
                source.comment("all roles are done")
                source.add(*("cute.arch.sync_threads()" for _ in group))
                continue
            for all_threads, part in groupby(group, lambda step: isinstance(step, AwaitKernel)):
                if all_threads:
                    source.comment("what comes next may take it that the kernel before has ended")
                    source.add(*(_AWAIT for _ in part))
                    continue
                with source.block("if warp == 0:"):
                    for step in part:
                        if isinstance(step, Fence):
                            source.put(FenceNode(step.kind, self.architecture.fences[step.kind]))
                        elif isinstance(step, Free):
                            self.architecture.free(source, step.columns)

    # -- by a role -----------------------------------------------------------------------------

    def enter(self, source: Source, role: RoleProgram) -> None:
        """Before a role's first tile, by all warps of its warpgroup."""
        for step in role.budgets:
            self._budget(source, step)

    def grant(self, source: Source, role: RoleProgram) -> None:
        """After that, by the warps of the role."""
        for step in role.grants:
            source.comment(f"number {step.number}, which no turn provides")
            self.barriers.pace(source, step)

    def _budget(self, source: Source, step: Budget) -> None:
        direction = "increase" if step.registers > self.plan.entry_registers else "decrease"
        source.add(f"cute.arch.setmaxregister_{direction}({step.registers})")

    def open(self, source: Source, role: RoleProgram) -> None:
        """At the beginning of each tile."""
        self.architecture.begin_tile(source, role)
        for step in role.open:
            source.put(FenceNode(step.kind, self.architecture.fences[step.kind]))

    def leave(self, source: Source, role: RoleProgram) -> None:
        """After a role's last tile."""
        for step in role.leave:
            match step:
                case Finish(engine=Engine.COPY_OUT):
                    source.comment("shared memory has to live until everything is read")
                    source.put(WaitGroup("bulk", 0))
                case Finish():
                    source.comment("nothing may be in the tensor queue when the block ends")
                    self.architecture.finish(source)
                case Fence(kind=kind):
                    source.put(FenceNode(kind, self.architecture.fences[kind]))


def _nothing() -> None:
    """Writes nothing."""
