"""cvt to and from packed and narrow floating-point formats (PTX ISA 9.7.9.21).

Of two sources, the first goes to the upper half of the destination. Not here, and refused: the
fixed-point format s2f6, and stochastic rounding (`.rs`) to formats of 8 bits and less, for which
the ISA shows the place of the random bits only in figures.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.instructions.forms import Form, One
from schedgen.emulator.layouts.formats import FORMATS, from_float32, to_float32
from schedgen.emulator.machine.lanes import LANES, Lanes, Step, WarpState

FORMATS_2: Mapping[str, tuple[str, str]] = {
    "f16x2": ("f16", "b32"),
    "bf16x2": ("bf16", "b32"),
    "e4m3x2": ("e4m3", "b16"),
    "e5m2x2": ("e5m2", "b16"),
    "e2m3x2": ("e2m3", "b16"),
    "e3m2x2": ("e3m2", "b16"),
    "e2m1x2": ("e2m1", "b8"),
    "ue8m0x2": ("ue8m0", "b16"),
}
"""Packed type -> its element and the type of the register."""

_HALVES = ("f16x2", "bf16x2")
_BIAS, _ONE, _SIXTEEN = np.uint32(0x7FFF), np.uint32(1), np.uint32(16)


def narrow(
    values: Lanes, format_: str, mode: str, *, satfinite: bool = False, relu: bool = False
) -> Lanes:
    """Codes of float32 values; beyond `from_float32` it knows `.rm` and `.rp`."""
    if mode not in ("rm", "rp"):
        return from_float32(values, format_, mode, satfinite=satfinite, relu=relu)
    # The code after that of the truncated value is the next one away from zero, or infinity.
    # Truncation gives the largest finite value where infinity is right: also one too small.
    codes = from_float32(values, format_, "rz")
    away = (to_float32(codes, format_) != values) & (np.signbit(values) == (mode == "rm"))
    return codes + (away & ~np.isnan(values)).astype(codes.dtype)


def packed(form: Form, to: str, source: str) -> Step:
    """``cvt`` where at least one of the types is packed."""
    if to not in FORMATS_2:
        raise form.error(f".{source} cannot be converted to .{to}")
    if source == "f32":
        return _from_singles(form, to)
    relu = to != "ue8m0x2" and source != "ue8m0x2" and form.flag("relu")
    if to in _HALVES:
        allowed = {"bf16x2": ("ue8m0x2",), "f16x2": tuple(set(FORMATS_2) - {*_HALVES, "ue8m0x2"})}
        if source not in allowed[to]:
            raise form.error(f".{source} cannot be converted to .{to}")
        mode, finite = form.choose("rn"), False
    elif source not in _HALVES or (to == "ue8m0x2" and source == "f16x2"):
        raise form.error(f".{source} cannot be converted to .{to}")
    elif to == "ue8m0x2":
        mode, finite = form.choose("rz", "rp"), form.flag("satfinite")
    else:
        mode, finite = form.choose("rn"), bool(form.choose("satfinite"))
    form.finish(2)
    element, register = FORMATS_2[to]
    write = form.target(form.operands[0], register, wider=to not in _HALVES)
    a = form.source(form.operands[1], FORMATS_2[source][1], wider=source not in _HALVES)

    def step(warp: WarpState) -> None:
        values = to_float32(split(a(warp), source), FORMATS_2[source][0])
        codes = from_float32(values, element, mode, satfinite=finite, relu=relu)
        write(warp, joined(codes, to))

    return step


def _from_singles(form: Form, to: str) -> Step:
    """``cvt.rn.f16x2.f32 d, a, b`` and its like."""
    element, register = FORMATS_2[to]
    relu = to != "ue8m0x2" and form.flag("relu")
    if to in _HALVES:
        mode, finite = form.choose("rn", "rz", "rs"), form.flag("satfinite")
    elif to == "ue8m0x2":
        mode, finite = form.choose("rz", "rp"), form.flag("satfinite")
    else:
        mode, finite = form.choose("rn"), bool(form.choose("satfinite"))
    if mode == "rs":
        return _stochastic(form, to, satfinite=finite, relu=relu)
    form.finish(3)
    write = form.target(form.operands[0], register, wider=to not in _HALVES)
    a, b = (form.source(operand, "f32") for operand in form.operands[1:])
    quick: One | None = None
    if mode == "rn" and not finite and not relu:
        quick = {"f16": _half_codes, "bf16": _brain_codes}.get(element)

    def compute(upper: Lanes, lower: Lanes) -> Lanes:
        values = np.empty(2 * upper.size, np.float32)
        values[1::2] = upper
        values[::2] = lower
        # One number tells whether there is a NaN: squares are not negative, so nothing cancels.
        if quick is not None and not math.isnan(values.dot(values)):
            return quick(values)
        return joined(from_float32(values, element, mode, satfinite=finite, relu=relu), to)

    def step(warp: WarpState) -> None:
        write(warp, compute(a(warp), b(warp)))

    return form.elementwise(step, compute, ["f32", "f32"])


def _half_codes(values: Lanes) -> Lanes:
    return values.astype(np.float16).view(np.uint32)


def _brain_codes(values: Lanes) -> Lanes:
    """The upper 16 bits, rounded; values are no NaN."""
    bits = values.view(np.uint32)
    last = bits >> _SIXTEEN
    last &= _ONE
    last += _BIAS
    last += bits
    return last.view(np.uint16)[1::2].copy().view(np.uint32)


def split(lanes: Lanes, packed_type: str) -> Lanes:
    """(64,) codes, the low one of each lane first."""
    element = FORMATS_2[packed_type][0]
    if element == "e2m1":
        codes = np.empty(2 * LANES, np.uint8)
        codes[::2], codes[1::2] = lanes & 0xF, lanes >> 4
        return codes
    return np.ascontiguousarray(lanes).view(FORMATS[element].stored)


def joined(codes: Lanes, packed_type: str) -> Lanes:
    """Lanes of (64,) codes."""
    element = FORMATS_2[packed_type][0]
    if element == "e2m1":
        return codes[::2] | codes[1::2] << 4
    return codes.view(np.uint32 if codes.itemsize == 2 else np.uint16)


def _stochastic(form: Form, to: str, *, satfinite: bool, relu: bool) -> Step:
    """``cvt.rs.bf16x2.f32 d, a, b, random``: up if random bits and truncated bits give a carry.

    For f16 the random bits are 13. Where the result is subnormal more bits are truncated, of which
    the upper 13 are taken; the ISA does not say.
    """
    element, register = FORMATS_2[to]
    form.finish(4)
    write = form.target(form.operands[0], register)
    a, b = (form.source(operand, "f32") for operand in form.operands[1:3])
    random = form.source(form.operands[3], "b32")
    bits = 13 if element == "f16" else 16

    def step(warp: WarpState) -> None:
        values = np.empty(2 * LANES, np.float32)
        values[1::2], values[::2] = a(warp), b(warp)
        if relu:
            values = np.where(values < 0, np.float32(0), values)
        noise = np.ascontiguousarray(random(warp)).view(np.uint16) & ((1 << bits) - 1)
        codes = _rounded_by(values, element, noise.astype(np.float64) * 2.0**-bits, bits)
        if satfinite:
            top = from_float32(values, element, "rz", satfinite=True)
            limit = np.uint16(FORMATS[element].top)
            codes = np.where((codes & 0x7FFF) > limit, top, codes)
        codes = np.where(np.isnan(values), np.uint16(0x7FFF), codes)
        write(warp, codes.view(np.uint32))

    return step


def _rounded_by(
    values: Lanes, element: str, noise: NDArray[np.float64], bits: int
) -> NDArray[np.uint16]:
    """Codes of values, away from zero where noise and the truncated fraction reach 1."""
    codes = from_float32(values, element, "rz")
    low = to_float32(codes, element).astype(np.float64)
    high = to_float32(codes + 1, element).astype(np.float64)
    before = to_float32(codes - 1, element).astype(np.float64)
    step = np.where(np.isfinite(high), high - low, low - before)
    fraction = np.floor((values.astype(np.float64) - low) / step * 2.0**bits) * 2.0**-bits
    return (codes + (fraction + noise >= 1)).astype(np.uint16)
