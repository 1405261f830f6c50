"""Halves of integer products (PTX ISA 9.7.1.3)."""

from __future__ import annotations

from typing import Any

import numpy as np

from schedgen.emulator.instructions.forms import BITS, Two
from schedgen.emulator.machine.lanes import NUMPY, Lanes


def unsigned(type_: str) -> str:
    """The unsigned type of the same width: registers are kept so, and it wraps around."""
    return f"u{BITS[type_]}"


def high_product(type_: str) -> Two:
    """The upper half of products, in the type of the factors."""
    bits, seen = BITS[type_], NUMPY[type_]
    if bits < 64:
        wide: np.dtype[Any] = np.dtype(NUMPY[f"{type_[0]}64"])
        drop = wide.type(bits)
        return lambda a, b: (a.astype(wide) * b.astype(wide) >> drop).astype(seen)
    if type_ == "u64":
        return _high_64
    # As unsigned, a negative factor is too large by 2^64, and the product by the other factor.
    return lambda a, b: (
        _high_64(a.view(np.uint64), b.view(np.uint64)).view(np.int64)
        - np.where(a < 0, b, 0)
        - np.where(b < 0, a, 0)
    )


def _high_64(a: Lanes, b: Lanes) -> Lanes:
    """Upper 64 bits of products of unsigned 64-bit integers, from products of their halves."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    cross = a0 * b1 + (middle & low)
    return a1 * b1 + (middle >> half) + (cross >> half)
