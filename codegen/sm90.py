"""Hopper: products by wgmma of one warpgroup, 64 rows at a time, with results in registers."""

from __future__ import annotations

from collections.abc import Sequence

from schedgen.codegen import ir
from schedgen.codegen.architecture import Architecture
from schedgen.codegen.dtypes import DTYPES
from schedgen.codegen.errors import EmitError
from schedgen.codegen.fragment import WGMMA, of_wgmma
from schedgen.codegen.ir import Code, CommitGroup, called, code
from schedgen.codegen.library_sm90 import LIBRARY
from schedgen.codegen.pending import pending
from schedgen.codegen.plan import Part, Plan
from schedgen.codegen.running import Iteration
from schedgen.codegen.source import Source
from schedgen.codegen.style import PLAIN, Style
from schedgen.codegen.supported import Products
from schedgen.codegen.threads import Threads
from schedgen.kernel import Kind, Operation, Space
from schedgen.layouts import DTYPE_BITS
from schedgen.program.model import EVERY, Commit, FenceKind, RoleProgram, Run, Step, WaitGroup

_K_BYTES = 32
"""Bytes of a row that one instruction multiplies."""


_FENCES = {
    FenceKind.ASYNC_PROXY: code('cute.arch.fence_proxy("async.shared", space="cta")'),
    FenceKind.REGISTERS: code("warpgroup.fence()"),
}


class Hopper(Architecture):
    """sm_90a."""

    imports = """import cuda.bindings.driver as cuda
import cutlass
import cutlass.cute as cute
import cutlass.utils.hopper_helpers as sm90_utils
from cutlass import BFloat16, Float16, Float32, Int32
from cutlass._mlir.dialects import llvm
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.cute.nvgpu.warp import LdMatrix8x8x16bOp, StMatrix8x8x16bOp
"""
    library = LIBRARY
    fences = _FENCES
    products = Products("wgmma", 64, 8, 256, (Space.SMEM, Space.REGISTERS), Space.REGISTERS, True)

    def __init__(self, plan: Plan, style: Style = PLAIN) -> None:
        super().__init__(plan)
        self.threads = Threads(plan, of_wgmma(style), late=style.late)
        self._loose = style.loose

    def _name(self, operation: Operation) -> str:
        return self.plan.names.of("operation", operation.name)

    def declare(self, source: Source, role: RoleProgram) -> None:
        """``mma_X``, and ``a_X``, ``b_X``, ``d_X``: the operands as the instruction wants them."""
        for operation in self.plan.runs[role.name]:
            if operation.kind is Kind.MMA:
                self._declare(source, operation)

    def _declare(self, source: Source, operation: Operation) -> None:
        name, registers = self._name(operation), self.threads.registers
        a, b, d = (self.plan.part(operation, operand) for operand in "abd")
        columns = b.rows if operation.transpose_b else b.columns
        left = "MN" if operation.transpose_a else "K"
        right = "K" if operation.transpose_b else "MN"
        in_registers = a.region.space is Space.REGISTERS
        source.add(
            f"mma_{name} = sm90_utils.make_trivial_tiled_mma(",
            f"    {DTYPES[a.region.dtype]}, {DTYPES[b.region.dtype]}, "
            f"OperandMajorMode.{left}, OperandMajorMode.{right},",
            f"    Float32, (1, 1, 1), ({WGMMA.rows}, {columns}), "
            f"warpgroup.OperandSource.{'RMEM' if in_registers else 'SMEM'},",
            ")",
        )
        if in_registers:
            steps = self._steps(operation)
            at = f"{registers.name(a)}.iterator + {registers.offset(a)}"
            layout = f"((2, 2, 2), 1, {steps}), stride=((1, 2, 4), 0, 8)"
            if DTYPE_BITS[a.region.dtype] == 8:
                layout = f"((4, 2, 2), 1, {steps}), stride=((1, 4, 8), 0, 16)"
            source.add(f"a_{name} = cute.make_tensor({at}, cute.make_layout({layout}))")
        else:
            tile = self.plan.matrix(a)
            tile = called("transposed", tile) if operation.transpose_a else tile
            source.add(
                code(
                    f"a_{name} = mma_{name}.make_fragment_A("
                    f"mma_{name}.get_slice(0).partition_A({{}}))",
                    tile,
                )
            )
        tile = self.plan.matrix(b)
        tile = tile if operation.transpose_b else called("transposed", tile)
        source.add(
            code(
                f"b_{name} = mma_{name}.make_fragment_B(mma_{name}.get_slice(0).partition_B({{}}))",
                tile,
            )
        )
        at = f"{registers.name(d)}.iterator + {registers.offset(d)}"
        layout = f"((2, 2, {columns // 8}), 1, 1)"
        source.add(f"d_{name} = cute.make_tensor({at}, cute.make_layout({layout}))")

    def _steps(self, operation: Operation) -> int:
        a = self.plan.part(operation, "a")
        depth = a.rows if operation.transpose_a else a.columns
        return depth * DTYPE_BITS[a.region.dtype] // 8 // _K_BYTES

    def begin_tile(self, source: Source, role: RoleProgram) -> None:
        operands = [part for o in self._products(role) for part in self._registers(o)]
        self._pin(source, [part for part in operands if part.region.initial is not None])

    def fence(self, source: Source, role: RoleProgram, step: Step, kind: FenceKind) -> None:
        """With the registers of the product behind it pinned; those of a fence that only a tile's
        first iteration has are pinned where the tile begins, and a condition around accumulators
        would make the assembler wait for each product.
        """
        if kind is FenceKind.REGISTERS and step.guard == EVERY:
            self._pin(source, self._registers(self._product_behind(role, step)))
        super().fence(source, role, step, kind)

    def _products(self, role: RoleProgram) -> list[Operation]:
        return [o for o in self.plan.runs[role.name] if o.kind is Kind.MMA]

    def _product_behind(self, role: RoleProgram, step: Step) -> Operation:
        """The first product behind a fence, in whose section it stands."""
        section = next(s for s in (role.before, role.loop, role.after) if any(x is step for x in s))
        at = next(n for n, other in enumerate(section) if other is step)
        runs = (s.action.operation for s in section[at:] if isinstance(s.action, Run))
        products = {operation.name: operation for operation in self._products(role)}
        return next(products[name] for name in runs if name in products)

    def _registers(self, operation: Operation) -> list[Part]:
        """Operands of a product in registers."""
        parts = (self.plan.part(operation, operand) for operand in "ad")
        return [part for part in parts if part.region.space is Space.REGISTERS]

    def _pin(self, source: Source, parts: Sequence[Part]) -> None:
        """Has the compiler compute registers before what comes next: else it may do that, and move
        them, behind a fence (``warpgroup_fence_operand`` of CUTLASS).
        """
        for tensor in dict.fromkeys(map(self.threads.registers.tensor, parts)):
            source.add(called("pin", tensor))

    def shared_memory(self, source: Source) -> None:
        """An address that does not come from a special register.

        That one ptxas reads again in turns of loops, and computes descriptors from it while
        products wait. On Blackwell the register that this takes made roles spill.
        """
        source.comment("passed through a shuffle, so that loops do not compute it anew")
        source.add("start = cute.arch.make_warp_uniform(shared.toint())")
        arguments = ["cutlass.Uint8", "start", "cute.AddressSpace.smem", "assumed_align=1024"]
        source.call("shared = cute.make_ptr", arguments)

    def product(
        self, source: Source, operation: Operation, at: Iteration | None, *, runs: bool
    ) -> None:
        """All steps along k, as one group; an empty group if it does not run."""
        if runs:
            name, steps = self._name(operation), self._steps(operation)
            a, b = (self._slot(operation, operand, at) for operand in "ab")
            with source.block(f"for k_step in cutlass.range_constexpr({steps}):"):
                clear = "True" if operation.accumulate else "k_step != 0"
                source.add(f"mma_{name}.set(warpgroup.Field.ACCUMULATE, {clear})")
                left = code(f"a_{name}[(None, None, k_step{{}})]", a)
                right = code(f"b_{name}[(None, None, k_step{{}})]", b)
                multiply = f"cute.gemm(mma_{name}, d_{name}, {{}}, {{}}, d_{name})"
                source.add(code(multiply, left, right))
        source.put(CommitGroup("wgmma"))

    def _slot(self, operation: Operation, operand: str, at: Iteration | None) -> Code:
        access = self.plan.access(operation, operand, write=False)
        if self.plan.program.allocation[access.allocation].space is not Space.SMEM:
            return Code(())
        return code(", {}", self.plan.stage(access, at))

    def wait_group(self, source: Source, role: RoleProgram, step: Step, action: WaitGroup) -> None:
        """Behind what threads compute before it: the assembler would move it up to where all that
        it needs has been issued, so that nothing overlaps with the product any more; unless that is
        left to it.
        """
        for part in self._computed_before(role, step)[:1]:
            if self._loose:
                self.loosened = True
                continue
            source.add(called("hold_back", self.threads.registers.tensor(part)))
        source.put(ir.WaitGroup("wgmma", pending(self.plan, role, step)))

    def _computed_before(self, role: RoleProgram, step: Step) -> list[Part]:
        """What threads have in registers of the operation before a step, if that is not a product;
        that of one that does not run in all iterations says nothing.
        """
        section = next(s for s in (role.before, role.loop, role.after) if any(x is step for x in s))
        at = next(n for n, other in enumerate(section) if other is step)
        runs = [s for s in section[:at] if isinstance(s.action, Run)]
        if not runs or runs[-1].guard != step.guard:
            return []
        assert isinstance(runs[-1].action, Run)
        operation = self.plan.operation(runs[-1].action.operation)
        if operation.kind is Kind.MMA or operation.when is not None:
            return []
        pieces = [self.plan.kernel.piece[name] for name in operation.writes]
        parts = [self.plan.covered([piece]) for piece in pieces]
        return [part for part in parts if part.region.space is Space.REGISTERS]

    def commit(self, source: Source, role: RoleProgram, action: Commit, at: Code) -> None:
        raise EmitError(f"{role.name}: wgmma does not arrive at barriers")
