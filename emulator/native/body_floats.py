"""float32 values, alone and in pairs, and conversions from and to narrow types."""

from __future__ import annotations

from schedgen.emulator.native.body import LANES, NAN, Body, canonical, cast, compared


def floating() -> dict[str, Body]:
    """Bodies by name."""
    found: dict[str, Body] = {}
    for suffix, count in (("f32", LANES), ("f32x2", 2 * LANES)):
        for word in ("add", "sub", "mul"):
            found[f"{word}.{suffix}"] = _arithmetic(f"f{word}", count)
        found[f"fma.{suffix}"] = _fused(count)
    found["div.f32"] = _arithmetic("fdiv", LANES)
    for larger in (False, True):
        for keep in (False, True):
            word = ("max" if larger else "min") + (".NaN" if keep else "")
            found[f"{word}.f32"] = _extreme(larger, keep)
    for operator in ("oeq", "olt", "ole", "ogt", "oge", "one", "ueq", "une", "ult", "ule", "ugt",
                     "uge", "ord", "uno"):  # fmt: skip
        found[f"{operator}.f32"] = compared("float", operator)
    for word, mask, join in (("abs", 0x7FFFFFFF, "and"), ("neg", 0x80000000, "xor")):
        lines = (
            "%a = bitcast <float> %x0 to <i32>",
            f"%b = {join} <i32> %a, splat (i32 {mask - (1 << 32) if mask >> 31 else mask})",
            "%v = bitcast <i32> %b to <float>",
        )
        found[f"{word}.f32"] = Body("float", ("float",), (*lines, *canonical("float")))
    for sign, word in (("s", "sitofp"), ("u", "uitofp")):
        found[f"float.{sign}32"] = cast("float", "i32", word)
    up = ("%wide = zext <i16> %x0 to <i32>", "%r = shl <i32> %wide, splat (i32 16)")
    found["float.bf16"] = Body("i32", ("i16",), up)
    found["bf16x2"] = Body(
        "i32",
        ("float", "float"),
        (
            *_brain(0), *_brain(1),
            "%high = and <i32> %code0, splat (i32 -65536)",
            "%low = lshr <i32> %code1, splat (i32 16)",
            "%r = or <i32> %high, %low",
        ),
    )  # fmt: skip
    down = ("%low = lshr <i32> %code0, splat (i32 16)", "%r = trunc <i32> %low to <i16>")
    found["bf16"] = Body("i16", ("float",), (*_brain(0), *down))
    found["f16"] = Body("i16", ("float",), (*_half(0), "%r = or <i16> %code0, zeroinitializer"))
    found["f16x2"] = Body(
        "i32",
        ("float", "float"),
        (
            *_half(0), *_half(1),
            "%wide = zext <i16> %code0 to <i32>",
            "%high = shl <i32> %wide, splat (i32 16)",
            "%low = zext <i16> %code1 to <i32>",
            "%r = or <i32> %high, %low",
        ),
    )  # fmt: skip
    found["float.f16"] = Body(
        "float",
        ("i16",),
        (
            "%half = bitcast <i16> %x0 to <half>",
            "%v = fpext <half> %half to <float>",
            *canonical("float"),
        ),
    )
    return found


def _arithmetic(operation: str, count: int) -> Body:
    line = f"%v = {operation} <float> %x0, %x1"
    return Body("float", ("float", "float"), (line, *canonical("float")), count)


def _fused(count: int) -> Body:
    line = "%v = call <float> @llvm.fma.<float>(<float> %x0, <float> %x1, <float> %x2)"
    return Body("float", ("float",) * 3, (line, *canonical("float")), count)


def _extreme(larger: bool, keep_nan: bool) -> Body:
    """Of equal values the bits are joined: they differ in the signs of zeros alone."""
    compare, join = ("ogt", "and") if larger else ("olt", "or")
    lines = [
        f"%first = fcmp {compare} <float> %x0, %x1",
        "%one = select <i1> %first, <float> %x0, <float> %x1",
        "%same = fcmp oeq <float> %x0, %x1",
        "%a = bitcast <float> %x0 to <i32>",
        "%b = bitcast <float> %x1 to <i32>",
        f"%both = {join} <i32> %a, %b",
        "%zero = bitcast <i32> %both to <float>",
        "%two = select <i1> %same, <float> %zero, <float> %one",
    ]
    if keep_nan:
        lines += [
            "%some = fcmp uno <float> %x0, %x1",
            f"%none = bitcast <i32> splat (i32 {NAN['float']}) to <float>",
            "%r = select <i1> %some, <float> %none, <float> %two",
        ]
    else:  # a NaN in the second one leaves the first; one in the first has left the second
        lines += [
            "%gone = fcmp uno <float> %x1, %x1",
            "%v = select <i1> %gone, <float> %x0, <float> %two",
            *canonical("float"),
        ]
    return Body("float", ("float", "float"), tuple(lines))


def _brain(number: int) -> tuple[str, ...]:
    """Lines that give the code of a source in bf16, rounded, in the upper half of ``%code``."""
    n = number
    return (
        f"%raw{n} = bitcast <float> %x{n} to <i32>",
        f"%shifted{n} = lshr <i32> %raw{n}, splat (i32 16)",
        f"%odd{n} = and <i32> %shifted{n}, splat (i32 1)",
        f"%bias{n} = add <i32> %odd{n}, splat (i32 32767)",
        f"%rounded{n} = add <i32> %raw{n}, %bias{n}",
        f"%no{n} = fcmp uno <float> %x{n}, %x{n}",
        f"%code{n} = select <i1> %no{n}, <i32> splat (i32 {NAN['float']}), <i32> %rounded{n}",
    )


def _half(number: int) -> tuple[str, ...]:
    n = number
    return (
        f"%half{n} = fptrunc <float> %x{n} to <half>",
        f"%raw{n} = bitcast <half> %half{n} to <i16>",
        f"%no{n} = fcmp uno <float> %x{n}, %x{n}",
        f"%code{n} = select <i1> %no{n}, <i16> splat (i16 32767), <i16> %raw{n}",
    )
