"""The whole loop of `schedgen tune`, on a GPU that is not there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from schedgen import read_spec
from schedgen.cli.app import app
from schedgen.cli.common import write
from schedgen.cli.tune import Options, run_tune
from schedgen.codegen.facts import read_facts
from schedgen.driver.tuned import generated, read
from schedgen.tuning.candidates import rank
from schedgen.tuning.records import KEPT, read_manifest, read_record
from schedgen.tuning.shapes import Shape
from tests.schedgen.tuning.bench import Interrupted, benches
from tests.schedgen.tuning.loop import OPTIONS, SPEC, Files, silent, tune

ROOT = Path(__file__).parents[3]


def test_candidates_are_distinct_and_in_the_order_of_the_model(prepared: Path) -> None:
    manifest = read_manifest(prepared)
    found = [one.settings for one in manifest.candidates]
    assert sorted(found, key=str) == [{"tile_n": "128"}, {"tile_n": "192"}, {}]
    ranks = [rank(one.estimates, one.settings) for one in manifest.candidates]
    assert ranks == sorted(ranks)
    (own,) = [one for one in manifest.candidates if not one.settings]
    assert own.name == KEPT
    assert all((prepared / one.file).exists() for one in manifest.candidates)
    assert manifest.shapes[0] == {"m": 1024, "k": 512, "n": 1024}
    (dropped,) = manifest.dropped
    assert dropped.settings == {"tile_n": "320"}
    assert dropped.reason


def test_measured_chosen_and_emitted(prepared: Path, tmp_path: Path, capsys: object) -> None:
    record, winner = tmp_path / "record.json", tmp_path / "winner.json"
    assert tune(Files(run=prepared, keep=record), Options()) == 0
    found = read_record(record)
    assert found.rounds == 7
    assert found.mhz == 1800
    assert tune(Files(record=record, output=winner), Options()) == 0
    tuned = read(winner)
    assert tuned.kernel.kernel.settings == {"slices": "4", "tile_n": "192"}
    each = [tuned.lock.schedules[one.schedule].kernels[0] for one in tuned.shapes]
    assert [one.settings["tile_n"] for one in each] == ["128", "192"]
    assert tuned.shapes[1].overall_ms < tuned.shapes[1].before_ms
    again = tmp_path / "again"
    arguments = ["emit", SPEC, "--tuned", str(winner), "-o", str(again)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    assert "2026-01-02" in result.stdout
    (file,) = again.iterdir()
    (best,) = [c for c in read_manifest(prepared).candidates if c.settings == {"tile_n": "192"}]
    assert file.read_text("utf-8") == (prepared / best.file).read_text("utf-8")
    assert dict(read_facts(file).settings)["tile_n"] == "192"


@pytest.mark.medium
def test_only_preparing_needs_a_solver(prepared: Path, tmp_path: Path) -> None:
    """In a process of its own, where there is none."""
    code = f"""
import sys
for name in ("ortools", "z3"):
    sys.modules[name] = None
from pathlib import Path
import schedgen.tuning.on_gpu
from schedgen.cli.app import app
from schedgen.cli.tune import Options
from tests.schedgen.tuning.loop import SPEC, Files, tune
record, winner = Path("record.json"), Path("winner.json")
assert tune(Files(run=Path({str(prepared)!r}), keep=record), Options()) == 0
assert tune(Files(record=record, output=winner), Options()) == 0
app(["emit", SPEC, "--tuned", str(winner)])
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert [path.name for path in tmp_path.glob("*.py")] == [
        "tiny_gemm_sm_90a_slices4_tile_n192.py"
    ]


def test_interrupted_and_resumed(prepared: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    files = Files(run=prepared, keep=record)
    with pytest.raises(Interrupted):
        tune(files, Options(), last=9)  # in the middle of the fifth round of two shapes
    assert read_record(record).rounds == 4
    before = read_record(record).times["c00"][0].eager
    assert tune(files, Options(), last=6) == 0
    after = read_record(record)
    assert after.rounds == 7
    assert after.times["c00"][0].eager[:4] == before
    assert tune(files, Options(), last=0) == 0  # nothing is left to do


def test_time_ends_between_rounds(prepared: Path, tmp_path: Path) -> None:
    record = tmp_path / "record.json"
    files = Files(run=prepared, keep=record)
    assert tune(files, Options(seconds=0)) == 2  # one round is no spread
    assert read_record(record).rounds == 1
    assert tune(files, Options(seconds=100)) == 0


def test_what_was_measured_elsewhere_is_not_mixed(
    prepared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = Files(run=prepared, keep=tmp_path / "record.json")
    assert tune(files, Options()) == 0
    assert tune(files, Options(), device="another") == 2
    assert "a GPU that is not there, nothing; here is another" in capsys.readouterr().err


def test_candidate_that_fails(
    prepared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = Files(run=prepared, keep=tmp_path / "record.json")
    broken = {one.name: "it spilled" for one in read_manifest(prepared).candidates}
    assert tune(files, Options(), broken={KEPT: "it spilled"}) == 0
    assert "c00 failed: it spilled" in capsys.readouterr().out
    assert tune(Files(run=prepared, keep=tmp_path / "none.json"), Options(), broken=broken) == 1
    assert "no candidate runs" in capsys.readouterr().err


@pytest.mark.slow
def test_refined(prepared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neighbours of the winner are prepared next, and it with them."""
    record, more = tmp_path / "record.json", tmp_path / "more"
    assert tune(Files(run=prepared, keep=record), Options()) == 0
    assert tune(Files(prepare=more, refine=record), Options(seconds=1e6)) == 0
    manifest = read_manifest(more)
    assert manifest.round == 1
    found = {one.settings.get("tile_n") for one in manifest.candidates}
    assert found == {"192", "160", "224"}  # rows of 176 are not whole blocks of bytes
    tried = [one.settings for one in read_manifest(prepared).candidates]
    assert all(one in manifest.tried for one in tried if one != {"tile_n": "192"})


@pytest.mark.slow
def test_all_in_one_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record, winner = tmp_path / "record.json", tmp_path / "winner.json"
    options = replace(OPTIONS, tries={"tile_n": ["256", "192"]}, shapes=["m=8192"])
    assert tune(Files(keep=record, output=winner), options, as_json=True) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["candidates"][data["overall"]["winner"]] == {"tile_n": "192"}
    assert read_record(record).prepared.round == 1
    assert read(winner).kernel.kernel.settings == {"slices": "4", "tile_n": "192"}


@pytest.mark.slow
def test_schedules_of_the_same_tiles(tmp_path: Path) -> None:
    """What a schedule is solved for can be tried, too, and the winner remembers it."""
    folder, winner = tmp_path / "candidates", tmp_path / "winner.json"
    tries = {"@latencies": ["high", "low"], "@registers": ["0", "16"]}
    options = replace(OPTIONS, tries=tries, shapes=["m=8192"])
    assert tune(Files(prepare=folder), options) == 0
    more = {"@registers": "16"}
    names = {str(one.settings): one for one in read_manifest(folder).candidates}
    assert {str({}), str(more)} <= set(names)

    def more_is_fast(settings: Mapping[str, str], shape: Shape) -> float:
        return 1.0 if settings == more else 2.0

    made = benches(more_is_fast)
    files = Files(run=folder, output=winner)
    assert run_tune(Options(), files, write, silent, as_json=False, benches=made) == 0
    found = read(winner)
    assert found.kernel.kernel.settings == {"slices": "4"}
    _, text = generated(winner, read_spec(SPEC))
    assert text == (folder / names[str(more)].file).read_text("utf-8")
