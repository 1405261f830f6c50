"""Where regions lie in tensor memory: 128 lanes of up to 512 columns of 32 bits."""

from __future__ import annotations

from schedgen.codegen.dtypes import DTYPES
from schedgen.codegen.errors import EmitError
from schedgen.codegen.ir import Code, called, code, plus
from schedgen.codegen.plan import Plan
from schedgen.codegen.running import Iteration
from schedgen.kernel import Operation, Space
from schedgen.layouts import DTYPE_BITS, SCALE_LANES, TMEM_LANES
from schedgen.program.model import Allocate
from schedgen.program.operations import Access


class TensorMemory:
    """Addresses as expressions over the pointer ``tmem`` of the generated kernel."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    @property
    def columns(self) -> int:
        """Columns that are allocated; 0 if the program uses none."""
        found = (s.columns for s in self.plan.program.setup if isinstance(s, Allocate))
        return max(found, default=0)

    def used_by(self, role: str) -> bool:
        """Whether operations of a role access it."""
        return any(
            self.plan.program.allocation[access.allocation].space is Space.TMEM
            for operation in self.plan.runs[role]
            for access in self.plan.program.operation[operation.name].accesses
        )

    def at(self, operation: Operation, operand: str, iteration: Iteration | None) -> Code:
        """A pointer to the first column of what an operand means."""
        part, access = self.plan.part(operation, operand), self._access(operation, operand)
        if part.rows not in (TMEM_LANES, *([SCALE_LANES] if _factors(operation, operand) else [])):
            raise EmitError(
                f"{operation.name}: '{operand}' has {part.rows} rows, tensor memory {TMEM_LANES}",
                operation,
                rule="rows-of-tensor-memory",
                fix=f"make it {TMEM_LANES} rows; those beyond a tensor's end are zero",
            )
        allocation = self.plan.program.allocation[access.allocation]
        first = self.plan.kernel.piece[access.buffer].byte0
        shift = access.bytes[0] - first  # of the region in the rows of its allocation
        column, rest = divmod(shift + part.column0 * DTYPE_BITS[part.region.dtype] // 8, 4)
        if rest:
            raise EmitError(
                f"{operation.name}: '{operand}' begins between columns of tensor memory",
                operation,
                rule="columns-of-tensor-memory",
                fix="split it into parts of whole columns of 32 bits",
            )
        column += allocation.address
        if allocation.slots == 1:
            return code(f"tmem + {column}")
        stride = allocation.size // allocation.slots
        return plus(code(f"tmem + {stride} * {{}}", self.plan.stage(access, iteration)), column)

    def tile(self, operation: Operation, operand: str, iteration: Iteration | None) -> Code:
        """What an operand means, as a tile of lanes and columns."""
        part = self.plan.part(operation, operand)
        dtype = DTYPES[part.region.dtype]
        return called("columns_at", self.at(operation, operand, iteration), part.columns, dtype)

    def initial(self, operation: Operation, operand: str) -> int:
        """The first iterations of a tile in which an operand has its initial value."""
        return max(
            (
                access.initial
                for access in self.plan.accesses(operation, operand)
                if not access.write
            ),
            default=0,
        )

    def _access(self, operation: Operation, operand: str) -> Access:
        found = self.plan.accesses(operation, operand)
        slots = self.plan.program.allocation[found[0].allocation].slots
        if slots > 1 and len({access.version for access in found}) > 1:
            raise EmitError(
                f"{operation.name}: '{operand}' is read in one slot, written in another",
                operation,
                rule="slots-of-operand",
                fix="give it 'depth: 1', or write to another buffer",
            )
        return found[0]


def _factors(operation: Operation, operand: str) -> bool:
    """Whether an operand is factors of a product's blocks, which each group of 32 lanes has."""
    return bool(operation.interleave) or operand in ("scale_a", "scale_b")
