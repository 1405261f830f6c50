"""Parameters and names in formulas, before a kernel is emitted."""

from __future__ import annotations

import pytest

from schedgen.codegen.binding import bound, fold
from schedgen.expressions import Boolean, Name, parse, references, render
from schedgen.kernel import Kernel
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec


def kernel(spec: str, **settings: str) -> Kernel:
    read = read_spec(spec)
    return bind(read.source, read.file, "h200", settings)[0]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("not causal or x < y", "x < y"),
        ("causal and x < y or x > 2", "x < y or x > 2"),
        ("where(causal, x, y)", "x"),
        ("where(not causal, x, y) + k", "y + 64"),
        ("exp2(k * x)", "exp2(64 * x)"),
    ],
)
def test_fold(text: str, wanted: str) -> None:
    values = {"causal": Boolean(True), "k": parse("64"), "x": Name("x")}
    assert render(fold(parse(text), values)) == wanted


def test_conditions_of_parameters_are_gone() -> None:
    """Only the causal kernel compares rows with columns."""
    for causal, names in (
        ("false", {"column", "seq_k"}),
        ("true", {"column", "seq_k", "row", "seq_q"}),
    ):
        operations = bound(kernel("attention_fwd", causal=causal)).operation
        (_, keep) = operations["MASK[0]"].formulas[0]
        assert {name.name for name in references(keep)} == names


def test_extents_of_tensors_stay() -> None:
    """A parameter with the name of an extent is its nominal value, nothing more."""
    trips = bound(kernel("gemm", k="128")).trip_count
    assert trips is not None
    assert render(trips) == "ceil(k / 64)"
