"""Statements as lines of Python: the only place where they become text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import cast

from schedgen.codegen.ir import (
    Block,
    Call,
    Code,
    Comment,
    Function,
    LibraryFunction,
    Line,
    Name,
    Node,
    Uses,
)
from schedgen.codegen.lowering import Statement, States, lowered, lowered_code
from schedgen.codegen.numbers import Number

WIDTH = 100
"""Columns of a line."""


def text_of(nodes: Iterable[Node]) -> str:
    """Nodes as a text."""
    return "\n".join(lines_of(nodes)) + "\n"


def lines_of(nodes: Iterable[Node], depth: int = 0) -> list[str]:
    """Nodes as lines, indented ``depth`` times."""
    return list(_statements(lowered(nodes), depth))


def expression(code: Code, states: States | None = None) -> str:
    """Code as text; ``states`` are carried by the loop around it."""
    return written(lowered_code(code, states))


def written(code: Code) -> str:
    """Code of a statement as text."""
    texts = ["" if isinstance(part, Number) else _plain(part) for part in code.parts]
    for place, part in enumerate(code.parts):
        if isinstance(part, Number):
            before = next((text for text in reversed(texts[:place]) if text), "")
            after = next((text for text in texts[place + 1 :] if text), "")
            texts[place] = part.written(before, after)
    return "".join(texts)


def _plain(part: object) -> str:
    match part:
        case Name(text) | LibraryFunction(text):
            return text
        case str():
            return part
        case _:
            raise TypeError(f"{part} is not lowered")


def _statements(statements: Iterable[Statement], depth: int) -> Iterator[str]:
    for statement in statements:
        yield from _statement(statement, depth)


def _statement(statement: Statement, depth: int) -> Iterator[str]:
    margin = "    " * depth
    match statement:
        case Line(code):
            line = written(code)
            yield margin + line if line else ""
        case Call(head, arguments, end):
            found = _call(written(head), [*map(written, arguments)], end, WIDTH - 4 * depth)
            yield from (margin + line for line in found)
        case Comment(words):
            yield f"{margin}# {written(words)}"
        case Uses():
            pass
        case Block(head, body):
            yield margin + written(head)
            yield from _statements(cast("tuple[Statement, ...]", body), depth + 1)
            if not any(map(_acts, body)):
                yield f"{margin}    pass"
        case Function(decorator, name, parameters, body):
            yield margin + decorator
            given = [f"{parameter}: {kind}" for parameter, kind in parameters]
            head = _call(f"def {name}", given, ":", WIDTH - 4 * depth)
            yield from (margin + line for line in head)
            yield from _statements(cast("tuple[Statement, ...]", body), depth + 1)


def _acts(node: Node) -> bool:
    """Whether it is a statement."""
    match node:
        case Comment() | Uses():
            return False
        case Line(code):
            return bool(code.parts)
        case _:
            return True


def _call(function: str, arguments: list[str], end: str, room: int) -> list[str]:
    """A call, on one line if it fits, else with its arguments below it."""
    inline = ", ".join(arguments)
    if len(f"{function}({inline}){end}") <= room:
        return [f"{function}({inline}){end}"]
    if len(inline) + 4 <= room:
        return [f"{function}(", f"    {inline}", f"){end}"]
    return [f"{function}(", *(f"    {argument}," for argument in arguments), f"){end}"]
