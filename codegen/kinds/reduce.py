"""Reductions of the columns of a tile."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from schedgen.codegen.formulas import code, library_functions
from schedgen.codegen.kinds.body import Body
from schedgen.expressions import Expression, Name, render
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
    to = body.operands["to"]
    rest = [(name, formula) for name, formula in operation.formulas if name != "carry"]
    body.load_rows(operation.formulas)
    outside = body.elements.outputs_outside([("to", Name("from")), *rest], body.fragment.values)
    combined = "row_max" if operation.reduction == "max" else "row_sum"
    if operation.work.apart and body.fragment.values > 1:
        combined = "lane_sum"  # what reads it adds up what the threads of a row have
    mostly = None if outside or not to.in_registers else body.mostly(rest)
    quick = body.fragment.quick_max if combined == "row_max" and _quick(body) else ""
    if quick and (mostly or not rest):
        _combine(body, operation, quick, [])
        negative = [f"({to.parameter}[{v}] < 0.0)" for v in range(body.fragment.values)]
        asked = body.seldom(mostly, negative) if mostly else _vote(body, negative)
        with asked:
            _combine(body, operation, combined, [])
            if mostly:
                body.each_row(rest)
    elif mostly:
        _combine(body, operation, combined, [])
        with body.seldom(mostly):
            body.each_row(rest)
    else:
        _combine(body, operation, combined, rest)
    body.store_rows(outside)


def _quick(body: Body) -> bool:
    """Whether maxima can be looked for that are right unless they are negative."""
    source, to = body.operands["from"], body.operands["to"]
    return source.in_registers and to.in_registers and source.dtype == "f32"


def _vote(body: Body, conditions: Sequence[str]) -> AbstractContextManager[None]:
    """For lines that are executed where one holds for a thread of the warp."""
    return body.source.block(f"if cute.arch.vote_any_sync({' | '.join(conditions)}):")


def _combine(
    body: Body, operation: Operation, combined: str, rest: Sequence[tuple[str, Expression]]
) -> None:
    """The values of a thread's rows, by a function of the library, and what is found from them."""
    formulas, to = dict(operation.formulas), body.operands["to"]
    with body.source.block(f"for v in cutlass.range_constexpr({body.fragment.values}):"):
        written = [(n, f) for n, f in operation.formulas if n == "carry" or (n, f) in rest]
        body.elements.coordinates(written, rows=True)
        body.elements.remember(written, rows=True)
        value = f"{combined}({body.in_registers(body.operands['from'])}, v)"
        body.source.uses(combined)
        if "carry" in formulas:
            body.source.uses(*library_functions(formulas["carry"]))
            carry = code(formulas["carry"], lambda name: body.elements.value_of(name, rows=True))
            value = (
                f"cute.arch.fmax({carry}, {value}, nan=True)"
                if operation.reduction == "max"
                else f"{carry} + {value}"
            )
        body.elements.assign(to, value, keep=bool(rest), rows=True)
        body.elements.write(rest, rows=True, remember=False)
