"""Syntax errors of PTX in the words of somebody who looks at the text.

The parser says where it stopped and what it could have gone on with; the rest is read off the text.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import re

from lark import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from schedgen.emulator.ptx.errors import Source
from schedgen.errors import Diagnostic, suggest

DIRECTIVES = frozenset(
    {
        *(".version", ".target", ".address_size", ".file", ".section", ".pragma"),
        *(".visible", ".extern", ".weak", ".common", ".entry", ".func", ".param", ".ptr"),
        *(".align", ".reg", ".global", ".shared", ".const", ".local"),
        *(".maxntid", ".reqntid", ".maxnreg", ".minnctapersm", ".maxnctapersm"),
        *(".reqnctapercluster", ".explicitcluster", ".maxclusterrank", ".blocksareclusters"),
        *(".noreturn", ".abi_preserve", ".abi_preserve_control"),
        *(".loc", ".branchtargets", ".calltargets"),
    }
)
"""Directives that the grammar knows (PTX ISA 4.3.1, chapter 11)."""


_ROUTINE = re.compile(r"\.(visible|extern|weak|common|entry|func)\b")
_STRING_OR_COMMENT = re.compile(r'("[^"\n]*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_WORD = re.compile(r'"[^"\n]*"?|\.?[\w$%]+(?:(?:\.|::)[\w$]+)*|\S')
_READABLE = {
    "INTEGER": "an integer",
    "LABEL": "a label",
    "NAME": "a name",
    "NUMBER": "a number",
    "OFFSET": "an offset",
    "STRING": "a string",
    "TYPE": "a type",
    "VERSION": "a version as 8.8",
    "WORD": "a name",
    "COMMA": "','",
    "SEMICOLON": "';'",
    "COLON": "':'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "VBAR": "'|'",
    "EQUAL": "'='",
    "MORETHAN": "'>'",
}
"""Terminals worth listing; the others stand where many things could."""


def explain(source: Source, error: UnexpectedInput) -> Diagnostic:
    """Return the diagnostic for a syntax error of lark."""
    if isinstance(error, UnexpectedToken):
        if error.token.type == "$END":
            return _end(source)
        return _Mistake(source, error.token.start_pos or 0, set(error.expected)).explain()
    if isinstance(error, UnexpectedCharacters):
        return _Mistake(source, error.pos_in_stream, set(error.allowed)).explain()
    raise error


class _Mistake:
    """Something that cannot stand at the offset ``at``, where ``expected`` terminals could."""

    def __init__(self, source: Source, at: int, expected: set[str]) -> None:
        self._source = source
        self._at = at
        self._expected = expected
        self._before = _without_comments(source.text[:at]).rstrip()
        found = _WORD.match(source.text, at)
        assert found is not None  # the lexer has skipped blanks
        self._word = found[0]

    def explain(self) -> Diagnostic:
        word, expected = self._word, self._expected
        if self._source.text.startswith("/*", self._at):
            return self._here("ptx-truncated", "no '*/' ends this comment", "add it")
        if word == "{" and "SECTION_BODY" in expected:
            return _end(self._source)
        if {"RBRACE", "WORD"} <= expected and _ROUTINE.match(word):
            return self._no_closing_brace()
        if "ENTRY" in expected and word == "}":
            fix = "delete it, or look for a missing '{' above"
            return self._here("ptx-syntax", "this '}' closes nothing", fix)
        if word[0] == "." and word not in DIRECTIVES and expected & {"ENTRY", "TUNING", "LABEL"}:
            message = f"{word!r} is no directive that the emulator knows"
            return self._here("ptx-directive", message, suggest(word, DIRECTIVES))
        if word[0].isdigit() and expected & {"NUMBER", "INTEGER"}:
            return self._here("ptx-number", f"{word!r} is no number of PTX", None)
        if "SEMICOLON" in expected and self._first_of_its_line():
            return self._no_semicolon()
        return self._here("ptx-syntax", f"{word!r} cannot stand here{self._wanted()}", None)

    def _wanted(self) -> str:
        # After an operand the parser's table cannot tell which bracket is open.
        closing = self._expected & {"SEMICOLON", "RBRACE", "RPAR", "RSQB"}
        listed = self._expected - closing if len(closing) > 1 else self._expected
        readable = sorted({_READABLE[name] for name in listed if name in _READABLE})
        return f"; possible here: {', '.join(readable)}" if readable else ""

    def _first_of_its_line(self) -> bool:
        return "\n" in self._source.text[len(self._before) : self._at]

    def _no_closing_brace(self) -> Diagnostic:
        opened = _open_brackets(self._before)[0]
        line = self._source.text.count("\n", 0, opened) + 1
        message = f"{self._word!r} starts while the '{{' of line {line} is still open"
        return self._here("ptx-syntax", message, "add the missing '}' above")

    def _no_semicolon(self) -> Diagnostic:
        last = self._before.rfind("\n") + 1
        start = len(self._before) - len(self._before[last:].lstrip())
        return self._source.at(
            "ptx-syntax",
            f"no ';' ends this statement before {self._word!r}",
            start,
            len(self._before) - start,
            "add ';'",
        )

    def _here(self, rule: str, message: str, fix: str | None) -> Diagnostic:
        return self._source.at(rule, message, self._at, len(self._word), fix)


def _end(source: Source) -> Diagnostic:
    """The text ends where something has to follow."""
    text = _without_comments(source.text).rstrip()
    start = text.rfind("\n") + 1
    opened = _open_brackets(text)
    inside = "a statement"
    if opened:
        line = text.count("\n", 0, opened[0]) + 1
        inside = f"the '{text[opened[0]]}' of line {line}"
    message = f"the text ends inside of {inside}"
    fix = "the file is truncated, or a bracket is not closed"
    return source.at("ptx-truncated", message, start, len(text) - start, fix)


def _open_brackets(text: str) -> list[int]:
    """Return the offsets of the brackets that are still open where ``text`` ends."""
    opened: list[int] = []
    for found in re.finditer(r'"[^"\n]*"|[{}()\[\]]', text):
        if found[0] in "{([":
            opened.append(found.start())
        elif found[0] in "})]" and opened:
            opened.pop()
    return opened


def _without_comments(text: str) -> str:
    """Return ``text`` with blanks for comments, so that offsets stay."""
    return _STRING_OR_COMMENT.sub(lambda found: found[1] or re.sub(r"[^\n]", " ", found[0]), text)
