"""`schedgen trace`, as a user meets it where there is no GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from schedgen.cli.app import app
from schedgen.cli.trace import default_extents
from schedgen.codegen.event_table import read_events
from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec
from tests.visualize.records import LATE, made, record_of, text_of

SPEC = ("gemm", "h200")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    schedule, program = made(*SPEC)
    path = tmp_path_factory.mktemp("trace") / "record.json"
    path.write_text(text_of(record_of(schedule, program, [schedule.tile.trips] * 2)), "utf-8")
    path.with_name("schedule.json").write_text(schedule.to_json(), "utf-8")
    return path


def test_without_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    result = run("trace", *SPEC[:1])
    assert result.exit_code == 1
    assert "recording needs a GPU, and torch finds none; fix: run this on" in result.stderr


def test_table_and_trace(record: Path, tmp_path: Path) -> None:
    output = tmp_path / "trace.json"
    result = run("trace", "gemm", "-t", "h200", "--record", str(record), "-o", str(output))
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("gemm on h200, measured on a synthetic GPU")
    assert json.loads(output.read_text("utf-8"))["otherData"]["device"] == "a synthetic GPU"


def test_data_from_the_file_of_a_schedule(record: Path) -> None:
    schedule = record.with_name("schedule.json")
    result = run("trace", str(schedule), "--record", str(record), "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert {row["difference"] for row in rows if row["kind"] == "operation"} == {LATE}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gemm", "-t", "h200", "--record", "missing.json"], "missing.json: No such file"),
        (["missing.json", "--record", "RECORD"], "missing.json: No such file"),
        (["gemm", "-t", "b200", "--record", "RECORD"], "the record is of another schedule"),
        (["gemm", "-t", "h200", "--record", "SCHEDULE"], "this JSON is no record of events"),
        (["RECORD", "--record", "RECORD"], "this JSON is not a schedule"),
        (["gemm", "--scalar", "alpha=x"], "--scalar alpha=x: 'x' is not a number"),
        (["gemm", "--extent", "m=x"], "--extent: 'x' is not a whole number"),
    ],
)
def test_bad_input(record: Path, arguments: list[str], message: str) -> None:
    named = {"RECORD": str(record), "SCHEDULE": str(record.with_name("schedule.json"))}
    result = run("trace", *(named.get(argument, argument) for argument in arguments))
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.slow
def test_emit_with_events(tmp_path: Path) -> None:
    result = run("emit", "gemm_chain", "-t", "h200", "--events", "-o", str(tmp_path))
    assert result.exit_code == 0, result.output
    (path,) = tmp_path.iterdir()
    assert path.name == "gemm_chain_sm_90a_events.py"
    assert {event.name for event in read_events(path).events} >= {"AB[0]", "EPI[1]"}


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("gemm", {"batch": 4, "m": 4096, "n": 4096, "k": 4096}),
        (
            "attention_fwd",
            {"batch": 4, "seq_q": 4096, "seq_k": 4096, "heads": 4, "head_dim": 128},
        ),
    ],
)
def test_default_extents(spec: str, wanted: dict[str, int]) -> None:
    solution = solve(read_spec(spec), read_machine("h200"))
    kernel, schedule = solution.problem.kernel, solution.schedule
    found = default_extents(kernel, schedule, {})
    assert {name: found[name] for name in wanted} == wanted
    assert default_extents(kernel, schedule, {"batch": 1})["batch"] == 1
