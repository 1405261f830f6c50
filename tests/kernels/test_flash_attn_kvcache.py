"""Attention over caches: arguments, what is written, and results of kernels in the emulator."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.kernels import flash_attn_kvcache, flash_attn_with_kvcache
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError

LENGTHS, ROOM, HEADS, HEADS_K, DIM = (37, 0, 160, 1), 160, 4, 2, 64
BATCH = len(LENGTHS)


def bf16(*shape: int) -> Tensor:
    return torch.randn(*shape).bfloat16()


def lengths(values: tuple[int, ...] = LENGTHS) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def caches(page: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """NaN behind what there is; with pages in no order, and nonsense where tables need not say."""
    if not page:
        found = [bf16(BATCH, ROOM, HEADS_K, DIM) for _ in "kv"]
        for one in found:
            for number, size in enumerate(LENGTHS):
                one[number, size:] = torch.nan
        return found[0], found[1], None
    most = ROOM // page
    order = torch.randperm(BATCH * most)
    table = order.view(BATCH, most).int()
    found = [bf16(BATCH * most + 2, page, HEADS_K, DIM) for _ in "kv"]
    for number, size in enumerate(LENGTHS):
        for n in range(most):
            for one in found:
                one[order[number * most + n], max(size - n * page, 0) :] = torch.nan
    return found[0], found[1], table


def rows(cache: Tensor, table: Tensor | None, number: int, size: int) -> Tensor:
    """(keys, heads, dim) of a batch, in float64."""
    whole = cache[number] if table is None else cache[table[number].long()].flatten(0, 1)
    return whole[:size].double().repeat_interleave(HEADS // HEADS_K, 1)


def wanted(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, sizes: list[int], **given: Any
) -> tuple[Tensor, Tensor]:
    """Batch by batch; rows that see nothing are 0 and -inf."""
    out = torch.zeros(q.shape).double()
    lse = torch.full((BATCH, HEADS, q.shape[1]), -math.inf).double()
    left, right = given.get("window_size", (-1, -1))
    right = 0 if given.get("causal") else right
    for number, size in enumerate(sizes):
        keys, values = rows(k, table, number, size), rows(v, table, number, size)
        scores = torch.einsum("qhd,khd->hqk", q[number].double(), keys) / 8
        cap = given.get("softcap", 0.0)
        scores = cap * (scores / cap).tanh() if cap else scores
        at = torch.arange(q.shape[1])[:, None] + size - q.shape[1]
        column = torch.arange(size)[None, :]
        if "alibi_slopes" in given:
            scores = scores - given["alibi_slopes"].double()[:, None, None] * (at - column).abs()
        kept = torch.ones_like(at == column)
        kept &= (column >= at - left) if left >= 0 else kept
        kept &= (column <= at + right) if right >= 0 else kept
        scores = scores.masked_fill(~kept, -math.inf)
        sums = scores.logsumexp(-1)
        if "sinks" in given:
            sums = torch.logaddexp(sums, given["sinks"].double()[:, None])
        shares = (scores - sums[..., None]).exp().nan_to_num(0.0)
        out[number] = torch.einsum("hqk,khd->qhd", shares, values)
        lse[number] = sums
    return out, lse


def close(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    assert torch.allclose(found[0].double(), expected[0], atol=2e-2)
    assert torch.allclose(found[1].double(), expected[1], atol=1e-3)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize(
    ("page", "given"),
    [
        (0, {"causal": True}),
        (16, {}),
        (32, {"causal": True, "alibi_slopes": torch.tensor([0.1, 0.2, 0.3, 0.5])}),
        (
            16,
            {"window_size": (20, 3), "softcap": 2.0, "sinks": torch.tensor([0.0, 1.0, -1.0, 3.0])},
        ),
    ],
)
def test_in_the_emulator(page: int, given: dict[str, Any]) -> None:
    q = bf16(BATCH, 5, HEADS, DIM)
    k, v, table = caches(page)
    found = flash_attn_with_kvcache(
        q, k, v, cache_seqlens=lengths(), block_table=table, return_softmax_lse=True, **given
    )
    close(found, wanted(q, k, v, table, [*LENGTHS], **given))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("page", [0, 32])
def test_new_tokens_count(page: int) -> None:
    """A batch without room for them sees those that there is room for."""
    q, new_k, new_v = bf16(BATCH, 3, HEADS, DIM), *(bf16(BATCH, 3, HEADS_K, DIM) for _ in "kv")
    k, v, table = caches(page)
    found = flash_attn_with_kvcache(
        q, k, v, new_k, new_v, cache_seqlens=lengths(), block_table=table, causal=True,
        return_softmax_lse=True,
    )  # fmt: skip
    assert torch.equal(rows(k, table, 0, 40)[37:, ::2].bfloat16(), new_k[0])
    sizes = [min(size + 3, ROOM) for size in LENGTHS]
    close(found, wanted(q, k, v, table, sizes, causal=True))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("emulated")
def test_batches_of_a_cache_and_pages_of_heads() -> None:
    """A cache of which batches are picked, and one whose heads are outside of rows."""
    q = bf16(BATCH, 2, HEADS, DIM)
    k, v = (bf16(9, HEADS_K, ROOM, DIM).transpose(1, 2) for _ in "kv")
    numbers = torch.tensor([8, 3, 0, 3], dtype=torch.int32)
    found = flash_attn_with_kvcache(
        q, k.contiguous(), v.contiguous(), cache_seqlens=lengths(), cache_batch_idx=numbers,
        return_softmax_lse=True,
    )  # fmt: skip
    picked = k[numbers.long()], v[numbers.long()]
    close(found, wanted(q, *picked, None, [*LENGTHS]))
    some = k[:4], v[:4]
    found = flash_attn_with_kvcache(q, *some, cache_seqlens=100, return_softmax_lse=True)
    close(found, wanted(q, *some, None, [100] * BATCH))


def test_what_kernels_get(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single row needs no causal mask; windows are numbers; slopes and caps share a scale."""
    asked: list[dict[str, str]] = []
    seen: dict[str, Any] = {}

    def kernel_of(spec: str, target: str, settings: tuple[tuple[str, str], ...]) -> Any:
        assert (spec, target) == ("attention_kvcache", "h200")
        asked.append(dict(settings))
        return lambda **given: seen.update(given) or (given["q"], given["q"])  # pyright: ignore

    monkeypatch.setattr("schedgen.kernels.checks.devices", lambda **_: torch.device("cpu"))  # pyright: ignore
    monkeypatch.setattr("schedgen.kernels.keys.architecture", lambda _: "sm_90a")  # pyright: ignore
    monkeypatch.setattr(flash_attn_kvcache, "kernel_of", kernel_of)
    k, v, table = caches(16)
    heads = 66 * HEADS_K  # more rows than a tile has, so that keys are in no splits
    q, base = bf16(BATCH, 1, heads, DIM), {"head_dim": "64", "dtype": "bf16"}
    flash_attn_with_kvcache(q, k, v, causal=True, block_table=table)
    assert seen["cache_seqlens"].tolist() == [ROOM] * BATCH
    flash_attn_with_kvcache(
        q, k, v, causal=True, window_size=(7, 7), softcap=3.0, block_table=table,
        alibi_slopes=torch.ones(heads),
    )  # fmt: skip
    flags = {"window": "true", "soft_cap": "true", "alibi": "true"}
    assert asked == [base | {"page_size": "16"}, base | flags | {"page_size": "16"}]
    assert (seen["window_left"], seen["window_right"]) == (7, 0)
    assert seen["inverse_softcap"] == pytest.approx(1 / 24)
    assert seen["scale"] == pytest.approx(math.log2(math.e))
    assert torch.equal(seen["slope"], torch.ones(BATCH, heads))


def test_nothing_to_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedgen.kernels.checks.devices", lambda **_: torch.device("cpu"))  # pyright: ignore
    q, k = bf16(BATCH, 5, HEADS, DIM), bf16(BATCH, 0, HEADS_K, DIM)
    out, lse = flash_attn_with_kvcache(q, k, k, return_softmax_lse=True)
    assert not out.any()
    assert torch.equal(lse, torch.full((BATCH, HEADS, 5), -math.inf))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rotary_cos": torch.ones(1)}, "rotary_cos: it is given"),
        ({"cache_leftpad": torch.ones(1)}, "cache_leftpad: it is given"),
        ({"k": bf16(BATCH, 1, HEADS_K, DIM)}, "v: it is None"),
        ({n: bf16(BATCH, 1, HEADS, DIM) for n in "kv"}, r"k: its shape is \(4, 1, 4, 64\)"),
        ({n: bf16(BATCH, 1, HEADS_K, DIM) for n in "kv"}, "cache_seqlens: it is None"),
        ({"cache_seqlens": torch.ones(BATCH)}, "cache_seqlens: its dtype is torch.float32"),
        ({"cache_seqlens": torch.ones(2).int()}, r"cache_seqlens: its shape is \(2,\)"),
        ({"block_table": torch.zeros(BATCH, 2)}, "block_table: its dtype is torch.float32"),
        ({"block_table": torch.zeros(BATCH).int()}, "block_table: it has 1 dimensions"),
        ({"block_table": torch.zeros(2, 2).int()}, r"block_table: its shape is \(2, 2\)"),
        ({"block_table": torch.zeros(BATCH, 2).int(),
          **{n: bf16(BATCH, 24, HEADS_K, DIM) for n in ("k_cache", "v_cache")}},
         "k_cache: its page_size is 24"),
        ({"block_table": 1, "page_table": 1}, "block_table: page_table is given, too"),
        ({"q": bf16(2, 5, HEADS, DIM)}, "k_cache: its batch is 4"),
        ({"q": bf16(BATCH, 5, 3, DIM)}, "k_cache: it has 2 heads"),
        ({"q": bf16(BATCH, 5, HEADS, 40)}, "q: its head_dim is 40"),
        ({"v_cache": bf16(BATCH, 8, HEADS_K, DIM)}, r"v_cache: its shape is \(4, 8, 2, 64\)"),
        ({"sinks": torch.ones(3)}, r"sinks: its shape is \(3,\)"),
        ({"alibi_slopes": torch.ones(3)}, r"alibi_slopes: its shape is \(3,\)"),
        ({"softmax_scale": -1.0}, "softmax_scale: it is -1.0"),
        ({"window_size": (1,)}, "window_size: it has 1 numbers"),
        ({n: bf16(ROOM, BATCH, HEADS_K, DIM).transpose(0, 1) for n in ("k_cache", "v_cache")},
         "k_cache: its strides begin with 128 and 512"),
        ({"cache_batch_idx": torch.zeros(BATCH).int(),
          **{n: bf16(BATCH, 24, HEADS_K, DIM) for n in ("k_cache", "v_cache")}},
         "cache_batch_idx: the caches have room for 24"),
        ({"cache_batch_idx": torch.zeros(BATCH).int(),
          "k_cache": bf16(BATCH, 48, HEADS_K, DIM)[:, :32],
          "v_cache": bf16(BATCH, 32, HEADS_K, DIM)},
         r"strides that begin with \(6144, 128\) and \(4096, 128\); allowed"),
    ],
)  # fmt: skip
def test_what_is_refused(
    given: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("schedgen.kernels.checks.devices", lambda **_: torch.device("cpu"))  # pyright: ignore
    k, v, _ = caches(0)
    q = bf16(BATCH, 5, HEADS, DIM)
    arguments: dict[str, Any] = {"q": q, "k_cache": k, "v_cache": v, **given}
    with pytest.raises((ArgumentValueError, ArgumentTypeError), match=message):
        flash_attn_with_kvcache(**arguments)
