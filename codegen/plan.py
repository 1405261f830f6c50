"""What an emitter looks up: where pieces live, which slot is meant, which warps run a role."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from schedgen.codegen.dtypes import scalar_type
from schedgen.codegen.errors import EmitError
from schedgen.codegen.ir import Code, Name, Stage, code
from schedgen.codegen.names import Names, element_name
from schedgen.codegen.numbered import NumberedBarriers
from schedgen.codegen.running import Iteration, Running
from schedgen.codegen.small_tiles import is_small, room
from schedgen.conditional import conditions
from schedgen.elements import named, whole_scalars
from schedgen.expressions import Expression
from schedgen.kernel import Kernel, Operation, Piece, Region, Space
from schedgen.layouts import DTYPE_BITS, panel_bytes
from schedgen.program.added import is_added, ran
from schedgen.program.claims import RING, claims
from schedgen.program.model import Program, RoleProgram
from schedgen.program.operations import Access
from schedgen.program.warpgroups import Warpgroups
from schedgen.ragged import left_out
from schedgen.tensors import Argument, Ragged

SWIZZLED_ROWS = 8
"""Rows after which the pattern of swizzling repeats (PTX ISA, swizzling modes of tensor maps)."""


@dataclass(frozen=True, slots=True)
class View:
    """Shared memory seen as tiles: ``rows`` x ``columns`` elements in each of ``slots`` slots.

    A vector has one column if it holds a value per row of a tile, one row if per column.
    """

    name: str
    address: int
    rows: int
    columns: int
    slots: int
    stride: int
    """Bytes from one slot to the next."""
    dtype: str

    @property
    def row_bytes(self) -> int:
        return self.columns * DTYPE_BITS[self.dtype] // 8

    @property
    def vector(self) -> bool:
        return self.columns == 1 or self.rows == 1

    @property
    def panel(self) -> int:
        """Columns of a panel."""
        return panel_bytes(self.row_bytes) * 8 // DTYPE_BITS[self.dtype]


@dataclass(frozen=True, slots=True)
class Part:
    """Rows and columns, in elements, of a region that a few pieces make up."""

    region: Region
    row0: int
    row1: int
    column0: int
    column1: int

    @property
    def rows(self) -> int:
        return self.row1 - self.row0

    @property
    def columns(self) -> int:
        return self.column1 - self.column0


class Plan:
    """Facts about one program and its kernel. Nothing here depends on the architecture."""

    def __init__(self, program: Program, kernel: Kernel) -> None:
        self.program, self.kernel = program, kernel
        self.names = Names({*self.extents, *self.scalars})
        self.views = self._views()

    # -- storage -------------------------------------------------------------------------------

    def _views(self) -> dict[str, View]:
        """Region in shared memory -> its view; instances that take turns in a ring share one."""
        made: dict[tuple[object, ...], View] = {}
        found: dict[str, View] = {}
        allocations = self._allocation_of_region
        for region in self.kernel.regions:
            if region.space is not Space.SMEM or region.name not in allocations:
                continue
            allocation = self.program.allocation[allocations[region.name]]
            rows, columns = room(self.kernel, region)
            key = (allocation.name, region.base, rows, columns, region.dtype)
            if key not in made:
                name = (
                    region.base if self._takes_turns(allocation.name, region.base) else region.name
                )
                stride = allocation.size // allocation.slots
                made[key] = View(
                    self.names.of("view", name),
                    allocation.address,
                    rows,
                    columns,
                    allocation.slots,
                    stride,
                    region.dtype,
                )
            found[region.name] = made[key]
        return found

    def _takes_turns(self, allocation: str, base: str) -> bool:
        """Whether all instances of a buffer live in one allocation."""
        return {
            s for r, s in self._allocation_of_region.items() if self.kernel.region[r].base == base
        } == {allocation}

    @cached_property
    def _allocation_of_region(self) -> dict[str, str]:
        return {
            self.kernel.piece[access.buffer].region: access.allocation
            for operation in self.program.operations
            for access in operation.accesses
            if not is_added(operation.name)
        }

    @cached_property
    def loaded_if(self) -> dict[tuple[str, str], Expression]:
        """(operation, piece) -> the condition under which that piece was loaded for it."""
        return conditions(self.kernel)

    def operation(self, name: str) -> Operation:
        return self.kernel.operation[name]

    def part(self, operation: Operation, operand: str) -> Part:
        """What an operand covers; its pieces have to make up a rectangle."""
        pieces = [self.kernel.piece[name] for name in dict(operation.operands)[operand]]
        return self.covered(pieces)

    def covered(self, pieces: list[Piece]) -> Part:
        region = self.kernel.region[pieces[0].region]
        size = DTYPE_BITS[region.dtype] // 8
        part = Part(
            region,
            min(p.row0 for p in pieces),
            max(p.row1 for p in pieces),
            min(p.byte0 for p in pieces) // size,
            max(p.byte1 for p in pieces) // size,
        )
        if part.rows * part.columns * size != sum(piece.bytes for piece in pieces):
            names = ", ".join(piece.name for piece in pieces)
            raise EmitError(
                f"{names} do not make up a rectangle",
                region,
                rule="parts-of-tile",
                fix="give an operand neighbouring parts of a buffer",
            )
        return part

    def pieces_of(self, region: Region) -> list[Piece]:
        """All pieces of a region."""
        return [piece for piece in self.kernel.pieces if piece.region == region.name]

    def accesses(self, operation: Operation, operand: str) -> list[Access]:
        """All accesses of an operand's first piece."""
        piece = dict(operation.operands)[operand][0]
        found = self.program.operation[operation.name].accesses
        return [access for access in found if access.buffer == piece]

    def matrix(self, part: Part, tiles: Code | None = None, times: int = 1) -> Code:
        """A part of a view, or of ``tiles`` with more columns, as (rows, columns, slots)."""
        view = self.views[part.region.name]
        tiles = code("{}", Name(view.name)) if tiles is None else tiles
        if (part.rows, part.columns) == (view.rows, view.columns):
            return tiles
        row, column = self.tile_number(part)
        sizes = f"({part.rows}, {times * part.columns}, {view.slots})"
        return code(f"cute.local_tile({{}}, {sizes}, ({row}, {column}, 0))", tiles)

    def copied(self, part: Part) -> Code:
        """What a bulk copy brings of a part of a view, as `matrix` says."""
        if is_small(self.kernel, part.region):
            return code("{}", Name(self.views[part.region.name].name))
        return self.matrix(part)

    def tile_number(self, part: Part) -> tuple[int, int]:
        """Which of the tiles of its size, counted along rows and columns, a part of a view is.

        Swizzling repeats after 8 rows, and within panels of up to 128 bytes of a row.

        Raises:
            EmitError: it is none, or begins or ends where no swizzled layout can be cut.
        """
        view, name = self.views[part.region.name], part.region.name
        if view.vector:
            raise EmitError(
                f"'{name}': a vector in shared memory is copied and multiplied as a whole",
                part.region,
                rule="part-of-vector",
                fix="use 'per' instead of 'split', so that each part is a vector of its own",
            )
        if part.row0 % part.rows or part.column0 % part.columns:
            raise EmitError(
                f"'{name}': a part of {part.rows} x {part.columns} begins at row {part.row0}, "
                f"column {part.column0}, between parts of its size",
                part.region,
                rule="part-between-parts",
                fix="split it into parts of equal size",
            )
        panel = view.panel
        if (part.columns % panel and panel % part.columns) or part.row0 % SWIZZLED_ROWS:
            raise EmitError(
                f"'{name}': a part of {part.rows} x {part.columns} at row {part.row0} is cut out "
                f"of panels of {SWIZZLED_ROWS} x {panel} elements that are swizzled together",
                part.region,
                rule="part-of-panel",
                fix=f"make parts of multiples of {SWIZZLED_ROWS} rows, and of multiples or halves, "
                f"quarters ... of {panel} columns",
            )
        return part.row0 // part.rows, part.column0 // part.columns

    def access(self, operation: Operation, operand: str, *, write: bool) -> Access:
        """The access of an operand's first piece."""
        piece = dict(operation.operands)[operand][0]
        for access in self.program.operation[operation.name].accesses:
            if access.buffer == piece and access.write == write:
                return access
        raise EmitError(f"{operation.name} does not access {piece}")

    def slots(self, access: Access) -> int:
        return self.program.allocation[access.allocation].slots

    def stage(self, access: Access, at: Iteration | None) -> Code:
        """The slot that an access uses in an iteration."""
        slots = self.slots(access)
        if slots == 1:
            return code("0")
        return code("{}", Stage(Running(access.version, slots, at, (access.allocation,))))

    # -- roles ---------------------------------------------------------------------------------

    @cached_property
    def runs(self) -> dict[str, list[Operation]]:
        """Role -> the operations of the kernel that it runs."""
        return {
            role.name: [self.operation(name) for name in ran(role)] for role in self.program.roles
        }

    @cached_property
    def _warps(self) -> Warpgroups:
        return Warpgroups(self.program.roles)

    @property
    def first_warp(self) -> dict[str, int]:
        """Role -> its first warp."""
        return self._warps.first

    @property
    def warps(self) -> int:
        """Warps of the block, in whole warpgroups."""
        return self._warps.count

    def available_registers(self, role: RoleProgram) -> int:
        """Registers of each thread of a role, while it works."""
        return next((step.registers for step in role.budgets), self.entry_registers)

    @property
    def entry_registers(self) -> int:
        """Registers of a thread when the kernel starts."""
        return self._warps.entry

    # -- barriers ------------------------------------------------------------------------------

    @cached_property
    def mbarriers(self) -> dict[str, int]:
        """Barrier -> the first of its 64-bit words in shared memory."""
        found: dict[str, int] = {}
        word = 0
        for barrier in self.program.barriers:
            if barrier.kind == "mbarrier":
                found[barrier.name] = word
                word += barrier.slots
        return found

    @property
    def words(self) -> int:
        """64-bit words of all barriers."""
        return sum(self.program.barrier[name].slots for name in self.mbarriers)

    @cached_property
    def numbered(self) -> NumberedBarriers:
        """Those that the hardware numbers."""
        return NumberedBarriers(self.program)

    def check_words(self, more: int) -> None:
        """Whether the barriers and ``more`` words fit before the buffers."""
        first = min((view.address for view in self.views.values()), default=1024)
        if self.claims:
            first = min(first, self.program.allocation[RING].address)
        if 8 * (self.words + more) > first:
            raise EmitError(
                f"{self.words + more} words of barriers do not fit before the buffers at {first}"
            )

    @property
    def claims(self) -> bool:
        """Whether blocks claim their tiles."""
        return claims(self.program)

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block, from its 1024-byte aligned start."""
        allocations = [s for s in self.program.allocations if s.space is Space.SMEM]
        return max((s.address + s.size for s in allocations), default=1024)

    # -- extents -------------------------------------------------------------------------------

    @cached_property
    def extents(self) -> tuple[str, ...]:
        """Names of all extents, in order of appearance."""
        shapes = (extent for argument in self.kernel.arguments for extent in argument.shape)
        return tuple(dict.fromkeys(shapes))

    @cached_property
    def ragged(self) -> dict[str, Ragged]:
        """Extents whose sizes are data."""
        return {one.extent: one for one in self.kernel.ragged}

    @property
    def sparse(self) -> bool:
        """Whether output tiles are left out: those behind the end of what they are cut along, or
        for which a condition does not hold.
        """
        return self.kernel.tile_when is not None or left_out(self.kernel)

    @property
    def passed(self) -> tuple[str, ...]:
        """Extents of the tensors that are passed, and no others."""
        shapes = (extent for argument in self.kernel.arguments for extent in argument.passed)
        return tuple(dict.fromkeys(shapes))

    @cached_property
    def elements(self) -> dict[str, Argument]:
        """Variables with the element of a tensor that belongs to an output tile, by name."""
        names = named(self.kernel)
        tensors = {element_name(a.name): a for a in self.kernel.arguments if a.shape}
        return {name: a for name, a in tensors.items() if name in names}

    @cached_property
    def scalars(self) -> tuple[str, ...]:
        return tuple(a.name for a in self.kernel.arguments if not a.shape)

    def type_of(self, scalar: str) -> str:
        """The type of a scalar in the kernel: of those that decide on iterations, an integer."""
        dtypes = {argument.name: argument.dtype for argument in self.kernel.arguments}
        return "Int32" if scalar in whole_scalars(self.kernel) else scalar_type(dtypes[scalar])

    def block(self, extent: str) -> int:
        return prod(axis.block for axis in self.kernel.grid if axis.extent == extent)
