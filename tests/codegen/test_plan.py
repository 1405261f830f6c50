"""What an emitter looks up: parts of regions, warps, registers, words."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from schedgen.codegen.errors import EmitError
from schedgen.kernel import Space
from tests.codegen.examples import GEMM, plan_of

PLAN = plan_of("gemm", "b200", **GEMM)


def test_warps() -> None:
    """Warpgroups begin at multiples of four, the block is made of whole ones."""
    program, first = PLAN.program, PLAN.first_warp
    used = [range(first[r.name], first[r.name] + r.warps) for r in program.roles]
    assert sorted(warp for warps in used for warp in warps) == list(
        range(sum(role.warps for role in program.roles))
    )
    assert all(first[role.name] % 4 == 0 for role in program.roles if role.warps == 4)
    assert PLAN.warps % 4 == 0


def test_registers() -> None:
    """In steps of 8, enough for every role of the warpgroup, and no more than there are."""
    for role in PLAN.program.roles:
        assert PLAN.available_registers(role) % 8 == 0
        assert PLAN.available_registers(role) >= max(24, role.registers)
    assert 32 * PLAN.warps * PLAN.entry_registers <= 65536
    assert any(role.enter for role in PLAN.program.roles) == any(
        role.registers > PLAN.entry_registers for role in PLAN.program.roles
    )


def test_words_of_barriers() -> None:
    words = PLAN.mbarriers
    taken = [
        word
        for barrier in PLAN.program.barriers
        for word in range(words[barrier.name], words[barrier.name] + barrier.slots)
    ]
    assert taken == list(range(PLAN.words))
    PLAN.check_words(0)
    with pytest.raises(EmitError, match="words of barriers do not fit before the buffers"):
        PLAN.check_words(1024)


def test_shared_memory() -> None:
    """Views do not overlap and end where the block's shared memory does."""
    views = sorted(set(PLAN.views.values()), key=lambda view: view.address)
    for view, after in pairwise(views):
        assert view.address + view.slots * view.stride <= after.address
    assert views[-1].address + views[-1].slots * views[-1].stride == PLAN.shared_bytes


def test_parts() -> None:
    pieces = PLAN.kernel.pieces
    halves = [piece for piece in pieces if PLAN.kernel.region[piece.region].base == "acc"]
    assert len(halves) == 2
    whole = PLAN.covered(halves)
    assert (whole.rows, whole.columns) == (128, 32)
    second = PLAN.covered(halves[1:])
    assert (second.column0, second.column1) == (16, 32)


def test_parts_are_rectangles() -> None:
    """Opposite corners of a region cover half of what lies between them."""
    piece = next(p for p in PLAN.kernel.pieces if PLAN.kernel.region_of(p.name).space is Space.TMEM)
    middle = (piece.byte0 + piece.byte1) // 2
    corners = [replace(piece, row1=64, byte1=middle), replace(piece, row0=64, byte0=middle)]
    with pytest.raises(EmitError, match="do not make up a rectangle"):
        PLAN.covered(corners)
