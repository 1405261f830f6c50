"""The JSON Schema for editors accepts what the reader accepts, and explains every key."""

import copy
import json
from collections.abc import Iterator
from typing import Any, cast

import pytest

from schedgen.spec.reader import read_spec, shipped_specs
from schedgen.spec.schema import json_schema


def validator() -> Any:
    """Return a JSON Schema validator, or skip the test if there is none."""
    jsonschema = pytest.importorskip("jsonschema")
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def as_an_editor_reads(node: Any) -> Any:
    """Turn the source text of floats into floats, which is what other YAML readers make of it."""
    if isinstance(node, dict):
        return {k: as_an_editor_reads(v) for k, v in cast("dict[str, Any]", node).items()}
    if isinstance(node, list):
        return [as_an_editor_reads(item) for item in cast("list[Any]", node)]
    try:
        return float(node) if isinstance(node, str) and "." in node else node
    except ValueError:
        return node


def test_head() -> None:
    schema = json_schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"] == "schedgen spec"
    assert "$id" not in schema
    assert json.loads(json.dumps(schema)) == schema


@pytest.mark.parametrize("name", shipped_specs())
def test_shipped_specs_are_valid(name: str) -> None:
    check, data = validator(), read_spec(name).source.data
    assert [error.message for error in check.iter_errors(data)] == []
    assert [error.message for error in check.iter_errors(as_an_editor_reads(data))] == []


def replaced(data: Any, path: tuple[str | int, ...], value: Any) -> Any:
    changed = copy.deepcopy(data)
    node = changed
    for key in path[:-1]:
        node = node[key]
    if value is None:
        del node[path[-1]]
    else:
        node[path[-1]] = value
    return changed


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("schedgen",), 2),
        (("kernel",), None),
        (("kernal",), "x"),
        (("targets",), []),
        (("targets",), "b200"),
        (("buffers", "s-A"), {"space": "smem", "shape": [1]}),
        (("buffers", "sA", "shape"), [1, 2, 3]),
        (("buffers", "sA", "lives"), "forever"),
        (("buffers", "sA", "split"), {"row": "band"}),
        (("buffers", "sA", "depth"), [1, 2, 3]),
        (("buffers", "sA", "space"), ["smem"]),
        (("buffers", "sA", "alias"), []),
        (("arguments", "a", "shape"), ["m * 2"]),
        (("operations", "body", 0, "kind"), "laod"),
        (("operations", "body", 0, "kind"), None),
        (("operations", "body", 0, "from"), None),
        (("operations", "body", 0, "source"), "a"),
        (("operations", "body", 0, "boundary"), "yes"),
        (("operations", "body"), []),
        (("operations", "after", 1, "to"), {"sD": True}),
        (("orders", "o"), {"sequence": ["MMA"]}),
    ],
)
def test_mistakes_are_invalid(path: tuple[str | int, ...], value: Any) -> None:
    data: dict[str, Any] = {"orders": {}, **read_spec("gemm").source.data}
    check = validator()
    assert check.is_valid(data)
    assert not check.is_valid(replaced(data, path, value))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("buffers", "sA", "depth"), [2, "auto + 1"]),
        (("buffers", "sA", "hazards"), False),
        (("buffers", "acc", "initial"), 0.5),
        (("buffers", "acc", "alias"), ["own sA", "none"]),
        (("parameters", "share"), {"choose": [0, 0.25, "3/16"]}),
        (("dimensions", "part"), {"sizes": ["tile_k * 3/4", 16]}),
        (("operations", "body", 0, "unit"), "TMA"),
        (("operations", "after", 1, "to"), {"sD": 0}),
    ],
)
def test_what_else_can_be_written(path: tuple[str | int, ...], value: Any) -> None:
    assert validator().is_valid(replaced(read_spec("gemm").source.data, path, value))


def properties(part: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    for name, model in part["$defs"].items():
        for key, value in model["properties"].items():
            yield f"{name}.{key}", value
    for key, value in part["properties"].items():
        yield key, value


def test_every_key_is_described() -> None:
    """Except ``kind`` and sections whose model says what they are."""
    schema = json_schema()
    for name, value in properties(schema):
        described = "description" in value or "$ref" in value or name.endswith(".kind")
        assert described or name in ("Reduce.op", "Mma.a", "Mma.b"), name
    for name, model in schema["$defs"].items():
        assert model["description"], name


def test_examples_fit_their_keys() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json_schema()
    examples = 0
    for name, value in properties(schema):
        check = jsonschema.Draft202012Validator({"$defs": schema["$defs"], **value})
        for example in value.get("examples", ()):
            examples += 1
            assert check.is_valid(example), (name, example)
    assert examples >= 20
