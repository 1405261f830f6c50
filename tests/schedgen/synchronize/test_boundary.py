"""Masks of peeled iterations go with what computes the same rows, not with another band of them."""

from __future__ import annotations

import pytest

from schedgen.program.model import Run
from schedgen.proof.graph import prove
from tests.schedgen.synchronize.test_late import made, solved


@pytest.mark.medium
@pytest.mark.parametrize("causal", ["false", "true"])
def test_masks_of_bands_are_executed_by_those_who_hold_them(causal: str) -> None:
    """Here a mask has parts, and bands of each: what follows in the list is another band."""
    solution = solved("attention_bwd_q", head_dim="64", causal=causal)
    program = made(solution)
    for role in program.roles:
        runs = (step.action for step in role.steps)
        names = [action.operation for action in runs if isinstance(action, Run)]
        bands = {name[-2] for name in names if name.startswith(("EXP", "MASK"))}
        assert len(bands) in (0, 1)
    assert not prove(program).findings


@pytest.mark.medium
def test_a_mask_comes_before_who_reads_first_not_who_is_listed_first() -> None:
    """Of two readers of exponentials the schedule has the second one of the spec first."""
    solution = solved("attention_bwd_kv", head_dim="96", causal="true")
    start = {one.id: one.start for one in solution.schedule.ops}
    assert start["GRAD[0,0]"] < start["CVT[0,0]"]
    program = made(solution)
    for role in program.roles:
        runs = [step.action for step in role.steps]
        names = [action.operation for action in runs if isinstance(action, Run)]
        for band in "01":
            if f"MASK[0,{band}]" in names:
                assert names.index(f"MASK[0,{band}]") < names.index(f"GRAD[0,{band}]")
    assert not prove(program).findings
