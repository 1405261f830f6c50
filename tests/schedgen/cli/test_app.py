"""The command line as a user meets it: output, exit status, files."""

import json
import os
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import pytest
from typer.testing import CliRunner, Result

from schedgen.cli.app import app

KEYS = {
    *("kernel", "target", "spec_sha256", "ii_cycles", "lower_bound_cycles", "proven_optimal"),
    *("certificate", "max_cycle_ratio_cycles", "solve_seconds", "stages"),
    *("ops", "units", "edges", "roles", "buffers"),
}


def run(*arguments: str, text: str | None = None) -> Result:
    return CliRunner().invoke(app, list(arguments), input=text)


@pytest.mark.medium
def test_json_has_what_tools_need() -> None:
    result = run("solve", "fa4_unit", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert set(found) >= KEYS
    assert (found["ii_cycles"], found["stages"], found["proven_optimal"]) == (4, 2, True)
    assert found["certificate"]["kind"] == "resource"
    assert set(found["ops"][0]) >= {"id", "unit", "role", "start", "cycles", "latency"}
    assert set(found["edges"][0]) >= {"src", "dst", "distance", "class", "resource", "bytes"}
    assert set(found["units"][0]) >= {"name", "busy", "utilization"}
    assert set(found["roles"][0]) >= {"name", "warps", "registers"}
    assert set(found["buffers"][0]) >= {"name", "space", "bytes", "depth", "address", "alias"}


@pytest.mark.medium
def test_summary_is_for_people() -> None:
    result = run("solve", "gemm", "--target", "b200")
    assert result.exit_code == 0
    assert "II           512 cycles per iteration, proven optimal" in result.stdout
    assert "not measured" in result.stdout


@pytest.mark.medium
def test_written_schedule_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "s.json"
    assert run("solve", "attention_fwd", "-t", "h200", "-o", str(file)).exit_code == 0
    shown = run("show", str(file))
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= 100
    assert "prologue 1/" in shown.stdout
    assert "epilogue 1/" in shown.stdout
    assert run("show", "-", text=file.read_text()).stdout == shown.stdout


@pytest.mark.medium
def test_output_is_whole_or_absent(tmp_path: Path) -> None:
    file = tmp_path / "missing" / "s.json"
    result = run("solve", "fa4_unit", "-o", str(file))
    assert result.exit_code == 2
    assert str(file) in result.stderr
    assert not file.parent.exists()
    kept = tmp_path / "kept.json"
    kept.write_text("old")
    assert run("solve", "fa4_unit", "--set", "nope=1", "-o", str(kept)).exit_code == 2
    assert kept.read_text() == "old"
    assert list(tmp_path.iterdir()) == [kept]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("solve", "fa4_unti"), "did you mean 'fa4_unit'?"),
        (("solve", "gemm", "--target", "h100"), "h200"),
        (("solve", "gemm", "--target", "abstract"), "not written for abstract"),
        (("solve", "gemm", "--set", "tile_x=3"), "did you mean 'tile_"),
        (("solve", "gemm", "--set", "tile_m"), "write NAME=VALUE"),
        (("solve", "gemm", "--set", "dtype=f64"), "allowed values are bf16, fp16"),
        (("solve", "gemm", "--latencies", "middle"), "use low or high"),
        (("solve", "/nonexistent/x.yaml"), "x.yaml"),
        (("show", "/nonexistent.json"), "No such file"),
    ],
)
def test_bad_input(arguments: tuple[str, ...], message: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format": 1}', '{"format": 99, "ii_cycles": 1}', "\x00"]
)
def test_show_refuses_what_is_no_schedule(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text)
    result = run("show", str(file))
    assert result.exit_code == 2
    assert "bad.json" in result.stderr


@pytest.mark.medium
def test_infeasible_is_explained() -> None:
    result = run("solve", "gemm", "--target", "b200", "--set", "tile_k=512")
    assert result.exit_code == 1
    assert "shared memory" in result.stderr
    assert "fix" in result.stderr


@pytest.mark.medium
def test_no_time_still_gives_a_schedule() -> None:
    result = run("solve", "attention_fwd", "-t", "b200", "--time-limit", "0", "--json")
    assert result.exit_code == 3
    found = json.loads(result.stdout)
    assert found["proven_optimal"] is False
    assert found["ii_cycles"] >= found["lower_bound_cycles"]


@pytest.mark.medium
@pytest.mark.parametrize("command", ["specs", "targets"])
def test_lists(command: str) -> None:
    plain, data = run(command), run(command, "--json")
    assert plain.exit_code == data.exit_code == 0
    assert all(row["name"] in plain.stdout for row in json.loads(data.stdout))


@pytest.mark.medium
def test_plans_are_listed_behind_specs() -> None:
    assert "h200         plan of 3 kernels: gradients" in run("specs").stdout
    rows = {row["name"]: row for row in json.loads(run("specs", "--json").stdout)}
    assert rows["attention_gradients"]["calls"][1] == "attention_bwd"
    assert rows["attention_bwd"]["calls"] == []


def test_schema_is_json() -> None:
    assert "properties" in json.loads(run("schema").stdout)


def test_help_is_quick_and_imports_no_solver() -> None:
    begin = perf_counter()
    code = (
        "import sys; from schedgen.cli.app import app\n"
        "try: app(['--help'])\nexcept SystemExit: pass\n"
        "print([m for m in ('ortools', 'z3', 'torch', 'pydantic', 'ruamel') if m in sys.modules])"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert output.strip().endswith("[]")
    assert perf_counter() - begin < 10  # 0.1 s on an idle machine


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spec", "target"),
    [("fa4_unit", "abstract")]
    + [
        (s, t)
        for s in ("attention_fwd", "gemm", "gemm_epilogue", "gemm_symmetric", "gemm_chain")
        for t in ("b200", "h200")
    ],
)
def test_runs_give_the_same_bytes(spec: str, target: str) -> None:
    runs = 20 if spec == "fa4_unit" else 6
    found = {_solved_anew(spec, target, number, program=number < 3) for number in range(runs)}
    assert len({schedule for schedule, _ in found}) == 1
    assert len({program for _, program in found if program}) == 1


# A process of its own for each run, with its own order of sets: the schedule, and the program too.
ANEW = """
import sys
from schedgen import read_machine, read_spec, solve
found = solve(read_spec(sys.argv[1]), read_machine(sys.argv[2]))
print(found.schedule.to_json())
if sys.argv[3] == "True":
    from schedgen.program.file import to_json
    from schedgen.synchronize.synthesize import synthesize
    print("#", to_json(synthesize(found.problem.kernel, found.schedule, found.problem.machine)))
"""


def _solved_anew(spec: str, target: str, seed: int, *, program: bool) -> tuple[str, str]:
    run = subprocess.run(
        [sys.executable, "-c", ANEW, spec, target, str(program)],
        env={**os.environ, "PYTHONHASHSEED": str(seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    schedule, _, made = run.stdout.partition("\n# ")
    return schedule.strip(), made
