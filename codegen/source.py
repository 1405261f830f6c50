"""Nodes of a generated file under construction."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from schedgen.codegen.ir import Block, Call, Code, Comment, Guarded, Issue, Line, Node, Uses
from schedgen.codegen.printing import WIDTH, lines_of, text_of

__all__ = ["WIDTH", "Source"]


class Source:
    """Nodes, one after the other and inside of one another.

    Plain text has to say which functions of the library it uses (`uses`), and must not name
    variables that a role is given: those are values (`schedgen.codegen.ir.Name`).
    """

    def __init__(self) -> None:
        self._open: list[list[Node]] = [[]]

    @property
    def nodes(self) -> tuple[Node, ...]:
        return tuple(self._open[0])

    def put(self, *nodes: Node) -> None:
        """Appends nodes."""
        self._open[-1] += nodes

    def add(self, *lines: str | Code) -> None:
        """Appends statements of one line."""
        self.put(*(Line(_code(line)) for line in lines))

    def call(self, function: str | Code, arguments: Sequence[str | Code], end: str = "") -> None:
        """Appends a call, which may need several lines."""
        self.put(Call(_code(function), tuple(map(_code, arguments)), end))

    def comment(self, text: str) -> None:
        self.put(Comment(Code((text,))))

    def uses(self, *functions: str) -> None:
        """Says which functions of the library lines of plain text call."""
        if functions:
            self.put(Uses(functions))

    @contextmanager
    def block(self, head: str | Code) -> Generator[None]:
        """``head`` with what is added inside below it."""
        with self.inner() as body:
            yield
        self.put(Block(_code(head), tuple(body)))

    @contextmanager
    def guarded(self, terms: Sequence[Code]) -> Generator[None]:
        """What is added inside runs where all terms hold."""
        with self.inner() as body:
            yield
        self.put(*([Guarded(tuple(terms), tuple(body))] if terms else body))

    @contextmanager
    def issue(self, operation: str, label: str) -> Generator[None]:
        """What is added inside is how an operation is done."""
        with self.inner() as body:
            yield
        self.put(Issue(operation, label, tuple(body)))

    @contextmanager
    def inner(self) -> Generator[list[Node]]:
        """A list that takes what is added inside."""
        body: list[Node] = []
        self._open.append(body)
        try:
            yield body
        finally:
            self._open.pop()

    @property
    def lines(self) -> list[str]:
        return lines_of(self.nodes)

    @property
    def text(self) -> str:
        return text_of(self.nodes)


def _code(text: str | Code) -> Code:
    if isinstance(text, Code):
        return text
    return Code((text,) if text else ())
