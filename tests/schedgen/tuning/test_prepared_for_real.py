"""Candidates that the compiler accepts, and that are their programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from schedgen.cli.app import app
from schedgen.codegen.facts import read_facts
from schedgen.driver.lock_file import Locked
from schedgen.driver.locked import program_of
from schedgen.program.digest import program_digest
from schedgen.tuning.records import read_manifest


@pytest.mark.slow
def test_two_candidates_of_gemm(tmp_path: Path) -> None:
    arguments = ["tune", "gemm", "-t", "h200", "--try", "tile_n=256,192", "--json"]
    arguments += ["--shape", "m=4096,n=4096,k=4096", "--prepare", str(tmp_path)]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert [one["settings"] for one in data["candidates"]] == [{}, {"tile_n": "192"}]
    assert data["compiler"]
    assert data["dropped"] == []
    for one in read_manifest(tmp_path).candidates:
        facts = read_facts(tmp_path / one.file)
        schedule = one.lock.schedules[0]
        program, _ = program_of(Locked(one.lock, schedule, schedule.kernels[0]))
        assert program_digest(program) == facts.program_sha256 == schedule.kernels[0].program
        assert facts.cycles == one.ii_cycles
