"""ldmatrix and stmatrix: which elements each lane gets and gives, form by form.

`LANES` is written down from the figures of PTX ISA 9.7.14.5.15 and 9.7.14.5.16, checked against
``layout_dst_tv`` and ``layout_src_tv`` of CuTe DSL's copy atoms, and not computed by the code that
is tested. The fragments of 8-bit matrices are those of the operands of mma.m16n8k32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.machine.running import aligned, run

PLACE = """mul.wide.u32 %rd1, %r39, 4; add.s64 %rd2, %rd39, %rd1; add.s64 %rd3, %rd38, %rd1;
mov.b32 %r20, sm; shl.b32 %r21, %r39, 4; add.s32 %r21, %r21, %r20;
mul.wide.u32 %rd1, %r39, 16; add.s64 %rd4, %rd39, %rd1; add.s64 %rd5, %rd38, %rd1;"""
"""%r21: the row of the lane. %rd2, %rd3: its word of source and output. %rd4, %rd5: its row."""


@dataclass(frozen=True)
class Form:
    """``elements`` of one matrix: (register, lane, position in the register) -> (row, column)."""

    name: str
    rows: int
    registers: int
    bits: int
    elements: Callable[[int, int, int], tuple[int, int]]
    packed: int = 0


B16 = Form("m8n8.{}.shared.b16", 8, 1, 16, lambda r, t, e: (t // 4, 2 * (t % 4) + e))
B16_TRANS = Form("m8n8.{}.trans.shared.b16", 8, 1, 16, lambda r, t, e: (2 * (t % 4) + e, t // 4))
B8_TRANS = Form(
    "m16n16.{}.trans.shared.b8", 16, 2, 8, lambda r, t, e: (4 * (t % 4) + e, t // 4 + 8 * r)
)
B4_TRANS = Form("m16n16.{}.trans.shared.b8x16.b4x16_p64", 16, 2, 8, B8_TRANS.elements, 4)
B6_TRANS = Form("m16n16.{}.trans.shared.b8x16.b6x16_p32", 16, 2, 8, B8_TRANS.elements, 6)
B4 = Form("m8n16.{}.shared.b8x16.b4x16_p64", 8, 1, 8, lambda r, t, e: (t // 4, 4 * (t % 4) + e), 4)
B6 = Form("m8n16.{}.shared.b8x16.b6x16_p32", 8, 1, 8, B4.elements, 6)
B8_STORED = Form(
    "m16n8.{}.trans.shared.b8", 8, 1, 8,
    lambda r, t, e: (2 * (t % 4) + e % 2, t // 4 + 8 * (e // 2)),
)  # fmt: skip

LOADS = [
    *((form, number) for form in (B16, B16_TRANS, B4, B6) for number in (1, 2, 4)),
    *((form, number) for form in (B8_TRANS, B4_TRANS, B6_TRANS) for number in (1, 2)),
]
STORES = [(form, number) for form in (B16, B16_TRANS, B8_STORED) for number in (1, 2, 4)]

LANES = {
    # Lanes 0, 1, 4 and 31: elements of each register as (row, column), lowest bits first.
    B16: [
        [[(0, 0), (0, 1)]], [[(0, 2), (0, 3)]], [[(1, 0), (1, 1)]], [[(7, 6), (7, 7)]],
    ],
    B16_TRANS: [
        [[(0, 0), (1, 0)]], [[(2, 0), (3, 0)]], [[(0, 1), (1, 1)]], [[(6, 7), (7, 7)]],
    ],
    B8_TRANS: [
        [[(0, 0), (1, 0), (2, 0), (3, 0)], [(0, 8), (1, 8), (2, 8), (3, 8)]],
        [[(4, 0), (5, 0), (6, 0), (7, 0)], [(4, 8), (5, 8), (6, 8), (7, 8)]],
        [[(0, 1), (1, 1), (2, 1), (3, 1)], [(0, 9), (1, 9), (2, 9), (3, 9)]],
        [[(12, 7), (13, 7), (14, 7), (15, 7)], [(12, 15), (13, 15), (14, 15), (15, 15)]],
    ],
    B4: [
        [[(0, 0), (0, 1), (0, 2), (0, 3)]], [[(0, 4), (0, 5), (0, 6), (0, 7)]],
        [[(1, 0), (1, 1), (1, 2), (1, 3)]], [[(7, 12), (7, 13), (7, 14), (7, 15)]],
    ],
    B8_STORED: [
        [[(0, 0), (1, 0), (0, 8), (1, 8)]], [[(2, 0), (3, 0), (2, 8), (3, 8)]],
        [[(0, 1), (1, 1), (0, 9), (1, 9)]], [[(6, 7), (7, 7), (6, 15), (7, 15)]],
    ],
}  # fmt: skip


@pytest.mark.parametrize("form", LANES, ids=lambda form: form.name)
def test_formulas_say_what_the_table_says(form: Form) -> None:
    for lane, wanted in zip((0, 1, 4, 31), LANES[form], strict=True):
        per = 32 // form.bits
        got = [[form.elements(r, lane, e) for e in range(per)] for r in range(form.registers)]
        assert got == wanted


def places(form: Form, number: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Register, lane, position in it, row among all matrices, column."""
    for register in range(form.registers * number):
        matrix, own = divmod(register, form.registers)
        for lane in range(32):
            for at in range(32 // form.bits):
                row, column = form.elements(own, lane, at)
                yield register, lane, at, form.rows * matrix + row, column


def rows_of(source: NDArray[np.uint8], form: Form) -> NDArray[np.unsignedinteger]:
    """(rows, elements) of rows of 16 bytes, elements of 4 and 6 bits unpacked one by one."""
    rows = source.reshape(-1, 16)
    if not form.packed:
        return rows.view(f"u{form.bits // 8}")
    values = [int.from_bytes(row.tobytes(), "little") for row in rows]
    mask = (1 << form.packed) - 1
    return np.array(
        [[value >> form.packed * i & mask for i in range(16)] for value in values], np.uint8
    )


@pytest.mark.parametrize(("form", "number"), LOADS, ids=lambda v: getattr(v, "name", str(v)))
def test_ldmatrix(form: Form, number: int) -> None:
    count = form.registers * number
    source = aligned(np.random.default_rng(number).integers(0, 256, 512, np.uint8))
    registers = ", ".join(f"%r{index}" for index in range(count))
    outcome = run(
        f"""{PLACE}
        ld.global.v4.b32 {{%r1, %r2, %r3, %r4}}, [%rd4];
        st.shared.v4.b32 [%r21], {{%r1, %r2, %r3, %r4}};
        ldmatrix.sync.aligned.{form.name.format(f"x{number}")} {{{registers}}}, [%r21];
        {"".join(f"st.global.b32 [%rd3+{128 * i}], %r{i};" for i in range(count))}""",
        elements=32 * count,
        source=source,
    )
    got = outcome.out.view(f"u{form.bits // 8}").reshape(count, 32, -1)
    rows = rows_of(source, form)
    for register, lane, at, row, column in places(form, number):
        assert got[register, lane, at] == rows[row, column]


@pytest.mark.parametrize(("form", "number"), STORES, ids=lambda v: getattr(v, "name", str(v)))
def test_stmatrix(form: Form, number: int) -> None:
    source = aligned(np.random.default_rng(number).integers(0, 256, 128 * number, np.uint8))
    registers = ", ".join(f"%r{index}" for index in range(number))
    outcome = run(
        f"""{PLACE}
        {"".join(f"ld.global.b32 %r{i}, [%rd2+{128 * i}];" for i in range(number))}
        stmatrix.sync.aligned.{form.name.format(f"x{number}")} [%r21], {{{registers}}};
        setp.lt.u32 %p1, %r39, {8 * number};
        @%p1 ld.shared.v4.b32 {{%r1, %r2, %r3, %r4}}, [%r21];
        @%p1 st.global.v4.b32 [%rd5], {{%r1, %r2, %r3, %r4}};""",
        elements=32 * number,
        source=source,
    )
    given = source.view(f"u{form.bits // 8}").reshape(number, 32, -1)
    rows = outcome.out.view(np.uint8).reshape(-1, 16).view(f"u{form.bits // 8}")
    for register, lane, at, row, column in places(form, number):
        assert rows[row, column] == given[register, lane, at]


@pytest.mark.parametrize(
    "instruction",
    [
        "ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8 {%r1, %r2}, [%r20];",
        "ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r1, %r2}, [%r20];",
        "ldmatrix.sync.aligned.m8n16.x1.trans.shared.b8x16.b4x16_p64 {%r1}, [%r20];",
        "stmatrix.sync.aligned.m16n16.x1.trans.shared.b8 [%r20], {%r1, %r2};",
    ],
)
def test_forms_that_do_not_exist(instruction: str) -> None:
    with pytest.raises(EmulationError, match=r"PTX line \d+"):
        run(f"{PLACE} {instruction}")
