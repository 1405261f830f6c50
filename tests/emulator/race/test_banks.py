"""Passes of shared memory, and where bank conflicts are."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.emulator.machine.lanes import Decoder
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.race.banks import Passes, passes, watching
from schedgen.emulator.race.text import data_of, lines_of
from tests.emulator.race.kernels import PTX
from tests.emulator.race.test_ptx_launch import ran

LANES = range(32)


def _swizzled(row: int, byte: int) -> int:
    """Where a byte of a row of 128 bytes lies under a swizzle of 128 bytes."""
    return 128 * row + (byte ^ (row % 8) << 4)


@pytest.mark.parametrize(
    ("offsets", "size", "wanted"),
    [
        ([4 * lane for lane in LANES], 4, Passes(1, 1)),
        ([8 * lane for lane in LANES], 4, Passes(2, 1)),
        ([128 * lane for lane in LANES], 4, Passes(32, 1)),
        ([0 for _ in LANES], 4, Passes(1, 1)),
        ([2 * lane for lane in LANES], 2, Passes(1, 1)),
        ([64 * lane for lane in LANES], 1, Passes(16, 1)),
        ([8 * lane for lane in LANES], 8, Passes(2, 2)),
        ([16 * lane for lane in LANES], 16, Passes(4, 4)),
        ([32 * lane for lane in LANES], 16, Passes(8, 4)),
        # Conflicts are among lanes that are served together only.
        ([8 * (lane % 16) for lane in LANES], 8, Passes(2, 2)),
        ([4 * lane if lane < 3 else -1 for lane in LANES], 4, Passes(1, 1)),
        ([128 * lane if lane % 2 else -1 for lane in LANES], 4, Passes(16, 1)),
        ([128 * lane for lane in range(8)], 16, Passes(8, 1)),
    ],
)
def test_passes(offsets: list[int], size: int, wanted: Passes) -> None:
    assert passes(tuple(offsets), size) == wanted


def test_accumulators_in_swizzled_rows() -> None:
    """Lane t has two columns from 2(t % 4) on of row t / 4. Half a warp are four rows: their 8
    bytes of float32 lie in two of the four places that the swizzle could have given them."""
    halves = [_swizzled(lane // 4, 2 * 2 * (lane % 4)) for lane in LANES]
    assert passes(tuple(halves), 4) == Passes(1, 1)
    singles = [_swizzled(lane // 4, 2 * 4 * (lane % 4)) for lane in LANES]
    assert passes(tuple(singles), 8) == Passes(4, 2)
    matrices = [_swizzled(lane % 8, 16 * (lane // 8)) for lane in LANES]
    assert passes(tuple(matrices), 16) == Passes(4, 4)


REVERSED = """bar.sync 0;
.loc 1 7 2
shl.b32 %r4, %r1, 7;
and.b32 %r4, %r4, 255;
add.u32 %r4, %r3, %r4;
ld.shared.b32 %r7, [%r4];
.loc 1 8 2
setp.lt.u32 %p1, %r1, 8;
@%p1 ld.shared.b32 %r7, [%r4];
cvt.u64.u32 %rd6, %r4;
add.u64 %rd6, %rd6, 4611686018427387904;
.loc 1 9 2
ld.b32 %r7, [%rd6];
ld.b32 %r7, [%rd4];"""


def test_lines_of_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two warps; requests of line 7 want two words of one bank, those of line 8 too, but only one
    warp has lanes for it. Generic addresses count where they are in shared memory."""
    text = PTX.replace(".reg .b32 %r<8>;", ".reg .b32 %r<8>; .reg .pred %p<3>;")
    monkeypatch.setattr("tests.emulator.race.kernels.PTX", text + '.file 1 "kernel.py"\n')
    session, ended = ran(tmp_path, REVERSED, banks=True)
    assert session.banks is not None
    by_place = {one.place.name: one for one in session.banks.accesses if one.taken > one.least}
    assert {name: (one.requests, one.taken, one.least) for name, one in by_place.items()} == {
        "kernel.py:7": (2, 4, 2),
        "kernel.py:8": (1, 2, 1),
        "kernel.py:9": (2, 4, 2),
    }
    lines = list(lines_of(session, ended))
    assert "bank conflicts: 14 passes of shared memory, 9 would be enough (1.56 times)" in lines, (
        lines
    )
    at = lines.index("  kernel.py:7")
    assert lines[at + 1] == (
        "    ld.shared.b32: 4 passes instead of 2 (2.00 times), 2 requests of reverse"
    )
    data = data_of(session, ended)["banks"]
    assert (data["passes"], data["least"], len(data["accesses"])) == (14, 9, 5)
    assert data["accesses"][0]["place"]["line"] == 7


def test_results_and_findings_are_those_of_the_first_execution(tmp_path: Path) -> None:
    """What is executed again leaves memory, and what is known of it, as they were."""
    session, ended = ran(tmp_path, "", banks=True)
    other, _ = ran(tmp_path, "")
    assert [one.fingerprint for one in session.found] == [one.fingerprint for one in other.found]
    assert session.found
    assert not ended.error
    assert "bank conflicts: none in 4 passes of shared memory" in lines_of(session, ended)


def test_other_stores_are_let_alone() -> None:
    """They have the opcode of stores, but forms of their own."""
    store = "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r4], %r2, [%r3];"
    kernel = parse(PTX.replace("BARRIER", store)).kernels["reverse"]
    decoder = Decoder(kernel.registers, lambda _: 0, {"room"})
    counted = {one.name for one in kernel.body if watching(one, decoder, {}) is not None}
    assert counted == {"ld.shared.b32", "st.shared.b32"}


def test_nobody_counts_unless_asked(tmp_path: Path) -> None:
    session, ended = ran(tmp_path)
    assert session.banks is None
    assert "banks" not in data_of(session, ended)
    assert not any("bank conflicts" in line for line in lines_of(session, ended))
