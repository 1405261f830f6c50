"""Block lists: which blocks of keys a tile of queries sees something in.

Where a mask says by elements of tensors which keys a row sees, such as ``doc[row] == doc[column]``,
no formula tells which iterations an output tile needs. It is found out on the GPU: of each tensor
the least and the largest element of each block, and of the mask what follows for pairs of blocks
(`schedgen.kernels.variants.intervals`). A block that is listed may be empty all the same, since the
kernel asks the mask of each element; one that is left out is empty for certain.

A kernel that is made of the mask does so (`schedgen.kernels.variants.listing`). What says here by
operations of torch which blocks there are is what it is held against, and takes its place where
there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import torch
from torch import Tensor

from schedgen.expressions import references
from schedgen.kernels import keys as of_gpu
from schedgen.kernels.errors import ArgumentValueError
from schedgen.kernels.of_spec import SpecKernel
from schedgen.kernels.variants import listing
from schedgen.kernels.variants.calling import (
    Asked,
    Given,
    elements,
    kept_of,
    sizes_of,
    variant_of,
)
from schedgen.kernels.variants.conditions import ROWS, Layout
from schedgen.kernels.variants.interval_tensors import Tensors
from schedgen.kernels.variants.intervals import Interval, Rules, Truth, as_float32
from schedgen.kernels.variants.reading import SIZES, Vector
from schedgen.kernels.variants.spec import COUNTS, FULLS, LISTED, ORDER, listed_along

_AXES = ("batch", "head", "row", "column")
_SIZES = "rows of blocks", "keys of blocks", "queries of blocks", "all keys of blocks"
"""What calls have of blocks beside arrays, in the order of the attributes."""


@dataclass(frozen=True)
class Blocks:
    """The blocks of keys that tiles of queries see, for calls of attention with one mask.

    `schedgen.kernels.attention_blocks` makes them. They are right as long as the tensors that the
    mask names have the values that they had then.

    Attributes:
        order: (batch, heads, query_blocks), int32, without batch and heads if the mask names
            neither: tiles of queries in the order in which they are computed, those with the most
            blocks first. The others have their elements in this order, too.
        counts: the same: how many blocks of keys a tile of queries has.
        fulls: the same: how many of these are kept as a whole.
        listed: the same and key_blocks: which ones, those that are kept as a whole first, in order;
            what is behind the count means nothing.
        rows, keys: queries of a tile, keys of a block.
        seq_q, seq_k: what they are for.
        numbers: those that the mask names, and what they were.

    Of a mask that is turned, for gradients of keys, queries and keys have changed places in all of
    this.
    """

    order: Tensor
    counts: Tensor
    fulls: Tensor
    listed: Tensor
    rows: int
    keys: int
    seq_q: int
    seq_k: int
    numbers: tuple[tuple[str, float], ...]
    wanted: Asked

    @property
    def share(self) -> float:
        """How much of all blocks is computed. Waits for the GPU."""
        return self.counts.double().mean().item() / self.listed.shape[-1]

    def passed(self, wanted: Asked, given: Given) -> dict[str, Tensor | int]:
        """What a call has of them, for `arguments_of`.

        Raises ArgumentValueError: they are of another mask, or of other numbers.
        """
        made, asked = _key(self.wanted), _key(wanted)
        if made != asked:
            raise ArgumentValueError("blocks", f"they are of {made}", f"{asked}", "make new ones")
        if (numbers := _numbers(wanted, given)) != self.numbers:
            got, allowed = f"they are for {dict(self.numbers)}", f"{dict(numbers)}"
            raise ArgumentValueError("blocks", got, allowed, "make new ones")
        sizes = self.rows, self.keys, self.seq_q, self.seq_k
        return self.arrays | dict(zip(_SIZES, sizes, strict=True))

    @property
    def arrays(self) -> dict[str, Tensor]:
        """Arguments of a kernel."""
        return {ORDER: self.order, COUNTS: self.counts, FULLS: self.fulls, LISTED: self.listed}


def arguments_of(
    named: Mapping[str, Any], wanted: Asked, function: SpecKernel, q: Tensor, k: Tensor
) -> dict[str, Tensor]:
    """What a kernel is passed of the blocks that a call has.

    Raises ArgumentValueError: they are of other lengths, or for another kernel.
    """
    rows, keys, seq_q, seq_k = (named[name] for name in _SIZES)
    if (seq_q, seq_k) != (q.shape[1], k.shape[1]):
        got = f"they are for {seq_q} queries and {seq_k} keys"
        allowed = f"{q.shape[1]} and {k.shape[1]}"
        raise ArgumentValueError("blocks", got, allowed, "make new ones")
    if (rows, keys) != (tile := tile_of(function)):
        got, allowed = f"they are {rows} x {keys}", f"{tile[0]} x {tile[1]} for this kernel"
        fix = "make them with operands of this data type and head_dim"
        raise ArgumentValueError("blocks", got, allowed, fix)
    along = listed_along(variant_of(wanted))
    sizes = [n for n, name in ((q.shape[0], "batch"), (q.shape[2], "head")) if name in along]
    if (found := list(named[COUNTS].shape[:-1])) != sizes:
        got, allowed = f"they are for {found}", f"batch and heads {sizes}"
        raise ArgumentValueError("blocks", got, allowed, "make new ones")
    return {name: named[name] for name in (ORDER, COUNTS, FULLS, LISTED)}


@lru_cache(maxsize=1024)
def _key(wanted: Asked) -> tuple[str | None, bool, tuple[tuple[str, str], ...]]:
    """What decides which blocks there are, beside values."""
    mask = variant_of(wanted).mask
    vectors = mask.vectors.values() if mask else ()
    names = {*(mask.numbers if mask else ()), *(vector.name for vector in vectors)}
    kinds = tuple((name, kind) for name, kind in wanted.kinds if name in names)
    return wanted.mask, wanted.causal, kinds


def _numbers(wanted: Asked, given: Given) -> tuple[tuple[str, float], ...]:
    """The numbers that a mask names, as kernels have them."""
    mask = variant_of(wanted).mask
    names = sorted(mask.numbers) if mask else ()
    values = {name: value for name in names if not isinstance(value := given[name], Tensor)}
    return tuple((name, as_float32(float(value))) for name, value in values.items())


def tile_of(function: SpecKernel, layout: Layout = ROWS) -> tuple[int, int]:
    """Rows of an output tile, and columns of an iteration of a kernel: queries and keys."""
    known = dict(function.facts.settings)
    return prod(int(known[name]) for name in layout.block.split(" * ")), int(known[layout.step])


def blocks_of(
    function: SpecKernel,
    wanted: Asked,
    q: Tensor,
    k: Tensor,
    given: Given,
    device: torch.device,
    passed: Mapping[str, Any],
    layout: Layout = ROWS,
) -> Blocks:
    """The blocks of a call; everything is computed on its GPU, which is not waited for.

    Args:
        q, k: queries and keys, of which only shapes are looked at; keys and queries for tiles that
            are turned, whose ``wanted`` is.
        device: of the call.
        passed: what its kernel is passed for the mask (`schedgen.kernels.variants.calling`).

    Raises what `schedgen.kernels.launcher.launcher` raises.
    """
    if listing.on_gpu(device) and q.numel() and k.shape[1]:
        whole = listing.whole_of(wanted, given)
        kernel = listing.kernel_of(wanted, whole, of_gpu.architecture(device))
        if kernel.usable(device):
            (rows, keys), lengths = tile_of(function, layout), (q.shape[1], k.shape[1])
            arrays = kernel((rows, keys), q, k, passed)
            return Blocks(*arrays, rows, keys, *lengths, _numbers(wanted, given), wanted)
    return by_torch(function, wanted, q, k, given, layout)


def by_torch(
    function: SpecKernel,
    wanted: Asked,
    q: Tensor,
    k: Tensor,
    given: Given,
    layout: Layout = ROWS,
) -> Blocks:
    """The same blocks, by operations of torch; what lists have behind their counts may differ."""
    rows, keys = tile_of(function, layout)
    sizes = sizes_of(q, k)
    block = {"row": rows, "column": keys, "head": 1, "batch": 1}
    numbers = _numbers(wanted, given)
    found = _found(wanted, sizes, block, given, dict(numbers), q.device)
    along = listed_along(variant_of(wanted))
    shape = [sizes[axis] if axis in along else 1 for axis in ("batch", "head")]
    shape += [-(-sizes["row"] // rows), -(-sizes["column"] // keys)]
    kept = [size for size, axis in zip(shape, _AXES, strict=True) if axis in (*along, *_AXES[2:])]
    some, every = (one.broadcast_to(shape).reshape(kept) for one in (found.some, found.every))
    if sizes["column"] % keys:  # kernels mask what lies behind the last key in blocks not full only
        every = every.clone()
        every[..., -1] = False
    lengths = sizes["row"], sizes["column"]
    return Blocks(*_listed(some, every), rows, keys, *lengths, numbers, wanted)


def _found(
    wanted: Asked,
    sizes: Mapping[str, int],
    block: Mapping[str, int],
    given: Given,
    numbers: Mapping[str, float],
    device: torch.device,
) -> Truth[Tensor]:
    """Whether a mask keeps some element of each block, and whether all of them."""
    variant = variant_of(wanted)
    mask = variant.mask
    assert mask is not None
    expression = kept_of(wanted)
    used = {name.name for name in references(expression)}
    axes = [name for name in _AXES if name in used or not used]
    names = {name: _coordinate(name, sizes[name], block[name], device) for name in axes}
    rules = Rules(Tensors(device), names)
    whole = {"seq_q": sizes["row"], "seq_k": sizes["column"]}
    names |= {name: rules.constant(whole[name], True) for name in SIZES if name in used}
    ends: dict[tuple[str, tuple[int, ...]], tuple[Tensor, Tensor]] = {}
    for name, vector in mask.vectors.items():
        if vector.name:  # else it is a coordinate
            tensor = elements(vector, sizes, given)
            low, high = _vector(vector, tensor, block, ends)
            names[name] = rules.known(low, high, not tensor.is_floating_point())
    for name, value in numbers.items():
        names[name] = rules.constant(value, name in variant.whole)
    found = rules.condition(expression)
    return Truth(found.some, found.some & found.every)


def _listed(some: Tensor, every: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Arrays of a walk: which tiles in order, how many blocks each has, how many of them are full,
    and which ones.
    """
    numbers = some.sum(-1, dtype=torch.int32)
    counts, order = numbers.sort(stable=True, dim=-1, descending=True)
    fulls = every.sum(-1, dtype=torch.int32).gather(-1, order)
    kept = some.to(torch.uint8).add_(every).gather(-2, order.unsqueeze(-1).expand(some.shape))
    listed = kept.sort(stable=True, dim=-1, descending=True).indices
    return order.int(), counts, fulls, listed.int()


def _coordinate(axis: str, size: int, block: int, device: torch.device) -> Interval[Tensor]:
    first = torch.arange(0, size, block, device=device, dtype=torch.float64)
    last = (first + (block - 1)).clamp(max=size - 1)
    return Interval(_along(first, (axis,)), _along(last, (axis,)), whole=True)


def _vector(
    vector: Vector,
    tensor: Tensor,
    block: Mapping[str, int],
    ends: dict[tuple[str, tuple[int, ...]], tuple[Tensor, Tensor]],
) -> tuple[Tensor, Tensor]:
    """The least and the largest element of each block of a ``tensor``. ``ends`` has those of
    tensors that were there before, in blocks of the same sizes.
    """
    key = vector.name, tuple(block[index] for index in vector.indices)
    if key not in ends:
        ends[key] = _ends(tensor, key[1])
    low, high = (_along(end, vector.indices) for end in ends[key])
    return low, high


def _ends(tensor: Tensor, block: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The least and the largest element of blocks, as kernels have them."""
    values: Tensor = tensor.float().double()
    low = high = values
    for axis, size in ((axis, size) for axis, size in enumerate(block) if size > 1):
        if values.shape[axis] % size:  # the last one again and again
            at = torch.arange(-(-values.shape[axis] // size) * size, device=tensor.device)
            values = values.index_select(axis, at.clamp(max=values.shape[axis] - 1))
        parts = values.reshape(*values.shape[:axis], -1, size, *values.shape[axis + 1 :])
        low, high = parts.amin(axis + 1), parts.amax(axis + 1)
    return low, high


def _along(tensor: Tensor, axes: tuple[str, ...]) -> Tensor:
    """With axes for batch, head, row and column."""
    order = sorted(range(len(axes)), key=lambda n: _AXES.index(axes[n]))
    tensor = tensor.permute(order)
    for number, axis in enumerate(_AXES):
        if axis not in axes:
            tensor = tensor.unsqueeze(number)
    return tensor
