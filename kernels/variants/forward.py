"""Variants of attention: masks, scores and sinks, of batches."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from schedgen.kernels import attention_rows, checks, keys
from schedgen.kernels.attention_arguments import check, dims
from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.of_spec import SpecKernel
from schedgen.kernels.variants import calling, gradients, planned
from schedgen.kernels.variants.blocks import Blocks, arguments_of, blocks_of


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
    derived = gradients.are_asked(named.values())
    if derived or (listed and not isinstance(blocks, Blocks)):  # others when there is no plan
        _checked(wanted, named)

    def compute() -> tuple[Tensor, Tensor]:
        listing = _listing(wanted, named, blocks) if listed else {}
        return planned.call(_FUNCTION, wanted, named | listing)

    if not derived:
        return compute()
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
    return blocks_of(_kernel(q, v, wanted, device), wanted, q, k, given)


def _listing(
    wanted: calling.Asked, named: planned.Named, blocks: Blocks | bool | None
) -> dict[str, Any]:
    """What a call has of ``blocks``, or of those that are found out here."""
    q, k, v = (named[name] for name in ("q", "k", "v"))
    _, given = planned.from_caller(named)
    if not isinstance(blocks, Blocks):
        if not q.numel() or not k.shape[1]:
            return {}
        kernel = _kernel(q, v, wanted, checks.devices(q=q))
        blocks = blocks_of(kernel, wanted, q, k, given)
    return blocks.passed(wanted, given)


def _compute(wanted: calling.Asked, named: planned.Named) -> tuple[Tensor, Tensor]:
    """What a variant returns, without gradients; ``named`` has its blocks, too."""
    device = _checked(wanted, named)
    q, k, v = (named[name] for name in ("q", "k", "v"))
    sinks, given = planned.from_caller(named)
    if not q.numel() or not k.shape[1]:
        out, lse = _room(named)
        return out.zero_(), lse.fill_(-math.inf) if sinks is None else lse.copy_(sinks[:, None])
    function = _kernel(q, v, wanted, device)
    arrays = arguments_of(named, wanted, function, q, k) if wanted.blocks else None
    return calling.call(function, wanted, (q, k, v), named["scale"], sinks, given, arrays)


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
