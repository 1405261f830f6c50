"""Evaluates the expressions of a spec, with errors that point into the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from schedgen.errors import DiagnosticSink, suggest
from schedgen.expressions import Expression, ExpressionError, Name, evaluate, parse
from schedgen.expressions.errors import UnknownName
from schedgen.kernel import Space
from schedgen.layouts import DTYPE_BITS
from schedgen.spec.source import Source
from schedgen.tensors import INTEGERS

Value: TypeAlias = Fraction | bool | str
Path: TypeAlias = Sequence[str | int]

LARGEST = 10**9
# Words that mean themselves wherever an expression may stand.
WORDS: dict[str, Value] = {
    **{space.value: space.value for space in Space},
    **{name: name for name in (*DTYPE_BITS, *INTEGERS)},
    "auto": "auto",
}
_FIXES = {
    "bad-expression": "write numbers and names with + - * / // %, comparisons, ceil(...), max(...)",
    "bad-value": "change the expression or the values of its names",
    "bad-formula": "write an element-wise formula such as exp2(S * scale - m)",
}


@dataclass(frozen=True, slots=True)
class Location:
    """Where something is written: a value of the file, and the part of its text that is meant."""

    path: Path
    offset: int | None = None
    length: int = 1
    key: bool = False

    def of(self, name: Name) -> Location:
        """Return the location of a name in the expression that stands here."""
        return Location(self.path, name.offset, max(1, name.length), self.key)


class Scope:
    """Names and their values, and where to report what goes wrong."""

    def __init__(self, source: Source, sink: DiagnosticSink, values: Mapping[str, Value]) -> None:
        self.source = source
        self.sink = sink
        self.values = {**WORDS, **values}

    @property
    def errors(self) -> int:
        """Number of mistakes reported so far."""
        return len(self.sink.diagnostics)

    def error(
        self, rule: str, message: str, at: Path | Location, *, key: bool = False, fix: str
    ) -> None:
        """Report a mistake at a location, or at the value (or the key) of a path."""
        location = at if isinstance(at, Location) else Location(at, key=key)
        self.sink.error(
            self.source.diagnostic(
                rule,
                message,
                location.path,
                key=location.key,
                offset=location.offset,
                length=location.length,
                fix=fix,
            )
        )

    def expression_error(self, rule: str, error: ExpressionError, path: Path) -> None:
        """Report a mistake in the expression at ``path``."""
        location = Location(path, error.offset, max(1, error.length))
        fix = error.fix or _FIXES[rule]
        if error.fix is None and isinstance(error, UnknownName):
            fix = "declare it under 'parameters'"
        self.error(rule, error.message, location, fix=fix)

    def expression(self, text: bool | int | str, path: Path) -> Expression | None:
        """Return ``text`` parsed, or None after reporting why not."""
        try:
            return _parse(spell(text))
        except ExpressionError as error:
            self.expression_error("bad-expression", error, path)
            return None

    def value(self, text: bool | int | str, path: Path) -> Value | None:
        """Return the value of ``text``, or None after reporting why it has none."""
        expression = self.expression(text, path)
        if expression is None:
            return None
        try:
            return evaluate(expression, self.values)
        except ExpressionError as error:
            self.expression_error("bad-value", error, path)
            return None

    def integer(
        self, text: bool | int | str, path: Path, *, at_least: int = 1, at_most: int = LARGEST
    ) -> int:
        """Return ``text`` as a whole number; ``at_least`` after reporting anything else."""
        value = self.value(text, path)
        if value is None:
            return at_least
        if not isinstance(value, Fraction) or value.denominator != 1:
            fix = "use ceil(...)" if isinstance(value, Fraction) else "write a number"
            message = f"{_show(text, value)} is not a whole number"
            self.error("not-an-integer", message, path, fix=fix)
            return at_least
        if not at_least <= value <= at_most:
            message = f"{_show(text, value)} is not between {at_least} and {at_most}"
            fix = f"use {at_least} or more" if value < at_least else f"use {at_most} or less"
            self.error("out-of-range", message, path, fix=fix)
            return at_least
        return int(value)

    def truth(self, text: bool | int | str, path: Path) -> bool:
        """Return ``text`` as true or false; true after reporting anything else."""
        value = self.value(text, path)
        if value is None or isinstance(value, bool):
            return value is not False
        message = f"{_show(text, value)} is neither true nor false"
        self.error("not-a-condition", message, path, fix="write true, false or a comparison")
        return True

    def word(
        self, text: bool | int | str, path: Path, allowed: Sequence[str], what: str
    ) -> str | None:
        """Return ``text`` as one of the ``allowed`` words, or None after reporting anything else.

        ``what`` the word is, such as ``data type``, gives the rule its name: ``unknown-type``.
        """
        expression = self.expression(text, path)
        if expression is None:
            return None
        listed = f"one of {', '.join(allowed)}"
        if isinstance(expression, Name) and expression.name not in self.values:
            value: Value | None = expression.name
            fix = suggest(expression.name, [*allowed, *self.values]) or listed
        else:
            value, fix = self.value(text, path), listed
        if value is None:
            return None
        if isinstance(value, str) and value in allowed:
            return value
        rule = f"unknown-{what.rpartition(' ')[2]}"
        self.error(rule, f"{_show(text, value)} is not a {what}", path, fix=fix)
        return None

    def number(self, text: bool | int | str, path: Path) -> str | None:
        """Return a number, inf or -inf as canonical text; None after reporting anything else."""
        if spell(text).replace(" ", "").removeprefix("+") in ("inf", "-inf"):
            return spell(text).replace(" ", "").removeprefix("+")
        expression = self.expression(text, path)
        if isinstance(expression, Name) and expression.name not in self.values:
            value: Value | None = expression.name
        else:
            value = None if expression is None else self.value(text, path)
        if isinstance(value, Fraction):
            return str(value)
        if value is not None:
            message = f"{_show(text, value)} is not a number"
            self.error("not-a-number", message, path, fix="write a number, inf or -inf")
        return None


@lru_cache(maxsize=4096)
def _parse(text: str) -> Expression:
    """Parse ``text``; instances and choices of values meet the same few texts again and again."""
    return parse(text)


def spell(value: bool | int | str) -> str:
    """Return a YAML scalar as expression text."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def show(value: Value) -> str:
    """Return a value as a person would write it in a spec."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _show(text: bool | int | str, value: Value) -> str:
    """Return a value for a message, beside the expression that it is the value of."""
    written, meant = spell(text), show(value)
    return f"'{meant}'" if written == meant else f"'{written}' = {meant}"
