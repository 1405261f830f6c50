"""Masks."""

from __future__ import annotations

from schedgen.codegen.errors import EmitError
from schedgen.codegen.formulas import code, integer, library_functions
from schedgen.codegen.kinds.body import Body
from schedgen.codegen.masks import Limits, always, left_to_ask, limits
from schedgen.codegen.registers import initial_value
from schedgen.elements import tile_numbers, whole_scalars
from schedgen.expressions import Name, references, render
from schedgen.kernel import Operation


def text(body: Body, operation: Operation) -> str:
    """``-inf where not column < seq_k``."""
    del body
    return f"{operation.fill or '-inf'} where not {render(dict(operation.formulas)['keep'])}"


def write(body: Body, operation: Operation) -> None:
    """Nothing at all where the whole tile is kept, which a comparison for all threads tells."""
    operand = body.operands["to"]
    if not operand.in_registers:
        raise EmitError(
            f"{operation.name}: '{operand.parameter}' is in {operand.space}, masks work "
            "on registers",
            rule="space-of-mask",
            fix="mask the tile where it is in registers, or write a map with 'where'",
        )
    keep = dict(operation.formulas)["keep"]
    body.elements.use_names([("keep", keep)])
    body.source.uses(*library_functions(keep))
    body.elements.uses |= {"row_0", "column_0", "thread"}
    everywhere = always(keep, "row_0", "column_0", operand.part.rows, operand.part.columns)
    kernel = body.plan.kernel
    keep = left_to_ask(keep)
    kept = limits(keep, {*body.plan.extents, *whole_scalars(kernel), *tile_numbers(kernel)})
    with body.source.block(f"if not {everywhere}:"):
        condition = _limits(body, kept) if kept else code(keep, lambda name: name.name)
        count = body.fragment.elements(operand.part.columns)
        with body.source.block(f"for v in cutlass.range_constexpr({count}):"):
            if kept is None:
                body.elements.coordinates([("keep", keep)])
            with body.source.block(f"if not {condition}:"):
                value = initial_value(operation.fill or "-inf")
                body.source.add(f"{operand.parameter}[v] = {value}")


def _limits(body: Body, kept: Limits) -> str:
    """Writes which columns each row of a thread keeps; returns whether element v is one."""
    values, column = body.fragment.values, body.fragment.column_first
    zero = f"(column_0 + {column})" if column else "column_0"
    sides = (("first", kept.first, ">=", "max"), ("end", kept.end, "<", "min"))
    used = [side for side in sides if side[1]]
    for name, *_ in used:
        body.source.add(f"{name} = cute.make_rmem_tensor({values}, Int32)")
    with body.source.block(f"for v in cutlass.range_constexpr({values}):"):
        if any(Name("row") in references(bound) for side in used for bound in side[1]):
            body.source.add(f"row = row_0 + {body.fragment.row_at('v')}")
        for name, bounds, _, choose in used:
            text = integer(bounds[0], extremes=True)
            for bound in bounds[1:]:
                text = f"cutlass.{choose}({text}, {integer(bound, extremes=True)})"
            body.source.add(f"{name}[v] = {text} - {zero}")
    at, row = body.fragment.column_step, body.fragment.row
    terms = [f"{at} {compare} {name}[{row}]" for name, _, compare, _ in used]
    return f"({' and '.join(terms)})"
