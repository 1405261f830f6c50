"""Schedules read back: the same kernels, and nothing believed but what was decided."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from schedgen.cli.app import app
from schedgen.driver.emitting import written
from schedgen.driver.restoring import read_solution, solved
from schedgen.driver.selecting import with_registers
from schedgen.driver.solution import solve
from schedgen.errors import SchedgenError
from schedgen.machine_file import read_machine
from schedgen.schedule import Schedule
from schedgen.spec.reader import read_spec
from schedgen.stored import Store
from tests.schedgen.shipped import targets

SHIPPED = targets()
Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def attention() -> Schedule:
    """With a shared ring, storage inside other storage and roles that share work."""
    return solve(read_spec("attention_fwd"), read_machine("b200")).schedule


def kept(folder: Path, schedule: Schedule, change: Change | None = None) -> str:
    data = json.loads(schedule.to_json())
    if change is not None:
        change(data)
    path = folder / "schedule.json"
    path.write_text(json.dumps(data), "utf-8")
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), SHIPPED)
def test_shipped_schedules(name: str, target: str, tmp_path: Path) -> None:
    schedule = solve(read_spec(name), read_machine(target)).schedule
    found, settings = read_solution(kept(tmp_path, schedule))
    assert found.schedule == schedule
    assert settings == {}


def test_settings_are_those_that_differ(tmp_path: Path) -> None:
    given = {"dtype": "fp16", "tile_n": "128", "tile_k": "64"}
    schedule = solve(read_spec("gemm"), read_machine("h200"), settings=given).schedule
    default = solve(read_spec("gemm"), read_machine("h200")).schedule.parameters
    wanted = {name: value for name, value in given.items() if default[name] != value}
    assert read_solution(kept(tmp_path, schedule))[1] == wanted


@pytest.mark.slow
def test_registers_beside_tiles_are_kept(tmp_path: Path) -> None:
    """A schedule that leaves more registers is read with the plain machine, and so is its file."""
    machine = read_machine("h200")
    settings = {"dtype": "fp16"}
    first = solve(read_spec("gemm_chain"), with_registers(machine, 16), settings=settings)
    again, found = read_solution(kept(tmp_path, first.schedule))
    assert found == settings
    assert written(again, found).text == written(first, settings).text


def op(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in data["ops"] if one["id"] == name)


def buffer(data: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in data["buffers"] if one["name"] == name)


CHANGES: list[tuple[Change, str]] = [
    (lambda d: op(d, "EXP[0,0]").update(start=0, stage=0, slot=0), "EXP"),
    (lambda d: d.update(ii_cycles=d["ii_cycles"] - 1), "is busy with"),
    (lambda d: op(d, "MAX[0]").update(latency=1), "latency is 1"),
    (lambda d: d["ops"].pop(), "is there 0 times, not 1"),
    (lambda d: d["ops"].append(d["ops"][0]), "is there 2 times, not 1"),
    (lambda d: d["buffers"].pop(), "buffer sLse[1] is there 0 times"),
    (lambda d: buffer(d, "P[0]").update(skew=7), "P[0] cannot be where"),
    (lambda d: buffer(d, "sK").update(depth=9), "ring kv cannot have the shape"),
    (lambda d: buffer(d, "sO[0]").update(address=0), "sO[0]: address is 0"),
    (lambda d: d["roles"][0].update(registers=8), "registers, it needs"),
    (lambda d: d["roles"][-1].update(registers=256), "registers a thread"),
    (lambda d: d["edges"].pop(), "dependences: "),
    (lambda d: d["roles"][0]["operations"].pop(), "the roles do not have each operation"),
]


@pytest.mark.parametrize(("change", "says"), CHANGES)
def test_what_does_not_follow(
    change: Change, says: str, attention: Schedule, tmp_path: Path
) -> None:
    with pytest.raises(SchedgenError) as caught:
        read_solution(kept(tmp_path, attention, change))
    assert says in str(caught.value)
    assert "solve it again" in str(caught.value)


@pytest.mark.medium
def test_a_changed_spec(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "specs" / "gemm.yaml").read_text("utf-8")
    spec = tmp_path / "mine.yaml"
    spec.write_text(text, "utf-8")
    file = str(tmp_path / "mine.json")
    assert run("solve", str(spec), "-t", "h200", "-o", file).exit_code == 0
    spec.write_text(text + "# more\n", "utf-8")
    for command in ("emit", "emulate", "check"):
        result = run(command, file)
        assert result.exit_code == 2
        assert f"fix: schedgen solve {spec} --target h200 -o {file}" in result.output
    assert not list(tmp_path.glob("*.py"))


@pytest.mark.medium
def test_files_that_are_refused(attention: Schedule, tmp_path: Path) -> None:
    file = kept(tmp_path, attention)
    assert "fix: leave --set dtype away" in run("emit", file, "--set", "dtype=fp16").output
    assert "this schedule is for b200, --target h200" in run("emulate", file, "-t", "h200").output
    program = tmp_path / "program.json"
    run("solve", "gemm", "--program", str(program))
    assert "fix: give the schedule" in run("emit", str(program)).output
    own = kept(tmp_path, attention, lambda d: d.update(machine_sha256="0"))
    assert "machine model has changed" in run("emit", own).output


@pytest.mark.slow
def test_a_file_is_written_as_from_its_spec(tmp_path: Path) -> None:
    """And its schedule beside it; nothing is solved to write it again."""
    one, other, file = tmp_path / "one", tmp_path / "other", tmp_path / "gemm.json"
    assert run("emit", "gemm", "-t", "h200", "-o", str(one), "--schedule", str(file)).exit_code == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("schedgen.driver.restoring.solve", None)
        assert run("emit", str(file), "-o", str(other)).exit_code == 0
    name = "gemm_sm_90a.py"
    assert (one / name).read_bytes() == (other / name).read_bytes()


def test_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, machine, store = read_spec("gemm"), read_machine("h200"), Store(tmp_path)
    calls: list[str] = []

    def counted(*arguments: Any, **others: Any) -> Any:
        calls.append(arguments[1].name)
        return solve(*arguments, **others)

    monkeypatch.setattr("schedgen.driver.restoring.solve", counted)
    first = solved(spec, machine, {}, store=store).schedule
    assert solved(spec, machine, {}, store=store).schedule == first
    assert len(calls) == 1
    solved(spec, with_registers(machine, 16), {}, store=store)
    solved(spec, machine, {"dtype": "fp16"}, store=store)
    solved(spec, machine, {})
    assert len(calls) == 4
    for entry in tmp_path.iterdir():  # what is damaged is made again
        entry.write_bytes(b"{" + entry.read_bytes())
    assert solved(spec, machine, {}, store=store).schedule == first
    assert len(calls) == 5
    monkeypatch.setattr("schedgen.stored.solver", lambda: "another version")
    solved(spec, machine, {}, store=store)
    assert len(calls) == 6


def test_a_wrong_schedule_in_the_store_is_solved_again(tmp_path: Path) -> None:
    """Its checksum is right; what it says is not."""
    spec, machine, store = read_spec("gemm"), read_machine("h200"), Store(tmp_path)
    first = solved(spec, machine, {}, store=store).schedule

    class Wrong(Store):
        def get(self, kind: str, made_from: object) -> str | None:
            found = super().get(kind, made_from)
            assert found is not None
            return found.replace(f'"ii_cycles": {first.ii_cycles}', '"ii_cycles": 7')

    assert solved(spec, machine, {}, store=Wrong(tmp_path)).schedule == first


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", "utf-8")
    store = Store(blocked)
    store.put("schedule", ["x"], "text")
    assert store.get("schedule", ["x"]) is None
