"""mov (PTX ISA 9.7.9.3 and 9.7.9.4): between registers, from special registers and symbols, and
between a register and the vector of its parts; ``mov.v4`` element by element.

Registers of 128 bits are (32, 2) uint64, the low half first.
"""

from __future__ import annotations

import numpy as np

from schedgen.emulator.instructions.forms import BITS, Form, One, typed
from schedgen.emulator.machine.lanes import (
    LANES,
    UNSIGNED,
    Lanes,
    Read,
    Step,
    WarpState,
    stored,
)
from schedgen.emulator.ptx.tree import Immediate, Operand, Register, Vector


@typed("mov", "pred u16 u32 u64 s16 s32 s64 f32 f64")
def _move(form: Form) -> Step:
    if count := _vector(form):
        return _elements(form, count)
    # The bits are moved as they are: a literal has the type, a register its own.
    form.finish(2)
    write = form.target(form.operands[0], form.type)
    a = form.source(form.operands[1], form.type)
    seen = form.type
    if isinstance(form.operands[1], Register) and form.type != "pred":
        seen = f"u{BITS[form.type]}"
        a = form.source(form.operands[1], seen)
    return form.elementwise(lambda warp: write(warp, a(warp)), None, [seen])


@typed("mov", "b8 b16 b32 b64 b128")
def _move_bits(form: Form) -> Step:
    if count := _vector(form):
        return _elements(form, count)
    form.finish(2)
    to, source = form.operands
    if isinstance(to, Vector):
        return _unpack(form, to, source)
    if isinstance(source, Vector):
        return _pack(form, to, source)
    write = form.target(to, form.type)
    if form.type == "b128" and not isinstance(source, Register):
        raise form.error("a 128-bit source is a register or a vector")
    a = form.source(source, form.type)
    return form.elementwise(lambda warp: write(warp, a(warp)), None, [form.type])


def _vector(form: Form) -> int:
    """2 or 4 for ``mov.v2`` and ``mov.v4``, else 0."""
    return next((count for count in (2, 4) if form.flag(f"v{count}")), 0)


def _elements(form: Form, count: int) -> Step:
    """``mov.v4.b32 {a, b, c, d}, {e, f, g, h}``; a literal is put into all elements."""
    form.finish(2)
    to, source = form.operands
    given = source.items if isinstance(source, Vector) else (source,) * count
    if not isinstance(source, Vector | Immediate):
        raise form.error(f"the source of .v{count} is a vector or a literal, not {source}")
    if not isinstance(to, Vector) or not len(to.items) == len(given) == count:
        raise form.error(f".v{count} moves between vectors of {count} elements")
    writes = [form.target(item, form.type) for item in to.items]
    reads = [form.source(item, form.type) for item in given]

    def step(warp: WarpState) -> None:
        values = [read(warp) for read in reads]
        for write, value in zip(writes, values, strict=True):
            write(warp, value)

    return step


def _part(form: Form, vector: Vector) -> int:
    """Bytes of each element of a vector that is as wide as the type."""
    bits = BITS[form.type] // len(vector.items)
    if len(vector.items) not in (2, 4) or bits not in (8, 16, 32, 64):
        raise form.error(f"a vector of {len(vector.items)} elements does not make .{form.type}")
    return bits // 8


def _pack(form: Form, to: Operand, source: Vector) -> Step:
    size = _part(form, source)
    write = form.target(to, form.type)
    part_type = f"b{8 * size}"
    parts = [form.source(item, part_type) for item in source.items]
    kind, count = UNSIGNED[size], len(parts)
    if form.type == "b128":

        def wide(warp: WarpState) -> None:
            write(warp, _columns(warp, parts, kind).view(np.uint64))

        return wide
    whole = UNSIGNED[size * count]
    if count == 2:
        low, high = parts

        def join(first: Lanes, second: Lanes) -> Lanes:
            packed = np.empty(2 * first.size, kind)
            packed[::2] = first
            packed[1::2] = second
            return packed.view(whole)

        def pair(warp: WarpState) -> None:
            write(warp, join(low(warp), high(warp)))

        return form.elementwise(pair, join, [part_type] * 2, [to], list(source.items))
    return lambda warp: write(warp, _columns(warp, parts, kind).view(whole)[:, 0])


def _columns(warp: WarpState, parts: list[Read], kind: type[np.generic]) -> Lanes:
    columns = np.empty((LANES, len(parts)), kind)
    for number, part in enumerate(parts):
        columns[:, number] = part(warp)
    return columns


def _unpack(form: Form, to: Vector, source: Operand) -> Step:
    size = _part(form, to)
    if form.type == "b128" and not isinstance(source, Register):
        raise form.error("a 128-bit source is a register or a vector")
    a = form.source(source, form.type)
    writes = [
        (form.target(item, f"b{8 * size}"), _slice(form.type, size, number))
        for number, item in enumerate(to.items)
        if item != Register("_")
    ]
    targets = [item for item in to.items if item != Register("_")]
    if len(writes) == 1:
        ((write, part),) = writes
        return form.elementwise(
            lambda warp: write(warp, part(a(warp))), part, [form.type], targets, [source]
        )

    def step(warp: WarpState) -> None:
        values = a(warp)
        for write, part in writes:
            write(warp, part(values))

    def divide(values: Lanes) -> tuple[Lanes, ...]:
        return tuple(part(values) for _, part in writes)

    return form.elementwise(step, divide, [form.type], targets, [source])


def _slice(type_: str, size: int, number: int) -> One:
    """The element of a vector, of lanes that need not be contiguous."""
    kind = UNSIGNED[size]
    if type_ == "b128":
        column, shift = divmod(8 * size * number, 64)
        if size == 8:
            return lambda values: values[:, column].copy()
        by = np.uint64(shift)
        return lambda values: (values[:, column] >> by).astype(kind)
    if number == 0:
        return lambda values: values.astype(kind)
    by = stored(type_)(8 * size * number)
    return lambda values: (values >> by).astype(kind)
