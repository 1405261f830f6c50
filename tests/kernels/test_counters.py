"""Counters that blocks claim tiles from: who has which, and how they get into a launch."""

from __future__ import annotations

import ctypes
import shutil
import struct
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from schedgen.codegen.facts import Facts, Parameter, read_facts
from schedgen.kernels import counters, native, plans
from schedgen.kernels.counters import Counters
from schedgen.kernels.launcher import _Frame, frame_layout
from schedgen.kernels.library import named
from schedgen.kernels.operators import Operator

CPU = torch.device("cpu")


class Capture:
    """Whether a graph is captured."""

    now = False


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch) -> Capture:
    found = Capture()
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: found.now)
    monkeypatch.setattr(native, "keep_counter", _nothing)
    return found


def _nothing(device: int, stream: int, address: int) -> None:
    """Stands in for what plans are told."""


# -- who has which ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("capture")
def test_a_stream_has_one() -> None:
    made = Counters(CPU)
    first, second = made.counter(0), made.counter(1 << 40)
    assert first.data_ptr() == made.counter(0).data_ptr()
    assert second.data_ptr() == made.counter(1 << 40).data_ptr()
    assert abs(first.data_ptr() - second.data_ptr()) >= 128  # no line of L2 together
    assert all(one.dtype is torch.int32 and one.shape == (1,) for one in (first, second))
    assert not first.any()
    assert first.data_ptr() % 16 == 0


def test_each_captured_launch_has_its_own(capture: Capture) -> None:
    made = Counters(CPU)
    stream = made.counter(7).data_ptr()
    capture.now = True
    found = {made.counter(7).data_ptr() for _ in range(10)}
    assert len(found | {stream}) == 11
    capture.now = False
    assert made.counter(7).data_ptr() == stream


@pytest.mark.usefixtures("capture")
def test_the_default_stream_of_each_thread_is_another() -> None:
    made, found = Counters(CPU), list[int]()
    other = threading.Thread(target=lambda: found.append(made.counter(2).data_ptr()))
    other.start()
    other.join()
    assert made.counter(2).data_ptr() not in found
    assert made.counter(2).data_ptr() == made.counter(2).data_ptr()


def test_more_are_made_before_there_are_none(
    capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never while a graph is captured: then it gets memory that it sets to 0 itself."""
    monkeypatch.setattr(counters, "_COUNT", 8)
    made = Counters(CPU)
    capture.now = True
    kept = [made.counter(0) for _ in range(20)]
    alone = [one for one in kept if one.untyped_storage().nbytes() == 4]
    assert len(alone) == 20 - 7  # the last one is left for a stream
    assert len({one.data_ptr() for one in kept}) == 20
    capture.now = False
    streams = {made.counter(stream).data_ptr() for stream in range(30)}
    assert len(streams) == 30
    capture.now = True
    assert made.counter(0).untyped_storage().nbytes() > 4


def test_plans_are_told_of_counters_of_streams(
    capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[tuple[int, int, int]]()

    def tell(device: int, stream: int, address: int) -> None:
        told.append((device, stream, address))

    monkeypatch.setattr(native, "keep_counter", tell)
    made = Counters(CPU)
    address = made.counter(5).data_ptr()
    made.counter(5)
    made.counter(2)  # which is not the same stream for another thread
    capture.now = True
    made.counter(9)
    assert told == [(0, 5, address)]


# -- in a launch -----------------------------------------------------------------------------------


def facts(claim: str) -> Facts:
    tensors = [Parameter("a", ("x", "y"), "bf16"), Parameter("b", ("x",), "bf16")]
    numbers = [Parameter("s", (), "f32")]
    return Facts("kernel", "sm_90a", (*tensors, *numbers), (), (), 0, 0, 0, "0" * 64, claim=claim)


def test_it_stands_behind_the_tensors() -> None:
    frame, counter = _Frame(facts("dynamic")), torch.zeros(1, dtype=torch.int32)
    assert frame.count == _Frame(facts("fixed")).count + 1
    frame.fill([torch.zeros(2, 8), torch.zeros(8), counter], [0.5], 77)
    places = list(frame.arguments)
    assert struct.unpack("@Pi", ctypes.string_at(places[2], 12)) == (counter.data_ptr(), 1)
    assert struct.unpack("f", ctypes.string_at(places[3], 4)) == (0.5,)
    assert struct.unpack("P", ctypes.string_at(places[4], 8)) == (77,)


def test_it_is_packed_as_the_dsl_packs_it() -> None:
    runtime: Any = pytest.importorskip("cutlass.cute.runtime")
    counter = torch.zeros(1, dtype=torch.int32)
    theirs = runtime.from_dlpack(counter, assumed_align=16).mark_layout_dynamic(leading_dim=0)
    wanted = struct.pack("@Pi", counter.data_ptr(), 1)
    assert ctypes.string_at(theirs.__c_pointers__()[0], len(wanted)) == wanted


def test_files_say_so(tmp_path: Path) -> None:
    text = named("gemm_sm_90a_bf16_tile_n128.py").read_text("utf-8")
    (path := tmp_path / "kernel.py").write_text(text + 'CLAIM = "dynamic"\n', "utf-8")
    found = read_facts(path)
    assert found.counted
    assert len(frame_layout(found).places) == len(found.parameters) + 2


# -- in plans --------------------------------------------------------------------------------------

RUN = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_size_t
)
seen: list[int] = []


@RUN
def run(function: int, places: Any, count: int) -> int:
    """A host function: notes the counter, and fills the result with its scalar."""
    del function, count
    seen.append(ctypes.c_void_p.from_address(places[2]).value or 0)
    result = ctypes.c_void_p.from_address(places[1]).value
    scalar = ctypes.c_float.from_address(places[3]).value
    (ctypes.c_float * 8).from_address(result or 0)[:] = [scalar] * 8
    return 0


def compute(a: Tensor, s: float) -> Tensor:
    result = a.new_empty(8)
    recorder = plans.current()
    if recorder is None:
        return result.fill_(s)
    target = plans.Target(ctypes.cast(run, ctypes.c_void_p).value or 0, 1, LAYOUT)
    recorder.launch(target, (a, result), (s,), counted=True)
    return result


LAYOUT = frame_layout(
    replace(facts("dynamic"), parameters=(*facts("dynamic").tensors[1:] * 2, *facts("f").scalars))
)


def fake(a: Tensor, s: float) -> Tensor:
    del s
    return a.new_empty(8)


@pytest.mark.skipif(
    not any(map(shutil.which, ("c++", "g++", "clang++"))), reason="there is no C++ compiler"
)
def test_plans_take_the_counter_of_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedgen.kernels.operators.KEY", "CPU")
    made = Operator("counted_for_a_test(Tensor a, float s) -> Tensor", compute, fake)

    def filled(values: Sequence[float]) -> None:
        for value in values:
            assert made(torch.zeros(8), value).tolist() == [value] * 8

    filled([1.0, 2.0, 3.0, 4.0])
    assert made.native is not None
    assert made.native.plans == 1
    assert not seen  # there is a plan, and no counter for it yet
    native.keep_counter(-1, 0, 4096)  # of the CPU and its only stream
    filled([5.0, 6.0])
    assert seen == [4096, 4096]
    native.keep_counter(-1, 0, 8192)
    filled([7.0])
    assert seen == [4096, 4096, 8192]
