"""What the shipped model says of whole launches that were measured on an H200."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.calibration.experiments import Experiment, read_experiments
from schedgen.calibration.measuring import read_record
from schedgen.calibration.predicting import Known, said, solved
from schedgen.machine_file import machine_from, read_machine
from schedgen.spec.source import parse_source

KEPT = Path(__file__).parents[3] / "benchmarks/results/launches.json"
EXPERIMENTS = {one.name: one for one in read_experiments(about="launches")}
GEMM = ("gemm 1024", "gemm 4096", "gemm 8192", "tiles of gemm, all SMs")


@pytest.mark.medium
def test_whole_products_are_within_5_percent_of_what_was_measured() -> None:
    record, machine = read_record(KEPT.read_text("utf-8"), KEPT.name), read_machine("h200")
    solution = solved(EXPERIMENTS[GEMM[0]], machine_from(parse_source(record.model, "record")))
    known: Known = {}
    for name in GEMM:
        found = said(EXPERIMENTS[name], solution, machine, known).expected
        assert found == pytest.approx(record.measured[name].cycles, rel=0.05), name
    assert len(known) == 2 * len(GEMM)


def test_roles_that_take_turns_do_not_begin_together() -> None:
    """Each exp2 begins when it hears that the other warpgroup's is over."""
    machine = read_machine("h200")
    one, two = (
        Experiment("turns", "elementwise", {"warpgroups": str(count)}, pace=pace)
        for count, pace in ((1, ()), (2, ("MUFU",)))
    )
    alone, turns = (said(each, solved(each, machine), machine) for each in (one, two))
    wanted = 2 * (alone.expected + machine.cycles("handoff"))
    assert (turns.in_turn, turns.in_step) == pytest.approx((wanted, wanted))


def test_a_role_that_hands_on_does_not_wait_for_the_one_that_takes() -> None:
    """Their loops have equal steps, but do not begin together."""
    machine = read_machine("h200")
    one = Experiment("parts", "handing", {"parts": "4"})
    found = said(one, solved(one, machine), machine)
    assert found.in_turn == found.in_step
    both = machine.cycles("wait") + machine.cycles("arrive")
    assert 4 * both < found.expected < 8 * both


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemm 2048 of 128 columns", "attention 2048", "attention 4096"])
def test_other_whole_kernels_too(name: str) -> None:
    record = read_record(KEPT.read_text("utf-8"), KEPT.name)
    solution = solved(EXPERIMENTS[name], machine_from(parse_source(record.model, "record")))
    found = said(EXPERIMENTS[name], solution, read_machine("h200")).expected
    assert found == pytest.approx(record.measured[name].cycles, rel=0.06)


def test_loads_from_memory_and_beside_others() -> None:
    record, machine = read_record(KEPT.read_text("utf-8"), KEPT.name), read_machine("h200")
    near = EXPERIMENTS["loads of 8 KiB from memory"]
    solution = solved(near, machine_from(parse_source(record.model, "record")))
    for name in (near.name, "loads of 8 KiB while others load"):
        found = said(EXPERIMENTS[name], solution, machine).expected
        assert found == pytest.approx(record.measured[name].cycles, rel=0.08), name
