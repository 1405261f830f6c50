"""Loops of a listing and the control bits of its instructions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from schedgen.conform.listing import Control, Listing
from tests.schedgen.cycles.listings import LOOP, NONE, WAIT, listing


def test_control_bits() -> None:
    body = Listing(listing(LOOP)).body
    wait = next(one for one in body if "TRYWAIT" in one.name)
    assert wait.control == Control(stall=2, writes=2, reads=-1, waits=(1,))
    assert body[-1].control == Control(stall=5, writes=-1, reads=-1, waits=())


def test_without_encodings_there_are_none() -> None:
    assert Listing("  /*0000*/  EXIT ;").body[0].control is None


def test_a_turn_has_what_each_of_them_executes() -> None:
    (turn,) = Listing(listing(LOOP)).turns()
    names = [one.opcode for one in turn]
    assert names[:3] == ["UMOV", "SYNCS", "BRA"]
    assert names.count("FADD") == 1  # the other one is left out by some


TURN = (
    ".L_x_3:",
    ("LDG.E.STRONG.GPU R5, desc[UR24][R2.64]", 1, 0),
    ("CCTL.IVALL", 1, NONE, NONE, "0"),
    ("ISETP.NE.U32.AND P0, PT, R5, R4, PT", 13),
    ("@P0 BRA `(.L_x_3)", 5),
)
"""Waits for its turn, which a word in global memory tells."""
SHIFTED = (".L_x_4:", ("SHF.L.U32 R5, R6, 0x1f, RZ", 5), WAIT[1], ("@!P0 BRA `(.L_x_4)", 5))


@pytest.mark.parametrize("wait", [TURN, SHIFTED])
def test_a_loop_with_one_that_only_waits_is_the_innermost(
    wait: Sequence[str | tuple[object, ...]],
) -> None:
    (turn,) = Listing(listing((*LOOP[:3], *wait, *LOOP[3:]))).turns()
    assert [one.opcode for one in turn if one.opcode == "LDS"] == ["LDS"]


def test_a_loop_that_reads_a_word_and_works_is_one() -> None:
    works = (*TURN[:-1], ("FADD R8, R8, 1", 4), TURN[-1])
    (turn,) = Listing(listing((*LOOP[:3], *works, *LOOP[3:]))).turns()
    assert [one.opcode for one in turn][-2:] == ["FADD", "BRA"]
    assert "LDS" not in [one.opcode for one in turn]


def test_loops_that_only_wait_are_none() -> None:
    assert len(Listing(listing(LOOP)).turns()) == 1
    assert not Listing(listing((*LOOP[3:6], ("EXIT", 5)))).turns()
