"""Decode over caches: when it is called, what its kernels get, and results in the emulator."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import pad

from schedgen.kernels import attention_decode_kvcache as decode
from schedgen.kernels import flash_attn_with_kvcache, kv_cache_checks, of_file
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from tests.kernels import test_operators
from tests.kernels.standin import StandIn
from tests.kernels.test_flash_attn_kvcache import bf16

LENGTHS, ROOM, HEADS, HEADS_K = (700, 0, 1024, 1, 512, 129), 1024, 8, 2
BATCH = len(LENGTHS)


def lengths(values: tuple[int, ...] = LENGTHS) -> Tensor:
    return torch.tensor(values, dtype=torch.int32)


def caches(page: int, dim: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """NaN behind what there is; with pages in no order, of which those that nobody has are NaN."""
    whole = [bf16(BATCH, ROOM, HEADS_K, dim) for _ in "kv"]
    for one in whole:
        for number, size in enumerate(LENGTHS):
            one[number, size:] = torch.nan
    if not page:
        return whole[0], whole[1], None
    each = -(-ROOM // page)
    order = torch.randperm(BATCH * each)
    pages = [torch.empty(BATCH * each, page, HEADS_K, dim).bfloat16() for _ in whole]
    for one, of_whole in zip(pages, whole, strict=True):
        filled = pad(of_whole, (0, 0, 0, 0, 0, each * page - ROOM), value=torch.nan)
        one[order] = filled.view(-1, page, HEADS_K, dim)
    table = order.view(BATCH, each).int()
    for number, size in enumerate(LENGTHS):
        table[number, -(-size // page) :] = -7
    return pages[0], pages[1], table


def rows(cache: Tensor, table: Tensor | None, number: int, size: int) -> Tensor:
    """(keys, heads_k, dim) of a batch."""
    if table is None:
        return cache[number, :size]
    pages = table[number, : -(-size // cache.shape[1])].long()
    return cache[pages].flatten(0, 1)[:size]


def wanted(
    q: Tensor, k: Tensor, v: Tensor, table: Tensor | None, sizes: list[int], *, causal: bool
) -> tuple[Tensor, Tensor]:
    """Batch by batch in float64; rows that see nothing are 0 and -inf."""
    out = torch.zeros(*q.shape[:3], v.shape[3]).double()
    lse = torch.full((q.shape[0], q.shape[2], q.shape[1]), -math.inf).double()
    for number, size in enumerate(sizes):
        keys, values = (
            rows(x, table, number, size).double().repeat_interleave(HEADS // HEADS_K, 1)
            for x in (k, v)
        )
        scores = torch.einsum("qhd,khd->hqk", q[number].double(), keys) * q.shape[3] ** -0.5
        if causal:
            at = torch.arange(q.shape[1])[:, None] + size - q.shape[1]
            scores = scores.masked_fill(torch.arange(size)[None, :] > at, -math.inf)
        lse[number] = scores.logsumexp(-1)
        shares = (scores - lse[number][..., None]).exp().nan_to_num(0.0)
        out[number] = torch.einsum("hqk,khd->qhd", shares, values)
    return out, lse


def close(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> None:
    assert torch.allclose(found[0].double(), expected[0], atol=2e-2)
    assert torch.allclose(found[1].double(), expected[1], atol=1e-3)
    assert all(x.is_contiguous() for x in found)


class Kernels(StandIn):
    """Kernels over caches, computed by torch; splits that are left out are NaN."""

    def launch(self, tensors: Any, scalars: Any = ()) -> None:
        recorded = [tensor for tensor in tensors if tensor.dtype is not torch.int32]
        if self.name.startswith("attention_kvcache_parts"):
            self.calls.append(self.name)
            _parts(self.name, tensors, scalars)
        elif self.name.startswith("attention_kvcache_combine"):
            self.calls.append(self.name)
            _combine(tensors, scalars)
        elif self.name.startswith("attention_kvcache_whole"):
            self.calls.append(self.name)
            _whole(self.name, tensors, scalars)
        else:
            assert recorded
            super().launch(tensors, scalars)


def _each(size: int, steps: float, most: float) -> int:
    return 128 * max(int(steps), -(-size // (128 * int(most))))


def _parts(name: str, tensors: Any, scalars: Any) -> None:
    q, k, v, sizes, *table, o, lse = tensors
    scale, steps, most, group = scalars
    assert len(table) == ("page_size" in name)
    room = k.shape[1] * (table[0].shape[1] if table else 1)
    o.fill_(torch.nan)
    lse.fill_(torch.nan)
    for n, said in enumerate(sizes.tolist()):
        size = min(max(said, 0), room)
        keys, values = (rows(x, table[0] if table else None, n, size) for x in (k, v))
        scores = q[n].float() @ keys.float().permute(1, 2, 0) * (scale * math.log(2))
        if "causal" in name:
            at = torch.arange(q.shape[2]) // int(group) + size - q.shape[2] // int(group)
            scores = scores.masked_fill(torch.arange(size) > at[:, None], -torch.inf)
        each = _each(size, steps, most)
        for split in range(max(-(-size // each), 1)):
            here = slice(split * each, (split + 1) * each)
            part = scores[..., here].softmax(-1).nan_to_num(0.0)
            o[split, n] = part @ values[here].float().transpose(0, 1)
            lse[split, n] = scores[..., here].logsumexp(-1) if size else -torch.inf


def _combine(tensors: Any, scalars: Any) -> None:
    p, part_lse, sizes, out, lse = tensors
    room, steps, most = scalars
    for n, said in enumerate(sizes.tolist()):
        size = min(max(said, 0), int(room))
        there = max(-(-size // _each(size, steps, most)), 1)
        assert there <= p.shape[0]
        weights = part_lse[:there, n].softmax(0).nan_to_num(0.0)
        out[n] = (p[:there, n] * weights[..., None]).sum(0)
        lse[n] = part_lse[:there, n].logsumexp(0)


def _whole(name: str, tensors: Any, scalars: Any) -> None:
    q, k, _, sizes, *table, out, lse = tensors
    _, steps, most, _ = scalars
    room = k.shape[1] * (table[0].shape[1] if table else 1)
    parts = max(-(-room // (128 * int(steps))), 1)
    p = torch.empty((parts, *q.shape[:3], out.shape[3]))
    _parts(name, (*tensors[:-2], p, part_lse := p[..., 0].clone()), scalars)
    _combine((p, part_lse, sizes, out, lse), (room, steps, most))


@pytest.fixture
def computed(launches: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that were launched."""

    def launcher(path: Any, device: torch.device) -> Kernels:
        del device
        return Kernels(launches, path.name)

    monkeypatch.setattr(of_file, "launcher", launcher)
    monkeypatch.setattr(decode, "multiprocessors", lambda _: 132)  # pyright: ignore
    return launches


def call(q: Tensor, k_cache: Tensor, v_cache: Tensor, table: Tensor | None, **given: Any) -> Any:
    more: dict[str, Any] = {"cache_seqlens": lengths(), "return_softmax_lse": True}
    more |= given
    return flash_attn_with_kvcache(q, k_cache, v_cache, block_table=table, **more)


@pytest.mark.parametrize("page", [0, 16, 64, 256])
@pytest.mark.parametrize(("tokens", "causal"), [(1, True), (3, True), (2, False)])
def test_in_splits(computed: list[str], page: int, tokens: int, causal: bool) -> None:
    q, (k, v, table) = bf16(BATCH, tokens, HEADS, 128), caches(page, 128)
    found = call(q, k, v, table, causal=causal)
    close(found, wanted(q, k, v, table, [*LENGTHS], causal=causal))
    masked = "_causal" * (causal and tokens > 1)
    paged = f"_page_size{page}" * bool(page)
    assert computed == [
        f"attention_kvcache_parts_sm_90a_head_dim128_bf16{masked}{paged}.py",
        "attention_kvcache_combine_sm_90a_bf16.py",
    ]


def test_new_tokens_and_lengths_beyond_the_room(computed: list[str]) -> None:
    q, (k, v, table) = bf16(BATCH, 2, HEADS, 128), caches(16, 128)
    new = [bf16(BATCH, 2, HEADS_K, 128) for _ in "kv"]
    assert table is not None
    table[table < 0] = 0
    found = call(q, k, v, table, k=new[0], v=new[1], causal=True)
    sizes = [min(size + 2, ROOM) for size in LENGTHS]
    close(found, wanted(q, k, v, table, sizes, causal=True))
    assert len(computed) == 2


def test_what_is_in_the_batch_does_not_matter(computed: list[str]) -> None:
    q, (k, v, _) = bf16(BATCH, 1, HEADS, 128), caches(0, 128)
    found = call(q, k, v, None)
    for n in range(BATCH):
        one = slice(n, n + 1)
        alone = call(q[one], k[one], v[one], None, cache_seqlens=lengths()[one].clone())
        assert torch.equal(alone[0], found[0][one])
        assert torch.equal(alone[1], found[1][one])
    assert len(computed) == 2 * (1 + BATCH)


def test_who_calls_it(computed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a sequence that fit into one tile, nothing but a causal mask, and keys that may be
    split.
    """
    asked: list[str] = []

    def kernel_of(spec: str, target: str, settings: Any) -> Any:
        del target, settings
        asked.append(spec)
        return lambda **given: (given["q"], given["q"])  # pyright: ignore

    monkeypatch.setattr("schedgen.kernels.flash_attn_kvcache.kernel_of", kernel_of)
    k, v, _ = caches(0, 128)
    others: list[dict[str, Any]] = [
        {"window_size": (5, 5)}, {"softcap": 2.0},
        {"sinks": torch.zeros(HEADS)}, {"alibi_slopes": torch.zeros(HEADS)},
    ]  # fmt: skip
    for given in others:
        call(bf16(BATCH, 1, HEADS, 128), k, v, None, **given)
    call(bf16(BATCH, 17, HEADS, 128), k, v, None)  # 68 rows
    assert asked == ["attention_kvcache"] * (len(others) + 1)
    assert not computed
    call(bf16(BATCH, 16, HEADS, 128), k, v, None, num_splits=4)
    assert len(computed) == 2


@pytest.mark.parametrize("page", [0, 16])
@pytest.mark.parametrize(("tokens", "heads"), [(1, HEADS), (3, 6)])
def test_splits_in_turn(computed: list[str], page: int, tokens: int, heads: int) -> None:
    q, (k, v, table) = bf16(BATCH, tokens, heads, 128), caches(page, 128)
    expected = call(q, k, v, table, causal=True)
    found = call(q, k, v, table, causal=True, num_splits=1)
    assert torch.allclose(found[0].float(), expected[0].float(), atol=1e-2)
    assert torch.allclose(found[1], expected[1])
    assert all(x.is_contiguous() for x in found)
    masked, paged = "_causal" * (tokens > 1), f"_page_size{page}" * bool(page)
    assert computed[2:] == [f"attention_kvcache_whole_sm_90a_head_dim128_bf16{masked}{paged}.py"]


@pytest.mark.medium
def test_who_takes_splits(computed: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    q, (k, v, _) = bf16(BATCH, 1, HEADS, 128), caches(0, 128)
    cases = [(13, 0, 1024), (40, 0, 1024), (12, 2, 1024), (132, 1, 9), (12, 0, 99), (12, 0, 9999)]
    for sms, n, room in cases:
        monkeypatch.setattr(decode, "multiprocessors", lambda _, sms=sms: sms)  # pyright: ignore
        monkeypatch.setattr(decode, "MOST_IN_TURN", room)
        call(q, k, v, None, num_splits=n)
    call(bf16(BATCH, 1, HEADS, 64), *caches(0, 64)[:2], None)  # splits are faster there
    whole, parts = (f"attention_kvcache_{n}_sm_90a_head_dim128_bf16.py" for n in ("whole", "parts"))
    both = [parts, parts.replace("parts_sm_90a_head_dim128", "combine_sm_90a")]
    assert computed == [whole, *both * 2, whole, *both, whole, parts.replace("128", "64"), both[1]]


def test_no_splits_in_turn_on_blackwell(monkeypatch: pytest.MonkeyPatch) -> None:
    q, (k, v, _) = bf16(BATCH, 1, HEADS, 128), caches(0, 128)
    assert decode.is_for(q, k, v, None, whole=True)
    monkeypatch.setattr("schedgen.kernels.keys.architecture", lambda _: "sm_100a")  # pyright: ignore
    assert decode.is_for(q, k, v, None, whole=False)
    assert not decode.is_for(q, k, v, None, whole=True)


def test_without_keys_or_queries(computed: list[str]) -> None:
    q, (k, v, _) = bf16(BATCH, 1, HEADS, 128), caches(0, 128)
    out, lse = decode.attention_decode_kvcache(q, k[:, :0], v[:, :0], lengths(), softmax_scale=1.0)
    assert not out.any()
    assert (lse == -math.inf).all()
    out, _ = decode.attention_decode_kvcache(q[:, :0], k, v, lengths(), softmax_scale=1.0)
    assert out.shape == (BATCH, 0, HEADS, 128)
    assert not computed


def test_opcheck(computed: list[str]) -> None:
    for page, tokens in ((0, 1), (16, 2)):
        q, (k, v, table) = bf16(BATCH, tokens, HEADS, 128), caches(page, 128)
        arguments = (q, k.nan_to_num(0.0), v.nan_to_num(0.0), lengths(), table, 0.1, True, 0)
        operator = torch.ops.schedgen.attention_decode_kvcache.default
        for num_splits in range(3):
            torch.library.opcheck(operator, (*arguments, num_splits))
    assert computed


class _Planned(test_operators.Kernel, Kernels):
    """Kernels over caches that plans call."""


def opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the operator be planned for tensors on the CPU."""
    made: dict[str, _Planned] = {}

    def launcher(path: Any, device: torch.device) -> _Planned:
        del device
        return made.setdefault(path.name, made.get(path.name) or _Planned([], path.name))

    monkeypatch.setattr(of_file, "launcher", launcher)
    monkeypatch.setattr(decode, "multiprocessors", lambda _: 132)  # pyright: ignore
    test_operators.opened(decode._operator, monkeypatch)  # pyright: ignore[reportPrivateUsage]


@test_operators.pytestmark
@pytest.mark.parametrize("page", [0, 16])
@pytest.mark.parametrize(("tokens", "heads"), [(1, HEADS), (1, 6), (2, HEADS)])
def test_calls_are_planned(
    planned: list[str], monkeypatch: pytest.MonkeyPatch, page: int, tokens: int, heads: int
) -> None:
    opened(monkeypatch)
    k, v, table = caches(page, 128)
    for turn in range(4):
        q, sizes = bf16(BATCH, tokens, heads, 128), lengths() // (turn + 1)
        scale = 0.125 * (turn + 1)
        given = (q, k, v, sizes, table)
        found = decode.attention_decode_kvcache(*given, softmax_scale=scale)
        expected = decode._decode(*given, scale, False, 0, 0)  # pyright: ignore[reportPrivateUsage]
        assert torch.allclose(found[0], expected[0], rtol=1e-2, atol=1e-3)  # scale: float32
        assert torch.allclose(found[1], expected[1], rtol=1e-5)
    assert len(planned) == 2 * 2


planned = test_operators.planned


@test_operators.pytestmark
@pytest.mark.usefixtures("planned")
def test_planned_calls_are_checked_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[int] = []
    check = kv_cache_checks.operands

    def operands(*given: Any) -> None:
        checked.append(turn)
        check(*given)

    opened(monkeypatch)
    monkeypatch.setattr(kv_cache_checks, "operands", operands)
    monkeypatch.setattr(Tensor, "is_cuda", True)
    k, v, table = caches(16, 128)
    for turn in range(4):  # noqa: B007 `operands` notes it
        q = bf16(BATCH, 1, HEADS, 128)
        found = call(q, k, v, table, softmax_scale=0.125)
        expected = decode._decode(q, k, v, lengths(), table, 0.125, False, 0, 0)  # pyright: ignore[reportPrivateUsage]
        assert torch.allclose(found[0], expected[0], rtol=1e-2, atol=1e-3)
    assert [checked.count(n) for n in range(4)] == [2, 3, 1, 1]  # 1 of what is expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cache_seqlens": torch.ones(BATCH)}, "cache_seqlens: its dtype is torch.float32"),
        ({"cache_seqlens": torch.ones(2).int()}, r"cache_seqlens: its shape is \(2,\)"),
        ({"block_table": torch.zeros(BATCH).int()}, "block_table: it has 1 dimensions"),
        ({"block_table": torch.zeros(BATCH, 2).int(),
          **{n: bf16(BATCH, 24, HEADS_K, 128) for n in ("k_cache", "v_cache")}},
         "k_cache: its page_size is 24"),
        ({"q": bf16(2, 1, HEADS, 128)}, r"cache_seqlens: its shape is \(6,\)"),
        ({"q": bf16(BATCH, 1, 3, 128)}, "k_cache: it has 2 heads"),
        ({"q": bf16(BATCH, 1, HEADS, 128).float()}, "q: its dtype is torch.float32"),
        ({"v_cache": bf16(BATCH, 8, HEADS_K, 128)}, r"v_cache: its shape is \(6, 8, 2, 128\)"),
        ({"softmax_scale": -1.0}, "softmax_scale: it is -1.0"),
        ({n: bf16(ROOM, BATCH, HEADS_K, 128).transpose(0, 1) for n in ("k_cache", "v_cache")},
         "k_cache: its strides begin with 256 and 1536"),
    ],
)  # fmt: skip
def test_what_is_refused(
    computed: list[str], given: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by `flash_attn_with_kvcache`, which leaves it to the operator."""
    monkeypatch.setattr(Tensor, "is_cuda", True)
    k, v, _ = caches(0, 128)
    arguments: dict[str, Any] = {"q": bf16(BATCH, 1, HEADS, 128), "k_cache": k, "v_cache": v}
    arguments |= {"cache_seqlens": lengths(), **given}
    with pytest.raises((ArgumentValueError, ArgumentTypeError), match=message):
        flash_attn_with_kvcache(**arguments)
    assert not computed


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize(("page", "tokens"), [(0, 1), (16, 3), (48, 2), (256, 1)])
def test_in_the_emulator(page: int, tokens: int) -> None:
    """Lengths of 0, 1, whole splits and more, of each way; the same bits by both."""
    q, (k, v, table) = bf16(BATCH, tokens, HEADS, 64), caches(page, 64)
    ways: list[tuple[Tensor, Tensor]] = []
    for num_splits in (2, 1):
        found = decode.attention_decode_kvcache(
            q,
            k,
            v,
            lengths(),
            table,
            softmax_scale=0.125,
            causal=True,
            split=128,
            num_splits=num_splits,
        )
        close(found, wanted(q, k, v, table, [*LENGTHS], causal=True))
        ways.append(found)
    assert all(torch.equal(one, other) for one, other in zip(*ways, strict=True))
