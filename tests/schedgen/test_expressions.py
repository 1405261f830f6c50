"""The expression language: syntax, messages, arithmetic, element-wise formulas and their cost."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedgen.expressions import (
    ELEMENTWISE,
    MAX_DEPTH,
    MAX_LENGTH,
    Binary,
    Boolean,
    Call,
    Compare,
    Expression,
    ExpressionError,
    Logical,
    Name,
    Number,
    OperationCounts,
    Text,
    Unary,
    check_condition,
    check_formula,
    count_operations,
    evaluate,
    evaluate_int,
    parse,
    references,
    render,
)
from schedgen.expressions.functions import FUNCTIONS
from schedgen.expressions.mistakes import RESERVED

VALUES = {"tile_n": 128, "seq_k": 1000, "keys": 130, "kib": 1024, "causal": False, "acc": "tmem"}
TILES = {"rS", "rX", "O", "P"}
ROWS = {"m", "mx", "alpha", "l", "bias"}
SCALARS = {"scale", "beta"}


def failure(action: Callable[[], object]) -> ExpressionError:
    """Return the error that ``action`` raises."""
    with pytest.raises(ExpressionError) as caught:
        action()
    return caught.value


def costs(text: str) -> dict[str, int]:
    """Return the non-zero counts of a formula over TILES, ROWS and SCALARS."""
    counts = count_operations(
        parse(text), lambda name: name.name in TILES, lambda name: name.name in SCALARS
    )
    fields = {field: getattr(counts, field) for field in OperationCounts.__dataclass_fields__}
    return {field: count for field, count in fields.items() if count}


# --- syntax -----------------------------------------------------------------------------------

A, B, C = Name("a"), Name("b"), Name("c")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.5", Number(Fraction(1, 2))),
        ("1e-7", Number(Fraction(1, 10**7))),
        ("'tmem'", Text("tmem")),
        ('"it\'s"', Text("it's")),
        ("true", Boolean(True)),
        ("m@1", Name("m", 1)),
        ("m@0", Name("m")),
        ("android", Name("android")),
        ("a - b - c", Binary("-", Binary("-", A, B), C)),
        ("a + b * c", Binary("+", A, Binary("*", B, C))),
        ("a // b % c", Binary("%", Binary("//", A, B), C)),
        ("-a * b", Binary("*", Unary("-", A), B)),
        ("a - -b", Binary("-", A, Unary("-", B))),
        ("not a == b", Unary("not", Compare("==", A, B))),
        ("a or b and c", Logical("or", A, Logical("and", B, C))),
        ("a < b + c", Compare("<", A, Binary("+", B, C))),
        ("max(a,\n b, c)", Call("max", (A, B, C))),
    ],
)
def test_parse(text: str, expected: Expression) -> None:
    assert parse(text) == expected


def test_positions_include_own_parentheses() -> None:
    tree = parse(" (a + b) * exp2(c)")
    assert isinstance(tree, Binary)
    positions = [(node.offset, node.length) for node in (tree, tree.left, tree.right)]
    assert positions == [(1, 17), (1, 7), (11, 7)]


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("((a))*(b+c)", "a * (b + c)"),
        ("(a*b)+(c)", "a * b + c"),
        ("a-(b-c)", "a - (b - c)"),
        ("-(-a)", "--a"),
        ("-(a*b)", "-(a * b)"),
        ("(not a) == b", "(not a) == b"),
        ("(a == b) == c", "(a == b) == c"),
        ("(a or b) and c", "(a or b) and c"),
        ("where((m@1-mx)*scale>=-8,m@1,mx)", "where((m@1 - mx) * scale >= -8, m@1, mx)"),
        ("0.50 + 1E-7 + 10e2 + 1e30", "0.5 + 1e-7 + 1000 + 1e30"),
    ],
)
def test_render(text: str, canonical: str) -> None:
    assert render(parse(text)) == canonical


def test_render_of_literals_that_have_no_spelling() -> None:
    third = Binary("*", A, Number(Fraction(-1, 3)))
    assert render(third) == "a * (-1 / 3)"
    assert render(Binary("-", A, Number(Fraction(-2)))) == "a - -2"


def test_references_in_order_of_first_appearance() -> None:
    found = references(parse("where(m@1 > mx, m@1, exp2(mx) + m)"))
    assert found == (Name("m", 1), Name("mx"), Name("m"))


# --- syntax errors ----------------------------------------------------------------------------

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


# --- random expressions and random text -------------------------------------------------------

identifiers = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}", fullmatch=True).filter(
    lambda word: word not in RESERVED
)
numbers = st.builds(
    Decimal, st.builds("{}e{}".format, st.integers(0, 10**20), st.integers(-40, 40))
)
strings = st.text(st.characters(exclude_characters="'\n", codec="utf-8")) | st.sampled_from(["'"])
leaves = st.one_of(
    numbers.map(lambda number: Number(Fraction(number))),
    strings.map(Text),
    st.booleans().map(Boolean),
    st.builds(Name, identifiers, st.integers(0, 3)),
)


def branches(operands: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
    """Return a strategy for every kind of inner node above ``operands``."""

    def calls(name: str) -> st.SearchStrategy[Call]:
        function = FUNCTIONS[name]
        most = function.arity + 2 if function.variadic else function.arity
        arguments = st.lists(operands, min_size=function.arity, max_size=most).map(tuple)
        return st.builds(Call, st.just(name), arguments)

    return st.one_of(
        st.builds(Unary, st.sampled_from(["+", "-", "not"]), operands),
        st.builds(Binary, st.sampled_from(["+", "-", "*", "/", "//", "%"]), operands, operands),
        st.builds(Compare, st.sampled_from(["==", "!=", "<", "<=", ">"]), operands, operands),
        st.builds(Logical, st.sampled_from(["and", "or"]), operands, operands),
        st.sampled_from(sorted(FUNCTIONS)).flatmap(calls),
    )


@given(st.recursive(leaves, branches, max_leaves=25))
def test_round_trip(expression: Expression) -> None:
    assert parse(render(expression)) == expression


words = st.sampled_from(
    [*"+-*/%()@,<>=!.'\" ab1", "//", "==", " and ", " not ", "max(", "1e", "m@1"]
)


@given(st.text(max_size=60) | st.lists(words, max_size=25).map("".join))
def test_random_text_raises_nothing_else(text: str) -> None:
    try:
        expression = parse(text)
    except ExpressionError as error:
        offending = range(error.offset, error.offset + error.length)
    else:
        offending = range(0)
        assert parse(render(expression)) == expression
    assert set(offending) <= set(range(len(text)))


# Without //, which turns two of Python's fractions into an int, and int / int is a float.
arithmetic = st.recursive(
    st.sampled_from([A, B, C]),
    lambda operands: st.one_of(
        st.builds(Unary, st.sampled_from(["+", "-"]), operands),
        st.builds(Binary, st.sampled_from(["+", "-", "*", "/", "%"]), operands, operands),
    ),
    max_leaves=8,
)


@given(arithmetic, st.lists(st.fractions(-50, 50, max_denominator=3), min_size=3, max_size=3))
def test_arithmetic_agrees_with_python(expression: Expression, numbers: list[Fraction]) -> None:
    values = dict(zip("abc", numbers, strict=True))
    try:
        expected = Fraction(eval(render(expression), {}, values))
    except ZeroDivisionError:
        assert failure(lambda: evaluate(expression, values)).message == "division by zero"
    else:
        assert evaluate(expression, values) == expected


# --- arithmetic over parameters ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tile_n * 2", 256),
        ("ceil(seq_k / tile_n)", 8),
        ("floor(-seq_k / tile_n)", -8),
        ("keys * 3/4", Fraction(195, 2)),
        ("max(30, 6*kib, abs(-5))", 6144),
        ("seq_k // tile_n + seq_k % tile_n", 7 + 104),
        ("0.1 + 0.2 == 0.3", True),
        ("acc == 'tmem' and not causal", True),
        ("acc != 'smem'", True),
        ("causal == false", True),
        ("causal and 1 / 0 > 1", False),
        ("not causal or 1 / 0 > 1", True),
        ("acc", "tmem"),
    ],
)
def test_evaluate(text: str, expected: Fraction | int | bool | str) -> None:
    value = evaluate(parse(text), VALUES)
    assert value == expected
    assert isinstance(value, bool) is isinstance(expected, bool)


def test_evaluate_compares_members_of_string_enumerations() -> None:
    space = StrEnum("space", ["TMEM"])
    assert evaluate(parse("acc == 'tmem'"), {"acc": space["TMEM"]}) is True


@pytest.mark.parametrize(
    ("text", "offending", "message", "fix"),
    [
        ("2 * tile_m", "tile_m", "unknown name 'tile_m'", "did you mean 'tile_n'?"),
        ("ceil * 2", "ceil", "unknown name 'ceil'", "'ceil' is a function: write ceil(...)"),
        ("1 / (kib - 1024)", "(kib - 1024)", "division by zero", None),
        ("1 % 0", "0", "division by zero", None),
        ("1 + acc", "acc", "'+' needs a number, not the string 'tmem'", None),
        ("-causal", "causal", "'-' needs a number, not the truth value false", None),
        ("max(1, 'a')", "'a'", "'max' needs a number, not the string 'a'", None),
        ("acc < 'b'", "acc", "'<' needs a number, not the string 'tmem'", None),
        ("not 0.5", "0.5", "'not' needs a condition, not the number 0.5", None),
        ("acc == 1", "acc == 1", "cannot compare the string 'tmem' with the number 1", None),
        (
            "m@1 + 1",
            "m@1",
            "'m@1' is the value of an earlier loop iteration; "
            "arithmetic over parameters has no loop",
            None,
        ),
        (
            "exp2(kib)",
            "exp2(kib)",
            "exp2 works on tiles; it has no meaning in arithmetic over parameters",
            "functions of parameters: abs, ceil, floor, max, min",
        ),
        ("1e18 + 1", "1e18 + 1", "the value is too large: it needs more than 18 digits", None),
        ("0 * 1e19", "1e19", "the value is too large: it needs more than 18 digits", None),
    ],
)
def test_evaluate_errors(text: str, offending: str, message: str, fix: str | None) -> None:
    error = failure(lambda: evaluate(parse(text), VALUES))
    assert (error.message, error.fix) == (message, fix)
    assert text[error.offset : error.offset + error.length] == offending


def test_evaluate_int() -> None:
    assert evaluate_int(parse("keys * 4/2"), VALUES) == 260
    error = failure(lambda: evaluate_int(parse("keys * 3/4 - 1"), VALUES))
    assert (error.message, error.fix) == (
        "96.5 is not an integer",
        "round it with ceil(...) or floor(...)",
    )
    for text, spelled in [("-1/3", "-1/3"), ("acc", "'tmem'"), ("not causal", "true")]:
        error = failure(lambda text=text: evaluate_int(parse(text), VALUES))
        assert error.message == f"{spelled} is not an integer"


# --- element-wise formulas --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rS*scale - m*scale", {"tile_fma": 1, "row_fma": 1}),
        ("exp2(rX)", {"tile_mufu": 1}),
        ("O*alpha", {"tile_fma": 1}),
        ("where((m@1 - mx) * scale >= -8, m@1, mx)", {"row_fma": 2, "row_alu": 2}),
        ("scale*rS + beta*P", {"tile_fma": 2}),
        ("gelu(rS + bias)", {"tile_fma": 6, "tile_mufu": 1}),
        # Fusion: every order of operands, through signs and divisions, never of hoisted products.
        ("rS*m + P", {"tile_fma": 1}),
        ("rS*m - P", {"tile_fma": 1}),
        ("P - rS*m", {"tile_fma": 1}),
        ("P + -(rS*m)", {"tile_fma": 1}),
        ("m*l + P", {"tile_fma": 1}),
        ("m*l + rS*P", {"tile_fma": 1, "row_fma": 1}),
        ("rS / 3 + P", {"tile_fma": 1}),
        ("rS + scale*beta", {"tile_fma": 1}),
        ("rS + P - m", {"tile_fma": 2}),
        # Ranks: row and scalar subexpressions leave the tile loop.
        ("rS", {}),
        ("-rS", {}),
        ("2 * scale / beta", {}),
        ("exp2(scale) * rS", {"tile_fma": 1}),
        ("scale*m*rS", {"tile_fma": 1, "row_fma": 1}),
        ("rS*scale*m", {"tile_fma": 2}),
        ("rS * exp2(m@1 - m)", {"tile_fma": 1, "row_fma": 1, "row_mufu": 1}),
        # Division.
        ("rS / P", {"tile_fma": 1, "tile_mufu": 1}),
        ("O / l", {"tile_fma": 1, "row_mufu": 1}),
        ("rS / scale", {"tile_fma": 1}),
        ("1 / rS", {"tile_mufu": 1}),
        ("m / rS", {"tile_fma": 1, "tile_mufu": 1}),
        ("1 / l + m", {"row_fma": 1, "row_mufu": 1}),
        # Other pipes, and values that are needed twice.
        ("max(rS, P, m)", {"tile_alu": 2}),
        ("where(m > 0 and not l > 0, rS, 0)", {"tile_alu": 1, "row_alu": 3}),
        ("rS * sigmoid(rS)", {"tile_fma": 3, "tile_mufu": 2}),
        ("exp2(rS) + P*exp2(rS)", {"tile_fma": 1, "tile_mufu": 1}),
        ("rS / l + P / l", {"tile_fma": 2, "row_mufu": 1}),
        ("rS*P + rS*P", {"tile_fma": 2}),
    ],
)
def test_count_operations(text: str, expected: dict[str, int]) -> None:
    check_formula(parse(text), TILES | ROWS | SCALARS)
    assert costs(text) == expected


def test_count_operations_of_every_function() -> None:
    for function in ELEMENTWISE.values():
        arguments = ", ".join(["rS", "P", "O"][: function.arity])
        counts = count_operations(parse(f"{function.name}({arguments})"), lambda name: True)
        assert counts == OperationCounts(function.fma, function.alu, function.mufu)


def test_count_operations_refuses_arithmetic() -> None:
    assert failure(lambda: costs("rS % 2")).message == "'%' is not an element-wise operation"
    assert failure(lambda: costs("ceil(rS)")).message == "'ceil' is not an element-wise operation"
    assert costs("rS * ceil(scale)") == {"tile_fma": 1}


CONDITION = "a condition stands where a number is needed"
WHERE = "write where(condition, a, b)"


@pytest.mark.parametrize(
    ("text", "offending", "message", "fix"),
    [
        ("rS * alfa", "alfa", "unknown name 'alfa'", "did you mean 'alpha'?"),
        ("rs@1", "rs@1", "unknown name 'rs'", "did you mean 'rS'?"),
        ("exp2 * rS", "exp2", "unknown name 'exp2'", "'exp2' is a function: write exp2(...)"),
        ("rS + 'a'", "'a'", "a string has no place in an element-wise formula", None),
        ("rS // 2", "rS // 2", "'//' is not an element-wise operation", None),
        ("exp2(rS % 2)", "rS % 2", "'%' is not an element-wise operation", None),
        ("rS > 0", "rS > 0", CONDITION, WHERE),
        ("rS * (m and l)", "(m and l)", CONDITION, WHERE),
        ("rS + true", "true", CONDITION, WHERE),
        ("where(m + 1, rS, 0)", "m + 1", "a condition is needed here", "compare it, e.g. x > 0"),
        ("where(m > 0, rS > 0, 0)", "rS > 0", CONDITION, WHERE),
        (
            "ceil(rS)",
            "ceil(rS)",
            "ceil is for arithmetic over parameters, not element-wise",
            "compute it as a parameter and use its name",
        ),
    ],
)
def test_check_formula_errors(text: str, offending: str, message: str, fix: str | None) -> None:
    error = failure(lambda: check_formula(parse(text), TILES | ROWS | SCALARS))
    assert (error.message, error.fix) == (message, fix)
    assert text[error.offset : error.offset + error.length] == offending


def test_check_condition() -> None:
    check_condition(parse("m > 0 and not (l == 1 or true) or bias"), ROWS)
    assert failure(lambda: check_condition(parse("m"), {"l"})).fix == "known names: l"
    assert failure(lambda: check_condition(parse("-m"), ROWS)).offset == 0
