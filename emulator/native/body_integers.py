"""Integers: arithmetic, logic, shifts, comparisons, and how registers are put together of parts."""

from __future__ import annotations

from schedgen.emulator.native.body import BITS, Body, binary, cast, compared

_INTEGERS = ("i16", "i32", "i64")


def integers() -> dict[str, Body]:
    """Those without a number in their names."""
    found: dict[str, Body] = {"not.pred": Body("i8", ("i8",), ("%r = xor <i8> %x0, splat (i8 1)",))}
    for type_ in ("i8", *_INTEGERS):
        same = f"%r = or <{type_}> %x0, zeroinitializer"
        found[f"copy.{type_}"] = Body(type_, (type_,), (same,))
        found[f"put.{type_}"] = _put(type_)
        for word in ("and", "or", "xor"):
            found[f"{word}.{type_}"] = binary(type_, word)
    for type_ in _INTEGERS:
        found |= _whole(type_)
    for at, narrow in enumerate(_INTEGERS):
        for wide in _INTEGERS[at + 1 :]:
            found[f"zext.{narrow}.{wide}"] = cast(wide, narrow, "zext")
            found[f"sext.{narrow}.{wide}"] = cast(wide, narrow, "sext")
            found[f"trunc.{wide}.{narrow}"] = cast(narrow, wide, "trunc")
    for half, whole in (("i16", "i32"), ("i32", "i64")):
        found[f"pack.{half}"] = _packed(half, whole)
        found[f"upper.{whole}"] = _upper(half, whole)
        for sign, extend in (("s", "sext"), ("u", "zext")):
            found[f"wide.{sign}{half[1:]}"] = _wide(half, whole, extend, False)
            found[f"high.{sign}{half[1:]}"] = _wide(half, whole, extend, True)
    return found


def _whole(type_: str) -> dict[str, Body]:
    """Integer arithmetic, comparisons and shifts of one type."""
    found: dict[str, Body] = {}
    bits = type_[1:]
    for word in ("add", "sub", "mul"):
        found[f"{word}.{type_}"] = binary(type_, word)
    for sign in "su":
        for operator in ("lt", "le", "gt", "ge"):
            found[f"{operator}.{sign}{bits}"] = compared(type_, sign + operator)
        for word in ("min", "max"):
            name = f"@llvm.{sign}{word}.<{type_}>"
            call = f"%r = call <{type_}> {name}(<{type_}> %x0, <{type_}> %x1)"
            found[f"{word}.{sign}{bits}"] = Body(type_, (type_, type_), (call,))
    for operator in ("eq", "ne"):
        found[f"{operator}.{type_}"] = compared(type_, operator)
    found[f"not.{type_}"] = Body(type_, (type_,), (f"%r = xor <{type_}> %x0, splat ({type_} -1)",))
    found[f"neg.{type_}"] = Body(type_, (type_,), (f"%r = sub <{type_}> zeroinitializer, %x0",))
    lines = f"%p = mul <{type_}> %x0, %x1", f"%r = add <{type_}> %p, %x2"
    found[f"mad.{type_}"] = Body(type_, (type_,) * 3, lines)
    found[f"selp.{type_}"] = _chosen(type_)
    for word, operation in (("shl", "shl"), ("shru", "lshr"), ("shrs", "ashr")):
        found[f"{word}.{type_}"] = _shift(type_, operation)
    return found


def _shift(type_: str, operation: str) -> Body:
    """By the width or more: no bits are left, or only signs."""
    bits = BITS[type_]
    wide = f"%by = zext <i32> %x1 to <{type_}>"
    if bits == 32:
        wide = "%by = add <i32> %x1, zeroinitializer"
    elif bits < 32:
        wide = f"%by = trunc <i32> %least to <{type_}>"
    last = bits - 1 if operation == "ashr" else bits
    lines = [f"%least = call <i32> @llvm.umin.<i32>(<i32> %x1, <i32> splat (i32 {last}))", wide]
    if operation == "ashr":
        by = "%least" if bits == 32 else "%by"
        if bits == 64:
            lines[1] = "%by = zext <i32> %least to <i64>"
        return Body(type_, (type_, "i32"), (*lines, f"%r = ashr <{type_}> %x0, {by}"))
    return Body(
        type_,
        (type_, "i32"),
        (
            *lines,
            f"%inside = icmp ult <i32> %x1, splat (i32 {bits})",
            f"%moved = {operation} <{type_}> %x0, %by",
            f"%r = select <i1> %inside, <{type_}> %moved, <{type_}> zeroinitializer",
        ),
    )


def _chosen(type_: str) -> Body:
    return Body(
        type_,
        (type_, type_, "i8"),
        (
            "%holds = icmp ne <i8> %x2, zeroinitializer",
            f"%r = select <i1> %holds, <{type_}> %x0, <{type_}> %x1",
        ),
    )


def _packed(half: str, whole: str) -> Body:
    by = BITS[half]
    return Body(
        whole,
        (half, half),
        (
            f"%low = zext <{half}> %x0 to <{whole}>",
            f"%wide = zext <{half}> %x1 to <{whole}>",
            f"%high = shl <{whole}> %wide, splat ({whole} {by})",
            f"%r = or <{whole}> %low, %high",
        ),
    )


def _upper(half: str, whole: str) -> Body:
    return Body(
        half,
        (whole,),
        (
            f"%high = lshr <{whole}> %x0, splat ({whole} {BITS[half]})",
            f"%r = trunc <{whole}> %high to <{half}>",
        ),
    )


def _wide(half: str, whole: str, extend: str, upper: bool) -> Body:
    """A product of twice the width, or its upper half."""
    lines = (
        f"%a = {extend} <{half}> %x0 to <{whole}>",
        f"%b = {extend} <{half}> %x1 to <{whole}>",
        f"%{'p' if upper else 'r'} = mul <{whole}> %a, %b",
    )
    if not upper:
        return Body(whole, (half, half), lines)
    high = f"%high = lshr <{whole}> %p, splat ({whole} {BITS[half]})"
    return Body(half, (half, half), (*lines, high, f"%r = trunc <{whole}> %high to <{half}>"))


def _put(type_: str) -> Body:
    """Some lanes of the first source, the others of the third."""
    return Body(
        type_,
        (type_, "i8", type_),
        (
            "%holds = icmp ne <i8> %x1, zeroinitializer",
            f"%r = select <i1> %holds, <{type_}> %x0, <{type_}> %x2",
        ),
    )


def table(bits: int) -> Body:
    """lop3: the function of a truth table."""
    terms: list[str] = []
    lines: list[str] = []
    for n in range(3):
        lines.append(f"%not{n} = xor <i32> %x{n}, splat (i32 -1)")
    for row in range(8):
        if bits >> row & 1:
            a, b, c = (f"%{'x' if row >> 2 - n & 1 else 'not'}{n}" for n in range(3))
            lines += [f"%u{row} = and <i32> {a}, {b}", f"%w{row} = and <i32> %u{row}, {c}"]
            terms.append(f"%w{row}")
    total = "zeroinitializer"
    for number, term in enumerate(terms):
        lines.append(f"%t{number} = or <i32> {term}, {total}")
        total = f"%t{number}"
    lines.append(f"%r = or <i32> {total}, zeroinitializer")
    return Body("i32", ("i32",) * 3, tuple(lines))


def permuted(selector: int) -> Body:
    """prmt with a constant: each byte of the result is one of eight, or eight copies of a sign."""
    lines: list[str] = []
    total = "zeroinitializer"
    for at in range(4):
        nibble = selector >> 4 * at & 0xF
        operand, octet = divmod(nibble & 7, 4)
        up = 24 - 8 * octet
        lines.append(f"%up{at} = shl <i32> %x{operand}, splat (i32 {up})")
        down = "ashr" if nibble & 8 else "lshr"
        by = 31 if nibble & 8 else 24
        lines += [
            f"%low{at} = {down} <i32> %up{at}, splat (i32 {by})",
            f"%only{at} = and <i32> %low{at}, splat (i32 255)",
            f"%put{at} = shl <i32> %only{at}, splat (i32 {8 * at})",
            f"%t{at} = or <i32> {total}, %put{at}",
        ]
        total = f"%t{at}"
    return Body("i32", ("i32", "i32"), (*lines, "%r = or <i32> %t3, zeroinitializer"))
