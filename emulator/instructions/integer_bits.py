"""Integer instructions about single bits (PTX ISA 9.7.1.14 to 9.7.1.24): popc, clz, bfe, dp4a, …

numpy shifts by the width of the type or more give what PTX wants: no bits, or only signs.
"""

from __future__ import annotations

import numpy as np

from schedgen.emulator.instructions.forms import BITS, Form, typed
from schedgen.emulator.machine.lanes import NUMPY, Lanes, Step, WarpState

NONE = np.uint32(0xFFFFFFFF)
"""What `bfind` and `fns` give where there is no such bit."""

_REVERSED = np.array([int(f"{byte:08b}"[::-1], 2) for byte in range(256)], np.uint8)


@typed("popc", "b32 b64")
def _population(form: Form) -> Step:
    return form.unary(lambda a: np.bitwise_count(a).astype(np.uint32), "u32", form.type)


@typed("clz", "b32 b64")
def _leading_zeros(form: Form) -> Step:
    width = np.uint32(BITS[form.type])
    return form.unary(lambda a: width - _length(a), "u32", form.type)


@typed("bfind", "u32 s32 u64 s64")
def _find_bit(form: Form) -> Step:
    width = BITS[form.type]
    shift = form.flag("shiftamt")

    def compute(a: Lanes) -> Lanes:
        magnitude = np.where(a < 0, ~a, a) if a.dtype.kind == "i" else a
        length = _length(magnitude.view(f"u{a.itemsize}"))
        position = width - length if shift else length - np.uint32(1)
        return np.where(length == 0, NONE, position)

    return form.unary(compute, "u32", form.type)


def _length(a: Lanes) -> Lanes:
    """Bits up to the highest that is set, of unsigned lanes; uint32."""
    distance = 1
    while distance < 8 * a.itemsize:
        a = a | a >> distance
        distance *= 2
    return np.bitwise_count(a).astype(np.uint32)


@typed("fns", "b32")
def _find_nth(form: Form) -> Step:
    def find(mask: int, base: int, offset: int) -> int:
        step = 1 if offset >= 0 else -1
        end = 32 if step > 0 else -1
        positions = [at for at in range(base, end, step) if mask >> at & 1]
        if offset == 0:
            return base if positions[:1] == [base] else 0xFFFFFFFF
        return positions[abs(offset) - 1] if abs(offset) <= len(positions) else 0xFFFFFFFF

    def compute(mask: Lanes, base: Lanes, offset: Lanes) -> Lanes:
        lanes = zip(mask.tolist(), base.tolist(), offset.tolist(), strict=True)
        return np.array([find(m, b & 31, o) for m, b, o in lanes], np.uint32)

    return form.ternary(compute, "b32", "b32", "u32", "s32")


@typed("brev", "b32 b64")
def _reverse(form: Form) -> Step:
    def compute(a: Lanes) -> Lanes:
        octets = np.ascontiguousarray(a).view(np.uint8).reshape(len(a), -1)
        return np.ascontiguousarray(_REVERSED[octets[:, ::-1]]).view(a.dtype)[:, 0]

    return form.unary(compute)


@typed("bfe", "u32 s32 u64 s64")
def _extract(form: Form) -> Step:
    seen = NUMPY[form.type]
    width = BITS[form.type]
    signed = form.type[0] == "s"

    def compute(a: Lanes, start: Lanes, length: Lanes) -> Lanes:
        field = a >> (start & 0xFF).astype(seen)
        # The upper bits of the field are pushed out to the left; what comes back is extended.
        unused = np.maximum(width - (length & 0xFF).astype(np.int64), 0).astype(seen)
        if signed:
            return field << unused >> unused
        return np.where(unused == width, 0, field << unused >> unused)

    return form.ternary(compute, form.type, form.type, "u32", "u32")


@typed("bfi", "b32 b64")
def _insert(form: Form) -> Step:
    seen = NUMPY[form.type]
    one: Lanes = np.ones(1, seen)
    form.finish(5)
    write = form.target(form.operands[0], form.type)
    a, b = (form.source(operand, form.type) for operand in form.operands[1:3])
    start, length = (form.source(operand, "u32") for operand in form.operands[3:])

    def step(warp: WarpState) -> None:
        shift = (start(warp) & 0xFF).astype(seen)
        mask = ((one << (length(warp) & 0xFF).astype(seen)) - one) << shift
        write(warp, (b(warp) & ~mask) | (a(warp) << shift & mask))

    return step


@typed("szext", "u32 s32")
def _extend(form: Form) -> Step:
    clamp = form.choose("clamp", "wrap") == "clamp"

    def compute(a: Lanes, count: Lanes) -> Lanes:
        bits = count & 31
        mask = NONE << bits
        if clamp:
            mask = np.where(count >= 32, 0, mask).astype(np.uint32)
        if form.type == "u32":
            return a & ~mask
        negative = (a >> (bits - 1 & 31) & 1).astype(np.bool_) & (bits != 0)
        return np.where(negative, a | mask, a & ~mask)

    return form.binary(compute, "u32")


@typed("bmsk", "b32")
def _mask(form: Form) -> Step:
    clamp = form.choose("clamp", "wrap") == "clamp"

    def compute(start: Lanes, length: Lanes) -> Lanes:
        a, b = start & 31, length & 31
        low = NONE << a
        above = np.where(a + b >= 32, 0, NONE << a + b)
        if clamp:
            low = np.where(start >= 32, 0, low)
            above = np.where((start >= 32) | (length >= 32), 0, above)
        return (low & ~above).astype(np.uint32)

    return form.binary(compute)


@typed("dp4a dp2a", "u32 s32")
def _dot(form: Form) -> Step:
    """Four bytes by four, or two halves by two of four bytes; ``type`` is that of ``b``."""
    a_type = form.choose("u32", "s32", default=form.type)
    octets = {"u32": np.uint8, "s32": np.int8}[form.type]
    if form.where.opcode == "dp4a":
        a_seen, first = {"u32": np.uint8, "s32": np.int8}[a_type], 0
    else:
        a_seen = {"u32": np.uint16, "s32": np.int16}[a_type]
        first = 2 if form.choose("lo", "hi") == "hi" else 0

    def compute(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        left = np.ascontiguousarray(a).view(a_seen).reshape(len(a), -1).astype(np.int64)
        right = np.ascontiguousarray(b).view(octets).reshape(len(b), 4)
        right = right[:, first : first + left.shape[1]]
        return ((left * right).sum(axis=1) + c).astype(np.uint32)

    return form.ternary(compute, "u32")
