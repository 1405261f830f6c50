"""Arithmetic of f16, bf16 and pairs of them (PTX ISA 9.7.4.1 to 9.7.4.4): add, sub, mul, fma.

Sums and products are formed in float64, made odd, and rounded once. Mixed forms as
``fma.rn.f32.bf16`` end with the half type too and are sent on to `floating`.
"""

from __future__ import annotations

import numpy as np

from schedgen.emulator.instructions.floating import mixed
from schedgen.emulator.instructions.floating_rounding import odd_single, odd_sum
from schedgen.emulator.instructions.floating_select import flush_of
from schedgen.emulator.instructions.floating_values import (
    ELEMENT,
    on_three,
    on_two,
    rounded,
    saturated,
)
from schedgen.emulator.instructions.forms import Form, One, typed
from schedgen.emulator.machine.lanes import Lanes, Step

HALVES = "f16 f16x2 bf16 bf16x2"


@typed("add sub mul", HALVES)
def _two(form: Form) -> Step:
    opcode = form.where.opcode
    if opcode != "mul" and form.type in ("f16", "bf16") and form.flag("f32"):
        return mixed(form, form.type)
    form.flag("rn")
    widen, finish = _around(form, relu=False)

    def compute(a: Lanes, b: Lanes) -> Lanes:
        x, y = widen(a), widen(b)
        match opcode:
            case "mul":
                return finish(x * y)
            case "add":
                return finish(odd_sum(x, y))
            case _:
                return finish(odd_sum(x, -y))

    return on_two(form, compute)


@typed("fma", HALVES)
def _fused(form: Form) -> Step:
    if form.type in ("f16", "bf16") and form.flag("f32"):
        return mixed(form, form.type)
    form.choose("rn")
    widen, finish = _around(form, relu=form.flag("relu"))
    return on_three(form, lambda a, b, c: finish(odd_sum(widen(a) * widen(b), widen(c))))


def _around(form: Form, *, relu: bool) -> tuple[One, One]:
    """What makes float64 of operands, and values of float64 results that are odd if not exact."""
    element = ELEMENT.get(form.type, form.type)
    flush = flush_of(form)
    saturates = element == "f16" and not relu and form.flag("sat")

    def widen(values: Lanes) -> Lanes:
        return (values if flush is None else flush(values)).astype(np.float64)

    def finish(values: Lanes) -> Lanes:
        singles = odd_single(values)
        if saturates:
            singles = saturated(singles)
        halves = rounded(singles, element, relu=relu)
        return halves if flush is None else flush(halves)

    return widen, finish
