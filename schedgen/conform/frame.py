"""What surrounds the steps of a program as instructions: setup and teardown of the kernel, what a
role begins and ends with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from schedgen.codegen.plan import Plan
from schedgen.conform.expected import Frame
from schedgen.conform.footprints import WORD
from schedgen.conform.taking import FENCES
from schedgen.program.model import (
    PRODUCTS,
    Allocate,
    AwaitKernel,
    Budget,
    Fence,
    Finish,
    Free,
    Grant,
    Initialize,
    Meet,
    Publish,
    ReleaseKernel,
    RoleProgram,
    SetUp,
    TearDown,
)
from schedgen.program.operations import Engine


class Surroundings:
    """Of a program; a role of None are warps that run none."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.program = plan, plan.program

    def before(self, role: RoleProgram | None, first: int, warps: int) -> list[Frame]:
        """Before the first tile; warps without a role take the registers of their warpgroup."""
        found = [frame for step in self.program.setup for frame in self._setup(step)]
        group = [r for r in self.program.roles if self.plan.first_warp[r.name] // 4 == first // 4]
        budgets = role.budgets if role is not None else group[0].budgets if group else ()
        grants = map(self._grant, role.grants if role is not None else ())
        return [*_of(found, first, warps), *map(self._budget, budgets), *grants]

    def tile(self, role: RoleProgram) -> list[Frame]:
        """At the beginning of each tile."""
        return [_fence(step, "at the beginning of a tile") for step in role.open]

    def after(self, role: RoleProgram | None, first: int, warps: int) -> list[Frame]:
        """After the last tile."""
        mine = [frame for step in (role.leave if role else ()) for frame in self._leave(step)]
        return [*mine, *_of(self._teardown(self.program.teardown), first, warps)]

    # -- steps ---------------------------------------------------------------------------------

    def _setup(self, step: SetUp) -> Iterator[Frame]:
        match step:
            case Initialize():
                yield from self._initialize(step)
            case Allocate(columns):
                at = WORD * (self.plan.words + 1)
                yield Frame(f"allocate {columns} columns", "alloc", "all", at, (columns,), 0)
                yield Frame("let others allocate", "relinquish", "all", None, (), 0)
            case Publish():
                yield Frame("publish the barriers", "fence.mbarrier_init")
            case Meet():
                yield Frame("all warps meet", "bar.sync", values=(0,))
            case AwaitKernel():
                yield Frame("await the kernel before", "griddepcontrol.wait")
            case ReleaseKernel():
                yield Frame("release the next kernel", "griddepcontrol.launch_dependents")

    def _initialize(self, step: Initialize) -> Iterator[Frame]:
        name, count = step.barrier, (step.arrivals,)
        if name == PRODUCTS:
            yield Frame(f"initialize '{name}'", "init", "one", WORD * self.plan.words, count, 0)
            return
        barrier, word = self.program.barrier[name], self.plan.mbarriers[name]
        for slot in range(barrier.slots):
            what = f"initialize '{name}'[{slot}] with {step.arrivals} arrivals"
            yield Frame(what, "init", "one", WORD * (word + slot), count, 0)
        for number in barrier.skipped:
            at = WORD * (word + number % barrier.slots)
            what = f"complete number {number} of '{name}', which nobody produces"
            yield Frame(what, "arrive", "one", at, count, 0)
            yield Frame(what, "wait", "one", at, (number // barrier.slots % 2,), 0)

    def _budget(self, step: Budget) -> Frame:
        direction = "inc" if step.registers > self.plan.entry_registers else "dec"
        what = f"have {step.registers} registers"
        return Frame(what, f"setmaxnreg.{direction}", values=(step.registers,))

    def _grant(self, step: Grant) -> Frame:
        barrier, numbered = step.barrier, self.plan.numbered
        number = numbered.of_pace[barrier] + step.number % self.program.barrier[barrier].slots
        what = f"arrive for number {step.number} of '{barrier}', which no step provides"
        return Frame(what, "bar.arrive", values=(number, numbered.pace_threads(barrier)))

    def _leave(self, step: Finish | Fence) -> Iterator[Frame]:
        if isinstance(step, Fence):
            yield _fence(step, "behind the last tile")
        elif step.engine is Engine.COPY_OUT:
            yield Frame("finish: stores have read", "wait_group copies read", values=(0,))
        else:
            at = WORD * self.plan.words
            yield Frame("finish: commit all products", "commit", "one", at)
            yield Frame("finish: products are complete", "wait", "all", at, (0,))

    def _teardown(self, steps: Iterable[TearDown]) -> Iterator[Frame]:
        for step in steps:
            match step:
                case Meet():
                    yield Frame("all roles are done", "bar.sync", values=(0,))
                case AwaitKernel():
                    yield Frame("await the kernel before, at the end", "griddepcontrol.wait")
                case Fence(kind):
                    yield Frame(f"{kind} at the end", FENCES[kind], warp=0)
                case Free(columns):
                    yield Frame(f"free {columns} columns", "dealloc", values=(columns,), warp=0)


def _fence(step: Fence, where: str) -> Frame:
    return Frame(f"{step.kind} {where}", FENCES[step.kind])


def _of(frames: Iterable[Frame], first: int, warps: int) -> list[Frame]:
    """Those of some warps."""
    return [one for one in frames if one.warp is None or first <= one.warp < first + warps]
