"""The bench for GPUs, with torch on the CPU in the place of the GPU and of its clocks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from schedgen.benchmarks.timing import Timed
from schedgen.codegen.facts import Facts, read_facts
from schedgen.kernels.errors import DeviceError, LaunchError
from schedgen.tuning import on_gpu
from schedgen.tuning.records import read_manifest

Runs = dict[str, Callable[[], Any]]
SHAPE = {"m": 64.0, "n": 32.0, "k": 48.0}


class StandIn:
    """A product of torch in the place of a generated one; some are wrong, or break off."""

    wrong: str = ""
    breaks: str = ""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.facts: Facts = read_facts(path)

    def __call__(self, a: torch.Tensor, b: torch.Tensor, d: torch.Tensor) -> None:
        if self.breaks and self.breaks in self.path.name:
            raise RuntimeError("an illegal memory access was encountered")
        if self.wrong and self.wrong in self.path.name:
            b = b[:, :-8].float()
            a = a[:, :-8].float()
        d.copy_(a.float() @ b.float().mT)


def _timed(runs: Runs, rounds: int = 0) -> dict[str, Timed]:
    del rounds
    for run in runs.values():
        run()
    return {name: Timed(float(at + 1), 1700.0) for at, name in enumerate(runs)}


def _in_graphs(runs: Runs, times: dict[str, Timed]) -> dict[str, float]:
    return {name: times[name].milliseconds / 2 for name in list(runs)[:-1]}  # one is not captured


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    def device(then: str) -> torch.device:
        assert then == "tune --record FILE"
        return torch.device("cpu")

    def nothing(*arguments: object) -> None:
        del arguments

    monkeypatch.setattr(on_gpu, "check_device", device)
    monkeypatch.setattr(on_gpu, "architecture", lambda device: "sm_90a")  # pyright: ignore
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a CPU")  # pyright: ignore
    monkeypatch.setattr(torch.cuda, "synchronize", nothing)
    monkeypatch.setattr(on_gpu, "GeneratedKernel", StandIn)
    for name in ("warm", "_compile"):
        monkeypatch.setattr(on_gpu, name, nothing)
    for name in ("eagerly", "in_turns"):
        monkeypatch.setattr(on_gpu, name, _timed)
    monkeypatch.setattr(on_gpu, "in_graphs", _in_graphs)
    return monkeypatch


def bench(prepared: Path) -> on_gpu.GpuBench:
    manifest = read_manifest(prepared)
    object.__setattr__(manifest, "shapes", (SHAPE,))
    return on_gpu.bench(manifest, prepared)


def test_round(gpu: pytest.MonkeyPatch, prepared: Path) -> None:
    made = bench(prepared)
    assert made.failed() == {}
    found = made.round(SHAPE)
    names = [one.name for one in read_manifest(prepared).candidates]
    assert [found[name].eager for name in names] == [1.0, 2.0, 3.0]
    assert [found[name].graph for name in names] == [0.5, 1.0, None]
    assert made.mhz == 1700.0
    assert made.device == "a CPU"


def test_gpu_of_another_architecture(gpu: pytest.MonkeyPatch, prepared: Path) -> None:
    gpu.setattr(on_gpu, "architecture", lambda device: "sm_100a")  # pyright: ignore
    with pytest.raises(DeviceError, match="are for sm_90a, and this GPU is sm_100a; fix: "):
        bench(prepared)


def test_candidate_that_computes_something_else(gpu: pytest.MonkeyPatch, prepared: Path) -> None:
    last = read_manifest(prepared).candidates[-1]
    gpu.setattr(StandIn, "wrong", last.name)
    made = bench(prepared)
    assert list(made.failed()) == [last.name]
    assert "from those of the first candidate" in made.failed()[last.name]
    assert last.name not in made.round(SHAPE)


def test_candidate_that_breaks_the_gpu(gpu: pytest.MonkeyPatch, prepared: Path) -> None:
    gpu.setattr(StandIn, "breaks", "c00")
    with pytest.raises(LaunchError, match="candidate c00 breaks off: an illegal memory access"):
        bench(prepared).failed()
