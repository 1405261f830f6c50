"""Loops of a listing and the control bits of its instructions."""

from __future__ import annotations

from schedgen.conform.listing import Control, Listing
from tests.schedgen.cycles.listings import LOOP, listing


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


def test_loops_that_only_wait_are_none() -> None:
    assert len(Listing(listing(LOOP)).turns()) == 1
    assert not Listing(listing((*LOOP[3:6], ("EXIT", 5)))).turns()
