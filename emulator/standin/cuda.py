"""What ``torch.cuda`` answers for the GPU that is not there."""

# torch has no types that would say something here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import torch

from schedgen.emulator.launch.diversion import set_attribute
from schedgen.emulator.launch.targets import MOST_SHARED_BYTES, Target
from schedgen.emulator.standin.tensors import DEVICE

_NAMES = {"sm_90a": "NVIDIA H200 (emulated)", "sm_100a": "NVIDIA B200 (emulated)"}
_MEMORY = 128 << 30
_VERSION = "13.0"


class Stream:
    """A stream; launches are executed when they are made, so that nothing is left to wait for."""

    def __init__(self, device: Any = None, priority: int = 0, **_: Any) -> None:
        del device
        self.priority = priority
        self.cuda_stream = 0
        self.device = DEVICE
        self.device_index = 0
        self.device_type = 1
        self.stream_id = 0

    def __cuda_stream__(self) -> tuple[int, int]:
        """Version and handle, as ``cuda.core`` asks for them."""
        return 0, self.cuda_stream

    def synchronize(self) -> None: ...
    def wait_event(self, event: Any) -> None: ...
    def wait_stream(self, stream: Any) -> None: ...

    def query(self) -> bool:
        return True

    def record_event(self, event: Any = None) -> Any:
        event = event or Event()
        event.record(self)
        return event

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None: ...


class Event:
    """A moment; times are those of the emulator, and say nothing of a GPU."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self._time = 0.0
        self.cuda_event = id(self)  # a handle, for those that pass it on

    def record(self, stream: Any = None) -> None:
        del stream
        self._time = perf_counter()

    def wait(self, stream: Any = None) -> None: ...
    def synchronize(self) -> None: ...

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds, never 0: benchmarks divide by it."""
        return max(1e-3, (end._time - self._time) * 1e3)


def answers(gpu: Target) -> dict[str, Any]:
    """Functions and classes of ``torch.cuda`` for `gpu`, by name."""
    stream = Stream()
    properties = _properties(gpu)
    constant: dict[str, Any] = {
        "is_available": True, "is_initialized": True, "device_count": 1, "current_device": 0,
        "get_device_capability": gpu.capability, "get_device_name": properties.name,
        "get_device_properties": properties, "current_stream": stream, "default_stream": stream,
        "mem_get_info": (_MEMORY, _MEMORY), "get_arch_list": [gpu.name.rstrip("a")],
        "is_bf16_supported": True, "can_device_access_peer": False, "initial_seed": 0,
    }  # fmt: skip
    nothing = (
        *("_lazy_init", "init", "synchronize", "empty_cache", "set_device", "set_stream"),
        *("reset_peak_memory_stats", "reset_max_memory_allocated", "ipc_collect"),
        *("manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state"),
        "reset_accumulated_memory_stats",
    )
    zero = ("memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")
    found = {name: _returns(value) for name, value in constant.items()}
    found |= {name: _returns(None) for name in nothing}
    found |= {name: _returns(0) for name in zero}
    found |= {"get_rng_state": _rng_state, "device": _entered, "stream": _entered}
    return found | {"Stream": Stream, "ExternalStream": Stream, "Event": Event}


def divert_cuda(stack: ExitStack, gpu: Target) -> None:
    """Make ``torch.cuda`` answer for `gpu`; also nvtx, and what says how torch was built."""
    for name, value in answers(gpu).items():
        set_attribute(stack, torch.cuda, name, value)
    set_attribute(stack, torch.version, "cuda", _VERSION)
    set_attribute(stack, torch.backends.cuda, "is_built", _returns(True))
    for name in ("range_push", "range_pop", "mark", "range_start", "range_end"):
        set_attribute(stack, torch.cuda.nvtx, name, _returns(0))
    set_attribute(stack, torch._C, "_cuda_getCurrentRawStream", _returns(0))
    set_attribute(stack, torch._C, "_cuda_getDevice", _returns(0))
    set_attribute(stack, torch.accelerator, "is_available", _returns(True))
    set_attribute(stack, torch.accelerator, "current_accelerator", _returns(torch.device("cuda")))
    set_attribute(stack, torch.accelerator, "synchronize", _returns(None))


def _returns(value: Any) -> Callable[..., Any]:
    def answer(*_: Any, **__: Any) -> Any:
        return value

    return answer


def _rng_state(device: Any = None) -> torch.Tensor:
    del device
    return torch.get_rng_state()


@contextmanager
def _entered(value: Any = None) -> Generator[Any]:
    """A device or a stream that is made the current one: there is one of each."""
    yield value


def _properties(gpu: Target) -> Any:
    return SimpleNamespace(
        name=_NAMES[gpu.name], major=gpu.capability[0], minor=gpu.capability[1],
        multi_processor_count=gpu.sms, total_memory=_MEMORY, warp_size=32,
        regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048,
        max_threads_per_block=1024, shared_memory_per_block=48 << 10,
        shared_memory_per_block_optin=MOST_SHARED_BYTES,
        shared_memory_per_multiprocessor=MOST_SHARED_BYTES + 1024, L2_cache_size=50 << 20,
        is_integrated=False, is_multi_gpu_board=False, gcnArchName="", uuid="emulated",
        clock_rate=1_000_000, memory_clock_rate=1_000_000, memory_bus_width=6144,
    )  # fmt: skip
