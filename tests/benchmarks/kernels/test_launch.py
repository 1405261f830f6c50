"""What a call costs, without a GPU: every function is called, and rows are complete."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

from schedgen.benchmarks import launch
from schedgen.benchmarks.timing import Run, Timed
from tests.kernels.standin import StandIn


class Loaded(StandIn):
    """Stands in for `GeneratedKernel`."""

    def __call__(self, *arguments: Any) -> None:
        self.launch(arguments[:4], arguments[4:])


@pytest.fixture(autouse=True)
def small(launches: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Tensors on the CPU; the names of launched files."""

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*(min(n, 64) for n in shape)).to(torch.bfloat16)

    def made(spec: str, **settings: str) -> Any:
        assert settings == {"dtype": "bf16"}
        return lambda a, b, c, alpha, beta: alpha * a @ b.mT + beta * c  # pyright: ignore

    monkeypatch.setattr(launch, "_random", random)
    monkeypatch.setattr(launch, "architecture", lambda _: "sm_90a")  # pyright: ignore
    monkeypatch.setattr(launch.library, "load", lambda path: Loaded(launches, path.name))  # pyright: ignore
    monkeypatch.setattr(launch, "kernel", made)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    return launches


def test_every_function_and_its_peers(monkeypatch: pytest.MonkeyPatch, small: list[str]) -> None:
    monkeypatch.setattr(launch, "_ROUNDS", 3)
    monkeypatch.setattr(launch, "_CALLS", 2)
    rows = list(launch.host_rows())
    names = [row["call"] for row in rows]
    assert {"attention", "gemm", "gemm, out=", "symmetric_gemm", "load(file)"} <= set(names)
    assert {"torch SDPA", "torch.mm", "gemm, without what is compiled"} <= set(names)
    assert all(float(str(row["us on the host"])) > 0 for row in rows)
    assert {name.partition("_sm_")[0] for name in small} >= {"attention_fwd", "gemm"}


def test_time_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls take a tick each, in rounds of which one is slow."""
    now = [0.0]
    calls: list[str] = []

    def call(name: str, seconds: float) -> None:
        calls.append(name)
        now[0] += seconds * (100 if len(calls) == 40 else 1)

    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(launch, "_CALLS", 2)
    runs: dict[str, Run] = {"a": lambda: call("a", 1e-6), "b": lambda: call("b", 3e-6)}
    found = launch.host_microseconds(runs)
    assert found == {"a": pytest.approx(1.0), "b": pytest.approx(3.0)}


def test_eager_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(first: float) -> Any:
        def run(candidates: dict[str, Run]) -> dict[str, Timed]:
            return {name: Timed(first + n, 1000.0) for n, name in enumerate(candidates)}

        return run

    monkeypatch.setattr(launch, "in_turns", timed(1.0))
    monkeypatch.setattr(launch, "eagerly", timed(2.0))
    monkeypatch.setattr(launch, "in_graphs", lambda runs, times: {"schedgen": 0.5, "torch": 1.0})  # pyright: ignore
    monkeypatch.setattr(launch, "warm", lambda run: run())  # pyright: ignore
    rows = list(launch.eager_rows())
    assert len(rows) == 2 * (len(launch.PRODUCTS) + len(launch.SYMMETRIC) + len(launch.ATTENTION))
    ours, torchs = rows[:2]
    assert (ours["provider"], torchs["provider"]) == ("schedgen", "torch")
    assert (ours["eager us"], ours["on the GPU us"], ours["graph us"]) == (2000, 1000, 500)
    assert (ours["eager, of best peer"], ours["graph, of best peer"]) == (1.5, 2.0)
    assert torchs["eager, of best peer"] == ""
    flops = 2 * 1024**3
    assert ours["eager TFLOP/s"] == round(flops / 2.0 / 1e9, 1)
