"""What reductions of bulk copies compute (PTX ISA 9.7.9.25.4.2 and 9.7.9.27.1.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.launch.tensor_map import Element
from schedgen.emulator.layouts.formats import from_float32, to_float32

Array = NDArray[Any]
_NUMPY: dict[str, type[np.generic]] = {
    "f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64,
    "f32_kept": np.float32,
    "b32": np.uint32, "u32": np.uint32, "s32": np.int32,
    "b64": np.uint64, "u64": np.uint64, "s64": np.int64,
}  # fmt: skip
_TYPES = {
    "add": ("u32", "s32", "u64", "f32", "f64", "f16", "bf16", "f32_kept"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "max": ("u32", "s32", "u64", "s64", "f16", "bf16"),
    "inc": ("u32",),
    "dec": ("u32",),
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
}
OPERATIONS = tuple(_TYPES)
TYPES = tuple(name for name in _NUMPY if name != "f32_kept")
_ELEMENTS = {
    Element.F16: "f16",
    Element.BF16: "bf16",
    Element.F32: "f32_kept",  # an H200 keeps subnormal sums in these maps only
    Element.F32_FTZ: "f32",
    Element.U32: "u32",
    Element.S32: "s32",
    Element.U64: "u64",
    Element.S64: "s64",
}


def supported(operation: str, type_: str) -> bool:
    """Whether the ISA has the reduction for a type."""
    return type_ in _TYPES[operation]


def type_of(operation: str, element: Element) -> str | None:
    """The type in which a tensor's elements are reduced; None if they cannot be."""
    if operation in ("and", "or", "xor"):
        return {32: "b32", 64: "b64"}.get(element.bits)
    type_ = _ELEMENTS.get(element)
    return type_ if type_ is not None and supported(operation, type_) else None


def reduce(old: NDArray[np.uint8], new: NDArray[np.uint8], operation: str, type_: str) -> Array:
    """Bytes of ``old`` reduced by ``new``, element by element.

    Args:
        old: contiguous bytes of the destination.
        new: of the source, of the same shape.
        operation: one of `OPERATIONS`.
        type_: one of `TYPES`.
    """
    a: Array = old.view(_NUMPY[type_])
    b: Array = new.view(_NUMPY[type_])
    with np.errstate(all="ignore"):
        if type_ == "bf16":
            result = from_float32(
                _FUNCTIONS[operation](to_float32(a, "bf16"), to_float32(b, "bf16")), "bf16"
            )
        elif type_ == "f32":
            result = _flushed(_FUNCTIONS[operation](_flushed(a), _flushed(b)))
        else:
            result = _FUNCTIONS[operation](a, b)
    return result.astype(a.dtype, copy=False).view(np.uint8)


def _flushed(values: Array) -> Array:
    """Subnormal float32 values as zero with their sign: what the hardware does today."""
    tiny = np.abs(values) < np.finfo(np.float32).tiny
    return np.where(tiny, np.copysign(np.float32(0), values), values)


def _minimum(a: Array, b: Array) -> Array:
    return np.fmin(a, b) if a.dtype.kind == "f" else np.minimum(a, b)


def _maximum(a: Array, b: Array) -> Array:
    return np.fmax(a, b) if a.dtype.kind == "f" else np.maximum(a, b)


def _inc(a: Array, b: Array) -> Array:
    return np.where(a >= b, np.uint32(0), a + np.uint32(1))


def _dec(a: Array, b: Array) -> Array:
    return np.where((a == 0) | (a > b), b, a - np.uint32(1))


_FUNCTIONS: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "min": _minimum,
    "max": _maximum,
    "inc": _inc,
    "dec": _dec,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
