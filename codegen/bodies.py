"""Operations of threads as functions of the generated file.

An operation becomes a function of its operands: arrays of registers, tiles in shared memory,
columns of tensor memory. Instances that differ only in what they are called with share it.
"""

from __future__ import annotations

from schedgen.codegen.elements import Elements, Formulas
from schedgen.codegen.errors import EmitError
from schedgen.codegen.formulas import code, integer, library_functions
from schedgen.codegen.ir import Node
from schedgen.codegen.masks import Limits, always, limits
from schedgen.codegen.operands import Operand, Shape, columns_of, operands_of
from schedgen.codegen.pieces import Pieces
from schedgen.codegen.plan import Plan
from schedgen.codegen.printing import lines_of
from schedgen.codegen.registers import initial_value
from schedgen.codegen.share import Share
from schedgen.codegen.source import Source
from schedgen.expressions import Expression, Name, references, render
from schedgen.kernel import Kind, Operation, Space


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
        self.source = Source()
        fresh = {self.operands[name].parameter for name in initial}
        self.elements = Elements(share, operation, self.operands, fresh, self.source)
        self.pieces = Pieces(self.elements, self.columns, span)
        self._describe()
        self._write()

    @property
    def uses(self) -> set[str]:
        """Parameters beside operands: ``thread``, ``row_0``, scalars, extents."""
        return self.elements.uses

    @property
    def nodes(self) -> tuple[Node, ...]:
        return self.source.nodes

    @property
    def lines(self) -> tuple[str, ...]:
        """Its lines as they stand in the function."""
        return tuple(lines_of(self.nodes, 1))

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
        self.source.add(f'"""{text}."""' if len(text) < 88 else f'"""{text[:85]}..."""')

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
            self.pieces.store(source.parameter, to, self.columns, "")
        elif (
            to.in_registers
            and not source.in_registers
            and source.shape is Shape.TILE
            and source.dtype == to.dtype
        ):
            self.pieces.load(source, to.parameter, self.columns, "")
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
                self.pieces.write(group)

    # -- values per row ------------------------------------------------------------------------

    def _load_rows(self, formulas: Formulas) -> None:
        """Values per row that lie in shared memory."""
        for operand in self.elements.read(formulas):
            if operand.shape is Shape.ROWS and not operand.in_registers:
                self._check_space(operand)
                name = operand.parameter
                self.source.uses("rows_of")
                self.source.add(f"in_{name} = rows_of({name}, {self.elements.thread()})")

    def _rows(self, formulas: Formulas) -> None:
        values = self.share.values
        outside = self.elements.outputs_outside(formulas, values)
        with self.source.block(f"for v in cutlass.range_constexpr({values}):"):
            self.elements.coordinates(formulas, rows=True)
            self.elements.write(formulas, rows=True)
        self._store_rows(outside)

    def _store_rows(self, outside: list[Operand]) -> None:
        for operand in outside:
            self._check_space(operand)
            arguments = [f"out_{operand.parameter}", operand.parameter, self.elements.thread()]
            self.source.uses("store_rows")
            self.source.call("store_rows", arguments)

    def _check_space(self, operand: Operand) -> None:
        if operand.space is not Space.SMEM:
            raise EmitError(
                f"{self.operation.name}: '{operand.name}' has values per row in {operand.space}",
                rule="space-of-rows",
                fix="put them into registers or smem",
            )

    def _reduce(self) -> None:
        operation = self.operation
        formulas = dict(operation.formulas)
        source, to = self.operands["from"], self.operands["to"]
        rest = [(name, formula) for name, formula in operation.formulas if name != "carry"]
        self._load_rows(operation.formulas)
        outside = self.elements.outputs_outside([("to", Name("from")), *rest], self.share.values)
        registers = self._to_reduce(source)
        largest = operation.reduction == "max"
        with self.source.block(f"for v in cutlass.range_constexpr({self.share.values}):"):
            self.elements.coordinates(operation.formulas, rows=True)
            self.elements.remember(operation.formulas, rows=True)
            combined = "row_max" if largest else "row_sum"
            value = f"{combined}({registers}, v)"
            self.source.uses(combined)
            if "carry" in formulas:
                self.source.uses(*library_functions(formulas["carry"]))
                carry = code(
                    formulas["carry"], lambda name: self.elements.value_of(name, rows=True)
                )
                value = (
                    f"cute.arch.fmax({carry}, {value}, nan=True)"
                    if largest
                    else f"{carry} + {value}"
                )
            self.elements.assign(to, value, keep=bool(rest), rows=True)
            self.elements.write(rest, rows=True, remember=False)
        self._store_rows(outside)

    def _to_reduce(self, source: Operand) -> str:
        """The registers of a reduction's tile, which is brought there first if it is elsewhere."""
        if source.shape is not Shape.TILE or source.parameter in self.elements.initial:
            raise EmitError(
                f"{self.operation.name}: '{source.parameter}' is no tile that can be reduced where "
                "it is",
                rule="operand-of-reduction",
                fix="copy it to a tile in registers, and reduce that",
            )
        if source.in_registers:
            return source.parameter
        self.pieces.bring(source)
        return f"in_{source.parameter}"

    def _mask(self) -> None:
        """Nothing at all where the whole tile is kept, which a comparison for all threads tells."""
        operand = self.operands["to"]
        if not operand.in_registers:
            raise EmitError(
                f"{self.operation.name}: '{operand.parameter}' is in {operand.space}, masks work "
                "on registers",
                rule="space-of-mask",
                fix="mask the tile where it is in registers, or write a map with 'where'",
            )
        keep = dict(self.operation.formulas)["keep"]
        self.elements.use_names([("keep", keep)])
        self.source.uses(*library_functions(keep))
        self.elements.uses |= {"row_0", "column_0", "thread"}
        everywhere = always(keep, "row_0", "column_0", operand.part.rows, operand.part.columns)
        kept = limits(keep, self.plan.extents)
        with self.source.block(f"if not {everywhere}:"):
            condition = self._limits(kept) if kept else code(keep, lambda name: name.name)
            count = self.share.elements(operand.part.columns)
            with self.source.block(f"for v in cutlass.range_constexpr({count}):"):
                if kept is None:
                    self.elements.coordinates([("keep", keep)])
                with self.source.block(f"if not {condition}:"):
                    value = initial_value(self.operation.fill or "-inf")
                    self.source.add(f"{operand.parameter}[v] = {value}")

    def _limits(self, kept: Limits) -> str:
        """Writes which columns each row of a thread keeps; returns whether element v is one."""
        values, column = self.share.values, self.share.column_first
        zero = f"(column_0 + {column})" if column else "column_0"
        sides = (("first", kept.first, ">=", "max"), ("end", kept.end, "<", "min"))
        used = [side for side in sides if side[1]]
        for name, *_ in used:
            self.source.add(f"{name} = cute.make_rmem_tensor({values}, Int32)")
        with self.source.block(f"for v in cutlass.range_constexpr({values}):"):
            if any(Name("row") in references(bound) for side in used for bound in side[1]):
                self.source.add(f"row = row_0 + {self.share.row_at('v')}")
            for name, bounds, _, choose in used:
                text = integer(bounds[0])
                for bound in bounds[1:]:
                    text = f"cutlass.{choose}({text}, {integer(bound)})"
                self.source.add(f"{name}[v] = {text} - {zero}")
        at, row = self.share.column_step, self.share.row
        terms = [f"{at} {compare} {name}[{row}]" for name, _, compare, _ in used]
        return f"({' and '.join(terms)})"
