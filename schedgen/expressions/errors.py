"""The one exception of the expression language, and how it suggests names."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

MAX_LISTED_NAMES = 8
"""With more known names than this, listing them would hide the message."""


class ExpressionError(ValueError):
    """A mistake in an expression, located in its text.

    Attributes:
        message: what is wrong, in plain words, without the fix.
        offset: 0-based character offset of the offending text within the expression.
        length: number of offending characters; 0 when there is nothing to underline.
        fix: what to write instead, in the imperative, or None where no fix is obvious.
    """

    def __init__(
        self, message: str, offset: int = 0, length: int = 0, fix: str | None = None
    ) -> None:
        # All four go to ``args`` so that the exception survives pickling between processes.
        super().__init__(message, offset, length, fix)
        self.message = message
        self.offset = offset
        self.length = length
        self.fix = fix

    def __str__(self) -> str:
        return self.message if self.fix is None else f"{self.message}; {self.fix}"


class UnknownName(ExpressionError):
    """A name that stands for nothing where it is used."""


def suggest(name: str, known: Collection[str]) -> str | None:
    """Return the fix for a misspelt ``name``: the closest of ``known``, or all if they are few."""
    by_lower_case = {candidate.lower(): candidate for candidate in known}
    if close := get_close_matches(name.lower(), by_lower_case, n=1):
        return f"did you mean '{by_lower_case[close[0]]}'?"
    if 0 < len(known) <= MAX_LISTED_NAMES:
        return f"known names: {', '.join(sorted(known))}"
    return None
