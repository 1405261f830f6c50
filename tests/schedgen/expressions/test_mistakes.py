"""Expressions: syntax errors in the author's words."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable

import pytest

from schedgen.expressions import (
    MAX_DEPTH,
    MAX_LENGTH,
    ExpressionError,
    parse,
)


def failure(action: Callable[[], object]) -> ExpressionError:
    """Return the error that ``action`` raises."""
    with pytest.raises(ExpressionError) as caught:
        action()
    return caught.value


VALUE = "a number, a name, a function call or '('"
LETTERS = "names consist of the letters a-z, digits and '_'"


@pytest.mark.parametrize(
    ("text", "offset", "length", "message", "fix"),
    [
        ("", 0, 0, "the expression is empty", None),
        ("a +", 2, 1, "the expression ends after '+', where a value was expected", None),
        ("* a", 0, 1, f"unexpected '*'; expected a value: {VALUE}", None),
        ("max(a,)", 6, 1, f"unexpected ')'; expected a value: {VALUE}", "remove the ',' before it"),
        ("(a + 2 * (b)", 0, 1, "this '(' is never closed", "add ')'"),
        ("a + b)", 5, 1, "this ')' closes nothing", "remove it or add '('"),
        ("a, b", 1, 1, "',' only separates the arguments of a function", None),
        (
            "6 kib",
            2,
            3,
            "unexpected 'kib'; expected an operator or the end of the expression",
            "write '6 * kib' if a product is meant",
        ),
        (
            "max(a b)",
            6,
            1,
            "unexpected 'b'; expected an operator, ',' or ')'",
            "write 'a * b' if a product is meant",
        ),
        (
            "not (a not b)",
            7,
            3,
            "unexpected 'not'; expected an operator or ')'",
            None,
        ),
        (
            "a 'b'",
            2,
            3,
            "unexpected the string 'b'; expected an operator or the end of the expression",
            None,
        ),
        (
            "a < b < c",
            6,
            1,
            "comparisons do not chain",
            "join two with 'and', e.g. a < b and b < c",
        ),
        (
            "a == not b",
            5,
            3,
            f"unexpected 'not'; expected a value: {VALUE}",
            "put the negation in parentheses: (not ...)",
        ),
        ("1_000", 1, 4, "unexpected '_000' in a number", "write the digits without '_'"),
        ("1@2", 1, 1, "'@' follows a name only", "write e.g. name@1"),
        (
            "m@1.5",
            2,
            3,
            "expected a whole number of iterations after '@', found '1.5'",
            "write e.g. name@1",
        ),
        (
            "m@-1",
            2,
            1,
            "expected a whole number of iterations after '@', found '-'",
            "write e.g. name@1",
        ),
        (
            "m@",
            1,
            1,
            "the expression ends after '@', where a whole number of iterations was expected",
            None,
        ),
        ("a + 'b", 4, 2, "the string that starts here is never closed", "add a closing '"),
        ("exp3(a)", 0, 4, "unknown function 'exp3'", "did you mean 'exp'?"),
        ("cdiv(a, b)", 0, 4, "unknown function 'cdiv'", "write ceil(a / b)"),
        ("1 + exp2(a, b)", 4, 10, "exp2 takes 1 argument, not 2", None),
        ("where(a, b)", 0, 11, "where takes 3 arguments, not 2", None),
        ("max(a)", 0, 6, "max takes at least 2 arguments, not 1", None),
        (
            "1e999999999",
            0,
            11,
            "the number needs more than 64 digits before or behind its point",
            None,
        ),
    ],
)
def test_syntax_errors(text: str, offset: int, length: int, message: str, fix: str | None) -> None:
    error = failure(lambda: parse(text))
    assert (error.message, error.fix) == (message, fix)
    assert (error.offset, error.length) == (offset, length)


@pytest.mark.parametrize(
    ("text", "offending", "what", "fix"),
    [
        ("a**2", "**", "the power operator '**'", "write repeated multiplication, e.g. x * x"),
        ("a^2", "^", "the power operator '^'", "write repeated multiplication, e.g. x * x"),
        ("a && b", "&&", "'&&'", "write 'and'"),
        ("a || b", "||", "'||'", "write 'or'"),
        ("!a", "!", "'!'", "write 'not'"),
        ("a <> b", "<>", "'<>'", "write '!='"),
        ("a => b", "=>", "'=>'", "write '>='"),
        ("a << 2", "<<", "the shift '<<'", "multiply or divide by a power of two"),
        ("a = b", "=", "the assignment '='", "compare with '=='"),
        (".5", ".", "a number that starts with '.'", "write e.g. 0.5"),
        ("5.", ".", "a number that ends with '.'", "write e.g. 1.0"),
        ("a.shape", ".", "attribute access with '.'", "use a plain name"),
        ("a[0]", "[", "indexing with '['", "use a plain name; name@1 is one iteration earlier"),
        ("lambda x: x", "lambda", "'lambda'", None),
        ("a if b else c", "if", "'if'", "write where(condition, a, b)"),
        ("True", "True", "'True'", "write 'true'"),
        ("a \u2264 b", "\u2264", "'\u2264'", "write '<='"),
        ("\u00e9", "\u00e9", "the letter '\u00e9'", LETTERS),
        ("a;", ";", "the character ';'", None),
        ("a\x00", "\x00", "the character U+0000", None),
    ],
)  # fmt: skip
def test_habits_from_other_languages(text: str, offending: str, what: str, fix: str | None) -> None:
    error = failure(lambda: parse(text))
    assert (error.message, error.fix) == (f"{what} is not part of the language", fix)
    assert text[error.offset : error.offset + error.length] == offending


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("(" * MAX_DEPTH + "a" + ")" * MAX_DEPTH, True),
        ("(" * (MAX_DEPTH + 1) + "a" + ")" * (MAX_DEPTH + 1), False),
        ("a" + " + a" * (MAX_DEPTH - 1), True),
        ("a" + " + a" * MAX_DEPTH, False),
        ("(" * 1999, False),
        ("-" * 1999 + "a", False),
        ("a" + " + a" * 999, False),
        (" " * 5000 + "a" * MAX_LENGTH, True),
        ("a" * (MAX_LENGTH + 1), False),
    ],
)
def test_limits(text: str, accepted: bool) -> None:
    if accepted:
        parse(text)
    else:
        assert failure(lambda: parse(text)).fix == "split it into named values"


def test_error_text_and_pickling() -> None:
    error = failure(lambda: parse("a && b"))
    assert str(error) == "'&&' is not part of the language; write 'and'"
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.message, copy.offset, copy.length, copy.fix) == error.args


def test_import_is_free_of_lark() -> None:
    program = "import sys, schedgen.expressions; sys.exit('lark' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
