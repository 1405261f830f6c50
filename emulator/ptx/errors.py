"""What is wrong with a PTX file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property

from schedgen.errors import MAX_RENDERED, Diagnostic, Location, SchedgenError


class PtxError(SchedgenError):
    """PTX text that is broken or that the emulator cannot read.

    Attributes:
        diagnostics: what is wrong, at least one, in order of position.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(sorted(diagnostics, key=_position))
        if not self.diagnostics:
            raise ValueError("a PtxError needs at least one diagnostic")
        super().__init__(self.diagnostics)  # the constructor's argument, so that it pickles

    def __str__(self) -> str:
        rendered = [diagnostic.render() for diagnostic in self.diagnostics[:MAX_RENDERED]]
        hidden = len(self.diagnostics) - len(rendered)
        if hidden:
            rendered.append(f"… and {hidden} more")
        return "\n".join(rendered)


_BEGIN, _END = "// begin inline asm", "// end inline asm"


class Source:
    """A PTX text with its name, for diagnostics that point into it."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self.name = name
        self.lines = [line.rstrip("\r") for line in text.split("\n")]

    @cached_property
    def counted(self) -> frozenset[int]:
        """Lines (from 1) of each ``.loc`` in inline assembly but the first: LLVM counts lines of
        the assembly on from that of the source, and these lines have nothing to do with it."""
        found: set[int] = set()
        seen: int | None = None  # how many there were in the block
        for number, line in enumerate(self.lines, 1):
            if "inline asm" in line:
                seen = 0 if _BEGIN in line else None if _END in line else seen
            elif seen is not None and line.lstrip().startswith(".loc"):
                if seen:
                    found.add(number)
                seen += 1
        return frozenset(found)

    def diagnostic(
        self, rule: str, message: str, line: int, offending: str, fix: str | None = None
    ) -> Diagnostic:
        """Return a diagnostic of ``line`` (from 1) that underlines ``offending`` where it stands.

        Text that does not stand on that line, because a statement goes over several lines, is
        looked for on the lines below.
        """
        word = re.compile(rf"(?<![\w$%.]){re.escape(offending)}(?![\w$])")
        for number in range(line, min(line + _STATEMENT_LINES, len(self.lines)) + 1):
            if found := word.search(self.lines[number - 1]):
                return self._at(rule, message, number, found.start() + 1, len(offending), fix)
        return self._at(rule, message, line, 1, len(self.lines[line - 1].rstrip()), fix)

    def at(self, rule: str, message: str, start: int, length: int, fix: str | None) -> Diagnostic:
        """Return a diagnostic of ``length`` characters from the 0-based offset ``start``."""
        line = self.text.count("\n", 0, start) + 1
        column = start - (self.text.rfind("\n", 0, start) + 1) + 1
        return self._at(rule, message, line, column, length, fix)

    def _at(
        self, rule: str, message: str, line: int, column: int, length: int, fix: str | None
    ) -> Diagnostic:
        text = self.lines[line - 1]
        where = Location(line, column, max(1, min(length, len(text) - column + 1)))
        return Diagnostic(rule, message, self.name, where, text, fix)


_STATEMENT_LINES = 64
"""No statement that a compiler writes is longer; only an underline depends on it."""


def _position(diagnostic: Diagnostic) -> tuple[str, Location]:
    return diagnostic.file, diagnostic.location or Location(0, 0, 0)
