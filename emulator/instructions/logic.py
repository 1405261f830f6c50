"""Logic and shifts (PTX ISA 9.7.8) and byte permutation (9.7.9.7)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from schedgen.emulator.instructions.forms import BITS, Form, Three, Two, typed, untyped
from schedgen.emulator.machine.lanes import NUMPY, Lanes, Step, WarpState
from schedgen.emulator.ptx.tree import Immediate, Pair

_ALL = np.uint32(0xFFFFFFFF)


@typed("and or xor", "pred b16 b32 b64")
def _bitwise(form: Form) -> Step:
    operation = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
    return form.binary(operation[form.where.opcode])


@typed("not", "pred b16 b32 b64")
def _not(form: Form) -> Step:
    return form.unary(np.invert)


@typed("cnot", "b16 b32 b64")
def _logical_not(form: Form) -> Step:
    seen = NUMPY[form.type]
    return form.unary(lambda a: (a == 0).astype(seen))


@typed("shl", "b16 b32 b64")
@typed("shr", "b16 b32 b64 u16 u32 u64 s16 s32 s64")
def _shift(form: Form) -> Step:
    """numpy shifts by the width or more as PTX does: all bits leave, signs fill."""
    shift = np.left_shift if form.where.opcode == "shl" else np.right_shift
    seen = NUMPY[form.type]
    amount = form.operands[2]
    if isinstance(amount, Immediate) and not isinstance(amount.value, float):
        by = seen(min(amount.value & 0xFFFFFFFF, BITS[form.type]))
        form.finish(3)
        write = form.target(form.operands[0], form.type)
        a = form.source(form.operands[1], form.type)

        def compute(value: Lanes) -> Lanes:
            return shift(value, by)

        return form.elementwise(lambda warp: write(warp, compute(a(warp))), compute, [form.type])
    if BITS[form.type] == 32 and seen is np.uint32:
        return form.binary(shift, form.type, form.type, "u32")
    width = np.uint32(BITS[form.type])
    return form.binary(
        lambda a, count: shift(a, np.minimum(count, width).astype(seen)),
        form.type,
        form.type,
        "u32",
    )


@typed("shf", "b32")
def _funnel(form: Form) -> Step:
    left = form.choose("l", "r") == "l"
    clamp = form.choose("clamp", "wrap") == "clamp"
    width = np.uint32(32)

    def compute(a: Lanes, b: Lanes, count: Lanes) -> Lanes:
        by = np.minimum(count, width) if clamp else count & np.uint32(31)
        return b << by | a >> width - by if left else b << width - by | a >> by

    return form.ternary(compute)


@untyped("lop3")
def _three(form: Form) -> Step:
    """``lop3.b32 d, a, b, c, table`` or ``lop3.or.b32 d|p, a, b, c, table, q``."""
    form.choose("b32")
    joined = form.choose("or", "and", default="")
    form.finish(6 if joined else 5)
    compute = three_inputs(_table(form))
    a, b, c = (form.source(operand, "b32") for operand in form.operands[1:4])
    if not joined:
        write = form.target(form.operands[0], "b32")
        return form.elementwise(
            lambda warp: write(warp, compute(a(warp), b(warp), c(warp))), compute, ["b32"] * 3
        )

    both = form.operands[0]
    if not isinstance(both, Pair):
        raise form.error(f"destinations d|p are needed, not {both}")
    write, put = form.target(both.first, "b32"), form.target(both.second, "pred")
    q = form.source(form.operands[5], "pred")
    join = np.logical_or if joined == "or" else np.logical_and

    def step(warp: WarpState) -> None:
        result = compute(a(warp), b(warp), c(warp))
        predicate = join(result != 0, q(warp))
        write(warp, result)
        put(warp, predicate)

    return step


def _table(form: Form) -> int:
    operand = form.operands[4]
    if not isinstance(operand, Immediate) or operand.value not in range(256):
        raise form.error(f"the table must be a constant from 0 to 255, not {operand}")
    return int(operand.value)


_TWO: Mapping[int, Two] = {
    0x0: lambda b, _: np.zeros_like(b),
    0x1: lambda b, c: ~(b | c),
    0x2: lambda b, c: ~b & c,
    0x3: lambda b, _: ~b,
    0x4: lambda b, c: b & ~c,
    0x5: lambda _, c: ~c,
    0x6: lambda b, c: b ^ c,
    0x7: lambda b, c: ~(b & c),
    0x8: lambda b, c: b & c,
    0x9: lambda b, c: ~(b ^ c),
    0xA: lambda _, c: c,
    0xB: lambda b, c: ~b | c,
    0xC: lambda b, _: b,
    0xD: lambda b, c: b | ~c,
    0xE: lambda b, c: b | c,
    0xF: lambda b, _: np.full_like(b, _ALL),
}
"""Truth table -> function of two inputs; bit 2b + c of the table is the result."""


def three_inputs(table: int) -> Three:
    """The function of a truth table; bit 4a + 2b + c of it is the result (PTX ISA 9.7.8.6)."""
    # Where a bit of `a` is set, the result is that of the table's upper half, else of its lower.
    lower, change = table & 0xF, table & 0xF ^ table >> 4
    clear, toggle = _TWO[lower], _TWO[change]
    if change == 0x0:
        return lambda _, b, c: clear(b, c)
    if change == 0xF and lower == 0x0:
        return lambda a, _b, _c: a
    if change == 0xF:
        return lambda a, b, c: clear(b, c) ^ a
    if lower == 0x0:
        return lambda a, b, c: toggle(b, c) & a
    return lambda a, b, c: toggle(b, c) & a ^ clear(b, c)


_MODES: Mapping[str, tuple[int, int, int, int]] = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}
"""Mode -> what the generic form would have as selector for each value of c[1:0]."""


@typed("prmt", "b32")
def _permute(form: Form) -> Step:
    mode = form.choose(*_MODES, default="")
    control = form.operands[3]
    if isinstance(control, Immediate) and not isinstance(control.value, float):
        selector = _MODES[mode][control.value & 3] if mode else control.value
        form.finish(4)
        write = form.target(form.operands[0], "b32")
        a, b = (form.source(operand, "b32") for operand in form.operands[1:3])
        permute = fixed_permutation(selector)
        return form.elementwise(
            lambda warp: write(warp, permute(a(warp), b(warp))), permute, ["b32"] * 2
        )

    codes = np.array(_MODES[mode], np.uint32) if mode else None

    def compute(a: Lanes, b: Lanes, c: Lanes) -> Lanes:
        selectors = c if codes is None else codes[c & 3]
        nibbles = selectors[:, None] >> np.array([0, 4, 8, 12], np.uint32) & np.uint32(0xF)
        octets = np.take_along_axis(_octets(a, b), (nibbles & 7).astype(np.intp), axis=1)
        return _with_signs(octets, np.where(nibbles & 8, 0xFF, 0).astype(np.uint8))

    return form.ternary(compute)


def fixed_permutation(selector: int) -> Two:
    """The bytes that a constant chooses, moved together where they go by the same distance."""
    parts: dict[tuple[int, bool, int], int] = {}
    for at in range(4):
        nibble = selector >> 4 * at & 0xF
        operand, octet = divmod(nibble & 7, 4)
        sign = bool(nibble & 8)
        shift = 24 - 8 * octet if sign else 8 * (at - octet)  # to the left
        key = operand, sign, shift
        parts[key] = parts.get(key, 0) | 0xFF << 8 * at
    moves = [_part(*key, mask) for key, mask in parts.items()]

    def compute(a: Lanes, b: Lanes) -> Lanes:
        result = moves[0](a, b)
        for move in moves[1:]:
            result = result | move(a, b)
        return result

    return compute


def _part(operand: int, sign: bool, shift: int, mask: int) -> Two:
    """Shifts one of two words, or fills it with a sign, and keeps the bytes of a mask."""
    by, kept = np.uint32(abs(shift)), np.uint32(mask)
    direction = np.left_shift if shift >= 0 else np.right_shift
    last = np.int32(31)

    def part(*words: Lanes) -> Lanes:
        word = direction(words[operand], by) if shift else words[operand]
        if sign:
            word = np.right_shift(word.view(np.int32), last).view(np.uint32)
        return word & kept

    return part


def _octets(a: Lanes, b: Lanes) -> Lanes:
    """(32, 8) bytes of ``b:a``, the lowest first."""
    words = np.empty((len(a), 2), np.uint32)
    words[:, 0], words[:, 1] = a, b
    return words.view(np.uint8)


def _with_signs(octets: Lanes, signs: Lanes) -> Lanes:
    """Bytes replaced by eight copies of their sign where ``signs`` is 0xFF; as words."""
    copies = (octets.view(np.int8) >> 7).view(np.uint8)
    return np.ascontiguousarray(np.where(signs, copies, octets)).view(np.uint32)[:, 0]
