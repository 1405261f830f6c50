"""Number formats of PTX: raw bits to float32 and back, elementwise over arrays of any shape.

The formats are those of PTX ISA sections 5.2.3 (alternate floating-point formats) and 5.2.1; what
conversions do with NaN, overflow and `.relu` is that of section 9.7.9.21 (cvt). Values of 4 and
6 bits come one per byte, in the low bits.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bits = NDArray[np.unsignedinteger[Any]]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Format:
    """A binary floating-point format.

    Attributes:
        exponent: bits of the exponent.
        mantissa: bits of the mantissa that are stored.
        bias: what is subtracted from the stored exponent.
        top: code of the largest finite value, without sign.
        nan: code that a conversion gives for NaN, None where the format has no NaN.
        infinity: code of infinity, None where the format has none.
        signed: whether a sign bit lies above the exponent.
        stored: the numpy type that holds one code.
    """

    exponent: int
    mantissa: int
    bias: int
    top: int
    nan: int | None
    infinity: int | None = None
    signed: bool = True
    stored: type[np.unsignedinteger[Any]] = np.uint8

    @property
    def bits(self) -> int:
        """Bits of a code, sign included."""
        return self.exponent + self.mantissa + self.signed


FORMATS: Mapping[str, Format] = {
    "f16": Format(5, 10, 15, 0x7BFF, 0x7FFF, 0x7C00, stored=np.uint16),
    "bf16": Format(8, 7, 127, 0x7F7F, 0x7FFF, 0x7F80, stored=np.uint16),
    "tf32": Format(8, 10, 127, 0x7F7FE000, 0x7FFFFFFF, 0x7F800000, stored=np.uint32),
    "e4m3": Format(4, 3, 7, 0x7E, 0x7F),
    "e5m2": Format(5, 2, 15, 0x7B, 0x7F, 0x7C),
    "e2m3": Format(2, 3, 1, 0x1F, None),
    "e3m2": Format(3, 2, 3, 0x1F, None),
    "e2m1": Format(2, 1, 1, 0x7, None),
    "ue8m0": Format(8, 0, 127, 0xFE, 0xFF, signed=False),
    "ue4m3": Format(4, 3, 7, 0x7E, 0x7F, signed=False),
}
"""PTX type -> format. A tf32 code is a float32 whose 13 low bits do not count."""

ROUNDINGS = ("rn", "rz", "rna", "rp")
"""To nearest even, toward zero, to nearest with ties away from zero, toward +infinity."""

_HALF = np.uint32(16)
_INFINITY = np.uint32(0x7F800000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)


def to_float32(bits: Bits, format_: str) -> Floats:
    """Values of codes; exact. Bits above the format's are ignored.

    Args:
        bits: codes in the stored type of the format (wider is fine), any shape.
        format_: a key of `FORMATS`.
    """
    match format_:
        case "bf16":
            wide = bits.astype(np.uint32)
            return np.left_shift(wide, _HALF, wide).view(np.float32)
        case "f16":
            return bits.astype(np.uint16, copy=False).view(np.float16).astype(np.float32)
        case "tf32":
            return (bits & np.uint32(0xFFFFE000)).view(np.float32)
        case _:
            table = _values(format_)
            return table[bits & bits.dtype.type(len(table) - 1)]


def from_float32(
    values: Floats,
    format_: str,
    rounding: str = "rn",
    *,
    satfinite: bool = False,
    relu: bool = False,
) -> Bits:
    """Codes of values, rounded.

    Args:
        values: any shape.
        format_: a key of `FORMATS`. Formats without infinity saturate in any case, as `cvt`
            demands `.satfinite` for them; ue8m0 without `satfinite` overflows to NaN.
        rounding: one of `ROUNDINGS`; `rp` for ue8m0 only.
        satfinite: what is out of range, infinity included, becomes the largest finite value.
        relu: negative values become +0.
    """
    if rounding not in ROUNDINGS or (rounding == "rp") != (rounding == "rp" and format_ == "ue8m0"):
        raise ValueError(f"conversion to {format_} knows no rounding {rounding}")
    form = FORMATS[format_]
    if relu:
        values = np.where(values < 0, np.float32(0), values) + np.float32(0)  # -0 + 0 is +0
    raw = values.view(np.uint32)
    if format_ == "ue8m0":
        return _scale_codes(raw, form, up=rounding == "rp", satfinite=satfinite)
    if form.exponent == 8:  # bf16 and tf32 are float32 with fewer bits
        return _shortened(raw, form, rounding, satfinite)
    if format_ == "f16" and rounding == "rn" and not satfinite:
        with np.errstate(over="ignore"):
            codes = values.astype(np.float16).view(np.uint16)
    else:
        codes = _rounded(values, form, rounding, satfinite)
    nan = (raw & _MAGNITUDE) > _INFINITY
    return np.where(nan, form.stored(form.top if form.nan is None else form.nan), codes)


@cache
def _values(format_: str) -> Floats:
    """Values of all codes of a format of at most 8 bits, by its definition."""
    form = FORMATS[format_]
    codes = np.arange(1 << form.bits)
    magnitude = codes & ((1 << (form.exponent + form.mantissa)) - 1)
    exponent = magnitude >> form.mantissa
    fraction = magnitude & ((1 << form.mantissa) - 1)
    if form.mantissa == 0:  # ue8m0 has no zero and no subnormal values
        values = np.ldexp(1.0, exponent - form.bias)
    else:
        implied = np.where(exponent > 0, 1 << form.mantissa, 0)
        scale = np.maximum(exponent, 1) - form.bias - form.mantissa
        values = np.ldexp((fraction + implied).astype(np.float64), scale)
    if form.infinity is not None:
        values[magnitude == form.infinity] = np.inf
    values[magnitude > (form.top if form.infinity is None else form.infinity)] = np.nan
    if form.signed:
        values = np.where(codes >> (form.bits - 1), -values, values)
    table = values.astype(np.float32)
    table.flags.writeable = False
    return table


def _shortened(raw: NDArray[np.uint32], form: Format, rounding: str, satfinite: bool) -> Bits:
    """float32 to bf16 or tf32: the low bits are rounded away."""
    drop = 16 if form.stored is np.uint16 else 13
    half = np.uint32(1 << (drop - 1))
    match rounding:
        case "rn":
            codes = raw + (half - np.uint32(1) + ((raw >> np.uint32(drop)) & np.uint32(1)))
        case "rna":
            codes = raw + half
        case _:
            codes = raw
    codes = codes & np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)
    magnitude = raw & _MAGNITUDE
    top = form.top if drop == 13 else form.top << 16
    if satfinite:
        limit = (raw & ~_MAGNITUDE) | np.uint32(top)
        codes = np.where((codes & _MAGNITUDE) > np.uint32(top), limit, codes)
    codes = np.where(magnitude > _INFINITY, np.uint32(0x7FFFFFFF), codes)
    return codes if drop == 13 else (codes >> np.uint32(16)).astype(np.uint16)


def _rounded(values: Floats, form: Format, rounding: str, satfinite: bool) -> Bits:
    """Codes by scaling each value so that its last stored bit becomes 1; NaN gives anything."""
    magnitude = np.abs(values).astype(np.float64)
    finite = np.isfinite(magnitude)
    magnitude = np.where(finite, magnitude, 0.0)
    smallest = math.ldexp(1.0, 1 - form.bias)  # normal; below it the exponent stays
    exponent = np.frexp(np.maximum(magnitude, smallest))[1] - 1
    scaled = np.ldexp(magnitude, form.mantissa - exponent)
    match rounding:
        case "rn":
            scaled = np.rint(scaled)
        case "rna":
            scaled = np.floor(scaled + 0.5)
        case _:
            scaled = np.floor(scaled)
    # A mantissa that rounds up to the next power of two carries into the exponent by itself.
    codes = ((exponent + form.bias - 1).astype(np.int64) << form.mantissa) + scaled.astype(np.int64)
    if satfinite or form.infinity is None:
        codes = np.where(finite, np.minimum(codes, form.top), form.top)
    else:
        limit = form.top if rounding == "rz" else form.infinity
        codes = np.where(codes > form.top, limit, codes)
        codes = np.where(finite, codes, form.infinity)
    sign = np.signbit(values)
    if not form.signed:
        return np.where(sign, 0, codes).astype(form.stored)
    return (codes | (sign.astype(np.int64) << (form.bits - 1))).astype(form.stored)


def _scale_codes(raw: NDArray[np.uint32], form: Format, *, up: bool, satfinite: bool) -> Bits:
    """float32 to ue8m0, a power of two: the exponent, plus 1 if rounded up. Signs are dropped."""
    magnitude = raw & _MAGNITUDE
    codes = magnitude >> np.uint32(23)
    if up:
        fraction = magnitude & np.uint32(0x7FFFFF)
        # Code 0 is 2^-127, which in float32 is subnormal: half of the smallest normal value.
        exact = np.where(codes == 0, np.uint32(0x400000), np.uint32(0))
        codes = codes + (fraction > exact)
    codes = np.minimum(codes, np.uint32(form.top if satfinite else 0xFF))
    return np.where(magnitude > _INFINITY, np.uint32(0xFF), codes).astype(np.uint8)
