"""Extended-precision integer arithmetic (PTX ISA 9.7.2): what reads or writes the carry flag.

The flag, CC.CF, is one bit per lane in `Carrying.carry`. Subtraction keeps its borrow there.
"""

from __future__ import annotations

from typing import Protocol, cast

import numpy as np

from schedgen.emulator.instructions.forms import BITS, Form, typed
from schedgen.emulator.instructions.integer_products import high_product, unsigned
from schedgen.emulator.machine.lanes import NUMPY, Lanes, Step, WarpState

WORDS = "u32 s32 u64 s64"


class Carrying(WarpState, Protocol):
    """A warp with carry flags."""

    carry: Lanes
    """(32,) bool. Never changed in place, like a register."""


@typed("addc", WORDS)
def _add_with_carry(form: Form) -> Step:
    return add_carry(form, carry_in=True, carry_out=form.flag("cc"))


@typed("subc", WORDS)
def _subtract_with_borrow(form: Form) -> Step:
    return subtract_carry(form, carry_in=True, carry_out=form.flag("cc"))


@typed("madc", WORDS)
def _multiply_add_with_carry(form: Form) -> Step:
    return multiply_add_carry(form, carry_in=True, carry_out=form.flag("cc"))


def add_carry(form: Form, *, carry_in: bool, carry_out: bool) -> Step:
    """``d = a + b + CC.CF``, the parts about the flag optional."""
    form.finish(3)
    bits = _unsigned(form)
    write = form.target(form.operands[0], bits)
    a, b = form.source(form.operands[1], bits), form.source(form.operands[2], bits)

    def step(warp: WarpState) -> None:
        total, carry = _sum(warp, a(warp), b(warp), carry_in)
        write(warp, total)
        if carry_out:
            _put(warp, carry)

    return step


def subtract_carry(form: Form, *, carry_in: bool, carry_out: bool) -> Step:
    """``d = a - (b + CC.CF)``, the parts about the flag optional."""
    form.finish(3)
    bits = _unsigned(form)
    write = form.target(form.operands[0], bits)
    a, b = form.source(form.operands[1], bits), form.source(form.operands[2], bits)

    def step(warp: WarpState) -> None:
        x, y = a(warp), b(warp)
        difference, borrow = x - y, x < y
        if carry_in:
            before = cast(Carrying, warp).carry
            borrow = borrow | (before & (difference == 0))
            difference = difference - before
        write(warp, difference)
        if carry_out:
            _put(warp, borrow)

    return step


def multiply_add_carry(form: Form, *, carry_in: bool, carry_out: bool) -> Step:
    """``d = half of a * b + c + CC.CF``, the parts about the flag optional."""
    high = form.choose("lo", "hi") == "hi"
    form.finish(4)
    type_ = form.type if high else _unsigned(form)
    write = form.target(form.operands[0], type_)
    a, b, c = (form.source(operand, type_) for operand in form.operands[1:])
    product = high_product(type_) if high else np.multiply
    seen = NUMPY[_unsigned(form)]

    def step(warp: WarpState) -> None:
        half = product(a(warp), b(warp)).view(seen)
        total, carry = _sum(warp, half, c(warp).view(seen), carry_in)
        write(warp, total)
        if carry_out:
            _put(warp, carry)

    return step


def _sum(warp: WarpState, a: Lanes, b: Lanes, carry_in: bool) -> tuple[Lanes, Lanes]:
    """Sum and carry of unsigned lanes."""
    total = a + b
    carry = total < a
    if carry_in:
        before = cast(Carrying, warp).carry
        total = total + before
        carry = carry | (before & (total == 0))
    return total, carry


def _put(warp: WarpState, carry: Lanes) -> None:
    state = cast(Carrying, warp)
    state.carry = carry if warp.full else np.where(warp.active, carry, state.carry)


def _unsigned(form: Form) -> str:
    if BITS[form.type] < 32:
        raise form.error(f"a carry needs one of {WORDS}")
    return unsigned(form.type)
