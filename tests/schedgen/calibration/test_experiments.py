"""The shipped experiments, and files of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.calibration.experiments import Manner, read_experiments
from schedgen.errors import SpecError
from schedgen.machine_file import read_machine


@pytest.mark.medium
def test_shipped_experiments_fit_constants_of_the_model() -> None:
    experiments = read_experiments()
    names = [one.name for one in experiments]
    assert len(set(names)) == len(names)
    fitted = {one.fits for one in experiments if one.fits is not None}
    assert fitted <= set(read_machine("h200").constant)
    assert {"handoff", "tma_base", "register_share"} <= fitted
    for one in experiments:
        assert one.whole == (one in read_experiments(about="launches"))
        assert one.whole or one.trips[0] < one.trips[1]
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


def test_roles_that_are_kept_to_their_order(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("experiments:\n  - {name: x, spec: elementwise, pace: [MUFU]}\n")
    assert [one.pace for one in read_experiments(path)] == [("MUFU",)]


def test_a_wrong_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("experiments:\n  - {name: x, spek: rows}\n")
    with pytest.raises(SpecError, match=r"mine.yaml:2:\d+: error\[unknown-key\]"):
        read_experiments(path)


def test_a_file_of_launches(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "experiments:\n"
        "  - {name: x, spec: rows, trips: 4, sizes: {rows: [64, 640]}, sms: 1, l2: cold}\n"
        "  - {name: y, spec: rows, trips: 4, launches: [1, 9], called: in a graph, beside: x}\n"
        "  - {name: z, spec: gemm, scalars: {beta: 0}}\n"
    )
    x, y, z = read_experiments(path)
    assert (x.trips, x.sizes, x.per) == ((4, 4), {"rows": (64, 640)}, "tile")
    assert x.manner == Manner(sms=1, cold=True)
    assert (y.launches, y.per, y.manner) == ((1, 9), "launch", Manner(graph=True, beside="x"))
    assert (z.per, z.manner.scalars) == ("iteration", {"beta": 0.0})
    assert read_experiments(path, "iterations") == ()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("trips: 4", "'x' has no two runs that differ(.|\n)*fix: two numbers of trips"),
        (
            "trips: [8, 4]",
            r"\[8, 4\] is neither a number nor two that grow(.|\n)*fix: write trips: 8",
        ),
        ("launches: [1, 2, 3]", "neither a number nor two that grow"),
        ("sizes: {rows: 0}", "0 is neither a number"),
    ],
)
def test_runs_that_do_not_differ(tmp_path: Path, keys: str, message: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(f"experiments:\n  - {{name: x, spec: rows, {keys}}}\n")
    with pytest.raises(SpecError, match=rf"mine.yaml:2:\d+: error(.|\n)*{message}"):
        read_experiments(path)
