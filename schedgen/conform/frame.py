"""What a kernel does around the steps of its program: barriers begin, registers and tensor memory
are allocated and freed, and the block ends.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedgen.codegen.plan import Plan
from schedgen.codegen.tensor_memory import TensorMemory
from schedgen.conform.expected import Frame
from schedgen.conform.places import WORD
from schedgen.kernel import Kind
from schedgen.program.model import Engine, RoleProgram


class Surroundings:
    """Of a program; a role of None are warps that run none."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.program = plan, plan.program
        self.columns = TensorMemory(plan).columns

    def before(self, role: RoleProgram | None, first: int, warps: int) -> list[Frame]:
        """Before the first tile."""
        found = [*self._initialize(), *self._allocate()]
        mine = [one for one in found if one.warp is None or first <= one.warp < first + warps]
        return [*mine, *self._start(), *self._registers(first)]

    def _initialize(self) -> Iterator[Frame]:
        for name, word in self.plan.barrier_words.items():
            barrier = self.program.barrier[name]
            count = (barrier.arrivals,)
            for slot in range(barrier.slots):
                what = f"initialize '{barrier.name}'[{slot}] with {barrier.arrivals} arrivals"
                yield Frame(what, "init", "one", WORD * (word + slot), count, 0)
            for number in barrier.skipped:
                at = WORD * (word + number % barrier.slots)
                what = f"complete number {number} of '{barrier.name}', which nobody produces"
                yield Frame(what, "arrive", "one", at, count, 0)
                parity = (number // barrier.slots % 2,)
                yield Frame(what, "wait", "one", at, parity, 0)
        if Engine.TENSOR in {operation.engine for operation in self.program.operations}:
            roles = sum(self._multiplies(role) for role in self.program.roles)
            what = "initialize the barrier of the empty tensor queue"
            yield Frame(what, "init", "one", WORD * self.plan.words, (roles,), 0)

    def _allocate(self) -> Iterator[Frame]:
        if self.columns:
            at = WORD * (self.plan.words + 1)
            what = f"allocate {self.columns} columns of tensor memory"
            yield Frame(what, "alloc", "all", at, (self.columns,), 0)
            yield Frame("let others allocate", "relinquish", "all", None, (), 0)

    def _start(self) -> Iterator[Frame]:
        yield Frame("make initialized barriers known", "fence.mbarrier_init")
        yield Frame("all warps meet", "bar.sync", values=(0,))
        yield Frame("wait for the kernel before", "griddepcontrol.wait")
        yield Frame("let the next kernel begin", "griddepcontrol.launch_dependents")

    def _registers(self, first: int) -> Iterator[Frame]:
        """Warpgroups exchange registers: what the first role in each needs."""
        plan = self.plan
        if not plan.moves_registers:
            return
        group = [r for r in self.program.roles if plan.first_warp[r.name] // 4 == first // 4]
        mine = plan.registers(group[0])
        if mine != plan.entry_registers:
            direction = "inc" if mine > plan.entry_registers else "dec"
            yield Frame(f"take {mine} registers", f"setmaxnreg.{direction}", values=(mine,))

    def _multiplies(self, role: RoleProgram) -> bool:
        return self.program.arch == "sm_100a" and any(
            operation.kind is Kind.MMA for operation in self.plan.runs[role.name]
        )

    def tile(self, role: RoleProgram) -> list[Frame]:
        """At the beginning of each tile."""
        engines = {self.program.operation[o.name].engine for o in self.plan.runs[role.name]}
        if Engine.WGMMA in engines:
            return [Frame("initial values of accumulators are written", "wgmma.fence")]
        return []

    def after(self, role: RoleProgram | None, first: int, warps: int) -> list[Frame]:
        """After the last tile."""
        found = list(self._end(role)) if role is not None else []
        if self.columns:
            found.append(Frame("all roles are done with tensor memory", "bar.sync", values=(0,)))
            if first <= 0 < first + warps:
                fence = "tcgen05.fence::after_thread_sync"
                found.append(Frame("see what others did to tensor memory", fence, warp=0))
                what = f"free {self.columns} columns"
                found.append(Frame(what, "dealloc", values=(self.columns,), warp=0))
        return found

    def _end(self, role: RoleProgram) -> Iterator[Frame]:
        engines = {self.program.operation[o.name].engine for o in self.plan.runs[role.name]}
        if Engine.COPY_OUT in engines:
            yield Frame("stores have read shared memory", "drain copies read", values=(0,))
        memory = TensorMemory(self.plan)
        if self._multiplies(role):
            at = WORD * self.plan.words
            yield Frame("commit all products", "commit", "one", at)
            yield Frame("the tensor queue is empty", "wait", "all", at, (0,))
        if memory.used_by(role.name):
            if not self._multiplies(role):
                yield Frame("loads from tensor memory are over", "tcgen05.wait::ld")
                yield Frame("stores to tensor memory are over", "tcgen05.wait::st")
            yield Frame("order tensor memory before the end", "tcgen05.fence::before_thread_sync")
