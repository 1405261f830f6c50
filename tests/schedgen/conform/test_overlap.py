"""What is beside products, in turns and listings that are made by hand."""

from __future__ import annotations

import pytest

from schedgen.conform.listing import Listing
from schedgen.conform.overlap import Event, Turn, compared_turns, overlap
from schedgen.emulator.ptx.parse import parse

_LETTERS = {
    "m": Event("multiply"),
    "c": Event("close"),
    "0": Event("wait", 0),
    "1": Event("wait", 1),
    "e": Event("special functions"),
    "f": Event("arithmetic"),
}


def turn(text: str) -> Turn:
    """A loop: instructions that multiply (m), ends of groups (c), waits that leave 0 or 1 of them,
    exponentials (e) and arithmetic (f).
    """
    return Turn("here", len(text), tuple(_LETTERS[letter] for letter in text))


@pytest.mark.parametrize(
    ("wanted", "found", "planned", "lost"),
    [
        ("mmceeff0", "mmceeff0", 18, 0),
        ("mmceeff0", "mmc0eeff", 18, 18),  # the wait was moved up
        ("mmceeff0", "mmcff0ee", 18, 16),  # work was moved down
        ("mmceeff0", "eemmcff0", 18, 16),  # or up, in front of the product
        ("mmceeff0", "meemcff0", 18, 8),  # half of the product comes behind it
        ("mmceeff0", "mmceef0", 18, 0),  # two instructions are fused
        ("eff0mmce", "eff0mmce", 18, 0),  # a turn begins anywhere
        ("mcmc1ee0", "mcmc1ee0", 16, 0),  # the first group has nothing, the second one all
        ("mcmc1ee0", "mcmc0ee", 16, 16),  # one wait for both
        ("mceff1", "mceff1", 10, 0),  # a product of the turn before is waited for
        ("mceff1", "mceff0", 10, 0),  # and of this one: the whole turn is beside it all the same
        ("ffmc0", "fmc0f", 0, 0),  # nothing is planned, so nothing is lost
    ],
)
def test_lost(wanted: str, found: str, planned: int, lost: int) -> None:
    result = compared_turns([turn(wanted)], [turn(found)])
    assert not result.unknown
    assert (result.cycles, result.lost_cycles) == (planned, lost)
    assert result.instructions == len(found)


def test_not_comparable() -> None:
    assert "1 loops" in compared_turns([turn("mce0")], []).unknown
    serialized = compared_turns([turn("mmce0")], [turn("mc0mce0")])
    assert "multiplies in another order" in serialized.unknown
    assert "not compared" in serialized.text
    assert not serialized.loops


LISTING = """
.text.kernel:
        /*0000*/                   S2R R0, SR_TID.X ;
        /*0010*/              @!P0 BRA `(.L_x_2) ;
.L_x_1:
        /*0020*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR17], R0 ;
        /*0030*/              @!P0 BRA `(.L_x_3) ;
.L_x_4:
        /*0040*/                   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], RZ, !UPT ;
        /*0050*/                   HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], R24, gsb0 ;
        /*0060*/                   MUFU.EX2 R1, R1 ;
        /*0070*/                   WARPGROUP.DEPBAR.LE gsb0, 0x0 ;
        /*0080*/               @P1 BRA `(.L_x_1) ;
.L_x_2:
        /*0090*/                   EXIT ;
.L_x_3:
        /*00a0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR17], R0 ;
        /*00b0*/               @P0 BRA `(.L_x_4) ;
        /*00c0*/                   BRA `(.L_x_3) ;
"""
KERNEL = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry kernel()
{
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    .reg .f32 %f<34>;
    .reg .b64 %rd<2>;
$L0:
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2}, %rd0, %rd1, 0, 1, 1, 0, 0;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1,%f2}, %rd0, %rd1, 1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    ex2.approx.ftz.f32 %f10, %f11;
    ex2.approx.ftz.f32 %f12, %f13;
    wgmma.wait_group.sync.aligned 0;
    setp.ne.s32 %p1, %r1, %r2;
    @%p1 bra $L0;
    ret;
}
"""


def test_loop_of_a_listing() -> None:
    """Second tests of a phase, behind the code, belong to the loop and make none of their own."""
    (body,) = Listing(LISTING).loops(lambda one: one.opcode == "HGMMA")
    assert [one.address for one in body] == [
        f"0x{at:04x}" for at in (*range(32, 144, 16), *range(160, 208, 16))
    ]


def test_text_beside_listing() -> None:
    """One exponential of two has left the product: the listing has it outside of the loop."""
    (kernel,) = parse(KERNEL, "kernel.ptx").kernels.values()
    found = overlap(kernel, LISTING)
    assert (found.unknown, found.cycles, found.lost_cycles) == ("", 16, 0)
    moved = LISTING.replace("MUFU.EX2 R1, R1 ;\n", "NOP ;\n", 1).replace(
        "HGMMA.64x64x16.F32.BF16 R24, gdesc[UR8], RZ",
        "MUFU.EX2 R1, R1 ;\n /*0041*/ HGMMA.64 R24, RZ",
    )
    found = overlap(kernel, moved)
    assert (found.lost_cycles, found.loops[0].ptx) == (8, "line 12")
    assert "8 of 16 cycles" in found.text
    assert found.data["loops"][0]["products"][0]["lost"] == {"special functions": 1}
