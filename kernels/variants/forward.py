"""Variants of attention: masks, scores and sinks, of batches."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from schedgen.kernels import attention_rows, checks, keys
from schedgen.kernels.attention_arguments import check, dims
from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.of_spec import SpecKernel
from schedgen.kernels.variants import calling, gradients, planned
from schedgen.kernels.variants.blocks import Blocks, arguments_of, blocks_of
from schedgen.kernels.variants.spec import LISTED


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    wanted: calling.Asked,
    sinks: Tensor | None,
    given: calling.Given,
    blocks: Blocks | bool | None,
) -> tuple[Tensor, Tensor]:
    """The result of a variant, and the logarithms of sums; arguments are those of `attention`.

    Raises what `attention` raises.
    """
    listed = calling.needs_list(wanted) if blocks is None else bool(blocks)
    if listed and wanted.mask is None:
        fix = "pass the mask that they are of"
        raise ArgumentValueError("blocks", "there is no mask", "None", fix)
    wanted = calling.with_list(wanted) if listed else wanted
    named: dict[str, Any] = {"q": q, "k": k, "v": v, "scale": scale}
    named |= planned.of_caller(sinks, given)
    if listed and isinstance(blocks, Blocks):
        named |= blocks.passed(wanted, given)

    def compute() -> tuple[Tensor, Tensor]:
        out, lse = planned.call(_FUNCTION, wanted, named)
        return out, lse

    if not gradients.are_asked(named.values()):
        return compute()
    _checked(wanted, named)
    return gradients.attend(compute, (q, k, v), wanted, scale, sinks, given)


def blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    wanted: calling.Asked,
    sinks: Tensor | None,
    given: calling.Given,
) -> Blocks:
    """The blocks of keys that tiles of queries see, of a variant with lists of them."""
    named = {"q": q, "k": k, "v": v, "scale": 1.0}
    device = _checked(wanted, named | planned.of_caller(sinks, given))
    of_mask = replace(wanted, score=None, sinks=False)
    passed = calling.expressed(of_mask, calling.sizes_of(q, k), q, 1.0, None, given)
    return blocks_of(_kernel(q, v, wanted, device), wanted, q, k, given, device, passed)


def _compute(wanted: calling.Asked, named: planned.Named) -> tuple[Tensor, Tensor]:
    """What a variant returns, without gradients; ``named`` may have its blocks, too."""
    device = _checked(wanted, named)
    q, k, v = (named[name] for name in ("q", "k", "v"))
    sinks, given = planned.from_caller(named)
    if not q.numel() or not k.shape[1]:
        out, lse = _room(named)
        return out.zero_(), lse.fill_(-math.inf) if sinks is None else lse.copy_(sinks[:, None])
    function = _kernel(q, v, wanted, device)
    passed = calling.expressed(wanted, calling.sizes_of(q, k), q, named["scale"], sinks, given)
    if wanted.blocks:
        passed |= (
            arguments_of(named, wanted, function, q, k)
            if LISTED in named
            else blocks_of(function, wanted, q, k, given, device, passed).arrays
        )
    return function(q=q, k=k, v=v, **passed)


def _room(named: planned.Named) -> tuple[Tensor, Tensor]:
    return attention_rows.room(named["q"], named["v"].shape[3], named["q"].dtype)


def _checked(wanted: calling.Asked, named: planned.Named) -> torch.device:
    """The device of arguments, which fit together."""
    q, k, v = (named[name] for name in ("q", "k", "v"))
    sinks, given = planned.from_caller(named)
    check(q, k, v, named["scale"])
    calling.spec_of(wanted)  # what is wrong with it does not depend on a GPU
    if sinks is not None and sinks.shape != (q.shape[2],):
        got = f"its shape is {tuple(sinks.shape)}"
        raise ArgumentValueError("sinks", got, f"({q.shape[2]},)", "pass one for each head")
    return checks.devices(q=q, k=k, v=v, sinks=sinks, **calling.tensors(given))


def _kernel(q: Tensor, v: Tensor, wanted: calling.Asked, device: torch.device) -> SpecKernel:
    """The kernel of a variant."""
    settings = dims(q.shape[3], v.shape[3]) | {"dtype": checks.DTYPES[q.dtype]}
    target = calling.target_of(keys.architecture(device))
    return calling.kernel_of(wanted, target, tuple(settings.items()))


_FUNCTION = planned.Function("attention_variant", _compute, _room)
