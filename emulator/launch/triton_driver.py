"""Triton's driver for the GPU that is not there, and what launches a kernel that Triton compiled.

Triton asks its driver for the architecture, gives it the machine code of a kernel to load, and
gets from it a class of launchers. Here machine code is the text of the PTX (`diversion_triton`).
"""

# Triton has no types that would say something here.
# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false, reportUntypedBaseClass=false
# pyright: reportIncompatibleMethodOverride=false

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, Protocol

import torch

from schedgen.emulator.launch.capture import Launch, Parameters
from schedgen.emulator.launch.errors import LaunchError
from schedgen.emulator.launch.targets import MOST_SHARED_BYTES, Target
from schedgen.emulator.launch.triton_arguments import values_of
from schedgen.emulator.launched import module_of

_COOPERATIVE, _PROGRAMMATIC = 2, 6
"""Numbers of launch attributes (``cudaLaunchAttributeID``)."""
_REGISTERS = 65536
_MOST_REGISTERS = 255
_MOST_THREADS = 1024
_KILOHERTZ = 1_000_000
_BUS_BITS = 6144


class TritonReceiver(Protocol):
    """Who gets launches of Triton's kernels."""

    def launch(self, launch: Launch, arguments: Sequence[tuple[str, Any]]) -> None:
        """Execute a launch, but for its memory, which that of `arguments` may be."""
        ...


@dataclass(frozen=True)
class Loaded:
    """A kernel as Triton's driver has loaded it: the handle that its launchers are given."""

    name: str
    ptx: str


class Utilities:
    """What Triton calls ``driver.active.utils``."""

    def __init__(self, gpu: Target) -> None:
        self._gpu = gpu

    def load_binary(
        self, name: str, kernel: bytes, shared: int, device: int
    ) -> tuple[None, Loaded, int, int, int]:
        """Module, kernel, registers per thread, spilled bytes and most threads.

        There is no module that Triton would have to give back, maybe when this driver is gone.
        Nobody counts registers, as there is no machine code: they are said to be all that fit.
        """
        del shared, device
        return None, Loaded(name, kernel.decode()), _MOST_REGISTERS, 0, _MOST_THREADS

    def set_printf_fifo_size(self, size: int) -> None: ...

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Of the GPU; clocks are none that was measured."""
        del device
        return {
            "max_shared_mem": MOST_SHARED_BYTES, "max_num_regs": _REGISTERS,
            "multiprocessor_count": self._gpu.sms, "warpSize": 32, "sm_clock_rate": _KILOHERTZ,
            "mem_clock_rate": _KILOHERTZ, "mem_bus_width": _BUS_BITS,
        }  # fmt: skip

    def cuOccupancyMaxActiveClusters(self, function: Any, shared: int, size: int) -> int:
        """How many clusters run at a time."""
        del function, shared
        return self._gpu.clusters(size)


class Launcher:
    """Launches one compiled kernel by `receiver`, unless `dry` says that there is nothing to do.

    Args:
        gpu: the GPU that it was compiled for.
        source: has the types of the arguments, ``signature``, by name.
        metadata: what Triton's compiler says of the kernel.
    """

    def __init__(
        self, gpu: Target, receiver: TritonReceiver, dry: Callable[[], bool], source: Any,
        metadata: Any,
    ) -> None:  # fmt: skip
        self._gpu = gpu
        self._receiver = receiver
        self._dry = dry
        self._names = list(source.signature)
        self._signature = list(source.signature.values())
        self._metadata = metadata

    def __call__(
        self, x: int, y: int, z: int, stream: Any, function: Loaded, packed: Any,
        launch_metadata: Any, enter: Any, leave: Any, *arguments: Any,
    ) -> None:  # fmt: skip
        """Launches; Triton calls it so.

        Raises:
            LaunchError: an argument cannot be passed.
        """
        del packed
        ctas = prod((x, y, z))
        if not ctas or self._dry():
            return
        if enter is not None:
            enter(launch_metadata)
        scratch = _scratch(self._metadata, ctas, stream)
        described = getattr(self._metadata, "tensordesc_meta", None) or ()
        values = [*values_of(self._signature, arguments, described), *map(_pointer, scratch)]
        given = list(zip(self._names, arguments, strict=True))
        given += [("scratch", one) for one in scratch if one is not None]
        self._launch(function, (x, y, z), values, given)
        if leave is not None:
            leave(launch_metadata)

    def _launch(
        self,
        function: Loaded,
        grid: tuple[int, int, int],
        values: list[bytes],
        arguments: list[tuple[str, Any]],
    ) -> None:
        metadata = self._metadata
        _check(function, values)
        ctas = int(getattr(metadata, "num_ctas", 1))
        flags = (_COOPERATIVE, "launch_cooperative_grid"), (_PROGRAMMATIC, "launch_pdl")
        rooms = [ctypes.create_string_buffer(one, len(one)) for one in values]
        addresses = (ctypes.c_void_p * max(1, len(rooms)))(*map(ctypes.addressof, rooms))
        parameters = Parameters(ctypes.addressof(addresses))
        launch = Launch(
            kernel=function.name,
            grid=(grid[0] * ctas, grid[1], grid[2]),
            block=(32 * int(metadata.num_warps), 1, 1),
            cluster=(ctas, 1, 1),
            shared_bytes=int(metadata.shared),
            ptx=function.ptx,
            target=self._gpu,
            allocations=(),
            attributes={
                number: (1).to_bytes(64, "little")
                for number, name in flags
                if getattr(metadata, name, False)
            },
            parameters=parameters,
        )
        try:
            self._receiver.launch(launch, arguments)
        finally:
            parameters.close()


def driver_of(gpu: Target, receiver: TritonReceiver, dry: Callable[[], bool]) -> Any:
    """Triton's driver for `gpu`, whose launches come to `receiver` unless `dry` says so."""
    from triton.backends.compiler import GPUTarget
    from triton.backends.driver import GPUDriver

    major, minor = gpu.capability

    class Driver(GPUDriver):
        """As Triton's for CUDA; what is not here, it gets from torch."""

        def __init__(self) -> None:
            super().__init__()
            self.utils = Utilities(gpu)
            self.launcher_cls = partial(Launcher, gpu, receiver, dry)
            self.get_current_device = lambda: 0
            self.get_current_stream = lambda _: 0
            self.get_device_capability = lambda *_: gpu.capability
            self.set_current_device = lambda *_: None

        @classmethod
        def is_active(cls) -> bool:
            return True

        def get_current_target(self) -> Any:
            return GPUTarget("cuda", 10 * major + minor, 32)

        def get_active_torch_device(self) -> torch.device:
            return torch.device("cuda", 0)

        def get_device_interface(self) -> Any:
            return torch.cuda

        def map_python_to_cpp_type(self, ty: str) -> str:
            return ty  # nobody compiles C++ here

        def get_benchmarker(self) -> Any:
            from triton.testing import do_bench

            return do_bench

        def get_empty_cache_for_benchmark(self) -> torch.Tensor:
            return torch.empty(1, dtype=torch.int32, device="cuda")

        def clear_cache(self, cache: Any) -> None:
            cache.zero_()

    return Driver()


def _scratch(metadata: Any, ctas: int, stream: Any) -> list[Any]:
    """Memory of the two last parameters: what Triton's allocators give, None if nothing is needed.

    The kernel's own is asked for as it is on a GPU: without ``triton.set_allocator`` that fails.
    """
    found: list[Any] = []
    for kind, own in (("global", "_allocator"), ("profile", "_profile_allocator")):
        size = (
            ctas * getattr(metadata, "num_ctas", 1) * getattr(metadata, f"{kind}_scratch_size", 0)
        )
        if not size:
            found.append(None)
            continue
        from triton.runtime import _allocation

        allocator: Any = getattr(_allocation, own)
        if hasattr(allocator, "get"):
            allocator = allocator.get()
        found.append(allocator(size, getattr(metadata, f"{kind}_scratch_align", 1), stream))
    return found


def _pointer(room: Any) -> bytes:
    return (0 if room is None else int(room.data_ptr())).to_bytes(8, "little")


def _check(function: Loaded, values: list[bytes]) -> None:
    kernel = module_of(function.ptx).kernels[function.name]
    wanted = [one.size for one in kernel.parameters]
    if (given := [len(one) for one in values]) != wanted:
        raise LaunchError(
            f"the Triton kernel {function.name} has parameters of {wanted} bytes, its launch gives "
            f"{given}; Triton 3.9 is the version that is tested"
        )
