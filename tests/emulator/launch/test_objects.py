"""Object files of compiled functions, written and loaded inside of a device."""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import cutlass
import cutlass.runtime
import pytest
import torch
from cutlass import cute
from cutlass.cute import runtime
from cutlass.cute.runtime import from_dlpack

from schedgen.emulator.emulation import Emulator
from schedgen.emulator.launch.device import device
from schedgen.emulator.launch.errors import LaunchError
from schedgen.emulator.launch.targets import target
from schedgen.emulator.standin.tensors import MEMORY
from schedgen.emulator.standin.torch_standin import stand_in

BOTH = pytest.mark.parametrize(
    "ffi",
    [
        False,
        pytest.param(
            True,
            marks=pytest.mark.skipif(find_spec("tvm_ffi") is None, reason="no apache-tvm-ffi"),
        ),
    ],
)


@cute.kernel
def add_kernel(source: cute.Tensor, target: cute.Tensor):
    at, _, _ = cute.arch.thread_idx()
    target[at] = source[at] + cutlass.Float32(1)


@cute.jit
def add(source: cute.Tensor, target: cute.Tensor):
    add_kernel(source, target).launch(grid=[1, 1, 1], block=[32, 1, 1])


@contextmanager
def gpu() -> Generator[Emulator]:
    emulator = Emulator()
    with (
        stand_in(target("sm_90a", 4)),
        device("sm_90a", run=emulator.run, memory=MEMORY.allocations),
    ):
        yield emulator


def exported(folder: Path, ffi: bool) -> Path:
    """The object file of `add`, as ``plus``."""
    with gpu():
        tensors = [from_dlpack(torch.zeros(32).cuda(), enable_tvm_ffi=ffi) for _ in range(2)]
        compiled: Any = cute.compile(add, *tensors, options="--enable-tvm-ffi" if ffi else "")
        if ffi:
            compiled.export_to_c(object_file_path=str(folder / "part.o.tmp"), function_name="plus")
        else:
            compiled.export_to_c(str(folder), "part", "plus")
    path = folder / ("part.o.tmp" if ffi else "part.o")
    return path.rename(folder / "whole.o")  # as caches do


@BOTH
def test_loaded_functions_are_launched(tmp_path: Path, ffi: bool) -> None:
    path = exported(tmp_path, ffi)
    with gpu() as emulator:
        module = runtime.load_module(str(path), enable_tvm_ffi=ffi)
        source, found = torch.randn(32).cuda(), torch.zeros(32).cuda()
        for function in (module.plus, module["plus"]):
            tensors = source, found.zero_()
            function(*(tensors if ffi else map(from_dlpack, tensors)))
            assert torch.equal(found, source + 1)
        with pytest.raises(AttributeError, match="has no function minus; it has plus"):
            _ = module.minus
        with pytest.raises(LaunchError, match=f"fix: load_module.*enable_tvm_ffi={ffi}"):
            cutlass.runtime.load_module(str(path), enable_tvm_ffi=not ffi)
    assert len(emulator.reports) == 2


@BOTH
def test_other_loaders_take_the_file(tmp_path: Path, ffi: bool) -> None:
    path = exported(tmp_path, ffi)
    assert runtime.load_module(str(path), enable_tvm_ffi=ffi).plus is not None


def test_files_that_cannot_be_launched(tmp_path: Path) -> None:
    path = exported(tmp_path, ffi=False)
    whole = path.read_bytes()
    with gpu():
        path.write_bytes(whole[:-8])
        with pytest.raises(LaunchError, match=r"whole.o is an object file with machine code and "):
            runtime.load_module(str(path))
        path.write_bytes(whole[:-60] + bytes(20) + whole[-40:])
        with pytest.raises(LaunchError, match=r"whole.o: what was added to it is broken: .*delete"):
            runtime.load_module(str(path))
        with pytest.raises(LaunchError, match=r"none\.o: No such file or directory"):
            runtime.load_module(str(tmp_path / "none.o"))
