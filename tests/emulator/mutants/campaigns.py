"""Small kernels, and campaigns of their mutants; benchmarks are imported from their folder."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from schedgen.emulator.launch.recording import Kept, Pointer, Recording
from schedgen.emulator.launch.targets import target
from schedgen.emulator.machine.switches import Switches
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Kernel

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
_PTX = """.version 8.8
.target {arch}
.address_size 64
.visible .entry k(.param .u64 out)
{{
.reg .pred %p<9>; .reg .b32 %r<99>; .reg .b64 %rd<9>;
.shared .align 16 .b8 data[1024];
.shared .align 8 .b8 bar[64];
ld.param.b64 %rd1, [out]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; shr.u32 %r9, %r1, 5;
mov.b32 %r5, data; add.s32 %r3, %r5, %r2; xor.b32 %r6, %r2, 128; add.s32 %r6, %r5, %r6;
setp.ne.s32 %p1, %r1, 0; setp.ne.s32 %p2, %r9, 0; mov.b32 %r8, 0;
{text}
ret;
}}
"""
FIRST = 12
"""Line of the PTX file in which a test's text begins."""


def benchmark(name: str) -> Any:
    """A module of the folder ``benchmarks``; its imports are beside it."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        return import_module(name)
    finally:
        sys.path.remove(str(BENCHMARKS))


def kernel(text: str) -> Kernel:
    """A kernel with these statements. ``%r1``: the thread; ``%r3`` and ``%r6``: addresses of its
    word and of that of the other warp; ``%p1``: not thread 0; ``%p2``: not warp 0; ``%r8``: 0."""
    return parse(_PTX.format(arch="sm_100a", text=text.strip())).kernels["k"]


def campaign(
    *texts: str, threads: int = 64, switches: Switches | None = None, arch: str = "sm_100a"
) -> Any:
    """A campaign with a launch of one CTA for each text."""
    files, run = benchmark("emulate_capture_file"), benchmark("emulated_mutants.run")
    runs = tuple(
        files.Run(Recording(
            "k", (1, 1, 1), (threads, 1, 1), (1, 1, 1), 0,
            _PTX.format(arch=arch, text=text.strip()), target(arch, 1), {}, (bytes(8),),
            (Kept("out", bytes(4 * threads), 0),), (Pointer(0, 0, 0, 0),),
        ))
        for text in texts
    )  # fmt: skip
    return run.Campaign(files.Capture("k", "1", switches or Switches(), runs))


def line(text: str, fragment: str, nth: int = 0) -> int:
    """The line of the PTX file in which a test's text has a fragment for the nth time."""
    lines = text.strip().splitlines()
    return FIRST + [at for at, one in enumerate(lines) if fragment in one][nth]
