"""What random numbers of formulas count: whole numbers, which are known without any data.

``uniform(low, high, ..., last)`` is a number from 0 to below 1 that depends on its arguments only:
the first two are the key, the halves of a seed, and up to four more are counters. They are sums,
differences and products of whole numbers, modulo 2^32, so that it makes no difference where an
intermediate result is too large. The generator is Philox4x32 with 7 rounds (Salmon, Moraes, Dror,
Shaw: Parallel random numbers: as easy as 1, 2, 3, SC11): the fewest with which it passes all tests
of BigCrush, and as many as FlashAttention's dropout has. Its counter has, from its first word on,
``last // 4``, then the other counters from right to left, then zeros; ``last % 4`` says which of
its four words is taken. The upper 23 bits of that are multiples of 2^-23, which float32 has.

So neighbours along the last counter share an evaluation, and nothing but arguments has a say in
the value: no tile, no thread, no launch.
"""

from __future__ import annotations

from collections.abc import Iterator

from schedgen.expressions.errors import ExpressionError
from schedgen.expressions.functions import UNIFORM
from schedgen.expressions.nodes import Binary, Call, Expression, Name, Number, Unary, walk
from schedgen.expressions.rendering import render

MOST_LITERAL = 2**32
"""Literals are below this: a larger one would not be what is counted with."""


def check_counter(expression: Expression) -> None:
    """Check that ``expression`` is one of whole numbers, if its names are.

    Raises:
        ExpressionError: there is something else than names, whole literals, ``+``, ``-``, ``*``.
    """
    match expression:
        case Name():
            return
        case Number(value):
            if value.denominator != 1 or value >= MOST_LITERAL:
                raise _error(expression, "is no whole number below 2^32")
        case Unary("+" | "-", operand):
            check_counter(operand)
        case Binary("+" | "-" | "*", left, right):
            check_counter(left)
            check_counter(right)
        case _:
            raise _error(expression, "is no sum, difference or product of whole numbers")


def counters(expression: Expression) -> Iterator[Name]:
    """The names that random numbers of ``expression`` depend on, each time they stand there."""
    for node in walk(expression):
        if isinstance(node, Call) and node.function == UNIFORM:
            for argument in node.arguments:
                yield from (part for part in walk(argument) if isinstance(part, Name))


def _error(node: Expression, what: str) -> ExpressionError:
    message = f"'{render(node)}' {what}, which {UNIFORM} needs"
    fix = "count with coordinates, extents, whole parameters and scalars of i32"
    return ExpressionError(message, node.offset, node.length, fix)
