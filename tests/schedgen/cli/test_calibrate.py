"""`schedgen calibrate` without a GPU: what is prepared, what a record says, what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from schedgen.calibration import measuring
from schedgen.calibration.measuring import Measured, Record, as_json, read_record
from schedgen.calibration.preparing import prepared
from schedgen.cli.app import app
from schedgen.kernels import recording
from schedgen.machine_file import machine_text, read_machine

RUN = CliRunner()
EXPERIMENTS = """
experiments:
  - {name: sums, spec: rows, set: {reduction: sum}, fits: sum_overhead}
  - {name: sums of two, spec: rows, set: {reduction: sum, warpgroups: 2}}
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "experiments.yaml").write_text(EXPERIMENTS)
    measured = {"sums": Measured(315, 314, 316), "sums of two": Measured(430, 420, 440)}
    record = Record("a GPU", "torch", "2026-11-24", 1800.0, machine_text("h200"), measured)
    (tmp_path / "record.json").write_text(as_json(record))
    return tmp_path


def calibrate(files: Path, *arguments: str, record: bool = True) -> tuple[int, str]:
    more = ["--record", str(files / "record.json")] if record else []
    run = RUN.invoke(
        app, ["calibrate", "--experiments", str(files / "experiments.yaml"), *more, *arguments]
    )
    return run.exit_code, run.output


@pytest.mark.medium
def test_a_record(files: Path) -> None:
    status, text = calibrate(files, "-o", str(files / "mine.yaml"))
    assert status == 0
    (line,) = (line for line in text.splitlines() if line.startswith("sum_overhead"))
    assert line.endswith("cycle  off")
    assert "sums of two" in text
    made = read_machine(str(files / "mine.yaml")).constant["sum_overhead"]
    assert 165 < made.low == made.high < 185  # 100 cycles more than the model has
    assert made.certainty == "measured"


@pytest.mark.medium
def test_json(files: Path) -> None:
    status, text = calibrate(files, "--json")
    assert status == 0
    data = json.loads(text[text.index("{") :])
    assert [one["name"] for one in data["experiments"]] == ["sums", "sums of two"]
    assert abs(data["experiments"][0]["error"]) < 0.01
    assert [one["off"] for one in data["constants"]] == [True]


def test_refused_experiments(files: Path) -> None:
    (files / "experiments.yaml").write_text(
        "experiments:\n  - {name: misspelt, spec: rows, set: {colums: 64}}\n"
        "  - {name: sums, spec: rows, set: {reduction: sum}}\n"
    )
    status, text = calibrate(files, "--prepare", str(files / "made"), record=False)
    assert status == 2
    assert "1 kernels in" in text
    assert "1 of 2 experiments is refused" in text
    assert "experiment 'misspelt': --set colums: " in text


def test_no_gpu(files: Path) -> None:
    status, text = calibrate(files, record=False)
    assert status == 1
    assert "'schedgen calibrate --record FILE'" in text


def test_no_record(files: Path) -> None:
    (files / "record.json").write_text("{}")
    status, text = calibrate(files)
    assert status == 2
    assert "this is no record of a calibration" in text


def test_another_machine(files: Path) -> None:
    status, text = calibrate(files, "-t", "b200")
    assert status == 2
    assert "no experiment is written for b200" in text


LAUNCHES = """
experiments:
  - {name: sums, spec: rows, set: {reduction: sum}, fits: sum_overhead}
  - {name: nothing, spec: nothing, trips: 1, launches: [50, 350], fits: launch}
  - {name: tiles, spec: gemm, scalars: {beta: 0}, trips: 16, sizes: {m: [1024, 5120]}, sms: 1,
     fits: next_tile}
"""


@pytest.fixture
def launches(files: Path) -> Path:
    """A launch takes 5000 cycles, of which the program of `nothing` needs about 600."""
    (files / "experiments.yaml").write_text(LAUNCHES)
    measured = {"nothing": Measured(5000, 4990, 5010), "tiles": Measured(21000, 20900, 21100)}
    record = Record("a GPU", "torch", "2026-11-24", 1800.0, machine_text("h200"), measured)
    (files / "record.json").write_text(as_json(record))
    return files


@pytest.mark.medium
def test_constants_of_launches(launches: Path) -> None:
    status, text = calibrate(launches, "--only", "launches", "-o", str(launches / "mine.yaml"))
    assert status == 0
    (line,) = (line for line in text.splitlines() if line.startswith("tiles "))
    assert " 21000.0 " in line
    assert line.endswith("0.0%")
    made = read_machine(str(launches / "mine.yaml"))
    assert 4200 < made.value("launch") < 4600
    assert 1500 < made.value("next_tile") < 3000
    assert made.constant["launch"].certainty == "measured"
    assert made.sha256 == read_machine("h200").sha256


def test_experiments_about_iterations_only(launches: Path) -> None:
    (launches / "record.json").unlink()
    status, text = calibrate(
        launches, "--only", "iterations", "--prepare", str(launches / "made"), record=False
    )
    assert status == 0
    assert "1 kernels in" in text
    (launches / "experiments.yaml").write_text(EXPERIMENTS)
    status, text = calibrate(
        launches, "--only", "launches", "--prepare", str(launches / "made"), record=False
    )
    assert status == 2
    assert "there are no such experiments; fix: leave --only away" in text


@pytest.mark.medium
def test_an_experiment_that_does_not_run(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was measured is printed and kept, and the exit status says that it is not all."""
    calibrate(files, "--prepare", str(files / "made"), record=False)
    made = read_record((files / "record.json").read_text(), "record.json")
    record = replace(made, failed={"sums of two": "it was not launched: CUDA error 1"})
    monkeypatch.setattr(recording, "check_device", lambda then: None)  # pyright: ignore
    monkeypatch.setattr(measuring, "measure", lambda *arguments: record)  # pyright: ignore
    kept = files / "kept.json"
    status, text = calibrate(files, "--run", str(files / "made"), "--keep", str(kept), record=False)
    assert status == 1
    assert "  sums " in text
    assert "experiment 'sums of two' was not measured: it was not launched: CUDA error 1" in text
    assert read_record(kept.read_text(), "kept.json") == record


def test_shipped_kernels_are_no_list_of_experiments(files: Path) -> None:
    status, text = calibrate(files, "--only", "kernels")
    assert status == 2
    assert "--only kernels are shipped ones; fix: leave --experiments away" in text


def test_names_are_of_shipped_kernels(files: Path) -> None:
    status, text = calibrate(files, "--kernel", "gemm", "--only", "iterations")
    assert status == 2
    assert "--kernel names shipped kernels; fix: --only kernels beside it" in text


def test_what_was_prepared_is_run_whole(files: Path) -> None:
    options = ["--only", "kernels", "--kernel", "gemm", "--run", str(files)]
    run = RUN.invoke(app, ["calibrate", *options])
    assert run.exit_code == 2
    assert "--kernel is of what is prepared; fix: leave it, or --run, away" in run.output


def test_one_shipped_kernel(tmp_path: Path) -> None:
    options = ["--only", "kernels", "--kernel", "gemm tile_n=128", "--prepare", str(tmp_path)]
    run = RUN.invoke(app, ["calibrate", *options])
    assert run.exit_code == 0, run.output
    (one,) = prepared(tmp_path).kernels
    assert one.name == "gemm tile_n=128"


def test_nothing_is_fitted_to_shipped_kernels(files: Path) -> None:
    run = RUN.invoke(
        app, ["calibrate", "--only", "kernels", "--record", str(files / "record.json")]
    )
    assert run.exit_code == 0, run.output
    assert "sums of two" in run.output
    assert "constant" not in run.output
