"""What a kernel does around the steps of its program: what the program says that all threads do
before and after their roles, and roles before their first tile and after their last one.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedgen.codegen.plan import Plan
from schedgen.conform.expected import Frame
from schedgen.conform.places import WORD
from schedgen.program.model import (
    PRODUCTS,
    Allocate,
    AwaitKernel,
    Engine,
    Fence,
    FenceKind,
    Finish,
    Free,
    Initialize,
    Meet,
    Publish,
    ReleaseKernel,
    RoleProgram,
    SetUp,
    TearDown,
)

_FENCES = {
    FenceKind.ASYNC_PROXY: "make accesses of shared memory known to copies and tensor cores",
    FenceKind.TMEM_LOADED: "loads from tensor memory are over",
    FenceKind.TMEM_STORED: "stores to tensor memory are over",
    FenceKind.TMEM_BEFORE: "order tensor memory before the end",
    FenceKind.TMEM_AFTER: "see what others did to tensor memory",
    FenceKind.REGISTERS: "initial values of accumulators are written",
}


class Surroundings:
    """Of a program; a role of None are warps that run none."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.program = plan, plan.program

    def before(self, role: RoleProgram | None, first: int, warps: int) -> list[Frame]:
        """Before the first tile."""
        found = [frame for step in self.program.setup for frame in self._setup(step)]
        mine = [one for one in found if one.warp is None or first <= one.warp < first + warps]
        return [*mine, *self._registers(first)]

    def _setup(self, step: SetUp) -> Iterator[Frame]:
        match step:
            case Initialize(barrier=name, arrivals=arrivals) if name == PRODUCTS:
                what = "initialize the barrier of the empty tensor queue"
                yield Frame(what, "init", "one", WORD * self.plan.words, (arrivals,), 0)
            case Initialize():
                yield from self._initialize(step)
            case Allocate(columns=columns):
                at = WORD * (self.plan.words + 1)
                what = f"allocate {columns} columns of tensor memory"
                yield Frame(what, "alloc", "all", at, (columns,), 0)
                yield Frame("let others allocate", "relinquish", "all", None, (), 0)
            case Publish():
                yield Frame("make initialized barriers known", "fence.mbarrier_init")
            case Meet():
                yield Frame("all warps meet", "bar.sync", values=(0,))
            case AwaitKernel():
                yield Frame("wait for the kernel before", "griddepcontrol.wait")
            case ReleaseKernel():
                yield Frame("let the next kernel begin", "griddepcontrol.launch_dependents")

    def _initialize(self, step: Initialize) -> Iterator[Frame]:
        barrier, word = self.program.barrier[step.barrier], self.plan.barrier_words[step.barrier]
        count = (step.arrivals,)
        for slot in range(barrier.slots):
            what = f"initialize '{barrier.name}'[{slot}] with {step.arrivals} arrivals"
            yield Frame(what, "init", "one", WORD * (word + slot), count, 0)
        for number in barrier.skipped:
            at = WORD * (word + number % barrier.slots)
            what = f"complete number {number} of '{barrier.name}', which nobody produces"
            yield Frame(what, "arrive", "one", at, count, 0)
            parity = (number // barrier.slots % 2,)
            yield Frame(what, "wait", "one", at, parity, 0)

    def _registers(self, first: int) -> Iterator[Frame]:
        """Warpgroups exchange registers: what the first role in each says."""
        plan = self.plan
        group = [r for r in self.program.roles if plan.first_warp[r.name] // 4 == first // 4]
        for step in group[0].enter if group else ():
            direction = "inc" if step.registers > plan.entry_registers else "dec"
            what = f"take {step.registers} registers"
            yield Frame(what, f"setmaxnreg.{direction}", values=(step.registers,))

    def tile(self, role: RoleProgram) -> list[Frame]:
        """At the beginning of each tile."""
        return [_fence(step) for step in role.open]

    def after(self, role: RoleProgram | None, first: int, warps: int) -> list[Frame]:
        """After the last tile; when all threads have met, the first warp does what is left."""
        found = list(self._end(role)) if role is not None else []
        ends = map(_teardown, self.program.teardown)
        return found + [
            one for one in ends if one.warp is None or first <= one.warp < first + warps
        ]

    def _end(self, role: RoleProgram) -> Iterator[Frame]:
        for step in role.leave:
            match step:
                case Finish(engine=Engine.COPY_OUT):
                    yield Frame("stores have read shared memory", "drain copies read", values=(0,))
                case Finish():
                    at = WORD * self.plan.words
                    yield Frame("commit all products", "commit", "one", at)
                    yield Frame("the tensor queue is empty", "wait", "all", at, (0,))
                case Fence():
                    yield _fence(step)


def _teardown(step: TearDown) -> Frame:
    match step:
        case Meet():
            return Frame("all roles are done", "bar.sync", values=(0,))
        case Fence():
            return _fence(step, warp=0)
        case Free(columns=columns):
            return Frame(f"free {columns} columns", "dealloc", values=(columns,), warp=0)


def _fence(step: Fence, warp: int | None = None) -> Frame:
    return Frame(_FENCES[step.kind], step.kind.value, warp=warp)
