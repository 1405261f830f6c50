"""Operations of threads as functions of the generated file.

An operation becomes a function of its operands: arrays of registers, tiles in shared memory,
columns of tensor memory. Instances that differ only in what they are called with share it.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedgen.codegen.errors import EmitError
from schedgen.codegen.formulas import code
from schedgen.codegen.masks import always
from schedgen.codegen.operands import Operand, Shape, columns_of, operands_of, written
from schedgen.codegen.plan import DTYPES, Plan
from schedgen.codegen.registers import initial_value
from schedgen.codegen.share import Share
from schedgen.codegen.source import Source
from schedgen.expressions import Expression, Name, references, render
from schedgen.kernel import Kind, Operation, Space

Formulas = Sequence[tuple[str, Expression]]


_ALIKE = 8
"""Columns that are written at a time if they all have the same value."""


class Body:
    """The function of one operation under construction.

    ``span`` columns of tiles outside of registers are in registers at a time; operands in
    ``initial`` have their initial value as long as the parameter ``fresh`` is true.
    """

    def __init__(
        self, plan: Plan, share: Share, operation: Operation, span: int, initial: set[str]
    ) -> None:
        self.plan, self.share, self.operation = plan, share, operation
        self.operands = operands_of(plan, operation)
        self.columns = columns_of(operation, self.operands)
        self.span = min(span, self.columns)
        self.initial = {self.operands[name].parameter for name in initial}
        self.uses: set[str] = set()
        """Parameters beside operands: ``thread``, ``row_0``, scalars, extents."""
        self._source = Source(1)
        self._fresh = False
        self._made: dict[str, str] = {}
        self._describe()
        self._write()

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(self._source.lines)

    @property
    def parameters(self) -> list[Operand]:
        """Operands, each part once."""
        return list({operand.parameter: operand for operand in self.operands.values()}.values())

    # -- kinds of operations -------------------------------------------------------------------

    def _describe(self) -> None:
        operation = self.operation
        if operation.kind is Kind.MASK:
            keep = render(dict(operation.formulas)["keep"])
            texts = [f"{operation.fill or '-inf'} where not {keep}"]
        elif operation.kind is Kind.MAP:
            texts = [f"{name} = {render(formula)}" for name, formula in operation.formulas]
        else:
            to, source = self.operands["to"], self.operands["from"]
            what = source.parameter + (", transposed" if operation.transposed else "")
            if operation.kind is Kind.REDUCE:
                what = f"{operation.reduction}({what}"
                carry = dict(operation.formulas).get("carry")
                what += f", {render(carry)})" if carry is not None else ")"
            texts = [f"{to.parameter} = {what}"]
            texts += [f"{n} = {render(f)}" for n, f in operation.formulas if n != "carry"]
        where = "" if operation.when is None else f" where {render(operation.when)}"
        text = "; ".join(texts) + where
        self._source.add(f'"""{text}."""' if len(text) < 88 else f'"""{text[:85]}..."""')

    def _write(self) -> None:
        operation = self.operation
        match operation.kind:
            case Kind.REDUCE:
                self._reduce()
            case Kind.MASK:
                self._mask()
            case Kind.MAP:
                self._map(list(operation.formulas))
            case Kind.COPY:
                self._copy()
            case _:
                raise EmitError(f"{operation.name}: {operation.kind} is no operation of threads")

    def _copy(self) -> None:
        """Between registers and another memory at once, else element by element."""
        source, to = self.operands["from"], self.operands["to"]
        if source.in_registers and to.shape is Shape.TILE and not to.in_registers:
            self._store(source.parameter, to, self.columns, "")
        elif to.in_registers and source.shape is Shape.TILE and source.dtype == to.dtype:
            self._load(source, to.parameter, self.columns, "")
        else:
            self._map([("to", Name("from"))])

    def _map(self, formulas: list[tuple[str, Expression]]) -> None:
        """Outputs in the order of the formulas; a later one sees what earlier ones made."""
        rows = {name for name in self.operands if self.operands[name].shape is Shape.ROWS}
        self._load_rows(formulas)
        groups: list[list[tuple[str, Expression]]] = []
        for output, formula in formulas:
            if not groups or (groups[-1][0][0] in rows) != (output in rows):
                groups.append([])
            groups[-1].append((output, formula))
        for group in groups:
            if group[0][0] in rows:
                self._rows(group)
            else:
                self._tiles(group)

    # -- values per row ------------------------------------------------------------------------

    def _load_rows(self, formulas: Formulas) -> None:
        """Values per row that lie in shared memory."""
        for operand in self._read(formulas):
            if operand.shape is Shape.ROWS and not operand.in_registers:
                self._check_space(operand)
                self._source.add(
                    f"in_{operand.parameter} = rows_of({operand.parameter}, {self._thread()})"
                )

    def _rows(self, formulas: Formulas) -> None:
        values = self.share.values
        outside = self._outputs_outside(formulas, values)
        with self._source.block(f"for v in cutlass.range_constexpr({values}):"):
            self._coordinates(formulas)
            self._elements(formulas, rows=True)
        for operand in outside:
            self._check_space(operand)
            self._source.add(
                f"store_rows(out_{operand.parameter}, {operand.parameter}, {self._thread()})"
            )

    def _check_space(self, operand: Operand) -> None:
        if operand.space is not Space.SMEM:
            raise EmitError(
                f"{self.operation.name}: '{operand.name}' has values per row in {operand.space}"
            )

    def _reduce(self) -> None:
        operation = self.operation
        formulas = dict(operation.formulas)
        source, to = self.operands["from"], self.operands["to"]
        if not source.in_registers or source.shape is not Shape.TILE or not to.in_registers:
            raise EmitError(f"{operation.name}: reductions work on registers")
        rest = [(name, formula) for name, formula in operation.formulas if name != "carry"]
        self._load_rows(operation.formulas)
        outside = self._outputs_outside(rest, self.share.values)
        largest = operation.reduction == "max"
        with self._source.block(f"for v in cutlass.range_constexpr({self.share.values}):"):
            self._remember(operation.formulas, rows=True)
            value = f"row_{'max' if largest else 'sum'}({source.parameter}, v)"
            if "carry" in formulas:
                carry = code(formulas["carry"], lambda name: self._value(name, rows=True))
                value = f"cute.arch.fmax({carry}, {value})" if largest else f"{carry} + {value}"
            self._assign(to, value, keep=bool(rest), rows=True)
            self._elements(rest, rows=True, remember=False)
        for operand in outside:
            self._source.add(
                f"store_rows(out_{operand.parameter}, {operand.parameter}, {self._thread()})"
            )

    # -- tiles ---------------------------------------------------------------------------------

    def _mask(self) -> None:
        operand = self.operands["to"]
        if not operand.in_registers:
            raise EmitError(f"{self.operation.name}: masks work on registers")
        keep = dict(self.operation.formulas)["keep"]
        self._use_names([("keep", keep)])
        self.uses |= {"row_0", "column_0", "thread"}
        everywhere = always(keep, "row_0", "column_0", operand.part.rows, operand.part.columns)
        count = self.share.elements(operand.part.columns)
        source = self._source
        with (
            source.block(f"if not {everywhere}:"),
            source.block(f"for v in cutlass.range_constexpr({count}):"),
        ):
            self._coordinates([("keep", keep)])
            with source.block(f"if not {code(keep, lambda name: name.name)}:"):
                value = initial_value(self.operation.fill or "-inf")
                source.add(f"{operand.parameter}[v] = {value}")

    def _tiles(self, formulas: Formulas) -> None:
        """Elements of tiles; a condition of rows in tensor memory is asked for whole warps."""
        when = self.operation.when
        carried = [o for o in self._read(formulas) if o.parameter in self.initial]
        if carried:
            self.uses.add("fresh")
            with self._source.block("if fresh:"):
                self._source.comment("nothing has been written yet: initial values")
                self._fresh = True
                self._pieces(formulas)
                self._fresh = False
        rows_only = when is not None and self._rows_only(when)
        if rows_only and self._outside(formulas, Space.TMEM):
            assert when is not None
            if self.share.values != 1:
                raise EmitError(f"{self.operation.name}: threads with several rows cannot vote")
            condition = code(when, lambda name: self._value(name, rows=True)).replace("[v]", "[0]")
            head = "elif" if carried else "if"
            with self._source.block(f"{head} cute.arch.vote_any_sync({condition}):"):
                self._pieces(formulas)
        elif carried:
            with self._source.block("else:"):
                self._pieces(formulas)
        else:
            self._pieces(formulas)

    def _rows_only(self, when: Expression) -> bool:
        return all(
            self.operands[n.name].shape is Shape.ROWS
            if n.name in self.operands
            else n.name not in ("row", "column")
            for n in references(when)
        )

    def _outside(self, formulas: Formulas, *spaces: Space) -> list[Operand]:
        """Tiles and values per column in other memories that formulas read or write."""
        touched = {o.parameter: o for o in self._read(formulas)}
        touched |= {o.parameter: o for o in (self.operands[name] for name, _ in formulas)}
        return [o for o in touched.values() if o.shape is not Shape.ROWS and o.space in spaces]

    def _pieces(self, formulas: Formulas) -> None:
        outside = self._outside(formulas, Space.SMEM, Space.TMEM)
        alike = self._alike(formulas)
        span = self.span if outside and not self.operation.transposed else self.columns
        span = min(span, _ALIKE) if alike else span
        pieces, rest = divmod(self.columns, span)
        if rest:
            raise EmitError(f"{self.operation.name}: {self.columns} columns, {span} at a time")
        loop = f"for piece in cutlass.range_constexpr({pieces}):"
        if pieces == 1:
            self._put(self._piece(formulas, span, ""), span, "")
        elif alike:
            made = self._piece(formulas, span, "")
            with self._source.block(loop):
                self._put(made, span, "piece")
        else:
            with self._source.block(loop):
                made = self._piece(formulas, span, "piece")
                self._put(made, span, "piece")

    def _alike(self, formulas: Formulas) -> bool:
        """Whether all columns of all outputs have the same values, those of a fresh tile."""
        read = [o for o in self._read(formulas) if o.shape is not Shape.ROWS]
        names = {name.name for _, formula in formulas for name in references(formula)}
        fresh = self._fresh and all(operand.parameter in self.initial for operand in read)
        return fresh and "column" not in names - set(self.operands)

    def _piece(self, formulas: Formulas, span: int, piece: str) -> list[Operand]:
        """Computes a piece; returns outputs that are in ``out_X``."""
        self._bring(formulas, span, piece)
        count = self.share.elements(span)
        outside = self._outputs_outside(formulas, count)
        with self._source.block(f"for v in cutlass.range_constexpr({count}):"):
            self._coordinates(formulas, f"{span} * piece" if piece else "")
            self._elements(formulas, rows=False, at=f"v + {count} * piece" if piece else "v")
        return outside

    def _put(self, made: list[Operand], span: int, piece: str) -> None:
        """Copies outputs of one piece to where they belong."""
        count = self.share.elements(span)
        for operand in made:
            name = f"out_{operand.parameter}"
            if operand.in_registers:
                to = operand.parameter
                to = f"part_of({to}, {count} * piece, {count})" if piece else to
                self._source.add(f"{to}.store({name}.load().to({DTYPES[operand.dtype]}))")
            else:
                self._store(name, operand, span, piece)

    def _bring(self, formulas: Formulas, span: int, piece: str) -> None:
        """Copies operands of one piece to registers."""
        wait = False
        for operand in self._read(formulas):
            if operand.in_registers or operand.shape is Shape.ROWS:
                continue
            if self._fresh and operand.parameter in self.initial:
                continue
            name, to = operand.parameter, f"in_{operand.parameter}"
            if operand.shape is Shape.COLUMNS:
                part = f"part_of({name}, {span} * piece, {span})" if piece else name
                self._source.add(f"{to} = columns_of({part}, {self._thread()})")
                continue
            count = self.share.elements(span)
            self._source.add(f"{to} = cute.make_rmem_tensor({count}, {DTYPES[operand.dtype]})")
            self._load(operand, to, span, piece)
            again = operand.space is Space.TMEM and operand.name in written(self.operation)
            wait |= again or (operand.space is Space.TMEM and bool(piece))
        if wait:
            self._source.comment("before the columns are written, and registers are used again")
            self._source.add("cute.arch.fence_view_async_tmem_load()")

    def _load(self, operand: Operand, registers: str, span: int, piece: str) -> None:
        if operand.space is Space.TMEM:
            arguments = [self._cut(operand, span, piece), registers, self._thread()]
            self._source.call("load_columns", arguments)
        else:
            first = [f"{span} * piece"] if piece else []
            arguments = [operand.parameter, registers, self._thread(), *first]
            self._source.call("load_tile", arguments)

    def _store(self, registers: str, operand: Operand, span: int, piece: str) -> None:
        if operand.space is Space.TMEM:
            arguments = [registers, self._cut(operand, span, piece), self._thread()]
            self._source.call("store_columns", arguments)
        elif self.operation.transposed:
            arguments = [registers, operand.parameter, self._thread()]
            self._source.call("store_transposed", arguments)
        else:
            first = [f"{span} * piece"] if piece else []
            arguments = [registers, operand.parameter, self._thread(), *first]
            self._source.call("store_tile", arguments)

    def _cut(self, operand: Operand, span: int, piece: str) -> str:
        """Columns of tensor memory."""
        if not piece:
            return operand.parameter
        rows = self.share.rows
        return f"cute.local_tile({operand.parameter}, ({rows}, {span}), (0, {piece}))"

    # -- elements ------------------------------------------------------------------------------

    def _read(self, formulas: Formulas) -> list[Operand]:
        """Operands that formulas and the condition read from before this operation."""
        made: set[str] = set()
        found: dict[str, Operand] = {}
        some = [] if self.operation.when is None else [("", self.operation.when)]
        for output, formula in [*some, *formulas]:
            for name in sorted(references(formula), key=str):
                operand = self.operands.get(name.name)
                if operand and (name.distance or operand.parameter not in made):
                    found[operand.parameter] = operand
            if output in self.operands:
                made.add(self.operands[output].parameter)
        if some:  # what the condition leaves as it is
            found |= {o.parameter: o for o in (self.operands[name] for name, _ in formulas)}
        return list(found.values())

    def _outputs_outside(self, formulas: Formulas, count: int) -> list[Operand]:
        """Arrays ``out_X`` for outputs that cannot be written element by element."""
        found = [
            operand
            for operand in (self.operands[name] for name, _ in formulas)
            if not operand.in_registers
            or (operand.dtype != "f32" and operand.shape is not Shape.ROWS)
        ]
        for operand in found:
            dtype = DTYPES[operand.dtype] if operand.shape is Shape.ROWS else "Float32"
            self._source.add(f"out_{operand.parameter} = cute.make_rmem_tensor({count}, {dtype})")
        return found

    def _elements(
        self, formulas: Formulas, *, rows: bool, at: str = "v", remember: bool = True
    ) -> None:
        """One element of each output; made values go through ``new_X``."""
        if remember:
            self._remember(formulas, rows=rows, at=at)
        self._use_names(formulas)

        def look(name: Name) -> str:
            return self._value(name, rows=rows, at=at)

        when = self.operation.when
        for place, (output, formula) in enumerate(formulas):
            operand = self.operands[output]
            text = code(formula, look)
            if when is not None:
                kept = self._value(Name(output), rows=rows, at=at)
                text = f"Float32({text}) if {code(when, look)} else Float32({kept})"
            parts = {
                self.operands[n.name].part
                for _, f in formulas[place + 1 :]
                for n in references(f)
                if n.name in self.operands
            }
            self._assign(operand, text, keep=operand.part in parts, rows=rows, at=at)
        self._made.clear()

    def _remember(self, formulas: Formulas, *, rows: bool, at: str = "v") -> None:
        """``old_X``: values of the iteration before that outputs of this one write over."""
        outputs = {self.operands[n].parameter for n in written(self.operation)}
        before = {n for _, formula in formulas for n in references(formula) if n.distance}
        for name in sorted(before, key=str):
            operand = self.operands[name.name]
            if operand.in_registers and operand.parameter in outputs:
                old = f"old_{operand.parameter}"
                value = self._value(Name(name.name), rows=rows, at=at)
                self._source.add(f"{old} = {value}")
                self._made[f"{operand.parameter}@"] = old

    def _assign(
        self, operand: Operand, text: str, *, keep: bool, rows: bool, at: str = "v"
    ) -> None:
        outside = not operand.in_registers or (operand.dtype != "f32" and not rows)
        target = f"out_{operand.parameter}[v]" if outside else f"{operand.parameter}[{at}]"
        if keep:
            value = f"new_{operand.parameter}"
            self._source.add(f"{value} = Float32({text})")
            self._made[operand.parameter] = text = value
        if rows and operand.dtype != "f32":
            text = f"Float32({text}).to({DTYPES[operand.dtype]})"
        self._source.add(f"{target} = {text}")

    def _value(self, name: Name, *, rows: bool, at: str = "v") -> str:
        """Element v of what a name means, as float32."""
        operand = self.operands.get(name.name)
        if operand is None:
            return name.name
        parameter = operand.parameter
        made = self._made.get(f"{parameter}@" if name.distance else parameter)
        if made is not None:
            return made
        if self._fresh and parameter in self.initial:
            return initial_value(operand.part.region.initial or "0")
        if operand.shape is Shape.ROWS:
            index = "v" if rows else self.share.row
        else:
            index = at if operand.in_registers else "v"
        text = f"{parameter}[{index}]" if operand.in_registers else f"in_{parameter}[{index}]"
        return text if operand.dtype == "f32" else f"Float32({text})"

    # -- what else a function takes ------------------------------------------------------------

    def _thread(self) -> str:
        self.uses.add("thread")
        return "thread"

    def _use_names(self, formulas: Formulas) -> None:
        when = [] if self.operation.when is None else [("", self.operation.when)]
        for _, formula in [*formulas, *when]:
            names = {name.name for name in references(formula)} - set(self.operands)
            self.uses |= names - {"row", "column"}

    def _coordinates(self, formulas: Formulas, first: str = "") -> None:
        """``row`` and ``column`` of an element in the tensor, where formulas ask for them."""
        names = {name.name for _, formula in formulas for name in references(formula)}
        for name, at in (("row", self.share.row_at), ("column", self.share.column_at)):
            if name in names and name not in self.operands:
                self.uses |= {f"{name}_0", self._thread()}
                more = f"{first} + " if first and name == "column" else ""
                self._source.add(f"{name} = {name}_0 + {more}{at}")
