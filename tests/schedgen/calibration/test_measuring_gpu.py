"""Experiments from their kernels to a record, on a GPU that is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.calibration import measuring
from schedgen.calibration.experiments import Experiment, Manner
from schedgen.calibration.measuring import measure
from schedgen.calibration.preparing import Preparation, prepare
from schedgen.codegen.facts import Facts, read_facts
from schedgen.kernels import recording
from schedgen.kernels.errors import LaunchError
from tests.schedgen.calibration.gpu import MHZ, FakeGpu, installed

LAUNCH, TILE, ITERATION = 2e-3, 3e-3, 1e-3
"""Milliseconds."""
SETTINGS = {"reduction": "sum", "columns": "64"}
TRIPS = (1000, 3000)
EXPERIMENTS = (
    Experiment("iterations", "rows", SETTINGS, TRIPS),
    Experiment("cold", "rows", SETTINGS, TRIPS, manner=Manner(cold=True)),
    Experiment("beside", "rows", SETTINGS, (30, 60), manner=Manner(beside="iterations")),
    Experiment("launches", "rows", SETTINGS, (4, 4), launches=(10, 40)),
    Experiment("graph", "rows", SETTINGS, (4, 4), launches=(1, 40), manner=Manner(graph=True)),
    Experiment(
        "tiles", "rows", SETTINGS, (4, 4), sizes={"rows": (640, 6400)}, manner=Manner(sms=1)
    ),
    Experiment("all", "rows", SETTINGS, (4, 8), sizes={"rows": (16384, 16384)}, manner=Manner(128)),
)
PER_ITERATION, PER_TILE = ITERATION * MHZ * 1e3, (TILE + 4 * ITERATION) * MHZ * 1e3
EXPECTED = {
    **dict.fromkeys(["iterations", "cold", "beside", "all"], PER_ITERATION),
    **dict.fromkeys(["launches", "graph"], LAUNCH * MHZ * 1e3 + PER_TILE),
    "tiles": PER_TILE,
}


class FakeLauncher:
    """Of a kernel whose output tiles have 64 rows; the first tensor tells its iterations."""

    gpu: FakeGpu
    broken: tuple[int, ...] = ()
    """Iterations with which it does not run."""

    def __init__(self, path: Path, device: torch.device, sms: int | None = None) -> None:
        assert device.type == "cpu"
        self.facts, self.sms = read_facts(path), sms or self.gpu.sms

    def launch(self, tensors: Sequence[Mapping[str, int]], numbers: Sequence[float]) -> None:
        assert not numbers
        sizes = tensors[0]
        if sizes["steps"] in self.broken:
            raise LaunchError("it was not launched: CUDA error 1\nand more")
        turns = -(-sizes["rows"] // 64 // self.sms)
        self.gpu.kernel(LAUNCH + turns * (TILE + sizes["steps"] * ITERATION))()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Preparation, Path]:
    folder = tmp_path_factory.mktemp("kernels")
    return prepare(EXPERIMENTS, "h200", folder), folder


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    gpu = installed(monkeypatch, FakeGpu())

    def inputs(facts: Facts, sizes: Mapping[str, int], device: torch.device) -> dict[str, Any]:
        assert {e for p in facts.tensors for e in p.extents} == set(sizes)
        return {"x": sizes}

    class Launcher(FakeLauncher):
        pass

    Launcher.gpu = gpu
    monkeypatch.setattr(measuring, "Launcher", Launcher)
    monkeypatch.setattr(measuring, "inputs", inputs)
    monkeypatch.setattr(measuring, "compiled", lambda path, facts, sms: b"")  # pyright: ignore
    monkeypatch.setattr(measuring, "toolchain", lambda: "nothing")
    monkeypatch.setattr(measuring, "check_device", lambda then: gpu.device)  # pyright: ignore
    monkeypatch.setattr(measuring, "Clocks", lambda device: gpu)  # pyright: ignore
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a CPU")  # pyright: ignore
    return gpu


def test_each_manner_measures_what_there_is_more_of(
    made: tuple[Preparation, Path], gpu: FakeGpu
) -> None:
    said: list[str] = []
    record = measure(*made, said.append, rounds=3)
    assert not record.failed
    assert {name: one.cycles for name, one in record.measured.items()} == pytest.approx(EXPECTED)
    assert {one.mhz for one in record.measured.values()} == {MHZ}
    assert (record.mhz, record.model) == (MHZ, made[0].model)
    assert said[0] == "compiling 7 kernels"
    assert len(gpu.counts) == 3 * 2 * len(EXPERIMENTS)


def test_equal_kernels_for_as_many_sms_are_one_file(
    made: tuple[Preparation, Path], gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is loaded once, and no two have the digest that their symbols are named after."""
    files = {(one.file, one.manner.sms) for one in made[0].kernels}
    assert {sms for _, sms in files} == {None, 1, 128}
    assert len({read_facts(made[1] / file).sha256 for file, _ in files}) == len(files) == 3
    loaded: list[str] = []

    class Launcher(measuring.Launcher):  # type: ignore[misc, valid-type]
        def __init__(self, path: Path, device: torch.device, sms: int | None = None) -> None:
            loaded.append(path.name)
            super().__init__(path, device, sms)

    monkeypatch.setattr(measuring, "Launcher", Launcher)
    measure(*made, rounds=2)
    assert sorted(loaded) == sorted(file for file, _ in files)


def test_what_does_not_run_does_not_stop_the_others(
    made: tuple[Preparation, Path], gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring.Launcher, "broken", (60,))
    record = measure(*made, rounds=2)
    assert record.failed == {"beside": "it was not launched: CUDA error 1"}
    assert record.measured.keys() | record.failed.keys() == EXPECTED.keys()


def test_nothing_runs(
    made: tuple[Preparation, Path], gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measuring.Launcher, "broken", (4, 30, 1000))
    with pytest.raises(LaunchError, match="CUDA error 1"):
        measure(*made, rounds=2)


def test_tensors_within_wider_matrices(
    made: tuple[Preparation, Path], gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have the sizes of the run, and rows as long as those of the matrix."""
    given: list[Tensor] = []

    class Launcher(measuring.Launcher):  # type: ignore[misc, valid-type]
        def launch(self, tensors: Sequence[Any], scalars: Sequence[float] = ()) -> None:
            given.extend(tensors)

    monkeypatch.setattr(measuring, "Launcher", Launcher)
    monkeypatch.setattr(measuring, "inputs", recording.inputs)
    (first, *_), folder = made[0].kernels, made[1]
    tensors = read_facts(folder / first.file).tensors
    at = next(n for n, parameter in enumerate(tensors) if len(parameter.extents) > 1)
    parameter = tensors[at]
    sizes = [first.extents[0][extent] for extent in parameter.extents]
    wide = {parameter.extents[-1]: sizes[-1] + 64}
    for within in ({}, wide):
        one = replace(first, manner=replace(first.manner, within=within))
        measuring._Loaded(folder, gpu).launch(one, 0)()  # pyright: ignore
        assert list(given[at].shape) == sizes
        assert given[at].stride(-2) == sizes[-1] + (64 if within else 0)
        given.clear()
