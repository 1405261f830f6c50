"""Runs PTX written in a test: statements become a kernel whose parameter is an output tensor."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.machine.launch import Statistics, execute
from schedgen.emulator.machine.memory import HostMemory
from schedgen.emulator.machine.policies import Policy
from schedgen.emulator.machine.switches import Switches
from schedgen.emulator.order.tracker import Tracker
from schedgen.emulator.ptx.parse import parse

_PTX = """.version 8.8
.target sm_100a
.address_size 64
.file 1 "kernel.py"
.extern .shared .align 1024 .b8 dynamic[]; {outside}
.visible .entry k(.param .u64 out, .param .u64 in)
{directives}
{{
.reg .pred %p<20>; .reg .b16 %rs<20>; .reg .b32 %r<40>; .reg .b64 %rd<40>; .reg .f32 %f<20>;
.shared .align 16 .b8 sm[1024];
ld.param.b64 %rd38, [out];
ld.param.b64 %rd39, [in];
mov.u32 %r39, %tid.x;
{text}
ret;
}}
"""
FIRST = 14
"""Line of the PTX file in which a test's text begins."""

STORE = """
mov.u32 %r36, %ctaid.x; mov.u32 %r37, %ntid.x;
mad.lo.s32 %r36, %r36, %r37, %r39;
mul.wide.u32 %rd37, %r36, 4; add.s64 %rd37, %rd38, %rd37; st.global.b32 [%rd37], {value};
"""
"""Puts a register of each thread of the grid into the output."""


def store(register: str) -> str:
    """Text that stores a 32-bit register of every thread at its place in the output."""
    return STORE.format(value=register)


def aligned(values: NDArray[Any]) -> NDArray[Any]:
    """A copy whose address is a multiple of 128 bytes."""
    room = np.zeros(values.nbytes + 128, np.uint8)
    first = -room.ctypes.data % 128
    view = room[first : first + values.nbytes].view(values.dtype)
    view[:] = values
    return view


class Outcome:
    """What a run leaves. ``out`` int32, one element per thread unless asked otherwise."""

    def __init__(self, out: NDArray[np.int32], statistics: Statistics) -> None:
        self.out = out
        self.statistics = statistics


def run(
    text: str,
    *,
    threads: int = 32,
    ctas: int = 1,
    cluster: int | None = None,
    elements: int | None = None,
    source: NDArray[Any] | None = None,
    directives: str = "",
    dynamic: int = 0,
    policy: Policy | None = None,
    tracker: Tracker | None = None,
    switches: Switches | None = None,
    limit: int = 1_000_000,
    processors: int = 148,
    registers: int | None = None,
    outside: str = "",
) -> Outcome:
    """Executes a kernel made of ``text``; ``source`` is the tensor that %rd39 points to."""
    module = parse(_PTX.format(text=text, directives=directives, outside=outside))
    out = aligned(np.zeros(elements or threads * ctas, np.int32))
    source = np.zeros(4, np.int32) if source is None else source
    memory = HostMemory()
    memory.register(out.ctypes.data, out.nbytes, "tensor 'out'")
    memory.register(source.ctypes.data, source.nbytes, "tensor 'in'")
    statistics = execute(
        module.kernels["k"],
        grid=(ctas, 1, 1),
        block=(threads, 1, 1),
        cluster=None if cluster is None else (cluster, 1, 1),
        parameters=struct.pack("<QQ", out.ctypes.data, source.ctypes.data),
        memory=memory,
        variables=module.variables,
        shared_bytes=dynamic,
        policy=policy,
        tracker=tracker,
        switches=switches,
        limit=limit,
        processors=processors,
        registers=registers,
    )
    return Outcome(out, statistics)
