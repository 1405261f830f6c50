"""Benchmarks without a GPU: rows are complete, whatever the times are."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from schedgen.benchmarks import polar, shipped
from schedgen.benchmarks.timing import Run, Timed
from schedgen.cli.app import app
from schedgen.kernels.newton_schulz import streams
from tests.kernels.standin import StandIn

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
COLUMNS = {
    *("provider", "ms", "TFLOP/s", "of best peer", "eager ms", "of best peer eagerly", "error"),
    *("cycles/iteration", "model"),
}


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

    monkeypatch.setattr(shipped, "_random", random)
    monkeypatch.setattr(shipped, "in_turns", in_turns)
    monkeypatch.setattr(shipped, "eagerly", in_turns)
    monkeypatch.setattr(shipped, "warm", lambda run: None)  # pyright: ignore
    monkeypatch.setattr(shipped, "in_graphs", in_graphs)
    monkeypatch.setattr(shipped, "ATTENTION", [(1, 64, 2, 2, 64, False), (1, 64, 2, 2, 128, True)])
    monkeypatch.setattr(shipped, "SQUARES", [(64, 64, 64)])
    monkeypatch.setattr(shipped, "LAYERS", [(32, 64, 128)])
    monkeypatch.setattr(shipped, "SYMMETRIC", [(64, 64, 128)])
    monkeypatch.setattr(shipped, "CHAINS", [(2, 64, 32, 128)])
    monkeypatch.setattr(shipped.launcher, "architecture", lambda device: "sm_90a")  # pyright: ignore
    monkeypatch.setattr(shipped.library, "load", lambda path: Loaded(launches, path.name))  # pyright: ignore
    monkeypatch.setattr(shipped.launcher, "multiprocessors", lambda device: 132)  # pyright: ignore
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    monkeypatch.setattr(torch, "empty", empty)
    return launches


FLOPS = {
    "attention_fwd": {
        (1, 64, 2, 64, False): 4 * 2 * 64 * 64 * 64,
        (1, 64, 2, 128, True): 4 * 2 * 64 * 64 * 128 / 2,
    },
    "gemm": {(64, 64, 64): 2 * 64**3, (32, 64, 128): 2 * 32 * 64 * 128},
    "gemm_symmetric": {(64, 64, 128): 2 * 64 * 64 * 128},
    "gemm_epilogue": {(64, 64, 64): 2 * 64**3},
    "gemm_chain": {(2, 64, 32, 128): 2 * (2 * 2 * 64 * 32 * 128)},
}
"""Operations of the small problems, by hand."""
PROBLEM = {
    "attention_fwd": ("batch", "seq", "heads", "head_dim", "causal"),
    "gemm_chain": ("batch", "m", "n", "width"),
}


@pytest.mark.medium
@pytest.mark.parametrize("spec", [name for name in shipped.SPECS if name != "polar"])
def test_rows(small: list[str], spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of ours and one of a peer for each problem; operations over the time of each."""
    monkeypatch.setattr(shipped, "in_turns", in_no_time)
    rows = [row for row in shipped.SPECS[spec]() if "TFLOP/s" in row]
    keys = PROBLEM.get(spec, ("m", "n", "k"))
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
    rows = [row for spec in ("gemm", "gemm_symmetric") for row in shipped.SPECS[spec]()]
    assert [row["graph ms"] for row in rows] == [1.0, 2.0] * 3
    assert [row["of best peer in a graph"] for row in rows] == [2.0, ""] * 3


def test_a_peer_that_refuses_is_noted(small: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise NotImplementedError("not on this GPU")

    monkeypatch.setattr(shipped.functional, "scaled_dot_product_attention", refuse)
    rows = list(shipped.attention_rows())
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

    monkeypatch.setattr(polar, "captured", graph)
    monkeypatch.setattr(polar, "_device", lambda: "cpu")  # pyright: ignore
    monkeypatch.setattr(polar, "_DENSE", 64)
    monkeypatch.setattr(polar, "SHAPES", [(1, 16, 16), (3, 16, 40)])
    monkeypatch.setattr(torch, "compile", compiled)


@pytest.mark.usefixtures("small_polar")
def test_polar() -> None:
    torch.manual_seed(0)
    rows = list(shipped.SPECS["polar"]())
    assert rows[-1]["note"] == "not installed: pip install gram-newton-schulz quack-kernels"
    providers = ["schedgen", "torch standard", "torch gram", "torch.compile standard"]
    assert [row["provider"] for row in rows[:-1]] == 2 * providers
    # Candidates take 2, 3, 4 and 5 ms; a product of 64 takes 2.
    assert [row["of best peer"] for row in rows[:-1]] == 2 * [1.5, "", "", ""]
    assert all(0 < float(str(row["error"])) < 1e-2 for row in rows[:-1])
    assert all(0 < float(str(row["defect"])) < 1 for row in rows[:-1])
    rate = 2 * 64**3 / 2e-3
    assert [row["eager ms"] for row in rows[:4]] == [2.0, 3.0, 4.0, 5.0]
    assert [row["of best peer eagerly"] for row in rows if row["provider"] == "schedgen"] == [
        1.5,
        1.5,
    ]
    assert rows[4]["floor ms"] == round(polar.floor(3, 16, 40) / rate * 1e3, 3)


@pytest.mark.usefixtures("small_polar")
def test_polar_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no peer of ours, and nothing is allowed to go side by side in it."""
    allowed: list[bool] = []

    def noted(x: torch.Tensor, *options: Any, **named: Any) -> torch.Tensor:
        allowed.append(streams.allowed())
        return x

    monkeypatch.setattr(polar, "polar", noted)
    monkeypatch.setattr(polar, "SHAPES", [(1, 16, 40)])
    rows = list(shipped.polar_rows(serial=True))
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

    monkeypatch.setattr(polar, "_peer", lambda: Module)  # pyright: ignore
    rows = [row for row in shipped.SPECS["polar"]() if row["provider"] == "gram-quack"]
    assert (rows[0]["error"], rows[0]["defect"]) == ("1.00e+00", "1.0000")
    assert rows[1]["note"] == "NotImplementedError: one at a time"
    monkeypatch.syspath_prepend(BENCHMARKS)
    script = runpy.run_path(str(BENCHMARKS / "polar.py"))
    lines: list[dict[str, object]] = script["by_shape"](shipped.polar_rows(serial=True))
    # Candidates take 2 ms, 3 and so on: ours, ours in order, three of torch and the peer.
    assert [line["of serial"] for line in lines] == [1.5, 1.5]
    assert [line["of gram-quack"] for line in lines] == [3.5, ""]
    assert [line["of gram-quack eagerly"] for line in lines] == [3.5, ""]
    assert [line["torch standard"] for line in lines] == [4.0, 4.0]
    assert {"batch", "n", "m", "schedgen", "floor", "error", "defect"} <= set(lines[0])


@pytest.mark.usefixtures("small_polar")
def test_all_that_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each shape, and what it comes to beside what is aimed at."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    script = runpy.run_path(str(BENCHMARKS / "h200.py"))
    groups = [group for name in script["FAMILIES"] for group in script["measured"](name)]
    assert [group[-1]["family"] for group in groups] == [
        *["attention"] * 2, *["gemm"] * 2, "symmetric", *["polar"] * 2
    ]  # fmt: skip
    line = script["line"](groups[2])
    assert (line["m"], line["schedgen eager"], line["torch graph"]) == (64, 2.0, 2.0)
    rows = [row for group in groups for row in group]
    found = {(row["family"], row["called"]): row for row in script["summary"](rows)}
    # Candidates take 2 ms, 3 and so on eagerly, 1 and 2 in graphs; polar has no peer here.
    assert found["gemm", "eager"]["mean"] == 1.5
    assert found["gemm", "graphs"]["mean"] == found["attention", "graphs"]["least"] == 2.0
    assert found["polar", "eager"]["shapes"] == 0
    slow = [{"family": "gemm", "provider": "schedgen", "of best peer eagerly": s} for s in (0.9, 1)]
    eager, graphs = script["summary"](slow)
    assert (eager["least"], eager["below"], graphs["shapes"]) == (0.9, 1, 0)


def test_command(small: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    run = CliRunner().invoke
    assert run(app, ["bench", "nothing"]).exit_code == 2
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert run(app, ["bench", "gemm"]).exit_code == 1
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    lines = run(app, ["bench", "gemm"]).stdout.splitlines()
    assert lines[0].startswith("date 2")
    assert ", gpu a GPU, " in lines[0]
    assert lines[1].split()[:5] == ["spec", "m", "n", "k", "tile"]
    assert lines[2].split()[:5] == ["gemm", "64", "64", "64", "64x64x128"]
    assert lines[2].index("schedgen") == lines[1].index("provider")
    found = json.loads(run(app, ["bench", "gemm", "--json"]).stdout)
    assert found["gpu"] == "a GPU"
    assert found["rows"][0]["m"] == 64
