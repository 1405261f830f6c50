"""Integer arithmetic (PTX ISA 9.7.1.1 to 9.7.1.13): add, sub, mul, mad, div, rem, min, max, …

What wraps around is computed unsigned. Division by zero is unspecified: quotient and remainder have
all bits set, as on the H200.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from schedgen.emulator.instructions.forms import BITS, Form, Two, typed
from schedgen.emulator.instructions.integer_carry import (
    add_carry,
    multiply_add_carry,
    subtract_carry,
)
from schedgen.emulator.instructions.integer_products import high_product, unsigned
from schedgen.emulator.machine.lanes import NUMPY, Lanes, Step

INTEGERS = "u16 u32 u64 s16 s32 s64"
_S32 = np.iinfo(np.int32)


@typed("add", INTEGERS)
def _add(form: Form) -> Step:
    if form.flag("cc"):
        return add_carry(form, carry_in=False, carry_out=True)
    if form.type == "s32" and form.flag("sat"):
        return form.binary(lambda a, b: _saturated(np.add(a, b, dtype=np.int64)))
    return form.binary(np.add, unsigned(form.type))


@typed("sub", INTEGERS)
def _subtract(form: Form) -> Step:
    if form.flag("cc"):
        return subtract_carry(form, carry_in=False, carry_out=True)
    if form.type == "s32" and form.flag("sat"):
        return form.binary(lambda a, b: _saturated(np.subtract(a, b, dtype=np.int64)))
    return form.binary(np.subtract, unsigned(form.type))


@typed("mul", INTEGERS)
def _multiply(form: Form) -> Step:
    match form.choose("lo", "hi", "wide"):
        case "lo":
            return form.binary(np.multiply, unsigned(form.type))
        case "hi":
            return form.binary(high_product(form.type))
        case _:
            result = _twice(form)
            return form.binary(_wide_product(result), result, form.type, form.type)


@typed("mad", INTEGERS)
def _multiply_add(form: Form) -> Step:
    if form.flag("cc"):
        return multiply_add_carry(form, carry_in=False, carry_out=True)
    match form.choose("lo", "hi", "wide"):
        case "lo":
            return form.ternary(lambda a, b, c: a * b + c, unsigned(form.type))
        case "hi" if form.type == "s32" and form.flag("sat"):
            wide = _wide_product("s64")
            return form.ternary(lambda a, b, c: _saturated((wide(a, b) >> 32) + c))
        case "hi":
            high = high_product(form.type)
            return form.ternary(lambda a, b, c: high(a, b) + c)
        case _:
            result = _twice(form)
            wide = _wide_product(result)
            return form.ternary(
                lambda a, b, c: wide(a, b) + c, result, form.type, form.type, result
            )


def _twice(form: Form) -> str:
    """The type of a wide product."""
    if BITS[form.type] == 64:
        raise form.error("a wide product takes 16- or 32-bit operands")
    return f"{form.type[0]}{2 * BITS[form.type]}"


def _wide_product(result: str) -> Two:
    wide: np.dtype[Any] = np.dtype(NUMPY[result])
    return lambda a, b: a.astype(wide) * b.astype(wide)


@typed("mul24", "u32 s32")
def _multiply_24(form: Form) -> Step:
    product = _product_24(form.type, form.choose("lo", "hi") == "hi")
    seen = NUMPY[form.type]
    return form.binary(lambda a, b: product(a, b).astype(seen))


@typed("mad24", "u32 s32")
def _multiply_add_24(form: Form) -> Step:
    high = form.choose("lo", "hi") == "hi"
    product = _product_24(form.type, high)
    seen = NUMPY[form.type]
    if high and form.type == "s32" and form.flag("sat"):
        return form.ternary(lambda a, b, c: _saturated(product(a, b) + c))
    return form.ternary(lambda a, b, c: product(a, b).astype(seen) + c)


def _product_24(type_: str, high: bool) -> Two:
    """Bits 47 to 16 or all of the product, as 64-bit integers; bits 24 to 31 are ignored."""
    wide = _wide_product("s64" if type_ == "s32" else "u64")
    drop = 16 if high else 0
    return lambda a, b: wide(a << 8 >> 8, b << 8 >> 8) >> drop


@typed("sad", INTEGERS)
def _sum_of_differences(form: Form) -> Step:
    return form.ternary(lambda a, b, c: np.maximum(a, b) - np.minimum(a, b) + c)


@typed("div", INTEGERS)
def _divide(form: Form) -> Step:
    ones = _all_bits(form.type)
    return form.binary(lambda a, b: np.where(b == 0, ones, _divided(a, b)[0]))


@typed("rem", INTEGERS)
def _remainder(form: Form) -> Step:
    ones = _all_bits(form.type)
    return form.binary(lambda a, b: np.where(b == 0, ones, _divided(a, b)[1]))


def _all_bits(type_: str) -> np.generic:
    return NUMPY[type_](-1 if type_[0] == "s" else (1 << BITS[type_]) - 1)


def _divided(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """Quotient rounded towards zero and its remainder; anything where ``b`` is 0."""
    if a.dtype.kind == "u":
        divisor = np.maximum(b, 1)
        return a // divisor, a % divisor
    # Magnitudes are unsigned, so that the smallest integer has one too.
    natural = np.dtype(f"u{a.itemsize}")
    x, y = np.abs(a).view(natural), np.maximum(np.abs(b).view(natural), 1)
    quotient, remainder = (x // y).view(a.dtype), (x % y).view(a.dtype)
    return np.where((a < 0) != (b < 0), -quotient, quotient), np.where(a < 0, -remainder, remainder)


@typed("abs", "s16 s32 s64")
def _absolute(form: Form) -> Step:
    return form.unary(np.abs)


@typed("neg", "s16 s32 s64")
def _negate(form: Form) -> Step:
    return form.unary(np.negative)


@typed("min max", INTEGERS)
def _extreme(form: Form) -> Step:
    pick = np.minimum if form.where.opcode == "min" else np.maximum
    if form.type == "s32" and form.flag("relu"):
        return form.binary(lambda a, b: np.maximum(pick(a, b), 0))
    return form.binary(pick)


@typed("add min max", "u16x2 s16x2")
def _pairs(form: Form) -> Step:
    opcode = form.where.opcode
    relu = opcode != "add" and form.type == "s16x2" and form.flag("relu")
    seen = np.uint16 if form.type == "u16x2" else np.int16
    operations: dict[str, Callable[..., Lanes]] = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
    }
    operation = operations[opcode]

    def compute(a: Lanes, b: Lanes) -> Lanes:
        result = operation(np.ascontiguousarray(a).view(seen), np.ascontiguousarray(b).view(seen))
        return (np.maximum(result, 0) if relu else result).view(np.uint32)

    return form.binary(compute)


def _saturated(values: Lanes) -> Lanes:
    """64-bit integers limited to the range of s32."""
    return np.clip(values, _S32.min, _S32.max).astype(np.int32)
