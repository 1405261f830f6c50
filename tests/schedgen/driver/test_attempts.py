"""Which attempt at a kernel is taken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from schedgen.cli.tried import tried_text
from schedgen.codegen.compiling import Built
from schedgen.codegen.facts import Facts, RoleFacts
from schedgen.codegen.report import Report
from schedgen.codegen.style import Style
from schedgen.conform.overlap import LoopOverlap, Lost, Overlap
from schedgen.driver.attempts import Attempt, best
from schedgen.driver.variations import Variation, otherwise

_NOWHERE = Path("nowhere")
GOOD = Report(
    Facts("k", "sm_90a", (), (), (RoleFacts("r", 4, 100),), 1, 1, 0, ""),
    Built(_NOWHERE, _NOWHERE, _NOWHERE), 168, (), 0,
)  # fmt: skip


def overlap(planned: int, lost: int, instructions: int = 100) -> Overlap:
    """So many cycles of arithmetic."""
    one = Lost(0, (("arithmetic", planned),), (("arithmetic", lost),))
    return Overlap((LoopOverlap("line 1", "0x10", instructions, (one,)),))


def attempt(found: Overlap | None, **changes: object) -> Attempt:
    return Attempt(Variation(), replace(GOOD, **changes), found)  # type: ignore[arg-type]


def timed(cycles: float | None, lost: int) -> Attempt:
    return replace(attempt(overlap(100, lost)), cycles=cycles)


def hasty(one: Attempt) -> Attempt:
    return replace(one, variation=Variation(style=Style(prompt=True)))


SPILLS = attempt(None, local_bytes=8)
DIFFERS = replace(attempt(overlap(100, 0)), differences=("another",))


@pytest.mark.parametrize(
    ("attempts", "taken"),
    [
        ([SPILLS], None),
        ([attempt(None, serialized=True), DIFFERS], None),
        ([SPILLS, attempt(overlap(100, 100))], 1),
        ([attempt(overlap(100, 60)), attempt(overlap(100, 50)), SPILLS], 1),
        ([attempt(overlap(100, 60)), DIFFERS], 0),
        # One that plans less keeps less.
        ([attempt(overlap(100, 60)), attempt(overlap(10, 0))], 0),
        ([attempt(overlap(100, 60)), attempt(overlap(150, 50))], 1),
        # Single instructions are not lost, then the fewest instructions decide, then the order.
        ([attempt(overlap(100, 1, 90)), attempt(overlap(100, 0, 95))], 0),
        ([attempt(overlap(100, 1, 95)), attempt(overlap(100, 2, 90))], 1),
        ([attempt(overlap(100, 5)), attempt(overlap(100, 5))], 0),
        # Cycles of machine code come first, if all are known and they differ.
        ([timed(1000, 0), timed(900, 50)], 1),
        ([timed(1000, 50), timed(995, 0)], 1),
        ([timed(1000, 0), timed(995, 50)], 0),
        ([timed(None, 0), timed(900, 50)], 0),
        ([timed(1000, 0), hasty(timed(991, 0))], 0),
        ([timed(1000, 0), hasty(timed(989, 0))], 1),
        ([replace(timed(800, 0), differences=("another",)), timed(900, 50)], 1),
        # What cannot be compared comes last.
        ([attempt(None), attempt(None)], 0),
        ([attempt(Overlap((), "why")), attempt(overlap(100, 100))], 1),
    ],
)
def test_best(attempts: list[Attempt], taken: int | None) -> None:
    assert best(attempts) == taken


def test_roles_that_share_instructions() -> None:
    """They have one loop instead of two, which has what one of those had."""
    two = Overlap((*overlap(100, 0).loops, *overlap(100, 0).loops))
    assert best([attempt(two), attempt(overlap(100, 1))]) == 1
    assert best([attempt(two), attempt(overlap(90, 0))]) == 0
    assert best([attempt(two), attempt(overlap(100, 0, 250))]) == 0


def test_keeps() -> None:
    assert attempt(None).keeps
    assert attempt(overlap(100, 2)).keeps
    assert not attempt(overlap(100, 3)).keeps
    assert not attempt(Overlap((), "why")).keeps


def test_variations_of_one_schedule() -> None:
    """They are few, in a fixed order, and none is the one that there is."""
    one = Variation(16)
    others = list(otherwise(one))
    assert one not in others
    assert len(set(others)) == len(others) == 3
    assert {other.more_registers for other in others} == {16}
    assert others == list(otherwise(one))


def test_what_is_told() -> None:
    """Each attempt with what came of it, and why one was chosen."""
    first = attempt(overlap(100, 60))
    blocks = replace(attempt(overlap(100, 0)), variation=Variation(style=Style(blocks=True)))
    lines = tried_text([SPILLS, first, replace(blocks, chosen=True)])
    assert "spilled to 8 bytes" in lines[0]
    assert "as it was planned: 60 of 100 cycles" in lines[1]
    assert "blocks behind products: 0 of 100 cycles" in lines[2]
    assert "blocks behind products: it keeps what was planned" in lines[3]
    (only,) = tried_text([replace(attempt(None), chosen=True)])
    assert "nvidia-cuda-nvdisasm" in only
    assert tried_text([replace(attempt(Overlap(())), chosen=True)]) == []
