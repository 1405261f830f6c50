"""Comparison and selection (PTX ISA 9.7.6 and 9.7.7): setp, set, selp, slct."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from schedgen.emulator.instructions.floating_select import flush_of
from schedgen.emulator.instructions.floating_values import ELEMENT, LOAD, flushed
from schedgen.emulator.instructions.forms import BITS, Form, One, Two, typed
from schedgen.emulator.machine.lanes import Lanes, Read, Step, WarpState
from schedgen.emulator.ptx.tree import Pair

INTEGERS = "u16 u32 u64 s16 s32 s64"
BIT_SIZES = "b16 b32 b64"
FLOATS = "f16 bf16 f32 f64"
PAIRS = "f16x2 bf16x2"

_EQUALITIES: Mapping[str, Two] = {"eq": np.equal, "ne": np.not_equal}
_ORDERINGS: Mapping[str, Two] = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_UNSIGNED: Mapping[str, Two] = {
    "lo": np.less,
    "ls": np.less_equal,
    "hi": np.greater,
    "hs": np.greater_equal,
}


# Comparisons of numpy are false where an operand is NaN, but for `not_equal`.
_FLOATING: Mapping[str, Two] = {
    "eq": np.equal,
    "ne": lambda a, b: (a < b) | (a > b),
    **_ORDERINGS,
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": np.not_equal,
    "ltu": lambda a, b: ~(a >= b),
    "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: ~(np.isnan(a) | np.isnan(b)),
    "nan": lambda a, b: np.isnan(a) | np.isnan(b),
}

_JOINS: Mapping[str, Two] = {
    "and": np.logical_and,
    "or": np.logical_or,
    "xor": np.logical_xor,
}


def comparison(form: Form) -> Two:
    """The comparison of two operands as they are read, by operator, type and `.ftz`.

    It gives (32,) bool, or (64,) for packed types, the low half of each lane first.
    """
    load = LOAD.get(form.type)
    if load is None:
        operators = dict(_EQUALITIES)
        if form.type[0] != "b":
            operators |= _ORDERINGS
        if form.type[0] == "u":
            operators |= _UNSIGNED
        return operators[form.choose(*operators)]
    compare = _FLOATING[form.choose(*_FLOATING)]
    flush = flush_of(form)
    if flush is not None:
        return lambda a, b: compare(flush(load(a)), flush(load(b)))
    if form.type in ("f16", "f32", "f64"):
        return compare
    return lambda a, b: compare(load(a), load(b))


def _joined(form: Form) -> tuple[Two | None, Read | None]:
    """The Boolean operator and the predicate that it takes, if there are any."""
    name = form.choose(*_JOINS, default="")
    if not name:
        form.finish(3)
        return None, None
    form.finish(4)
    return _JOINS[name], form.source(form.operands[3], "pred")


@typed("setp", f"{INTEGERS} {BIT_SIZES} {FLOATS} {PAIRS}")
def _set_predicate(form: Form) -> Step:
    compare = comparison(form)
    join, c = _joined(form)
    first, second = form.operands[0], None
    if isinstance(first, Pair):
        first, second = first.first, first.second
    write = form.target(first, "pred")
    put = None if second is None else form.target(second, "pred")
    a, b = (form.source(operand, form.type) for operand in form.operands[1:3])
    packed = form.type in ELEMENT

    def step(warp: WarpState) -> None:
        holds = compare(a(warp), b(warp))
        if packed:
            holds, other = holds[::2], holds[1::2]
        else:
            other = holds if put is None else ~holds
        if join is not None and c is not None:
            predicate = c(warp)
            holds, other = join(holds, predicate), join(other, predicate)
        write(warp, holds)
        if put is not None:
            put(warp, other)

    if join is None and put is None and not packed:
        return form.elementwise(
            lambda warp: write(warp, compare(a(warp), b(warp))), compare, [form.type] * 2
        )
    return step


_TRUE: Mapping[str, Callable[[Lanes], Lanes]] = {
    "u16": lambda holds: -holds.astype(np.int16),
    "s16": lambda holds: -holds.astype(np.int16),
    "u32": lambda holds: -holds.astype(np.int32),
    "s32": lambda holds: -holds.astype(np.int32),
    "f32": lambda holds: holds.astype(np.float32),
    "f16": lambda holds: holds.astype(np.float16),
    "bf16": lambda holds: np.where(holds, np.uint16(0x3F80), np.uint16(0)),
}
"""Result type -> 1.0 or all bits where a comparison holds, else 0."""


@typed("set", f"{INTEGERS} {BIT_SIZES} {FLOATS} {PAIRS}")
def _set(form: Form) -> Step:
    compare = comparison(form)
    result, element = _set_types(form)
    join, c = _joined(form)
    write = form.target(form.operands[0], result)
    a, b = (form.source(operand, form.type) for operand in form.operands[1:3])
    true = _TRUE[element]
    packed = form.type in ELEMENT

    def step(warp: WarpState) -> None:
        holds = compare(a(warp), b(warp))
        if join is not None and c is not None:
            predicate = c(warp)
            holds = join(holds, np.repeat(predicate, 2) if packed else predicate)
        values = true(holds)
        write(warp, values.view(np.uint32) if packed else values)

    return step


def _set_types(form: Form) -> tuple[str, str]:
    """The type of the result, and of each of its elements."""
    match form.type:
        case "f16x2" | "bf16x2":
            result = form.choose(form.type, "u32", "s32")
            return result, ELEMENT.get(result, "u16")
        case "f16" | "bf16":
            result = form.choose("f16", "bf16", "u16", "s16", "u32", "s32")
        case _:
            result = form.choose("u32", "s32", "f32", "f16", "bf16")
    return result, result


@typed("selp", f"{INTEGERS} {BIT_SIZES} f32 f64")
def _select(form: Form) -> Step:
    bits = f"b{BITS[form.type]}"
    return form.ternary(lambda a, b, c: np.where(c, a, b), bits, bits, bits, "pred")


@typed("slct", "s32 f32")
def _select_by_sign(form: Form) -> Step:
    """``type`` is that of the third operand. NaN is not >= 0."""
    flush: One | None = flushed if form.type == "f32" and form.flag("ftz") else None
    data = form.choose(*f"{BIT_SIZES} {INTEGERS} f32 f64".split())
    bits = f"b{BITS[data]}"

    def compute(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        return np.where((c if flush is None else flush(c)) >= 0, a, b)

    return form.ternary(compute, bits, bits, bits, form.type)
