"""Level 0: what the shipped specs compute is what their references compute."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from schedgen.expressions import parse
from schedgen.interpret.problem import InterpretationError, Problem
from schedgen.interpret.sequential import run
from schedgen.reference.problem import Sizes
from tests.schedgen.interpret.problems import (
    SMALL,
    attention_inputs,
    gemm_inputs,
    kernel,
    kernel_of,
    random,
    symmetric_inputs,
)
from tests.schedgen.interpret.references import (
    Reference,
    activated,
    attention,
    chained,
    linear,
    symmetric,
)

TARGETS = ("b200", "h200")
ROUNDING = {"bf16": 2**-8, "fp16": 2**-11}


def close(found: torch.Tensor, wanted: torch.Tensor, dtype: str, factor: float = 1) -> None:
    """Everything was stored, and errors are those of rounding to ``dtype``."""
    assert not found.isnan().any()
    error = (found.double() - wanted).abs().max()
    assert error <= factor * ROUNDING[dtype] * wanted.abs().max()


def torch_dtype(name: str) -> torch.dtype:
    return torch.bfloat16 if name == "bf16" else torch.float16


# -- attention -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize(
    ("seq_q", "seq_k", "heads", "heads_k"),
    [(32, 32, 1, 1), (37, 53, 4, 2), (5, 70, 3, 1), (1, 1, 2, 2)],
)
def test_attention(
    target: str, causal: bool, dtype: str, seq_q: int, seq_k: int, heads: int, heads_k: int
) -> None:
    settings = {"rows": "16", "keys": "16", "head_dim": "64", "dtype": dtype}
    made = kernel("attention_fwd", target, causal=str(causal).lower(), **settings)
    inputs = attention_inputs(seq_q, seq_k, heads=heads, heads_k=heads_k, dtype=torch_dtype(dtype))
    found = run(made, inputs)
    output, lse = attention(inputs["q"], inputs["k"], inputs["v"], 1 / 8, causal=causal)
    close(found["o"], output, dtype, 2)
    assert (found["lse"].double() - lse).abs().max() < 2e-6


def test_rescale_is_skipped_only_while_it_may_be() -> None:
    """Scores that grow by more than a factor of 256 need the rescale, smaller steps do not."""
    inputs = attention_inputs(16, 64)
    growing = torch.linspace(0.1, 12, 64)[None, :, None, None]
    inputs["k"] = (inputs["q"][:, :1, :1] * growing).bfloat16()
    found = run(kernel("attention_fwd", "b200", rows="16", keys="16", head_dim="64"), inputs)
    output, lse = attention(inputs["q"], inputs["k"], inputs["v"], 1 / 8, causal=False)
    close(found["o"], output, "bf16", 2)
    assert (found["lse"].double() - lse).abs().max() < 1e-5


# -- products ------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("shape", [(16, 32, 16), (40, 70, 50), (5, 3, 1), (32, 64, 64)])
@pytest.mark.parametrize(("name", "reference"), [("gemm", linear), ("gemm_epilogue", activated)])
def test_gemm(
    name: str, reference: Reference, shape: tuple[int, int, int], dtype: str, target: str
) -> None:
    inputs = gemm_inputs(*shape, dtype=torch_dtype(dtype))
    found = run(kernel(name, target, dtype=dtype, **SMALL), inputs)
    close(found["d"], reference(inputs)["d"], dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shape", [(16, 32, 16), (40, 70, 50), (1, 3, 5)])
def test_transposed_product(target: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = random(2, m, k), random(2, n, k)
    inputs = {"a": a, "b": b, "alpha": 0.25}
    found = run(kernel("gemm_transposed", target, tile_m="32", tile_n="16", tile_k="16"), inputs)
    close(found["d"], 0.25 * b.double() @ a.double().mT, "bf16")


def test_product_without_iterations() -> None:
    inputs = gemm_inputs(20, 40, 0)
    found = run(kernel("gemm", "b200", **SMALL), inputs)
    assert torch.equal(found["d"], (-0.5 * inputs["c"].float()).bfloat16())


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("tile_m", "tile_n"), [(32, 64), (64, 64), (32, 32)])
@pytest.mark.parametrize("m", [32, 140, 192])
def test_symmetric_product(target: str, tile_m: int, tile_n: int, m: int) -> None:
    settings = {"tile_m": str(tile_m), "tile_n": str(tile_n), "tile_k": "16"}
    inputs = symmetric_inputs(m, 50)
    found = run(kernel("gemm_symmetric", target, **settings), inputs)
    close(found["d"], symmetric(inputs)["d"], "bf16")
    assert torch.equal(found["d"], found["d"].mT)


@pytest.mark.parametrize("target", TARGETS)
def test_symmetric_product_uses_half_the_tiles(target: str) -> None:
    made = kernel("gemm_symmetric", target, tile_m="32", tile_n="64", tile_k="16")
    inputs = symmetric_inputs(256, 16)
    assert len(Problem(made, inputs).tiles) == 2 * (2 * (4 + 3 + 2 + 1))
    below = inputs["a"].clone()
    inputs["c"] = torch.zeros_like(inputs["c"])
    inputs["b"] = below.clone()
    inputs["b"][:, 192:] = torch.nan  # needed for the tiles of the last column only
    found = run(made, inputs)["d"]
    assert not found[:, :192, :192].isnan().any()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("m", "n"), [(32, 16), (70, 50), (3, 5)])
def test_chained_product(target: str, m: int, n: int) -> None:
    inputs = {"a": random(2, m, 32), "b": random(2, n, 32), "c": random(2, n, 64)}
    settings = {"rows": "16", "block": "16", "depth": "32", "width": "64"}
    found = run(kernel("gemm_chain", target, **settings), inputs)
    close(found["d"], chained(inputs)["d"], "bf16", 2)


def test_published_graph_runs() -> None:
    inputs = {name: random(256, 128) * 0.1 for name in ("q", "k", "v")}
    assert not run(kernel("fa4_unit", "abstract"), inputs)["o"].isnan().any()


# -- single operations ---------------------------------------------------------------------------

OUTER = """
schedgen: 1
kernel: outer
targets: [b200]
parameters: {n: {default: 8}, op: {default: 0}}
arguments:
  x: {shape: [m, n], dtype: f32}
  y: {shape: [m, n], dtype: f32}
buffers:
  sX: {space: smem, shape: [4, 8]}
  rX: {space: registers, shape: [4, 8]}
  s: {space: registers, shape: [4], lives: tile, initial: 0}
  old: {space: registers, shape: [4, 8], depth: 3}
  sY: {space: smem, shape: [4, 8]}
loops: {trips: ceil(n / 8)}
operations:
  body:
    - {id: L, kind: load, from: x, to: sX}
    - {id: C, kind: copy, from: sX, to: rX}
    - {id: R, kind: reduce, op: sum, from: rX, carry: s@1 * 0.5, to: s}
    - {id: M, kind: map, to: {old: rX + s}}
    - {id: N, kind: map, to: {sY: FORMULA}WHEN}
    - {id: S, kind: store, from: sY, to: y}
"""


def outer(formula: str, when: str = "") -> torch.Tensor:
    """What a loop over three blocks of 8 columns stores, of 4 rows counting from 0."""
    text = OUTER.replace("FORMULA", formula).replace("WHEN", f", when: {when}" if when else "")
    x = torch.arange(96, dtype=torch.float32).reshape(4, 24)
    return run(kernel_of(text), {"x": x})["y"]


X = torch.arange(96, dtype=torch.float32).reshape(4, 3, 8)


def test_carried_reduction() -> None:
    sums = [X[:, 0].sum(1)]
    for block in (1, 2):
        sums.append(sums[-1] * 0.5 + X[:, block].sum(1))
    wanted = X + torch.stack(sums, 1)[:, :, None]
    assert torch.equal(outer("old").reshape(4, 3, 8), wanted)


def test_coordinates_are_global() -> None:
    found = outer("rX * 0 + row * 100 + column + old * 0")
    wanted = torch.arange(4)[:, None] * 100 + torch.arange(24)
    assert torch.equal(found, wanted.float())


def test_what_is_skipped_stays() -> None:
    """A slot that nothing was written to is not a number."""
    found = outer("rX + 0 * old", "rX >= 40")
    kept = X.reshape(4, 24) >= 40
    assert torch.equal(found[kept], X.reshape(4, 24)[kept])
    assert found[~kept].isnan().all()


# -- mistakes ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": None}, "the input 'a' is missing"),
        ({"a": random(40, 50)}, r"'a' has shape \[40, 50\], not \[batch, m, k\]"),
        ({"a": random(2, 40, 49)}, "'k' is 50 in 'b', but 49"),
        ({"a": random(2, 40, 50, dtype=torch.float16)}, "'a' is torch.float16, not torch.bfloat16"),
    ],
)
def test_wrong_inputs(change: dict[str, torch.Tensor | None], message: str) -> None:
    inputs = {n: t for n, t in {**gemm_inputs(40, 70, 50), **change}.items() if t is not None}
    with pytest.raises(InterpretationError, match=message):
        run(kernel("gemm", "b200", **SMALL), inputs)


def test_fixed_extent() -> None:
    made = kernel("attention_fwd", "b200", rows="16", keys="16", head_dim="128")
    with pytest.raises(InterpretationError, match="'head_dim' is 64, but the kernel is for 128"):
        run(made, attention_inputs(16, 16))


def test_unknown_place() -> None:
    text = OUTER.replace("x: {shape: [m, n]", "x: {shape: [other, m, n]").replace("WHEN", "")
    with pytest.raises(InterpretationError, match="'L' does not say where its tile lies in 'x'"):
        run(kernel_of(text.replace("FORMULA", "old")), {"x": torch.zeros(2, 4, 24)})


def test_causal_tiles_stop_at_the_diagonal() -> None:
    """At most all iterations, at least one, and no keys beyond those of the tile's last row."""
    made = kernel("attention_fwd", "h200", causal="true", rows="16", keys="32")
    q, k = torch.zeros(1, 100, 1, 128), torch.zeros(1, 70, 1, 128)
    inputs = {"q": q.bfloat16(), "k": k.bfloat16(), "v": k.bfloat16(), "scale": 1.0}
    problem = Problem(made, inputs)
    assert [problem.trips_of(tile) for tile in problem.tiles] == [1, 2, 3, 3]
    assert problem.trips == 3


def test_tiles_begin_at_their_first_iteration() -> None:
    """None are left out where the formula is negative, and one is always left."""
    made = kernel("attention_fwd", "h200", causal="true", rows="16", keys="32")
    made = replace(made, tile_first=parse("2 * tile_row - 1"))
    q, k = torch.zeros(1, 100, 1, 128), torch.zeros(1, 70, 1, 128)
    inputs = {"q": q.bfloat16(), "k": k.bfloat16(), "v": k.bfloat16(), "scale": 1.0}
    problem = Problem(made, inputs)
    assert [problem.first_of(tile) for tile in problem.tiles] == [0, 1, 2, 2]
    assert [problem.trips_of(tile) for tile in problem.tiles] == [1, 1, 1, 1]
    sizes = Sizes(made, problem.extents)
    assert [sizes.iterations(tile) for tile in problem.tiles] == [
        range(1),
        range(1, 2),
        range(2, 3),
        range(2, 3),
    ]
    load = made.operation["LK"]
    (place,) = (place for place in load.places if place.step)
    assert problem.start(place, problem.tiles[2], 0) == 64
    everything = replace(made, tile_trips=None)
    ends = Problem(everything, inputs)
    assert [ends.trips_of(tile) for tile in ends.tiles] == [3, 2, 1, 1]
