"""Programs with a GPU that is not there around them."""

from __future__ import annotations

from pathlib import Path

import pytest

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


RELEASED = """
import gc
import torch
from cutlass import cute, Float32
from cutlass.cute.runtime import from_dlpack, make_ptr


@cute.kernel
def copy(source: cute.Pointer, b: cute.Tensor):
    t, _, _ = cute.arch.thread_idx()
    b[t] = cute.make_tensor(source, cute.make_layout(32))[t]


@cute.jit
def launch(source: cute.Pointer, b: cute.Tensor):
    copy(source, b).launch(grid=(1, 1, 1), block=(32, 1, 1))


def address():
    return torch.full((32,), 3.0, device="cuda").data_ptr()


b = torch.zeros(32, device="cuda")
source = make_ptr(Float32, address(), cute.AddressSpace.gmem, assumed_align=16)
gc.collect()
launch(source, from_dlpack(b))
assert b.tolist() == [3.0] * 32
"""


def test_memory_that_was_released_is_a_finding_and_still_there(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(RELEASED, "utf-8")
    session, ended = checked(script(str(path), ()), Options("sm_90a", schedule="round-robin"))
    assert ended == Ended()
    assert [ran.ended for ran in session.launches] == [True]
    assert {one.rule for one in session.errors} == {"released"}


BEHIND = """
import torch
from cutlass import cute
from cutlass.cute.runtime import from_dlpack


@cute.kernel
def copy(a: cute.Tensor, b: cute.Tensor):
    t, _, _ = cute.arch.thread_idx()
    b[t] = cute.make_tensor(a.iterator + PLACE, cute.make_layout(32, stride=0))[t]


@cute.jit
def launch(a: cute.Tensor, b: cute.Tensor):
    copy(a, b).launch(grid=(1, 1, 1), block=(32, 1, 1))


a, b = (torch.zeros(32, device="cuda") for _ in range(2))
launch(from_dlpack(a), from_dlpack(b))
"""


@pytest.mark.parametrize(
    ("place", "rule", "ended"), [(32, "bounds", True), (128, "stopped", False)]
)
def test_behind_a_tensor_there_is_what_an_allocator_rounds_up(
    tmp_path: Path, place: int, rule: str, ended: bool
) -> None:
    path = tmp_path / "program.py"
    path.write_text(BEHIND.replace("PLACE", str(place)), "utf-8")
    session, _ = checked(script(str(path), ()), Options("sm_90a", schedule="round-robin"))
    assert [ran.ended for ran in session.launches] == [ended]
    assert rule in {one.rule for one in session.errors}
