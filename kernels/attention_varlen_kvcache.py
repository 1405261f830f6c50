"""Attention of packed queries over pages: ``torch.ops.schedgen.attention_varlen_kvcache``.

What an engine computes that fills prompts and decodes in one batch: `flash_attn_varlen_func` with a
``block_table``. Kernels are made on first use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from schedgen.kernels import checks, keys, kv_cache_checks, layouts
from schedgen.kernels.attention_arguments import dims
from schedgen.kernels.attention_varlen import room
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.kv_cache_kernels import kernel_of
from schedgen.kernels.operators import Operator
from schedgen.kernels.variants.calling import LOG2_E, target_of

SPEC = "attention_varlen_kvcache"
ROWS = 128
"""Queries of an output tile."""
FEWER = 1.5
"""How many times more tiles there have to be without groups of heads that share them: queries and
results are copied for these. On an H200 8 sequences of 512 queries took 1.23 times as long with
them, and 60 of one query beside four of 512 half as long (29 November, runs that are not kept)."""


@dataclass(frozen=True)
class Asked:
    """Numbers of a call. ``softcap``: 0: none. ``window``: keys that a row sees before and behind
    the diagonal; None: there is no window, and ``causal`` says whether those behind it are seen.
    """

    scale: float
    softcap: float
    causal: bool
    window: tuple[int, int] | None


def attend(
    operands: tuple[Tensor, Tensor, Tensor],
    starts: Tensor,
    lengths: Tensor,
    table: Tensor,
    longest: int,
    asked: Asked,
    slopes: Tensor | None,
    sinks: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The result (total_q, heads, head_dim_v), and logarithms of sums, (batch, heads, longest).

    Where most sequences have few queries, tiles have rows of all heads of a group, so that keys and
    values are read once for them; not beside slopes and sinks, which are of whole tiles. The bits
    are the same either way, in the emulator with exact products; not compared on a GPU.

    Args:
        operands: q (total_q, heads, head_dim), and keys and values (num_pages, page_size, heads_k,
            head_dim) and with the head_dim of v.
        starts: (batch + 1,), int32: where queries of sequences begin, and the last ones end.
        lengths: (batch,), int32: keys of each sequence.
        table: (batch, most_pages), int32: the pages of each sequence.
        longest: as many queries as a sequence has at most.
        slopes: (heads,) or (batch, heads); sinks: (heads,).

    Raises:
        ArgumentValueError, ArgumentTypeError, DeviceError: as `flash_attn_varlen_func`.
    """
    checks.number("softmax_scale", asked.scale, positive=True)
    if asked.softcap:
        checks.number("softcap", asked.softcap, positive=True)
    _check(*operands, starts, lengths, table)
    q, batch = operands[0], len(lengths)
    kv_cache_checks.vectors(q.expand(batch, *q.shape), slopes, sinks)
    if slopes is not None:
        each = slopes.float() if asked.softcap else slopes.float() / asked.scale
        slopes = each.expand(batch, q.shape[1]).contiguous()
    if sinks is not None:
        sinks = sinks.float() * LOG2_E
    left, right = asked.window or (0, 0)
    group = q.shape[1] // operands[1].shape[2] if slopes is None and sinks is None else 1
    group = group if _pays(q.shape[0], batch, group) else 1
    starts = starts * group if group > 1 else starts
    out, lse = OPERATOR(
        *operands, starts, lengths, table, slopes, sinks, longest, asked.scale, asked.softcap,
        asked.causal, asked.window is not None, left, right, group,
    )  # fmt: skip
    if group > 1:
        lse = lse.unflatten(2, (longest, group)).transpose(2, 3).flatten(1, 2)
    return out, lse


def _pays(tokens: int, sequences: int, group: int) -> bool:
    """Whether heads of a group should share tiles, as far as the host knows."""
    apart = group * (tokens / ROWS + sequences)
    return apart > FEWER * (group * tokens / ROWS + sequences)


def _check(q: Tensor, k: Tensor, v: Tensor, starts: Tensor, lengths: Tensor, table: Tensor) -> None:
    """Shapes and data types."""
    checks.dimensions("q", q, 3, "(total_q, heads, head_dim)")
    for name, pages in (("k", k), ("v", v)):
        checks.dimensions(name, pages, 4, "(num_pages, page_size, heads_k, head_dim)")
    kv_cache_checks.operands(q[None], k, v, None, None, ("k", "v"))
    kv_cache_checks.pages("k", k)
    checks.dimensions("block_table", table, 2, "(batch, most_pages)")
    batch = table.shape[0]
    shapes: dict[str, tuple[Tensor, tuple[int, ...]]] = {
        "cu_seqlens_q": (starts, (batch + 1,)),
        "seqused_k": (lengths, (batch,)),
        "block_table": (table, (batch, table.shape[1])),
    }
    for name, (numbers, shape) in shapes.items():
        if numbers.dtype != torch.int32:
            got, fix = f"its dtype is {numbers.dtype}", f"{name}.int()"
            raise ArgumentTypeError(name, got, "torch.int32", fix)
        if tuple(numbers.shape) != shape:
            got, fix = (
                f"its shape is {tuple(numbers.shape)}",
                "give one for each row of block_table",
            )
            raise ArgumentValueError(name, got, f"{shape}", fix)


def _fake(
    q: Tensor, k: Tensor, v: Tensor, starts: Tensor, lengths: Tensor, table: Tensor,
    slopes: Tensor | None, sinks: Tensor | None, longest: int, scale: float, softcap: float,
    causal: bool, window: bool, left: int, right: int, group: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    del k, lengths, table, slopes, sinks, scale, softcap, causal, window, left, right
    _, lse = room(_grouped(q, group), v, starts, group * longest)
    return q.new_empty((*q.shape[:2], v.shape[-1])), lse


def _grouped(q: Tensor, group: int) -> Tensor:
    """(total_q * group, heads / group, head_dim): row = token * group + head of the group."""
    if group == 1:
        return q
    (tokens, heads, columns), of_k = q.shape, q.shape[1] // group
    apart = q.reshape(tokens, of_k, group, columns).transpose(1, 2)
    return apart.reshape(tokens * group, heads // group, columns)


def _apart(out: Tensor, group: int) -> Tensor:
    """What `_grouped` put together."""
    if group == 1:
        return out
    rows, heads, columns = out.shape
    apart = out.view(rows // group, group, heads, columns).transpose(1, 2)
    return apart.reshape(rows // group, heads * group, columns)


def _compute(
    q: Tensor, k: Tensor, v: Tensor, starts: Tensor, lengths: Tensor, table: Tensor,
    slopes: Tensor | None, sinks: Tensor | None, longest: int, scale: float, softcap: float,
    causal: bool, window: bool, left: int, right: int, group: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    q, longest = _grouped(q, group), longest * group
    given = {"q": q, "k_pages": k, "v_pages": v, "cu_seqlens_q": starts, "seqused_k": lengths}
    given |= {"block_table": table}
    device = checks.devices(**given, alibi_slopes=slopes, sinks=sinks)
    out, lse = room(q, v, starts, longest)
    if not (q.numel() and k.numel() and len(lengths) and longest):
        lse.fill_(-math.inf)
        lse = lse if sinks is None else lse.copy_((sinks / LOG2_E)[:, None])
        return _apart(out.zero_(), group), lse
    for name, cache in (("k", k), ("v", v)):
        kv_cache_checks.layout(name, cache)
    settings = dims(q.shape[2], v.shape[3]) | {"dtype": checks.DTYPES[q.dtype]}
    flags = {"causal": causal, "window": window, "soft_cap": bool(softcap)}
    flags |= {"alibi": slopes is not None, "sinks": sinks is not None}
    settings |= {name: "true" for name, value in flags.items() if value}
    settings["page_size"] = str(k.shape[1])
    settings |= {"group": str(group)} if group > 1 else {}
    passed: dict[str, Tensor | float] = {n: layouts.accessible(x) for n, x in given.items()}
    beside = (("slope", slopes), ("sink", sinks))
    passed |= {n: layouts.accessible(x) for n, x in beside if x is not None}
    passed |= {"scale": LOG2_E if softcap else scale * LOG2_E, "o": out, "lse": lse}
    passed |= {"window_left": float(left), "window_right": float(right)}
    if softcap:
        passed |= {"softcap": softcap, "inverse_softcap": scale / softcap}
    kernel = kernel_of(SPEC, target_of(keys.architecture(device)), tuple(settings.items()))
    kernel.store(*(passed[parameter.name] for parameter in kernel.facts.parameters))
    return _apart(out, group), lse


OPERATOR = Operator(
    "attention_varlen_kvcache(Tensor q, Tensor k_pages, Tensor v_pages, Tensor cu_seqlens_q, "
    "Tensor seqused_k, Tensor block_table, Tensor? slopes, Tensor? sinks, SymInt longest, "
    "float scale, float softcap, bool causal, bool window, SymInt left, SymInt right, "
    "SymInt group) "
    "-> (Tensor out, Tensor lse)",
    _compute,
    _fake,
)
