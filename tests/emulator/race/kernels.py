"""A kernel in PTX that reverses 64 numbers, and the description of its launch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PTX = """.version 8.8
.target sm_90a
.address_size 64

.visible .entry reverse(.param .u64 source, .param .u64 result, .param .u32 last)
{
.reg .b32 %r<8>; .reg .b64 %rd<8>;
.shared .align 16 .b8 room[256];
ld.param.u64 %rd1, [source];
ld.param.u64 %rd2, [result];
ld.param.u32 %r5, [last];
mov.u32 %r1, %tid.x;
mul.wide.u32 %rd3, %r1, 4;
add.s64 %rd4, %rd1, %rd3;
add.s64 %rd5, %rd2, %rd3;
ld.global.b32 %r2, [%rd4];
mov.u32 %r3, room;
shl.b32 %r4, %r1, 2;
add.u32 %r4, %r3, %r4;
st.shared.b32 [%r4], %r2;
BARRIER
sub.u32 %r6, %r5, %r1;
shl.b32 %r6, %r6, 2;
add.u32 %r6, %r3, %r6;
ld.shared.b32 %r7, [%r6];
st.global.b32 [%rd5], %r7;
ret;
}
"""
LAUNCH: dict[str, Any] = {
    "kernel": "reverse",
    "grid": [1, 1, 1],
    "block": [64, 1, 1],
    "tensors": {
        "source": {"dtype": "float32", "shape": [64], "fill": "arange"},
        "result": {"dtype": "float32", "shape": [64], "expect": "wanted.npy"},
    },
    "parameters": [
        {"tensor": "source"},
        {"tensor": "result"},
        {"dtype": "int32", "value": 63},
    ],
}


def write(folder: Path, barrier: str = "bar.sync 0;", launch: object = None) -> tuple[Path, Path]:
    """Writes both; returns their paths."""
    ptx, description = folder / "kernel.ptx", folder / "launch.json"
    ptx.write_text(PTX.replace("BARRIER", barrier), "utf-8")
    description.write_text(json.dumps(LAUNCH if launch is None else launch, indent=1), "utf-8")
    return ptx, description
