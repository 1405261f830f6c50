"""Every form of register instruction builds; what a builder does not know is an error."""

from __future__ import annotations

import numpy as np
import pytest

from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.instructions.execution import decoded_all, execute, run
from tests.emulator.instructions.forms import blackwell, by_kind

CUTLASS = """
    add.f32 %f0, %f1, %f2; add.rn.f32x2 %rd0, %rd1, %rd2; add.s32 %r0, %r1, 96;
    add.s64 %rd0, %rd1, 4611756662049540096; and.b16 %rs0, %rs1, 1; and.b32 %r0, %r1, -64;
    and.pred %p0, %p1, %p2; cvt.rn.f16x2.f32 %r0, %r1, %r2; cvt.rn.f32.s16 %r0, %rs1;
    cvt.rn.f32.s32 %r0, %r1; cvt.s64.s32 %rd0, %r1; cvt.s8.s32 %rs0, %r1; cvt.u16.u32 %rs0, %r1;
    cvt.u32.u16 %r0, %rs1; cvt.u32.u64 %r0, %rd1; cvt.u64.u32 %rd0, %r1; div.rn.f32 %r0, %r1, %r2;
    div.s32 %r0, %r1, %r2; div.u32 %r0, %r1, %r2; elect.sync %r0|%p0, -1;
    ex2.approx.ftz.f32 %r0, %r1; fma.rn.f32 %r0, %r1, %r2, %r3;
    fma.rn.f32x2 %rd0, %rd1, %rd2, %rd3; mad.lo.s32 %r0, %r1, %r2, %r3;
    mad.lo.s64 %rd0, %rd1, %rd2, %rd3; max.NaN.f32 %r0, %r1, %r2, %r3;
    max.f32 %r0, %r1, 0fFF800000; max.s32 %r0, %r1, 1; max.u32 %r0, %r1, 2;
    min.relu.s32 %r0, %r1, %r2; min.s32 %r0, %r1, 4; min.u32 %r0, %r1, 7;
    mov.b128 %rq0, {%rd1, %rd2}; mov.b16 %rs0, 0; mov.b32 %r0, buffer; mov.b64 %rd0, {%r1, %r2};
    mov.pred %p0, -1; mov.u32 %r0, %laneid; mul.f32 %r0, %r1, %r2; mul.f32x2 %rd0, %rd1, %rd2;
    mul.hi.u32 %r0, %r1, %r2; mul.lo.s32 %r0, %r1, %r2; mul.lo.s64 %rd0, %rd1, %rd2;
    mul.rn.f32x2 %rd0, %rd1, %rd2; mul.wide.s32 %rd0, %r1, 128; mul.wide.u16 %r0, %rs1, 8;
    mul.wide.u32 %rd0, %r1, 256; neg.s32 %r0, %r1; not.b32 %r0, %r1; not.pred %p0, %p1;
    or.b32 %r0, %r1, %r2; or.b64 %rd0, %rd1, 4611756662049538048; or.pred %p0, %p1, %p2;
    prmt.b32 %r0, %r1, 0, 0xbbb3U; rcp.approx.ftz.f32 %r0, %r1; rem.s32 %r0, %r1, %r2;
    rem.u32 %r0, %r1, %r2; selp.b16 %rs0, %rs1, %rs2, %p1; selp.b32 %r0, 1, 0, %p1;
    selp.b64 %rd0, %rd1, %rd2, %p1; selp.f32 %r0, 0f00000000, %r1, %p1; setp.eq.b32 %p0, %r1, 0;
    setp.eq.f32 %p0, %r1, 0fFF800000; setp.equ.f32 %p0, %r1, 0f00000000;
    setp.ge.s32 %p0, %r1, %r2; setp.ge.u32 %p0, %r1, %r2; setp.gt.s32 %p0, %r1, %r2;
    setp.gt.u32 %p0, %r1, %r2; setp.le.f32 %p0, %r1, %r2; setp.le.s32 %p0, %r1, %r2;
    setp.lt.f32 %p0, %r1, %r2; setp.lt.s32 %p0, %r1, %r2; setp.lt.u32 %p0, %r1, %r2;
    setp.nan.f32 %p0, %r1, %r2; setp.ne.b16 %p0, %rs1, 0; setp.ne.b32 %p0, %r1, %r2;
    setp.neu.f32 %p0, %r1, 0fFF800000; shfl.sync.bfly.b32 %r0, %r1, 2, 31, -1;
    shfl.sync.idx.b32 %r0, %r1, 0, 31, -1; shl.b16 %rs0, %rs1, %r2; shl.b32 %r0, %r1, 4;
    shl.b64 %rd0, %rd1, 3; shr.s32 %r0, %r1, 31; shr.u32 %r0, %r1, 5; sub.f32 %r0, %r1, %r2;
    sub.s32 %r0, %r1, %r2; vote.sync.ballot.b32 %r0, %p1, -1; xor.b32 %r0, %r1, %r2;
"""
"""All forms of register instructions in CUTLASS's CuTe DSL GEMM and FMHA examples, 4.8.1."""


def test_forms_of_cutlass() -> None:
    decoder, ((*steps,),) = decoded_all((CUTLASS,))
    assert len(steps) == 88
    run(decoder, steps)


@pytest.mark.parametrize("kind", by_kind())
def test_forms_of_hopper(kind: str) -> None:
    decoder, forms = decoded_all(by_kind()[kind])
    for steps in forms:
        run(decoder, steps)


def test_forms_of_blackwell() -> None:
    decoder, forms = decoded_all([*blackwell()])
    for steps in forms:
        run(decoder, steps)


@pytest.mark.parametrize("kind", by_kind())
def test_inactive_lanes_are_left_alone(kind: str) -> None:
    """Whatever the form: what a lane holds that does not execute stays."""
    active = np.arange(32) % 2 == 0
    texts = [text for text in by_kind()[kind] if ".sync" not in text]
    decoder, forms = decoded_all(texts)
    marker = {"r": 0x5A5A5A5A, "rd": 0x5A5A5A5A5A5A5A5A, "rs": 0x5A5A, "f": 0x5A5A5A5A}
    registers = {f"{prefix}{n}": value for prefix, value in marker.items() for n in range(10)}
    for text, steps in zip(texts, forms, strict=True):
        warp = run(decoder, steps, active=active, **registers)
        for name, value in registers.items():
            assert (warp[name][1::2] == value).all(), text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("add.foo.s32 %r0, %r1, %r2;", r"not supported with \.foo"),
        ("add.ftz.s32 %r0, %r1, %r2;", r"not supported with \.ftz"),
        ("add.b32 %r0, %r1, %r2;", r"a type is needed: \.u16"),
        ("add.s32 %r0, %r1;", "2 operands, 3 expected"),
        ("add.s32 %r0, %rd1, %r2;", r"%rd1 is \.b64 and cannot be used as \.u32"),
        ("add.s32 %r0, %p1, %r2;", r"%p1 is \.pred and cannot be used as \.u32"),
        ("add.s32 {%r0, %r1}, %r2, %r3;", "cannot be an operand of type"),
        ("mul.s32 %r0, %r1, %r2;", r"one of \.lo, \.hi, \.wide is needed"),
        ("mul.wide.u64 %rd0, %rd1, %rd2;", "a wide product takes 16- or 32-bit operands"),
        ("mad.lo.cc.u16 %rs0, %rs1, %rs2, %rs3;", "a carry needs one of"),
        ("add.cc.s16 %rs0, %rs1, %rs2;", "a carry needs one of"),
        ("lop3.b32 %r0, %r1, %r2, %r3, 256;", "constant from 0 to 255"),
        ("shl.s32 %r0, %r1, 1;", "a type is needed"),
    ],
)
def test_errors_name_line_and_opcode(text: str, problem: str) -> None:
    with pytest.raises(
        EmulationError, match=rf"PTX line \d+: {text.split(maxsplit=1)[0]}: .*{problem}"
    ):
        execute(text)
