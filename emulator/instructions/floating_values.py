"""Floating-point registers as arrays of values, and what modifiers do to results.

| type | values |
|---|---|
| f16, f32, f64 | views of the register |
| bf16 | float32 |
| f16x2, bf16x2, f32x2 | twice as many, the low one of each lane first |

NaN results are canonical: all bits set but the sign. (PTX ISA 9.7.3 promises no more than NaN.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from schedgen.emulator.instructions.forms import Form, One, Three, Two
from schedgen.emulator.layouts.formats import from_float32, to_float32
from schedgen.emulator.machine.lanes import Lanes, Step

_NANS: Mapping[np.dtype[Any], Any] = {
    np.dtype(np.float16): np.uint16(0x7FFF).view(np.float16),
    np.dtype(np.float32): np.uint32(0x7FFFFFFF).view(np.float32),
    np.dtype(np.float64): np.uint64(0x7FFFFFFFFFFFFFFF).view(np.float64),
}
NAN: np.float32 = _NANS[np.dtype(np.float32)]
"""The canonical NaN."""

TINY = np.float32(2.0**-126)
"""The smallest normal float32."""


def _same(lanes: Lanes) -> Lanes:
    return lanes


def bf16_codes(values: Lanes) -> Lanes:
    """The upper half of float32 values whose lower half is zero, or of canonical NaNs."""
    return (values.view(np.uint32) >> np.uint32(16)).astype(np.uint16)


LOAD: Mapping[str, One] = {
    "f16": _same,
    "f32": _same,
    "f64": _same,
    "bf16": lambda lanes: to_float32(lanes, "bf16"),
    "f16x2": lambda lanes: np.ascontiguousarray(lanes).view(np.float16),
    "bf16x2": lambda lanes: to_float32(np.ascontiguousarray(lanes).view(np.uint16), "bf16"),
    "f32x2": lambda lanes: np.ascontiguousarray(lanes).view(np.float32),
}
"""Type -> what makes values of lanes as `Decoder.read` gives them."""

STORE: Mapping[str, One] = {
    "f16": _same,
    "f32": _same,
    "f64": _same,
    "bf16": bf16_codes,
    "f16x2": lambda values: values.view(np.uint32),
    "bf16x2": lambda values: bf16_codes(values).view(np.uint32),
    "f32x2": lambda values: values.view(np.uint64),
}
"""Type -> what makes lanes of values. Values for bf16 are rounded already."""

ELEMENT = {"f16x2": "f16", "bf16x2": "bf16", "f32x2": "f32"}
"""Packed type -> type of its halves."""


def on_value(form: Form, compute: One) -> Step:
    """``compute`` takes and gives values of the form's type, as do the next two."""
    load, store = LOAD[form.type], STORE[form.type]
    if load is _same:
        return form.unary(compute)
    return form.unary(lambda a: store(compute(load(a))))


def on_two(form: Form, compute: Two) -> Step:
    load, store = LOAD[form.type], STORE[form.type]
    if load is _same:
        return form.binary(compute)
    return form.binary(lambda a, b: store(compute(load(a), load(b))))


def on_three(form: Form, compute: Three) -> Step:
    load, store = LOAD[form.type], STORE[form.type]
    if load is _same:
        return form.ternary(compute)
    return form.ternary(lambda a, b, c: store(compute(load(a), load(b), load(c))))


def canonical(values: Lanes) -> Lanes:
    """Values with canonical NaNs."""
    # One number tells whether there is any: squares are not negative, so nothing cancels.
    witness = values.dot(values)
    if not math.isnan(witness):
        return values
    return np.where(np.isnan(values), _NANS[values.dtype], values)


def flushed(values: Lanes) -> Lanes:
    """float32 with zeros of the same sign for subnormal values (`.ftz`)."""
    return values * (np.abs(values) >= TINY)


def saturated(values: Lanes) -> Lanes:
    """Values limited to [+0, 1]; NaN gives +0 (`.sat`)."""
    return np.where(values > 0, np.minimum(values, values.dtype.type(1)), values.dtype.type(0))


def result(form: Form, *, saturates: bool = True) -> tuple[bool, One]:
    """Whether operands are flushed, and what happens to a float32 result, by its modifiers."""
    flush = form.flag("ftz")
    if saturates and form.flag("sat"):
        return flush, (lambda values: saturated(flushed(values))) if flush else saturated
    return flush, (lambda values: flushed(canonical(values))) if flush else canonical


def rounded(values: Lanes, element: str, *, relu: bool = False) -> Lanes:
    """float32 values to values of f16 or bf16, to the nearest even, with canonical NaNs."""
    codes = from_float32(values, element, relu=relu)
    return codes.view(np.float16) if element == "f16" else to_float32(codes, "bf16")
