"""Masks and scores as a caller writes them, read into expressions of specs.

    column <= row + seq_k - seq_q and (doc[row] == doc[column] or column < prefix)

``row`` and ``column`` count queries and keys, ``head`` and ``batch`` heads of q and batches;
``seq_q`` and ``seq_k`` are how many queries and keys there are. Everything else is an argument of
the caller: a number by its name, a tensor with its indices.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from schedgen.expressions import (
    Binary,
    Call,
    Compare,
    Expression,
    ExpressionError,
    Logical,
    Name,
    Number,
    Unary,
    check_condition,
    check_formula,
    fold,
    parse,
)
from schedgen.expressions.errors import suggest
from schedgen.expressions.nodes import children, walk
from schedgen.kernels.variants.errors import VariantError

COORDINATES = ("row", "column", "head", "batch")
SIZES = ("seq_q", "seq_k")
SCORE = "score"
EXTENTS = {"row": "seq_q", "column": "seq_k", "head": "heads", "batch": "batch"}
"""What coordinates count along, as the spec calls it."""
_INDEXED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)[ ]*\[([^\[\]]*)\]")
_HALF = Number(Fraction(1, 2))


@dataclass(frozen=True, slots=True)
class Vector:
    """The elements of the caller's tensor ``name`` at ``indices``, which are coordinates."""

    name: str
    indices: tuple[str, ...]

    @property
    def argument(self) -> str:
        """What it is called in the spec."""
        return "_".join(("given", *filter(None, (self.name, *self.indices))))

    @property
    def turned(self) -> Vector:
        """The same with rows and columns exchanged."""
        return Vector(self.name, tuple(EXCHANGED.get(index, index) for index in self.indices))

    @property
    def along(self) -> str | None:
        """``row`` or ``column`` if there is one for each of these, else None: one for a tile."""
        return next((index for index in self.indices if index in ("row", "column")), None)


EXCHANGED = {"row": "column", "column": "row", "seq_q": "seq_k", "seq_k": "seq_q"}
"""What coordinates and lengths become where tiles have keys as rows."""


def number_name(name: str) -> str:
    """What a number of the caller is called in the spec."""
    return f"given_{name}"


@dataclass(frozen=True)
class Read:
    """An expression, with names of the spec for vectors.

    Attributes:
        given: as the caller wrote it: ``//`` and ``%`` are in it.
        written: the same as a formula of specs.
        vectors: those that it names, by what stands for them.
        numbers: arguments of the caller that are numbers.
    """

    given: Expression
    written: Expression
    vectors: Mapping[str, Vector]
    numbers: tuple[str, ...]

    @property
    def names(self) -> dict[str, Expression]:
        """What stands in a spec for names of these expressions."""
        found: dict[str, Expression] = {n: Name(v.argument) for n, v in self.vectors.items()}
        return found | {name: Name(number_name(name)) for name in self.numbers}

    @property
    def turned(self) -> Read:
        """The same with rows and columns exchanged."""
        vectors = {name: vector.turned for name, vector in self.vectors.items()}
        return Read(exchanged(self.given), exchanged(self.written), vectors, self.numbers)


def exchanged(expression: Expression) -> Expression:
    """Queries as columns, and keys as rows."""
    return fold(expression, {name: Name(other) for name, other in EXCHANGED.items()})


@dataclass
class _Reader:
    argument: str
    text: str
    ranks: Mapping[str, int]
    vectors: dict[str, Vector] = field(default_factory=dict[str, Vector])

    def read(self, known: Collection[str], *, condition: bool) -> Read:
        try:
            given = parse(self._without_indices())
        except ExpressionError as error:
            raise VariantError(self.argument, self.text, "bad-expression", error) from None
        numbers = {name for name, rank in self.ranks.items() if not rank}
        names = {*known, *self.vectors, *numbers}
        for node in walk(given):
            self._check(node, {*names, *self.ranks})
        try:
            (check_condition if condition else check_formula)(_whole(given), names)
        except ExpressionError as error:
            raise VariantError(self.argument, self.text, "bad-expression", error) from None
        used = dict.fromkeys(node.name for node in walk(given) if isinstance(node, Name))
        vectors = {name: self.vectors[name] for name in used if name in self.vectors}
        for coordinate in ("head", "batch"):  # no coordinates of specs: tensors that count
            if coordinate in used:
                vectors[coordinate] = Vector("", (coordinate,))
        return Read(given, _whole(given), vectors, tuple(sorted(numbers & {*used})))

    def _without_indices(self) -> str:
        """The text with a name of the same length for each vector, so that places stay."""

        def replaced(match: re.Match[str]) -> str:
            name, indices = match[1], [index.strip() for index in match[2].split(",")]
            if name not in self.ranks:
                fix = suggest(name, [n for n, rank in self.ranks.items() if rank])
                message = f"'{name}' is no tensor that is passed"
                raise self._error("unknown-name", message, match, fix or f"pass {name}=...")
            for index in indices:
                if index not in COORDINATES:
                    fix = f"use {', '.join(COORDINATES)}; pass a tensor that is indexed already"
                    raise self._error("bad-index", f"'{index}' is no index", match, fix)
            self._fits(name, indices, match)
            made = "_" * len(match[0])
            while made in self.vectors or made in self.ranks:  # of that length, and new
                made = _next(made)
            self.vectors[made] = Vector(name, tuple(indices))
            return made

        return _INDEXED.sub(replaced, self.text)

    def _fits(self, name: str, indices: list[str], match: re.Match[str]) -> None:
        rank = self.ranks[name]
        if rank != len(indices):
            message = f"'{name}' has {rank} dimensions, and {len(indices)} indices here"
            raise self._error("bad-index", message, match, "give it one index for each dimension")
        if len(set(indices)) < len(indices):
            message = f"'{name}' has the same index twice"
            raise self._error("bad-index", message, match, "take the diagonal before the call")
        if {"row", "column"} <= set(indices):
            message = f"'{name}' would have a value for each pair of row and column"
            fix = "a tensor may have one of both; put the rest into the expression"
            raise self._error("bad-index", message, match, fix)

    def _error(self, rule: str, message: str, at: re.Match[str], fix: str) -> VariantError:
        mistake = ExpressionError(message, at.start(), at.end() - at.start(), fix)
        return VariantError(self.argument, self.text, rule, mistake)

    def _check(self, node: Expression, names: Collection[str]) -> None:
        match node:
            case Name(name, distance):
                shown = self.text[node.offset : node.offset + node.length]
                if distance:
                    message, rule = f"'{shown}' is of an earlier iteration", "bad-expression"
                    fix = f"write '{name}'"
                elif name not in names:
                    message, rule = f"'{name}' is no coordinate and no argument", "unknown-name"
                    fix = suggest(name, names) or f"pass {name}=..."
                elif self.ranks.get(name):
                    message, rule = f"'{name}' is a tensor", "bad-index"
                    fix = f"say which element, such as {name}[{', '.join(COORDINATES[:1])}]"
                else:
                    return
            case Binary("//" | "%" as operator, _, Number(value)) if value <= 0:
                message, rule = f"'{operator}' of {value}", "bad-divisor"
                fix = "divide by a number above 0"
            case Call("ceil"):
                message, rule = "there is no 'ceil' of elements", "bad-expression"
                fix = "write -floor(-x)"
            case _:
                return
        mistake = ExpressionError(message, node.offset, node.length, fix)
        raise VariantError(self.argument, self.text, rule, mistake)


def read(argument: str, text: str, ranks: Mapping[str, int], *, condition: bool) -> Read:
    """An expression of a caller.

    Args:
        argument: ``mask`` or ``score``, for messages.
        ranks: the caller's other arguments: 0 for numbers, dimensions for tensors.
        condition: whether it says what is kept; else it is a number, and ``score`` is one of its
            names.

    Raises:
        VariantError: with rule, column and fix.
    """
    known = {*COORDINATES, *SIZES, *(() if condition else (SCORE,))}
    return _Reader(argument, text, ranks).read(known, condition=condition)


def _next(name: str) -> str:
    """Another name of the same length: those of ``_`` and ``x``, counted in binary."""
    number = int(name.replace("_", "0").replace("x", "1"), 2) + 1
    return f"{number:0{len(name)}b}".replace("0", "_").replace("1", "x")


def _whole(node: Expression) -> Expression:
    """``//`` and ``%`` of whole numbers by means of floor: a half more cannot reach the next whole
    number, and no rounding of the quotient can fall below this one.
    """
    match node:
        case Binary("//", left, right):
            a, b = _whole(left), _whole(right)
            more = Binary("+", a, _HALF)
            quotient = Binary("/", more, b)
            if isinstance(b, Number):
                quotient = Binary("*", more, Number(Fraction(1) / b.value))
            return Call("floor", (quotient,), offset=node.offset, length=node.length)
        case Binary("%", left, right):
            whole = Binary("*", _whole(right), _whole(Binary("//", left, right)))
            return Binary("-", _whole(left), whole, offset=node.offset, length=node.length)
        case _ if not children(node):
            return node
        case _:
            return _rebuilt(node)


def _rebuilt(node: Expression) -> Expression:
    at = {"offset": node.offset, "length": node.length}
    match node:
        case Unary(operator, operand):
            return Unary(operator, _whole(operand), **at)
        case Binary(operator, left, right):
            return Binary(operator, _whole(left), _whole(right), **at)
        case Compare(operator, left, right):
            return Compare(operator, _whole(left), _whole(right), **at)
        case Logical(operator, left, right):
            return Logical(operator, _whole(left), _whole(right), **at)
        case Call(function, arguments):
            return Call(function, tuple(map(_whole, arguments)), **at)
        case _:
            return node
