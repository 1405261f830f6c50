"""Attention on generated kernels: ``torch.ops.schedgen.attention_fwd`` and its friendly form."""

from __future__ import annotations

import math
from typing import Literal, overload

from torch import Tensor

from schedgen.kernels import attention_rows, checks, keys, library
from schedgen.kernels.attention_arguments import SPLIT_DIMS, check, dims
from schedgen.kernels.attention_decode import SPLIT, decoded
from schedgen.kernels.operators import Operator
from schedgen.kernels.variants import calling, forward, gradients
from schedgen.kernels.variants.blocks import Blocks

_FEW, _LONG = 64, SPLIT
"""Rows of a tile, tokens times heads of a group, at most, and keys at least, with which `attention`
splits keys."""


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    return_lse: Literal[False] = False,
    deterministic: bool = True,
    mask: str | None = None,
    score: str | None = None,
    sinks: Tensor | None = None,
    blocks: Blocks | bool | None = None,
    **given: Tensor | int | float,
) -> Tensor: ...


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    return_lse: Literal[True],
    deterministic: bool = True,
    mask: str | None = None,
    score: str | None = None,
    sinks: Tensor | None = None,
    blocks: Blocks | bool | None = None,
    **given: Tensor | int | float,
) -> tuple[Tensor, Tensor]: ...


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    softmax_scale: float | None = None,
    causal: bool = False,
    return_lse: bool = False,
    deterministic: bool = True,
    mask: str | None = None,
    score: str | None = None,
    sinks: Tensor | None = None,
    blocks: Blocks | bool | None = None,
    **given: Tensor | int | float,
) -> Tensor | tuple[Tensor, Tensor]:
    """softmax(softmax_scale * q k^T) v, with the conventions of flash-attn.

        attention(q, k, v, mask="column <= row and doc[row] == doc[column]", doc=doc)
        attention(q, k, v, causal=True, score="score + slope[head] * (column - row)", slope=slope)

    Few tokens over 1024 keys or more, if no gradients are asked for, are computed as by
    `attention_decode`: in splits, of which the sequence alone decides.

    A row of q that sees no key gives 0, and -inf as its ``lse``: with ``causal``, the first
    ``seq_q - seq_k`` rows; without keys, all. There are gradients of q, k, v and sinks
    (docs/backward.md). Tensors that expressions name have none.

    Args:
        q: (batch, seq_q, heads, head_dim), bfloat16 or float16, head_dim 32 to 256 in steps of 32;
            contiguous in the last dimension, address and other strides multiples of 16 bytes.
        k: (batch, seq_k, heads_k, head_dim), where heads is a multiple of heads_k; of q's type.
            Query head h uses key head ``h * heads_k // heads``.
        v: like k; with a head_dim of 192 also (batch, seq_k, heads_k, 128).
        softmax_scale: above 0; ``1 / sqrt(head_dim)`` if None.
        causal: row i of q sees keys up to ``i + seq_k - seq_q`` (aligned bottom right).
        return_lse: whether to return ``lse`` too.
        deterministic: if False, gradients may have other bits in each run, to be faster
            (`attention_backward`); what is returned here has the same ones always.
        mask: which keys (``column``) queries (``row``) see, an expression of the language of specs
            over these, ``head``, ``batch``, ``seq_q``, ``seq_k`` and ``given`` (docs/variants.md).
            Its kernel is solved, proven and compiled on the first call, and kept on disk.
        score: what becomes of ``score``, which is ``softmax_scale * q k^T``, before it is masked.
        sinks: (heads,), a logit of each head that takes part in its softmax and has no value;
            ``lse`` has it, too.
        blocks: which blocks of keys are computed, as `attention_blocks` says for the same
            arguments. If None, they are found out in each call where a mask says by elements of
            tensors along rows and columns which keys are seen; if False, they never are. They may
            leave out what ``mask`` leaves out, and are no mask themselves.
        given: numbers and tensors that ``mask`` and ``score`` name. Another number is no other
            kernel, but whether it is an int or a float is. Tensors count as float32.

    Returns:
        ``out`` like q with the head_dim of v, contiguous; or ``(out, lse)`` with the natural
        logarithm of the sum of exponentials, (batch, heads, seq_q), float32.

    Raises:
        ArgumentValueError: a ValueError; a shape, layout, device or number that does not fit.
        ArgumentTypeError: a TypeError; a data type that does not fit.
        VariantError: a ValueError; what is wrong with ``mask`` or ``score``, and where.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    if mask is not None or score is not None or sinks is not None or blocks or given:
        wanted = calling.asked(mask, score, causal, sinks, given)
        out, lse = forward.attend(q, k, v, scale, wanted, sinks, given, blocks)
        return (out, lse) if return_lse else out
    derived = gradients.are_asked((q, k, v))
    if not derived and _is_decode(q, k, v):  # decode has no gradients
        out, lse = decoded(q, k, v, scale, causal=causal)
        return (out, lse) if return_lse else out
    operator = OPERATOR if deterministic or not derived else UNORDERED
    out, lse = operator(q, k, v, scale, causal)
    return (out, lse) if return_lse else out


def _is_decode(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether keys should be split, as `attention_decode` does: a few tokens over keys of a split
    or more. It depends on nothing that differs between batches. With 8192 keys that took 0.17 to
    0.41 of the time on an H200 in graphs, of one and four tokens (`benchmarks/decode.py`); where it
    begins to be worth it was not measured.
    """
    if q.dim() != 4 or k.dim() != 4 or v.dim() != 4 or not k.shape[2]:
        return False
    rows = q.shape[1] * (q.shape[2] // k.shape[2])
    fits = 0 < rows <= _FEW and (q.shape[3], v.shape[3]) in SPLIT_DIMS
    return fits and k.shape[1] >= _LONG


def attention_blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    mask: str,
    score: str | None = None,
    sinks: Tensor | None = None,
    **given: Tensor | int | float,
) -> Blocks:
    """The blocks of keys that tiles of queries see, to be passed to `attention` as ``blocks``.

        blocks = attention_blocks(q, k, v, mask="doc[row] == doc[column]", doc=doc)
        for q, k, v in layers:
            attention(q, k, v, mask="doc[row] == doc[column]", doc=doc, blocks=blocks)

    The arguments are those of the calls of `attention` that they are for. Of operands only shapes,
    type and device count; of tensors that the mask names values do, too. The GPU is not waited for.

    Raises:
        ArgumentValueError, ArgumentTypeError, VariantError, DeviceError: as `attention`.
    """
    wanted = calling.with_list(calling.asked(mask, score, causal, sinks, given))
    return forward.blocks(q, k, v, wanted, sinks, given)


def _empty(q: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    return attention_rows.room(q, v.shape[3], q.dtype)


def _fake(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> tuple[Tensor, Tensor]:
    del causal
    check(q, k, v, scale)
    return _empty(q, v)


def _forward(q: Tensor, k: Tensor, v: Tensor, scale: float, causal: bool) -> tuple[Tensor, Tensor]:
    check(q, k, v, scale)
    device = checks.devices(q=q, k=k, v=v)
    out, lse = _empty(q, v)
    seq_q, seq_k = q.shape[1], k.shape[1]

    def launch(q: Tensor, out: Tensor, lse: Tensor) -> None:
        settings = dims(q.shape[3], v.shape[3]) | {"dtype": checks.DTYPES[q.dtype]}
        if causal:
            settings["causal"] = "true"
        settings |= keys.settings(device, q.shape[3], causal, seq_q, seq_k)
        run = library.launcher(device, "attention_fwd", **settings)
        run.launch((q, k, v, out, lse), (scale * math.log2(math.e),))

    if out.numel():
        if seq_k:
            for name, tensor in (("q", q), ("k", k), ("v", v)):
                checks.layout(name, tensor)
        attention_rows.compute(q, seq_k, causal, (out, lse), launch)
    return out, lse


_SCHEMA = (
    "{}(Tensor q, Tensor k, Tensor v, float softmax_scale, bool causal) -> (Tensor out, Tensor lse)"
)
OPERATOR = Operator(_SCHEMA.format("attention_fwd"), _forward, _fake)
UNORDERED = Operator(_SCHEMA.format("attention_fwd_unordered"), _forward, _fake)
"""The same, with gradients that may have other bits in each run."""
