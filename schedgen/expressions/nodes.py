"""The syntax tree: frozen values that compare by meaning and remember where they were written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

UnaryOperator: TypeAlias = Literal["+", "-", "not"]
BinaryOperator: TypeAlias = Literal["+", "-", "*", "/", "//", "%"]
CompareOperator: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]
LogicalOperator: TypeAlias = Literal["and", "or"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """Where a node stands in the text, in characters, its own parentheses included.

    Neither field takes part in equality: ``a+b`` and ``(a + b)`` are the same expression.
    """

    offset: int = field(default=0, compare=False, repr=False)
    length: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Number(Node):
    """A literal such as ``128``, ``0.5`` or ``1e-7``; exact, never negative when parsed."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Text(Node):
    """A quoted string; there are no escapes, so it holds at most one kind of quote."""

    value: str


@dataclass(frozen=True, slots=True)
class Boolean(Node):
    """``true`` or ``false``."""

    value: bool


@dataclass(frozen=True, slots=True)
class Name(Node):
    """A parameter or a buffer; ``distance`` counts the loop iterations that its value is old."""

    name: str
    distance: int = 0


@dataclass(frozen=True, slots=True)
class Unary(Node):
    """``+x``, ``-x`` or ``not x``."""

    operator: UnaryOperator
    operand: Expression


@dataclass(frozen=True, slots=True)
class Binary(Node):
    """An arithmetic operator between two operands."""

    operator: BinaryOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """One comparison; comparisons do not chain."""

    operator: CompareOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Logical(Node):
    """``and`` or ``or`` between two conditions."""

    operator: LogicalOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Call(Node):
    """A function of the language applied to its arguments."""

    function: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = Number | Text | Boolean | Name | Unary | Binary | Compare | Logical | Call


def children(expression: Expression) -> tuple[Expression, ...]:
    """Return the direct operands of ``expression``, in the order in which they are written."""
    match expression:
        case Unary(_, operand):
            return (operand,)
        case Binary(_, left, right) | Compare(_, left, right) | Logical(_, left, right):
            return (left, right)
        case Call(_, arguments):
            return arguments
        case _:
            return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield ``expression`` and everything below it, parents first, in the order written."""
    pending = [expression]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(children(node)))


def references(expression: Expression) -> tuple[Name, ...]:
    """Return the distinct (name, distance) pairs of ``expression``, by first appearance."""
    return tuple(dict.fromkeys(node for node in walk(expression) if isinstance(node, Name)))
