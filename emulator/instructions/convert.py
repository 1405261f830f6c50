"""cvt between integers and floating-point numbers, and cvt.pack (PTX ISA 9.7.9.21, 9.7.9.22).

Conversions to and from packed and narrow formats are in `convert_packed`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from schedgen.emulator.instructions.convert_packed import FORMATS_2, narrow, packed
from schedgen.emulator.instructions.floating_rounding import (
    MODES,
    Doubles,
    exact_double,
    odd_single,
    odd_sum,
    single,
)
from schedgen.emulator.instructions.floating_values import LOAD, canonical, flushed, saturated
from schedgen.emulator.instructions.forms import BITS, Form, One, untyped
from schedgen.emulator.machine.lanes import NUMPY, UNSIGNED, Lanes, Step, Write
from schedgen.emulator.ptx.tree import Immediate, Operand

INTEGERS = ("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64")
FLOATS = ("f16", "bf16", "f32", "f64")

_TO_INTEGER: Mapping[str, np.ufunc] = {
    "rni": np.rint,
    "rzi": np.trunc,
    "rmi": np.floor,
    "rpi": np.ceil,
}


@untyped("cvt")
def _convert(form: Form) -> Step:
    known = {*INTEGERS, *FLOATS, *FORMATS_2, "tf32"}
    types = [modifier for modifier in form.left if modifier in known]
    if len(types) != 2:
        raise form.error("the types of destination and source are needed")
    to, source = types
    form.left = [modifier for modifier in form.left if modifier not in known]
    if to in FORMATS_2 or source in FORMATS_2:
        return packed(form, to, source)
    if to == "tf32":
        return _to_tf32(form, source)
    if source in INTEGERS:
        compute = _from_integer(form, to, source)
    elif to in INTEGERS:
        compute = _to_integer(form, to, source)
    else:
        compute = _between_floats(form, to, source)
    form.finish(2)
    write = _target(form, form.operands[0], to)
    a = form.source(form.operands[1], source, wider=source != "bf16")
    step: Step = lambda warp: write(warp, compute(a(warp)))  # noqa: E731
    held = form.held(form.operands[0])
    if held is None or BITS[held] != BITS[to]:
        return step
    return form.elementwise(step, compute, [source])


def _target(form: Form, operand: Operand, type_: str) -> Write:
    """A destination that may be wider: signed results are extended by sign, others by zeros."""
    write = form.target(operand, type_, wider=type_ != "bf16")
    held = form.held(operand)
    if type_ in INTEGERS or held is None or BITS[held] == BITS[type_]:
        return write
    bits = UNSIGNED[BITS[type_] // 8]
    return lambda warp, values: write(warp, values.view(bits))


def _from_integer(form: Form, to: str, source: str) -> One:
    if to in FLOATS:
        return _integer_to_float(form, to, source)
    seen = NUMPY[to]
    if not form.flag("sat"):
        return lambda a: a.astype(seen)
    low, high = max(_range(source)[0], _range(to)[0]), min(_range(source)[1], _range(to)[1])
    return lambda a: np.clip(a, low, high).astype(seen)


def _range(type_: str) -> tuple[int, int]:
    bits = BITS[type_]
    return (-1 << bits - 1, (1 << bits - 1) - 1) if type_[0] == "s" else (0, (1 << bits) - 1)


def _integer_to_float(form: Form, to: str, source: str) -> One:
    mode = form.choose(*MODES)
    saturates = form.flag("sat")
    if mode == "rn" and to in ("f32", "f64") and not saturates:
        seen = NUMPY[to]
        return lambda a: a.astype(seen)  # rounded once

    def compute(a: Lanes) -> Lanes:
        if to == "f64":
            value = _double(a, mode)
            return saturated(value) if saturates else value
        odd = _odd_double(a)
        value = single(odd, mode) if to == "f32" else odd_single(odd)
        value = saturated(value) if saturates else value
        return value if to == "f32" else narrow(value, to, mode)

    return compute


def _halves(a: Lanes) -> tuple[Doubles, Doubles]:
    """Two float64 whose exact sum is the integer."""
    low = (a & 0xFFFFFFFF).astype(np.float64)
    return (a - (a & 0xFFFFFFFF)).astype(np.float64), low


def _odd_double(a: Lanes) -> Doubles:
    return a.astype(np.float64) if a.itemsize < 8 else odd_sum(*_halves(a))


def _double(a: Lanes, mode: str) -> Doubles:
    if mode == "rn" or a.itemsize < 8:
        return a.astype(np.float64)
    return exact_double(_add, a.astype(np.float64), mode, *_halves(a))


def _add(high: float, low: float) -> Fraction:
    return Fraction(high) + Fraction(low)


def _to_integer(form: Form, to: str, source: str) -> One:
    """What is out of range becomes the nearest limit, with or without `.sat`."""
    form.flag("sat")
    around = _TO_INTEGER[form.choose(*_TO_INTEGER)]
    flush = source == "f32" and form.flag("ftz")
    load = LOAD[source]
    seen, bits = NUMPY[to], BITS[to]
    low, high = _range(to)
    nan = 1 << (bits - 1) if source == "f64" or bits == 64 else 0

    def compute(a: Lanes) -> Lanes:
        values = load(a)
        whole = around((flushed(values) if flush else values).astype(np.float64))
        missing = np.isnan(whole)
        if bits < 64:
            inside = np.clip(np.where(missing, 0, whole), low, high).astype(np.int64)
            return np.where(missing, nan, inside).astype(seen)
        # Neither limit of 64 bits plus 1 rounds in float64: both are powers of two or zero.
        above, below = whole >= high, whole < low
        inside = np.where(missing | above | below, 0, whole).astype(seen)
        limits = np.where(above, seen(high), np.where(below, seen(low), inside))
        return np.where(missing, np.uint64(nan).view(seen), limits)

    return compute


def _between_floats(form: Form, to: str, source: str) -> One:
    """Conversions that change no value keep NaNs as they are; others make them canonical, but to
    f64 they keep payloads (all of this unspecified, and as on the H200)."""
    flush_source = flush_result = False
    if "f32" in (to, source) and form.flag("ftz"):
        flush_source, flush_result = source == "f32" and to != "f16", to == "f32"
    whole = form.choose(*_TO_INTEGER, default="") if to == source else ""
    narrower = (to, source) in (("bf16", "f16"), ("f16", "bf16")) or BITS[to] < BITS[source]
    mode = form.choose(*MODES) if narrower else ""
    limited = source == "f32" and to in ("f16", "bf16") and mode in ("rn", "rz")
    relu = limited and form.flag("relu")
    finite = limited and form.flag("satfinite")
    saturates = "bf16" not in (to, source) and form.flag("sat")
    load, seen = LOAD[source], NUMPY[to]
    if to == source and to in ("f32", "f64") and not (whole or flush_source or saturates):
        return lambda a: a
    keeps_nan = to == "f64" or (to == "f32" and source in ("bf16", "f64"))

    def compute(a: Lanes) -> Lanes:
        values = load(a)
        if flush_source:
            values = flushed(canonical(values))
        if whole:
            values = _TO_INTEGER[whole](values)
        if to in ("f16", "bf16"):
            values = odd_single(values) if values.itemsize == 8 else values.astype(np.float32)
            values = saturated(values) if saturates else values
            return narrow(values, to, mode or "rn", satfinite=finite, relu=relu)
        if mode and to == "f32":
            values = single(values, mode)
        elif to == "f64":
            values = values.astype(np.float64) * 1.0  # signalling NaNs become quiet
        else:
            values = values.astype(seen)
        if flush_result:
            values = flushed(values if source == "f64" else canonical(values))
        if saturates:
            return saturated(values)
        return values if keeps_nan else canonical(values)

    return compute


def _to_tf32(form: Form, source: str) -> Step:
    if source != "f32":
        raise form.error("tf32 is made of f32 only")
    mode = form.choose("rna", "rn", "rz")
    finite = form.flag("satfinite")
    relu = mode != "rna" and form.flag("relu")
    form.finish(2)
    write = form.target(form.operands[0], "b32")
    a = form.source(form.operands[1], "f32")
    upper, half = np.uint32(0xFFFFE000), np.uint32(0x1000)
    if mode == "rna" and not finite:  # NaNs lose bits, and some become infinite: as on the H200

        def truncated(values: Lanes) -> Lanes:
            bits = values.view(np.uint32)
            return np.where(np.isnan(values), bits, bits + half) & upper

        return lambda warp: write(warp, truncated(a(warp)))
    return lambda warp: write(
        warp, narrow(a(warp), "tf32", mode, satfinite=finite, relu=relu) & upper
    )


@untyped("cvt.pack")
def _pack(form: Form) -> Step:
    """Two saturated integers, ``a`` above ``b``, and above them the low bits of ``c``."""
    form.choose("pack")
    form.choose("sat")
    form.choose("s32")
    third = form.flag("b32")
    to = form.choose(*(("u2", "s2", "u4", "s4", "u8", "s8") if third else ("u16", "s16")))
    form.finish(4 if third else 3)
    size = int(to[1:])
    low = -(1 << size - 1) if to[0] == "s" else 0
    high = low + (1 << size) - 1
    write = form.target(form.operands[0], "u32")
    a, b = (form.source(operand, "s32") for operand in form.operands[1:3])
    rest = form.source(form.operands[3] if third else Immediate(0), "u32")
    mask = np.uint32((1 << size) - 1)

    def field(values: Lanes) -> Lanes:
        return np.clip(values, low, high).view(np.uint32) & mask

    return lambda warp: write(
        warp, field(b(warp)) | field(a(warp)) << size | (rest(warp) << 2 * size)
    )
