"""From text to syntax tree, within limits that keep every later recursion shallow."""

from __future__ import annotations

from schedgen.expressions.errors import ExpressionError
from schedgen.expressions.functions import check_call
from schedgen.expressions.mistakes import open_parentheses
from schedgen.expressions.nodes import Call, Expression, children, walk

MAX_LENGTH = 2000
"""Longest expression in characters. Blanks do not count, so those that ``render`` adds are free."""

MAX_DEPTH = 64
"""Deepest nesting, of operators as of parentheses; a sum of n terms is n levels deep."""


def parse(text: str) -> Expression:
    """Return the syntax tree of ``text``.

    Raises:
        ExpressionError: on a syntax error, an unknown function, a wrong number of arguments, or
            text beyond ``MAX_LENGTH`` or ``MAX_DEPTH``. Nothing else is ever raised.
    """
    _check_size(text)
    # Imported here because lark and the parser tables cost 50 ms that not every command needs.
    from schedgen.expressions.grammar import build_tree

    expression = build_tree(text)
    _check_depth(expression)
    for node in walk(expression):
        if isinstance(node, Call):
            check_call(node)
    return expression


def _check_size(text: str) -> None:
    length = sum(not character.isspace() for character in text)
    if length > MAX_LENGTH:
        raise ExpressionError(
            f"the expression has {length} characters, more than {MAX_LENGTH}",
            0,
            len(text),
            "split it into named values",
        )
    pending = open_parentheses(text, MAX_DEPTH)
    if len(pending) > MAX_DEPTH:
        raise _too_deep(pending[-1], 1)


def _check_depth(expression: Expression) -> None:
    level = [expression]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in children(node)]
        if not level:
            return
    raise _too_deep(level[0].offset, level[0].length)


def _too_deep(offset: int, length: int) -> ExpressionError:
    message = f"the expression is nested more than {MAX_DEPTH} levels deep"
    return ExpressionError(message, offset, length, "split it into named values")
