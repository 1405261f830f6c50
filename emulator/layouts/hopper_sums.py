"""Sums of wgmma as an H200 computes them: bits that the ISA leaves open (section 9.7.15.5.2).

Found by fitting what an H200 computes (`benchmarks/emulate_hardware.py`); NVIDIA publishes no such
rule. Per instruction, all products along k and the old accumulator are cut, toward zero, to
multiples of one power of two, which lies a fixed number of bits below the largest exponent among
them; then they are added exactly and the sum is cut to the accumulator's bits. The exponent of a
product is the sum of those of its factors: that the product of the significands may be 2 or more
does not count. An accumulator of f16 gets the sum rounded to nearest, without that cut.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.layouts.formats import FORMATS, Floats, to_float32

_Doubles = NDArray[np.float64]
_BELOW = {"f16": 25, "bf16": 25, "tf32": 25, "e4m3": 13, "e5m2": 13}
"""Bits below the largest exponent that take part."""
_KEPT = {"f16": 24, "bf16": 24, "tf32": 24, "e4m3": 14, "e5m2": 14}
"""Significant bits of the result."""
_NOTHING = -10000
_PART = 1 << 20
"""Products at a time, for memory."""


def accumulated(
    a: Floats, b: Floats, words: NDArray[np.uint32] | None, format_: str, d: str
) -> NDArray[np.uint32]:
    """``a[m, k] · b[n, k] + d[m, n]``: new accumulators, one per word.

    Args:
        a, b: finite values of operands; others give what float32 gives.
        words: (m, n) old accumulators, or None for zero.
        format_: of A, a floating-point one.
        d: ``f32``, or ``f16`` in the low half of a word.
    """
    old = np.zeros((len(a), len(b)))
    if words is not None:
        old += words.view(np.float32) if d == "f32" else to_float32(words, d)
    rows = max(1, _PART // (b.size or 1))
    parts = [
        _sum(a[at : at + rows], b, old[at : at + rows], format_, d) for at in range(0, len(a), rows)
    ]
    return np.concatenate(parts)


def _sum(a: Floats, b: Floats, old: _Doubles, format_: str, d: str) -> NDArray[np.uint32]:
    products: _Doubles = a.astype(np.float64)[:, None, :] * b.astype(np.float64)[None, :, :]
    exponents = _exponent(a, format_)[:, None, :] + _exponent(b, format_)[None, :, :]
    exponents = np.where(products == 0, _NOTHING, exponents)
    largest = np.maximum(exponents.max(-1), np.where(old == 0, _NOTHING, _plain(old)))
    with np.errstate(all="ignore"):
        unit = np.ldexp(1.0, np.maximum(largest, -500) - _BELOW[format_])
        total: _Doubles = (
            np.trunc(products / unit[..., None]).sum(-1) + np.trunc(old / unit)
        ) * unit
        plain: _Doubles = products.sum(-1) + old
        if d == "f32":
            step = np.ldexp(1.0, np.maximum(_plain(total), -126) - (_KEPT[format_] - 1))
            total = np.trunc(total / step) * step
        np.copyto(total, plain, where=~np.isfinite(plain))
        if d == "f32":
            return total.astype(np.float32).view(np.uint32)
        return total.astype(np.float16).view(np.uint16).astype(np.uint32)


def _plain(values: _Doubles) -> NDArray[np.int64]:
    """Exponents of numbers: 0 for 1 to 2."""
    return np.frexp(values)[1].astype(np.int64) - 1


def _exponent(values: Floats, format_: str) -> NDArray[np.int64]:
    """Exponents of operands; subnormal ones have that of the smallest normal number."""
    return np.maximum(_plain(values.astype(np.float64)), 1 - FORMATS[format_].bias)
