"""Loads with a condition: who reads their tiles, and what that is where nothing was loaded."""

from __future__ import annotations

import pytest
import torch

from schedgen.conditional import conditions
from schedgen.errors import SpecError
from schedgen.expressions import parse
from schedgen.interpret.sequential import run
from tests.schedgen.interpret.problems import gemm_inputs, kernel, kernel_of

SMALL = {"tile_m": "16", "tile_n": "32", "tile_k": "16", "slice_n": "16"}

TEXT = """
schedgen: 1
kernel: sum
targets: [b200]
arguments:
  a: {shape: [m, k], dtype: bf16}
  b: {shape: [n, k], dtype: bf16}
  c: {shape: [m, n], dtype: bf16}
  d: {shape: [m, n], dtype: bf16}
  e: {shape: [m, n], dtype: bf16}
  beta: {shape: [], dtype: f32}
buffers:
  sA: {space: smem, shape: [128, 64], dtype: bf16, depth: 3}
  sB: {space: smem, shape: [128, 64], dtype: bf16, depth: 3}
  acc: {space: tmem, shape: [128, 128], lives: tile, initial: 0}
  sC: {space: smem, shape: [128, 128], dtype: bf16, lives: tile}
  sD: {space: smem, shape: [128, 128], dtype: bf16, lives: tile}
loops: {trips: 4}
operations:
  body:
    - {id: LA, kind: load, from: a, to: sA}
    - {id: LB, kind: load, from: b, to: sB}
    - {id: MMA, kind: mma, a: sA, b: sB, transpose_b: true, d: acc, accumulate: true}
  after:
    - {id: LC, kind: load, from: c, to: sC, when: beta != 0}
    - {id: EPI, kind: map, to: {sD: acc + beta * sC}}
    - {id: ST, kind: store, from: sD, to: d}
"""


def test_who_reads_what_may_not_be_there() -> None:
    found = conditions(kernel("gemm_symmetric", "h200"))
    readers = {operation for operation, _ in found}
    assert readers == {f"EPI[{n},{band}]" for n in range(8) for band in range(2)}
    assert set(found.values()) == {parse("beta != 0")}


@pytest.mark.parametrize("name", ["gemm", "gemm_symmetric"])
@pytest.mark.parametrize("beta", [0.0, -0.5])
def test_zeros_where_nothing_is_loaded(name: str, beta: float) -> None:
    inputs = gemm_inputs(40, 40, 24)
    inputs["b"] = inputs["a"]
    inputs["c"] = inputs["c"] + inputs["c"].mT
    inputs["beta"] = torch.tensor(beta)
    given = inputs if beta else inputs | {"c": torch.full_like(inputs["c"], torch.nan)}
    found = run(kernel(name, "h200", **SMALL), given)["d"]
    wanted = 1.5 * inputs["a"].double() @ inputs["b"].double().mT
    wanted += beta * inputs["c"].double() if beta else 0
    assert (found.double() - wanted).abs().max() <= 2**-8 * wanted.abs().max()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("when: beta != 0", "when: row < 3", "'row' is neither a scalar argument nor a parameter"),
        ("when: beta != 0", "when: m > 3", "'m' is neither a scalar argument nor a parameter"),
        ("from: sD, to: d", "from: sC, to: d}\n    - {id: S2, kind: store, from: sD, to: e",
         "ST needs what a load"),
        ("from: b, to: sB}", "from: b, to: sB, when: beta > 1}", "MMA needs what a load"),
        ("acc + beta * sC}}", "acc}}\n    - {id: M, kind: mask, to: sC, keep: column < n}",
         "M needs what a load"),
    ],
)  # fmt: skip
def test_who_cannot_take_zeros(old: str, new: str, says: str) -> None:
    assert TEXT.count(old) == 1
    with pytest.raises(SpecError, match="bad-condition") as error:
        kernel_of(TEXT.replace(old, new))
    assert says in str(error.value)


def test_a_later_write_is_what_is_read() -> None:
    """In place: the store reads what the map wrote, which is there in any case."""
    text = TEXT.replace("{sD: acc", "{sC: acc").replace("from: sD, to: d", "from: sC, to: d")
    text = "".join(line for line in text.splitlines(keepends=True) if "  sD:" not in line)
    assert {operation for operation, _ in conditions(kernel_of(text))} == {"EPI"}
