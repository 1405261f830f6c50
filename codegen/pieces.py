"""Tiles that pass through registers, a piece at a time, as lines of an operation's function."""

from __future__ import annotations

from functools import partial
from math import gcd

from schedgen.codegen.dtypes import AS_FLOAT, DTYPES
from schedgen.codegen.elements import Elements, Formulas
from schedgen.codegen.errors import EmitError
from schedgen.codegen.formulas import code, library_functions
from schedgen.codegen.operands import Operand, Shape, written
from schedgen.codegen.pairs import Pairs
from schedgen.expressions import Expression, references
from schedgen.kernel import Kind, Space
from schedgen.layouts import DTYPE_BITS

_BYTE, _WORD = 8, 32
"""Bits of elements whose tiles have functions of their own that reach them."""
_LINE = 16
"""Bytes of a row that a thread of Hopper loads at a time to choose its pairs of numbers."""
_ALIKE = 8
"""Columns that are written at a time if they all have the same value."""


class Pieces:
    """Writes formulas over whole tiles.

    Of the ``columns`` columns of tiles outside of registers, as many are in registers at a time as
    divide them, a power of two up to ``span``, or all.
    """

    def __init__(self, elements: Elements, columns: int, span: int) -> None:
        self.elements, self.columns = elements, columns
        self.span = columns if span >= columns else gcd(columns, span)
        self.operation, self.operands = elements.operation, elements.operands
        self.source, self.pairs = elements.source, Pairs(elements)

    def write(self, formulas: Formulas) -> None:
        """Elements of tiles. A condition of rows is asked for whole warps first, which mostly have
        nothing to do then, where tiles are in registers or tensor memory.
        """
        when = self.operation.when
        carried = [o for o in self.elements.read(formulas) if o.parameter in self.elements.initial]
        if carried:
            self.elements.uses.add("fresh")
            with self.source.block("if fresh:"):
                self.source.comment("nothing has been written yet: initial values")
                self.elements.fresh = True
                self._pieces(formulas)
                self.elements.fresh = False
        rows_only = when is not None and self._rows_only(when)
        if rows_only and self._votes(formulas):
            assert when is not None
            rows = range(self.elements.fragment.values)
            asked = [code(when, partial(self.elements.value_of, rows=True, v=str(v))) for v in rows]
            condition = asked[0] if len(asked) == 1 else " | ".join(f"({one})" for one in asked)
            self.source.uses(*library_functions(when))
            head = "elif" if carried else "if"
            with self.source.block(f"{head} cute.arch.vote_any_sync({condition}):"):
                self._pieces(formulas)
        elif carried:
            with self.source.block("else:"):
                self._pieces(formulas)
        else:
            self._pieces(formulas)

    def _votes(self, formulas: Formulas) -> bool:
        """Whether all that is written are tiles in registers or tiles in shared memory that are
        added to in place, or some are in tensor memory.
        """
        before = {n.name for _, formula in formulas for n in references(formula) if n.distance}
        outputs = [self.operands[name] for name, _ in formulas]
        stays = {self.operands[name].parameter for name, _ in formulas if name in before}
        tiles = all(
            one.shape is Shape.TILE
            and (one.in_registers or (one.space is Space.SMEM and one.parameter in stays))
            for one in outputs
        )
        return tiles or bool(self._outside(formulas, Space.TMEM))

    def _rows_only(self, when: Expression) -> bool:
        return all(
            self.operands[n.name].shape is Shape.ROWS
            if n.name in self.operands
            else n.name not in ("row", "column")
            for n in references(when)
        )

    def _outside(self, formulas: Formulas, *spaces: Space) -> list[Operand]:
        """Tiles and values per column in other memories that formulas read or write."""
        touched = {o.parameter: o for o in self.elements.read(formulas)}
        touched |= {o.parameter: o for o in (self.operands[name] for name, _ in formulas)}
        return [o for o in touched.values() if o.shape is not Shape.ROWS and o.space in spaces]

    def _pieces(self, formulas: Formulas) -> None:
        outside = self._outside(formulas, Space.SMEM, Space.TMEM)
        alike = self._alike(formulas)
        span = self.span if outside and not self.operation.transposed else self.columns
        span = gcd(span, _ALIKE) if alike else span
        pieces = self.columns // span
        loop = f"for piece in cutlass.range_constexpr({pieces}):"
        if pieces == 1:
            self._put(self._piece(formulas, span, ""), span, "")
        elif alike:
            made = self._piece(formulas, span, "")
            with self.source.block(loop):
                self._put(made, span, "piece")
        else:
            with self.source.block(loop):
                made = self._piece(formulas, span, "piece")
                self._put(made, span, "piece")

    def _alike(self, formulas: Formulas) -> bool:
        """Whether all columns of all outputs have the same values, those of a fresh tile."""
        read = [o for o in self.elements.read(formulas) if o.shape is not Shape.ROWS]
        names = {name.name for _, formula in formulas for name in references(formula)}
        fresh = self.elements.fresh and all(
            operand.parameter in self.elements.initial for operand in read
        )
        return fresh and "column" not in names - set(self.operands)

    def _piece(self, formulas: Formulas, span: int, piece: str) -> list[Operand]:
        """Computes a piece; returns outputs that are in ``out_X``."""
        brought = self._brought(formulas)
        self._bring([operand for operand in brought if operand.given is None], span, piece)
        outside = self.elements.outputs_outside(formulas, self.elements.fragment.elements(span))
        self._where_given([o for o in brought if o.given is not None], formulas, span, piece)
        return outside

    def _where_given(
        self, operands: list[Operand], formulas: Formulas, span: int, piece: str
    ) -> None:
        """Brings what was loaded, and computes; what was not loaded is zero, and nobody wrote it.

        Each condition is asked once for all elements: without the operand there is less to do.
        """
        if not operands:
            self._compute(formulas, span, piece)
            return
        given = operands[0].given
        assert given is not None
        same = [operand for operand in operands if operand.given == given]
        rest = [operand for operand in operands if operand.given != given]
        self.elements.use_names([("", given)])
        self.source.uses(*library_functions(given))
        with self.source.block(f"if {code(given, lambda name: name.name)}:"):
            self._bring(same, span, piece)
            self._where_given(rest, formulas, span, piece)
        with self.source.block("else:"):
            self.elements.absent |= {operand.parameter for operand in same}
            self._where_given(rest, formulas, span, piece)
            self.elements.absent -= {operand.parameter for operand in same}

    def _compute(self, formulas: Formulas, span: int, piece: str) -> None:
        """Formulas over one piece, whose operands are in registers."""
        count = self.elements.fragment.elements(span)
        at = f"{count} * piece + v" if piece else "v"
        if self.pairs.fit(formulas, count):
            with self.source.block(f"for v in cutlass.range_constexpr(0, {count}, 2):"):
                self.pairs.write(formulas, at)
            return
        with self.source.block(f"for v in cutlass.range_constexpr({count}):"):
            self.elements.coordinates(formulas, f"{span} * piece" if piece else "")
            self.elements.write(formulas, rows=False, at=at)

    def _put(self, made: list[Operand], span: int, piece: str) -> None:
        """Copies outputs of one piece to where they belong."""
        count = self.elements.fragment.elements(span)
        for operand in made:
            name = f"out_{operand.parameter}"
            if operand.in_registers:
                self.keep(name, operand, (f"{count} * piece", count) if piece else None)
            else:
                self.store(name, operand, span, piece)

    def keep(self, made: str, operand: Operand, part: tuple[str, int] | None = None) -> None:
        """Write what was made to a tile in registers, or to a part: its first element and how many
        there are.
        """
        to = operand.parameter
        if operand.as_results:
            self.source.uses("keep_as_results")
            self.source.add(f"keep_as_results({made}, {to}, {part[0] if part else 0})")
            return
        if part is not None:
            self.source.uses("part_of")
            to = f"part_of({to}, {part[0]}, {part[1]})"
        self.source.add(f"{to}.store({made}.load().to({DTYPES[operand.dtype]}))")

    def _brought(self, formulas: Formulas) -> list[Operand]:
        """Operands that are copied to registers first."""
        return [
            operand
            for operand in self.elements.read(formulas)
            if not operand.in_registers
            and operand.shape is not Shape.ROWS
            and not (self.elements.fresh and operand.parameter in self.elements.initial)
        ]

    def _bring(self, operands: list[Operand], span: int, piece: str) -> None:
        """Copies one piece of operands to registers."""
        wait = False
        for operand in operands:
            name, to = operand.parameter, f"in_{operand.parameter}"
            if operand.shape is Shape.COLUMNS and operand.part.columns < self.columns:
                self._bring_blocks(operand, span, piece)
                continue
            if operand.shape is Shape.COLUMNS:
                part = f"part_of({name}, {span} * piece, {span})" if piece else name
                self.source.uses(*(["part_of"] if piece else []), "columns_of")
                self.source.add(f"{to} = columns_of({part}, {self.elements.thread()})")
                continue
            packed = operand.numbers
            count = self.elements.fragment.elements(span) // packed
            self.source.add(f"{to} = cute.make_rmem_tensor({count}, {DTYPES[operand.dtype]})")
            self.load(operand, to, span // packed, piece)
            if operand.dtype in AS_FLOAT:
                convert = AS_FLOAT[operand.dtype].format(to)
                self.source.uses(convert.partition("(")[0])
                self.source.add(f"{to} = {convert}")
            again = operand.space is Space.TMEM and operand.name in written(self.operation)
            wait |= again or (operand.space is Space.TMEM and bool(piece))
        if wait:
            self.source.comment("before the columns are written, and registers are used again")
            self.source.add("cute.arch.fence_view_async_tmem_load()")

    def _bring_blocks(self, operand: Operand, span: int, piece: str) -> None:
        """A value for each block of columns, to registers for each element of a piece."""
        name, block = operand.parameter, self.columns // operand.part.columns
        count, first = max(span // block, 1), f"{span} * piece // {block}"
        part = f"part_of({name}, {first}, {count})" if piece else name
        elements = self.elements.fragment.elements(span)
        self.source.uses(*(["part_of"] if piece else []), "blocks_of")
        self.source.add(f"in_{name} = blocks_of({part}, {elements})")

    def bring(self, operand: Operand) -> None:
        """The whole tile of an operand, to the registers ``in_X``."""
        self._bring([operand], self.columns, "")
        if operand.space is Space.TMEM:
            self.source.comment("it has arrived")
            self.source.add("cute.arch.fence_view_async_tmem_load()")

    def load(self, operand: Operand, registers: str, span: int, piece: str) -> None:
        if operand.space is Space.TMEM:
            arguments = [self._cut(operand, span, piece), registers, self.elements.thread()]
            self.source.uses("load_columns")
            self.source.call("load_columns", arguments)
        elif self.operation.turned == operand.name:
            arguments = [operand.parameter, registers, self.elements.thread()]
            self.source.uses("load_transposed")
            self.source.call("load_transposed", arguments)
        else:
            first = [f"{span} * piece"] if piece else []
            arguments = [operand.parameter, registers, self.elements.thread(), *first]
            function = self._loader(operand, span)
            self.source.uses(function)
            self.source.call(function, arguments)

    def _loader(self, operand: Operand, span: int) -> str:
        """The function that loads ``span`` elements of each row of a tile in shared memory."""
        fragment = self.elements.fragment
        bits = DTYPE_BITS[operand.dtype]
        if bits != _BYTE:
            return fragment.load_words if bits == _WORD else "load_tile"
        if operand.numbers == 1 or self.operation.kind is not Kind.MAP:
            return fragment.load_bytes
        if fragment.load_halves != "load_tile" and span % _LINE:
            raise EmitError(
                f"{self.operation.name}: threads load {_LINE} bytes of '{operand.parameter}' at a "
                f"time, and rows of {span} are no multiple",
                rule="columns-of-pairs",
                fix=f"make its columns a multiple of {_LINE}",
            )
        return fragment.load_halves

    def store(self, registers: str, operand: Operand, span: int, piece: str) -> None:
        if operand.space is Space.TMEM:
            arguments = [registers, self._cut(operand, span, piece), self.elements.thread()]
            self.source.uses("store_columns")
            self.source.call("store_columns", arguments)
        elif self.operation.turned == operand.name:
            arguments = [registers, operand.parameter, self.elements.thread()]
            words = DTYPE_BITS[operand.dtype] == _WORD
            function = self.elements.fragment.turn_words if words else "store_transposed"
            self.source.uses(function)
            self.source.call(function, arguments)
        else:
            first = [f"{span} * piece"] if piece else []
            arguments = [registers, operand.parameter, self.elements.thread(), *first]
            words = DTYPE_BITS[operand.dtype] == _WORD
            function = self.elements.fragment.store_words if words else "store_tile"
            self.source.uses(function)
            self.source.call(function, arguments)

    def _cut(self, operand: Operand, span: int, piece: str) -> str:
        """Columns of tensor memory."""
        if not piece:
            return operand.parameter
        rows = self.elements.fragment.rows
        return f"cute.local_tile({operand.parameter}, ({rows}, {span}), (0, {piece}))"
