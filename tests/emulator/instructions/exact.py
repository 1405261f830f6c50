"""Floating-point results by definition: exact fractions, rounded once, as codes."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

# width, mantissa bits, bias
FORMATS = {"f16": (16, 10, 15), "bf16": (16, 7, 127), "f32": (32, 23, 127), "f64": (64, 52, 1023)}
PREFIX = {"f16": "rs", "bf16": "rs", "f32": "f", "f64": "fd"}
MODES = ("rn", "rz", "rm", "rp")

Operation = Callable[..., Fraction]


def infinity(type_: str) -> int:
    width, mantissa, _ = FORMATS[type_]
    return (1 << width - 1) - (1 << mantissa)


def is_finite(code: int, type_: str) -> bool:
    return code & (1 << FORMATS[type_][0] - 1) - 1 < infinity(type_)


def value(code: int, type_: str) -> Fraction:
    """The value of a finite code."""
    width, mantissa, bias = FORMATS[type_]
    exponent = (code & (1 << width - 1) - 1) >> mantissa
    fraction = code & (1 << mantissa) - 1
    significand = fraction + (1 << mantissa if exponent else 0)
    magnitude = Fraction(significand) * Fraction(2) ** (max(exponent, 1) - bias - mantissa)
    return -magnitude if code >> width - 1 else magnitude


def rounded(exact: Fraction, type_: str, mode: str) -> int:
    """The code of a value that is not zero: the neighbour below or above it, by the mode."""
    width, _, _ = FORMATS[type_]
    negative = exact < 0
    magnitude = abs(exact)
    low, high = 0, infinity(type_)
    while high - low > 1:  # codes of magnitudes are in order
        middle = (low + high) // 2
        low, high = (middle, high) if value(middle, type_) <= magnitude else (low, middle)
    below = value(low, type_)
    if below == magnitude:
        code = low
    elif mode == "rn":
        # Past the largest finite value, the next one would have the same distance.
        gap = (
            value(low, type_) - value(low - 1, type_)
            if high == infinity(type_)
            else (value(high, type_) - below)
        )
        half = below + gap / 2
        code = high if magnitude > half or (magnitude == half and low % 2) else low
    else:
        away = mode == ("rm" if negative else "rp")
        code = high if away else low
    return code | (1 << width - 1 if negative else 0)


def samples(type_: str, seed: int, count: int = 32) -> np.ndarray:
    """Codes of all kinds: special ones, random bits, similar magnitudes, short mantissas."""
    width, mantissa, bias = FORMATS[type_]
    random = np.random.default_rng(seed)
    top, inf, one = 1 << width - 1, infinity(type_), bias << mantissa
    special = [0, top, one, top | one, inf, inf | top, inf + 1, top | inf + (1 << mantissa - 1)]
    special += [1, top | 1, (1 << mantissa) - 1, 1 << mantissa, inf - 1, top | inf - 1, one + 1]
    codes = [int(code) for code in random.integers(0, 1 << width, count, np.uint64, endpoint=False)]
    for at in range(count):
        kind = random.integers(4)
        if kind == 0:
            codes[at] = special[int(random.integers(len(special)))]
        elif kind == 1:
            codes[at] = one + int(random.integers(-4 << mantissa, 4 << mantissa)) | (
                top if random.integers(2) else 0
            )
        elif kind == 2:
            codes[at] &= -1 << max(mantissa - 5, 0)
    return np.array(codes, np.dtype(f"u{width // 8}"))
