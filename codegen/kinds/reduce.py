"""Reductions of the columns of a tile."""

from __future__ import annotations

from schedgen.codegen.formulas import code, library_functions
from schedgen.codegen.kinds.body import Body
from schedgen.expressions import Name, render
from schedgen.kernel import Operation


def text(body: Body, operation: Operation) -> str:
    """``m = max(rS, m@1); alpha = exp2(m@1 - m)``."""
    formulas = dict(operation.formulas)
    what = f"{operation.reduction}({body.operands['from'].parameter}"
    what += f", {render(formulas['carry'])})" if "carry" in formulas else ")"
    texts = [f"{body.operands['to'].parameter} = {what}"]
    texts += [f"{n} = {render(f)}" for n, f in operation.formulas if n != "carry"]
    return "; ".join(texts)


def write(body: Body, operation: Operation) -> None:
    """A value for each row of a thread, of its elements and those of its neighbours."""
    formulas = dict(operation.formulas)
    source, to = body.operands["from"], body.operands["to"]
    rest = [(name, formula) for name, formula in operation.formulas if name != "carry"]
    body.load_rows(operation.formulas)
    outside = body.elements.outputs_outside([("to", Name("from")), *rest], body.fragment.values)
    registers = body.in_registers(source)
    largest = operation.reduction == "max"
    with body.source.block(f"for v in cutlass.range_constexpr({body.fragment.values}):"):
        body.elements.coordinates(operation.formulas, rows=True)
        body.elements.remember(operation.formulas, rows=True)
        combined = "row_max" if largest else "row_sum"
        if operation.work.apart and body.fragment.values > 1:
            combined = "lane_sum"  # what reads it adds up what the threads of a row have
        value = f"{combined}({registers}, v)"
        body.source.uses(combined)
        if "carry" in formulas:
            body.source.uses(*library_functions(formulas["carry"]))
            carry = code(formulas["carry"], lambda name: body.elements.value_of(name, rows=True))
            value = (
                f"cute.arch.fmax({carry}, {value}, nan=True)" if largest else f"{carry} + {value}"
            )
        body.elements.assign(to, value, keep=bool(rest), rows=True)
        body.elements.write(rest, rows=True, remember=False)
    body.store_rows(outside)
