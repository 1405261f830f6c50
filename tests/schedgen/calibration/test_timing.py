"""Runs of experiments, timed on a GPU that is not there."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch

from schedgen.calibration import timing
from schedgen.calibration.clocks import Clocks
from schedgen.calibration.experiments import Manner
from schedgen.calibration.timing import Timed
from schedgen.kernels.errors import DeviceError, LaunchError
from tests.schedgen.calibration.gpu import MHZ, FakeGpu, installed

PLAIN = Manner()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    monkeypatch.setattr(timing, "_L2_BYTES", 1 << 10)
    return installed(monkeypatch, FakeGpu())


def timed(gpu: FakeGpu, milliseconds: float, launches: int, manner: Manner, **more: Any) -> Timed:
    return Timed(gpu.kernel(milliseconds), launches, manner, cast("Clocks", gpu), **more)


@pytest.mark.parametrize("manner", [PLAIN, Manner(sms=1), Manner(cold=True)])
def test_one_launch_on_one_sm(gpu: FakeGpu, manner: Manner) -> None:
    """The clock is counted on all SMs, beside a kernel that is there first."""
    gpu.late = 0.0
    cycles, mhz = timed(gpu, 0.25, 1, manner).once()
    assert (cycles, mhz) == (pytest.approx(0.25 * MHZ * 1e3), MHZ)
    ((milliseconds, blocks, after),) = gpu.counts
    assert milliseconds == pytest.approx(0.8 * 0.25)
    assert (blocks, after) == (None, -1.0)


@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("sms", [None, 1, 128])
def test_launches_follow_each_other(gpu: FakeGpu, graph: bool, sms: int | None) -> None:
    """The host is slower than the kernel, and is not measured."""
    run = timed(gpu, 0.002, 200, Manner(sms=sms, graph=graph), queued=True)
    assert run.once()[0] == pytest.approx(200 * 0.002 * MHZ * 1e3)
    ((milliseconds, blocks, after),) = gpu.counts
    assert milliseconds == pytest.approx(0.8 * 0.4)
    assert blocks == (2 if sms == 128 else 66)
    assert after > 0


def test_l2_is_overwritten_before_the_run(gpu: FakeGpu, monkeypatch: pytest.MonkeyPatch) -> None:
    run = timed(gpu, 0.25, 1, Manner(cold=True))
    flush = cast("torch.Tensor", run._flush)  # pyright: ignore[reportPrivateUsage]
    flush.fill_(1)
    run.once()
    assert not flush.any()
    assert timed(gpu, 0.25, 1, PLAIN)._flush is None  # pyright: ignore[reportPrivateUsage]


def test_something_goes_on_beside_it(gpu: FakeGpu) -> None:
    """It begins first, on a stream of its own, and ends last."""
    manner = Manner(beside="other")
    run = timed(gpu, 0.3, 1, manner, beside=gpu.kernel(2.0))
    assert run.once()[0] == pytest.approx(0.3 * MHZ * 1e3)
    ((_, blocks, after),) = gpu.counts
    assert (blocks, after > 0) == (2, True)


def test_what_goes_on_beside_it_ends_too_early(gpu: FakeGpu) -> None:
    with pytest.raises(LaunchError, match="ended first, in each of several runs; fix"):
        timed(gpu, 0.3, 1, Manner(beside="other"), beside=gpu.kernel(0.2))


def test_no_sm_is_left_for_the_clock(gpu: FakeGpu) -> None:
    gpu.sms = 129
    with pytest.raises(DeviceError, match="has 129 SMs; an experiment on 128 needs 2 more"):
        timed(gpu, 0.3, 1, Manner(sms=128))
