"""What an element-wise formula costs on the FMA, ALU and MUFU pipes.

A subexpression has a rank: *scalar* (numbers and parameters; hoisted out of the loop, free), *row*
(one value per row of the tile) or *tile* (one value per element). Its rank is the highest of its
names', and its operations are charged once per value of that rank.

The count is what a compiler makes of the formula without reassociating it: ``scale*m*rS`` is one
row and one tile multiplication, ``rS*scale*m`` two tile multiplications.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction

from schedgen.expressions.errors import ExpressionError
from schedgen.expressions.functions import ELEMENTWISE, UNIFORM
from schedgen.expressions.nodes import (
    Binary,
    Call,
    Compare,
    Expression,
    Logical,
    Name,
    Number,
    Unary,
    children,
    references,
)


@dataclass(frozen=True, slots=True)
class OperationCounts:
    """Instructions of a formula: ``tile_*`` per tile element, ``row_*`` per row, by pipe."""

    tile_fma: int = 0
    tile_alu: int = 0
    tile_mufu: int = 0
    row_fma: int = 0
    row_alu: int = 0
    row_mufu: int = 0

    @property
    def row_steps(self) -> int:
        """Instructions per row, of any pipe."""
        return self.row_fma + self.row_alu + self.row_mufu


def count_operations(
    expression: Expression,
    is_tile: Callable[[Name], bool],
    is_scalar: Callable[[Name], bool] = lambda name: False,
) -> OperationCounts:
    """Count the instructions that compute ``expression``, which ``check_formula`` accepts.

    - An addition or subtraction is one FMA and absorbs one multiplication of its operands.
    - Division multiplies by a reciprocal: free if scalar, one MUFU per row or per element if not.
    - Signs and ``not`` are operand modifiers and free; comparisons, ``and`` and ``or`` are one ALU.
    - Functions cost what ``ELEMENTWISE`` says.
    - A subexpression that occurs twice is computed once.
    - A random number is twice as much where columns are not what its last argument counts.

    Args:
        is_tile: whether a name holds a value per element; every other name holds one per row.
        is_scalar: whether a name holds a single value; asked before ``is_tile``.

    Raises:
        ExpressionError: on an operation that has no element-wise meaning, such as ``%``.
    """
    counting = _Counting(is_tile, is_scalar)
    counting.visit(expression)
    charged = counting.charged
    return OperationCounts(
        tile_fma=charged[_Rank.TILE, "fma"],
        tile_alu=charged[_Rank.TILE, "alu"],
        tile_mufu=charged[_Rank.TILE, "mufu"],
        row_fma=charged[_Rank.ROW, "fma"],
        row_alu=charged[_Rank.ROW, "alu"],
        row_mufu=charged[_Rank.ROW, "mufu"],
    )


class _Rank(IntEnum):
    SCALAR = 0
    ROW = 1
    TILE = 2


class _Counting:
    """One pass over a formula; ``charged`` counts instructions by rank and pipe."""

    def __init__(self, is_tile: Callable[[Name], bool], is_scalar: Callable[[Name], bool]) -> None:
        self._is_tile = is_tile
        self._is_scalar = is_scalar
        self._computed: set[Expression] = set()
        self.charged: Counter[tuple[_Rank, str]] = Counter()

    def visit(self, node: Expression) -> None:
        """Charge what it takes to have the value of ``node`` in a register."""
        node = _without_sign(node)
        if self._rank(node) is _Rank.SCALAR or node in self._computed:
            return
        self._computed.add(node)
        match node:
            case Name():
                return
            case Binary("+" | "-"):
                self._visit_sum(node)
            case Binary("*" | "/"):
                self._visit_factors(node)
                self._charge(node, fma=len(_factors(node)) - 1)
            case Call(function) if function in ELEMENTWISE:
                self._visit_call(node)
            case Compare() | Logical():
                self._visit_all(node)
                self._charge(node, alu=1)
            case Unary("not"):
                self._visit_all(node)
            case _:
                word = node.function if isinstance(node, Call) else getattr(node, "operator", "")
                message = f"'{word}' is not an element-wise operation"
                raise ExpressionError(message, node.offset, node.length)

    def _visit_sum(self, node: Binary) -> None:
        """Charge an FMA, with the more expensive of the two operands' products fused into it."""
        operands = [_without_sign(node.left), _without_sign(node.right)]
        products = [each for each in operands if self._is_fusible(each)]
        fused = max(products, key=self._rank, default=None)
        if fused is not None:
            operands.remove(fused)
            self._visit_factors(fused)
        for operand in operands:
            self.visit(operand)
        self._charge(node, fma=1)

    def _is_fusible(self, node: Expression) -> bool:
        """Whether ``node`` is a multiplication that still has to be done, and inside the loop."""
        is_pending = node not in self._computed and self._rank(node) is not _Rank.SCALAR
        return is_pending and len(_factors(node)) > 1

    def _visit_factors(self, product: Expression) -> None:
        for factor in _factors(product):
            self.visit(factor)

    def _visit_call(self, node: Call) -> None:
        self._visit_all(node)
        function = ELEMENTWISE[node.function]
        times = len(node.arguments) - 1 if function.variadic else 1
        if node.function == UNIFORM and self._rank(node.arguments[-1]) < self._rank(node):
            times = 2  # columns are not what neighbours are counted along, and share nothing
        self._charge(
            node, fma=times * function.fma, alu=times * function.alu, mufu=times * function.mufu
        )

    def _visit_all(self, node: Expression) -> None:
        for child in children(node):
            self.visit(child)

    def _charge(self, node: Expression, **instructions: int) -> None:
        rank = self._rank(node)
        for pipe, count in instructions.items():
            self.charged[rank, pipe] += count

    def _rank(self, node: Expression) -> _Rank:
        return max(map(self._rank_of_name, references(node)), default=_Rank.SCALAR)

    def _rank_of_name(self, name: Name) -> _Rank:
        if self._is_scalar(name):
            return _Rank.SCALAR
        return _Rank.TILE if self._is_tile(name) else _Rank.ROW


def _factors(node: Expression) -> tuple[Expression, ...]:
    """Return what ``node`` multiplies: ``(a, b)`` for a*b, ``(a, rcp(b))`` for a/b.

    Empty if ``node`` is no product; ``(rcp(b),)`` for 1/b, which multiplies nothing.
    """
    match node:
        case Binary("*", left, right):
            return (left, right)
        case Binary("/", left, right):
            reciprocal = Call("rcp", (right,), offset=right.offset, length=right.length)
            is_unit = _without_sign(left) == Number(Fraction(1))
            return (reciprocal,) if is_unit else (left, reciprocal)
        case _:
            return ()


def _without_sign(node: Expression) -> Expression:
    """Return ``node`` without leading signs, which are free operand modifiers."""
    while isinstance(node, Unary) and node.operator != "not":
        node = node.operand
    return node
