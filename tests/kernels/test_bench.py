"""Benchmarks without a GPU: rows are complete, whatever the times are."""

from __future__ import annotations

import json
import runpy
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from schedgen.cli.app import app
from schedgen.kernels import bench, bench_common
from schedgen.kernels.bench_common import Run, Timed
from schedgen.kernels.newton_schulz import streams
from tests.kernels.standin import StandIn

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
COLUMNS = {"provider", "ms", "TFLOP/s", "of best peer", "error", "cycles/iteration", "model"}


class Loaded(StandIn):
    """Stands in for `GeneratedKernel`."""

    def __call__(self, *tensors: torch.Tensor) -> None:
        self.launch(tensors)


def in_turns(candidates: dict[str, Run]) -> dict[str, Timed]:
    return {name: Timed(2.0 + n, 1000.0) for n, name in enumerate(candidates)}


def in_no_time(candidates: dict[str, Run]) -> dict[str, Timed]:
    """Nanoseconds, so that small problems have TFLOP/s."""
    return {name: Timed(t.milliseconds / 1e6, t.clock) for name, t in in_turns(candidates).items()}


def in_graphs(candidates: dict[str, Run], times: dict[str, Timed]) -> dict[str, float]:
    """A millisecond less than without a graph."""
    return {name: times[name].milliseconds - 1 for name in candidates}


@pytest.fixture
def small(launches: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Small problems on the CPU; the names of launched files."""

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape).to(torch.bfloat16)

    plain: Any = torch.empty

    def empty(*shape: int, **options: Any) -> torch.Tensor:
        return plain(*shape, **options | {"device": "cpu"})

    monkeypatch.setattr(bench, "_random", random)
    monkeypatch.setattr(bench, "in_turns", in_turns)
    monkeypatch.setattr(bench, "in_graphs", in_graphs)
    monkeypatch.setattr(bench, "ATTENTION", [(1, 64, 2, 64, False), (1, 64, 2, 128, True)])
    monkeypatch.setattr(bench, "SQUARES", [(64, 64)])
    monkeypatch.setattr(bench, "SYMMETRIC", [(64, 128)])
    monkeypatch.setattr(bench, "CHAINS", [(2, 64, 32, 128)])
    monkeypatch.setattr(bench.launcher, "architecture", lambda device: "sm_90a")  # pyright: ignore
    monkeypatch.setattr(bench.library, "load", lambda path: Loaded(launches, path.name))  # pyright: ignore
    monkeypatch.setattr(bench.launcher, "multiprocessors", lambda device: 132)  # pyright: ignore
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(torch, "empty", empty)
    return launches


FLOPS = {
    "attention_fwd": {
        (1, 64, 2, 64, False): 4 * 2 * 64 * 64 * 64,
        (1, 64, 2, 128, True): 4 * 2 * 64 * 64 * 128 / 2,
    },
    "gemm": {(64, 64): 2 * 64**3},
    "gemm_symmetric": {(64, 128): 2 * 64 * 64 * 128},
    "gemm_epilogue": {(64, 64): 2 * 64**3},
    "gemm_chain": {(2, 64, 32, 128): 2 * (2 * 2 * 64 * 32 * 128)},
}
"""Operations of the small problems, by hand."""
PROBLEM = {
    "attention_fwd": ("batch", "seq", "heads", "head_dim", "causal"),
    "gemm_chain": ("batch", "m", "n", "width"),
}


@pytest.mark.parametrize("spec", [name for name in bench.SPECS if name != "polar"])
def test_rows(small: list[str], spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of ours and one of a peer for each problem; operations over the time of each."""
    monkeypatch.setattr(bench, "in_turns", in_no_time)
    rows = [row for row in bench.SPECS[spec]() if "TFLOP/s" in row]
    keys = PROBLEM.get(spec, ("m=n", "k"))
    ours = {tuple(row[key] for key in keys): row for row in rows if row["provider"] == "schedgen"}
    assert ours.keys() == FLOPS[spec].keys()
    for problem, flops in FLOPS[spec].items():
        mine, *others = (row for row in rows if tuple(row[key] for key in keys) == problem)
        assert set(mine) >= COLUMNS
        assert others
        for row, nanoseconds in zip((mine, *others), (2, 3, 4), strict=False):
            assert row["TFLOP/s"] == round(flops / nanoseconds / 1e3, 1)
            assert 1e-4 < float(str(row["error"])) < 4e-3  # of a result in bf16, against float64
        assert mine["of best peer"] == 1.5
    assert len(small) == len(ours)
    assert all(name.startswith(spec) for name in small)


@pytest.mark.usefixtures("small")
def test_rows_have_times_in_graphs() -> None:
    """Of products, which longer computations consist of."""
    rows = [row for spec in ("gemm", "gemm_symmetric") for row in bench.SPECS[spec]()]
    assert [row["graph ms"] for row in rows] == [1.0, 2.0] * 2
    assert [row["of best peer in a graph"] for row in rows] == [2.0, ""] * 2


def test_a_run_in_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph has about two milliseconds of runs, and from 2 to 20 of them."""
    counts: list[int] = []

    def captured(run: Run, count: int) -> tuple[Run, None]:
        counts.append(count)
        return run, None

    monkeypatch.setattr(bench_common, "captured", captured)
    monkeypatch.setattr(bench_common, "in_turns", in_turns)  # pyright: ignore
    times = {name: Timed(t, 1000.0) for name, t in (("a", 0.01), ("b", 0.5), ("c", 7.0))}
    found = bench_common.in_graphs(dict.fromkeys(times, lambda: None), times)
    assert counts == [20, 4, 2]
    assert found == {"a": 2 / 20, "b": 3 / 4, "c": 4 / 2}


def test_a_peer_that_cannot_be_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    def captured(run: Run, count: int) -> tuple[Run, None]:
        run()
        return run, None

    def refuse() -> None:
        raise RuntimeError("not while a graph is captured")

    monkeypatch.setattr(bench_common, "captured", captured)
    monkeypatch.setattr(bench_common, "in_turns", in_turns)  # pyright: ignore
    times = {name: Timed(1.0, 1000.0) for name in ("schedgen", "quack")}
    found = bench_common.in_graphs({"schedgen": lambda: None, "quack": refuse}, times)
    assert bench_common.in_graph("quack", found) == {}
    ours = bench_common.in_graph("schedgen", found)
    assert ours == {"graph ms": 1.0, "of best peer in a graph": ""}
    with pytest.raises(RuntimeError):
        bench_common.in_graphs({"schedgen": refuse}, times)


class Event:
    """A CUDA event on a clock that `clock` advances."""

    clock = 0.0

    def __init__(self, **options: bool) -> None:
        self.time = 0.0

    def record(self) -> None:
        self.time = Event.clock

    def elapsed_time(self, other: Event) -> float:
        return other.time - self.time


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "empty", lambda *shape, **options: torch.zeros(1))  # pyright: ignore
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: None)  # pyright: ignore
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


@pytest.mark.usefixtures("timed")
def test_candidates_take_turns_in_many_orders() -> None:
    order: list[str] = []
    bench_common.in_turns({name: partial(order.append, name) for name in "abc"})
    rounds = [tuple(order[n : n + 3]) for n in range(0, len(order), 3)]
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len(set(rounds)) == 6


@pytest.mark.usefixtures("timed")
@pytest.mark.parametrize(("milliseconds", "runs"), [(0.01, 245), (1.0, 45)])
def test_times_are_means_of_the_middle_half(milliseconds: float, runs: int) -> None:
    """Every eighth run is far off; the rest takes one time or another in turn."""
    calls: list[int] = []

    def run() -> None:
        calls.append(1)
        far = 100 if len(calls) % 8 == 0 else 0
        Event.clock += milliseconds * (far + 1 + (len(calls) // 2 % 2) / 10)

    found = bench_common.in_turns({"a": run})["a"].milliseconds
    assert found == pytest.approx(1.05 * milliseconds, rel=0.03)
    assert len(calls) == runs


def test_a_peer_that_refuses_is_noted(small: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise NotImplementedError("not on this GPU")

    monkeypatch.setattr(bench.functional, "scaled_dot_product_attention", refuse)
    rows = list(bench.attention_rows())
    assert {row["provider"] for row in rows if "ms" in row} == {"schedgen"}
    notes = [row["note"] for row in rows if row["provider"] == "cuDNN"]
    assert notes == ["NotImplementedError: not on this GPU"] * 2


@pytest.fixture
def small_polar(small: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def graph(run: Run) -> tuple[Run, torch.Tensor]:
        return run, run()

    def compiled(function: Any, dynamic: bool) -> Any:
        assert not dynamic
        return function

    monkeypatch.setattr(bench.bench_polar, "captured", graph)
    monkeypatch.setattr(bench.bench_polar, "_device", lambda: "cpu")  # pyright: ignore
    monkeypatch.setattr(bench.bench_polar, "_DENSE", 64)
    monkeypatch.setattr(bench.bench_polar, "SHAPES", [(1, 16, 16), (3, 16, 40)])
    monkeypatch.setattr(torch, "compile", compiled)


@pytest.mark.usefixtures("small_polar")
def test_polar() -> None:
    torch.manual_seed(0)
    rows = list(bench.SPECS["polar"]())
    assert rows[-1]["note"] == "not installed: pip install gram-newton-schulz quack-kernels"
    providers = ["schedgen", "torch standard", "torch gram", "torch.compile standard"]
    assert [row["provider"] for row in rows[:-1]] == 2 * providers
    # Candidates take 2, 3, 4 and 5 ms; a product of 64 takes 2.
    assert [row["of best peer"] for row in rows[:-1]] == 2 * [1.5, "", "", ""]
    assert all(0 < float(str(row["error"])) < 1e-2 for row in rows[:-1])
    assert all(0 < float(str(row["defect"])) < 1 for row in rows[:-1])
    rate = 2 * 64**3 / 2e-3
    assert rows[4]["floor ms"] == round(bench.bench_polar.floor(3, 16, 40) / rate * 1e3, 3)


@pytest.mark.usefixtures("small_polar")
def test_polar_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no peer of ours, and nothing is allowed to go side by side in it."""
    allowed: list[bool] = []

    def noted(x: torch.Tensor, *options: Any, **named: Any) -> torch.Tensor:
        allowed.append(streams.allowed())
        return x

    monkeypatch.setattr(bench.bench_polar, "polar", noted)
    monkeypatch.setattr(bench.bench_polar, "SHAPES", [(1, 16, 40)])
    rows = list(bench.polar_rows(serial=True))
    assert [row["provider"] for row in rows[:2]] == ["schedgen", "schedgen serial"]
    assert [row["of best peer"] for row in rows[:2]] == [2.0, ""]  # peers from the third on
    assert sorted(set(allowed)) == [False, True]


@pytest.mark.usefixtures("small_polar")
def test_polar_with_a_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Peer:
        def __init__(self, ns_epsilon: float, compile_kwargs: dict[str, Any]) -> None: ...

        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            if x.shape[0] > 1:
                raise NotImplementedError("one at a time")
            return torch.zeros_like(x)

    class Module:
        GramNewtonSchulz = Peer

    monkeypatch.setattr(bench.bench_polar, "_peer", lambda: Module)  # pyright: ignore
    rows = [row for row in bench.SPECS["polar"]() if row["provider"] == "gram-quack"]
    assert (rows[0]["error"], rows[0]["defect"]) == ("1.00e+00", "1.0000")
    assert rows[1]["note"] == "NotImplementedError: one at a time"
    monkeypatch.syspath_prepend(BENCHMARKS)
    script = runpy.run_path(str(BENCHMARKS / "polar.py"))
    lines: list[dict[str, object]] = script["by_shape"](bench.polar_rows(serial=True))
    # Candidates take 2 ms, 3 and so on: ours, ours in order, three of torch and the peer.
    assert [line["of serial"] for line in lines] == [1.5, 1.5]
    assert [line["of gram-quack"] for line in lines] == [3.5, ""]
    assert [line["torch standard"] for line in lines] == [4.0, 4.0]
    assert {"batch", "n", "m", "schedgen", "floor", "error", "defect"} <= set(lines[0])


def test_command(small: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run = CliRunner().invoke
    assert run(app, ["bench", "nothing"]).exit_code == 2
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run(app, ["bench", "gemm"]).exit_code == 1
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    lines = run(app, ["bench", "gemm"]).stdout.splitlines()
    assert lines[0].startswith("gpu a GPU")
    assert lines[1].split()[:5] == ["spec", "m=n", "k", "tile", "provider"]
    assert lines[2].split()[:5] == ["gemm", "64", "64", "64x64x128", "schedgen"]
    assert lines[2].index("schedgen") == lines[1].index("provider")
    found = json.loads(run(app, ["bench", "gemm", "--json"]).stdout)
    assert found["gpu"] == "a GPU"
    assert found["rows"][0]["m=n"] == 64
