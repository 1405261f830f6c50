"""The order of a listing beside that of the PTX."""

from __future__ import annotations

import pytest

from schedgen.conform.assembly import Entry, disassembler, of_listing, ordered

LISTING = """
        /*05b0*/                   SYNCS.EXCH.64 URZ, [UR17], UR4 ;
        /*09f0*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R3+UR17+0x30], R0 ;
        /*0ae0*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], RZ, !UPT ;
        /*0c10*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR8], R24, gsb0 ;
        /*1020*/                   HGMMA.64x8x16.F16 RZ, gdesc[URZ], RZ, !UPT, gsb0 ;
        /*1030*/                   WARPGROUP.DEPBAR.LE gsb0, 0x1 ;
        /*1080*/              @!P0 SYNCS.ARRIVE.TRANS64.ART0 RZ, [R3+UR17+0x50], R0 ;
        /*8250*/                   DEPBAR.LE SB0, 0x1 ;
        /*9000*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [R3+UR17+0x30], R0 ;
"""
KINDS = [
    *("init", "wait", "wgmma", "wgmma", "close products", "close products"),
    *("wait_group products 0x1", "arrive", "wait_group copies 0x1", "wait"),
]


def _entries(*kinds: str) -> list[Entry]:
    return [Entry(kind, f"line {number}") for number, kind in enumerate(kinds)]


def test_listing() -> None:
    assert [entry.kind for entry in of_listing(LISTING)] == KINDS


def test_arrivals_as_another_assembler_writes_them() -> None:
    """That of CUDA 13 has a form for arrivals of one."""
    other = LISTING.replace("ART0 RZ, [R3+UR17+0x50], R0", "A1T0 RZ, [R3+UR17+0x50], RZ")
    assert other != LISTING
    assert [entry.kind for entry in of_listing(other)] == KINDS


def test_same_order_and_second_tests() -> None:
    found = ordered(_entries(*KINDS[:-1]), list(of_listing(LISTING)))
    assert (found.same, found.moved, found.added) == (len(KINDS) - 1, (), ())


@pytest.mark.parametrize("place", [0, 4, 7])
def test_moved(place: int) -> None:
    """An arrival somewhere else is reported with both places."""
    kinds = [kind for kind in KINDS[:-1] if kind != "arrive"]
    kinds.insert(place, "arrive")
    found = ordered(_entries(*kinds), list(of_listing(LISTING)))
    if kinds == KINDS[:-1]:
        assert not found.moved
    else:
        assert found.moved
        assert found.added


def test_disassembler_is_optional(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_: str) -> None:
        """There is no such program, and no such package."""

    monkeypatch.setattr("shutil.which", nothing)
    monkeypatch.setattr("schedgen.conform.assembly.find_spec", nothing)
    assert disassembler() is None
