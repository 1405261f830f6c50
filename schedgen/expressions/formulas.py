"""Whether an expression makes sense as an element-wise formula over tiles."""

from __future__ import annotations

from collections.abc import Collection

from schedgen.expressions.counters import check_counter
from schedgen.expressions.errors import ExpressionError, UnknownName, suggest
from schedgen.expressions.functions import ELEMENTWISE, FUNCTIONS, UNIFORM
from schedgen.expressions.nodes import (
    Binary,
    Boolean,
    Call,
    Compare,
    Expression,
    Logical,
    Name,
    Number,
    Text,
    Unary,
)


def check_formula(expression: Expression, known: Collection[str]) -> None:
    """Check that ``expression`` computes a number per element from the names in ``known``.

    Conditions (comparisons, ``and``, ``or``, ``not``, ``true``, ``false``, masks by name) are
    accepted as first argument of ``where`` only.

    Raises:
        ExpressionError: on unknown names, strings, ``//``, ``%``, ``ceil``, a condition where a
            number is needed, a number where a condition is needed, and arguments of ``uniform``
            that are no whole numbers.
    """
    match expression:
        case Number():
            return
        case Name():
            _check_name(expression, known)
        case Text():
            raise _error(expression, "a string has no place in an element-wise formula")
        case Unary("+" | "-", operand):
            check_formula(operand, known)
        case Boolean() | Compare() | Logical() | Unary():
            message = "a condition stands where a number is needed"
            raise _error(expression, message, "write where(condition, a, b)")
        case Binary(operator, left, right):
            if operator in ("//", "%"):
                raise _error(expression, f"'{operator}' is not an element-wise operation")
            check_formula(left, known)
            check_formula(right, known)
        case Call():
            _check_call(expression, known)


def check_condition(expression: Expression, known: Collection[str]) -> None:
    """Check that ``expression`` is a condition, as the first argument of ``where`` has to be.

    Raises:
        ExpressionError: as ``check_formula``, and if ``expression`` computes a number.
    """
    match expression:
        case Boolean():
            return
        case Name():
            _check_name(expression, known)
        case Unary("not", operand):
            check_condition(operand, known)
        case Logical(_, left, right):
            check_condition(left, known)
            check_condition(right, known)
        case Compare(_, left, right):
            check_formula(left, known)
            check_formula(right, known)
        case _:
            raise _error(expression, "a condition is needed here", "compare it, e.g. x > 0")


def _check_name(node: Name, known: Collection[str]) -> None:
    if node.name in known:
        return
    fix = suggest(node.name, known)
    if node.name in FUNCTIONS:
        fix = f"'{node.name}' is a function: write {node.name}(...)"
    raise UnknownName(f"unknown name '{node.name}'", node.offset, node.length, fix)


def _check_call(node: Call, known: Collection[str]) -> None:
    if node.function not in ELEMENTWISE:
        message = f"{node.function} is for arithmetic over parameters, not element-wise"
        raise _error(node, message, "compute it as a parameter and use its name")
    arguments = node.arguments
    if node.function == "where":
        check_condition(arguments[0], known)
        arguments = arguments[1:]
    for argument in arguments:
        check_formula(argument, known)
        if node.function == UNIFORM:
            check_counter(argument)


def _error(node: Expression, message: str, fix: str | None = None) -> ExpressionError:
    return ExpressionError(message, node.offset, node.length, fix)
