"""Reading spec files: values, positions and where diagnostics point."""

import hashlib
from pathlib import Path

import pytest

from schedgen.errors import Diagnostic, Location
from schedgen.spec.source import Source, parse_source, read_source

SPEC = """\
# A kernel with a bit of everything.
name: attention
parameters:
  tile_n: 128
  scale: 0.1250  # exact
  causal: true
  sizes: [64, 0x80, 0o17, -5]
buffers:
  sK: {space: smem, shape: [tile_n, 'head_dim * 2'], dtype: bf16}
  "sV": {space: smem, depth: auto}
operations:
  - kind: mma
    reads: [sK, sV]
    when: "i > 0"
  - kind: map
    formula: |
      x * 2
      + 1
    note: 'it''s a
      folded text'
    empty:
"""


@pytest.fixture(scope="module")
def source() -> Source:
    return parse_source(SPEC, "specs/x.yaml")


def test_values(source: Source) -> None:
    assert source.data == {
        "name": "attention",
        "parameters": {
            "tile_n": 128,
            "scale": "0.1250",
            "causal": True,
            "sizes": [64, 128, 15, -5],
        },
        "buffers": {
            "sK": {"space": "smem", "shape": ["tile_n", "head_dim * 2"], "dtype": "bf16"},
            "sV": {"space": "smem", "depth": "auto"},
        },
        "operations": [
            {"kind": "mma", "reads": ["sK", "sV"], "when": "i > 0"},
            {
                "kind": "map",
                "formula": "x * 2\n+ 1\n",
                "note": "it's a folded text",
                "empty": None,
            },
        ],
    }


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("yes", "yes"),
        ("on", "on"),
        ("NO", "NO"),
        ("y", "y"),
        ("True", True),
        ("FALSE", False),
        ("'true'", "true"),
        ("~", None),
        ("null", None),
        ("", None),
        ("''", ""),
        ("-0", 0),
        ("+12", 12),
        ("010", 10),
        ("1_000", "1_000"),
        ("'1'", "1"),
        ("0xFf", 255),
        ("999999999999999999", 10**18 - 1),
        ("1.0", "1.0"),
        ("1e-3", "1e-3"),
        (".5", ".5"),
        ("2026-01-31", "2026-01-31"),
        ("1:30", "1:30"),
        ("'.inf'", ".inf"),
        ("=", "="),
        ("'<<'", "<<"),
        ('"\\u00e9\\n"', "é\n"),
        ("[-]", ["-"]),
        ("{}", {}),
        ("a#b", "a#b"),
        ("a -> b", "a -> b"),
    ],
)
def test_scalars_follow_the_core_schema(written: str, value: object) -> None:
    assert parse_source(f"a: {written}\n", "x.yaml").data == {"a": value}


def test_text_lines_and_digest(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbfa: 1\r\nb: 2\r\n"
    path = tmp_path / "x.yaml"
    path.write_bytes(data)
    source = read_source(path)
    assert source.sha256 == hashlib.sha256(data).hexdigest()
    assert source.file == str(path)
    assert source.text == "a: 1\r\nb: 2\r\n"
    assert [source.line(number) for number in range(5)] == ["", "a: 1", "b: 2", "", ""]
    assert source.locate(["b"]) == Location(2, 4, 1)
    assert parse_source(data.decode(), "x.yaml").sha256 == source.sha256


@pytest.mark.parametrize(
    ("path", "value", "key"),
    [
        ([], (2, 1, 15), (2, 1, 15)),
        (["name"], (2, 7, 9), (2, 1, 4)),
        (["parameters"], (4, 3, 11), (3, 1, 10)),
        (["parameters", "scale"], (5, 10, 6), (5, 3, 5)),
        (["parameters", "sizes", 2], (7, 21, 4), (7, 21, 4)),
        (["buffers", "sK"], (9, 7, 59), (9, 3, 2)),
        (["buffers", "sK", "shape", 1], (9, 37, 14), (9, 37, 14)),
        (["buffers", "sV", "depth"], (10, 30, 4), (10, 23, 5)),
        (["operations"], (12, 3, 11), (11, 1, 10)),
        (["operations", 1], (15, 5, 9), (15, 5, 9)),
        (["operations", 1, "formula"], (16, 14, 1), (16, 5, 7)),
        (["operations", 1, "note"], (19, 11, 8), (19, 5, 4)),
        (["operations", 1, "empty"], (21, 5, 5), (21, 5, 5)),
        # What does not match is skipped: union tags, missing keys, indices out of range.
        (["operations", 0, "mma", "reads", 1], (13, 17, 2), (13, 17, 2)),
        (["operations", 0, "mma", "writes"], (12, 5, 9), (12, 5, 9)),
        (["operations", 7], (12, 3, 11), (11, 1, 10)),
        (["operations", -1], (12, 3, 11), (11, 1, 10)),
        (["name", "str", 0], (2, 7, 9), (2, 1, 4)),
    ],
)
def test_locate(
    source: Source,
    path: list[str | int],
    value: tuple[int, int, int],
    key: tuple[int, int, int],
) -> None:
    assert source.locate(path) == Location(*value)
    assert source.locate(path, key=True) == Location(*key)


@pytest.mark.parametrize(
    ("path", "offset", "length", "expected"),
    [
        (["name"], 2, 3, (2, 9, 3)),
        (["name"], 2, None, (2, 9, 1)),
        (["name"], 7, 9, (2, 14, 2)),
        (["name"], 9, 1, (2, 16, 1)),  # just after the last character
        (["name"], 99, 1, (2, 16, 1)),
        (["buffers", "sK", "shape", 1], 9, 1, (9, 47, 1)),  # single quotes
        (["operations", 0, "when"], 2, 1, (14, 14, 1)),  # double quotes
        (["parameters", "scale"], 2, 2, (5, 12, 2)),
        (["operations", 1, "formula"], 2, 1, (16, 14, 1)),  # block: the whole value
        (["operations", 1, "note"], 2, 1, (19, 11, 8)),  # escaped and folded: likewise
        (["operations", 0, "reads"], 2, 1, (13, 12, 8)),  # not a scalar: likewise
        (["operations", 1, "empty"], 0, 1, (21, 5, 5)),
    ],
)
def test_diagnostic_inside_a_scalar(
    source: Source,
    path: list[str | int],
    offset: int,
    length: int | None,
    expected: tuple[int, int, int],
) -> None:
    found = source.diagnostic("some-rule", "wrong", path, offset=offset, length=length)
    assert found.location == Location(*expected)
    assert found.source_line == SPEC.splitlines()[expected[0] - 1]


def test_diagnostic(source: Source) -> None:
    found = source.diagnostic(
        "unknown-key", "no such key", ["buffers", "sV", "depth"], key=True, fix="delete it"
    )
    assert found == Diagnostic(
        "unknown-key",
        "no such key",
        "specs/x.yaml",
        Location(10, 23, 5),
        '  "sV": {space: smem, depth: auto}',
        "delete it",
    )


# One error each: text, rule, line, column, length.
