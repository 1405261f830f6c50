"""Names and comments that several have in common."""

from __future__ import annotations

import pytest

from schedgen.codegen.generalize import common_comment, common_name, distinct_name


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (("sQ_0", "sQ_1"), "sQ"),
        (("softmax0", "softmax1"), "softmax"),
        (("bar_sQ_0_full", "bar_sQ_1_full"), "bar_sQ_full"),
        (("mma_PV_0_0", "mma_PV_1_0"), "mma_PV_0"),
        (("bar_sO_0_full_sAlpha_0_empty", "bar_sO_1_full"), "bar_sO_full"),
        (("STD_0", "STD_1", "STD_2"), "STD"),
        (("a", "b"), "a"),
        (("x_0_1", "x_2"), "x"),
    ],
)
def test_common_name(names: tuple[str, ...], wanted: str) -> None:
    assert common_name(names) == wanted


def test_distinct_name() -> None:
    """Not one that is taken, nor one that means something in every file."""
    assert distinct_name("sQ", {"sK"}) == "sQ"
    assert distinct_name("sQ", {"sQ", "sQ_2"}) == "sQ_3"
    assert distinct_name("pin", set()) == "pin_2"
    assert distinct_name("in", set()) == "in_2"


@pytest.mark.parametrize(
    ("comments", "wanted"),
    [
        (("QK[0] uses sQ[0]", "QK[1] uses sQ[1]"), "QK uses sQ"),
        (("EXP[0,1]: softmax", "EXP[1,1]: softmax"), "EXP[1]: softmax"),
        (("EXP[1,0]", "EXP[1,1]"), "EXP[1]"),
        (
            ("turn 0: the pipeline fills", "turn 0: the pipeline fills"),
            "turn 0: the pipeline fills",
        ),
        (("QK[0] uses kv", "PV[0] uses kv"), "QK[0] uses kv; PV[0] uses kv"),
    ],
)
def test_common_comment(comments: tuple[str, ...], wanted: str) -> None:
    assert common_comment(comments) == wanted
