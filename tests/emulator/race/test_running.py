"""Programs with a GPU that is not there around them."""

from __future__ import annotations

from pathlib import Path

from schedgen.emulator.race.programs import Ended, script
from schedgen.emulator.race.running import Options, checked

GRAPH = """
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def add(a: cute.Tensor, number: cute.Float32):
    t, _, _ = cute.arch.thread_idx()
    a[t] = a[t] + number


@cute.jit
def launch(a: cute.Tensor, number: cute.Float32):
    add(a, number).launch(grid=(1, 1, 1), block=(32, 1, 1))


a = torch.zeros(32, device="cuda")
tensor = from_dlpack(a)
compiled = cute.compile(launch, tensor, 0.0)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    compiled(tensor, 2.0)
    b = a * 10
assert a[0] == 0
graph.replay()
graph.replay()
assert a.tolist() == [4.0] * 32
assert b.tolist() == [40.0] * 32
"""


def test_launches_of_a_graph_are_executed_by_its_replays(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(GRAPH, "utf-8")
    session, ended = checked(script(str(path), ()), Options("sm_90a", schedule="round-robin"))
    assert ended == Ended()
    assert [ran.ended for ran in session.launches] == [True, True]
    assert not session.found
