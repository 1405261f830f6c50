"""Operations of threads: calls in the roles, functions that are called."""

from __future__ import annotations

from collections.abc import Sequence

from schedgen.codegen.bodies import OperationFunction
from schedgen.codegen.errors import EmitError, about
from schedgen.codegen.fragment import Fragment
from schedgen.codegen.ir import Code, Function, Name, Node, called, code, joined, plus
from schedgen.codegen.kinds import WRITERS, gather
from schedgen.codegen.lists import Lists
from schedgen.codegen.operands import Operand, Shape, band_of, rows_of, written
from schedgen.codegen.plan import Plan
from schedgen.codegen.registers import Registers
from schedgen.codegen.running import Iteration
from schedgen.codegen.small_tiles import is_small, loads
from schedgen.codegen.source import Source
from schedgen.codegen.style import ANEW
from schedgen.codegen.tensor_memory import TensorMemory
from schedgen.codegen.transfers import atom, shared
from schedgen.codegen.walks import Walks
from schedgen.elements import tile_numbers
from schedgen.kernel import Kernel, Kind, Operation, Phase, Space
from schedgen.layouts import BULK_BYTES
from schedgen.program.model import RoleProgram
from schedgen.tensors import PARTLY, Place

_SPARE = 24
"""Registers of a thread beside the elements that it works on."""
_ADDRESSES = 9
"""And those for addresses of swizzled shared memory: one for each piece of a 128-byte row, and more
than nothing is left for the next piece."""


class Threads:
    """What roles of four warps compute; ``late``: outside of the main loop, see `style`."""

    def __init__(self, plan: Plan, fragment: Fragment, *, late: bool = False) -> None:
        self.plan, self.fragment, self._late = plan, fragment, late
        self.registers = Registers(plan, fragment)
        self.memory, self.lists = TensorMemory(plan), Lists(plan)
        self._functions: dict[tuple[tuple[tuple[str, str], ...], tuple[Node, ...]], str] = {}
        """(parameters, body) -> name."""

    def call(
        self, source: Source, role: RoleProgram, operation: Operation, at: Iteration | None
    ) -> None:
        """Writes calls of the operation's function, one for each band of as many rows as four warps
        work on at a time.
        """
        with about(operation):
            self._call(source, role, operation, at)

    def open(self, source: Source, operations: Sequence[Operation]) -> None:
        """Writes what some of ``operations`` find out once for each output tile."""
        for operation in operations:
            if operation.kind is Kind.GATHER:
                with about(operation):
                    if self.lists.once(operation):
                        self._find(source, operation, None)

    def _find(self, source: Source, operation: Operation, at: Iteration | None) -> None:
        first = self._beside(operation, "row_0", at, 0)
        self.lists.find(source, operation, self.fragment, first)

    def _call(
        self, source: Source, role: RoleProgram, operation: Operation, at: Iteration | None
    ) -> None:
        initial = {name for name, _ in operation.operands if self._initial(operation, name)}
        body = OperationFunction(
            self.plan, self.fragment, operation, self._span(role, operation), initial
        )
        name = self._function(operation, body)
        if operation.kind is Kind.GATHER and not self.lists.once(operation):
            self._find(source, operation, at)
        apart = self._apart(operation)
        if operation.phase is not Phase.BODY:
            for sums in apart:
                source.add(called("across_lanes", sums))
        rows = self._rows(operation, body)
        band = rows if WRITERS[operation.kind].whole else self.fragment.rows
        for first in range(0, rows, band):
            operands = [band_of(operation, one, band, first // band) for one in body.parameters]
            arguments = [self._argument(operation, operand, at) for operand in operands]
            if operation.phase is Phase.BODY:  # the loop carries the parts on
                arguments = [called("of_rows", a) if a in apart else a for a in arguments]
            arguments += [self._beside(operation, use, at, first) for use in self._uses(body)]
            source.call(name, arguments)

    def _apart(self, operation: Operation) -> list[Code]:
        """Registers with sums that an operation reads, where several threads have parts of them."""
        if not operation.work.combined or self.fragment.values == 1:
            return []
        made = {n for o in self.plan.kernel.operations if o.work.apart for n in o.writes}
        pieces = [self.plan.kernel.piece[read.piece] for read in operation.reads]
        parts = [self.plan.covered([piece]) for piece in pieces if piece.name in made]
        return [self.registers.tensor(part) for part in parts]

    def _rows(self, operation: Operation, body: OperationFunction) -> int:
        """Rows of an operation's tiles: a multiple of what four warps work on at a time."""
        rows = rows_of(operation, body.operands)
        if not rows and all(body.operands[n].in_registers for n in written(operation)):
            rows = self.fragment.rows  # each thread has values of its columns, whatever its rows
        if not rows:
            raise EmitError(
                f"{operation.name}: numbers of columns are written elsewhere than to registers",
                operation,
                rule="numbers-of-columns",
                fix="keep them in 'registers'; threads of one role have all that it needs of them",
            )
        if rows % self.fragment.rows:
            raise EmitError(
                f"{operation.name}: four warps work on {self.fragment.rows} rows at a time, "
                f"not {rows}",
                operation,
                rule="rows-of-threads",
                fix=f"make the number of rows a multiple of {self.fragment.rows}",
            )
        if body.columns % self.fragment.repeat:
            raise EmitError(
                f"{operation.name}: threads have {self.fragment.repeat} columns at a time between "
                f"them, and {body.columns} are no multiple",
                operation,
                rule="columns-of-threads",
                fix=f"make the number of columns, or of those of a slice, a multiple of "
                f"{self.fragment.repeat}",
            )
        return rows

    def functions(self, source: Source) -> None:
        """All functions that are called."""
        for (parameters, body), name in self._functions.items():
            source.put(Function("@cute.jit", name, parameters, body))
            source.add("", "")

    def _function(self, operation: Operation, body: OperationFunction) -> str:
        parameters = [(operand.parameter, "cute.Tensor") for operand in body.parameters]
        parameters += [(use, self._type(use)) for use in self._uses(body)]
        key = (tuple(parameters), body.nodes)
        if key not in self._functions:
            number = len(self._functions)
            name = self.plan.names.of("function", str(number), base=operation.base)
            self._functions[key] = name
        return self._functions[key]

    def _uses(self, body: OperationFunction) -> list[str]:
        """What a function takes beside operands, in the order in which it is passed."""
        order = [
            *self.plan.scalars,
            *self.plan.elements,
            *self.plan.extents,
            *tile_numbers(self.plan.kernel),
            "row_0",
            "column_0",
            "fresh",
            PARTLY,
            *gather.PARAMETERS,
        ]
        unknown = body.uses - {*order, "thread"}
        if unknown:
            names = ", ".join(sorted(unknown))
            raise EmitError(f"{body.operation.name}: {names} is neither an operand nor an argument")
        return [use for use in (*order, "thread") if use in body.uses]

    def _type(self, use: str) -> str:
        if use in self.plan.scalars:
            return self.plan.type_of(use)
        if use in self.plan.elements:
            return "Float32"
        if use in gather.TENSORS:
            return "cute.Tensor"
        return "cutlass.Boolean" if use == "fresh" else "Int32"

    def _span(self, role: RoleProgram, operation: Operation) -> int:
        """Columns of tiles in other memories that fit into registers at a time."""
        if self.fragment.values > 1:
            return 1 << 30  # fragments: whole tiles, in the way of a single instruction
        regions = {self.plan.kernel.region_of(pieces[0]) for _, pieces in operation.operands}
        shared = any(region.space is Space.SMEM and region.row_bytes > 4 for region in regions)
        spare = self.plan.available_registers(role) - _SPARE - (_ADDRESSES if shared else 0)
        return min(32, 1 << (max(spare, 8).bit_length() - 1))

    def _initial(self, operation: Operation, operand: str) -> int:
        """For how many iterations an operand outside of registers has its initial value."""
        space, count = self.plan.part(operation, operand).region.space, 0
        if space is not Space.REGISTERS:
            count = self.memory.initial(operation, operand)
        if count and space is Space.SMEM:
            raise EmitError(
                f"{operation.name}: '{operand}' has its initial value in shared memory, where "
                "nothing writes it",
                operation,
                rule="initial-in-shared-memory",
                fix="keep it in registers or in tensor memory, or write it with a map before the "
                "loop",
            )
        return count

    # -- arguments -----------------------------------------------------------------------------

    def _argument(self, operation: Operation, operand: Operand, at: Iteration | None) -> Code:
        match operand.space:
            case Space.REGISTERS:
                return self.registers.tensor(operand.part)
            case Space.TMEM:
                return self.memory.tile(operation, operand.name, at)
            case Space.SMEM:
                return self._shared(operation, operand, at)

    def _shared(self, operation: Operation, operand: Operand, at: Iteration | None) -> Code:
        """A tile or vector in shared memory."""
        part, view = operand.part, self.plan.views[operand.part.region.name]
        accesses = self.plan.accesses(operation, operand.name)
        slots = self.plan.slots(accesses[0])
        if slots > 1 and len({access.version for access in accesses}) > 1:
            raise EmitError(
                f"{operation.name}: '{operand.name}' is read in one slot, written in another",
                operation,
                rule="slots-of-operand",
                fix="give it 'depth: 1', or write to another buffer",
            )
        name, stage = Name(view.name), self.plan.stage(accesses[0], at)
        if operand.shape is not Shape.TILE:
            text = code("{}[(None, {})]", name, stage)
            whole, first, count = view.columns, part.column0, part.columns
            if operand.shape is Shape.ROWS:
                whole, first, count = view.rows, part.row0, part.rows
            if is_small(self.plan.kernel, part.region):
                begin = self._begin(operation, operand, at)
                return called("part_of", text, code(f"{{}} & {whole - 1}", atom(begin)), count)
            return text if count == whole else called("part_of", text, first, count)
        text = code("{}[(None, None, {})]", name, stage)
        if (part.rows, part.columns) == (view.rows, view.columns):
            return text
        row, column = self.plan.tile_number(part)
        return code(
            f"cute.local_tile({{}}, ({part.rows}, {part.columns}), ({row}, {column}))", text
        )

    def _begin(self, operation: Operation, operand: Operand, at: Iteration | None) -> Code:
        """Where a tile begins in its tensor of which a bulk copy has brought more."""
        region = operand.part.region
        pieces = {piece.name for piece in self.plan.pieces_of(region)}
        earlier = any(read.distance for read in operation.reads if read.piece in pieces)
        brought = loads(self.plan.kernel, region)
        sides = {place for load in brought for place in load.places if place.side}
        if earlier or len(sides) != 1:
            raise EmitError(
                f"{operation.name}: '{region.base}' is a part of what a copy brings, and which one "
                f"{'an earlier iteration had' if earlier else 'is said twice'}",
                operation,
                rule="part-of-copy",
                fix=f"make '{region.base}' a multiple of {BULK_BYTES} bytes",
            )
        return start(sides.pop(), at, self.plan.kernel)

    def _beside(self, operation: Operation, use: str, at: Iteration | None, first: int) -> Code:
        """What a function takes beside operands, for the band that begins at row ``first``."""
        if use == "fresh":
            first = max(self._initial(operation, name) for name, _ in operation.operands)
            if at is None:
                raise EmitError(
                    f"{operation.name}: its first iterations are not those of a loop",
                    operation,
                    rule="initial-outside-of-loop",
                    fix="write the initial value with a map before the loop",
                )
            return code(f"{{}} < {first}" if first > 1 else "{} == 0", at)
        if use == PARTLY:
            known = at is not None and at.partly
            iteration = code("{}", 0 if at is None else at)
            return code("Int32(1)") if known else Walks(self.plan.kernel).partly(iteration)
        if use in tile_numbers(self.plan.kernel):
            return self._tile_number(operation, use)
        if use in gather.PARAMETERS:
            return self.lists.argument(operation, use)
        if use in ("row_0", "column_0"):
            side = use.removesuffix("_0") + "s"
            places = [place for place in operation.places if place.side == side]
            begin = start(places[0], at, self.plan.kernel)
            return plus(begin, first) if use == "row_0" and first else begin
        if use == "thread" and self._late and at is None:
            return called(ANEW, Name(use))
        return code("{}", Name(use))

    def _tile_number(self, operation: Operation, use: str) -> Code:
        """Which output tile it is along an extent."""
        extent = tile_numbers(self.plan.kernel)[use]
        if not extent:
            raise EmitError(
                f"{operation.name}: output tiles have no '{use}' here",
                operation,
                rule="no-tile-number",
                fix="store a tile of a matrix along these rows and columns",
            )
        if all(axis.extent != extent for axis in self.plan.kernel.grid):
            return code("0")  # the main loop walks these: there is one output tile
        # What comes from a division by a number that is known late has no sign, so no float either.
        return code("Int32({})", Name(f"at_{extent}"))


def start(place: Place, at: Iteration | None, kernel: Kernel) -> Code:
    """Where a tile begins along an axis, in an iteration."""
    along = Name(f"at_{place.along}")
    terms = [code(f"{place.block} * {{}}", along)] if place.block else []
    if place.step:
        times = f"{place.step} * {{}}" if place.step > 1 else "{}"
        terms.append(code(times, atom(shared(place, at, kernel))))
    return plus(joined(" + ", terms), place.offset) if terms else code(str(place.offset))
