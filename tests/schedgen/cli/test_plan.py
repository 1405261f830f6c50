"""`schedgen plan`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from schedgen.cli.app import app

MLP = Path(__file__).parents[3] / "docs" / "examples" / "mlp.yaml"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["plan", *arguments])


@pytest.mark.medium
def test_calls_in_their_order() -> None:
    result = run("attention_gradients", "--set", "head_dim=128")
    assert result.exit_code == 0, result.output
    first, *lines = result.stdout.splitlines()
    assert first == "attention_gradients for h200: q k v o lse do scale -> dq dk dv"
    assert lines[2].split()[:3] == ["2", "attention_bwd", "shipped;"]
    assert lines[3].strip() == ("q k v do lse=lse2 delta scale=scale * 1.4427 -> dk dv dq=sum")


def test_json_has_what_tools_need() -> None:
    result = run(str(MLP), "--target", "h200", "--json")
    found = json.loads(result.stdout)
    assert (found["plan"], found["target"]) == ("mlp", "h200")
    assert found["results"] == [{"name": "y", "shape": ["tokens", "width"], "dtype": "bf16"}]
    assert [call["kernel"] for call in found["calls"]] == [f"{MLP}#product"] * 2
    assert [call["shipped"] for call in found["calls"]] == [False, False]
    assert found["calls"][1]["tensors"] == {"a": "h", "b": "down"}


def test_wrong_input() -> None:
    for arguments, message in (
        (("gemm",), "gemm is a kernel, not a plan of several; fix: schedgen solve gemm"),
        (("no_such",), "neither a shipped spec nor a file"),
        ((str(MLP), "--target", "h201"), "h201"),
        ((str(MLP), "--set", "tile=1"), "mlp has no parameter 'tile'"),
        ((f"{MLP}#product",), "is a kernel, not a plan"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2
        assert message in result.output


def test_schema_for_editors() -> None:
    result = CliRunner().invoke(app, ["schema", "--plan"])
    assert json.loads(result.stdout)["properties"]["calls"]["type"] == "array"
