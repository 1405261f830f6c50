"""Micro-kernels about tensor cores and what feeds them: wgmma, mma, ldmatrix, stmatrix, exchange.

Operands of wgmma are integers, so that sums are exact in any order. All of shared memory is full of
them: an address that is wrong gives another sum.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from micro.launch import EXACT, Array, Micro, blank, bring, filled, keep

from schedgen.emulator.layouts import fragments
from schedgen.emulator.layouts.descriptors import MatrixDescriptor, addresses
from schedgen.emulator.layouts.formats import from_float32, to_float32
from schedgen.emulator.layouts.swizzle import Swizzle

IMAGE = 34 * 1024
B_AT = 16 * 1024
WORDS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e5m2": 8, "s8": 8, "u8": 8}
_CODES = {Swizzle.NONE: 0, Swizzle.B128: 1, Swizzle.B64: 2, Swizzle.B32: 3}
FENCE, COMMIT = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;"
WAIT = "wgmma.wait_group.sync.aligned 0;"


def coded(values: Array, format_: str) -> Array:
    """Codes of numbers in an operand's format."""
    if format_ in ("s8", "u8"):
        return values.astype(np.int8).view(np.uint8)
    return from_float32(values.astype(np.float32), format_)


def drawn(random: np.random.Generator, format_: str, count: int, what: str) -> Array:
    """Codes of small integers, of normal numbers, or of numbers of all sizes ("wide")."""
    if what == "wide":
        words = random.integers(0, 1 << WORDS[format_], count, np.uint64)
        words = words.astype(f"u{WORDS[format_] // 8}")
        if format_ in ("bf16", "tf32"):  # so that sums are finite
            exponent = random.integers(127 - 20, 127 + 20, count).astype(words.dtype)
            shift = words.dtype.type(WORDS[format_] - 9)
            mantissa = words & words.dtype.type((1 << int(shift)) - 1)
            sign = words & words.dtype.type(1 << (WORDS[format_] - 1))
            return sign | exponent << shift | mantissa
        top = words.dtype.type({"f16": 0x7C00, "e5m2": 0x7C, "e4m3": 0x7F}[format_])
        return np.where((words & top) == top, words & ~top, words)
    low = 0 if format_ == "u8" else -3
    integers = what == "integers"
    values: Array = random.integers(low, 4, count) if integers else random.standard_normal(count)
    return coded(values, format_)


def image(formats: tuple[str, str], seed: int, what: str) -> Array:
    """The contents of shared memory: A's format in the first half, B's in the second."""
    random = np.random.default_rng(seed)
    halves: list[Array] = []
    for format_, size in zip(formats, (B_AT, IMAGE - B_AT), strict=True):
        count = 8 * size // WORDS[format_]
        halves.append(drawn(random, format_, count, what).view(np.uint8).reshape(-1))
    return filled(np.concatenate(halves))


def descriptor(
    register: str, at: int, leading: int, stride: int, mode: Swizzle, base_offset: int = 0
) -> str:
    """Code for a descriptor of what lies ``at`` bytes into shared memory."""
    rest = leading >> 4 << 16 | stride >> 4 << 32 | base_offset << 49 | _CODES[mode] << 62
    return f"""add.u32 %r20, %r0, {at}; and.b32 %r20, %r20, 0x3FFFF; shr.u32 %r20, %r20, 4;
cvt.u64.u32 {register}, %r20; or.b64 {register}, {register}, {rest - (rest >> 63 << 64)};"""


def wgmma(
    name: str, about: str, types: tuple[str, str, str] = ("f32", "f16", "f16"), n: int = 64, *,
    mode: Swizzle = Swizzle.B128, mode_b: Swizzle | None = None,
    strides: tuple[int, int] | None = None, strides_b: tuple[int, int] | None = None,
    transposed: tuple[int, int] = (0, 0), steps: int = 1,
    options: str | None = None, registers: bool = False, at: int = 0, base_offset: int = 0,
    what: str = "integers", bounded: bool = False,
) -> Micro:  # fmt: skip
    """A chain of ``steps`` products along the row of a swizzle atom, 32 bytes each."""
    d, a, b = types
    k = 256 // WORDS[a]
    number = n // 4 if d == "f16" else n // 2
    held = [f"%r{100 + i}" for i in range(number)]
    given = image((a, b), len(name), what)
    own = strides or ((128, 256) if mode is Swizzle.NONE else (1, 8 * mode.value.span))
    other = strides_b or (own if mode_b is None else (1, 8 * mode_b.value.span))
    tail = options if options is not None else _options(a, b, transposed, registers)
    left = "{%r90, %r91, %r92, %r93}" if registers else "%rd10"
    fetch = "".join(f"ld.shared.b32 %r{90 + i}, [%r21+{4 * i}];" for i in range(4))
    products = "".join(
        f"""wgmma.mma_async.sync.aligned.m64n{n}k{k}.{d}.{a}.{b} {{{", ".join(held)}}}, {left}, \
%rd11, {"%p2" if step == 0 else "%p3"}{tail};
add.s64 %rd10, %rd10, 2; add.s64 %rd11, %rd11, 2;
"""
        for step in range(steps)
    )
    text = f"""{bring(IMAGE)} setp.ne.u32 %p2, %r2, %r2; setp.eq.u32 %p3, %r2, %r2;
shl.b32 %r21, %r2, 4; add.u32 %r21, %r21, %r0; {fetch if registers else ""}
{descriptor("%rd10", at, *own, mode, base_offset)}
{descriptor("%rd11", B_AT + at, *other, mode_b or mode, base_offset)}
{FENCE} {products} {COMMIT} {WAIT} {keep(held)}"""
    rule, kind = EXACT, "u4"
    allowed: Array | float = 0.0
    if bounded:
        assert not at
        kind, allowed = "f4", steps * 2.0**-23 * magnitudes(given, a, n, k * steps)
        rule = "2^-23 of the sum of magnitudes, for each instruction of the chain"
    return Micro(
        name, about, text, {"data": given}, {"out": blank((number * 128,))}, rule=rule, kind=kind,
        allowed=allowed,
    )  # fmt: skip


def magnitudes(given: Array, format_: str, n: int, k: int) -> Array:
    """Sums of |a| |b|, as (register, thread), of K-major operands with 128-byte swizzle."""
    parts: list[Array] = []
    for start, rows in ((0, 64), (B_AT, n)):
        matrix = MatrixDescriptor(start, 16, 1024, Swizzle.B128)
        places = addresses(matrix, rows, k, WORDS[format_], k_major=True)
        codes = given.view(f"u{WORDS[format_] // 8}")[places // (WORDS[format_] // 8)]
        parts.append(np.abs(to_float32(codes, format_).astype(np.float64)))
    order = fragments.from_accumulator(np.arange(n // 2 * 128, dtype=np.uint32).reshape(-1, 128))
    found = np.zeros(n // 2 * 128)
    found[order] = parts[0] @ parts[1].T
    return found


def _options(a: str, b: str, transposed: tuple[int, int], registers: bool) -> str:
    if a in ("s8", "u8"):
        return ""
    if WORDS[a] != 16:
        return ", 1, 1"
    return f", 1, 1, {transposed[1]}" if registers else f", 1, 1, {transposed[0]}, {transposed[1]}"


def products() -> Iterator[Micro]:
    modes = (Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128)
    for mode in modes:
        name = mode.name.lower()
        yield wgmma(f"wgmma_k_major_{name}", f"descriptors, K-major, {mode.name}", mode=mode)
        # Rows of 64 and 128 elements: strides of both dimensions are used.
        span = 8 * mode.value.span
        strides = (8192, 512) if mode is Swizzle.NONE else (2 * span, span)
        about = f"descriptors, M- and N-major, {mode.name}"
        yield wgmma(f"wgmma_mn_major_{name}", about, n=128, mode=mode, strides=strides,
                    transposed=(1, 1))  # fmt: skip
    yield wgmma("wgmma_a_major_m_b_major_k", "one operand transposed", ("f32", "bf16", "bf16"),
                strides=(2048, 1024), strides_b=(1, 1024), transposed=(1, 0))  # fmt: skip
    yield wgmma("wgmma_two_swizzles", "another swizzle for B", mode=Swizzle.B128,
                mode_b=Swizzle.B32)  # fmt: skip
    for types in (
        ("f32", "bf16", "bf16"), ("f32", "tf32", "tf32"), ("f32", "e4m3", "e4m3"),
        ("f32", "e5m2", "e4m3"), ("f16", "f16", "f16"), ("f16", "e4m3", "e5m2"),
        ("s32", "s8", "s8"), ("s32", "u8", "s8"),
    ):  # fmt: skip
        yield wgmma(f"wgmma_{'_'.join(types)}", "types, accumulator fragments", types)
    for n in (8, 24, 256):
        # 256 rows of B have no room in the image: they overlap.
        strides_b = (1, 512) if n == 256 else None
        yield wgmma(f"wgmma_n{n}", f"N = {n}", n=n, strides_b=strides_b)
    for format_ in ("f16", "bf16", "tf32", "e4m3", "s8"):
        d = "s32" if format_ == "s8" else "f32"
        yield wgmma(f"wgmma_a_in_registers_{format_}", "fragments of A", (d, format_, format_),
                    registers=True)  # fmt: skip
    yield wgmma("wgmma_b_transposed_a_in_registers", "fragments of A, N-major B", n=64,
                strides=(2048, 1024), transposed=(0, 1), registers=True)  # fmt: skip
    yield wgmma("wgmma_chain", "a descriptor that steps through a swizzle atom", steps=4)
    yield wgmma(
        "wgmma_chain_tf32", "the same for 32-bit elements", ("f32", "tf32", "tf32"), steps=4
    )
    yield wgmma("wgmma_negated", "imm-scale-a of -1", options=", -1, 1, 0, 0", steps=2)
    yield wgmma("wgmma_base_offset", "a pattern that begins elsewhere: the base offset", at=384,
                base_offset=3)  # fmt: skip
    yield wgmma("wgmma_no_base_offset", "the same without: the XOR takes bits of the address",
                at=384)  # fmt: skip


def sums() -> Iterator[Micro]:
    """Sums that are rounded: in float32 within a bound, as an H200 adds them bit by bit."""
    for format_ in ("f16", "bf16", "tf32", "e4m3"):
        types = ("f32", format_, format_)
        if format_ != "e4m3":  # whose sums are far from those of float32
            yield wgmma(f"wgmma_rounding_{format_}", "sums of real numbers in float32", types,
                        steps=4, what="normal", bounded=True)  # fmt: skip
        yield wgmma(f"wgmma_sums_{format_}", "sums of real numbers as an H200 adds them", types,
                    steps=4, what="normal")  # fmt: skip
        yield wgmma(f"wgmma_wide_{format_}", "numbers of all sizes as an H200 adds them", types,
                    steps=2, what="wide")  # fmt: skip
    for types in (("f32", "e5m2", "e5m2"), ("f32", "e4m3", "e5m2"), ("f16", "f16", "f16"),
                  ("f16", "e4m3", "e4m3")):  # fmt: skip
        name = "_".join(types)
        yield wgmma(f"wgmma_sums_{name}", "sums of real numbers as an H200 adds them", types,
                    steps=4, what="normal")  # fmt: skip
        yield wgmma(f"wgmma_wide_{name}", "numbers of all sizes as an H200 adds them", types,
                    steps=2, what="wide")  # fmt: skip


def matrices() -> Iterator[Micro]:
    """ldmatrix, stmatrix, movmatrix, mma.sync."""
    random = np.random.default_rng(4)
    data = filled(random.integers(0, 1 << 16, 2048, np.uint16))
    address = "shl.b32 %r20, %r2, 4; add.u32 %r20, %r20, %r0;"
    for number, more in ((1, ""), (2, ".trans"), (4, ""), (4, ".trans")):
        held = [f"%r{40 + i}" for i in range(number)]
        names = "{" + ", ".join(held) + "}"
        text = f"""{bring(4096, threads=32)} {address}
ldmatrix.sync.aligned.m8n8.x{number}{more}.shared.b16 {names}, [%r20]; {keep(held, threads=32)}"""
        yield Micro(f"ldmatrix_x{number}{more.replace('.', '_')}", "ldmatrix", text, {"data": data},
                    {"out": blank((32 * number,))}, threads=32)  # fmt: skip
        loads = "".join(f"ld.shared.b32 {r}, [%r20+{4 * i + 1024}];" for i, r in enumerate(held))
        text = f"""{bring(4096, threads=32)} {address} {loads} bar.sync 0;
stmatrix.sync.aligned.m8n8.x{number}{more}.shared.b16 [%r20], {names}; bar.sync 0;
ld.shared.b32 %r50, [%r20]; ld.shared.b32 %r51, [%r20+4]; ld.shared.b32 %r52, [%r20+8];
ld.shared.b32 %r53, [%r20+12]; {keep(["%r50", "%r51", "%r52", "%r53"], threads=32)}"""
        yield Micro(f"stmatrix_x{number}{more.replace('.', '_')}", "stmatrix", text, {"data": data},
                    {"out": blank((128,))}, threads=32)  # fmt: skip
    for types, shape in (
        ("f32.f16.f16.f32", "m16n8k16"), ("f32.bf16.bf16.f32", "m16n8k16"),
        ("f32.tf32.tf32.f32", "m16n8k8"), ("s32.s8.s8.s32", "m16n8k32"),
    ):  # fmt: skip
        format_ = types.split(".")[1]
        given = filled(
            coded(random.integers(-3, 4, 4096), format_).reshape(-1)[: 32768 // WORDS[format_]]
        )
        loads = "".join(f"ld.shared.b32 %r{40 + i}, [%r21+{4 * i}];" for i in range(6))
        text = f"""{bring(4096, threads=32)} mul.lo.u32 %r21, %r2, 24; add.u32 %r21, %r21, %r0;
{loads} mov.b32 %r50, 0; mov.b32 %r51, 0; mov.b32 %r52, 0; mov.b32 %r53, 0;
mma.sync.aligned.{shape}.row.col.{types} {{%r50, %r51, %r52, %r53}}, {{%r40, %r41, %r42, %r43}}, \
{{%r44, %r45}}, {{%r50, %r51, %r52, %r53}}; {keep(["%r50", "%r51", "%r52", "%r53"], threads=32)}"""
        yield Micro(f"mma_sync_{format_}", f"fragments of {shape}", text, {"data": given},
                    {"out": blank((128,))}, threads=32)  # fmt: skip


def exchange() -> Iterator[Micro]:
    """What lanes tell each other; vectors of atomics."""
    words: list[Any] = [
        "shfl.sync.up.b32 %r40, %r20, 3, 0, -1;", "shfl.sync.down.b32 %r40, %r20, 5, 31, -1;",
        "shfl.sync.bfly.b32 %r40, %r20, 9, 31, -1;", "shfl.sync.idx.b32 %r40, %r20, 7, 0x1C1F, -1;",
        "vote.sync.ballot.b32 %r40, %p2, -1;", "match.any.sync.b32 %r40, %r21, -1;",
        "redux.sync.add.u32 %r40, %r20, -1;", "redux.sync.min.s32 %r40, %r20, -1;",
        "elect.sync _|%p3, -1; selp.b32 %r40, 1, 0, %p3;",
        "activemask.b32 %r40;", "mov.u32 %r40, %laneid;", "mov.u32 %r40, %lanemask_lt;",
    ]  # fmt: skip
    text = "mul.lo.u32 %r20, %r2, 2654435761; shr.u32 %r21, %r20, 29; setp.lt.u32 %p2, %r21, 3;\n"
    kept: list[str] = []
    for n, word in enumerate(words):
        text += word.replace("%r40", f"%r{60 + n}") + "\n"
        kept.append(f"%r{60 + n}")
    yield Micro("lanes", "shuffles, votes, matches, reductions, elect",
                text + keep(kept, threads=32), outputs={"out": blank((32 * len(kept),))},
                threads=32)  # fmt: skip


def cases() -> Iterator[Micro]:
    """All of them."""
    yield from products()
    yield from sums()
    yield from matrices()
    yield from exchange()
