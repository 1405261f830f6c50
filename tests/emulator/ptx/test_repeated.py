"""Which tests of phases are not repeated until the phase is complete."""

from __future__ import annotations

import pytest

from schedgen.emulator.ptx.flow import Flow
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.repeated import unrepeated
from schedgen.emulator.ptx.tree import Kernel

PTX = """.version 8.8
.target sm_90a
.address_size 64
.visible .entry k()
{{
.reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
.shared .align 8 .b8 full[64];
{text}
ret;
}}
"""
FIRST = 8
"""The line in which a text begins."""
TRY = "mbarrier.try_wait.parity.shared.b64 %p1, [full], 0;"
TEST = "mbarrier.test_wait.parity.shared.b64 %p1, [full], 0;"
OTHER = "mbarrier.try_wait.parity.shared.b64 %p2, [full+8], 0;"
LOOP = "AGAIN: mbarrier.try_wait.parity.shared.b64 %p2, [full], 0;\n@!%p2 bra AGAIN;"
REPEATED = {
    "loop": f"AGAIN: {TRY}\n@!%p1 bra AGAIN;",
    "loop of a test_wait": f"AGAIN: {TEST}\n@!%p1 bra AGAIN;",
    "two branches": f"AGAIN: {TRY}\n@%p1 bra DONE; bra AGAIN; DONE:",
    "more in the loop": f"AGAIN: {TRY}\nadd.s32 %r1, %r1, 1; nanosleep.u32 8;\n@!%p1 bra AGAIN;",
    "asked before the loop": f"{TRY}\n@%p1 bra SKIP;\n{LOOP}\nSKIP:",
    "asked long before, as a number": f"""{TRY}
        selp.b32 %r1, 1, 0, %p1; mov.b32 %r2, %r1; add.s32 %r3, %r3, 1;
        setp.ne.s32 %p3, %r2, 0; and.pred %p4, %p3, %p5; @%p4 bra SKIP;\n{LOOP}\nSKIP:""",
    "asked in the iteration before": f"""{TRY}
        selp.b32 %r1, 1, 0, %p1;
        NEXT: setp.ne.s32 %p3, %r1, 0; @%p3 bra SKIP;\n{LOOP}\nSKIP:
        mbarrier.try_wait.parity.shared.b64 %p4, [full+8], 0;\nselp.b32 %r1, 1, 0, %p4;
        add.s32 %r3, %r3, 1; setp.lt.s32 %p6, %r3, 4; @%p6 bra NEXT;""",
}
UNREPEATED = {
    "ignored": (TRY, [0]),
    "ignored test_wait": (TEST, [0]),
    "used for something else": (f"{TRY}\nselp.b32 %r1, 1, 0, %p1;", [0]),
    "a pause": (f"{TRY}\n@%p1 bra DONE; nanosleep.u32 8; DONE:", [0]),
    "tried twice": (f"{TRY}\n@%p1 bra DONE;\n{OTHER}\nDONE:", [2]),
    "in a loop over something else": (
        f"NEXT: {TRY}\nadd.s32 %r1, %r1, 1; setp.lt.s32 %p3, %r1, 4; @%p3 bra NEXT;", [0],
    ),
    "in a loop with a loop for another one": (
        f"NEXT: {TRY}\n{LOOP}\nadd.s32 %r1, %r1, 1; setp.lt.s32 %p3, %r1, 4; @%p3 bra NEXT;", [0],
    ),
    "the register is used again": (f"{TRY}\n{LOOP.replace('%p2', '%p1')}", [0]),
    "the other one is repeated": (f"{OTHER}\nAGAIN: {TRY}\n@!%p1 bra AGAIN;", [0]),
}  # fmt: skip


def kernel(text: str) -> Kernel:
    return parse(PTX.format(text=text)).kernels["k"]


@pytest.mark.parametrize("case", REPEATED)
def test_repeated(case: str) -> None:
    assert unrepeated(kernel(REPEATED[case])) == ()


@pytest.mark.parametrize("case", UNREPEATED)
def test_unrepeated(case: str) -> None:
    text, wanted = UNREPEATED[case]
    one = kernel(text)
    assert [one.body[at].line - FIRST for at in unrepeated(one)] == wanted


def test_no_waits() -> None:
    assert unrepeated(kernel("mov.b32 %r1, 0;")) == ()


def test_what_a_branch_decides() -> None:
    one = kernel("@%p1 bra THEN; mov.b32 %r1, 0; bra END; THEN: mov.b32 %r1, 1; END: ret;")
    flow = Flow(one)
    assert {one.body[at].opcode for at in flow.decided(0)} == {"mov", "bra"}
    endless = Flow(kernel("AGAIN: @%p1 bra AGAIN; bra AGAIN;"))
    assert endless.decided(0) == {0, 1}
