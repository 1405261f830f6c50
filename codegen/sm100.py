"""Blackwell: products by tcgen05.mma of one thread, with results in tensor memory."""

from __future__ import annotations

from schedgen.codegen.architecture import Architecture
from schedgen.codegen.errors import EmitError
from schedgen.codegen.library_sm100 import LIBRARY
from schedgen.codegen.plan import DTYPES, Plan
from schedgen.codegen.running import slot_of
from schedgen.codegen.share import ROW
from schedgen.codegen.source import Source
from schedgen.codegen.supported import Products
from schedgen.codegen.tensor_memory import LANES, MOST_COLUMNS, TensorMemory
from schedgen.codegen.threads import Threads
from schedgen.kernel import Kind, Operation, Space
from schedgen.program.model import Commit, Drain, Engine, FenceKind, RoleProgram, Step

_FENCES = {
    FenceKind.ASYNC_PROXY: 'cute.arch.fence_proxy("async.shared", space="cta")',
    FenceKind.TMEM_LOADED: "cute.arch.fence_view_async_tmem_load()",
    FenceKind.TMEM_STORED: "cute.arch.fence_view_async_tmem_store()",
    FenceKind.TMEM_BEFORE: "tmem_before_sync()",
    FenceKind.TMEM_AFTER: "tmem_after_sync()",
}

_RETRIEVE = "tmem = cute.arch.retrieve_tmem_ptr(Float32, 16, tmem_address)"
_WHOLE = "tmem = cute.make_ptr(Float32, 0, cutlass.AddressSpace.tmem, assumed_align=16)"
"""A pointer to the first column. Where all columns are allocated there is only one place for them,
and the addresses of products need no registers; those of threads have their lane in them anyway."""


class Blackwell(Architecture):
    """sm_100a."""

    imports = """import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
from cutlass import BFloat16, Float16, Float32, Int32
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, tcgen05
"""
    library = LIBRARY
    fences = _FENCES
    products = Products("tcgen05", LANES, 16, 256, (Space.SMEM, Space.TMEM), Space.TMEM)

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan)
        self.threads = Threads(plan, ROW)
        self.memory = TensorMemory(plan)

    # -- a role --------------------------------------------------------------------------------

    def _multiplies(self, role: RoleProgram) -> bool:
        return any(o.kind is Kind.MMA for o in self.plan.runs[role.name])

    def declare(self, source: Source, role: RoleProgram) -> None:
        """``tmem``; ``mma_X``, and ``a_X``, ``b_X``: operands in shared memory as descriptors."""
        if self.memory.used_by(role.name):
            whole = self.memory.columns == MOST_COLUMNS and self._multiplies(role)
            source.add(_WHOLE if whole else _RETRIEVE)
        for operation in self.plan.runs[role.name]:
            if operation.kind is Kind.MMA:
                self._declare(source, operation)

    def _declare(self, source: Source, operation: Operation) -> None:
        name = self.plan.names.of("operation", operation.name)
        a, b, d = (self.plan.part(operation, operand) for operand in "abd")
        columns = b.rows if operation.transpose_b else b.columns
        place = "TMEM" if a.region.space is Space.TMEM else "SMEM"
        major = "K" if operation.transpose_b else "MN"
        source.add(
            f'mma_{name} = product({DTYPES[a.region.dtype]}, {columns}, "{place}", "{major}")'
        )
        if place == "SMEM":
            tile = self.plan.matrix(a)
            source.add(f"a_{name} = left_operand(mma_{name}, {tile})")
        tile = self.plan.matrix(b)
        tile = tile if operation.transpose_b else f"transposed({tile})"
        source.add(f"b_{name} = right_operand(mma_{name}, {tile})")

    def product(self, source: Source, operation: Operation, i: str, c: str, *, runs: bool) -> None:
        if not runs:
            return
        name = self.plan.names.of("operation", operation.name)
        d = self.plan.part(operation, "d")
        arguments = [
            f"mma_{name}",
            f"result_at({self.memory.at(operation, 'd', c)}, {d.columns})",
            self._left(operation, name, c),
            f"b_{name}[(None, None, None, {self._slot(operation, 'b', c)})]",
            self._accumulate(operation, i),
        ]
        source.call("multiply", arguments)

    def _left(self, operation: Operation, name: str, c: str) -> str:
        a = self.plan.part(operation, "a")
        if a.region.space is Space.TMEM:
            at = self.memory.at(operation, "a", c)
            return f"operand_at({at}, {a.columns}, {DTYPES[a.region.dtype]})"
        return f"a_{name}[(None, None, None, {self._slot(operation, 'a', c)})]"

    def _slot(self, operation: Operation, operand: str, c: str) -> str:
        access = self.plan.access(operation, operand, write=False)
        slots = self.plan.slots(access)
        return slot_of(access.version, slots, c) if slots > 1 else "0"

    def _accumulate(self, operation: Operation, i: str) -> str:
        """Whether the result is added to what is there, and not to an initial value of 0."""
        if not operation.accumulate:
            return "False"
        initial = self.memory.initial(operation, "d")
        if not initial:
            return "True"
        region = self.plan.part(operation, "d").region
        if float(region.initial or "nan") != 0.0:
            raise EmitError(f"{operation.name}: '{region.name}' has to begin with 0")
        return f"{i} >= {initial}" if initial > 1 else f"{i} != 0"

    def drain(self, source: Source, role: RoleProgram, step: Step, action: Drain) -> None:
        raise EmitError(f"{role.name}: tcgen05 has no wait for {action.operation}")

    def commit(self, source: Source, role: RoleProgram, action: Commit, at: str) -> None:
        with source.block("with cute.arch.elect_one():"):
            source.add(f"tcgen05.commit({at})")

    def end_role(self, source: Source, role: RoleProgram) -> None:
        if self._multiplies(role):
            source.comment("nothing may be in the tensor queue when the block ends")
            with source.block("with cute.arch.elect_one():"):
                source.add("tcgen05.commit(bar_products)")
            source.add("cute.arch.mbarrier_wait(bar_products, 0)")
        if self.memory.used_by(role.name):
            if not self._multiplies(role):
                source.comment("accesses to tensor memory are over before it is freed")
                source.add(self.fences[FenceKind.TMEM_LOADED], self.fences[FenceKind.TMEM_STORED])
            source.add(self.fences[FenceKind.TMEM_BEFORE])

    # -- the kernel ----------------------------------------------------------------------------

    def words(self) -> int:
        return 2 if self.memory.columns else 0

    def declare_words(self, source: Source) -> dict[str, str]:
        if not self.memory.columns:
            return {}
        word = self.plan.words
        source.add(
            f"bar_products = barriers + {word}",
            f"tmem_address = cute.recast_ptr(barriers + {word + 1}, dtype=Int32)",
        )
        return {"bar_products": "cute.Pointer", "tmem_address": "cute.Pointer"}

    def begin(self, source: Source) -> None:
        if not self.memory.columns:
            return
        with source.block("if warp == 0:"):
            source.add(f"cute.arch.alloc_tmem({self.memory.columns}, tmem_address)")
            source.add("cute.arch.relinquish_tmem_alloc_permit()")

    def initialize(self, source: Source) -> None:
        engines = [operation.engine for operation in self.plan.program.operations]
        if Engine.TENSOR in engines:
            roles = sum(self._multiplies(role) for role in self.plan.program.roles)
            source.comment("the tensor queue is empty")
            source.add(f"cute.arch.mbarrier_init(bar_products, {roles})")

    def end(self, source: Source) -> None:
        if not self.memory.columns:
            return
        source.comment("all roles are done with tensor memory")
        source.add("cute.arch.sync_threads()")
        with source.block("if warp == 0:"):
            source.add(
                self.fences[FenceKind.TMEM_AFTER],
                _RETRIEVE,
                f"cute.arch.dealloc_tmem(tmem, {self.memory.columns})",
            )
