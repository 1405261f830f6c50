"""Attention of packed sequences and its gradients: ``torch.ops.schedgen.attention_varlen_fwd``.

    out, lse = OPERATOR(q, k, v, cu_seqlens_q, cu_seqlens_k, longest, scale, causal)

`flash_attn_varlen_func` calls it where no variant is asked for. Kernels are made on first use.
Gradients are those of `schedgen.kernels.attention_backward`, by kernels of which each has ragged
extents; no sum goes across CTAs, or tiles take turns to add, so the same arguments give the same
bits (but for `in_one_walk`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from schedgen.kernels import checks, keys, layouts, one_walk, turns
from schedgen.kernels.attention_arguments import derivable, dims, walks
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.of_spec import SpecKernel
from schedgen.kernels.operators import Operator
from schedgen.kernels.variants import calling
from schedgen.kernels.variants.backward import PACKED_KEYS, PACKED_QUERIES, PACKED_WHOLE

SPEC = "attention_varlen"
DELTA, CONVERT = "attention_varlen_bwd_delta", one_walk.CONVERT
WHOLE = PACKED_WHOLE
_ROUND = 4
"""Elements of lse in 16 bytes, which rows of a bulk copy are multiples of."""


def check(q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor) -> None:
    """Raises ArgumentValueError or ArgumentTypeError: operands do not fit together."""
    checks.dtypes(q=q, k=k, v=v)
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        checks.dimensions(name, tensor, 3, "(total, heads, head_dim)")
    if v.shape[:2] != k.shape[:2]:
        got, like = f"its shape is {tuple(v.shape)}", f"{(*k.shape[:2], v.shape[2])}, like k"
        raise ArgumentValueError("v", got, like, "reshape v")
    if k.shape[2] != q.shape[2]:
        got = f"its head_dim is {k.shape[2]}"
        raise ArgumentValueError("k", got, f"{q.shape[2]}, that of q", "make head_dim the same")
    if not k.shape[1] or q.shape[1] % k.shape[1]:
        got, allowed = f"it has {k.shape[1]} heads", f"a divisor of {q.shape[1]}, the heads of q"
        raise ArgumentValueError("k", got, allowed, "repeat heads of k and v, or drop some")
    for name, tensor in (("cu_seqlens_q", cu_seqlens_q), ("cu_seqlens_k", cu_seqlens_k)):
        if tensor.dtype != torch.int32:
            got, fix = f"its dtype is {tensor.dtype}", f"{name}.int()"
            raise ArgumentTypeError(name, got, "torch.int32", fix)
        if tensor.dim() != 1 or not tensor.numel():
            got, fix = f"its shape is {tuple(tensor.shape)}", "begin with 0, end with the total"
            raise ArgumentValueError(name, got, "(batch + 1,)", fix)
    if len(cu_seqlens_q) != len(cu_seqlens_k):
        got, allowed = f"it has {len(cu_seqlens_k)} numbers", f"{len(cu_seqlens_q)}"
        raise ArgumentValueError("cu_seqlens_k", got, allowed, "give one for each sequence")


def room(q: Tensor, v: Tensor, cu_seqlens_q: Tensor, longest: int) -> tuple[Tensor, Tensor]:
    """Room for the output (total_q, heads, head_dim_v), and for logarithms of sums, (batch, heads,
    longest) in float32 with at least one element along each, whose rows begin at multiples of 16
    bytes.
    """
    (total, heads, _), batch = q.shape, max(cu_seqlens_q.shape[0] - 1, 1)
    columns = max(longest, 1)
    row = (columns + _ROUND - 1) // _ROUND * _ROUND
    strides = (heads * row, row, 1)
    lse = q.new_empty_strided((batch, heads, columns), strides, dtype=torch.float32)
    return q.new_empty((total, heads, v.shape[-1])), lse


def _store(function: SpecKernel, **given: Tensor | float) -> None:
    """Has a kernel write its results, which are among ``given``."""
    function.store(*(given[parameter.name] for parameter in function.facts.parameters))


def _fake(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, longest: int,
    scale: float, causal: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    del causal
    check(q, k, v, cu_seqlens_q, cu_seqlens_k)
    checks.number("softmax_scale", scale, positive=True)
    return room(q, v, cu_seqlens_q, longest)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, cu_seqlens_q: Tensor, cu_seqlens_k: Tensor, longest: int,
    scale: float, causal: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    check(q, k, v, cu_seqlens_q, cu_seqlens_k)
    checks.number("softmax_scale", scale, positive=True)
    starts = {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    device = checks.devices(q=q, k=k, v=v, **starts)
    out, lse = room(q, v, cu_seqlens_q, longest)
    if not (q.numel() and k.numel() and len(cu_seqlens_q) > 1 and longest):
        return out.zero_(), lse.fill_(-math.inf)
    settings = dims(q.shape[2], v.shape[2]) | {"dtype": checks.DTYPES[q.dtype]}
    function = calling.without_expressions(SPEC, device, settings, causal=causal)
    given = {"q": q, "k": k, "v": v, **starts}
    given = {name: layouts.accessible(tensor) for name, tensor in given.items()}
    _store(function, **given, o=out, lse=lse, scale=scale * calling.LOG2_E)
    return out, lse


def _check_gradients(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor, dlse: Tensor | None, scale: float,
) -> None:  # fmt: skip
    check(q, k, v, cu_seqlens_q, cu_seqlens_k)
    checks.number("softmax_scale", scale, positive=True)
    checks.dtypes(q=q, dout=dout, out=out)
    derivable(q.shape[2], v.shape[2])
    checks.dimensions("lse", lse, 3, "(batch, heads, longest)")
    rows = max(cu_seqlens_q.shape[0] - 1, 1), q.shape[1], lse.shape[2]
    for name, tensor in {"dout": dout, "out": out, "lse": lse, "dlse": dlse}.items():
        wanted = rows if "lse" in name else (*q.shape[:2], v.shape[2])
        if tensor is not None and tuple(tensor.shape) != tuple(wanted):
            fix = "pass what the forward pass returned, and its gradient"
            raise ArgumentValueError(name, f"its shape is {tuple(tensor.shape)}", f"{wanted}", fix)
        if tensor is not None and "lse" in name and tensor.dtype != torch.float32:
            got, fix = f"its dtype is {tensor.dtype}", f"{name}.float()"
            raise ArgumentTypeError(name, got, "torch.float32", fix)


def _fake_gradients(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor, dlse: Tensor | None, scale: float, causal: bool,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    del causal
    _check_gradients(dout, q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, dlse, scale)
    return q.new_empty(q.shape), k.new_empty(k.shape), v.new_empty(v.shape)


def _backward(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor, dlse: Tensor | None, scale: float, causal: bool,
    *, ordered: bool | None = None, two_walks: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    _check_gradients(dout, q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k, dlse, scale)
    starts = {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    device = checks.devices(dout=dout, q=q, k=k, v=v, out=out, lse=lse, dlse=dlse, **starts)
    results = room_for_gradients(q, k, v)
    if q.numel() and k.numel() and len(cu_seqlens_q) > 1:
        dtype = {"dtype": checks.DTYPES[q.dtype]}
        settings = dims(q.shape[2], v.shape[2]) | dtype
        made = calling.without_expressions
        given = {"q": q, "k": k, "v": v, "do": dout, "o": out, "lse": lse, **starts}
        if ordered is None and not two_walks:
            ordered = _takes_turns(q, k, v, cu_seqlens_q, causal, device) or None
        if ordered is None:
            each = walks(PACKED_KEYS, PACKED_QUERIES, q.shape[2], v.shape[2])
        else:
            each = ((WHOLE, {"ordered": "true"} if ordered else {}),)
        of_each = (made(base, device, settings | of, causal=causal) for base, of in each)
        kernels = made(DELTA, device, dtype), *of_each
        compute(kernels, given, dlse, {"scale": scale * calling.LOG2_E}, results, scale)
    return of_shared(k, results)


def _takes_turns(
    q: Tensor, k: Tensor, v: Tensor, starts: Tensor, causal: bool, device: torch.device
) -> bool:
    """How long sequences are is data, but for their mean."""
    arch, mean = keys.architecture(device), q.shape[0] // (len(starts) - 1)
    tiles, sizes = q.shape[1] * -(-k.shape[0] // one_walk.BLOCK), (q.shape[2], v.shape[2])
    return not causal and one_walk.in_turns(arch, sizes, mean, tiles, device, one_walk.PACKED)


def without_turns(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor, *, causal: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of packed sequences by two kernels, wherever one would take turns."""
    given = (dout, q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k)
    return _backward(*given, None, q.shape[2] ** -0.5, causal, two_walks=True)


def in_one_walk(
    dout: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor, *, causal: bool = False, ordered: bool = True,
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """The gradients of packed sequences by one kernel with five products instead of two with seven,
    to compare both: that of q is a sum over tiles of keys, ``ordered`` or with other bits each
    time. Arguments are those of `GRADIENTS`, without ``dlse`` and with the usual softmax scale;
    head_dim is 64 or 128.
    """
    given = (dout, q, k, v, out, lse, cu_seqlens_q, cu_seqlens_k)
    return _backward(*given, None, q.shape[2] ** -0.5, causal, ordered=ordered)


def room_for_gradients(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Zeros for the gradients of q, and of k and v for each head of q: elements that belong to no
    sequence stay 0.
    """
    of_heads = (x.new_empty((x.shape[0], q.shape[1], x.shape[2])) for x in (k, v))
    dq, dk, dv = (x.zero_() for x in (q.new_empty(q.shape), *of_heads))
    return dq, dk, dv


def of_shared(k: Tensor, results: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v, for those of k and v for each head of q."""
    dq, dk, dv = results
    if dk.shape[1] != k.shape[1]:  # in float32, rounded once
        dk, dv = (x.view(*k.shape[:2], -1, x.shape[2]).sum(2) for x in (dk, dv))
    return dq, dk, dv


def behind(starts: Tensor, longest: int) -> Tensor:
    """Which of ``longest`` queries of each sequence it does not have, (batch, 1, longest)."""
    lengths = starts[1:] - starts[:-1]
    return (torch.arange(longest, device=starts.device) >= lengths[:, None])[:, None]


def compute(
    kernels: tuple[SpecKernel, ...],
    given: dict[str, Tensor],
    dlse: Tensor | None,
    passed: Mapping[str, Tensor | float],
    results: tuple[Tensor, Tensor, Tensor],
    scale: float,
) -> Tensor:
    """Has gradients of q, and of k and v for each head of q, written into ``results``.

    Args:
        kernels: of row sums, and of gradients: two walks, or one that adds up that of q.
        given: what all of them read, by the names of the specs.
        passed: what those of gradients are given beside that.
        scale: the softmax scale.

    Returns:
        The row sums of dout * out less ``dlse``, (batch, heads, longest).
    """
    given = {name: layouts.accessible(tensor) for name, tensor in given.items()}
    of_sums, *of_each = kernels
    lse = given["lse"]
    delta, lse2 = (layouts.room(lse, lse.shape).zero_() for _ in range(2))  # behind sequences, too
    _store(of_sums, **given, delta=delta, lse2=lse2)
    if dlse is not None:  # the gradient of a score is p * (dp - delta + dlse)
        delta -= dlse.masked_fill(behind(given["cu_seqlens_q"], lse.shape[2]), 0.0)
    every = {**given, "lse": lse2, "delta": delta, **passed}
    every |= dict(zip(("dq", "dk", "dv"), results, strict=True))
    walk, *more = of_each
    if not walk.facts.sums:
        for one in (walk, *more):
            _store(one, **every)
        return delta
    dq = results[0]
    total = layouts.room(lse, dq.shape).zero_()  # float32
    extents = {"batch": lse.shape[0], "seq_q": lse.shape[2], "heads": dq.shape[1]}
    _store(walk, **{**every, "dq": total, **turns.zeros(walk.facts, extents, dq)})
    device, dtype = checks.devices(q=dq), {"dtype": checks.DTYPES[dq.dtype]}
    calling.without_expressions(CONVERT, device, dtype).store(total[None], dq[None], scale)
    return delta


_STARTS = "Tensor cu_seqlens_q, Tensor cu_seqlens_k"
OPERATOR = Operator(
    f"attention_varlen_fwd(Tensor q, Tensor k, Tensor v, {_STARTS}, SymInt longest,"
    " float softmax_scale, bool causal) -> (Tensor out, Tensor lse)",
    _forward,
    _fake,
)
"""The output, and logarithms of sums (batch, heads, longest), which hold anything behind the end of
a sequence."""
GRADIENTS = Operator(
    "attention_varlen_bwd(Tensor dout, Tensor q, Tensor k, Tensor v, Tensor out, Tensor lse,"
    f" {_STARTS}, Tensor? dlse, float softmax_scale, bool causal)"
    " -> (Tensor dq, Tensor dk, Tensor dv)",
    _backward,
    _fake_gradients,
)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    q, k, v, *starts, _, ctx.scale, ctx.causal = inputs
    ctx.save_for_backward(q, k, v, *output, *starts)
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> tuple[Tensor | None, ...]:
    q, k, v, out, lse, *starts = ctx.saved_tensors
    if dout is None and dlse is None:
        return (None,) * 8
    dout = torch.zeros_like(out) if dout is None else dout
    found = GRADIENTS(dout, q, k, v, out, lse, *starts, dlse, ctx.scale, ctx.causal)
    return *found, None, None, None, None, None


OPERATOR.differentiate(_save, _gradients)
