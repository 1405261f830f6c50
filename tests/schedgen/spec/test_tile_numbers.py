"""Numbers of output tiles along extents of which each has one element, and iterations that tiles
share by formulas of theirs.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from schedgen.elements import tile_numbers
from schedgen.errors import SpecError
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel
from schedgen.reference.evaluate import evaluate
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec, read_spec

PARTS = read_spec("attention_parts").source.text
RANGE = ("tile_first: tile_split * split_trips", "tile_trips: (tile_split + 1) * split_trips")
SCALED = """
schedgen: 1
kernel: scaled
targets: [h200, b200]
parameters:
  rows: {default: 128, on: {h200: 64}}
arguments:
  a: {shape: [batch, head, m, k], dtype: f32}
  d: {shape: [batch, head, m, k], dtype: f32}
buffers:
  sA: {space: smem, shape: [rows, 32], lives: tile}
  sD: {space: smem, shape: [rows, 32], lives: tile}
loops: {trips: 1}
operations:
  before:
    - {id: LA, kind: load, from: a, to: sA}
  body:
    - {id: ADD, kind: map, to: {sD: sA + 10 * tile_batch + tile_head}}
  after:
    - {id: STD, kind: store, from: sD, to: d}
"""


def made(text: str, target: str = "h200", **settings: str) -> Kernel:
    spec = parse_spec(text)
    return bind(spec.source, spec.file, target, settings)[0]


def parts(*changes: tuple[str, str], **settings: str) -> Kernel:
    text = PARTS
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    return made(text, **settings)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def test_names_of_numbers() -> None:
    kernel = made(SCALED)
    assert tile_numbers(kernel) == {
        "tile_row": "m", "tile_column": "k", "tile_batch": "batch", "tile_head": "head",
    }  # fmt: skip


def test_what_a_spec_declares_means_that() -> None:
    text = SCALED.replace("  rows:", "  tile_head: {default: 5}\n  rows:")
    kernel = made(text)
    assert "tile_head" not in tile_numbers(kernel)
    a = random(2, 3, 8, 32)
    found = run(kernel, {"a": a})["d"]
    assert torch.allclose(found, a + torch.tensor([5.0, 15.0])[:, None, None, None])


@pytest.mark.parametrize("target", ["h200", "b200"])
def test_in_formulas(target: str) -> None:
    kernel, a = made(SCALED, target), random(2, 3, 70, 40)
    number = 10 * torch.arange(2.0)[:, None] + torch.arange(3.0)
    wanted = a + number[:, :, None, None]
    assert torch.allclose(run(kernel, {"a": a})["d"], wanted)
    found = evaluate(kernel, {"a": a.double().numpy()})["d"].number
    assert np.allclose(found.value, wanted.double().numpy())


@pytest.mark.parametrize("causal", [False, True])
def test_splits_are_those_of_their_keys(causal: bool) -> None:
    """Splits of two iterations; the third begins behind the last key, where there is none."""
    kernel = parts(head_dim="64", causal=str(causal).lower())
    group, tokens, keys = 3, 2, 400
    q, k, v = (random(1, 2, group * tokens, 64), random(1, keys, 2, 64), random(1, keys, 2, 64))
    inputs = {"q": q.bfloat16(), "k": k.bfloat16(), "v": v.bfloat16()}
    scalars = {"scale": 0.125 * math.log2(math.e), "split_trips": 2.0, "group": float(group)}
    found = run(kernel, {**inputs, **scalars}, {"split": 3})
    scores = inputs["q"].double() @ inputs["k"].double().permute(0, 2, 3, 1) / 8
    if causal:
        end = torch.arange(group * tokens) // group + keys - tokens + 1
        scores = scores.masked_fill(torch.arange(keys) >= end[:, None], -math.inf)
    for n, here in enumerate((slice(0, 256), slice(256, 400))):
        values = inputs["v"].double().transpose(1, 2)[:, :, here]
        wanted = scores[..., here].softmax(-1) @ values
        assert torch.allclose(found["o"][:, :, n].double(), wanted, atol=1e-2)
        sums = scores[..., here].logsumexp(-1)
        assert torch.allclose(found["lse"][:, :, n].double(), sums, atol=1e-3)
    assert not found["o"][:, :, 2].any()
    assert (found["lse"][:, :, 2] == -math.inf).all()


def test_a_split_has_no_meaning_for_others() -> None:
    """Splits that are left out, or empty, do not change the combination."""
    kernel = read_spec("attention_combine")
    made = bind(kernel.source, kernel.file, "h200", {})[0]
    p, lse = random(1, 2, 3, 8, 64), random(1, 2, 3, 8)
    p[:, :, 1], lse[:, :, 1] = 0, -math.inf
    found = run(made, {"p": p, "part_lse": lse})
    weights = lse.double().softmax(2)
    wanted = (weights[..., None] * p.double()).sum(2)
    assert torch.allclose(found["o"].double(), wanted, atol=1e-2)
    assert torch.allclose(found["lse"].double(), lse.double().logsumexp(2), atol=1e-5)
    less = run(made, {"p": p[:, :, ::2].contiguous(), "part_lse": lse[:, :, ::2].contiguous()})
    assert torch.equal(less["o"], found["o"])
    assert torch.equal(less["lse"], found["lse"])
    nothing = torch.full_like(lse, -math.inf)
    found = run(made, {"p": torch.zeros_like(p), "part_lse": nothing})
    assert not found["o"].any()
    assert (found["lse"] == -math.inf).all()


ROWS = ("keep: column < seq_k,", 'keep: "column < seq_k and column <= row + seq_k",')


@pytest.mark.medium
def test_what_a_mask_keeps_is_in_one_of_the_shares() -> None:
    parts(ROWS)
    for old, new in (
        (RANGE[0], "tile_first: tile_split * split_trips + 1"),  # none has the first one
        (RANGE[0], "tile_first: tile_split * (split_trips + 1)"),  # nor what is between shares
        (RANGE[1], "tile_trips: min((tile_split + 1) * split_trips, 3)"),
    ):
        with pytest.raises(SpecError, match="bad-trips"):
            parts(ROWS, (old, new))


def test_without_shares_each_tile_has_all_that_its_mask_keeps() -> None:
    with pytest.raises(SpecError, match="bad-trips"):
        parts(ROWS, ("  split_k: split\n", ""))
