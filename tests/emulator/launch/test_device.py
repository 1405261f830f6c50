"""Launches of small CuTe DSL functions, captured from their host code."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import cutlass
import pytest
import torch
from cuda.bindings.driver import CUstream
from cutlass import cute
from cutlass.cute.runtime import from_dlpack, make_ptr
from torch._subclasses.fake_tensor import FakeTensorMode

from schedgen.emulator.launch.capture import Launch
from schedgen.emulator.launch.device import device
from schedgen.emulator.launch.dsl import load
from schedgen.emulator.launch.errors import LaunchError
from schedgen.errors import SchedgenError

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false


@cute.kernel
def add_kernel(source: cute.Tensor, target: cute.Tensor, amount: cutlass.Float32):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    at = 32 * block + thread
    target[at] = source[at] + amount


@cute.jit
def add(source: cute.Tensor, target: cute.Tensor, amount: cutlass.Float32, stream: CUstream):
    add_kernel(source, target, amount).launch(
        grid=[4, 1, 1], block=[32, 1, 1], smem=256, stream=stream
    )


@cute.jit
def add_twice(source: cute.Tensor, target: cute.Tensor):
    add_kernel(source, target, cutlass.Float32(1)).launch(grid=[4, 1, 1], block=[32, 1, 1])
    add_kernel(target, source, cutlass.Float32(2)).launch(
        grid=[4, 2, 3], block=[32, 2, 1], cluster=[2, 1, 3]
    )


@cute.kernel
def pointer_kernel(source: cute.Pointer):
    thread, _, _ = cute.arch.thread_idx()
    tensor = cute.make_tensor(source, cute.make_layout(32))
    tensor[thread] = cutlass.Float32(0)


@cute.jit
def zero(source: cute.Pointer):
    pointer_kernel(source).launch(grid=[1, 1, 1], block=[32, 1, 1])


def tensors(size: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(size, dtype=torch.float32), torch.zeros(size)


def nothing(_: Launch) -> None:
    """Handle a launch by ignoring it."""


def run_add(launch: Launch) -> None:
    """Do what `add_kernel` does, with the parameters that the launch has."""
    source, target = (struct.unpack("<Q", launch.parameter(i, 8))[0] for i in (0, 1))
    (amount,) = struct.unpack("<f", launch.parameter(2, 4))
    memory = {one.start: one for one in launch.allocations}
    assert memory[source].size == memory[target].size == 512
    values = (ctypes.c_float * 128).from_address(source)
    results = (ctypes.c_float * 128).from_address(target)
    for at, value in enumerate(values):
        results[at] = value + amount


def test_a_launch() -> None:
    launches: list[Launch] = []
    source, target = tensors()

    def run(launch: Launch) -> None:
        launches.append(launch)
        run_add(launch)

    with device("sm_100a", run=run):
        stream = CUstream(0)
        compiled = cute.compile(add, from_dlpack(source), from_dlpack(target), 1.0, stream)
        assert compiled(from_dlpack(source), from_dlpack(target), 2.5, stream) == 0
    assert torch.equal(target, source + 2.5)
    (launch,) = launches
    assert launch.kernel.startswith("kernel_cutlass_add_kernel")
    assert f".entry {launch.kernel}(" in launch.ptx
    assert ".target sm_100a" in launch.ptx
    assert ".loc" in launch.ptx
    assert (launch.grid, launch.block, launch.cluster) == ((4, 1, 1), (32, 1, 1), (1, 1, 1))
    assert launch.shared_bytes == 256
    assert not launch.cooperative
    assert not launch.programmatic
    assert {one.name: (one.start, one.size) for one in launch.allocations} == {
        "source": (source.data_ptr(), 512),
        "target": (target.data_ptr(), 512),
    }


def test_tensors_are_global_memory() -> None:
    source, target = tensors()
    launches: list[Launch] = []
    early = from_dlpack(source)
    with device(run=launches.append):
        assert "gmem" in str(early.memspace)
        cute.compile(add_twice, early, from_dlpack(target))(early, target)
    assert "generic" in str(early.memspace)
    assert "gmem" in launches[0].kernel
    assert "cvta" not in launches[0].ptx
    assert "ld.global" in launches[0].ptx


def test_parameters_end_with_the_launch() -> None:
    launches: list[Launch] = []
    source, target = tensors()
    with device(run=launches.append):
        cute.compile(add_twice, from_dlpack(source), from_dlpack(target))(source, target)
    with pytest.raises(LaunchError, match="only while the launch is handled"):
        launches[0].parameter(0, 8)


def test_launches_of_one_call_in_order() -> None:
    launches: list[tuple[Launch, int]] = []
    source, target = tensors()

    def run(launch: Launch) -> None:
        launches.append((launch, struct.unpack("<Q", launch.parameter(0, 8))[0]))

    with device(run=run, lines=False):
        compiled = cute.compile(add_twice, from_dlpack(source), from_dlpack(target))
        compiled(from_dlpack(source), from_dlpack(target))
        compiled(source, target)  # as torch tensors
    assert [first for _, first in launches] == [source.data_ptr(), target.data_ptr()] * 2
    plain, clustered = (launch for launch, _ in launches[:2])
    assert plain.kernel != clustered.kernel
    assert plain.ptx is clustered.ptx
    assert ".loc" not in plain.ptx
    assert plain.cluster == (1, 1, 1)
    assert (clustered.grid, clustered.block) == ((4, 2, 3), (32, 2, 1))
    assert clustered.cluster == (2, 1, 3)


def test_a_call_without_compiling_first() -> None:
    launches: list[Launch] = []
    source, target = tensors()
    with device(run=launches.append):
        for _ in range(2):
            add_twice(from_dlpack(source), from_dlpack(target))
    assert len(launches) == 4
    assert [one.name for one in launches[3].allocations] in (
        ["source", "target"],
        ["target", "source"],
    )


def test_errors_come_out_and_end_the_call() -> None:
    launches: list[Launch] = []
    source, target = tensors()

    def run(launch: Launch) -> None:
        launches.append(launch)
        raise ZeroDivisionError("what the emulator found")

    with device(run=run):
        compiled = cute.compile(add_twice, from_dlpack(source), from_dlpack(target))
        for _ in range(2):
            with pytest.raises(ZeroDivisionError, match="what the emulator found"):
                compiled(from_dlpack(source), from_dlpack(target))
        assert len(launches) == 2

        def interrupt(_: Launch) -> None:
            raise KeyboardInterrupt

        with pytest.raises(LaunchError, match="in use"), device(run=interrupt):
            pass
    with device(run=interrupt):
        compiled = cute.compile(add_twice, from_dlpack(source), from_dlpack(target))
        with pytest.raises(KeyboardInterrupt):
            compiled(from_dlpack(source), from_dlpack(target))


def test_a_call_while_a_launch_is_handled() -> None:
    source, target = tensors()
    memory: list[tuple[str, ...]] = []

    def run(launch: Launch) -> None:
        memory.append(tuple(sorted(one.name for one in launch.allocations)))
        if len(memory) == 1:
            inner(make_ptr(cutlass.Float32, source.data_ptr(), cute.AddressSpace.gmem))

    with device(run=run):
        inner = cute.compile(zero, make_ptr(cutlass.Float32, 16, cute.AddressSpace.gmem))
        compiled = cute.compile(add_twice, from_dlpack(source), from_dlpack(target))
        compiled(source, target)
    assert memory == [("source", "target"), ("source",), ("source", "target")]


def settings() -> list[Any]:
    """Return what a device changes."""
    dsl = load()
    return [
        os.environ.get("CUTE_DSL_ARCH"),
        *(dict(vars(one.envar)) for one in dsl.singletons),
        *(
            dict(vars(one)).get(name)
            for one in (dsl.function, dsl.tracer, dsl.hardware)
            for name in (
                "__call__", "run_compiled_program", "to", "extract_dynamic_args", "__init__",
                "get_max_active_clusters", "get_device_multiprocessor_count",
            )
        ),
        *(vars(dsl.tensor)[name] for name in ("mlir_type", "memspace")),
    ]  # fmt: skip


@pytest.mark.parametrize("before", [None, "sm_90a"])
def test_all_is_as_before(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    if before is None:
        monkeypatch.delenv("CUTE_DSL_ARCH", raising=False)
    else:
        monkeypatch.setenv("CUTE_DSL_ARCH", before)
    untouched = settings()
    with device("sm_100a", run=nothing):
        assert settings() != untouched
    assert settings() == untouched
    with pytest.raises(ZeroDivisionError), device("sm_100a", run=nothing):
        raise ZeroDivisionError
    assert settings() == untouched


def test_targets_in_sequence() -> None:
    source, target = tensors()
    found: list[str] = []

    def run(launch: Launch) -> None:
        found.append(launch.ptx.split(".target ")[1].split()[0])

    functions: list[Callable[..., Any]] = []
    for name in ("sm_100a", "sm_90a", "sm_100a"):
        with device(name, run=run):
            functions.append(cute.compile(add_twice, from_dlpack(source), from_dlpack(target)))
            functions[-1](from_dlpack(source), from_dlpack(target))
    assert found == ["sm_100a"] * 2 + ["sm_90a"] * 2 + ["sm_100a"] * 2
    with device("sm_100a", run=run):  # compiled in an earlier context
        functions[0](from_dlpack(source), from_dlpack(target))
    with (
        device("sm_90a", run=run),
        pytest.raises(LaunchError, match="compiled for sm_100a, the device is sm_90a"),
    ):
        functions[0](from_dlpack(source), from_dlpack(target))


def test_a_function_compiled_outside(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    source, target = tensors()
    arguments = from_dlpack(source), from_dlpack(target)
    launches: list[Launch] = []
    envar: Any = load().singletons[0].envar
    monkeypatch.setattr(envar, "_arch", "sm_100a")
    without = cute.compile(add_twice, *arguments)
    kept = cute.compile(add_twice, *arguments, options=f"--keep-ptx --dump-dir={tmp_path}")
    with device("sm_100a", run=launches.append):
        kept(*arguments)
        assert kept.to(0)(*arguments) == 0
        with pytest.raises(LaunchError, match="CUTE_DSL_KEEP=ptx"):
            without(*arguments)
    assert len(launches) == 4


def test_wrong_use() -> None:
    with (
        pytest.raises(SchedgenError, match="did you mean 'sm_100a'"),
        device("sm_100", run=nothing),
    ):
        pass
    with pytest.raises(LaunchError, match="take sm_90a or sm_100a"), device("b200", run=nothing):
        pass
    with pytest.raises(LaunchError, match="0 SMs"), device(run=nothing, sms=0):
        pass


@pytest.mark.medium
def test_a_pointer_gives_the_storage_it_points_into() -> None:
    """Of tensors that have one, whatever else there is in the process."""
    memory = torch.zeros(64)
    with FakeTensorMode():
        others = [torch.zeros(64)]
    others.append(torch.eye(4).to_sparse())
    launches: list[Launch] = []
    pointer = make_ptr(cutlass.Float32, memory[8:].data_ptr(), cute.AddressSpace.gmem)
    with device(run=launches.append) as opened:
        compiled = cute.compile(zero, pointer)
        compiled(pointer)
        foreign = make_ptr(cutlass.Float32, 4096, cute.AddressSpace.gmem)
        compiled(foreign)
        more = torch.zeros(4)
        opened.register(more[1:], "more")
        compiled(foreign)
    first, second, third = (launch.allocations for launch in launches)
    assert [(one.start, one.size, one.name) for one in first] == [
        (memory.data_ptr(), 256, "source")
    ]
    assert second == ()
    assert [(one.start, one.size, one.name) for one in third] == [(more.data_ptr(), 16, "more")]
    assert len(others) == 2


def test_what_persistent_kernels_ask() -> None:
    hardware: Any = load().hardware
    with device(run=nothing, sms=6):
        info = hardware()
        assert info.get_device_multiprocessor_count() == 6
        assert [info.get_max_active_clusters(size) for size in (1, 2, 4, 8)] == [6, 3, 1, 1]


@pytest.mark.skipif(find_spec("tvm_ffi") is None, reason="apache-tvm-ffi is not installed")
def test_tvm_ffi() -> None:
    """Functions of apache-tvm-ffi take tensors themselves, and launch here, too."""
    from schedgen.emulator.launch.targets import target as target_of
    from schedgen.emulator.standin.tensors import MEMORY
    from schedgen.emulator.standin.torch_standin import stand_in

    launches: list[Launch] = []
    with (
        stand_in(target_of("sm_90a", 4)),
        device("sm_90a", run=launches.append, memory=MEMORY.allocations),
    ):
        source, found = (tensor.cuda() for tensor in tensors())
        arguments = (from_dlpack(one, enable_tvm_ffi=True) for one in (source, found))
        compiled = cute.compile(add_twice, *arguments, options="--enable-tvm-ffi")
        compiled(source, found)
    assert [launch.grid for launch in launches]
    held = {allocation.start for launch in launches for allocation in launch.allocations}
    assert {source.data_ptr(), found.data_ptr()} <= held


def test_a_stand_in_says_what_it_wraps() -> None:
    """quack hashes functions with all that they refer to, of the DSL as of its own."""
    places = load().places
    before = places._get_location_from_frame_info
    with device("sm_90a", run=lambda launch: None):
        assert places._get_location_from_frame_info.__wrapped__ is before
    assert places._get_location_from_frame_info is before
