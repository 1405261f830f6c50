"""Rendering, ordering and collecting of diagnostics."""

import pickle
import unicodedata

import pytest

from schedgen.errors import (
    MAX_RENDERED,
    Diagnostic,
    DiagnosticSink,
    Location,
    SchedgenError,
    SpecError,
    suggest,
)


def diagnostic(line: int = 1, column: int = 1, file: str = "x.yaml") -> Diagnostic:
    return Diagnostic("some-rule", f"at {line}:{column}", file, Location(line, column))


def carets(source_line: str, column: int, length: int) -> tuple[str, str]:
    """Return the source line and the caret line of a rendered diagnostic, without the gutter."""
    shown = Diagnostic("r", "m", "f", Location(7, column, length), source_line).render()
    _, excerpt, below = shown.split("\n")
    assert excerpt.startswith("  7 |")
    assert below.startswith("    | ")
    return excerpt[6:], below[6:]


def columns(text: str) -> int:
    """Return how many terminal columns a text takes; independent of the code under test."""
    return sum(1 + (unicodedata.east_asian_width(char) in "WF") for char in text)


def test_renders_headline_source_carets_and_fix() -> None:
    shown = Diagnostic(
        "unknown-buffer",
        "'sKK' is not a buffer of this kernel",
        "specs/x.yaml",
        Location(7, 11, 3),
        "  reads: [sKK]",
        "did you mean 'sK'?",
    )
    assert shown.render() == (
        "specs/x.yaml:7:11: error[unknown-buffer]: 'sKK' is not a buffer of this kernel\n"
        "  7 |   reads: [sKK]\n"
        "    |           ^^^\n"
        "  fix: did you mean 'sK'?"
    )


def test_renders_without_location() -> None:
    shown = Diagnostic("file-not-found", "there is no such file", "x.yaml", fix="create it")
    assert shown.render() == (
        "x.yaml: error[file-not-found]: there is no such file\n  fix: create it"
    )


@pytest.mark.parametrize(
    ("line", "column", "length", "excerpt", "below"),
    [
        ("abc", 2, 1, "abc", " ^"),
        ("abc", 2, 99, "abc", " ^^"),
        ("abc", 4, 1, "abc", "   ^"),
        ("abc", 40, 1, "abc", "   ^"),
        ("", 1, 1, "", "^"),
        ("\ta\tb", 2, 1, "    a    b", "    ^"),
        ("\ta\tb", 3, 2, "    a    b", "     ^^^^^"),
        ("宽度: x", 2, 1, "宽度: x", "  ^^"),
        ("宽度: x", 5, 1, "宽度: x", "      ^"),
        ("e\u0301x", 3, 1, "e\u0301x", " ^"),
        ("a\x00\x1b[2Jb", 7, 1, "a\ufffd\ufffd[2Jb", "      ^"),
    ],
)
def test_carets_line_up(line: str, column: int, length: int, excerpt: str, below: str) -> None:
    assert carets(line, column, length) == (excerpt.rstrip(), below)


@pytest.mark.parametrize("column", [1, 20, 150, 999, 1000])
@pytest.mark.parametrize("filler", ["x", "宽"])
def test_long_lines_are_cut_around_the_caret(column: int, filler: str) -> None:
    line = filler * (column - 1) + "@" + filler * (1000 - column)
    excerpt, below = carets(line, column, 1)
    assert columns(excerpt) <= 102  # two ellipses
    assert below.strip() == "^"
    at = excerpt.index("@")
    assert columns(excerpt[:at]) == len(below) - 1
    assert excerpt.startswith("…") == (column > 60)
    assert excerpt.endswith("…") == (column < 999)


def test_a_span_longer_than_the_window_is_cut() -> None:
    excerpt, below = carets("x" * 500, 10, 400)
    assert len(below) < len(excerpt)


def test_spec_error_sorts_by_file_and_position() -> None:
    whole_file = Diagnostic("some-rule", "no position", "x.yaml")
    error = SpecError(
        [diagnostic(9, 1), diagnostic(2, 7), diagnostic(2, 3), whole_file, diagnostic(5, 1, "a")]
    )
    positions = [(found.file, found.location) for found in error.diagnostics]
    assert positions == [
        ("a", Location(5, 1)),
        ("x.yaml", None),
        ("x.yaml", Location(2, 3)),
        ("x.yaml", Location(2, 7)),
        ("x.yaml", Location(9, 1)),
    ]
    assert isinstance(error, SchedgenError)


def test_spec_error_caps_what_it_prints() -> None:
    few = str(SpecError(diagnostic(line) for line in range(1, MAX_RENDERED + 1)))
    assert "more" not in few
    many = str(SpecError(diagnostic(line) for line in range(1, MAX_RENDERED + 4)))
    assert many == f"{few}\n… and 3 more"


def test_spec_error_needs_a_diagnostic() -> None:
    with pytest.raises(ValueError, match="at least one"):
        SpecError([])


def test_spec_error_pickles() -> None:
    error = SpecError([diagnostic()])
    assert pickle.loads(pickle.dumps(error)).diagnostics == error.diagnostics


def test_sink_raises_everything_at_once() -> None:
    sink = DiagnosticSink()
    assert not sink
    sink.raise_if_any()
    sink.error(diagnostic(2))
    sink.error(diagnostic(1))
    assert sink
    assert sink.diagnostics == (diagnostic(2), diagnostic(1))
    with pytest.raises(SpecError) as caught:
        sink.raise_if_any()
    assert caught.value.diagnostics == (diagnostic(1), diagnostic(2))


@pytest.mark.parametrize(
    ("word", "candidates", "expected"),
    [
        ("sKK", {"sK", "sV", "tS"}, "did you mean 'sK'?"),
        ("SK", ["sK"], "did you mean 'sK'?"),
        ("tensr", ["tma", "tensor"], "did you mean 'tensor'?"),
        ("x", ["sK", "sV"], None),
        ("x", [], None),
        ("b" * 101, ["b" * 101], None),
    ],
)
def test_suggest(word: str, candidates: list[str], expected: str | None) -> None:
    assert suggest(word, candidates) == expected
