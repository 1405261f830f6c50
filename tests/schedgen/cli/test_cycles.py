"""`schedgen cycles` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from schedgen.cli.app import app
from schedgen.conform.assembly import disassembler
from schedgen.kernels.library import named


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["cycles", *arguments])


@pytest.mark.medium
@pytest.mark.skipif(disassembler() is None, reason="no nvdisasm")
def test_what_an_iteration_takes() -> None:
    path = str(named("gemm_sm_90a_bf16.py"))
    result = run(path, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert (found["kernel"], found["target"], found["ii_cycles"]) == ("gemm", "h200", 1024)
    assert found["cycles"] == pytest.approx(1024, rel=0.002)
    assert set(found["roles"]) >= {"load", "epilogue0", "epilogue1"}


@pytest.mark.medium
@pytest.mark.skipif(disassembler() is None, reason="no nvdisasm")
def test_what_each_instruction_takes() -> None:
    """The cycles of a role's instructions are those of its iteration."""
    path = str(named("gemm_sm_90a_bf16.py"))
    found = json.loads(run(path, "--each", "--json").stdout)
    for role in found["roles"].values():
        each = role["each"]
        assert len(each) == role["instructions"]
        assert sum(one["cycles"] for one in each) == pytest.approx(found["cycles"], rel=0.01)
    lines = run(path, "--each").stdout.splitlines()
    products = [line.split() for line in lines if "HGMMA.64x256x16" in line]
    assert len(products) == 8  # four of each of two warpgroups
    assert all(address.startswith("0x") for _, address, *_ in products)


def test_blackwell_is_refused_by_name() -> None:
    path = str(named("gemm_sm_100a_bf16.py"))
    result = run(path)
    assert result.exit_code == 2
    assert path in result.stderr
    assert "fix:" in result.stderr


def test_a_file_that_is_none_of_ours(tmp_path: Path) -> None:
    path = tmp_path / "other.py"
    path.write_text("x = 1\n", encoding="utf-8")
    result = run(str(path))
    assert result.exit_code == 2
    assert str(path) in result.stderr
    assert run(str(tmp_path / "none.py")).exit_code == 2
