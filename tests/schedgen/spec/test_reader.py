"""Reading shipped specs, files and texts, and building specs in Python."""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import pytest

from schedgen.driver.binding import kernels_of
from schedgen.errors import SchedgenError, SpecError
from schedgen.machine_file import read_machine
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec, read_spec, shipped_specs, spec_from_data
from schedgen.spec.source import parse_source
from schedgen.spec.yaml_text import yaml_text

TINY: dict[str, Any] = {
    "schedgen": 1,
    "kernel": "tiny",
    "targets": ["b200"],
    "parameters": {"n": {"default": 64}},
    "arguments": {
        "x": {"shape": ("m", "n"), "dtype": "f32"},
        "y": {"shape": ["m", "n"], "dtype": "f32"},
    },
    "buffers": {
        "sX": {"space": "smem", "shape": [64, "n"]},
        "sY": {"space": "smem", "shape": [64, "n"]},
    },
    "loops": {"trips": 4},
    "operations": {
        "body": [
            {"id": "LX", "kind": "load", "from": "x", "to": "sX"},
            {"id": "UP", "kind": "map", "to": {"sY": "sX * 2"}},
            {"id": "ST", "kind": "store", "from": "sY", "to": "y"},
        ]
    },
}


def test_shipped_specs_by_name_and_by_path(tmp_path: Path) -> None:
    assert {"attention_fwd", "gemm"} <= set(shipped_specs())
    spec = read_spec("gemm")
    assert spec.source.file == "specs/gemm.yaml"
    path = tmp_path / "mine.yaml"
    path.write_text(spec.source.text, encoding="utf-8")
    mine = read_spec(str(path))
    assert (mine.file, mine.source.file) == (spec.file, str(path))
    assert parse_spec(spec.source.text).file == spec.file


@pytest.mark.medium
@pytest.mark.parametrize("name", shipped_specs())
def test_specs_from_data(name: str) -> None:
    """The text that data amounts to reads as the same data and binds to the same kernels."""
    spec = read_spec(name)
    again = spec_from_data(spec.source.data, name)
    assert again.source.data == spec.source.data
    assert again.file == spec.file
    room = max(100, 60 + max(map(len, _texts(spec.source.data))))  # one value is never broken
    assert max(map(len, again.source.text.splitlines())) <= room
    machine = read_machine(spec.file.targets[0])
    first, second = (kernels_of(s, machine, {})[0] for s in (spec, again))
    assert (first.operations, first.pieces) == (second.operations, second.pieces)


def _texts(data: object) -> Iterator[str]:
    """All values that are texts."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        for one in cast("Mapping[str, object]", data).values():
            yield from _texts(one)
    elif isinstance(data, Sequence):
        for one in cast("Sequence[object]", data):
            yield from _texts(one)


def test_rendered_text() -> None:
    assert yaml_text(TINY, "x") == (
        "schedgen: 1\n"
        "kernel: tiny\n"
        "targets: [b200]\n"
        "parameters:\n"
        "  n: {default: 64}\n"
        "arguments:\n"
        "  x: {shape: [m, n], dtype: f32}\n"
        "  y: {shape: [m, n], dtype: f32}\n"
        "buffers:\n"
        "  sX: {space: smem, shape: [64, n]}\n"
        "  sY: {space: smem, shape: [64, n]}\n"
        "loops:\n"
        "  trips: 4\n"
        "operations:\n"
        "  body:\n"
        "    - {id: LX, kind: load, from: x, to: sX}\n"
        "    - {id: UP, kind: map, to: {sY: sX * 2}}\n"
        "    - {id: ST, kind: store, from: sY, to: y}\n"
    )


@pytest.mark.parametrize(
    "value",
    [
        *("", "true", "Null", "~", "1", "1.5", "a: b", "a #b", "- a", "[a", "it's", 'say "x"'),
        *("é\\n", "0x10", "a ", " a", "<<", "*a", "&a", "!a", "{tile}", "x, y", "%", "@"),
        *("a\tb", "\u00a0"),
    ],
)
def test_strings_survive(value: str) -> None:
    data = {"a": value, "b": [value], "c": {"d": {"e": [{"f": value, value: 1}]}}}
    assert parse_source(yaml_text(data, "x"), "x").data == data


def test_numbers() -> None:
    data = {"a": [1, 0.5, Fraction(3, 4), np.int64(7), True, float("-inf")]}
    assert parse_source(yaml_text(data, "x"), "x").data == {"a": [1, "0.5", "3/4", 7, True, "-inf"]}


def test_other_mappings() -> None:
    assert spec_from_data(MappingProxyType(TINY)).file == spec_from_data(TINY).file


def test_mistakes_in_data_show_the_rendered_line() -> None:
    operations = {"body": [{**TINY["operations"]["body"][0], "to": "sZ"}]}
    spec = spec_from_data({**TINY, "operations": operations}, "generated")
    with pytest.raises(SpecError) as caught:
        bind(spec.source, spec.file, "b200")
    (found,) = caught.value.diagnostics
    assert found.render().splitlines()[:3] == [
        "generated:16:41: error[unknown-buffer]: 'sZ' is not a buffer of this kernel",
        "  16 |     - {id: LX, kind: load, from: x, to: sZ}",
        "     |                                         ^^",
    ]
    with pytest.raises(SpecError, match=r"<python>:1:11: .*expected 1, got 2"):
        spec_from_data({**TINY, "schedgen": 2})
    with pytest.raises(SpecError, match="yaml-empty"):
        spec_from_data({})


def test_values_that_specs_do_not_have() -> None:
    with pytest.raises(SchedgenError, match=r"mine: loops\.trips: a set cannot be part of a spec"):
        spec_from_data({**TINY, "loops": {"trips": {1}}}, "mine")
    with pytest.raises(SchedgenError, match="buffers: a bytes cannot be part of a spec"):
        spec_from_data({**TINY, "buffers": {b"sX": {}}})
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(SchedgenError, match="nested more than"):
        spec_from_data({**TINY, "about": endless})
    with pytest.raises(SpecError, match="yaml-key-not-string"):
        spec_from_data({**TINY, 3: 4})  # type: ignore[dict-item]
    with pytest.raises(SpecError, match="missing-value"):
        spec_from_data({**TINY, "loops": {"trips": None}})
