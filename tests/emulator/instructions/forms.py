"""Instruction forms that must build, by what their operands hold.

Register names as in `execution`: ``%r1`` is b32, ``%rd1`` b64, ``%rs1`` b16, ``%f1`` f32, ``%fd1``
f64, ``%p1`` a predicate; number 0 is the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

CMP = ["eq", "ne", "lt", "le", "gt", "ge"]
UNORDERED = ["equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"]
MODES = ["rn", "rz", "rm", "rp"]
INTEGERS = ["u16", "s16", "u32", "s32", "u64", "s64"]
REGISTER = {"16": "rs", "32": "r", "64": "rd", "x2": "r"}


def register(type_: str) -> str:
    """The prefix of registers of a type."""
    special = {"f32": "f", "f64": "fd", "pred": "p", "f32x2": "rd"}
    return special[type_] if type_ in special else REGISTER[type_[-2:]]


def text(name: str, *types: str) -> str:
    """An instruction with operands of types, the result's first."""
    operands = [f"%{register(type_)}{number}" for number, type_ in enumerate(types)]
    return f"{name} {', '.join(operands)};"


def same(names: str, count: int, types: str) -> Iterator[str]:
    """Instructions whose operands all have the type at the end of their name."""
    for name, type_ in product(names.split(), types.split()):
        yield text(f"{name}.{type_}", *[type_] * count)


def integer() -> Iterator[str]:
    all_ = " ".join(INTEGERS)
    yield from same("add sub mul.lo mul.hi div rem min max", 3, all_)
    yield from same("mad.lo mad.hi sad", 4, all_)
    for type_, wide in (("u16", "u32"), ("s16", "s32"), ("u32", "u64"), ("s32", "s64")):
        yield text(f"mul.wide.{type_}", wide, type_, type_)
        yield text(f"mad.wide.{type_}", wide, type_, type_, wide)
    yield from same("abs neg", 2, "s16 s32 s64")
    yield from same("add.sat sub.sat min.relu max.relu", 3, "s32")
    yield from same("mad.hi.sat mad24.hi.sat", 4, "s32")
    yield from same("mul24.lo mul24.hi", 3, "u32 s32")
    yield from same("mad24.lo mad24.hi", 4, "u32 s32")
    yield from same("add min max", 3, "u16x2 s16x2")
    yield from same("min.relu max.relu", 3, "s16x2")
    for type_ in ("u32", "u64"):
        r = register(type_)
        yield (
            f"add.cc.{type_} %{r}4, %{r}1, %{r}2; addc.cc.{type_} %{r}5, %{r}2, %{r}3; "
            f"addc.{type_} %{r}0, %{r}1, %{r}3; xor.b{type_[1:]} %{r}0, %{r}0, %{r}5;"
        )
        yield (
            f"sub.cc.{type_} %{r}4, %{r}1, %{r}2; subc.cc.{type_} %{r}5, %{r}2, %{r}3; "
            f"subc.{type_} %{r}0, %{r}1, %{r}3; xor.b{type_[1:]} %{r}0, %{r}0, %{r}5;"
        )
        yield (
            f"mad.lo.cc.{type_} %{r}4, %{r}1, %{r}2, %{r}3; "
            f"madc.hi.cc.{type_} %{r}5, %{r}1, %{r}2, %{r}3; "
            f"madc.lo.{type_} %{r}0, %{r}3, %{r}2, %{r}1; xor.b{type_[1:]} %{r}0, %{r}0, %{r}5;"
        )


def bits() -> Iterator[str]:
    for type_ in ("b32", "b64"):
        yield text(f"popc.{type_}", "b32", type_)
        yield text(f"clz.{type_}", "b32", type_)
        yield text(f"brev.{type_}", type_, type_)
        yield "and.b32 %r3, %r3, 255; shr.b32 %r4, %r3, 1; " + text(
            f"bfi.{type_}", type_, type_, type_, "b32", "b32"
        )
    for type_ in ("u32", "s32", "u64", "s64"):
        yield text(f"bfind.{type_}", "b32", type_)
        yield text(f"bfind.shiftamt.{type_}", "b32", type_)
        byte = "and.b32 %r2, %r2, 255; and.b32 %r3, %r3, 255; "
        yield byte + text(f"bfe.{type_}", type_, type_, "b32", "b32")
    yield from same("szext.clamp szext.wrap", 3, "u32 s32")
    yield from same("bmsk.clamp bmsk.wrap", 3, "b32")
    for a, b in product(("u32", "s32"), repeat=2):
        yield text(f"dp4a.{a}.{b}", *["u32"] * 4)
        yield text(f"dp2a.lo.{a}.{b}", *["u32"] * 4)
        yield text(f"dp2a.hi.{a}.{b}", *["u32"] * 4)
    yield "and.b32 %r2, %r2, 31; rem.s32 %r3, %r3, 40; fns.b32 %r0, %r1, %r2, %r3;"


def logic() -> Iterator[str]:
    yield from same("and or xor", 3, "b16 b32 b64 pred")
    yield from same("not", 2, "b16 b32 b64 pred")
    yield from same("cnot", 2, "b16 b32 b64")
    for type_ in ("b16", "b32", "b64", *INTEGERS):
        if type_[0] == "b":
            yield text(f"shl.{type_}", type_, type_, "b32")
        yield text(f"shr.{type_}", type_, type_, "b32")
        yield f"and.b32 %r2, %r2, 15; {text(f'shr.{type_}', type_, type_, 'b32')}"
        yield text(f"shr.{type_}", type_, type_).replace(";", ", 40;")
    yield from same("shf.l.wrap shf.l.clamp shf.r.wrap shf.r.clamp", 4, "b32")
    for table in (0x00, 0x01, 0x1B, 0x3C, 0x80, 0x96, 0xB8, 0xC0, 0xE8, 0xEA, 0xF0, 0xFE, 0xFF):
        yield f"lop3.b32 %r0, %r1, %r2, %r3, {table:#x};"
    yield "lop3.or.b32 %r0|%p0, %r1, %r2, %r3, 0x80, %p1; selp.b32 %r0, %r0, 7, %p0;"
    yield "lop3.and.b32 _|%p0, %r1, %r2, %r3, 0x80, !%p1;"
    yield text("prmt.b32", *["b32"] * 4)
    for mode in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
        yield text(f"prmt.b32.{mode}", *["b32"] * 4)
        yield f"prmt.b32.{mode} %r0, %r1, %r2, 2;"
    yield "prmt.b32 %r0, %r1, %r2, 0xbbb3;"
    yield "prmt.b32 %r0, %r1, %r2, 0x5410;"


def compare() -> Iterator[str]:
    for type_ in INTEGERS:
        for operator in (*CMP, *(("lo", "ls", "hi", "hs") if type_[0] == "u" else ())):
            yield text(f"setp.{operator}.{type_}", "pred", type_, type_)
        yield text(f"set.lt.u32.{type_}", "u32", type_, type_)
        yield text(f"set.ge.f32.{type_}", "f32", type_, type_)
        yield text(f"slct.{type_}.s32", type_, type_, type_, "s32")
    for type_ in ("b16", "b32", "b64"):
        yield text(f"setp.eq.{type_}", "pred", type_, type_)
        yield text(f"setp.ne.{type_}", "pred", type_, type_)
        yield text(f"selp.{type_}", type_, type_, type_)[:-1] + ", %p1;"
    for join in ("and", "or", "xor"):
        r = "setp.lt.{}.s32 %p2|%p3, %r1, %r2, {}%p1; selp.b32 %r4, 1, 0, %p2; "
        for sign in ("", "!"):
            yield r.format(join, sign) + "selp.b32 %r0, 2, %r4, %p3;"
        yield f"set.lt.{join}.s32.s32 %r0, %r1, %r2, !%p1;"
    yield "setp.lt.s32 %p2|%p3, %r1, %r2; xor.pred %p0, %p2, %p3;"


def compare_floats(type_: str) -> Iterator[str]:
    packed = type_.endswith("x2")
    ftz = ("", ".ftz") if type_ in ("f32", "f16", "f16x2") else ("",)
    for operator, flush in product((*CMP, *UNORDERED), ftz):
        name = f"{operator}{flush}.{type_}"
        r = register(type_)
        if packed:
            yield (
                f"setp.{name} %p2|%p3, %{r}1, %{r}2; selp.b32 %r4, 1, 0, %p2; "
                "selp.b32 %r5, 2, 0, %p3; or.b32 %r0, %r4, %r5;"
            )
        else:
            yield text(f"setp.{name}", "pred", type_, type_)
    halves = type_ in ("f16", "bf16")
    results = (type_, "u32", "s32") if packed else ("u32", "s32", "f32")
    for result in ("u16", "s16", type_, "u32") if halves else results:
        yield text(f"set.ltu.{result}.{type_}", result, type_, type_)
        yield text(f"set.eq.or.{result}.{type_}", result, type_, type_)[:-1] + ", %p1;"
    if type_ == "f32":
        yield text("slct.b32.f32", "b32", "b32", "b32", "f32")
        yield text("slct.ftz.b64.f32", "b64", "b64", "b64", "f32")


def singles() -> Iterator[str]:
    for mode, ftz, sat in product(("", ".rn", ".rz", ".rm", ".rp"), ("", ".ftz"), ("", ".sat")):
        yield from same(f"add{mode}{ftz}{sat} sub{mode}{ftz}{sat} mul{mode}{ftz}{sat}", 3, "f32")
    for mode, ftz in product(MODES, ("", ".ftz")):
        yield from same(f"fma.{mode}{ftz} fma.{mode}{ftz}.sat mad.{mode}{ftz}", 4, "f32")
        yield from same(f"div.{mode}{ftz}", 3, "f32")
        yield from same(f"rcp.{mode}{ftz} sqrt.{mode}{ftz}", 2, "f32")
    for ftz in ("", ".ftz"):
        yield from same(f"abs{ftz} neg{ftz}", 2, "f32")
        for extra in ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
            yield from same(f"min{ftz}{extra} max{ftz}{extra}", 3, "f32")
    yield from properties("f32")


def properties(type_: str) -> Iterator[str]:
    for property_ in ["finite", "infinite", "number", "notanumber", "normal", "subnormal"]:
        yield text(f"testp.{property_}.{type_}", "pred", type_)
    yield from same("copysign", 3, type_)


def doubles() -> Iterator[str]:
    for mode in MODES:
        yield from same(f"add.{mode} sub.{mode} mul.{mode} div.{mode}", 3, "f64")
        yield from same(f"fma.{mode} mad.{mode}", 4, "f64")
        yield from same(f"rcp.{mode} sqrt.{mode}", 2, "f64")
    yield from same("add sub mul min max", 3, "f64")
    yield from same("abs neg", 2, "f64")
    yield from properties("f64")


def halves(type_: str) -> Iterator[str]:
    is_f16 = type_.startswith("f16")
    for ftz in ("", ".ftz") if is_f16 else ("",):
        for sat in ("", ".sat") if is_f16 else ("",):
            yield from same(f"add{ftz}{sat} sub.rn{ftz}{sat} mul{ftz}{sat}", 3, type_)
            yield from same(f"fma.rn{ftz}{sat}", 4, type_)
        yield from same(f"fma.rn{ftz}.relu", 4, type_)
        yield from same(f"abs{ftz} neg{ftz}", 2, type_)
        for extra in ("", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"):
            yield from same(f"min{ftz}{extra} max{ftz}{extra}", 3, type_)


def approximate() -> Iterator[str]:
    for ftz in ("", ".ftz"):
        yield from same(
            f"rcp.approx{ftz} sqrt.approx{ftz} rsqrt.approx{ftz} ex2.approx{ftz}", 2, "f32"
        )
        yield from same(f"lg2.approx{ftz} sin.approx{ftz} cos.approx{ftz}", 2, "f32")
        yield from same(f"div.approx{ftz} div.full{ftz}", 3, "f32")
    yield from same("tanh.approx", 2, "f32")


def approximate_halves(type_: str) -> Iterator[str]:
    yield from same("tanh.approx", 2, type_)
    yield from same("ex2.approx" if type_.startswith("f16") else "ex2.approx.ftz", 2, type_)


def integers_to_integers() -> Iterator[str]:
    for to, source in product(("u8", "s8", *INTEGERS), repeat=2):
        if to == source:
            continue
        to_register = {"u8": "u16", "s8": "s16"}.get(to, to)
        from_register = {"u8": "u16", "s8": "s16"}.get(source, source)
        yield text(f"cvt.{to}.{source}", to_register, from_register)
        if not _contains(to, source):
            yield text(f"cvt.sat.{to}.{source}", to_register, from_register)
    yield "cvt.s8.s32 %r0, %r1;"
    yield "cvt.u8.u64 %rd0, %rd1;"
    yield "cvt.s16.s64 %rd0, %rd1;"
    for to in ("u16", "s16"):
        yield f"cvt.pack.sat.{to}.s32 %r0, %r1, %r2;"
    for to in ["u2", "s2", "u4", "s4", "u8", "s8"]:
        yield f"cvt.pack.sat.{to}.s32.b32 %r0, %r1, %r2, %r3;"


def _contains(to: str, source: str) -> bool:
    bits = int(to[1:]), int(source[1:])
    if to[0] == source[0]:
        return bits[0] >= bits[1]
    return to[0] == "s" and bits[0] > bits[1]


def integers_to_floats() -> Iterator[str]:
    for source, to, mode in product(("u8", "s8", *INTEGERS), ("f16", "bf16", "f32", "f64"), MODES):
        if to == "bf16" and source[1:] == "8":
            continue
        from_register = {"u8": "u16", "s8": "s16"}.get(source, source)
        yield text(f"cvt.{mode}.{to}.{source}", to, from_register)


def floats_to_integers(source: str) -> Iterator[str]:
    for to, mode in product(("u8", "s8", *INTEGERS), ["rni", "rzi", "rmi", "rpi"]):
        to_register = {"u8": "u16", "s8": "s16"}.get(to, to)
        if source == "bf16" and to[1:] == "8":
            continue
        for ftz in ("", ".ftz") if source == "f32" else ("",):
            yield text(f"cvt.{mode}{ftz}.{to}.{source}", to_register, source)


def floats_to_floats(source: str) -> Iterator[str]:
    sizes = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}
    for mode in ["rni", "rzi", "rmi", "rpi"]:
        yield text(f"cvt.{mode}.{source}.{source}", source, source)
    for to, size in sizes.items():
        ftz = ("", ".ftz") if "f32" in (to, source) else ("",)
        sat = ("", ".sat") if "bf16" not in (to, source) else ("",)
        rounds = size < sizes[source] or {to, source} == {"f16", "bf16"}
        if to == source and to in ("bf16", "f16"):
            continue
        for flush, limit, mode in product(ftz, sat, MODES if rounds else [""]):
            dotted = f".{mode}" if mode else ""
            yield text(f"cvt{dotted}{flush}{limit}.{to}.{source}", to, source)
    if source == "f32":
        for mode, relu in product(("rn", "rz"), ("", ".relu")):
            yield text(f"cvt.{mode}{relu}.tf32.f32", "b32", "f32")
            for limit, to in product(("", ".satfinite"), ("f16", "bf16")):
                yield text(f"cvt.{mode}{relu}{limit}.{to}.f32", to, "f32")
                yield text(f"cvt.{mode}{relu}{limit}.{to}x2.f32", "b32", "f32", "f32")
        yield text("cvt.rna.tf32.f32", "b32", "f32")
        for relu, to in product(("", ".relu"), ("e4m3x2", "e5m2x2")):
            yield text(f"cvt.rn.satfinite{relu}.{to}.f32", "b16", "f32", "f32")


def narrow() -> Iterator[str]:
    for relu, narrow_type in product(("", ".relu"), ("e4m3x2", "e5m2x2")):
        yield text(f"cvt.rn{relu}.f16x2.{narrow_type}", "b32", "b16")
        yield text(f"cvt.rn.satfinite{relu}.{narrow_type}.f16x2", "b16", "b32")


def warp_level() -> Iterator[str]:
    for mode in ("up", "down", "bfly", "idx"):
        yield f"shfl.sync.{mode}.b32 %r0|%p0, %r1, %r2, %r3, -1; selp.b32 %r0, %r0, 77, %p0;"
        yield f"shfl.sync.{mode}.b32 %r0, %r1, 5, 0x181f, -1;"
        yield f"shfl.sync.{mode}.b32 %r0, %r1, 1, 0x1c00, -1;"
    for mode in ("all", "any", "uni"):
        yield f"vote.sync.{mode}.pred %p0, %p1, -1;"
        yield f"setp.ne.b32 %p1, %r1, %r1; vote.sync.{mode}.pred %p0, !%p1, -1;"
    yield "vote.sync.ballot.b32 %r0, !%p1, -1;"
    yield "and.b32 %r1, %r1, 3; match.any.sync.b32 %r0, %r1, -1;"
    yield "and.b64 %rd1, %rd1, 3; match.any.sync.b64 %r0, %rd1, -1;"
    yield "mov.b32 %r1, 3; match.all.sync.b32 %r0|%p0, %r1, -1;"
    yield "and.b32 %r1, %r1, 3; match.all.sync.b32 %r0|%p0, %r1, -1;"
    for operation, type_ in product(("add", "min", "max"), ("u32", "s32")):
        yield f"redux.sync.{operation}.{type_} %r0, %r1, -1;"
    for operation in ("and", "or", "xor"):
        yield f"redux.sync.{operation}.b32 %r0, %r1, -1;"
    yield "activemask.b32 %r0;"
    yield "elect.sync %r0|%p0, -1; selp.b32 %r0, %r0, 99, %p0;"


def moves() -> Iterator[str]:
    for type_ in ("b16", "b32", "b64", *INTEGERS, "f32", "f64", "pred"):
        yield text(f"mov.{type_}", type_, type_)
    yield "mov.b32 %r0, {%rs1, %rs2};"
    yield "mov.b64 %rd0, {%r1, %r2};"
    yield "mov.b64 %rd0, {%rs1, %rs2, %rs3, %rs1};"
    yield "mov.b64 {%r4, %r0}, %rd1;"
    yield "mov.b64 {_, %r0}, %rd1;"
    yield "mov.b64 {%r0, _}, %rd1;"
    yield "mov.b64 {_, %rs0, _, _}, %rd1;"
    yield "mov.b32 {%rs4, %rs0}, %r1;"
    yield "mov.b128 %rq1, {%rd1, %rd2}; mov.b128 {%rd4, %rd0}, %rq1;"
    yield "mov.b64 %rd0, 4611756662049538048;"
    yield "mov.b32 %r0, 0f3F800000;"
    yield "mov.f64 %fd0, 0d3FF8000000000000;"
    yield "mov.pred %p0, -1;"
    yield "mov.u32 %r0, %laneid;"


def blackwell() -> Iterator[str]:
    """Forms that only sm_100a has."""
    for mode, ftz in product(MODES, ("", ".ftz")):
        yield from same(f"add.{mode}{ftz} sub.{mode}{ftz} mul.{mode}{ftz}", 3, "f32x2")
        yield from same(f"fma.{mode}{ftz}", 4, "f32x2")
    for element, mode, sat in product(("f16", "bf16"), MODES, ("", ".sat")):
        yield text(f"add.{mode}{sat}.f32.{element}", "f32", element, "f32")
        yield text(f"sub.{mode}{sat}.f32.{element}", "f32", element, "f32")
        yield text(f"fma.{mode}{sat}.f32.{element}", "f32", element, element, "f32")
    for ftz, extra in product(("", ".ftz"), ("", ".NaN", ".abs", ".NaN.abs")):
        yield from same(f"min{ftz}{extra} max{ftz}{extra}", 4, "f32")
    for relu, to in product(("", ".relu"), ("e2m3x2", "e3m2x2")):
        yield text(f"cvt.rn.satfinite{relu}.{to}.f32", "b16", "f32", "f32")
        yield text(f"cvt.rn.satfinite{relu}.{to}.f16x2", "b16", "b32")
        yield text(f"cvt.rn.satfinite{relu}.{to}.bf16x2", "b16", "b32")
        yield text(f"cvt.rn{relu}.f16x2.{to}", "b32", "b16")
    for relu in ("", ".relu"):
        yield f"cvt.rn.satfinite{relu}.e2m1x2.f32 %rb0, %f1, %f2;"
        yield f"cvt.rn.satfinite{relu}.e2m1x2.f16x2 %rb0, %r1;"
        yield f"cvt.rn{relu}.f16x2.e2m1x2 %r0, %rb1;"
        for to in ("e4m3x2", "e5m2x2"):
            yield text(f"cvt.rn.satfinite{relu}.{to}.bf16x2", "b16", "b32")
    for mode, limit in product(("rz", "rp"), ("", ".satfinite")):
        yield text(f"cvt.{mode}{limit}.ue8m0x2.f32", "b16", "f32", "f32")
        yield text(f"cvt.{mode}{limit}.ue8m0x2.bf16x2", "b16", "b32")
    yield text("cvt.rn.bf16x2.ue8m0x2", "b32", "b16")
    for to in ("f16x2", "bf16x2"):
        yield text(f"cvt.rs.satfinite.relu.{to}.f32", "b32", "f32", "f32", "b32")
    yield text("cvt.rn.satfinite.tf32.f32", "b32", "f32")
    for name in ("min", "max.abs", "min.NaN", "max.abs.NaN"):
        yield f"redux.sync.{name}.f32 %f0, %f1, -1;"


def by_kind() -> dict[str, list[str]]:
    """Forms of sm_90a, by what operands hold."""
    found = {
        "int": [*integer(), *bits(), *logic(), *compare(), *integers_to_integers()],
        "small": [*integers_to_floats(), *warp_level(), *moves(), *narrow()],
        "f32": [*singles()],
        "f64": [*doubles()],
        "approximate": [*approximate()],
    }
    for type_ in ("f16", "f16x2", "bf16", "bf16x2"):
        found[type_] = [*halves(type_)]
        found[f"approximate {type_}"] = [*approximate_halves(type_)]
    for type_ in ("f32", "f64", "f16", "f16x2", "bf16", "bf16x2"):
        found[type_] += compare_floats(type_)
    for type_ in ("f32", "f64", "f16", "bf16"):
        found[type_] += [*floats_to_integers(type_), *floats_to_floats(type_)]
    return found
