"""Approximate functions (PTX ISA 9.7.3.8 to 9.7.3.22, 9.7.4.9, 9.7.4.10): ex2, lg2, rcp, tanh, …

The ISA gives bounds of errors, not values. Here float64 functions of numpy (errors below 1 ulp of
float64) are rounded once to the type of the result, so that every result is within 0.5001 ulp:
better than every bound of the ISA, and hardware differs in the last bits. Special values are those
of the ISA's tables.

Opcodes that also have forms with IEEE rounding are dispatched here, to `floating`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from schedgen.emulator.instructions.floating import divide_singles, root_singles
from schedgen.emulator.instructions.floating_rounding import MODES, odd_single
from schedgen.emulator.instructions.floating_values import (
    ELEMENT,
    TINY,
    canonical,
    flushed,
    on_two,
    on_value,
    result,
    rounded,
)
from schedgen.emulator.instructions.forms import Form, One, typed, untyped
from schedgen.emulator.machine.lanes import Lanes, Step

_FUNCTIONS: Mapping[str, One] = {
    "rcp": np.reciprocal,
    "sqrt": np.sqrt,
    "rsqrt": lambda a: np.reciprocal(np.sqrt(a)),
    "sin": np.sin,
    "cos": np.cos,
    "lg2": np.log2,
    "ex2": np.exp2,
    "tanh": np.tanh,
}
"""Opcode -> function of float64 values."""


@typed("rcp sqrt rsqrt sin cos lg2", "f32")
def _one_single(form: Form) -> Step:
    opcode = form.where.opcode
    if opcode in ("rcp", "sqrt"):
        mode = form.choose("approx", *MODES)
        if mode != "approx":
            return root_singles(form, mode)
    else:
        form.choose("approx")
    function = _FUNCTIONS[opcode]
    flush, finish = result(form, saturates=False)

    def compute(a: Lanes) -> Lanes:
        if flush:
            a = flushed(a)
        return finish(function(a.astype(np.float64)).astype(np.float32))

    return form.unary(compute)


@typed("ex2", "f32")
def _exponential(form: Form) -> Step:
    """Flushing a subnormal operand would not change its result, 1."""
    form.choose("approx")
    if not form.flag("ftz"):
        return form.unary(lambda a: canonical(np.exp2(a.astype(np.float64)).astype(np.float32)))

    def compute(a: Lanes) -> Lanes:
        power = np.exp2(a.astype(np.float64)).astype(np.float32)
        return canonical(power * (power >= TINY))

    return form.unary(compute)


@typed("tanh", "f32")
def _tangent(form: Form) -> Step:
    form.choose("approx")
    return form.unary(lambda a: canonical(np.tanh(a.astype(np.float64)).astype(np.float32)))


@typed("tanh ex2", "f16 f16x2 bf16 bf16x2")
def _half(form: Form) -> Step:
    form.choose("approx")
    element = ELEMENT.get(form.type, form.type)
    opcode = form.where.opcode
    flush = opcode == "ex2" and element == "bf16"
    if flush:
        form.choose("ftz")
    function = _FUNCTIONS[opcode]

    def compute(a: Lanes) -> Lanes:
        values = rounded(odd_single(function(a.astype(np.float64))), element)
        return flushed(values) if flush else values  # bf16 has the exponents of float32

    return on_value(form, compute)


@typed("div", "f32")
def _divide(form: Form) -> Step:
    mode = form.choose("approx", "full", *MODES)
    if mode in MODES:
        return divide_singles(form, mode)
    flush, finish = result(form, saturates=False)

    def compute(a: Lanes, b: Lanes) -> Lanes:
        if flush:
            a, b = flushed(a), flushed(b)
        quotient = a / b
        if mode == "approx":  # a * (1 / b), and 1 / b is 0 if it would be subnormal
            large = (np.abs(b) > np.float32(2.0**126)) & np.isfinite(b)
            quotient = np.where(large, a * np.copysign(np.float32(0), b), quotient)
        return finish(quotient)

    return on_two(form, compute)


@untyped("rcp.approx.ftz.f64")
@untyped("rsqrt.approx.ftz.f64")
def _gross(form: Form) -> Step:
    """Only the upper halves of operand and result count (PTX ISA 9.7.3.14 and 9.7.3.17)."""
    for modifier in ("approx", "ftz", "f64"):
        form.choose(modifier)
    function = _FUNCTIONS[form.where.opcode]
    upper = np.uint64(0xFFFFFFFF00000000)
    smallest = np.float64(2.0**-1022)

    def compute(a: Lanes) -> Lanes:
        value = (a.view(np.uint64) & upper).view(np.float64)
        value = np.where(np.isnan(a), a, value * (np.abs(value) >= smallest))
        value = function(value)
        value = value * (np.abs(value) >= smallest)
        return canonical(value).view(np.uint64) & upper

    return form.unary(compute, "f64")


@untyped("rsqrt.approx.f64")
def _inverse_root(form: Form) -> Step:
    for modifier in ("approx", "f64"):
        form.choose(modifier)
    return form.unary(lambda a: canonical(np.reciprocal(np.sqrt(a))), "f64")
