"""Formulas with the element of a tensor that belongs to an output tile."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from schedgen.codegen.binding import bound
from schedgen.codegen.ir import Name, code
from schedgen.codegen.plan import Plan
from schedgen.codegen.source import Source
from schedgen.codegen.tiles import Tiles
from schedgen.elements import elements
from schedgen.errors import SpecError
from schedgen.interpret.sequential import run
from schedgen.interpret.tiles import positional
from schedgen.kernel import Kernel
from schedgen.reference.evaluate import evaluate
from tests.schedgen.interpret.problems import kernel_of, random
from tests.schedgen.proof.small import program

TEXT = """
schedgen: 1
kernel: scaled
targets: [h200]
parameters: {k: {default: 256}}
arguments:
  a: {shape: [batch, heads, m, k], dtype: bf16}
  b: {shape: [batch, heads, n, k], dtype: bf16}
  gain: {shape: [heads, batch], dtype: f32}
  d: {shape: [batch, heads, m, n], dtype: f32}
  s: {shape: [batch, heads, m], dtype: f32}
buffers:
  sA: {space: smem, shape: [64, 64], dtype: bf16}
  sB: {space: smem, shape: [64, 64], dtype: bf16}
  acc: {space: registers, shape: [64, 64], lives: tile, initial: 0}
  sum: {space: registers, shape: [64], lives: tile}
  sD: {space: smem, shape: [64, 64], lives: tile}
  sS: {space: smem, shape: [64], lives: tile}
loops: {trips: ceil(k / 64), persistent: true, one_tile: [n]}
operations:
  body:
    - {id: LA, kind: load, from: a, to: sA}
    - {id: LB, kind: load, from: b, to: sB}
    - {id: MMA, kind: mma, a: sA, b: sB, transpose_b: true, d: acc, accumulate: true}
  after:
    - {id: SUM, kind: reduce, op: max, from: acc, to: sum}
    - {id: EPI, kind: map, to: {sD: acc * gain}}
    - {id: ROWS, kind: map, to: {sS: sum + gain}}
    - {id: STD, kind: store, from: sD, to: d}
    - {id: STS, kind: store, from: sS, to: s}
"""


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    return kernel_of(TEXT)


def test_each_output_tile_has_its_own(kernel: Kernel) -> None:
    """Of elements and of values per row; the tensor's extents may come in any order."""
    a, b = random(2, 3, 70, 50), random(2, 3, 40, 50, seed=1)
    gain = random(3, 2, dtype=torch.float32, seed=2)
    inputs = {"a": a, "b": b, "gain": gain}
    plain = torch.einsum("zhmk,zhnk->zhmn", a.float(), b.float())
    mine = gain.T[:, :, None, None]
    found = run(kernel, inputs)
    torch.testing.assert_close(found["d"], plain * mine)
    sums = torch.nn.functional.pad(plain, (0, 24)).amax(-1) + mine[..., 0]
    torch.testing.assert_close(found["s"], sums)
    expected = evaluate(kernel, {name: value.double().numpy() for name, value in inputs.items()})
    for name, tensor in found.items():
        number = expected[name].number
        assert (np.abs(number.value - tensor.double().numpy()) <= number.error + 1e-30).all()


def test_results_depend_on_the_tile(kernel: Kernel) -> None:
    assert [argument.name for argument in elements(kernel)] == ["gain"]
    moving = {o.base for o in kernel.operations if positional(o, kernel)}
    assert moving == {"LA", "LB", "EPI", "ROWS", "STD", "STS"}


def test_roles_that_use_it_read_it_once_in_a_tile(kernel: Kernel) -> None:
    tiles, body, loop, other = Tiles(Plan(program({}), bound(kernel))), Source(), Source(), Source()
    assert list(tiles.plan.elements) == ["its_gain"]
    body.add(code("compute({})", Name("its_gain")))
    tiles.loop(loop, body.nodes, ahead=False)
    assert "its_gain = Float32(of_gain[(at_heads, at_batch,)])" in loop.text
    assert loop.text.index("at_heads") < loop.text.index("its_gain") < loop.text.index("compute(")
    tiles.loop(other, (), ahead=False)
    assert "gain" not in other.text


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("acc * gain", "acc * a", "'a' is a tensor of which an output tile has not just one"),
        ("gain: {shape: [heads, batch]", "gain: {shape: [batch, m]", "has not just one element"),
        ("gain: {shape: [heads, batch]", "gain: {shape: [other]", "has not just one element"),
        ("sum + gain", "sum + s", "has not just one element"),
        ("acc * gain", "acc * gain@1", "is no buffer and has no value of an earlier iteration"),
    ],
)
def test_other_tensors_are_refused(old: str, new: str, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        kernel_of(TEXT.replace(old, new))


def test_a_name_that_is_an_extent_means_its_size() -> None:
    """Also where a tensor has the name: found by the fuzzer, with a mask of ``column < d``."""
    text = TEXT.replace("gain: {shape: [heads, batch]", "m: {shape: [heads, batch]")
    found = kernel_of(text.replace("acc * gain", "acc + m").replace("sum + gain", "sum"))
    assert elements(found) == ()
    inputs = {
        "a": random(2, 2, 70, 256, seed=1),
        "b": random(2, 2, 64, 256, seed=2),
        "m": torch.full((2, 2), -1.0),
    }
    wanted = evaluate(found, {name: x.float().numpy() for name, x in inputs.items()})
    done = run(found, inputs)["d"].double().numpy()
    product = inputs["a"].double().numpy() @ inputs["b"].double().numpy().swapaxes(-1, -2)
    assert np.abs(done - (product + 70)).max() < 0.01
    assert np.abs(wanted["d"].number.value - done).max() < 0.01
