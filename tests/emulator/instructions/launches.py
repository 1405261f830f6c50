"""Runs small kernels, written as PTX, on arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.machine.launch import Statistics, execute
from schedgen.emulator.machine.memory import HostMemory
from schedgen.emulator.machine.policies import Adversarial, Policy, RoundRobin
from schedgen.emulator.machine.switches import Switches
from schedgen.emulator.order.tracker import Tracker
from schedgen.emulator.ptx.parse import parse

Order = Callable[[], Policy]
"""Makes a new policy: they keep a state."""
POLICIES: tuple[Order, ...] = (
    RoundRobin,
    partial(RoundRobin, quantum=1),
    partial(Adversarial, 0, "late"),
    partial(Adversarial, 1, "early"),
    partial(Adversarial, 2, "mixed"),
)

_PTX = """.version 8.8
.target {target}
.address_size 64
.visible .entry k({parameters})
{{
.reg .b32 %r<400>; .reg .b64 %rd<60>; .reg .b16 %rs<20>; .reg .pred %p<20>; .reg .b128 %q<4>;
.reg .f32 %f<300>;
.shared .align 1024 .b8 smem[{shared}];
{text}
ret;
}}
"""


def launch(
    text: str,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    *,
    scalars: Mapping[str, bytes] | None = None,
    threads: int = 32,
    grid: int = 1,
    cluster: int = 1,
    shared: int = 64 * 1024,
    target: str = "sm_100a",
    policy: Order = RoundRobin,
    tracker: Tracker | None = None,
    switches: Switches | None = None,
    tolerated: Callable[[str], bool] | None = None,
) -> Statistics:
    """Executes PTX. Arrays become pointer parameters, scalars parameters of their bytes."""
    memory = HostMemory()
    parameters: list[str] = []
    image = b""
    for name, array in (arrays or {}).items():
        memory.register(int(array.ctypes.data), array.nbytes, name)
        parameters.append(f".param .u64 {name}")
        image += int(array.ctypes.data).to_bytes(8, "little")
    for name, data in (scalars or {}).items():
        image += bytes(-len(image) % 64) + data
        parameters.append(f".param .align 64 .b8 {name}[{len(data)}]")
    source = _PTX.format(target=target, parameters=", ".join(parameters), text=text, shared=shared)
    return execute(
        parse(source).kernels["k"],
        grid=(grid, 1, 1),
        block=(threads, 1, 1),
        cluster=(cluster, 1, 1) if cluster > 1 else None,
        parameters=image,
        memory=memory,
        target=target,
        policy=policy(),
        tracker=tracker,
        tolerated=tolerated,
        switches=switches,
    )


def aligned(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """An array of zeros whose data begins at a multiple of 128 bytes."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    room = np.zeros(size + 128, np.uint8)
    first = -int(room.ctypes.data) % 128
    return room[first : first + size].view(dtype).reshape(shape)
