"""Constants come out as they were put in; what says nothing of a constant leaves it as it is."""

from __future__ import annotations

from fractions import Fraction

import pytest

from schedgen.calibration.experiments import Experiment, read_experiments
from schedgen.calibration.fitting import compare, fitted, rounded, with_fits
from schedgen.calibration.predicting import predicted, solved
from schedgen.driver.found import Solution
from schedgen.errors import SchedgenError
from schedgen.machine import Machine
from schedgen.machine_constants import middles, with_constants
from schedgen.machine_file import read_machine

NAMES = ("row sums", "row sums of two warpgroups", "a product and what needs it")


@pytest.fixture(scope="module")
def machine() -> Machine:
    return middles(read_machine("h200"))


@pytest.fixture(scope="module")
def experiments() -> dict[str, Experiment]:
    return {one.name: one for one in read_experiments() if one.name in NAMES}


@pytest.fixture(scope="module")
def solutions(experiments: dict[str, Experiment], machine: Machine) -> dict[str, Solution]:
    return {name: solved(one, machine) for name, one in experiments.items()}


@pytest.mark.medium
def test_what_was_put_in_comes_out(
    experiments: dict[str, Experiment], solutions: dict[str, Solution], machine: Machine
) -> None:
    """Cycles of a machine with slower sums and products: the fit finds both."""
    slower = with_constants(
        machine,
        {c.name: c.low for c in machine.constants}
        | {"sum_overhead": Fraction(150), "mma_base": Fraction(200)},
    )
    measured = {name: predicted(found, slower).expected for name, found in solutions.items()}
    fits = fitted(list(experiments.values()), measured, solutions, machine)
    found = {fit.constant: fit for fit in fits}
    assert set(found) == {"sum_overhead", "mma_base"}
    assert float(found["sum_overhead"].low) == pytest.approx(150, abs=1)
    assert float(found["mma_base"].high) == pytest.approx(200, abs=1)
    assert all(fit.outside and not fit.reason for fit in fits)
    now = with_fits(machine, fits)
    for one in compare(list(experiments.values()), measured, solutions, machine, now):
        assert abs(one.error) < 0.01
        assert one.before.expected < one.measured


@pytest.mark.medium
def test_what_is_right_is_kept(
    experiments: dict[str, Experiment], solutions: dict[str, Solution], machine: Machine
) -> None:
    measured = {name: predicted(found, machine).expected for name, found in solutions.items()}
    for fit in fitted(list(experiments.values()), measured, solutions, machine):
        assert fit.reason.startswith("kept (measured)")
        assert (fit.low, fit.high) == fit.before
        assert not fit.outside


def test_an_experiment_that_says_nothing(
    experiments: dict[str, Experiment], solutions: dict[str, Solution], machine: Machine
) -> None:
    name = "row sums"
    one = Experiment(name, "rows", experiments[name].settings, fits="tma_base")
    (fit,) = fitted([one], {name: 215.0}, solutions, machine)
    assert "does not depend on it" in fit.reason
    assert (fit.low, fit.high) == fit.before


@pytest.mark.medium
def test_no_value_gives_what_was_measured(
    experiments: dict[str, Experiment], solutions: dict[str, Solution], machine: Machine
) -> None:
    name = "row sums"
    (fit,) = fitted([experiments[name]], {name: 20.0}, solutions, machine)
    assert "no value comes nearer" in fit.reason


def test_no_such_constant(solutions: dict[str, Solution], machine: Machine) -> None:
    one = Experiment("row sums", "rows", fits="speed")
    with pytest.raises(SchedgenError, match="fits 'speed', which h200 does not have; fix: one of"):
        fitted([one], {"row sums": 1.0}, solutions, machine)


def test_roles_in_step_take_longer_than_in_turn(
    solutions: dict[str, Solution], machine: Machine
) -> None:
    found = predicted(solutions["row sums of two warpgroups"], machine)
    assert found.in_turn < found.expected < found.in_step
    alone = predicted(solutions["row sums"], machine)
    assert alone.in_turn == alone.in_step < found.in_step


def test_rounded() -> None:
    assert rounded(Fraction(1234567, 1000)) == 1230
    assert rounded(Fraction(1, 3)) == Fraction("0.333")
