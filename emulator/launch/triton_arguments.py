"""What a Triton kernel is called with: the bytes of its parameters, as Triton's launcher has them.

Source: Triton 3.9, ``backends/driver.py`` (order of what a descriptor becomes) and
``backends/nvidia/driver.c`` (types of numbers).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from schedgen.emulator.launch.driver import ELEMENTS, SWIZZLES
from schedgen.emulator.launch.errors import LaunchError
from schedgen.emulator.launch.tensor_map import Fill, Promotion, TensorMap, TensorMapError
from schedgen.emulator.launch.tensor_map_bits import encode

CONSTANT = "constexpr"
_FLOATS = {
    "fp16": np.float16, "fp32": np.float32, "f32": np.float32, "fp64": np.float64,
}  # fmt: skip
_HOST_ELEMENTS = {8: 10, 9: 8, 10: 9}
"""Of types on the device, which ``CUtensorMapDataType`` they are; all others have its value."""
_TF32 = 11


def values_of(
    signature: Sequence[Any], arguments: Sequence[Any], descriptors: Sequence[Any]
) -> Iterator[bytes]:
    """The parameters of a kernel, without those that are constants.

    Args:
        signature: types by argument, such as ``*fp16``, ``i32`` or ``constexpr``; tuples nest.
        arguments: what the kernel is called with.
        descriptors: for each tensor descriptor in the signature, its layout in shared memory, or
            None if the kernel takes its parts.

    Raises:
        LaunchError: a value cannot be passed.
    """
    pairs = [pair for one in zip(signature, arguments, strict=True) for pair in _leaves(*one)]
    metas = iter(descriptors)
    for kind, value in pairs:
        if kind.startswith("tensordesc"):
            yield from _descriptor(kind, value, next(metas, None))
        elif kind != CONSTANT:
            yield _scalar(kind, value)


def _leaves(kind: Any, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(kind, (tuple, list)):
        for one in zip(kind, value, strict=True):  # pyright: ignore
            yield from _leaves(*one)
    else:
        yield str(kind), value


def _scalar(kind: str, value: Any) -> bytes:
    if kind.startswith("*"):
        return _address(value).to_bytes(8, "little")
    if kind == "bf16":  # rounded towards zero, as Triton's launcher does
        return np.float32(value).tobytes()[2:]
    if kind in _FLOATS:
        with np.errstate(over="ignore"):
            return _FLOATS[kind](value).tobytes()
    if kind[:1] in "iu" and kind[1:].isdecimal():
        size = max(8, int(kind[1:])) // 8
        return (int(value) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
    raise LaunchError(
        f"a Triton kernel is called with {type(value).__name__} as {kind}, which the emulator "
        "cannot pass; what it can are pointers, numbers, tuples and tensor descriptors"
    )


def _address(value: Any) -> int:
    if value is None:
        return 0
    if isinstance(value, int):
        return value
    device = getattr(value, "device", None)
    if device == torch.device("cpu") and torch.cuda.is_available():
        raise ValueError("Pointer argument cannot be accessed from Triton (cpu tensor?)")
    return int(value.data_ptr())


def _descriptor(kind: str, value: Any, meta: Any) -> Iterator[bytes]:
    """A tensor map, or base, shape, strides and options; in both cases shape and strides follow."""
    if meta is None:
        yield _scalar("*", value.base)
        yield from (_scalar("i64", one) for one in (*value.shape, *value.strides))
        yield _scalar("i1", value.padding == "nan")
        yield _scalar("i1", getattr(value, "round_f32_to_tf32", False))
    elif meta.get("is_im2col"):
        raise LaunchError(f"{kind}: the emulator has no im2col tensor maps")
    else:
        yield _map(value, meta)
    yield from (_scalar("i32", one) for one in value.shape)
    yield from (_scalar("i64", one) for one in value.strides)


def _map(value: Any, meta: Any) -> bytes:
    shape = [int(one) for one in value.shape]
    if meta.get("fp4_padded"):
        shape[-1] *= 2
    size = int(meta["elem_size"])
    kind = int(meta["elem_type"])
    element = (
        _TF32 if getattr(value, "round_f32_to_tf32", False) else _HOST_ELEMENTS.get(kind, kind)
    )
    try:
        return encode(
            TensorMap(
                address=_address(value.base),
                element=ELEMENTS[element],
                dims=tuple(reversed(shape)),
                strides=tuple(size * int(one) for one in reversed(value.strides[:-1])),
                box=tuple(int(one) for one in reversed(meta["block_size"])),
                element_strides=(1,) * len(shape),
                swizzle=SWIZZLES[int(meta["swizzle"])],
                fill=Fill(value.padding == "nan"),
                promotion=Promotion.B128,
            )
        )
    except TensorMapError as error:
        raise LaunchError(f"a tensor descriptor of a Triton kernel: {error}") from None
