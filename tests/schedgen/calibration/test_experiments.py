"""The shipped experiments, and files of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.calibration.experiments import read_experiments
from schedgen.errors import SpecError
from schedgen.machine_file import read_machine


def test_shipped_experiments_fit_constants_of_the_model() -> None:
    experiments = read_experiments()
    names = [one.name for one in experiments]
    assert len(set(names)) == len(names)
    fitted = {one.fits for one in experiments if one.fits is not None}
    assert fitted <= set(read_machine("h200").constant)
    assert {"handoff", "tma_base", "register_share"} <= fitted
    for one in experiments:
        assert one.trips[0] < one.trips[1]
        assert set(one.settings) <= set(one.read().file.parameters)


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("experiments:\n  - {name: x, spec: rows, set: {columns: 64}, trips: [1, 2]}\n")
    (one,) = read_experiments(path)
    assert (one.spec, one.settings, one.trips, one.fits) == (
        "rows",
        {"columns": "64"},
        (1, 2),
        None,
    )


def test_a_wrong_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("experiments:\n  - {name: x, spek: rows}\n")
    with pytest.raises(SpecError, match=r"mine.yaml:2:\d+: error\[unknown-key\]"):
        read_experiments(path)
