"""ruamel's complaints about a text that is not YAML, in words for people who write specs."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from schedgen.errors import Diagnostic, Location
from schedgen.spec.text import TextFile

Position = tuple[int, int]  # line and column, both from 1


class _Point(Enum):
    """Which of a problem's positions helps most."""

    HERE = "where the parser gave up"
    START = "where the construct it was reading starts"
    BRACKET = "the innermost bracket that is still open"


@dataclass(frozen=True, slots=True)
class Problem:
    """What ruamel says about a text.

    Attributes:
        text: its words: what it was doing, and what it found.
        at: where it gave up.
        start: where the construct that it was reading starts, if it says so.
        bracket: where the innermost flow collection that is still open starts, if any.
    """

    text: str
    at: Position
    start: Position | None = None
    bracket: Position | None = None


class _Explanation(NamedTuple):
    """Plain words for one complaint; both texts may quote the pattern's groups: ``{0}``."""

    pattern: str
    rule: str
    message: str
    fix: str | None = None
    point: _Point = _Point.HERE


# The first pattern found in ruamel's words decides. It may go on into two more lines: the source
# line up to the problem, and "spans lines" if the construct began in an earlier line.
_EXPLANATIONS = (
    _Explanation(
        r"found character '\\t'",
        "yaml-tab",
        "a tab is not allowed here",
        "use spaces to indent and to separate",
    ),
    _Explanation(
        r"found character (['\"])(.+)\1 that cannot start",
        "yaml-syntax",
        "a value cannot start with '{1}'",
        "put the value in quotes",
    ),
    _Explanation(
        r"mapping values are not allowed.*\n.*:\s",
        "yaml-syntax",
        "a second ': ' in one line",
        "if it belongs to the value, put the value in quotes",
    ),
    _Explanation(
        r"mapping values are not allowed",
        "yaml-indentation",
        "a key is not allowed here",
        "align it with the keys it belongs to; every key needs ': ' after it",
    ),
    _Explanation(
        r"could not find expected ':'",
        "yaml-syntax",
        "expected 'key: value' here",
        "put ': ' after the key",
        _Point.START,
    ),
    _Explanation(
        r"expected <block end>, but found .*\n *\n",
        "yaml-indentation",
        "this line does not fit the block that starts in line {start}",
        "align it with the lines it belongs to",
    ),
    _Explanation(
        r"expected <block end>|expected '<document start>'|after document end",
        "yaml-syntax",
        "unexpected text after the end of a value",
        "put the whole value in quotes, or look for a quote or bracket too many",
    ),
    _Explanation(
        r"found '<stream end>'|got '<stream end>'",
        "yaml-unclosed",
        "this bracket is never closed",
        "add the bracket that closes it",
        _Point.BRACKET,
    ),
    _Explanation(
        r"expected ',' or '(.)'.*\n.*\nspans lines",
        "yaml-unclosed",
        "expected ',' or '{0}' before line {line}, column {column}, to go on with or close this",
        "add what is missing",
        _Point.START,
    ),
    _Explanation(
        r"expected ',' or '(.)'",
        "yaml-syntax",
        "expected ',' or '{0}' here",
        "add it, or put the value in quotes",
    ),
    _Explanation(
        r"expected the node content, but found '(\W)'",
        "yaml-syntax",
        "expected a value before '{0}'",
        "put the value in quotes if '{0}' belongs to it",
    ),
    _Explanation(
        r"scanning a quoted scalar: found unexpected",
        "yaml-unclosed",
        "this quote is never closed",
        "add the quote that closes it",
        _Point.START,
    ),
    _Explanation(
        r"unknown escape character (['\"])(.+)\1",
        "yaml-escape",
        r"'\{1}' is not an escape sequence",
        "use single quotes, in which a backslash is a backslash",
    ),
    _Explanation(
        r"expected escape sequence of (\d)|OverflowError|chr\(\)",
        "yaml-escape",
        "this escape sequence is not the number of a character",
        "use single quotes, in which a backslash is a backslash",
    ),
    _Explanation(
        r"sequence entries are not allowed here",
        "yaml-syntax",
        "a list item '- ' is not allowed here",
        "put the list in the lines below the key, or in brackets: [a, b]",
    ),
    _Explanation(
        r"mapping keys are not allowed here",
        "yaml-syntax",
        "a value cannot start with '? '",
        "put the value in quotes",
    ),
    _Explanation(
        r"(?:scanning|parsing) an? (?:alias|anchor)",
        "yaml-anchor",
        "a value cannot start with '*' or '&'",
        "put the value in quotes",
        _Point.START,
    ),
    _Explanation(
        r"(?:scanning|parsing) a tag|undefined tag handle",
        "yaml-tag",
        "a value cannot start with '!'",
        "put the value in quotes",
        _Point.START,
    ),
    _Explanation(
        r"scanning a block scalar",
        "yaml-syntax",
        "nothing but a digit, '+' or '-' can follow the '|' or '>' of a block of text",
        "start the text in the next line, or put it in quotes",
    ),
)


def explain(problem: Problem, lines: TextFile) -> Diagnostic:
    """Return the diagnostic for something that ruamel could not parse."""
    line, column = problem.at
    start = problem.start or problem.at
    spans = "spans lines" if start[0] < line else ""
    subject = f"{problem.text}\n{lines.line(line)[: column - 1]}\n{spans}"
    for known in _EXPLANATIONS:
        match = re.match(f".*?(?:{known.pattern})", subject)
        if match is not None:
            words = {"start": start[0], "line": line, "column": column}
            message = known.message.format(*match.groups(), **words)
            fix = known.fix and known.fix.format(*match.groups(), **words)
            return lines.diagnostic(known.rule, message, _locate(known.point, problem, lines), fix)
    message, fix = f"not valid YAML: {problem.text}", "put the value in quotes"
    return lines.diagnostic("yaml-syntax", message, Location(*problem.at), fix)


def _locate(point: _Point, problem: Problem, lines: TextFile) -> Location:
    if point is _Point.START and problem.start is not None:
        return lines.span(problem.start)
    if point is _Point.BRACKET and problem.bracket is not None:
        return Location(*problem.bracket)
    return Location(*problem.at)
