"""Generated kernels, loaded for a GPU and launched."""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import cast

import torch
from torch import Tensor

from schedgen.codegen.compiling import symbol
from schedgen.codegen.facts import COUNTER, Facts, read_facts
from schedgen.kernels import cache, counters, layouts, plans, runtime
from schedgen.kernels.apart import apart
from schedgen.kernels.errors import (
    DeviceError,
    LaunchError,
)

DTYPES = {
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
    "f32": torch.float32,
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "e8m0": torch.float8_e8m0fnu,
    "e2m1x2": torch.uint8,
    "i8": torch.int8,
    "i4x2": torch.uint8,
    "i32": torch.int32,
}
"""Data types of arguments."""

_C = dict.fromkeys(DTYPES, "f") | {"i32": "i"}
"""How `struct` calls scalars of kernels."""
_ARCHITECTURES = {(9, 0): "sm_90a", (10, 0): "sm_100a"}


def architecture(device: torch.device) -> str:
    """The architecture that files for the GPU ``device`` name. Raises DeviceError."""
    capability = torch.cuda.get_device_capability(device)
    if capability not in _ARCHITECTURES:
        known = ", ".join(f"{a}.{b} ({name})" for (a, b), name in _ARCHITECTURES.items())
        raise DeviceError(
            f"{torch.cuda.get_device_name(device)} has compute capability "
            f"{capability[0]}.{capability[1]}; kernels are made for {known}"
        )
    return _ARCHITECTURES[capability]


def multiprocessors(device: torch.device) -> int:
    """SMs of a GPU."""
    return cast("int", torch.cuda.get_device_properties(device).multi_processor_count)


class Launcher:
    """A generated kernel, loaded for one GPU, of whose SMs it uses ``sms`` at most.

    Attributes:
        facts: what the generated file says about itself.
        device: the GPU.
        zeros: eight zeros of each 16-bit type. A bulk copy fills with zeros what lies outside of
            a tensor, so they stand for a zero tensor of any shape.
    """

    def __init__(self, path: Path, device: torch.device, sms: int | None = None) -> None:
        self.facts = read_facts(path)
        self.device = device
        here = architecture(device)
        if self.facts.target != here:
            raise DeviceError(
                f"{path.name} is for {self.facts.target}, {device} is {here}; "
                f"emit it for a machine with {here}"
            )
        if torch.cuda.is_current_stream_capturing():
            raise LaunchError(
                f"{self.facts.kernel} cannot be loaded while a CUDA graph is captured; "
                "fix: call it once before"
            )
        code = cache.compiled(path, self.facts, sms or multiprocessors(device))
        with torch.cuda.device(device):
            self._function = runtime.function(code, symbol(self.facts))
        self._frame = _Frame(self.facts)
        self._target = plans.Target(runtime.caller(), self._function.value or 0, self._frame.layout)
        self.zeros = apart(partial(_zeros, device))
        self._counters = counters.counters(device) if self.facts.counted else None

    def launch(self, tensors: Sequence[Tensor], scalars: Sequence[float] = ()) -> None:
        """Starts the kernel on the current stream of its GPU.

        ``tensors`` and ``scalars`` are as the file's ARGUMENTS say. Nothing is checked. While a
        call is planned, it is only written down.
        """
        recorder = plans.current()
        if recorder is not None:
            recorder.launch(self._target, tensors, scalars, counted=self.facts.counted)
            return
        if self.device.index == torch.cuda.current_device():
            self._launch(tensors, scalars)
        else:
            with torch.cuda.device(self.device):
                self._launch(tensors, scalars)

    def _launch(self, tensors: Sequence[Tensor], scalars: Sequence[float]) -> None:
        frame, stream = self._frame, torch.cuda.current_stream(self.device).cuda_stream
        if self._counters is not None:
            tensors = (*tensors, self._counters.counter(stream))
        frame.fill(tensors, scalars, stream)
        runtime.call(self._function, frame.arguments, frame.count)
        if frame.result.value:
            raise LaunchError(
                f"{self.facts.kernel} was not launched: CUDA error {frame.result.value}"
            )


def _zeros(device: torch.device) -> dict[torch.dtype, Tensor]:
    """Copied from the host, which waits for it: whatever stream uses them, they are there."""
    return {t: torch.zeros(8, dtype=t).to(device) for t in (torch.bfloat16, torch.float16)}


def frame_layout(facts: Facts) -> plans.Layout:
    """Where in memory the arguments of a generated file's host function are, see `_Frame`."""
    passed = (*facts.tensors, *([COUNTER] if facts.counted else []))
    ranks = [len(parameter.extents) for parameter in passed]
    pieces = [f"P{rank}i{rank - 1}q" for rank in ranks] + [_C[s.dtype] for s in facts.scalars]
    pieces.append("P")
    places = (
        struct.calcsize("@" + "".join(pieces[:n]) + f"0{piece[0]}")
        for n, piece in enumerate(pieces)
    )
    return plans.Layout("@" + "".join(pieces), tuple(places))


class _Frame(threading.local):
    """Memory for the arguments of one call, for each thread its own.

    A tensor is its address, its extents as 32-bit integers and, without the last one, its strides
    in elements as 64-bit integers, all aligned as in C; a scalar is a float, or a 32-bit integer.
    An array points to each of them, to the stream and to a place for the result.
    """

    def __init__(self, facts: Facts) -> None:
        self.layout = layout = frame_layout(facts)
        self._struct = struct.Struct(layout.format)
        self._memory = ctypes.create_string_buffer(self._struct.size)
        self.result = ctypes.c_int32(0)
        start = ctypes.addressof(self._memory)
        places = [start + offset for offset in layout.places]
        self.count = len(places) + 1
        self.arguments = (ctypes.c_void_p * self.count)(*places, ctypes.addressof(self.result))

    def fill(self, tensors: Sequence[Tensor], scalars: Sequence[float], stream: int) -> None:
        values: list[int | float] = []
        for tensor in tensors:
            values += (tensor.data_ptr(), *tensor.shape, *layouts.strides(tensor))
        self._struct.pack_into(self._memory, 0, *values, *scalars, stream)


_loaded: dict[tuple[Path, torch.device], Launcher] = {}
_loading = threading.Lock()


def launcher(path: Path, device: torch.device) -> Launcher:
    """The launcher of a generated file for ``device``, made once in a process.

    Raises:
        DeviceError: the file is for another architecture, or CuTe DSL is missing.
        CompileError: the file does not compile.
        LaunchError: the driver refuses the kernel.
    """
    key = path, device
    found = _loaded.get(key)
    if found is None:
        with _loading:
            found = _loaded.get(key) or Launcher(path, device)
            _loaded[key] = found
    return found
