"""The grammar, and lark: the only module that imports it, itself imported by the first ``parse``.

LALR with the basic lexer: the contextual lexer would accept ``and`` as a name wherever no operator
can stand.
"""

# lark annotates neither its token types nor its decorators completely.
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from functools import cache
from typing import TypedDict, cast

from lark import Lark, Token, Transformer, UnexpectedCharacters, UnexpectedToken, v_args

from schedgen.expressions.errors import ExpressionError
from schedgen.expressions.mistakes import (
    Wanted,
    bad_distance,
    foreign_character,
    foreign_word,
    unexpected_end,
    unexpected_text,
)
from schedgen.expressions.nodes import (
    Binary,
    BinaryOperator,
    Boolean,
    Call,
    Compare,
    CompareOperator,
    Expression,
    Logical,
    LogicalOperator,
    Name,
    Number,
    Text,
    Unary,
    UnaryOperator,
)

GRAMMAR = r"""
?start: disjunction
?disjunction: conjunction | disjunction OR conjunction -> logical
?conjunction: negation | conjunction AND negation -> logical
?negation: comparison | NOT negation -> unary
?comparison: sum | sum COMPARISON sum -> compare
?sum: product | sum ADDITIVE product -> binary
?product: factor | product MULTIPLICATIVE factor -> binary
?factor: atom | ADDITIVE factor -> unary
?atom: NUMBER -> number
    | STRING -> text
    | TRUE -> true
    | FALSE -> false
    | NAME -> name
    | NAME "@" NUMBER -> delayed
    | NAME "(" arguments CLOSE -> call
    | OPEN disjunction CLOSE -> group
arguments: (disjunction ("," disjunction)*)?

OR: "or"
AND: "and"
NOT: "not"
TRUE: "true"
FALSE: "false"
OPEN: "("
CLOSE: ")"
COMPARISON: /[<>!=]=|[<>]/
ADDITIVE: /[+-]/
MULTIPLICATIVE: /\/\/|[*\/%]/
NUMBER: /[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?/
STRING: /'[^'\n]*'|"[^"\n]*"/
NAME: /[A-Za-z_][A-Za-z0-9_]*/
%ignore /[ \t\r\n]+/
"""

MAX_DECADE = 64
"""Literals lie between 1e-64 and 1e64, which holds every fp32 value; 1e999999999 costs memory."""


def build_tree(text: str) -> Expression:
    """Return the syntax tree of ``text``; function names and depth are not checked yet.

    Raises:
        ExpressionError: on any syntax error.
    """
    try:
        return cast(Expression, _parser().parse(text))
    except UnexpectedCharacters as error:
        raise foreign_character(text, error.pos_in_stream) from None
    except UnexpectedToken as error:
        wanted = _wanted(error.expected)
        if error.token.type == "$END":
            raise unexpected_end(text, wanted) from None
        start, end = _extent(error.token)
        raise unexpected_text(text, start, end, wanted) from None


@cache
def _parser() -> Lark:
    return Lark(
        GRAMMAR,
        parser="lalr",
        lexer="basic",
        transformer=_Builder(),
        lexer_callbacks={"NAME": _reject_foreign_word},
    )


def _wanted(expected: set[str]) -> Wanted:
    if "NAME" in expected:
        return "value"
    return "distance" if expected == {"NUMBER"} else "operator"


def _reject_foreign_word(token: Token) -> Token:
    # In the lexer, because the parser only reduces a name after it has seen what follows.
    if (error := foreign_word(str(token), _extent(token)[0])) is not None:
        raise error
    return token


class _Span(TypedDict):
    offset: int
    length: int


def _extent(token: Token) -> tuple[int, int]:
    """Return the first offset of ``token`` and the first one behind it."""
    start = cast(int, token.start_pos)
    return start, start + len(token)


def _span(first: Token | Expression, last: Token | Expression) -> _Span:
    """Return the position of the text from ``first`` up to and including ``last``."""
    start = _extent(first)[0] if isinstance(first, Token) else first.offset
    end = _extent(last)[1] if isinstance(last, Token) else last.offset + last.length
    return {"offset": start, "length": end - start}


def _literal(token: Token) -> Fraction:
    exponent = re.search("[eE](.+)", token)
    # The exponent is judged before the number is built: 10**exponent may not fit into memory.
    if exponent is None or abs(int(exponent[1])) <= MAX_DECADE:
        value = Fraction(str(token))
        if max(value.numerator, value.denominator) <= 10**MAX_DECADE:
            return value
    raise ExpressionError(
        f"the number needs more than {MAX_DECADE} digits before or behind its point",
        **_span(token, token),
    )


@v_args(inline=True)
class _Builder(Transformer[Token, Expression]):
    """Turns each grammar rule into its node while lark parses, without a tree in between."""

    def number(self, token: Token) -> Number:
        return Number(_literal(token), **_span(token, token))

    def text(self, token: Token) -> Text:
        return Text(str(token)[1:-1], **_span(token, token))

    def true(self, token: Token) -> Boolean:
        return Boolean(True, **_span(token, token))

    def false(self, token: Token) -> Boolean:
        return Boolean(False, **_span(token, token))

    def name(self, token: Token) -> Name:
        return Name(str(token), **_span(token, token))

    def delayed(self, token: Token, distance: Token) -> Name:
        if not distance.isdecimal():
            raise bad_distance(str(distance), _extent(distance)[0])
        return Name(str(token), int(distance), **_span(token, distance))

    def group(self, opening: Token, inner: Expression, closing: Token) -> Expression:
        return replace(inner, **_span(opening, closing))

    def call(self, function: Token, arguments: tuple[Expression, ...], closing: Token) -> Call:
        return Call(str(function), arguments, **_span(function, closing))

    def arguments(self, *arguments: Expression) -> tuple[Expression, ...]:
        return arguments

    def unary(self, operator: Token, operand: Expression) -> Unary:
        return Unary(cast(UnaryOperator, str(operator)), operand, **_span(operator, operand))

    def binary(self, left: Expression, operator: Token, right: Expression) -> Binary:
        return Binary(cast(BinaryOperator, str(operator)), left, right, **_span(left, right))

    def compare(self, left: Expression, operator: Token, right: Expression) -> Compare:
        return Compare(cast(CompareOperator, str(operator)), left, right, **_span(left, right))

    def logical(self, left: Expression, operator: Token, right: Expression) -> Logical:
        return Logical(cast(LogicalOperator, str(operator)), left, right, **_span(left, right))
