"""Sums of wgmma as an H200 computes them: bits that the ISA leaves open (section 9.7.15.5.2).

Found by fitting what an H200 computes (`benchmarks/emulate_hardware.py`); NVIDIA publishes no such
rule. Per instruction, all products along k and the old accumulator are cut, toward zero, to
multiples of one power of two, which lies a fixed number of bits below the largest exponent among
them; then they are added exactly and the sum is cut to the accumulator's bits. The exponent of a
product is the sum of those of its factors: that the product of the significands may be 2 or more
does not count.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.layouts.formats import FORMATS, Floats

_Doubles = NDArray[np.float64]
_BELOW = {"f16": 25, "bf16": 25, "tf32": 25, "e4m3": 13, "e5m2": 13}
"""Bits below the largest exponent that take part."""
_KEPT = {"f16": 24, "bf16": 24, "tf32": 24, "e4m3": 14, "e5m2": 14}
"""Significant bits of the result."""
_NOTHING = -10000
_PART = 1 << 20
"""Products at a time, for memory."""


def fused(a: Floats, b: Floats, old: Floats | None, format_: str) -> Floats:
    """``a[m, k] · b[n, k] + old[m, n]``.

    Args:
        a, b: finite values of operands; others give what float32 gives.
        old: accumulators, or None for zero.
        format_: of A, a floating-point one.
    """
    rows = max(1, _PART // (b.size or 1))
    parts = [
        _fused(a[at : at + rows], b, None if old is None else old[at : at + rows], format_)
        for at in range(0, len(a), rows)
    ]
    return np.concatenate(parts)


def _fused(a: Floats, b: Floats, old: Floats | None, format_: str) -> Floats:
    before = np.zeros((len(a), len(b))) if old is None else old.astype(np.float64)
    products: _Doubles = a.astype(np.float64)[:, None, :] * b.astype(np.float64)[None, :, :]
    exponents = _exponent(a, format_)[:, None, :] + _exponent(b, format_)[None, :, :]
    exponents = np.where(products == 0, _NOTHING, exponents)
    largest = np.maximum(exponents.max(-1), np.where(before == 0, _NOTHING, _plain(before)))
    with np.errstate(all="ignore"):
        unit = np.ldexp(1.0, np.maximum(largest, -500) - _BELOW[format_])
        total = (np.trunc(products / unit[..., None]).sum(-1) + np.trunc(before / unit)) * unit
        step = np.ldexp(1.0, np.maximum(_plain(total), -126) - (_KEPT[format_] - 1))
        cut: Floats = (np.trunc(total / step) * step).astype(np.float32)
        plain: Floats = (products.sum(-1) + before).astype(np.float32)
    np.copyto(cut, plain, where=~np.isfinite(plain))
    return cut


def _plain(values: _Doubles) -> NDArray[np.int64]:
    """Exponents of numbers: 0 for 1 to 2."""
    return np.frexp(values)[1].astype(np.int64) - 1


def _exponent(values: Floats, format_: str) -> NDArray[np.int64]:
    """Exponents of operands; subnormal ones have that of the smallest normal number."""
    return np.maximum(_plain(values.astype(np.float64)), 1 - FORMATS[format_].bias)
