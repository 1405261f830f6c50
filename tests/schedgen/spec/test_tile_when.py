"""Output tiles that a condition leaves out, shares of iterations of which data say how many there
are, and lengths that only formulas name: decode over caches.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from schedgen.errors import SpecError
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel
from schedgen.reference.evaluate import evaluate
from schedgen.spec.bind import bind
from schedgen.spec.reader import parse_spec, read_spec

LENGTHS = (400, 0, 1, 256)
HEADS_K, GROUP, DIM, ROOM = 1, 3, 64, 512
SCALE = math.log2(math.e) / 8
PARTS = read_spec("attention_kvcache_parts").source.text


def made(name: str, **settings: str) -> Kernel:
    spec = read_spec(name)
    return bind(spec.source, spec.file, "h200", settings)[0]


def random(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).bfloat16()


def wanted(
    q: Tensor, k: Tensor, v: Tensor, sizes: tuple[int, ...], tokens: int
) -> tuple[Tensor, Tensor]:
    """Batch by batch, with a causal mask, in float64; rows are token * group + head."""
    out = torch.zeros(q.shape).double()
    lse = torch.full(q.shape[:3], -math.inf).double()
    at = torch.arange(q.shape[2])[:, None] // GROUP
    for n, size in enumerate(sizes):
        keys, values = (x[n, :size].double().transpose(0, 1) for x in (k, v))
        scores = q[n].double() @ keys.mT / 8
        seen = torch.arange(size)[None, :] <= at + size - tokens
        scores = scores.masked_fill(~seen, -math.inf)
        lse[n] = scores.logsumexp(-1)
        out[n] = (scores - lse[n][..., None]).exp().nan_to_num(0.0) @ values
    return out, lse


def decode(
    q: Tensor, k: Tensor, v: Tensor, sizes: tuple[int, ...], steps: int, most: int
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """What both specs make of it; splits that nobody computes are NaN in between."""
    lengths = torch.tensor(sizes, dtype=torch.int32)
    numbers = {"split_steps": float(steps), "most_splits": float(most)}
    splits = min(most, -(-k.shape[1] // (128 * steps)))
    given = {
        "q": q,
        "k": k,
        "v": v,
        "cache_seqlens": lengths,
        "scale": SCALE,
        "group": float(GROUP),
    }
    parts = made("attention_kvcache_parts", head_dim=str(DIM), causal="true")
    found = run(parts, {**given, **numbers}, {"split": splits})
    rest = {"p": found["o"], "part_lse": found["lse"], "cache_seqlens": lengths}
    combine = made("attention_kvcache_combine")
    return found, run(combine, {**rest, **numbers, "room": float(k.shape[1])})


@pytest.mark.parametrize(
    ("steps", "most", "tokens"), [(1, 64, 1), (1, 64, 3), (2, 64, 1), (1, 2, 3), (1, 1, 1)]
)
def test_caches_in_splits(steps: int, most: int, tokens: int) -> None:
    """Lengths of none, one, whole splits and more; what is behind them is NaN."""
    q = random(len(LENGTHS), HEADS_K, GROUP * tokens, DIM)
    k, v = (random(len(LENGTHS), ROOM, HEADS_K, DIM) for _ in "kv")
    expected = wanted(q, k, v, LENGTHS, tokens)
    for n, size in enumerate(LENGTHS):
        k[n, size:], v[n, size:] = torch.nan, torch.nan
    found, whole = decode(q, k, v, LENGTHS, steps, most)
    assert torch.allclose(whole["o"].double(), expected[0], atol=1e-2)
    assert torch.allclose(whole["lse"].double(), expected[1], atol=1e-3)
    for n, size in enumerate(LENGTHS):
        each = 128 * max(steps, -(-size // (128 * most)))
        there = max(-(-size // each), 1)
        assert found["o"][:there, n].isfinite().all()
        assert found["o"][there:, n].isnan().all()


@pytest.mark.medium
def test_a_sequence_is_the_same_in_any_batch_and_room() -> None:
    q = random(len(LENGTHS), HEADS_K, GROUP, DIM)
    k, v = (random(len(LENGTHS), ROOM, HEADS_K, DIM) for _ in "kv")
    _, together = decode(q, k, v, LENGTHS, 1, 2)
    for n, size in enumerate(LENGTHS):
        if size:
            one = slice(n, n + 1)
            less_k, less_v = (x[one, : max(size, 8)].contiguous() for x in (k, v))
            _, alone = decode(q[one].contiguous(), less_k, less_v, LENGTHS[one], 1, 2)
            assert torch.equal(alone["o"], together["o"][one])
            assert torch.equal(alone["lse"], together["lse"][one])


@pytest.mark.medium
def test_the_reference_leaves_out_the_same() -> None:
    q = random(len(LENGTHS), HEADS_K, GROUP, DIM)
    k, v = (random(len(LENGTHS), ROOM, HEADS_K, DIM) for _ in "kv")
    found, _ = decode(q, k, v, LENGTHS, 1, 64)
    kernel = made("attention_kvcache_parts", head_dim=str(DIM), causal="true")
    numbers = {"scale": SCALE, "group": float(GROUP), "split_steps": 1.0, "most_splits": 64.0}
    given = {"q": q, "k": k, "v": v, "cache_seqlens": torch.tensor(LENGTHS)}
    tensors = {name: x.double().numpy() for name, x in given.items()}
    expected = evaluate(kernel, {**tensors, **numbers}, {"split": found["o"].shape[0]})["o"]
    stored = expected.stores > 0
    assert (stored == found["o"].isfinite().numpy()).all()
    off = np.abs(expected.number.value - found["o"].double().numpy())[stored]
    assert off.max() < 1e-2


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("dtype: f32, whole: false, about: of each split}", "dtype: f32}", "bad-coverage"),
        ("tile_when: tile_split ==", "tile_when: tile_splits ==", "unknown name .tile_splits."),
    ],
)
def test_mistakes(old: str, new: str, message: str) -> None:
    assert PARTS.count(old) == 1
    spec = parse_spec(PARTS.replace(old, new))
    with pytest.raises(SpecError, match=message):
        bind(spec.source, spec.file, "h200", {})


@pytest.mark.medium
def test_a_mask_of_rows_is_asked_for_tiles_that_are_computed() -> None:
    """What a share would have does not count if nobody computes it."""
    row = ("keep: column < seq_k, only", 'keep: "column < seq_k and column <= row + seq_k", only')
    text = PARTS.replace(*row)
    spec = parse_spec(text)
    bind(spec.source, spec.file, "h200", {})
    spec = parse_spec(
        text.replace("tile_when: tile_split == 0 or", "tile_when: tile_split == 0 and")
    )
    with pytest.raises(SpecError, match="bad-trips"):
        bind(spec.source, spec.file, "h200", {})
