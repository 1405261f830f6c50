"""Arithmetic of f32, f32x2 and f64 (PTX ISA 9.7.3.3 to 9.7.3.15): add, sub, mul, fma, mad, div, …

Also the mixed forms of 9.7.5, where f16 or bf16 operands are converted to f32 first. Results are
rounded once, as IEEE 754 asks, in all four modes.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np

from schedgen.emulator.instructions.floating_rounding import (
    MODES,
    Doubles,
    Exact,
    Singles,
    directed_sum,
    exact_double,
    exact_zero,
    odd_sum,
    single,
)
from schedgen.emulator.instructions.floating_values import (
    LOAD,
    TINY,
    canonical,
    flushed,
    on_three,
    on_two,
    on_value,
    result,
)
from schedgen.emulator.instructions.forms import Form, One, Three, Two, typed
from schedgen.emulator.machine.lanes import Lanes, Step

_LOW = np.uint64(0xFFFFFFF)
"""The 28 low bits of a float64; all zero in ties between two float32, subnormal ones included."""


@typed("add sub mul", "f32 f32x2")
def _two_singles(form: Form) -> Step:
    mode = form.choose(*MODES, default="rn")
    flush, finish = result(form, saturates=form.type == "f32")
    opcode = form.where.opcode
    compute = two_singles(opcode, mode)
    if not flush:
        return on_two(form, lambda a, b: finish(compute(a, b)))
    if opcode == "mul":
        return on_two(
            form, lambda a, b: finish(_flush_tiny(_product(flushed(a), flushed(b)), mode))
        )
    # Sums that are subnormal are exact: no need to look at them before they are rounded.
    return on_two(form, lambda a, b: finish(compute(flushed(a), flushed(b))))


@typed("fma", "f32 f32x2")
@typed("mad", "f32")
def _fused_singles(form: Form) -> Step:
    mode = form.choose(*MODES)
    flush, finish = result(form, saturates=form.type == "f32")
    if not flush:
        compute = fused_singles(mode)
        if finish is canonical and mode == "rn":
            return on_three(form, compute)
        return on_three(form, lambda a, b, c: finish(compute(a, b, c)))
    return on_three(
        form,
        lambda a, b, c: finish(
            _flush_tiny(_fused_exact(flushed(a), flushed(b), flushed(c), mode), mode)
        ),
    )


def two_singles(opcode: str, mode: str) -> Two:
    """The sum, difference or product of float32 values, rounded once."""
    if mode == "rn":
        return {"add": np.add, "sub": np.subtract, "mul": np.multiply}[opcode]
    if opcode == "mul":
        return lambda a, b: single(_product(a, b), mode)
    if opcode == "sub":
        return lambda a, b: directed_sum(a, -b, mode)
    return lambda a, b: directed_sum(a, b, mode)


def _product(a: Lanes, b: Lanes) -> Doubles:
    """Exact."""
    return a.astype(np.float64) * b.astype(np.float64)


def _fused_exact(a: Lanes, b: Lanes, c: Lanes, mode: str) -> Doubles:
    """``a * b + c`` as float64, exact or odd."""
    product = _product(a, b)
    addend = c.astype(np.float64)
    return exact_zero(odd_sum(product, addend), mode, product, addend)


def fused_singles(mode: str) -> Three:
    """``a * b + c`` of float32 values, rounded once; with canonical NaNs if to the nearest."""
    if mode != "rn":
        return lambda a, b, c: single(_fused_exact(a, b, c, mode), mode)

    def nearest(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        product = _product(a, b)
        addend = c.astype(np.float64)
        total = product + addend
        # Rounding twice differs from rounding once only if the first gave a tie. NaNs have low
        # bits of zero too, as they come from float32.
        if np.count_nonzero(total.view(np.uint64) & _LOW) == total.size:
            return total.astype(np.float32)
        return canonical(odd_sum(product, addend).astype(np.float32))

    return nearest


def _flush_tiny(total: Doubles, mode: str) -> Singles:
    """float64 rounded to float32, with zeros where that needs a smaller exponent (`.ftz`).

    Not where the result is subnormal: one that becomes the smallest normal value only because it
    has fewer bits than a normal one is flushed too, as on the H200.
    """
    values = single(total, mode)
    if np.count_nonzero(np.abs(values) == TINY):
        larger = single(total * 2.0**64, mode)
        values = np.where(np.abs(larger) < TINY * np.float32(2.0**64), values * 0, values)
    return flushed(values)


def mixed(form: Form, element: str) -> Step:
    """``add.f32.bf16 d, a, c`` and its like: all sources but the last are of type ``element``."""
    load = LOAD[element]
    opcode = form.where.opcode
    if opcode == "fma":
        fuse = fused_singles(form.choose(*MODES))
        _, finish = result(form)
        return form.ternary(
            lambda a, b, c: finish(fuse(_single(load(a)), _single(load(b)), c)),
            *("f32", element, element, "f32"),
        )
    compute = two_singles(opcode, form.choose(*MODES, default="rn"))
    _, finish = result(form)
    return form.binary(lambda a, c: finish(compute(_single(load(a)), c)), "f32", element, "f32")


def _single(values: Lanes) -> Lanes:
    return values.astype(np.float32, copy=False)


@typed("add sub mul", "f64")
def _two_doubles(form: Form) -> Step:
    mode = form.choose(*MODES, default="rn")
    opcode = form.where.opcode
    nearest: Two = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[opcode]
    exact: Exact = {"add": _add, "sub": _subtract, "mul": _multiply}[opcode]
    if mode == "rn":
        return form.binary(nearest)

    def compute(a: Lanes, b: Lanes) -> Lanes:
        value = nearest(a, b)
        if opcode != "mul":
            value = exact_zero(value, mode, a, -b if opcode == "sub" else b)
        return exact_double(exact, value, mode, a, b)

    return form.binary(compute)


@typed("fma mad", "f64")
def _fused_doubles(form: Form) -> Step:
    mode = form.choose(*MODES)

    def compute(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        product = a * b
        return exact_double(_fuse, exact_zero(product + c, mode, product, c), mode, a, b, c)

    return form.ternary(compute)


@typed("div", "f64")
def _divide_doubles(form: Form) -> Step:
    return form.binary(_quotient(form.choose(*MODES)))


@typed("rcp sqrt", "f64")
def _root_doubles(form: Form) -> Step:
    return form.unary(_one_double(form.where.opcode, form.choose(*MODES)))


def divide_singles(form: Form, mode: str) -> Step:
    """``div.rn.f32`` and its like."""
    flush, finish = result(form, saturates=False)
    double = _quotient(mode)

    def compute(a: Lanes, b: Lanes) -> Lanes:
        if flush:
            a, b = flushed(a), flushed(b)
        if mode == "rn":
            return finish(a / b)
        # Rounding twice in the same direction is like rounding once.
        quotient = double(a.astype(np.float64), b.astype(np.float64))
        return finish(_flush_tiny(quotient, mode) if flush else single(quotient, mode))

    return on_two(form, compute)


def root_singles(form: Form, mode: str) -> Step:
    """``rcp.rn.f32``, ``sqrt.rn.f32`` and their like."""
    flush, finish = result(form, saturates=False)
    opcode = form.where.opcode
    double = _one_double(opcode, mode)

    def compute(a: Lanes) -> Lanes:
        if flush:
            a = flushed(a)
        if mode == "rn":
            return finish(np.sqrt(a) if opcode == "sqrt" else np.reciprocal(a))
        value = double(a.astype(np.float64))
        return finish(_flush_tiny(value, mode) if flush else single(value, mode))

    return on_value(form, compute)


def _quotient(mode: str) -> Two:
    if mode == "rn":
        return np.divide
    return lambda a, b: exact_double(_divide, a / b, mode, a, b)


def _one_double(opcode: str, mode: str) -> One:
    """The reciprocal or square root of float64 values."""
    if opcode == "rcp":
        return lambda a: _quotient(mode)(np.ones_like(a), a)
    if mode == "rn":
        return np.sqrt
    return lambda a: exact_double(_near_root, np.sqrt(a), mode, a)


def _near_root(a: float) -> Fraction:
    """On the same side of every float64 as the square root of ``a``, and exact if that is one.

    A float64 has 53 bits: 120 bits of the root and one that says whether more follow will do.
    """
    value = Fraction(a)
    shift = 240 + 2 * value.denominator.bit_length()
    scaled = (value.numerator << shift) // value.denominator
    root = isqrt(scaled)
    return Fraction(2 * root + (root * root != scaled), 2) / 2 ** (shift // 2)


def _add(a: float, b: float) -> Fraction:
    return Fraction(a) + Fraction(b)


def _subtract(a: float, b: float) -> Fraction:
    return Fraction(a) - Fraction(b)


def _multiply(a: float, b: float) -> Fraction:
    return Fraction(a) * Fraction(b)


def _divide(a: float, b: float) -> Fraction:
    return Fraction(a) / Fraction(b)


def _fuse(a: float, b: float, c: float) -> Fraction:
    return Fraction(a) * Fraction(b) + Fraction(c)
