"""mma.sync of one warp, shape m16n8 (PTX ISA 9.7.14.5)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from schedgen.emulator.instructions.forms import Form
from schedgen.emulator.instructions.operands import items
from schedgen.emulator.instructions.table import Environment, Execute, builds
from schedgen.emulator.layouts import fragments
from schedgen.emulator.layouts.products import accumulate, multiply, values
from schedgen.emulator.machine.lanes import Decoder, Lanes, Read
from schedgen.emulator.ptx.tree import Instruction, Operand

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_SHAPE = re.compile(r"m16n8k(\d+)")
_LENGTHS = {
    "f16": (8, 16), "bf16": (8, 16), "tf32": (4, 8), "e4m3": (16, 32), "e5m2": (16, 32),
    "s8": (16, 32), "u8": (16, 32),
}  # fmt: skip
"""Type of A and B -> lengths of the product."""
_BITS = {"f16": 16, "bf16": 16, "tf32": 32}
_MIXED: list[set[str]] = [{"e4m3", "e5m2"}, {"s8", "u8"}]
"""Types of A and B that may differ."""
_RESULTS = {"s8": ("s32",), "u8": ("s32",), "f16": ("f16", "f32")}


@builds("mma.sync")
def _mma(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    for name in ("sync", "aligned", "row", "col"):
        form.choose(name)
    shape = next((m for m in form.left if _SHAPE.fullmatch(m)), "")
    if not shape:
        raise form.error("only shapes m16n8kK are supported")
    form.left.remove(shape)
    saturate = form.flag("satfinite")
    d, a, b, c = form.left if len(form.left) == 4 else ("",) * 4
    form.left.clear()
    k = int(shape.removeprefix("m16n8k"))
    fits = a == b or {a, b} in _MIXED
    if a not in _LENGTHS or not fits or k not in _LENGTHS[a]:
        raise form.error(f"there is no product {shape} of .{a} and .{b}")
    if d != c or d not in _RESULTS.get(a, ("f32",)):
        raise form.error(f"accumulators .{d} and .{c} are not supported for .{a}")
    form.finish(4)
    bits = _BITS.get(a, 8)
    words = k * bits // 128  # of K per thread
    count = 2 if d == "f16" else 4
    writes = [decoder.write(one, instruction) for one in _vector(form, 0, count)]
    reads_a = [decoder.read(one, "b32", instruction) for one in _vector(form, 1, 2 * words)]
    reads_b = [decoder.read(one, "b32", instruction) for one in _vector(form, 2, words)]
    reads_c = [decoder.read(one, "b32", instruction) for one in _vector(form, 3, count)]

    def run(warp: Warp) -> None:
        left = values(fragments.warp_operand_a(_stacked(warp, reads_a), bits), a)
        right = values(fragments.warp_operand_b(_stacked(warp, reads_b), bits), b)
        old = _stacked(warp, reads_c)
        if d == "f16":
            old = fragments.halves(old)
        before = np.ascontiguousarray(fragments.from_warp_accumulator(old))
        found = accumulate(multiply(left, right), before, d, saturate=saturate)
        registers = np.ascontiguousarray(fragments.warp_accumulator(found))
        if d == "f16":
            registers = fragments.packed(registers)
        for write, lanes in zip(writes, registers, strict=True):
            write(warp, lanes)

    return run


def _vector(form: Form, at: int, count: int) -> tuple[Operand, ...]:
    given = items(form.operands[at])
    if len(given) != count:
        raise form.error(f"operand {at + 1} has {len(given)} registers, {count} expected")
    return given


def _stacked(warp: Warp, reads: list[Read]) -> Lanes:
    """(registers, 32) words."""
    return np.stack([read(warp) for read in reads])
