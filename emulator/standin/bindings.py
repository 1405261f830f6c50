"""What ``cuda.bindings`` (cuda-python) answers for the GPU that is not there.

Functions return a tuple with the status first, as the package's do. Those that are not here go to
the driver, which the package reports not to find.
"""

# cuda-python has no types that would say something here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from time import perf_counter
from typing import Any

from schedgen.emulator.launch.diversion import set_attribute
from schedgen.emulator.launch.targets import Target
from schedgen.emulator.standin.memory import GlobalMemory

_NOTHING = (
    *("Init", "CtxSynchronize", "CtxSetCurrent", "StreamSynchronize", "StreamDestroy"),
    *("StreamWaitEvent", "EventSynchronize", "EventDestroy", "SetDevice", "DeviceSynchronize"),
    *("GetLastError", "PeekAtLastError", "FuncSetAttribute", "CtxDestroy", "CtxPushCurrent"),
    *("DevicePrimaryCtxRelease", "CtxSetLimit"),
)
"""Names behind ``cu`` or ``cuda`` of what succeeds without an effect."""
_CONTEXTS = "CtxGetCurrent", "CtxCreate", "CtxPopCurrent", "DevicePrimaryCtxRetain"
"""Names behind ``cu`` of what gives the only context."""
_VERSION = 13000


class Calls:
    """The functions, by what stands behind ``cu`` and ``cuda`` in their names; without status."""

    def __init__(self, gpu: Target, memory: GlobalMemory) -> None:
        self._gpu = gpu
        self._memory = memory
        self._held: dict[int, Any] = {}
        self._moments: dict[int, float] = {}

    def functions(self) -> dict[str, Callable[..., tuple[Any, ...]]]:
        """Name -> function that returns what follows the status."""
        found: dict[str, Callable[..., tuple[Any, ...]]] = {
            name: lambda *_: () for name in _NOTHING
        }
        one, first = (lambda *_: (1,)), (lambda *_: (0,))
        found |= dict.fromkeys(("DeviceGetCount", "GetDeviceCount"), one)
        found |= dict.fromkeys(("DeviceGet", "GetDevice", "CtxGetDevice", "StreamQuery"), first)
        found |= {
            name: lambda *_: (_VERSION,) for name in ("DriverGetVersion", "RuntimeGetVersion")
        }
        return found | {
            "DeviceGetAttribute": self._attribute,
            "DeviceGetName": lambda *_: (self._gpu.name.encode(),),
            "DeviceComputeCapability": lambda *_: self._gpu.capability,
            "MemGetInfo": lambda *_: (1 << 37, 1 << 37),
            "MemAlloc": self._allocate, "Malloc": self._allocate, "MallocAsync": self._allocate,
            "MemFree": self._free, "Free": self._free, "FreeAsync": self._free,
            "MemsetD8": self._set(1), "MemsetD8Async": self._set(1), "Memset": self._set(1),
            "MemsetAsync": self._set(1), "MemsetD32": self._set(4), "MemsetD32Async": self._set(4),
            "MemcpyDtoD": _copy, "MemcpyDtoDAsync": _copy, "MemcpyHtoD": _copy,
            "MemcpyHtoDAsync": _copy, "Memcpy": _copy, "MemcpyAsync": _copy,
            "EventRecord": self._record, "EventElapsedTime": self._elapsed,
        }  # fmt: skip

    def _attribute(self, attribute: Any, *_: Any) -> tuple[int]:
        return (self._gpu.attribute(int(attribute)) or 0,)

    def _allocate(self, size: int, *_: Any) -> tuple[int]:
        room = self._memory.allocate(int(size))
        self._held[room.data_ptr()] = room
        return (room.data_ptr(),)

    def _free(self, address: Any, *_: Any) -> tuple[()]:
        self._held.pop(int(address), None)
        return ()

    def _set(self, width: int) -> Callable[..., tuple[()]]:
        def fill(address: Any, value: int, count: int, *_: Any) -> tuple[()]:
            data = int(value).to_bytes(4, "little", signed=value < 0)[:width] * int(count)
            ctypes.memmove(int(address), data, len(data))
            return ()

        return fill

    def _record(self, event: Any, *_: Any) -> tuple[()]:
        self._moments[int(event)] = perf_counter()
        return ()

    def _elapsed(self, begin: Any, end: Any) -> tuple[float]:
        """Milliseconds, never 0: benchmarks divide by it."""
        moments = (self._moments.get(int(one), 0.0) for one in (begin, end))
        first, last = moments
        return (max(1e-3, (last - first) * 1e3),)


def divert_bindings(stack: ExitStack, gpu: Target, memory: GlobalMemory) -> None:
    """Make the driver and the runtime API of cuda-python answer for `gpu`, if it is installed."""
    if find_spec("cuda") is None or find_spec("cuda.bindings") is None:
        return
    calls = Calls(gpu, memory).functions()
    driver: Any = import_module("cuda.bindings.driver")
    runtime: Any = import_module("cuda.bindings.runtime")
    for module, prefix, good, kinds in (
        (driver, "cu", driver.CUresult.CUDA_SUCCESS, (driver.CUstream, driver.CUevent)),
        (
            runtime,
            "cuda",
            runtime.cudaError_t.cudaSuccess,
            (runtime.cudaStream_t, runtime.cudaEvent_t),
        ),
    ):
        handles = _handles(*kinds)
        if prefix == "cu":
            handles |= dict.fromkeys(_CONTEXTS, lambda *_: (driver.CUcontext(1),))
        for name, function in (calls | handles).items():
            if hasattr(module, prefix + name):
                set_attribute(stack, module, prefix + name, _with_status(good, function))


def _with_status(good: Any, function: Callable[..., tuple[Any, ...]]) -> Callable[..., Any]:
    def call(*arguments: Any) -> tuple[Any, ...]:
        return good, *function(*arguments)

    return call


def _handles(stream: Any, event: Any) -> dict[str, Callable[..., tuple[Any, ...]]]:
    """What makes streams and events: handles that are none of the driver's."""
    made = iter(range(1 << 20, 1 << 40))
    found: dict[str, Callable[..., tuple[Any, ...]]] = {
        name: lambda *_: (stream(next(made)),)
        for name in ("StreamCreate", "StreamCreateWithFlags", "StreamCreateWithPriority")
    }
    return found | {
        name: lambda *_: (event(next(made)),) for name in ("EventCreate", "EventCreateWithFlags")
    }


def _copy(to: Any, source: Any, size: int, *_: Any) -> tuple[()]:
    ctypes.memmove(int(to), int(source), int(size))
    return ()
