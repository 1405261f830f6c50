"""`schedgen check`, program files and what `solve` says about the proof."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from schedgen.cli.app import app


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=text)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("solved")
    schedule, program = folder / "s.json", folder / "p.json"
    result = run(
        "solve", "gemm_chain", "-t", "h200", "-o", str(schedule), "--program", str(program)
    )
    assert result.exit_code == 0
    assert "race-free, deadlock-free, phase-safe" in result.stdout
    return schedule, program


@pytest.mark.medium
def test_solve_reports_the_proof() -> None:
    found = json.loads(run("solve", "gemm_chain", "-t", "h200", "--json").stdout)
    proof = found["proof"]
    for claim in ("race_free", "deadlock_free", "phase_safe", "counts_consistent", "capacities"):
        assert proof[claim] is True
    assert proof["unbounded"]
    assert proof["methods_agree"]
    assert set(proof["seconds"]) == {"graph", "execution"}
    row = found["barriers"][0]
    assert set(row) >= {"name", "kind", "producer", "consumer", "count", "bytes", "depth"}
    assert row["protects"]
    assert found["program_cycles"]["high"] >= found["program_cycles"]["low"] > 0


@pytest.mark.medium
def test_check_takes_schedules_and_programs(files: tuple[Path, Path]) -> None:
    schedule, program = files
    for file, methods in ((schedule, ["graph"]), (program, ["graph", "z3", "execution"])):
        options = [option for method in methods for option in ("--method", method)]
        result = run("check", str(file), *options)
        assert result.exit_code == 0
        assert "proven" in result.stdout
        for method in methods:
            assert f"  {method}" in result.stdout


@pytest.mark.medium
def test_a_missing_wait_is_refuted_with_a_witness(files: tuple[Path, Path], tmp_path: Path) -> None:
    data = json.loads(files[1].read_text())
    role = next(r for r in data["roles"] if any(s["action"]["do"] == "wait" for s in r["loop"]))
    place = next(n for n, s in enumerate(role["loop"]) if s["action"]["do"] == "wait")
    del role["loop"][place]
    bad = tmp_path / "bad.json"
    bad.write_text(json.dumps(data))
    result = run("check", str(bad), "--method", "graph", "--method", "execution")
    assert result.exit_code == 1
    assert "REFUTED" in result.stdout
    assert "race_free (execution)" in result.stdout
    assert "tile 0, iteration" in result.stdout
    found = json.loads(run("check", str(bad), "--method", "execution", "--json").stdout)
    assert not found["proven"]
    assert any(finding["witness"] for finding in found["findings"])
    reasons = [reason for one in found["within_roles"] for reason in one["reasons"]]
    assert {"kind", "subjects", "text"} == set(reasons[0])
    assert "same_threads" in {reason["kind"] for reason in reasons}


def test_programs_are_shown(files: tuple[Path, Path]) -> None:
    from_program = run("show", "--program", str(files[1]))
    assert from_program.exit_code == 0
    assert from_program.stdout == run("show", "--program", str(files[0])).stdout
    assert "barriers" in from_program.stdout


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense", "not JSON"),
        ('{"program_format": 7}', "program format 7"),
        ("{}", "not a schedule"),
    ],
)
def test_bad_files_exit_with_2(text: str, words: str) -> None:
    result = run("check", "-", text=text)
    assert result.exit_code == 2
    assert words in result.output


def test_unknown_method_and_missing_file(tmp_path: Path) -> None:
    assert run("check", str(tmp_path / "none.json")).exit_code == 2
    result = run("check", "-", "--method", "guess", text="{}")
    assert result.exit_code == 2
    assert "use graph, z3, execution" in result.output


def test_a_changed_spec_is_noticed(files: tuple[Path, Path], tmp_path: Path) -> None:
    data = json.loads(files[0].read_text())
    data["spec_sha256"] = "0" * 64
    file = tmp_path / "old.json"
    file.write_text(json.dumps(data))
    result = run("check", str(file))
    assert result.exit_code == 2
    assert "the spec has changed" in result.output


@pytest.mark.medium
def test_orders_of_pace(files: tuple[Path, Path]) -> None:
    schedule, program = map(str, files)
    assert run("check", schedule, "--pace", "TENSOR", "--method", "graph").exit_code == 0
    refused = run("check", program, "--pace", "TENSOR")
    assert (refused.exit_code, "give the schedule" in refused.stderr) == (2, True)
    shown = run("show", schedule, "--program", "--pace", "TENSOR")
    assert "pace: PC[0] is issued after PC[1], as planned for TENSOR" in shown.stdout
    assert run("show", schedule, "--pace", "TENSOR").exit_code == 2
    solved = run("solve", "gemm_chain", "-t", "h200", "--pace", "TENSOR")
    assert "9 barriers in 17 mbarriers, 4 to keep the order on TENSOR" in solved.stdout
