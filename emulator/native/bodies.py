"""Functions over the 32 lanes of registers, in LLVM IR, eight lanes at a time.

A body is named by what it computes and the types, as ``add.i32``, and gets the addresses of the
lanes of its target and of up to three sources. Nothing here may round, or choose between zeros and
NaNs, in another way than the numpy functions of `emulator.instructions`: no flag lets LLVM do so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from schedgen.emulator.native.engine import Engine, loop

LANES = 32
_AT_ONCE = 8
NAN = {"float": 0x7FFFFFFF, "double": 0x7FFFFFFFFFFFFFFF}
"""The canonical NaN."""
_TINY = "0x3810000000000000"
"""2^-126, the smallest normal float32, as LLVM writes it."""
_BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "float": 32, "double": 64}


@dataclass(frozen=True)
class Body:
    """What is computed of some lanes: ``%x0`` and up are sources, ``%r`` is the result.

    Attributes:
        result, sources: LLVM types of one lane.
        lines: the computation; ``T`` stands for a vector of the type T, as ``<i32>``.
        count: lanes; 64 for pairs.
    """

    result: str
    sources: tuple[str, ...]
    lines: tuple[str, ...]
    count: int = LANES


def _binary(type_: str, operation: str) -> Body:
    return Body(type_, (type_, type_), (f"%r = {operation} <{type_}> %x0, %x1",))


def _canonical(type_: str, value: str = "%v") -> tuple[str, ...]:
    """Lines that give `%r`, a value with canonical NaNs."""
    whole = f"i{_BITS[type_]}"
    return (
        f"%nan = fcmp uno <{type_}> {value}, {value}",
        f"%bits = bitcast <{type_}> {value} to <{whole}>",
        f"%chosen = select <i1> %nan, <{whole}> splat ({whole} {NAN[type_]}), <{whole}> %bits",
        f"%r = bitcast <{whole}> %chosen to <{type_}>",
    )


def _arithmetic(operation: str, count: int) -> Body:
    line = f"%v = {operation} <float> %x0, %x1"
    return Body("float", ("float", "float"), (line, *_canonical("float")), count)


def _fused(count: int) -> Body:
    line = "%v = call <float> @llvm.fma.<float>(<float> %x0, <float> %x1, <float> %x2)"
    return Body("float", ("float",) * 3, (line, *_canonical("float")), count)


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
            *_canonical("float"),
        ]
    return Body("float", ("float", "float"), tuple(lines))


def _shift(type_: str, operation: str) -> Body:
    """By the width or more: no bits are left, or only signs."""
    bits = _BITS[type_]
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


def _compared(type_: str, operator: str) -> Body:
    word = "fcmp" if type_ in NAN else "icmp"
    return Body(
        "i8",
        (type_, type_),
        (f"%holds = {word} {operator} <{type_}> %x0, %x1", "%r = zext <i1> %holds to <i8>"),
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


def _cast(to: str, source: str, word: str) -> Body:
    return Body(to, (source,), (f"%r = {word} <{source}> %x0 to <{to}>",))


def _packed(half: str, whole: str) -> Body:
    by = _BITS[half]
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
            f"%high = lshr <{whole}> %x0, splat ({whole} {_BITS[half]})",
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
    high = f"%high = lshr <{whole}> %p, splat ({whole} {_BITS[half]})"
    return Body(half, (half, half), (*lines, high, f"%r = trunc <{whole}> %high to <{half}>"))


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


def _table(bits: int) -> Body:
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


def _permuted(selector: int) -> Body:
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


@cache
def bodies() -> dict[str, Body]:
    """All bodies but those with a number in their names (`body`)."""
    found: dict[str, Body] = {"not.pred": Body("i8", ("i8",), ("%r = xor <i8> %x0, splat (i8 1)",))}
    for type_ in ("i8", *_INTEGERS):
        same = f"%r = or <{type_}> %x0, zeroinitializer"
        found[f"copy.{type_}"] = Body(type_, (type_,), (same,))
        found[f"put.{type_}"] = _put(type_)
        for word in ("and", "or", "xor"):
            found[f"{word}.{type_}"] = _binary(type_, word)
    for type_ in _INTEGERS:
        found |= _whole(type_)
    for at, narrow in enumerate(_INTEGERS):
        for wide in _INTEGERS[at + 1 :]:
            found[f"zext.{narrow}.{wide}"] = _cast(wide, narrow, "zext")
            found[f"sext.{narrow}.{wide}"] = _cast(wide, narrow, "sext")
            found[f"trunc.{wide}.{narrow}"] = _cast(narrow, wide, "trunc")
    for half, whole in (("i16", "i32"), ("i32", "i64")):
        found[f"pack.{half}"] = _packed(half, whole)
        found[f"upper.{whole}"] = _upper(half, whole)
        for sign, extend in (("s", "sext"), ("u", "zext")):
            found[f"wide.{sign}{half[1:]}"] = _wide(half, whole, extend, False)
            found[f"high.{sign}{half[1:]}"] = _wide(half, whole, extend, True)
    return found | _floating()


_INTEGERS = ("i16", "i32", "i64")


def _whole(type_: str) -> dict[str, Body]:
    """Integer arithmetic, comparisons and shifts of one type."""
    found: dict[str, Body] = {}
    bits = type_[1:]
    for word in ("add", "sub", "mul"):
        found[f"{word}.{type_}"] = _binary(type_, word)
    for sign in "su":
        for operator in ("lt", "le", "gt", "ge"):
            found[f"{operator}.{sign}{bits}"] = _compared(type_, sign + operator)
        for word in ("min", "max"):
            name = f"@llvm.{sign}{word}.<{type_}>"
            call = f"%r = call <{type_}> {name}(<{type_}> %x0, <{type_}> %x1)"
            found[f"{word}.{sign}{bits}"] = Body(type_, (type_, type_), (call,))
    for operator in ("eq", "ne"):
        found[f"{operator}.{type_}"] = _compared(type_, operator)
    found[f"not.{type_}"] = Body(type_, (type_,), (f"%r = xor <{type_}> %x0, splat ({type_} -1)",))
    found[f"neg.{type_}"] = Body(type_, (type_,), (f"%r = sub <{type_}> zeroinitializer, %x0",))
    lines = f"%p = mul <{type_}> %x0, %x1", f"%r = add <{type_}> %p, %x2"
    found[f"mad.{type_}"] = Body(type_, (type_,) * 3, lines)
    found[f"selp.{type_}"] = _chosen(type_)
    for word, operation in (("shl", "shl"), ("shru", "lshr"), ("shrs", "ashr")):
        found[f"{word}.{type_}"] = _shift(type_, operation)
    return found


def _floating() -> dict[str, Body]:
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
        found[f"{operator}.f32"] = _compared("float", operator)
    for word, mask, join in (("abs", 0x7FFFFFFF, "and"), ("neg", 0x80000000, "xor")):
        lines = (
            "%a = bitcast <float> %x0 to <i32>",
            f"%b = {join} <i32> %a, splat (i32 {mask - (1 << 32) if mask >> 31 else mask})",
            "%v = bitcast <i32> %b to <float>",
        )
        found[f"{word}.f32"] = Body("float", ("float",), (*lines, *_canonical("float")))
    for sign, word in (("s", "sitofp"), ("u", "uitofp")):
        found[f"float.{sign}32"] = _cast("float", "i32", word)
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
            *_canonical("float"),
        ),
    )
    return found


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


LOOPS = {"exp2": np.exp2, "log2": np.log2, "tanh": np.tanh, "sin": np.sin, "cos": np.cos}
"""Functions of float64 values that are numpy's."""
_FUNCTIONS = ("rcp", "sqrt", "rsqrt", *LOOPS)


def body(name: str) -> Body | None:
    """The body of a name; None: it is one of `functions`."""
    word, _, number = name.partition(".")
    if word == "lop3":
        return _table(int(number))
    if word == "prmt":
        return _permuted(int(number))
    return None if word in _FUNCTIONS else bodies()[name]


def text(name: str) -> str:
    """The function of a name."""
    found = body(name)
    return _function(name) if found is None else _loop(name, found)


def _vectors(line: str) -> str:
    """A line with vectors in place of ``<i32>`` and its like."""
    for type_ in (*_BITS, "half", "i1"):
        line = line.replace(f".<{type_}>", f".v{_AT_ONCE}{_SHORT.get(type_, type_)}")
        line = line.replace(f"<{type_}>", f"<{_AT_ONCE} x {type_}>")
    return line


_SHORT = {"float": "f32", "double": "f64"}


def _loop(name: str, found: Body) -> str:
    lines = [f'define void @"{name}"(ptr %d, ptr %s0, ptr %s1, ptr %s2) {{', "br label %loop"]
    lines += ["loop:", "%i = phi i64 [0, %0], [%next, %loop]"]
    for n, type_ in enumerate(found.sources):
        lines += [
            f"%p{n} = getelementptr {type_}, ptr %s{n}, i64 %i",
            f"%x{n} = load <{_AT_ONCE} x {type_}>, ptr %p{n}, align 1",
        ]
    lines += map(_vectors, found.lines)
    lines += [
        f"%to = getelementptr {found.result}, ptr %d, i64 %i",
        f"store <{_AT_ONCE} x {found.result}> %r, ptr %to, align 1",
        f"%next = add i64 %i, {_AT_ONCE}",
        f"%more = icmp ult i64 %next, {found.count}",
        "br i1 %more, label %loop, label %end",
        "end:", "ret void", "}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def _function(name: str) -> str:
    """A function of float32 values, computed as float64 and rounded, as ``exp2.flush``: flushed
    before and after, or for ``exp2.result`` after alone."""
    word, _, flush = name.partition(".")
    x = ["%x0 = load <8 x float>, ptr %p0, align 1"]
    if flush == "flush":
        x = [
            "%f0 = load <8 x float>, ptr %p0, align 1",
            "%size0 = call <8 x float> @llvm.fabs.v8f32(<8 x float> %f0)",
            f"%normal0 = fcmp oge <8 x float> %size0, splat (float {_TINY})",
            "%keep0 = uitofp <8 x i1> %normal0 to <8 x float>",
            "%x0 = fmul <8 x float> %f0, %keep0",
        ]
    last = ["%r = bitcast <8 x i32> %chosen to <8 x float>"]
    if flush:
        last = [
            "%u = bitcast <8 x i32> %chosen to <8 x float>",
            "%size = call <8 x float> @llvm.fabs.v8f32(<8 x float> %u)",
            f"%normal = fcmp oge <8 x float> %size, splat (float {_TINY})",
            "%keep = uitofp <8 x i1> %normal to <8 x float>",
            "%w = fmul <8 x float> %u, %keep",
        ]
    canonical = [_vectors(line) for line in _canonical("float")[:-1]]
    if flush:  # a NaN times zero is one, perhaps another one
        again = [
            "%nan2 = fcmp uno <8 x float> %w, %w",
            "%bits2 = bitcast <8 x float> %w to <8 x i32>",
            f"%chosen2 = select <8 x i1> %nan2, <8 x i32> splat (i32 {NAN['float']}), "
            "<8 x i32> %bits2",
            "%r = bitcast <8 x i32> %chosen2 to <8 x float>",
        ]
        last += again
    return "\n".join([
        f'define void @"{name}"(ptr %d, ptr %s0, ptr %s1, ptr %s2) {{',
        "%in = alloca [32 x double], align 64", "%out = alloca [32 x double], align 64",
        "br label %first", "first:", "%i = phi i64 [0, %0], [%i.next, %first]",
        "%p0 = getelementptr float, ptr %s0, i64 %i", *x,
        "%wide = fpext <8 x float> %x0 to <8 x double>", *_inner(word),
        "%in.at = getelementptr double, ptr %in, i64 %i",
        "store <8 x double> %y, ptr %in.at, align 8",
        "%i.next = add i64 %i, 8", "%i.more = icmp ult i64 %i.next, 32",
        "br i1 %i.more, label %first, label %middle", "middle:", *_called(word),
        "br label %second", "second:", "%j = phi i64 [0, %middle], [%j.next, %second]",
        f"%from.at = getelementptr double, ptr %{'out' if word in LOOPS else 'in'}, i64 %j",
        "%value = load <8 x double>, ptr %from.at, align 8",
        "%v = fptrunc <8 x double> %value to <8 x float>", *canonical, *last,
        "%to = getelementptr float, ptr %d, i64 %j", "store <8 x float> %r, ptr %to, align 1",
        "%j.next = add i64 %j, 8", "%j.more = icmp ult i64 %j.next, 32",
        "br i1 %j.more, label %second, label %end", "end:", "ret void", "}\n",
    ])  # fmt: skip


def _inner(word: str) -> Sequence[str]:
    """Lines that give ``%y``, what is computed without numpy."""
    root = "%root = call <8 x double> @llvm.sqrt.v8f64(<8 x double> %wide)"
    one = "splat (double 1.0)"
    match word:
        case "rcp":
            return (f"%y = fdiv <8 x double> {one}, %wide",)
        case "sqrt":
            return (root.replace("%root", "%y"),)
        case "rsqrt":
            return (root, f"%y = fdiv <8 x double> {one}, %root")
        case _:
            return ("%y = fmul <8 x double> %wide, splat (double 1.0)",)


def _called(word: str) -> Sequence[str]:
    """Lines that call the loop of one of numpy's functions."""
    if word not in LOOPS:
        return ()
    address, data = loop(LOOPS[word], "d->d")
    return (
        "%arrays = alloca [2 x ptr]", "%counts = alloca [1 x i64]", "%steps = alloca [2 x i64]",
        "store ptr %in, ptr %arrays",
        "%second.at = getelementptr ptr, ptr %arrays, i64 1", "store ptr %out, ptr %second.at",
        "store i64 32, ptr %counts", "store i64 8, ptr %steps",
        "%step.at = getelementptr i64, ptr %steps, i64 1", "store i64 8, ptr %step.at",
        f"call void inttoptr (i64 {address} to ptr)(ptr %arrays, ptr %counts, ptr %steps, "
        f"ptr inttoptr (i64 {data} to ptr))",
    )  # fmt: skip


_INTRINSICS = """
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare <8 x float> @llvm.fabs.v8f32(<8 x float>)
declare <8 x double> @llvm.sqrt.v8f64(<8 x double>)
""" + "".join(
    f"declare <8 x i{n}> @llvm.{sign}{word}.v8i{n}(<8 x i{n}>, <8 x i{n}>)\n"
    for n in (16, 32, 64)
    for sign in "su"
    for word in ("min", "max")
)


class Bodies:
    """Addresses of bodies, compiled when they are first needed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[str, int] = {}

    def __getitem__(self, name: str) -> int:
        if name not in self._known:
            self.load([name])
        return self._known[name]

    def load(self, names: Sequence[str]) -> None:
        """Compiles some bodies at once, which costs less than one after the other."""
        new = [name for name in dict.fromkeys(names) if name not in self._known]
        if new:
            every = _INTRINSICS + "".join(map(text, new))
            self._known |= self._engine.compiled(every, new, level=0)
