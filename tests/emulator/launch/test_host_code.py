"""Host code that the emulator cannot run, and what it answers host code."""

from __future__ import annotations

import ctypes
import re
from importlib.metadata import PackageNotFoundError
from types import SimpleNamespace
from typing import Any

import pytest
from cutlass import cute

from schedgen.emulator.launch import dsl as dsl_module
from schedgen.emulator.launch import host_code
from schedgen.emulator.launch.capture import Launch
from schedgen.emulator.launch.device import device
from schedgen.emulator.launch.driver import Driver
from schedgen.emulator.launch.dsl import load
from schedgen.emulator.launch.errors import LaunchError
from schedgen.emulator.launch.host_code import HostCode
from schedgen.emulator.launch.targets import target
from schedgen.emulator.launch.tensor_map import TensorMapError

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false


@cute.kernel
def empty_kernel():
    pass


@cute.jit
def empty():
    empty_kernel().launch(grid=[1, 1, 1], block=[32, 1, 1])


@cute.jit
def special():
    empty_kernel().launch(grid=[1, 1, 1], block=[32, 1, 1], cooperative=True)
    empty_kernel().launch(grid=[1, 1, 1], block=[32, 1, 1], use_pdl=True)


@cute.jit
def greedy():
    empty_kernel().launch(grid=[1, 1, 1], block=[32, 1, 1], smem=300_000)


@cute.jit
def launches_nothing():
    pass


def nothing(_: Launch) -> None:
    """Handle a launch by ignoring it."""


DRIVER = Driver(target("sm_100a", 4), lambda: "", nothing)


def test_a_function_without_a_kernel() -> None:
    launches: list[Launch] = []
    with device(run=launches.append):
        cute.compile(launches_nothing)()
    assert launches == []


def test_attributes_of_launches() -> None:
    launches: list[Launch] = []
    with device(run=launches.append):
        cute.compile(special)()
    assert [(one.cooperative, one.programmatic) for one in launches] == [
        (True, False),
        (False, True),
    ]


def test_a_function_from_an_object_file() -> None:
    loaded = SimpleNamespace(ir_module=None, function_name="loaded")
    with pytest.raises(
        LaunchError, match="loaded was loaded from an object file, which has no PTX"
    ):
        HostCode(load(), loaded, DRIVER)


def test_a_cuda_function_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    with device(run=nothing):
        compiled: Any = cute.compile(empty)
        driver = Driver(target("sm_100a", 4), lambda: "", nothing)
        monkeypatch.delitem(driver.functions, "_cudaLaunchKernelEx")
        with pytest.raises(
            LaunchError, match="calls cudaLaunchKernelEx, which the emulator does not have"
        ):
            HostCode(load(), compiled, driver).run([])


def test_a_cuda_function_of_another_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(host_code._SIGNATURES, "_cudaLaunchKernelEx", "i32 (ptr)")
    with device(run=nothing):
        compiled: Any = cute.compile(empty)
        expected = re.escape("calls _cudaLaunchKernelEx as i32 (ptr, ptr, ptr)")
        with pytest.raises(LaunchError, match=expected):
            compiled()


def test_a_launch_that_asks_for_too_much() -> None:
    launches: list[Launch] = []
    with device(run=launches.append):
        compiled: Any = cute.compile(greedy)
        with pytest.raises(LaunchError, match="300000 bytes of shared memory"):
            compiled()
    assert launches == []


def test_another_version_of_the_dsl(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise AttributeError("no attribute 'extract_dynamic_args'")

    monkeypatch.setattr(dsl_module, "_load", fail)
    load_afresh = dsl_module.load.__wrapped__
    with pytest.raises(LaunchError, match=r"nvidia-cutlass-dsl \d.*extract_dynamic_args.*4\.8\.1"):
        load_afresh()

    def missing(_: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(dsl_module, "version", missing)
    with pytest.raises(LaunchError, match="not installed"):
        load_afresh()


def test_attributes() -> None:
    value = ctypes.c_int32()
    at = ctypes.addressof(value)
    for number, expected in ((16, 4), (75, 10), (76, 0), (97, 232_448)):
        DRIVER.functions["_cudaDeviceGetAttribute"](at, number, 0)
        assert value.value == expected
    DRIVER.functions["_cudaGetDevice"](at)
    assert value.value == 0
    with pytest.raises(LaunchError, match="attribute 9999 "):
        DRIVER.functions["_cudaDeviceGetAttribute"](at, 9999, 0)
    with pytest.raises(LaunchError, match=r"attribute 4 .*of a kernel"):
        DRIVER.functions["_cuKernelGetAttribute"](at, 4, 1, 0)


@pytest.mark.parametrize(("element", "swizzle"), [(99, 0), (0, 7)])
def test_enumerators_of_another_cuda(element: int, swizzle: int) -> None:
    sizes = (ctypes.c_uint64 * 5)(16, 16, 16, 16, 16)
    at = ctypes.addressof(sizes)
    encode = DRIVER.functions["_cuTensorMapEncodeTiled"]
    with pytest.raises(TensorMapError, match="unknown enumerator"):
        encode(at, element, 1, 0, at, at, at, at, 0, swizzle, 0, 0)
