"""Blackwell: products by tcgen05.mma of one thread, with results in tensor memory."""

from __future__ import annotations

from schedgen.codegen.architecture import Architecture
from schedgen.codegen.dtypes import DTYPES, NUMBERS
from schedgen.codegen.errors import EmitError
from schedgen.codegen.fragment import ROW
from schedgen.codegen.ir import Code, Name, Wait, called, code
from schedgen.codegen.ir import Commit as CommitNode
from schedgen.codegen.library_sm100 import LIBRARY
from schedgen.codegen.plan import Part, Plan
from schedgen.codegen.running import Iteration
from schedgen.codegen.source import Source
from schedgen.codegen.style import PLAIN, Style
from schedgen.codegen.supported import Products
from schedgen.codegen.tensor_memory import TensorMemory
from schedgen.codegen.threads import Threads
from schedgen.kernel import Kind, Operation, Space
from schedgen.layouts import DTYPE_BITS, PACKED, SCALE_BYTES, SCALED_ROWS, TMEM_LANES
from schedgen.program.model import Commit, FenceKind, RoleProgram, Step, WaitGroup
from schedgen.synchronize.frame import MOST_COLUMNS

_FENCES = {
    FenceKind.ASYNC_PROXY: code('cute.arch.fence_proxy("async.shared", space="cta")'),
    FenceKind.TMEM_LOADED: code("cute.arch.fence_view_async_tmem_load()"),
    FenceKind.TMEM_STORED: code("cute.arch.fence_view_async_tmem_store()"),
    FenceKind.TMEM_BEFORE: called("tmem_before_sync"),
    FenceKind.TMEM_AFTER: called("tmem_after_sync"),
}

_PRODUCTS, _ADDRESS = Name("bar_products"), Name("tmem_address")
_RETRIEVE = code("tmem = cute.arch.retrieve_tmem_ptr(Float32, 16, {})", _ADDRESS)
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
    products = Products(
        "tcgen05", TMEM_LANES, 16, 256, (Space.SMEM, Space.TMEM), Space.TMEM, factors=True
    )

    def __init__(self, plan: Plan, style: Style = PLAIN) -> None:
        del style  # none is about this architecture alone
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
        a, b = (self.plan.part(operation, operand) for operand in "ab")
        columns = b.rows if operation.transpose_b else b.columns
        place = "TMEM" if a.region.space is Space.TMEM else "SMEM"
        major = "K" if operation.transpose_b else "MN"
        dtype = DTYPES[a.region.dtype]
        if operation.scaled:
            factor = DTYPES[self.plan.part(operation, "scale_a").region.dtype]
            numbers = NUMBERS.get(a.region.dtype, dtype)
            made = called("block_product", numbers, factor, columns)
        else:
            function = "product" if DTYPE_BITS[a.region.dtype] == 16 else "byte_product"
            if operation.transpose_a:  # in shared memory, there is no other
                made = called(f"{function}_along_m", dtype, columns, f'"{major}"')
            else:
                made = called(function, dtype, columns, f'"{place}"', f'"{major}"')
        source.add(code(f"mma_{name} = {{}}", made))
        if place == "SMEM":
            tile = self._numbers(a)
            tile = called("transposed", tile) if operation.transpose_a else tile
            source.add(code(f"a_{name} = {{}}", called("left_operand", f"mma_{name}", tile)))
        tile = self._numbers(b)
        tile = tile if operation.transpose_b else called("transposed", tile)
        source.add(code(f"b_{name} = {{}}", called("right_operand", f"mma_{name}", tile)))

    def _numbers(self, part: Part) -> Code:
        """A tile in shared memory as the numbers that are multiplied."""
        dtype = part.region.dtype
        if dtype not in NUMBERS:
            return self.plan.matrix(part)
        view = self.plan.views[part.region.name]
        whole = called("numbers_of", Name(view.name), NUMBERS[dtype])
        return self.plan.matrix(part, whole, PACKED[dtype])

    def product(
        self, source: Source, operation: Operation, at: Iteration | None, *, runs: bool
    ) -> None:
        if not runs:
            return
        if operation.kind is Kind.COPY:
            self._copy(source, operation, at)
            return
        name = self.plan.names.of("operation", operation.name)
        d = self.plan.part(operation, "d")
        arguments = [
            f"mma_{name}",
            called("result_at", self.memory.at(operation, "d", at), d.columns),
            self._left(operation, name, at),
            code(f"b_{name}[(None, None, None, {{}})]", self._slot(operation, "b", at)),
            *([self._factors(operation, at)] if operation.scaled else []),
            self._accumulate(operation, at),
        ]
        function = "multiply_scaled" if operation.scaled else "multiply"
        source.uses(function)
        source.call(function, arguments)

    def _copy(self, source: Source, operation: Operation, at: Iteration | None) -> None:
        """From shared to tensor memory, in the queue of products."""
        part = self.plan.part(operation, "from")
        stage = self._slot(operation, "from", at)
        tile = code("{}[(None, None, {})]", self.plan.matrix(part), stage)
        parts = operation.interleave
        source.add(called("copy_factors", tile, self.memory.at(operation, "to", at), parts))

    def _factors(self, operation: Operation, at: Iteration | None) -> Code:
        """Where the factors of both operands are, and how many bytes of a lane each group of 4
        blocks has.
        """
        found: list[Code] = []
        for operand in "ab":
            part = self.plan.part(operation, operand)
            groups = -(-part.rows // SCALED_ROWS)
            pointer = self.memory.at(operation, f"scale_{operand}", at)
            found.append(code(f"({{}}, {SCALE_BYTES * groups})", pointer))
        return code("({}, {})", *found)

    def _left(self, operation: Operation, name: str, at: Iteration | None) -> Code:
        a = self.plan.part(operation, "a")
        if a.region.space is Space.TMEM:
            place = self.memory.at(operation, "a", at)
            function = "operand_at" if DTYPE_BITS[a.region.dtype] == 16 else "bytes_at"
            return called(function, place, a.columns, DTYPES[a.region.dtype])
        return code(f"a_{name}[(None, None, None, {{}})]", self._slot(operation, "a", at))

    def _slot(self, operation: Operation, operand: str, at: Iteration | None) -> Code:
        return self.plan.stage(self.plan.access(operation, operand, write=False), at)

    def _accumulate(self, operation: Operation, at: Iteration | None) -> str | Code:
        """Whether the result is added to what is there, and not to an initial value of 0."""
        if not operation.accumulate:
            return "False"
        initial = self.memory.initial(operation, "d")
        if not initial:
            return "True"
        region = self.plan.part(operation, "d").region
        if float(region.initial or "nan") != 0.0:
            raise EmitError(
                f"{operation.name}: '{region.name}' begins with {region.initial}, and tcgen05 with "
                "nothing or with what is there",
                operation,
                rule="initial-of-product",
                fix="make 'initial' 0, and add the rest in the epilogue",
            )
        if at is None:
            raise EmitError(
                f"{operation.name}: its first iterations are not those of a loop",
                operation,
                rule="initial-outside-of-loop",
                fix="accumulate in the main loop, or without 'accumulate' where there is one only",
            )
        return code(f"{{}} >= {initial}" if initial > 1 else "{} != 0", at)

    def wait_group(self, source: Source, role: RoleProgram, step: Step, action: WaitGroup) -> None:
        raise EmitError(f"{role.name}: tcgen05 has no wait for {action.operation}")

    def commit(self, source: Source, role: RoleProgram, action: Commit, at: Code) -> None:
        source.put(CommitNode(at))

    def finish(self, source: Source) -> None:
        products = code("{}", _PRODUCTS)
        source.put(CommitNode(products), Wait(products, code("0")))

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

    def initialize(self, source: Source, arrivals: int) -> None:
        source.comment("the tensor queue is empty")
        source.add(f"cute.arch.mbarrier_init(bar_products, {arrivals})")

    def allocate(self, source: Source, columns: int) -> None:
        with source.block("if warp == 0:"):
            source.add(f"cute.arch.alloc_tmem({columns}, tmem_address)")
            source.add("cute.arch.relinquish_tmem_alloc_permit()")

    def free(self, source: Source, columns: int) -> None:
        source.add(_RETRIEVE, f"cute.arch.dealloc_tmem(tmem, {columns})")
