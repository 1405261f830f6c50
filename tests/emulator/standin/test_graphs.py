"""CUDA graphs of torch on a GPU that is not there."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Generator

import pytest
import torch

from schedgen.emulator.launch.targets import target
from schedgen.emulator.standin.torch_standin import stand_in


@pytest.fixture(autouse=True)
def gpu() -> Generator[None]:
    with stand_in(target("sm_100a", 4)):
        yield


def test_nothing_happens_before_the_replay() -> None:
    x, graph = torch.zeros(4, device="cuda"), torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        y = x * 2
        z = y + 1
        z.mul_(3)
        view = z[1:]
        x.add_(1)
    assert not torch.cuda.is_current_stream_capturing()
    assert x.tolist() == [0] * 4
    x.fill_(2)
    graph.replay()
    assert (z.tolist(), view.tolist(), x.tolist()) == ([15] * 4, [15] * 3, [3] * 4)
    graph.replay()
    assert (z.tolist(), x.tolist()) == ([21] * 4, [4] * 4)
    graph.reset()
    graph.replay()
    assert x.tolist() == [4] * 4


def test_what_is_not_permitted_during_a_capture() -> None:
    x, graph = torch.zeros(4, device="cuda"), torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="not permitted"), torch.cuda.graph(graph):
        x.sum().item()
    graph.capture_begin()
    with pytest.raises(RuntimeError, match="captured already"):
        torch.cuda.CUDAGraph().capture_begin()
    graph.capture_end()
