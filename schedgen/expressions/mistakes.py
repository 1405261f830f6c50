"""Syntax errors in the author's words: what stands there, what was expected, what to write.

The parser reports where it stopped and what it wanted; everything else is read off the text, so
that no message depends on how the grammar is cut into rules.
"""

from __future__ import annotations

import math
import re
from typing import Literal, TypeAlias

from schedgen.expressions.errors import ExpressionError

Wanted: TypeAlias = Literal["value", "operator", "distance"]
"""What could have followed: an operand, anything after an operand, or the integer behind ``@``."""

_WHERE = "write where(condition, a, b)"
_FOREIGN_WORDS = {
    "False": "write 'false'",
    "None": None,
    "True": "write 'true'",
    "else": _WHERE,
    "for": None,
    "if": _WHERE,
    "in": "compare with '==' and join with 'or'",
    "is": "write '=='",
    "lambda": None,
}
RESERVED = frozenset(_FOREIGN_WORDS) | {"and", "or", "not", "true", "false"}
"""Words that can never be names."""

_FOREIGN_SIGNS: tuple[tuple[str, str, str | None], ...] = (
    (r"\*\*|\^", "the power operator '{}'", "write repeated multiplication, e.g. x * x"),
    (r"&&?", "'{}'", "write 'and'"),
    (r"\|\|?", "'{}'", "write 'or'"),
    (r"[!~]", "'{}'", "write 'not'"),
    (r"<>", "'{}'", "write '!='"),
    (r"=<", "'{}'", "write '<='"),
    (r"=>", "'{}'", "write '>='"),
    (r"<<|>>", "the shift '{}'", "multiply or divide by a power of two"),
    (r":?=", "the assignment '{}'", "compare with '=='"),
    (r"(?<=[0-9])\.(?![A-Za-z_])", "a number that ends with '{}'", "write e.g. 1.0"),
    (r"\.(?=[0-9])", "a number that starts with '{}'", "write e.g. 0.5"),
    (r"\.", "attribute access with '{}'", "use a plain name"),
    (r"[\[\]]", "indexing with '{}'", "use a plain name; name@1 is one iteration earlier"),
    (r"[{}$]", "'{}'", "write the name alone"),
    (r"#", "the comment sign '{}'", "keep comments outside of the expression"),
    (r"\?", "'{}'", _WHERE),
    # Signs that word processors and chat programs put in place of the ASCII ones.
    (r"[\u2018\u2019\u201c\u201d]", "the typographic quote '{}'", "write a straight quote"),
    (r"[\u00d7\u00b7\u22c5\u2219]", "'{}'", "write '*'"),
    (r"\u00f7", "'{}'", "write '/'"),
    (r"[\u2212\u2013\u2014]", "'{}'", "write '-'"),
    (r"\u2264", "'{}'", "write '<='"),
    (r"\u2265", "'{}'", "write '>='"),
    (r"\u2260", "'{}'", "write '!='"),
    (r"\u00a0", "a no-break space", "write an ordinary blank"),
    (r"[^\W\d_]", "the letter '{}'", "names consist of the letters a-z, digits and '_'"),
)
_SIGNS = tuple((re.compile(pattern), what, fix) for pattern, what, fix in _FOREIGN_SIGNS)
# The lexer reads the first of these two characters as an operator and fails at the second one.
_READ_AS_TWO = frozenset({"**", "<>", "<<", ">>"})
_STRINGS_AND_PARENTHESES = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|[()]")
_LAST_WORD = re.compile(r"(?:[A-Za-z0-9_.]+|[<>=!]=|//|\S)\Z")


def open_parentheses(text: str, limit: float = math.inf) -> list[int]:
    """Return the offsets of the parentheses still open where ``text`` ends or ``limit`` is passed.

    At most ``limit + 1`` are returned; the last one is then the first that is too deep.
    """
    pending: list[int] = []
    for match in _STRINGS_AND_PARENTHESES.finditer(text):
        if match[0] == "(":
            pending.append(match.start())
            if len(pending) > limit:
                break
        elif match[0] == ")" and pending:
            pending.pop()
    return pending


def foreign_word(word: str, offset: int) -> ExpressionError | None:
    """Return the error for a reserved word of another language, None for an ordinary name."""
    if word not in _FOREIGN_WORDS:
        return None
    message = f"'{word}' is not part of the language"
    return ExpressionError(message, offset, len(word), _FOREIGN_WORDS[word])


def foreign_character(text: str, offset: int) -> ExpressionError:
    """Return the error for a character with which nothing in the language begins."""
    character = text[offset]
    if character in "'\"":
        end = text.find("\n", offset)
        length = (len(text) if end < 0 else end) - offset
        return ExpressionError(
            "the string that starts here is never closed",
            offset,
            length,
            f"add a closing {character}",
        )
    if (error := _foreign_sign(text, offset)) is not None:
        return error
    shown = f"'{character}'" if character.isprintable() else f"U+{ord(character):04X}"
    return ExpressionError(f"the character {shown} is not part of the language", offset, 1)


def unexpected_end(text: str, wanted: Wanted) -> ExpressionError:
    """Return the error for ``text`` that stops too early."""
    last = _LAST_WORD.search(text.rstrip())
    if last is None:
        return ExpressionError("the expression is empty", 0, len(text))
    if wanted == "operator":  # After an operand only a missing ')' keeps the end from being fine.
        return ExpressionError("this '(' is never closed", open_parentheses(text)[-1], 1, "add ')'")
    expected = "a value" if wanted == "value" else "a whole number of iterations"
    message = f"the expression ends after '{last[0]}', where {expected} was expected"
    return ExpressionError(message, last.start(), len(last[0]))


def unexpected_text(text: str, start: int, end: int, wanted: Wanted) -> ExpressionError:
    """Return the error for ``text[start:end]``, a word of the language in the wrong place."""
    is_second_half = text[max(start - 1, 0) : start + 1] in _READ_AS_TWO
    if is_second_half and (error := _foreign_sign(text, start - 1)) is not None:
        return error
    found = text[start:end]
    if wanted == "distance":
        return bad_distance(found, start)
    message, fix = (_no_value if wanted == "value" else _no_operator)(text, start, found)
    return ExpressionError(message, start, end - start, fix)


def bad_distance(found: str, offset: int) -> ExpressionError:
    """Return the error for something other than an integer literal behind ``@``."""
    message = f"expected a whole number of iterations after '@', found {_quote(found)}"
    return ExpressionError(message, offset, len(found), "write e.g. name@1")


def _no_value(text: str, start: int, found: str) -> tuple[str, str | None]:
    """Return message and fix for ``found`` where an operand should begin."""
    fix = None
    if found == "not":
        fix = "put the negation in parentheses: (not ...)"
    elif found == ")" and text[:start].rstrip().endswith(","):
        fix = "remove the ',' before it"
    expected = "a number, a name, a function call or '('"
    return f"unexpected {_quote(found)}; expected a value: {expected}", fix


def _no_operator(text: str, start: int, found: str) -> tuple[str, str | None]:
    """Return message and fix for ``found`` behind a complete operand."""
    before = text[:start]
    if found[0] in "<>=!":
        return "comparisons do not chain", "join two with 'and', e.g. a < b and b < c"
    if found == ")":
        return "this ')' closes nothing", "remove it or add '('"
    if found == "@":
        return "'@' follows a name only", "write e.g. name@1"
    if found == ",":
        return "',' only separates the arguments of a function", None
    if before[-1:].isdigit() and re.fullmatch(r"_[0-9_]*", found):
        return f"unexpected '{found}' in a number", "write the digits without '_'"
    left = _LAST_WORD.search(before.rstrip())
    fix = None
    if left and _is_factor(left[0]) and (found == "(" or _is_factor(found)):
        right = "(...)" if found == "(" else found
        fix = f"write '{left[0]} * {right}' if a product is meant"
    return f"unexpected {_quote(found)}; expected {_continuations(before)}", fix


def _continuations(before: str) -> str:
    """Say what may follow the complete operand at the end of ``before``."""
    pending = open_parentheses(before)
    if not pending:
        return "an operator or the end of the expression"
    function = _LAST_WORD.search(before[: pending[-1]].rstrip())
    is_call = function is not None and _is_factor(function[0])
    return "an operator, ',' or ')'" if is_call else "an operator or ')'"


def _is_factor(word: str) -> bool:
    """Whether ``word`` is a name or a number."""
    return re.fullmatch(r"[A-Za-z0-9_.]+", word) is not None and word not in RESERVED


def _foreign_sign(text: str, offset: int) -> ExpressionError | None:
    for pattern, what, fix in _SIGNS:
        if (match := pattern.match(text, offset)) is not None:
            message = f"{what.format(match[0])} is not part of the language"
            return ExpressionError(message, offset, len(match[0]), fix)
    return None


def _quote(found: str) -> str:
    return f"the string {found}" if found[0] in "'\"" else f"'{found}'"
