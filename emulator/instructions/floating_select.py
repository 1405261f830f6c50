"""Floating-point instructions that choose or change signs: min, max, abs, neg, copysign, testp.

PTX ISA 9.7.3.1, 9.7.3.2, 9.7.3.9 to 9.7.3.12 and 9.7.4.5 to 9.7.4.8.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from schedgen.emulator.instructions.floating_values import (
    ELEMENT,
    TINY,
    canonical,
    flushed,
    on_three,
    on_two,
    on_value,
)
from schedgen.emulator.instructions.forms import Form, One, Two, typed
from schedgen.emulator.machine.lanes import Lanes, Step

_SMALLEST = {
    np.dtype(np.float16): np.float16(2.0**-14),
    np.dtype(np.float32): TINY,
    np.dtype(np.float64): np.float64(2.0**-1022),
}
"""The smallest normal value."""


def flush_of(form: Form) -> One | None:
    """What `.ftz` does to values of the form's type, None without it."""
    element = ELEMENT.get(form.type, form.type)
    if element not in ("f16", "f32") or not form.flag("ftz"):
        return None
    return flushed if element == "f32" else _flushed_half


def _flushed_half(values: Lanes) -> Lanes:
    return values * (np.abs(values) >= np.float16(2.0**-14))


@typed("min max", "f32 f64 f16 f16x2 bf16 bf16x2")
def _extreme(form: Form) -> Step:
    """-0 is less than +0. Flushing operands flushes the result too."""
    flush = flush_of(form)
    keep_nan = form.type != "f64" and form.flag("NaN")
    with_sign = form.type != "f64" and form.flag("xorsign")
    three = len(form.operands) == 4 and form.type == "f32" and not with_sign
    absolute = (with_sign or three) and form.flag("abs")
    if with_sign and not absolute:
        raise form.error(".xorsign needs .abs")
    pick = extreme(form.where.opcode, keep_nan=keep_nan)
    if form.type == "f64":
        return form.binary(lambda a, b: np.where(np.isnan(a), b * 1.0, pick(a, b)))

    def prepared(values: Lanes) -> Lanes:
        values = values if flush is None else flush(values)
        return np.abs(values) if absolute else values

    if three:
        return on_three(
            form, lambda a, b, c: canonical(pick(pick(prepared(a), prepared(b)), prepared(c)))
        )
    if with_sign:
        return on_two(form, lambda a, b: _with_xor(canonical(pick(prepared(a), prepared(b))), a, b))
    if flush is not None:
        return on_two(form, lambda a, b: canonical(pick(prepared(a), prepared(b))))
    return on_two(form, lambda a, b: canonical(pick(a, b)))


def extreme(opcode: str, *, keep_nan: bool) -> Two:
    """The smaller or larger of two values; a NaN counts only with ``keep_nan``."""
    if opcode == "min":
        pick, join = (np.minimum if keep_nan else np.fmin), np.bitwise_or
    else:
        pick, join = (np.maximum if keep_nan else np.fmax), np.bitwise_and

    def compute(a: Lanes, b: Lanes) -> Lanes:
        chosen = pick(a, b)
        if np.count_nonzero(chosen) == chosen.size:
            return chosen
        # numpy takes either zero. Equal values have the same bits, but for the signs of zeros.
        bits = np.dtype(f"u{a.itemsize}")
        return np.where(a == b, join(a.view(bits), b.view(bits)).view(a.dtype), chosen)

    return compute


def _with_xor(chosen: Lanes, a: Lanes, b: Lanes) -> Lanes:
    signed = np.where(np.signbit(a) != np.signbit(b), -chosen, chosen)
    return np.where(np.isnan(chosen), chosen, signed)


@typed("abs neg", "f32 f64 f16 f16x2 bf16 bf16x2")
def _sign(form: Form) -> Step:
    """What NaN gives is unspecified: the canonical NaN, and for f64 itself, as on the H200."""
    flush = flush_of(form)
    change: One = np.abs if form.where.opcode == "abs" else np.negative
    if form.type == "f64":
        return form.unary(lambda a: np.where(np.isnan(a), a * 1.0, change(a)))
    if flush is not None:
        return on_value(form, lambda a: canonical(change(flush(a))))
    return on_value(form, lambda a: canonical(change(a)))


@typed("copysign", "f32 f64")
def _copy_sign(form: Form) -> Step:
    return form.binary(lambda a, b: np.copysign(b, a))


def _subnormal(a: Lanes) -> Lanes:
    return (a != 0) & (np.abs(a) < _SMALLEST[a.dtype])


_TESTS: Mapping[str, One] = {
    "finite": np.isfinite,
    "infinite": np.isinf,
    "number": lambda a: ~np.isnan(a),
    "notanumber": np.isnan,
    "normal": lambda a: np.isfinite(a) & ~_subnormal(a),
    "subnormal": _subnormal,
}


@typed("testp", "f32 f64")
def _test(form: Form) -> Step:
    test = _TESTS[form.choose(*_TESTS)]
    return form.unary(test, "pred", form.type)
