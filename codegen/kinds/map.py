"""Element-wise formulas."""

from __future__ import annotations

from schedgen.codegen.kinds.body import Body
from schedgen.expressions import render
from schedgen.kernel import Operation


def text(body: Body, operation: Operation) -> str:
    """``x = x * scale; y = exp2(x)``."""
    del body
    return "; ".join(f"{name} = {render(formula)}" for name, formula in operation.formulas)


def write(body: Body, operation: Operation) -> None:
    """Outputs in the order of the formulas."""
    body.write_formulas(list(operation.formulas))
