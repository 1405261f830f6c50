"""`schedgen calibrate` without a GPU: what is prepared, what a record says, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from schedgen.calibration.measuring import Measured, Record, as_json
from schedgen.cli.app import app
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


def test_a_record(files: Path) -> None:
    status, text = calibrate(files, "-o", str(files / "mine.yaml"))
    assert status == 0
    (line,) = (line for line in text.splitlines() if line.startswith("sum_overhead"))
    assert line.endswith("cycle  off")
    assert "sums of two" in text
    made = read_machine(str(files / "mine.yaml")).constant["sum_overhead"]
    assert 165 < made.low == made.high < 185  # 100 cycles more than the model has
    assert made.certainty == "measured"


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
