"""Reading spec files: every way in which a file can be wrong."""

import os
from pathlib import Path

import pytest

from schedgen.errors import Diagnostic, SpecError
from schedgen.spec.source import MAX_BYTES, parse_source, read_source
from schedgen.spec.yaml_nodes import MAX_DEPTH, MAX_NODES


def failure(text: str) -> tuple[Diagnostic, ...]:
    with pytest.raises(SpecError) as caught:
        parse_source(text, "x.yaml")
    return caught.value.diagnostics


def brief(diagnostic: Diagnostic) -> tuple[str, int, int, int]:
    assert diagnostic.location is not None
    at = diagnostic.location
    return diagnostic.rule, at.line, at.column, at.length


WRONG = [
    ("", "yaml-empty", 1, 1, 1),
    ("# only\n# comments\n", "yaml-empty", 1, 1, 1),
    ("---\n", "yaml-empty", 1, 1, 1),
    ("just text\n", "yaml-not-a-mapping", 1, 1, 9),
    ("a:1\n", "yaml-not-a-mapping", 1, 1, 3),
    ("- a\n- b\n", "yaml-not-a-mapping", 1, 1, 3),
    ("null\n", "yaml-not-a-mapping", 1, 1, 4),
    # Characters.
    ("a: 1\nb: x\0y\n", "yaml-control-character", 2, 5, 1),
    ("a: \x1b[2J\n", "yaml-control-character", 1, 4, 1),
    ("a: 1\rb: 2\n", "yaml-control-character", 1, 5, 1),
    ("a: x\u202ey\n", "yaml-control-character", 1, 5, 1),
    ("a: \ufeffb\n", "yaml-control-character", 1, 4, 1),
    ("a: \ud800\n", "yaml-control-character", 1, 4, 1),
    ('a: "\\u001b[2J"\n', "yaml-control-character", 1, 4, 11),
    ('a: "\\ud800"\n', "yaml-control-character", 1, 4, 8),
    # Layout.
    ("a:\n\tb: 1\n", "yaml-tab", 2, 1, 1),
    ("a:\tb\n", "yaml-tab", 1, 3, 1),
    ("a:\n  b: 1\n c: 2\n", "yaml-indentation", 3, 2, 1),
    ("a:\n  - 1\n - 2\n", "yaml-indentation", 3, 2, 1),
    ("- a\nb: 1\n", "yaml-indentation", 2, 1, 1),
    ("a: 1\n  b: 2\n", "yaml-indentation", 2, 4, 1),
    ("a: |\n   b\n  c\n", "yaml-indentation", 3, 3, 1),
    # Brackets and quotes.
    ("a: [1, 2\n", "yaml-unclosed", 1, 4, 1),
    ("a: [1, {b: [2,\n", "yaml-unclosed", 1, 12, 1),
    ("a: [[1], [2],\n", "yaml-unclosed", 1, 4, 1),
    ("a: [1, 2\nb: 3\n", "yaml-unclosed", 1, 4, 5),
    ("a: {b: 1\nc: 2\n", "yaml-unclosed", 1, 4, 5),
    ("a: 'x\nb: 1\n", "yaml-unclosed", 1, 4, 2),
    ('a: 1\nb: "x\n', "yaml-unclosed", 2, 4, 2),
    ("a: [1}\n", "yaml-syntax", 1, 6, 1),
    ("a: [1]]\n", "yaml-syntax", 1, 7, 1),
    ("a: [1,,2]\n", "yaml-syntax", 1, 7, 1),
    ("a: }\n", "yaml-syntax", 1, 4, 1),
    ("{a: 1}}\n", "yaml-syntax", 1, 7, 1),
    # Other syntax.
    ("a: 1\nfoo\n", "yaml-syntax", 2, 1, 3),
    ("a: b: c\n", "yaml-syntax", 1, 5, 1),
    ("a: 'it's'\n", "yaml-syntax", 1, 8, 1),
    ("a: @x\n", "yaml-syntax", 1, 4, 1),
    ("a: %x\n", "yaml-syntax", 1, 4, 1),
    ("a: - 1\n", "yaml-syntax", 1, 4, 1),
    ("a: ? b\n", "yaml-syntax", 1, 4, 1),
    ("a: |x\n  b\n", "yaml-syntax", 1, 5, 1),
    ("a: 1\n... x\n", "yaml-syntax", 2, 5, 1),
    ('a: "\\q"\n', "yaml-escape", 1, 6, 1),
    ('a: "\\xzz"\n', "yaml-escape", 1, 7, 1),
    ('a: 1\nb: "\\UFFFFFFFF"\n', "yaml-escape", 2, 7, 1),
    ('a: "\\U00110000"\n', "yaml-escape", 1, 7, 1),
    # What YAML has and specs do not.
    ("%YAML 1.1\n---\na: yes\n", "yaml-directive", 1, 1, 9),
    ("# c\n\n%TAG ! x\n---\na: 1\n", "yaml-directive", 3, 1, 8),
    ("a: 1\n---\nb: 1\n", "yaml-multiple-documents", 2, 1, 3),
    ("a: 1\n...\n%TAG ! x\n---\n", "yaml-multiple-documents", 4, 1, 3),
    ("a: !!python/object:os.system x\n", "yaml-tag", 1, 4, 25),
    ("a: !!str 1\n", "yaml-tag", 1, 4, 5),
    ("a: !unknown!x 1\n", "yaml-tag", 1, 4, 12),
    ("a: !<x y\n", "yaml-tag", 1, 4, 5),
    ("!!map {a: 1}\n", "yaml-tag", 1, 1, 5),
    ("a: &anchor 1\n", "yaml-anchor", 1, 4, 7),
    ("a: *alias\n", "yaml-anchor", 1, 4, 6),
    ("*alias : 1\n", "yaml-anchor", 1, 1, 6),
    ("a: &b !c d\n", "yaml-anchor", 1, 4, 2),
    ("a: * x\n", "yaml-anchor", 1, 4, 3),
    ("a: &\n", "yaml-anchor", 1, 4, 1),
    ("a:\n  <<: {b: 1}\n", "yaml-merge-key", 2, 3, 2),
    # Keys.
    ("a: 1\nb: 2\na: 3\n", "yaml-duplicate-key", 3, 1, 1),
    ("a: {b: 1, 'b': 2}\n", "yaml-duplicate-key", 1, 11, 3),
    ("1: a\n", "yaml-key-not-string", 1, 1, 1),
    ("a: {true: 1}\n", "yaml-key-not-string", 1, 5, 4),
    ("1.5: a\n", "yaml-key-not-string", 1, 1, 3),
    ("~: a\n", "yaml-key-not-string", 1, 1, 1),
    (": a\n", "yaml-key-not-string", 1, 1, 1),
    ("? [a, b]\n: 1\n", "yaml-key-not-string", 1, 3, 6),
    ("{a: 1}: 1\n", "yaml-key-not-string", 1, 1, 6),
    # Numbers.
    ("a: 1000000000000000000\n", "yaml-integer-too-large", 1, 4, 19),
    ("a: 0xFFFFFFFFFFFFFFFF\n", "yaml-integer-too-large", 1, 4, 18),
    ("a: " + "9" * 5000 + "\n", "yaml-integer-too-large", 1, 4, 5000),
    ("a: -.inf\n", "yaml-not-finite", 1, 4, 5),
    ("a: [1, .NaN]\n", "yaml-not-finite", 1, 8, 4),
    # Size.
    ("a: " + "[" * 200, "yaml-too-deep", 1, 3 + MAX_DEPTH, 1),
    ("- " * 100, "yaml-too-deep", 1, 2 * MAX_DEPTH + 1, 1),
]


@pytest.mark.parametrize(("text", "rule", "line", "column", "length"), WRONG)
def test_wrong_text(text: str, rule: str, line: int, column: int, length: int) -> None:
    (found,) = failure(text)
    assert brief(found) == (rule, line, column, length)
    assert found.file == "x.yaml"
    assert found.source_line is not None
    assert found.source_line in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\nb: 2\na: 3\n", "duplicate key 'a', first defined in line 1"),
        ("a: {true: 1}\n", "keys are strings, but 'true' is a boolean"),
        ("a: x\0\n", "the character NUL is not allowed in a spec"),
        ("a: x\x7f\n", "the character U+007F is not allowed in a spec"),
        ("a: 1\n...\n%YAML 3.0\n---\n", "not valid YAML: found incompatible YAML document"),
        ("x: [a\ny: b\n", "expected ',' or ']' before line 2, column 2, to go on with or close"),
        ("a:\n    b: 1\n  c: 2\n", "this line does not fit the block that starts in line 1"),
    ],
)
def test_messages(text: str, message: str) -> None:
    (found,) = failure(text)
    assert found.message.startswith(message)


def test_all_errors_up_to_a_syntax_error_are_reported() -> None:
    text = "a: &x 1\n1: .inf\na: !t 2\n<<: *x\nb: [\n"
    assert [brief(found) for found in failure(text)] == [
        ("yaml-anchor", 1, 4, 2),
        ("yaml-key-not-string", 2, 1, 1),
        ("yaml-not-finite", 2, 4, 4),
        ("yaml-duplicate-key", 3, 1, 1),
        ("yaml-tag", 3, 4, 2),
        ("yaml-merge-key", 4, 1, 2),
        ("yaml-anchor", 4, 5, 2),
        ("yaml-unclosed", 5, 4, 1),
    ]


def test_words_of_the_text_do_not_pick_the_explanation() -> None:
    (found,) = failure("a: found '<stream end>' expected ',' or ']': b\n")
    assert brief(found)[0] == "yaml-syntax"


def test_deepest_nesting() -> None:
    lists = MAX_DEPTH - 1  # in a mapping
    parse_source("a: " + "[" * lists + "]" * lists, "x.yaml")
    (found,) = failure("a: " + "[" * (lists + 1) + "]" * (lists + 1))
    assert brief(found) == ("yaml-too-deep", 1, 4 + lists, 1)


@pytest.mark.slow
def test_too_many_nodes() -> None:
    rest = MAX_NODES - 3  # beside the mapping, its key and the list
    parse_source("a: [" + "x," * rest + "]", "x.yaml")
    (found,) = failure("a: [\n" + "x,\n" * (rest + 1) + "]")
    assert brief(found) == ("yaml-too-many-nodes", rest + 2, 1, 1)


@pytest.mark.parametrize(
    ("data", "line", "column", "message"),
    [
        (b"a: \xff\n", 1, 4, "byte 0xff at offset 3 is not UTF-8 (line 1)"),
        (b"a: \xc3\xa9\nb: \xc3\xa9\xe9\n", 2, 5, "byte 0xe9 at offset 11 is not UTF-8 (line 2)"),
        (b"a: \xed\xa0\x80\n", 1, 4, "byte 0xed at offset 3 is not UTF-8 (line 1)"),
        ("a: 1\n".encode("utf-16"), 1, 1, "byte 0xff at offset 0 is not UTF-8 (line 1)"),
    ],
)
def test_not_utf8(tmp_path: Path, data: bytes, line: int, column: int, message: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_bytes(data)
    with pytest.raises(SpecError) as caught:
        read_source(path)
    (found,) = caught.value.diagnostics
    assert brief(found) == ("yaml-not-utf8", line, column, 1)
    assert found.message == message
    assert ("UTF-16" in str(found.fix)) == data.startswith(b"\xff\xfe")


def test_unreadable_files(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.touch()
    os.truncate(large, MAX_BYTES + 1)
    pipe = tmp_path / "pipe.yaml"
    os.mkfifo(pipe)
    loop = tmp_path / "loop.yaml"
    loop.symlink_to(loop)
    expected = {
        tmp_path / "missing.yaml": "file-not-found",
        tmp_path: "file-is-directory",
        pipe: "file-not-regular",
        Path("/dev/zero"): "file-not-regular",
        large: "file-too-large",
        loop: "file-unreadable",
        tmp_path / "nul\0.yaml": "file-unreadable",
        tmp_path / ("x" * 300): "file-unreadable",
        large / "x.yaml": "file-unreadable",
    }
    for path, rule in expected.items():
        with pytest.raises(SpecError) as caught:
            read_source(path)
        (found,) = caught.value.diagnostics
        assert (found.rule, found.file, found.location) == (rule, str(path), None)


@pytest.mark.slow
def test_largest_file(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: 1\n#" + "x" * (MAX_BYTES - 6))
    assert read_source(path).data == {"a": 1}
    with pytest.raises(SpecError, match="file-too-large"):
        parse_source(path.read_text() + "x", "x.yaml")
