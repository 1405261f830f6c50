"""How far accesses reach, and what of a footprint none of them touches."""

from __future__ import annotations

import numpy as np
import pytest

from schedgen.conform.covered import missing, reach
from schedgen.conform.footprints import Footprint
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Instruction
from schedgen.kernel import Space

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k() {\n.reg .b32 %r<9>;\n"


def instruction(text: str) -> Instruction:
    (code,) = parse(f"{HEAD}{text};\nret;\n}}\n").kernels.values()
    return code.body[0]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("st.shared.b32 [%r0], %r1", (4, 32)),
        ("ld.shared.v4.b32 {%r1, %r2, %r3, %r4}, [%r0]", (16, 32)),
        ("st.shared.v2.f32 [%r0], {%r1, %r2}", (8, 32)),
        ("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r0], {%r1, %r2}", (16, 16)),
        ("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%r1, %r2, %r3, %r4}, [%r0]", (16, 32)),
        ("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%r1, %r2, %r3, %r4}, [%r0]", (4, 32)),
        ("tcgen05.ld.sync.aligned.16x64b.x1.b32 {%r1}, [%r0]", None),
    ],
)
def test_reach(text: str, found: tuple[int, int] | None) -> None:
    assert reach(instruction(text)) == found


def test_missing() -> None:
    """64 rows of 32 bytes, which matrices of 8 rows and 16 bytes make up."""
    allocation = instruction("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r0], {%r1, %r2}")
    first = np.full((1, 1, 1, 1), 1024)
    footprint = Footprint("s", Space.SMEM, True, first, 2048, ((0, 2048),), True, 2048, 2048)
    lanes = np.arange(128).reshape(1, 1, 1, -1)
    rows = 1024 + 32 * (lanes // 32 * 16 + lanes % 16)
    both = [(allocation, rows), (allocation, rows + 16)]
    assert missing(footprint, both) == 0
    assert missing(footprint, both[:1]) == 1024
    unknown = instruction("tcgen05.ld.sync.aligned.16x64b.x1.b32 {%r1}, [%r0]")
    assert missing(footprint, [(unknown, rows)]) == 0
