"""Parameters of a kernel, put into its formulas as the numbers that they are."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from schedgen.expressions import (
    Binary,
    Boolean,
    Call,
    Compare,
    Expression,
    Logical,
    Name,
    Number,
    Unary,
    evaluate,
    parse,
)
from schedgen.kernel import Kernel, Operation

Values = dict[str, Expression]


def bound(kernel: Kernel) -> Kernel:
    """The kernel with its parameters replaced, but for those that extents of tensors override."""
    extents = {extent for argument in kernel.arguments for extent in argument.shape}
    values = {n: _literal(text) for n, text in kernel.parameters if n not in extents}
    trips = None if kernel.trip_count is None else fold(kernel.trip_count, values)
    needed = None if kernel.tile_trips is None else fold(kernel.tile_trips, values)
    operations = tuple(_operation(operation, values) for operation in kernel.operations)
    return replace(kernel, operations=operations, trip_count=trips, tile_trips=needed)


def _operation(operation: Operation, values: Values) -> Operation:
    operands = dict(operation.operands)
    known = {name: value for name, value in values.items() if name not in operands}
    formulas = tuple((name, fold(formula, known)) for name, formula in operation.formulas)
    when = None if operation.when is None else fold(operation.when, known)
    return replace(operation, formulas=formulas, when=when)


def _literal(text: str) -> Expression:
    expression = parse(text)
    if isinstance(expression, Name):
        return expression
    value = evaluate(expression, {})
    return Boolean(value) if isinstance(value, bool) else Number(Fraction(value))


def fold(node: Expression, values: Values) -> Expression:
    """``node`` with values for names, and without conditions that these decide."""
    match node:
        case Name(name, 0):
            return values.get(name, node)
        case Unary(operator, operand):
            inner = fold(operand, values)
            if operator == "not" and isinstance(inner, Boolean):
                return Boolean(not inner.value)
            return Unary(operator, inner)
        case Binary(operator, left, right):
            return Binary(operator, fold(left, values), fold(right, values))
        case Compare(operator, left, right):
            return Compare(operator, fold(left, values), fold(right, values))
        case Logical(operator, left, right):
            return _logical(node, fold(left, values), fold(right, values))
        case Call("where", (condition, then, other)):
            chosen = fold(condition, values)
            if isinstance(chosen, Boolean):
                return fold(then if chosen.value else other, values)
            return Call("where", (chosen, fold(then, values), fold(other, values)))
        case Call(function, arguments):
            return Call(function, tuple(fold(argument, values) for argument in arguments))
        case _:
            return node


def _logical(node: Logical, left: Expression, right: Expression) -> Expression:
    decides = node.operator == "or"
    for one, other in ((left, right), (right, left)):
        if isinstance(one, Boolean):
            return one if one.value == decides else other
    return Logical(node.operator, left, right)
