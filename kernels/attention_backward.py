"""Gradients of attention: ``torch.ops.schedgen.attention_bwd`` and its friendly form.

Three kernels. `attention_bwd_delta` computes the row sums of dout * out, `attention_bwd_kv` the
gradients of keys and values, tile by tile of keys, and `attention_bwd_q` those of queries. No sum
goes across CTAs, so the bits of the results are the same each time (docs/backward.md). Of more than
128 columns there is one `attention_bwd_kv` for keys and one for values. Or there is
`attention_bwd` instead of the last two: five products instead of seven, and a sum over CTAs, one
after the other, or in any order for who accepts other bits each time
(``torch.ops.schedgen.attention_bwd_unordered``).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from schedgen.kernels import (
    attention_arguments,
    attention_op,
    checks,
    keys,
    layouts,
    library,
    one_walk,
)
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError, GradientError
from schedgen.kernels.operators import Operator
from schedgen.kernels.variants import calling

DELTA, KEYS, QUERIES = "attention_bwd_delta", "attention_bwd_kv", "attention_bwd_q"
WHOLE, CONVERT = "attention_bwd", one_walk.CONVERT
ARCHITECTURES = ("sm_90a", "sm_100a")


def attention_backward(
    dout: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    *,
    dlse: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    deterministic: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of `attention`, which calls this where gradients are asked for.

    The same arguments give the same bits, unless that is left open. Of k and v that several heads
    of q share, the gradients of each head are rounded to the type of k, and added up in float32 in
    their order.

    Args:
        dout: the gradient of ``out``, of its shape and type; any layout.
        q, k, v: as of `attention`. Kernels are shipped for a head_dim of 64 and 128; others are
            made on the first call.
        out, lse: what `attention` returned for them.
        dlse: the gradient of ``lse``, (batch, heads, seq_q), float32; None: 0.
        softmax_scale, causal: as they were passed to `attention`.
        deterministic: if False, the gradient of q may be a sum in any order, whose last bits are
            others in each call, where the model says that this takes less time. If True it is one
            in order, or none (`schedgen.kernels.one_walk`).

    Returns:
        The gradients of q, k and v, contiguous.

    Raises:
        GradientError: there are no kernels for this GPU.
        As `attention`.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if softmax_scale is None else softmax_scale
    by = _attention_bwd if deterministic else _attention_bwd_unordered
    return by(dout, q, k, v, out, lse, dlse, scale, causal)


def without_turns(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, *, causal: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """`attention_backward` by two walks, wherever it would take one in which tiles add in turns:
    to compare both. Each call is made anew, and not planned.
    """
    return _backward(dout, q, k, v, out, lse, None, q.shape[3] ** -0.5, causal, two_walks=True)


def _check(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, dlse: Tensor | None,
    scale: float,
) -> None:  # fmt: skip
    attention_arguments.check(q, k, v, scale)
    checks.dtypes(q=q, dout=dout, out=out)
    rows = (q.shape[0], q.shape[2], q.shape[1])
    results = {"dout": dout, "out": out, "lse": lse, "dlse": dlse}
    for name, tensor in results.items():
        wanted = rows if "lse" in name else (*q.shape[:3], v.shape[3])
        if tensor is not None and tuple(tensor.shape) != tuple(wanted):
            fix = "pass what attention returned, and its gradient"
            raise ArgumentValueError(name, f"its shape is {tuple(tensor.shape)}", f"{wanted}", fix)
        if tensor is not None and "lse" in name and tensor.dtype != torch.float32:
            fix = f"{name}.float()"
            raise ArgumentTypeError(name, f"its dtype is {tensor.dtype}", "torch.float32", fix)


def _fake(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, dlse: Tensor | None,
    scale: float, causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    del causal
    _check(dout, q, k, v, out, lse, dlse, scale)
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _backward(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, dlse: Tensor | None,
    scale: float, causal: bool, *, unordered: bool = False, two_walks: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    _check(dout, q, k, v, out, lse, dlse, scale)
    device = checks.devices(dout=dout, q=q, k=k, v=v, out=out, lse=lse, dlse=dlse)
    dq, dk, dv = q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)
    arch = keys.architecture(device)
    if arch not in ARCHITECTURES:
        raise GradientError(f"attention has no gradients on {arch}; fix: call torch's there")
    if not q.numel() or not k.numel():
        return dq.zero_(), dk.zero_(), dv.zero_()
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        checks.layout(name, tensor)
    dout, out, lse = (layouts.accessible(x) for x in (dout, out, lse))  # of any layout
    delta, lse2 = (layouts.room(lse, lse.shape) for _ in range(2))
    dtype = {"dtype": checks.DTYPES[q.dtype]}
    library.launcher(device, DELTA, **dtype).launch((dout, out, lse, delta, lse2))
    if dlse is not None:
        delta -= dlse  # the gradient of a score is p * (dp - delta + dlse)
    settings = attention_arguments.dims(q.shape[3], v.shape[3]) | dtype
    settings |= {"causal": "true"} if causal else {}
    shared = q.shape[2] != k.shape[2]
    of_heads = dk, dv
    if shared:
        of_k, of_v = (x.new_empty((*x.shape[:2], q.shape[2], x.shape[3])) for x in (k, v))
        of_heads = of_k, of_v
    given = {"q": q, "k": k, "v": v, "do": dout, "lse": lse2, "delta": delta}
    if unordered and q.shape[3] in one_walk.UNORDERED[arch]:
        _in_one_walk(device, settings, given, (dq, *of_heads), scale)
    elif not two_walks and _takes_turns(arch, q, k, v, device):
        _in_one_walk(device, settings | {"ordered": "true"}, given, (dq, *of_heads), scale)
    else:
        _in_two_walks(device, settings, given, (dq, *of_heads), scale)
    if shared:
        for each, found in zip(of_heads, (dk, dv), strict=True):
            torch.sum(each.view(*k.shape[:3], -1, each.shape[3]), 3, out=found)
    return dq, dk, dv


def _takes_turns(arch: str, q: Tensor, k: Tensor, v: Tensor, device: torch.device) -> bool:
    tiles = q.shape[0] * q.shape[2] * -(-k.shape[1] // one_walk.BLOCK)
    return one_walk.in_turns(arch, (q.shape[3], v.shape[3]), q.shape[1], tiles, device)


def _in_two_walks(
    device: torch.device,
    settings: Mapping[str, str],
    given: Mapping[str, Tensor],
    results: tuple[Tensor, Tensor, Tensor],
    scale: float,
) -> None:
    """``results``, gradients of q, k and v, from ``given``, by kernels without a sum over CTAs."""
    (dq, *of_heads), exponent = results, scale * math.log2(math.e)
    sizes = given["q"].shape[3], given["v"].shape[3]
    if sizes[0] in attention_arguments.GRADIENT_DIMS and sizes[0] == sizes[1]:
        tensors = tuple(given.values())
        library.launcher(device, KEYS, **settings).launch((*tensors, *of_heads), (exponent,))
        library.launcher(device, QUERIES, **settings).launch((*tensors, dq), (exponent,))
        return
    for spec, of in attention_arguments.walks(KEYS, QUERIES, *sizes):
        made = calling.without_expressions(spec, device, {**settings, **of})
        every = {**given, **dict(zip(("dq", "dk", "dv"), results, strict=True)), "scale": exponent}
        made.store(*(every[parameter.name] for parameter in made.facts.parameters))


def _in_one_walk(
    device: torch.device,
    settings: Mapping[str, str],
    given: Mapping[str, Tensor],
    results: tuple[Tensor, Tensor, Tensor],
    scale: float,
) -> None:
    """The same by one kernel, which adds up the gradient of q in float32, in order or not, and one
    that rounds it, head by head while the first one still runs.
    """
    dq, *of_heads = results
    run = library.launcher(device, WHOLE, **settings)
    batch, seq_q, heads, _ = dq.shape
    extents = {"batch": batch, "seq_q": seq_q, "heads": heads, "seq_k": given["k"].shape[1]}
    total, words, counted = one_walk.with_sum(run.facts, extents, dq.shape, dq)
    run.launch((*given.values(), *of_heads, total, *words.values()), (scale * math.log2(math.e),))
    one_walk.rounded(total, dq, counted, scale)


_SCHEMA = (
    "{}(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse, Tensor? dlse,"
    " float softmax_scale, bool causal) -> (Tensor dq, Tensor dk, Tensor dv)"
)
_attention_bwd = Operator(_SCHEMA.format("attention_bwd"), _backward, _fake)
_attention_bwd_unordered = Operator(
    _SCHEMA.format("attention_bwd_unordered"), partial(_backward, unordered=True), _fake
)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    *operands, ctx.scale, ctx.causal = inputs
    ctx.save_for_backward(*operands, *output)
    ctx.set_materialize_grads(False)


def _gradients(
    by: Operator, ctx: Any, dout: Tensor | None, dlse: Tensor | None
) -> tuple[Tensor | None, Tensor | None, Tensor | None, None, None]:
    q, k, v, out, lse = ctx.saved_tensors
    if dout is None and dlse is None:
        return None, None, None, None, None
    dout = torch.zeros_like(out) if dout is None else dout
    dq, dk, dv = by(dout, q, k, v, out, lse, dlse, ctx.scale, ctx.causal)
    return dq, dk, dv, None, None


attention_op.OPERATOR.differentiate(_save, partial(_gradients, _attention_bwd))
attention_op.UNORDERED.differentiate(_save, partial(_gradients, _attention_bwd_unordered))
