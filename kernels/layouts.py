"""Which layouts bulk copies (TMA) can read and write (PTX ISA, tensor maps)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

ALIGNMENT = 16
"""Bytes that the address and all strides but the innermost are multiples of."""
_MOST_EXTENT = 1 << 31
_MOST_STRIDE = 1 << 40


def problem(tensor: Tensor) -> str | None:
    """Why a bulk copy cannot access ``tensor``; None if it can."""
    size = tensor.element_size()
    shape, strides = tensor.shape, tensor.stride()
    if shape[-1] > 1 and strides[-1] != 1:
        return f"its last dimension has stride {strides[-1]}"
    if tensor.data_ptr() % ALIGNMENT:
        return f"its address is not a multiple of {ALIGNMENT} bytes"
    for at, (extent, stride) in enumerate(zip(shape[:-1], strides[:-1], strict=True)):
        if extent > 1 and stride * size % ALIGNMENT:
            return f"stride {stride} of dimension {at} is not a multiple of {ALIGNMENT} bytes"
        if extent > 1 and stride * size >= _MOST_STRIDE:
            return f"stride {stride} of dimension {at} is not below 2^40 bytes"
    if max(shape) >= _MOST_EXTENT:
        return f"an extent of {max(shape)} is not below 2^31"
    return None


def strides(tensor: Tensor) -> tuple[int, ...]:
    """Strides of all dimensions but the last, in elements, as a tensor map takes them.

    A dimension of one element may have any stride, also one that a tensor map cannot take.
    """
    shape, given = tensor.shape, tensor.stride()
    if 1 not in shape:
        return given[:-1]
    step = ALIGNMENT // tensor.element_size()
    row = -(-shape[-1] // step) * step
    return tuple(row if n == 1 else s for n, s in zip(shape[:-1], given[:-1], strict=True))


def storage(tensor: Tensor) -> int:
    """What tells the memory of a tensor from that of others, also where there is no data."""
    return tensor.untyped_storage()._cdata  # pyright: ignore[reportPrivateUsage]


def span(tensor: Tensor) -> int:
    """Elements of memory from the first to behind the last one."""
    if not tensor.numel():
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))


def same(one: Tensor, other: Tensor) -> bool:
    """Whether both are the same elements in the same order."""
    if one.data_ptr() != other.data_ptr() or one.shape != other.shape:
        return False
    if one.is_meta and storage(one) != storage(other):
        return False  # without data, all begin at 0
    strides = zip(one.shape, one.stride(), other.stride(), strict=True)
    return all(size == 1 or mine == others for size, mine, others in strides)


def accessible(tensor: Tensor) -> Tensor:
    """``tensor``, or a copy of it that bulk copies can read."""
    return tensor if problem(tensor) is None else room(tensor, tensor.shape).copy_(tensor)


def room(like: Tensor, shape: Sequence[int]) -> Tensor:
    """An empty tensor that bulk copies can access, contiguous if possible."""
    return like.new_empty(padded(shape, like.element_size()))[..., : shape[-1]]


def padded(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """``shape``, of elements of ``size`` bytes, with rows that begin where bulk copies may."""
    step = ALIGNMENT // size
    *outer, columns = shape
    return (*outer, -(-columns // step) * step)


def batches(tensor: Tensor, outer: Sequence[int]) -> Tensor:
    """(..., rows, columns) as (batch, rows, columns), one batch for each of ``outer``."""
    if not outer:
        return tensor.unsqueeze(0)
    return tensor.expand(*outer, *tensor.shape[-2:]).reshape(-1, *tensor.shape[-2:])


def merged(out: Tensor, batch: int) -> Tensor | None:
    """``out`` as (batch, rows, columns); None if its strides do not allow that."""
    try:
        return out.view(batch, -1, out.shape[-1])
    except RuntimeError:
        return None
