"""Benchmarks without a GPU: rows are complete, whatever the times are."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from schedgen.cli import app
from schedgen.kernels import bench
from schedgen.kernels.bench import Run, Timed
from tests.kernels.standin import StandIn

COLUMNS = {"provider", "ms", "TFLOP/s", "of best peer", "error", "cycles/iteration", "model"}


class Loaded(StandIn):
    """Stands in for `GeneratedKernel`."""

    def __call__(self, *tensors: torch.Tensor) -> None:
        self.launch(tensors)


def medians(candidates: dict[str, Run]) -> dict[str, Timed]:
    return {name: Timed(2.0 + n, 1000.0) for n, name in enumerate(candidates)}


@pytest.fixture
def small(launches: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Small problems on the CPU; the names of launched files."""

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape).to(torch.bfloat16)

    class Properties:
        multi_processor_count = 132

    def properties(device: int) -> Properties:
        assert device == 0
        return Properties()

    plain: Any = torch.empty

    def empty(*shape: int, **options: Any) -> torch.Tensor:
        return plain(*shape, **options | {"device": "cpu"})

    monkeypatch.setattr(bench, "_random", random)
    monkeypatch.setattr(bench, "medians", medians)
    monkeypatch.setattr(bench, "ATTENTION", [(1, 64, 2, 64, False), (1, 64, 2, 128, True)])
    monkeypatch.setattr(bench, "SQUARES", [64])
    monkeypatch.setattr(bench, "CHAINS", [(2, 64, 32, 128)])
    monkeypatch.setattr(bench.launcher, "architecture", lambda device: "sm_90a")  # pyright: ignore
    monkeypatch.setattr(bench.launcher, "load", lambda path: Loaded(launches, path.name))  # pyright: ignore
    monkeypatch.setattr(torch.cuda, "get_device_properties", properties)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(torch, "empty", empty)
    return launches


@pytest.mark.parametrize("spec", bench.SPECS)
def test_rows(small: list[str], spec: str) -> None:
    rows = list(bench.SPECS[spec]())
    ours = [row for row in rows if row["provider"] == "schedgen"]
    assert ours
    assert all(set(row) >= COLUMNS for row in ours)
    assert all(float(str(row["error"])) < 1e-2 for row in rows if "error" in row)
    assert all(row["of best peer"] == 1.5 for row in ours)
    assert small
    assert all(name.startswith(spec) for name in small)


def test_a_peer_that_refuses_is_noted(small: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise NotImplementedError("not on this GPU")

    monkeypatch.setattr(bench.functional, "scaled_dot_product_attention", refuse)
    rows = list(bench.attention_rows())
    assert {row["provider"] for row in rows if "ms" in row} == {"schedgen"}
    notes = [row["note"] for row in rows if row["provider"] == "cuDNN"]
    assert notes == ["NotImplementedError: not on this GPU"] * 2


def test_command(small: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run = CliRunner().invoke
    assert run(app, ["bench", "nothing"]).exit_code == 2
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run(app, ["bench", "gemm"]).exit_code == 1
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert "provider schedgen" in run(app, ["bench", "gemm"]).stdout
    found = json.loads(run(app, ["bench", "gemm", "--json"]).stdout)
    assert found["gpu"] == "a GPU"
    assert found["rows"][0]["m=n=k"] == 64
