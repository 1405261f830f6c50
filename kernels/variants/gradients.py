"""Gradients of variants: of q, k, v and sinks, by kernels that are made on the first backward pass.

`attention` calls a variant through `attend` where gradients are asked for. The kernels are those of
`schedgen.kernels.attention_backward`, with the mask and the score of the variant in them
(`schedgen.kernels.variants.backward`); no sum goes across CTAs, or tiles take turns to add, so the
same inputs give the same bits. Where a list says which blocks the forward pass takes, these kernels
have one each: of blocks of keys for tiles of queries, and of blocks of queries for tiles of keys.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.autograd import Function

from schedgen.codegen.compiling import CompilerEnded
from schedgen.errors import SchedgenError
from schedgen.expressions import ExpressionError
from schedgen.kernels import attention_varlen, cache, checks, keys, one_walk
from schedgen.kernels.attention_arguments import derivable, dims, walks
from schedgen.kernels.errors import GradientError, KernelError
from schedgen.kernels.of_spec import SpecKernel
from schedgen.kernels.variants import calling, planned
from schedgen.kernels.variants.backward import (
    KEYS,
    OF_KEYS,
    OF_QUERIES,
    PACKED_KEYS,
    PACKED_QUERIES,
    PACKED_WHOLE,
    QUERIES,
    WHOLE,
)
from schedgen.kernels.variants.blocks import blocks_of, tile_of
from schedgen.kernels.variants.errors import VariantError
from schedgen.kernels.variants.spec import LISTED
from schedgen.stored import Store

log = logging.getLogger("schedgen.kernels")

DELTA = "attention_bwd_delta"
SPECS = DELTA, KEYS, QUERIES, WHOLE
PACKED = attention_varlen.DELTA, PACKED_KEYS, PACKED_QUERIES, PACKED_WHOLE
"""Specs of row sums, and of gradients, by two walks or one: of batches, and of packed sequences."""
_DLSE, _NONE = "dlse", "no kernel of gradients"
_T = TypeVar("_T")
Results = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Call:
    """A call of a variant, but for its tensors.

    Attributes:
        compute: the forward pass: the result, and the logarithms of sums.
        wanted: the variant.
        scale: the softmax scale.
        given: numbers that its expressions name.
        names: tensors that these name, in the order in which they are passed.
        starts: where the queries and the keys of packed sequences begin; None: there are batches.
    """

    compute: Callable[[], Results]
    wanted: calling.Asked
    scale: float
    given: Mapping[str, int | float]
    names: tuple[str, ...]
    starts: tuple[Tensor, Tensor] | None


def are_asked(values: Iterable[object]) -> bool:
    """Whether gradients of a tensor among ``values`` are asked for."""
    return torch.is_grad_enabled() and any(
        isinstance(x, Tensor) and x.requires_grad for x in values
    )


def attend(
    compute: Callable[[], Results],
    operands: tuple[Tensor, Tensor, Tensor],
    wanted: calling.Asked,
    scale: float,
    sinks: Tensor | None,
    given: calling.Given,
    starts: tuple[Tensor, Tensor] | None = None,
) -> Results:
    """What ``compute`` returns for q, k and v, with gradients of these and of ``sinks``.

    ``starts`` say where the queries and the keys of packed sequences begin.
    """
    tensors = calling.tensors(given)
    numbers = {name: value for name, value in given.items() if not isinstance(value, Tensor)}
    call = Call(compute, wanted, scale, numbers, tuple(tensors), starts)
    applied: Callable[..., Any] = _Attention.apply  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    return applied(call, *operands, sinks, *tensors.values())


class _Attention(Function):
    @staticmethod
    def forward(ctx: Any, call: Call, *tensors: Tensor | None) -> Results:
        out, lse = call.compute()
        ctx.call = call
        ctx.save_for_backward(*tensors, out, lse)
        ctx.set_materialize_grads(False)
        return out, lse

    @staticmethod
    def backward(ctx: Any, dout: Tensor | None, dlse: Tensor | None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        call: Call = ctx.call
        q, k, v, sinks, *tensors, out, lse = ctx.saved_tensors
        needed = dict(zip(call.names, ctx.needs_input_grad[5:], strict=True))
        for name in (name for name, wanted in needed.items() if wanted):
            fix = f"pass {name}.detach(), or compute it in torch where it is learned"
            raise GradientError(f"attention has no gradient of '{name}'; fix: {fix}")
        nothing = [None] * len(tensors)
        if dout is None and dlse is None:
            return None, None, None, None, None, *nothing
        dout = torch.zeros_like(out) if dout is None else dout
        applied: Callable[..., Any] = _Gradients.apply  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        found = applied(call, dout, dlse, q, k, v, sinks, out, lse, *tensors)
        return None, *found, *nothing


class _Gradients(Function):
    """They are differentiated no further, which is said where somebody tries."""

    @staticmethod
    def forward(ctx: Any, call: Call, *given: Any) -> Any:
        del ctx
        dout, dlse, q, k, v, sinks, out, lse, *tensors = given
        named = {**call.given, **dict(zip(call.names, tensors, strict=True))}
        results, by = (out, lse), (call.wanted, call.scale, sinks, named)
        if call.starts is not None:
            return of_packed(dout, (q, k, v), results, dlse, *by, call.starts)
        return backward(dout, (q, k, v), results, dlse, *by)

    @staticmethod
    def backward(ctx: Any, *_: Tensor | None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        del ctx
        fix = "call it without create_graph, or detach its gradients"
        raise GradientError(f"gradients of attention have no backward pass; fix: {fix}")


def backward(
    dout: Tensor,
    operands: tuple[Tensor, Tensor, Tensor],
    results: Results,
    dlse: Tensor | None,
    wanted: calling.Asked,
    scale: float,
    sinks: Tensor | None,
    given: calling.Given,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The gradients of q, k, v and sinks.

    Args:
        dout: (batch, seq_q, heads, head_dim), the gradient of the result.
        results: the result, and the logarithms of sums, (batch, heads, seq_q).
        dlse: the gradient of these; None: 0.

    Raises:
        GradientError: there are no kernels for the head_dim, the GPU or the variant, whose score
            may have no derivative.
    """
    (q, k, v), (out, lse) = operands, results
    if not q.numel() or not k.numel():
        zero = torch.zeros_like(lse) if dlse is None else dlse
        dsinks = None if sinks is None else zero.sum((0, 2)).to(sinks.dtype)
        return torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v), dsinks
    named: dict[str, Any] = {"q": q, "k": k, "v": v, "do": dout.contiguous(), "o": out, "lse": lse}
    named |= {"scale": scale, **planned.of_caller(None, given)}
    plain = replace(wanted, sinks=False)  # they are in the logarithms of sums
    if dlse is None:
        dq, dk, dv, delta = planned.call(_FUNCTION, plain, named)
    else:  # which is subtracted from what a kernel computes: no plan has that
        dq, dk, dv, delta = _compute(plain, {**named, _DLSE: dlse})
    if k.shape[2] != q.shape[2]:  # in float32, rounded once
        dk, dv = (each.view(*k.shape[:3], -1, each.shape[3]).sum(3) for each in (dk, dv))
    return dq, dk, dv, None if sinks is None else _of_sinks(sinks, lse, delta)


def _compute(wanted: calling.Asked, named: planned.Named) -> tuple[Tensor, ...]:
    """The gradients of q, and of k and v for each head of q, and the row sums of dout * out."""
    q, k, v, scale = (named[name] for name in ("q", "k", "v", "scale"))
    _, given = planned.from_caller(named)
    tiles = q.shape[0] * q.shape[2] * -(-k.shape[1] // one_walk.BLOCK)
    of_sums, *of_each = _kernels(q, v, wanted, q.shape[1], tiles)
    delta, lse2 = of_sums(do=named["do"], o=named["o"], lse=named["lse"])
    if _DLSE in named:
        delta = delta - named[_DLSE]  # the gradient of a score is p * (dp - delta + dlse)
    passed: dict[str, Any] = {name: named[name] for name in ("q", "k", "v", "do")}
    passed |= {"lse": lse2, "delta": delta}
    passed |= calling.expressed(wanted, calling.sizes_of(q, k), q, scale, None, given)
    found, counted = dict[str, Tensor](), None
    of_keys: dict[tuple[int, int], dict[str, Tensor]] = {}
    for one in of_each:
        if LISTED in (parameter.name for parameter in one.inputs):
            passed |= _lists(one, wanted, passed, given, of_keys)
        made, counted = one.told(**{p.name: passed[p.name] for p in one.inputs})
        found |= {result.name: value for result, value in zip(one.outputs, made, strict=True)}
    if found["dq"].dtype != q.dtype:  # what one walk added up
        total, found["dq"] = found["dq"], q.new_empty(q.shape)
        one_walk.rounded(total, found["dq"], counted, scale)
    return *(found[name] for name in ("dq", "dk", "dv")), delta


def _room(named: planned.Named) -> tuple[Tensor, ...]:
    q, k, v = (named[name] for name in ("q", "k", "v"))
    batch, seq_q, heads, head_dim = q.shape
    of_heads = (batch, k.shape[1], heads)
    sums = q.new_empty((batch, heads, seq_q), dtype=torch.float32)
    dk, dv = (q.new_empty((*of_heads, size)) for size in (head_dim, v.shape[3]))
    return torch.empty_like(q), dk, dv, sums


_FUNCTION = planned.Function("attention_variant_backward", _compute, _room, results=4)


def of_packed(
    dout: Tensor,
    operands: tuple[Tensor, Tensor, Tensor],
    results: Results,
    dlse: Tensor | None,
    wanted: calling.Asked,
    scale: float,
    sinks: Tensor | None,
    given: calling.Given,
    starts: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The same for packed sequences, which begin at ``starts`` in q, (total_q, heads, head_dim),
    and in k and v. Logarithms of sums have room for the longest sequence.
    """
    (q, k, v), (out, lse) = operands, results
    found, batch = attention_varlen.room_for_gradients(q, k, v), len(starts[0]) - 1
    if not (q.numel() and k.numel() and batch):
        nothing = None if sinks is None else torch.zeros_like(sinks)
        return *attention_varlen.of_shared(k, found), nothing
    named = {"cu_seqlens_q": starts[0].contiguous(), "cu_seqlens_k": starts[1].contiguous()}
    read = {"q": q, "k": k, "v": v, "do": dout, "o": out, "lse": lse, **named}
    sizes = {"head": q.shape[1], "batch": batch}
    passed = calling.expressed(wanted, sizes, q, scale, None, given)
    tiles = q.shape[1] * -(-k.shape[0] // one_walk.BLOCK)
    made = _kernels(q, v, wanted, q.shape[0] // batch, tiles, PACKED)
    delta = attention_varlen.compute(made, read, dlse, passed, found, scale)
    dsinks = None
    if sinks is not None:
        lse = lse.masked_fill(attention_varlen.behind(starts[0], lse.shape[2]), 0.0)
        dsinks = _of_sinks(sinks, lse, delta)
    return *attention_varlen.of_shared(k, found), dsinks


def _lists(
    function: SpecKernel,
    wanted: calling.Asked,
    passed: Mapping[str, Any],
    given: calling.Given,
    of_keys: dict[tuple[int, int], dict[str, Tensor]],
) -> dict[str, Tensor]:
    """The blocks that a kernel takes: of keys for tiles of queries, or turned.

    ``passed`` has what both kernels are passed, ``of_keys`` what was listed for tiles of keys, of
    which wide heads have two kernels.
    """
    q, k = passed["q"], passed["k"]
    device = checks.devices(q=q)  # that of a call that is planned
    if "dq" in (result.name for result in function.outputs):
        by = q, k, given, device, passed, OF_QUERIES
        return blocks_of(function, replace(wanted, score=None), *by).arrays
    tile = tile_of(function, OF_KEYS)
    if tile not in of_keys:  # there is a tile of keys for each head of q
        rows = k[:, :, :1].expand(*k.shape[:2], q.shape[2], k.shape[3])
        by = rows, q, given, device, {**passed, **_turned(wanted, passed)}, OF_KEYS
        of_keys[tile] = blocks_of(function, calling.turned(wanted), *by).arrays
    return of_keys[tile]


def _turned(wanted: calling.Asked, passed: Mapping[str, Any]) -> dict[str, Any]:
    """What expressions of a turned mask are passed: what is along rows is along columns there."""
    mask = calling.variant_of(wanted).mask
    assert mask is not None
    named = [vector for vector in mask.vectors.values() if vector.name]
    return {vector.turned.argument: passed[vector.argument] for vector in named}


def _of_sinks(sinks: Tensor, lse: Tensor, delta: Tensor) -> Tensor:
    """A sink takes its share of each row, which has no value."""
    share = (sinks.float()[:, None] - lse).exp().nan_to_num(0.0)  # -inf of both: no share
    return -(share * delta).sum((0, 2)).to(sinks.dtype)


def _kernels(
    q: Tensor,
    v: Tensor,
    wanted: calling.Asked,
    queries: int,
    tiles: int,
    specs: tuple[str, str, str, str] = SPECS,
) -> tuple[SpecKernel, ...]:
    """Of row sums, and of gradients: of keys and values (one or two) and of queries, or of all.

    Args:
        queries: of a sequence; of packed ones, their mean.
        tiles: blocks of keys of all heads, about.
    """
    head_dim, head_dim_v = q.shape[-1], v.shape[-1]
    derivable(head_dim, head_dim_v)
    device = checks.devices(q=q)
    arch = keys.architecture(device)
    target = calling.target_of(arch)
    dtype = {"dtype": checks.DTYPES[q.dtype]}
    settings = tuple((dims(head_dim, head_dim_v) | dtype).items())
    plain = replace(wanted, sinks=False)  # they are in the logarithms of sums
    delta, of_keys, of_queries, whole = specs
    of_sums = _kernel(calling.Asked(None, None, False, False, (), delta), target, (*dtype.items(),))

    def in_two_walks() -> tuple[SpecKernel, ...]:
        return tuple(
            _walking(replace(plain, base=base), target, (*settings, *of.items()))
            for base, of in walks(of_keys, of_queries, head_dim, head_dim_v)
        )

    sizes = head_dim, head_dim_v
    may = one_walk.VARIANTS
    if not wanted.blocks and one_walk.in_turns(arch, sizes, queries, tiles, device, may):
        asked, ordered = replace(plain, base=whole), (*settings, ("ordered", "true"))
        return of_sums, *_or_else(asked, target, ordered, in_two_walks, "have two kernels")
    return of_sums, *in_two_walks()


def _walking(
    wanted: calling.Asked, target: str, settings: tuple[tuple[str, str], ...]
) -> SpecKernel:
    """A kernel that takes a list, if one is asked for and accepted, else one that computes all
    blocks.
    """
    if not wanted.blocks:
        return _kernel(wanted, target, settings)

    def without() -> tuple[SpecKernel, ...]:
        return (_kernel(replace(wanted, blocks=False), target, settings),)

    (found,) = _or_else(wanted, target, settings, without, "compute all blocks")
    return found


def _or_else(
    wanted: calling.Asked,
    target: str,
    settings: tuple[tuple[str, str], ...],
    others: Callable[[], tuple[SpecKernel, ...]],
    what: str,
) -> tuple[SpecKernel, ...]:
    """The kernel that is asked for, or ``others`` if none is accepted. That there is none is kept
    on disk, since finding out takes minutes. ``what`` gradients do then is said once.
    """
    store, by = Store(), list(cache.packages())  # what compiles may refuse it, too
    made_from = [_derived(wanted, calling.spec_of).source.sha256, target, sorted(settings), by]
    if store.get(_NONE, made_from) is not None:
        return others()
    try:
        return (_kernel(wanted, target, settings),)
    except GradientError as error:
        found = others()  # raises what that kernel has nothing to do with
        log.warning("gradients of this variant %s: %s", what, error)
        store.put(_NONE, made_from, str(error))
        return found


def _derived(wanted: calling.Asked, by: Callable[[calling.Asked], _T]) -> _T:
    """What is made of the formulas of a variant. Raises GradientError: one has no derivative."""
    try:
        return by(wanted)
    except ExpressionError as error:
        assert wanted.score is not None  # what is read there was read before, but for derivatives
        shown = VariantError("score", wanted.score, "no-derivative", error)
        message = f"attention has no gradients with this score, which has no derivative:\n{shown}"
        raise GradientError(message) from None


def _kernel(
    wanted: calling.Asked, target: str, settings: tuple[tuple[str, str], ...]
) -> SpecKernel:
    try:
        return _derived(wanted, lambda one: calling.kernel_of(one, target, settings))
    except (KernelError, CompilerEnded):
        raise
    except SchedgenError as error:
        raise GradientError(
            f"attention has no gradients of this variant on {target}: no kernel of {wanted.base} "
            f"is accepted with its mask and its score; fix: call it under torch.no_grad(), or make "
            f"the expressions shorter\n{error}"
        ) from error
