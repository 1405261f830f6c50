"""`flash_attn_varlen_func` over caches in pages, without a GPU: with kernels that torch computes,
and in the emulator.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.kernels import attention_varlen_kvcache as over_pages
from schedgen.kernels import flash_attn_varlen_func
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from tests.kernels.test_attention_decode_kvcache import bf16

QUERIES, KEYS, HEADS, HEADS_K, DIM = (3, 0, 70, 1), (130, 40, 70, 0), 4, 2, 64
PAGE = 48
LOG2_E = math.log2(math.e)


def starts(lengths: tuple[int, ...]) -> Tensor:
    return torch.tensor([0, *lengths]).cumsum(0).int()


def caches(page: int = PAGE) -> tuple[Tensor, Tensor, Tensor]:
    """Pages in no order, some of which belong to nobody, and NaN behind lengths."""
    most = -(-max(KEYS) // page)
    table = torch.full((len(KEYS), most), -1, dtype=torch.int32)
    pages = [bf16(len(KEYS) * most + 2, page, HEADS_K, DIM) for _ in "kv"]
    shuffled = torch.randperm(len(pages[0]), generator=torch.Generator().manual_seed(1))
    order = [int(number) for number in shuffled]
    for number, size in enumerate(KEYS):
        for n in range(-(-size // page)):
            table[number, n] = order.pop()
            for one in pages:
                one[table[number, n], max(size - n * page, 0) :] = torch.nan
    for one in pages:
        one[order] = torch.nan
    return pages[0], pages[1], table


def wanted(q: Tensor, k: Tensor, v: Tensor, table: Tensor, **how: Any) -> tuple[Tensor, Tensor]:
    """In float64, sequence by sequence; rows that see nothing are 0 and -inf."""
    out, lse = torch.zeros(len(q), HEADS, DIM).double(), torch.zeros(HEADS, len(q)).double()
    begin = 0
    for number, (rows, size) in enumerate(zip(QUERIES, KEYS, strict=True)):
        pages = table[number, : -(-size // k.shape[1])].long()
        keys, values = (x[pages].flatten(0, 1)[:size].double() for x in (k, v))
        keys, values = (x.repeat_interleave(HEADS // HEADS_K, 1) for x in (keys, values))
        here = slice(begin, begin + rows)
        scores = torch.einsum("qhd,khd->hqk", q[here].double(), keys) / math.sqrt(DIM)
        if how.get("softcap"):
            scores = how["softcap"] * torch.tanh(scores / how["softcap"])
        far = torch.arange(size) - (torch.arange(rows)[:, None] + size - rows)
        left, right = how.get("window", (None, 0 if how.get("causal") else None))
        seen = torch.ones(rows, size, dtype=torch.bool)
        seen &= True if right is None else far <= right
        seen &= True if left is None else far >= -left
        scores = scores.masked_fill(~seen, -math.inf)
        if how.get("slopes") is not None:
            scores = scores - how["slopes"].double()[:, None, None] * far.abs()
        sums = scores.logsumexp(-1)
        if how.get("sinks") is not None:
            sums = torch.logaddexp(sums, how["sinks"].double()[:, None])
        lse[:, here] = sums
        shares = (scores - sums[..., None]).exp().nan_to_num(0.0)
        out[here] = torch.einsum("hqk,khd->qhd", shares, values)
        begin += rows
    return out, lse


def close(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    assert torch.allclose(found[0].double(), expected[0], atol=2e-2)
    assert torch.allclose(found[1].double(), expected[1], atol=2e-3)
    assert all(x.is_contiguous() for x in found)


def call(q: Tensor, k: Tensor, v: Tensor, table: Tensor, **given: Any) -> Any:
    more: dict[str, Any] = {"seqused_k": torch.tensor(KEYS).int(), "return_lse": True}
    given = {"block_table": table, **more, **given}
    both = (starts(QUERIES), given.pop("cu_seqlens_k", None))
    return flash_attn_varlen_func(q, k, v, *both, max(QUERIES), max(KEYS), **given)


NAMES = (
    "q", "k_pages", "v_pages", "cu_seqlens_q", "seqused_k", "block_table", "slope", "sink", "o",
    "lse", "scale", "window_left", "window_right", "softcap", "inverse_softcap",
)  # fmt: skip


class Kernel:
    """A kernel of the spec, computed by torch from what it is passed."""

    def __init__(self, settings: dict[str, str]) -> None:
        left_out = {"softcap", "inverse_softcap"} if "soft_cap" not in settings else set[str]()
        left_out |= {"slope"} if "alibi" not in settings else set()
        left_out |= {"sink"} if "sinks" not in settings else set()
        self.settings, self.names = settings, [n for n in NAMES if n not in left_out]
        self.facts = SimpleNamespace(parameters=[SimpleNamespace(name=n) for n in self.names])

    def store(self, *values: Any) -> None:
        given: dict[str, Any] = dict(zip(self.names, values, strict=True))
        capped = "soft_cap" in self.settings
        scale = given["inverse_softcap"] * given["softcap"] if capped else given["scale"] / LOG2_E
        assert scale == pytest.approx(1 / math.sqrt(DIM))
        how: dict[str, Any] = {"causal": "causal" in self.settings}
        how |= {"softcap": given["softcap"]} if capped else {}
        if "window" in self.settings:
            how["window"] = tuple(int(given[f"window_{side}"]) for side in ("left", "right"))
        if "alibi" in self.settings:
            how["slopes"] = given["slope"][0] * (1 if capped else scale)
        if "sinks" in self.settings:
            how["sinks"] = given["sink"] / LOG2_E
        group = int(self.settings.get("group", "1"))
        assert torch.equal(given["cu_seqlens_q"], starts(QUERIES) * group)
        q = given["q"].view(-1, group, HEADS // group, DIM).transpose(1, 2).flatten(1, 2)
        tensors = (given[n] for n in ("k_pages", "v_pages", "block_table"))
        out, lse = wanted(q, *tensors, **how)
        given["o"].copy_(out.view(-1, HEADS // group, group, DIM).transpose(1, 2).flatten(0, 1))
        given["lse"].zero_()  # what belongs to no query is undefined
        begin = 0
        for number, rows in enumerate(QUERIES):
            some = lse[:, begin : begin + rows].view(HEADS // group, group, rows)
            given["lse"][number, :, : rows * group] = some.transpose(1, 2).flatten(1, 2)
            begin += rows


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """The settings of the kernels that were asked for."""
    asked: list[dict[str, str]] = []

    def kernel_of(spec: str, target: str, settings: tuple[tuple[str, str], ...]) -> Kernel:
        assert (spec, target) == ("attention_varlen_kvcache", "h200")
        asked.append(dict(settings))
        return Kernel(dict(settings))

    monkeypatch.setattr(over_pages, "kernel_of", kernel_of)
    monkeypatch.setattr("schedgen.kernels.checks.devices", lambda **_: torch.device("cpu"))  # pyright: ignore
    monkeypatch.setattr("schedgen.kernels.keys.architecture", lambda _: "sm_90a")  # pyright: ignore
    return asked


@pytest.mark.parametrize(
    ("given", "how", "flags"),
    [
        ({}, {}, set[str]()),
        ({"causal": True}, {"causal": True}, {"causal"}),
        ({"window_size": (7, 3)}, {"window": (7, 3)}, {"window"}),
        ({"window_size": (7, 3), "causal": True}, {"window": (7, 0)}, {"window"}),
        ({"softcap": 2.0}, {"softcap": 2.0}, {"soft_cap"}),
        ({"alibi_slopes": torch.arange(4.0)}, {"slopes": torch.arange(4.0)}, {"alibi"}),
        (
            {"alibi_slopes": torch.arange(4.0), "softcap": 2.0},
            {"slopes": torch.arange(4.0), "softcap": 2.0},
            {"alibi", "soft_cap"},
        ),
        ({"sinks": torch.arange(4.0)}, {"sinks": torch.arange(4.0)}, {"sinks"}),
    ],
)
def test_result_is_that_of_float64(
    computed: list[dict[str, str]], given: dict[str, Any], how: dict[str, Any], flags: set[str]
) -> None:
    q, pages = bf16(sum(QUERIES), HEADS, DIM), caches()
    close(call(q, *pages, **given), wanted(q, *pages, **how))
    base = {"head_dim": "64", "dtype": "bf16", "page_size": "48"}
    base |= {} if flags & {"alibi", "sinks"} else {"group": "2"}
    assert computed == [base | dict.fromkeys(flags, "true")]


def test_heads_of_a_group_share_tiles_of_few_queries() -> None:
    assert over_pages._pays(60 + 4 * 512, 64, 4)  # pyright: ignore[reportPrivateUsage]
    assert over_pages._pays(8, 8, 2)  # pyright: ignore[reportPrivateUsage]
    assert not over_pages._pays(8 * 512, 8, 4)  # pyright: ignore[reportPrivateUsage]
    assert not over_pages._pays(8, 8, 1)  # pyright: ignore[reportPrivateUsage]


def test_lengths_may_be_given_by_their_sums(computed: list[dict[str, str]]) -> None:
    q, (k, v, table) = bf16(sum(QUERIES), HEADS, DIM), caches()
    given: dict[str, Any] = {"seqused_k": None, "cu_seqlens_k": starts(KEYS), "page_table": table}
    found = call(q, k, v, table, block_table=None, **given)
    expected = call(q, k, v, table)
    assert torch.equal(found[0], expected[0])
    out = call(q, k, v, table, return_lse=False)
    assert torch.equal(out, expected[0])
    assert len(call(q, k, v, table, return_attn_probs=True)) == 3
    assert len(computed) == 4
    named: Any = {"cu_seqlens_q": starts(QUERIES), "seqused_k": torch.tensor(KEYS).int()}
    out = flash_attn_varlen_func(q, k, v, max_seqlen_q=70, block_table=table, **named)
    assert torch.equal(out, expected[0])
    with pytest.raises(ArgumentValueError, match="max_seqlen_q: it is None"):
        flash_attn_varlen_func(q, k, v, block_table=table, **named)


def test_nothing_to_compute(computed: list[dict[str, str]]) -> None:
    q, (k, v, table) = bf16(sum(QUERIES), HEADS, DIM), caches()
    sinks = torch.arange(4.0)
    out, lse = call(q, k[:0], v[:0], table, sinks=sinks)
    assert not out.any()
    assert torch.allclose(lse, sinks[:, None].expand(-1, len(q)))
    assert not computed


def test_opcheck(computed: list[dict[str, str]]) -> None:
    q, (k, v, table) = bf16(sum(QUERIES), HEADS, DIM), caches()
    k, v = k.nan_to_num(0.0), v.nan_to_num(0.0)
    numbers = (max(QUERIES), 0.125, 0.0, True, False, 0, 0, 1)
    for sinks in (None, torch.arange(4.0) * LOG2_E):
        given = (q, k, v, starts(QUERIES), torch.tensor(KEYS).int(), table, None, sinks, *numbers)
        torch.library.opcheck(torch.ops.schedgen.attention_varlen_kvcache.default, given)
    assert computed


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cu_seqlens_k": None, "seqused_k": None}, "seqused_k: it is None; allowed: the keys"),
        ({"seqused_k": torch.ones(4)}, "seqused_k: its dtype is torch.float32"),
        ({"seqused_k": torch.ones(3).int()}, r"seqused_k: its shape is \(3,\)"),
        ({"block_table": torch.zeros(4).int()}, "block_table: it has 1 dimensions"),
        ({"block_table": torch.zeros(3, 3).int()}, r"cu_seqlens_q: its shape is \(5,\)"),
        ({"page_table": torch.zeros(4, 3).int()}, "block_table: page_table is given, too"),
        ({"block_table": None}, "seqused_k: it is given; allowed: None"),
        ({"softmax_scale": 0.0}, "softmax_scale: it is 0.0"),
        ({"sinks": torch.zeros(3)}, r"sinks: its shape is \(3,\)"),
    ],
)
def test_what_is_refused(
    computed: list[dict[str, str]], given: dict[str, Any], message: str
) -> None:
    q, pages = bf16(sum(QUERIES), HEADS, DIM), caches()
    with pytest.raises((ArgumentValueError, ArgumentTypeError), match=message):
        call(q, *pages, **given)
    with pytest.raises(ArgumentValueError, match="k: its page_size is 20; allowed: multiples"):
        call(q, *caches(20))
    assert not computed


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("page", [16, 48])
def test_in_the_emulator(page: int) -> None:
    q, pages = bf16(sum(QUERIES), HEADS, DIM), caches(page)
    close(call(q, *pages, causal=True), wanted(q, *pages, causal=True))
