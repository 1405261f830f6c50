"""Files of `schedgen tune` that somebody damaged, and options that contradict each other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from schedgen import read_spec
from schedgen.cli.app import app
from schedgen.driver import tuned
from schedgen.driver.lock_file import LockError
from schedgen.kernels import SpecKernel, kernel
from schedgen.kernels.errors import ArgumentValueError
from schedgen.tuning import records
from schedgen.tuning.choosing import choose
from schedgen.tuning.records import Record, Times, read_manifest, read_record, record_text
from schedgen.tuning.winning import tuned as winners
from tests.schedgen.tuning.loop import SPEC

Damage = Callable[[dict[str, Any]], object]


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["tune", *arguments])


@pytest.fixture(scope="module")
def folder(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with candidates, what was measured of them, and the winner."""
    folder = tmp_path_factory.mktemp("tuned") / "all"
    shutil.copytree(prepared, folder)
    manifest = read_manifest(folder)
    times = {
        one.name: tuple(Times((1.0 + at,) * 3, (1.0,) * 3) for _ in manifest.shapes)
        for at, one in enumerate(manifest.candidates)
    }
    record = Record(manifest, "a GPU", "torch", "2026-01-02", 1800.0, times)
    (folder / records.RECORD).write_text(record_text(record), "utf-8")
    (folder / "winner.json").write_text(tuned.text(winners(record, choose(record))), "utf-8")
    return folder


def damaged(path: Path, to: Path, damage: Damage) -> Path:
    data = json.loads(path.read_text("utf-8"))
    damage(data)
    to.write_text(json.dumps(data), "utf-8")
    return to


def test_files_are_read_back(folder: Path) -> None:
    record = read_record(folder / records.RECORD)
    assert record.prepared == read_manifest(folder)
    assert record.rounds == 3
    winner = tuned.read(folder / "winner.json")
    assert tuned.text(winner) == (folder / "winner.json").read_text("utf-8")


OF_RECORDS: list[tuple[Damage, str]] = [
    (lambda d: d.update(tuning_record=2), "tuning_record is 2, this schedgen reads 1"),
    (lambda d: d.pop("tuning_record"), "it has no 'tuning_record'"),
    (lambda d: d.pop("device"), "device: "),
    (lambda d: d.update(extra=1), "extra: 1: "),
    (lambda d: d["times"].update(c09=d["times"]["c00"]), "times.c09: no candidate"),
    (lambda d: d["times"]["c00"].pop(), "times.c00: there are 1 shapes, and 2 were prepared"),
    (lambda d: d["times"]["c00"][0]["eager"].append(-1.0), "times.c00: -1.0 is no time"),
    (lambda d: d["times"]["c00"][0]["eager"].append("1"), "times.c00.0.eager.3: '1': "),
    (lambda d: d["prepared"]["candidates"][0]["estimates"].pop(), "candidates.0.estimates: "),
    (lambda d: d["prepared"]["candidates"][0]["lock"]["schedules"].clear(), ".lock: it has"),
    (lambda d: d["prepared"]["candidates"][0].update(file="../x.py"), "'../x.py' is not in"),
]


@pytest.mark.parametrize(("damage", "message"), OF_RECORDS)
def test_damaged_record(folder: Path, tmp_path: Path, damage: Damage, message: str) -> None:
    path = damaged(folder / records.RECORD, tmp_path / "bad.json", damage)
    result = run("--record", str(path))
    assert result.exit_code == 2
    assert message in result.stderr
    assert str(path) in result.stderr
    assert "fix: " in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize("text", ["", "[]", "{", '{"tuning_manifest": 1}', "\x00"])
def test_what_is_no_file_of_tune(tmp_path: Path, text: str) -> None:
    (tmp_path / records.MANIFEST).write_text(text)
    for arguments in (("--run", str(tmp_path)), ("--record", str(tmp_path / records.MANIFEST))):
        result = run(*arguments)
        assert result.exit_code == 2
        assert records.MANIFEST in result.stderr
        assert "fix: " in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there is no SPEC to tune"),
        (("gemm", "--prepare", "a", "--run", "b"), "--prepare and --run are halves of one work"),
        (("--run", "a", "--try", "tile_n=1"), "--try: --run goes on with what was prepared"),
        (("--record", "a", "--shape", "m=1"), "--shape: --record goes on"),
        (("gemm", "--refine", "a"), "give --prepare DIR as well"),
        (("gemm", "--prepare", "a", "--keep", "b"), "--keep: --prepare measures nothing"),
        (("gemm", "--prepare", "a", "-o", "b"), "-o: --prepare has no winner yet"),
        (("gemm", "--by", "luck"), "--by luck: it is one of eager, graphs"),
        (("gemm", "--try", "tile_n"), "--try tile_n: write NAME=V1,V2"),
        (("gemm", "--try", "a=1", "--try", "a=2"), "--try a is given twice"),
        (("gemm", "-t", "h200", "--prepare", "a", "--shape", "l=1"), "'l' is not an extent"),
        (("--record", "nowhere.json"), "nowhere.json: No such file or directory; fix: measure"),
    ],
)
def test_bad_options(
    arguments: tuple[str, ...], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert not list(tmp_path.iterdir())


def test_another_spec(folder: Path) -> None:
    result = run("gemm", "--record", str(folder / records.RECORD))
    assert result.exit_code == 2
    assert "not of gemm; fix: leave gemm away" in result.stderr


def test_no_gpu(folder: Path, tmp_path: Path) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is one")
    for arguments in (("--run", str(folder), "--keep", str(tmp_path / "r.json")), ("gemm",)):
        result = run(*arguments)
        assert result.exit_code == 1
        assert "tune --record FILE" in result.stderr
    assert not list(tmp_path.iterdir())


def test_emit_tuned_takes_the_measured_kernel_or_nothing(folder: Path, tmp_path: Path) -> None:
    winner = folder / "winner.json"

    def emit(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["emit", *arguments, "-o", str(tmp_path / "out")])

    for arguments, message in (
        ((SPEC, "--tuned", str(winner), "--set", "tile_n=64"), "--set tile_n: a tuned kernel is"),
        ((SPEC, "--tuned", str(winner), "--events"), "--events: a tuned kernel is"),
        ((SPEC, "--tuned", str(winner), "-t", "b200"), "this was tuned for h200"),
        (("gemm", "--tuned", str(winner)), "this was tuned for tiny_gemm, not for gemm"),
        ((SPEC, "--tuned", "nowhere.json"), "nowhere.json: No such file"),
    ):
        result = emit(*arguments)
        assert result.exit_code == 2, result.output
        assert message in result.stderr
    other = tmp_path / "spec.yaml"
    other.write_text(Path(SPEC).read_text("utf-8") + "\n# changed\n", "utf-8")
    result = emit(str(other), "--tuned", str(winner))
    assert result.exit_code == 2
    assert "is not the one that its lock was made with" in result.stderr
    assert "schedgen tune" in result.stderr
    assert not (tmp_path / "out").exists()


OF_WINNERS: list[tuple[Damage, str]] = [
    (lambda d: d.update(overall=7), "overall: 7: the lock has schedules 0 to 0"),
    (lambda d: d["shapes"][0].update(schedule=-1), "shapes.0.schedule: -1"),
    (lambda d: d["lock"]["schedules"][0]["kernels"].clear(), "it has 0 kernels, not one"),
    (lambda d: d.update(by=3), "by: 3: "),
]


@pytest.mark.parametrize(("damage", "message"), OF_WINNERS)
def test_damaged_winner(folder: Path, tmp_path: Path, damage: Damage, message: str) -> None:
    path = damaged(folder / "winner.json", tmp_path / "bad.json", damage)
    with pytest.raises(tuned.SchedgenError) as caught:
        tuned.generated(path, read_spec(SPEC))
    assert message in str(caught.value)


def test_a_decision_that_somebody_changed_is_found(folder: Path, tmp_path: Path) -> None:
    def fewer(data: dict[str, Any]) -> None:
        del data["lock"]["schedules"][0]["synchronization"][1]

    path = damaged(folder / "winner.json", tmp_path / "bad.json", fewer)
    with pytest.raises(LockError, match=r"bad\.json: .*; fix: make it again with"):
        tuned.generated(path, read_spec(SPEC))


def test_function_of_what_was_tuned(folder: Path) -> None:
    winner = folder / "winner.json"
    function = kernel(SPEC, tuned=winner)
    assert isinstance(function, SpecKernel)
    lock = tuned.read(winner).kernel
    assert function.path.name == lock.name
    assert function.facts.program_sha256 == lock.kernel.program
    assert kernel(SPEC, tuned=winner) is function
    with pytest.raises(ArgumentValueError, match="tile_n"):
        kernel(SPEC, tuned=winner, tile_n=128)
