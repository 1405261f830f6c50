"""Diagnostics: what is wrong in a user's file, where, by which rule, and how to fix it.

Stages collect every problem they find in a `DiagnosticSink` and raise them as one `SpecError`, so
that a person fixes a file in one go instead of one error at a time.
"""

import difflib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

MAX_RENDERED = 20  # diagnostics printed by one SpecError; the rest are counted
_EXCERPT_WIDTH = 100  # terminal columns of a source line that are shown
_TAB = "    "  # what a tab is shown as: carets must line up whatever the terminal's tab stops
_LONGEST_SUGGESTED = 100  # difflib is quadratic and nobody misspells a name this long


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A span of one line of a text file.

    Attributes:
        line: line number, from 1.
        column: first code point of the span within its line, from 1.
        length: number of code points, at least 1; a span never leaves its line.
    """

    line: int
    column: int
    length: int = 1


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One problem in one file.

    Attributes:
        rule: stable kebab-case code of the violated rule, e.g. ``yaml-duplicate-key``.
        message: one sentence that names the offending value; no trailing full stop.
        file: the file as the user named it.
        location: where in the file, or None when the file as a whole is meant.
        source_line: text of the line at `location`, without its line break.
        fix: what to do about it, or None when there is no single likely remedy.
    """

    rule: str
    message: str
    file: str
    location: Location | None = None
    source_line: str | None = None
    fix: str | None = None

    def render(self) -> str:
        """Return the text for people: headline, source line with carets, and the fix."""
        at = self.location
        where = self.file if at is None else f"{self.file}:{at.line}:{at.column}"
        lines = [f"{where}: error[{self.rule}]: {self.message}"]
        if at is not None and self.source_line is not None:
            gutter = f"  {at.line} | "
            excerpt, carets = _excerpt(self.source_line, at)
            lines.append(f"{gutter}{excerpt}".rstrip())
            lines.append(f"{' ' * (len(gutter) - 2)}| {carets}")
        if self.fix is not None:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)


class SchedgenError(Exception):
    """Base class of every error that schedgen raises on purpose.

    ``status`` is the exit status of a command that it ends: 2 for bad input, 1 where the input is
    right and there is nothing that could be made of it.
    """

    status = 2


class SpecError(SchedgenError):
    """A spec file is wrong.

    Attributes:
        diagnostics: what is wrong, at least one, in order of file and position.
    """

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics: tuple[Diagnostic, ...] = tuple(sorted(diagnostics, key=_position))
        if not self.diagnostics:
            raise ValueError("a SpecError needs at least one diagnostic")
        super().__init__(self.diagnostics)  # the constructor's argument, so that it pickles

    def __str__(self) -> str:
        rendered = [diagnostic.render() for diagnostic in self.diagnostics[:MAX_RENDERED]]
        hidden = len(self.diagnostics) - len(rendered)
        if hidden:
            rendered.append(f"… and {hidden} more")
        return "\n".join(rendered)


class DiagnosticSink:
    """Collects the diagnostics of one stage; truthy once it holds any."""

    def __init__(self) -> None:
        self._diagnostics: list[Diagnostic] = []

    def __bool__(self) -> bool:
        return bool(self._diagnostics)

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """What was reported so far, in order of reporting."""
        return tuple(self._diagnostics)

    def error(self, diagnostic: Diagnostic) -> None:
        """Add a diagnostic."""
        self._diagnostics.append(diagnostic)

    def raise_if_any(self) -> None:
        """Raise everything reported so far as one `SpecError`, if there is anything."""
        if self._diagnostics:
            raise SpecError(self._diagnostics)


def suggest(word: str, candidates: Iterable[str]) -> str | None:
    """Return ``did you mean 'x'?`` for the candidate closest to `word`, or None.

    A candidate that differs only in case wins; otherwise difflib's similarity decides. The
    result does not depend on the order of `candidates`, which may be a set.
    """
    if len(word) > _LONGEST_SUGGESTED:
        return None
    names = sorted(set(candidates))
    same = [name for name in names if name.casefold() == word.casefold()]
    close = same or difflib.get_close_matches(word, names, n=1)
    return f"did you mean '{close[0]}'?" if close else None


def _position(diagnostic: Diagnostic) -> tuple[str, Location]:
    return diagnostic.file, diagnostic.location or Location(0, 0, 0)


def _excerpt(line: str, at: Location) -> tuple[str, str]:
    """Return the visible part of `line` and, aligned below it, carets under the span `at`."""
    start = min(at.column - 1, len(line))
    first, last = _window(line, start)
    head = "…" if first > 0 else ""
    tail = "…" if last < len(line) else ""
    stop = max(start, min(start + at.length, last))
    indent = len(head) + _width(line[first:start])
    return head + _shown(line[first:last]) + tail, " " * indent + "^" * _width(line[start:stop], 1)


def _window(line: str, start: int) -> tuple[int, int]:
    """Return the slice of `line` to show: all of it if it fits, else what surrounds `start`."""
    if len(line) <= _EXCERPT_WIDTH and _width(line) <= _EXCERPT_WIDTH:
        return 0, len(line)
    first, room = start, _EXCERPT_WIDTH // 2
    while first > 0 and (room := room - _width(line[first - 1])) >= 0:
        first -= 1
    last, room = start, _EXCERPT_WIDTH - _width(line[first:start])
    while last < len(line) and (room := room - _width(line[last])) >= 0:
        last += 1
    return first, last


def _shown(text: str) -> str:
    return "".join(_cell(char)[0] for char in text)


def _width(text: str, least: int = 0) -> int:
    return max(least, sum(_cell(char)[1] for char in text))


def _cell(char: str) -> tuple[str, int]:
    """Return how a character is shown and how many terminal columns that takes."""
    if char == "\t":
        return _TAB, len(_TAB)
    category = unicodedata.category(char)
    if category in ("Mn", "Me"):  # combining marks share the column of the letter before them
        return char, 0
    if category[0] == "C" or category in ("Zl", "Zp"):  # would move the cursor or show nothing
        return "\N{REPLACEMENT CHARACTER}", 1
    return char, 2 if unicodedata.east_asian_width(char) in "WF" else 1
