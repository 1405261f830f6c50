"""tensormap.replace and tensormap.cp_fenceproxy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from schedgen.emulator.launch.tensor_map import Element, Fill, TensorMap
from schedgen.emulator.launch.tensor_map_bits import decode, encode
from schedgen.emulator.layouts.swizzle import Swizzle
from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.instructions.launches import aligned, launch

MAP = TensorMap(
    address=1 << 20,
    element=Element.F16,
    dims=(64, 32, 2),
    strides=(256, 8192),
    box=(64, 4, 1),
    element_strides=(1, 1, 1),
    swizzle=Swizzle.B128,
)


def changed(text: str) -> TensorMap:
    """`MAP` after instructions on its copy in shared memory, copied back to global memory."""
    map_ = aligned((128,), np.uint8)
    map_[...] = np.frombuffer(encode(MAP), np.uint8)
    out = aligned((128,), np.uint8)
    out[64:] = 7
    program = f"""mov.u32 %r0, smem; ld.param.u64 %rd0, [map]; ld.param.u64 %rd1, [out];
    mov.u32 %r2, %tid.x; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd2, %rd2, %rd0;
    shl.b32 %r3, %r2, 2; add.u32 %r3, %r3, %r0; setp.eq.u32 %p0, %r2, 0;
    ld.global.b32 %r4, [%rd2]; st.shared.b32 [%r3], %r4; bar.warp.sync -1;
    {text}
    bar.warp.sync -1;
    tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned \
[%rd1], [%r0], 128;"""
    arrays: dict[str, NDArray[Any]] = {"map": map_, "out": out}
    launch(program, arrays)
    assert (out[64:] == 7).all()  # no GPU reads it, and nobody has to have written it
    return decode(out.tobytes())


def step(field: str, value: str, type_: str = "b32") -> str:
    return f"@%p0 tensormap.replace.tile.{field}.shared::cta.b1024.{type_} [%r0], {value};"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mov.b64 %rd5, 0x200000;" + step("global_address", "%rd5", "b64"), {"address": 1 << 21}),
        ("mov.b32 %r5, 17;" + step("global_dim", "1, %r5"), {"dims": (64, 17, 2)}),
        ("mov.b64 %rd5, 512;" + step("global_stride", "0, %rd5", "b64"), {"strides": (512, 8192)}),
        (step("box_dim", "1, 8"), {"box": (64, 8, 1)}),
        (step("element_stride", "2, 2"), {"element_strides": (1, 1, 2)}),
        (step("elemtype", "10"), {"element": Element.BF16}),
        (step("swizzle_atomicity", "1"), {"swizzle": Swizzle.B128_ATOM32}),
        (step("fill_mode", "1"), {"fill": Fill.NAN}),
        (step("global_dim", "4, 7"), {}),
        (
            step("rank", "1"),
            {"dims": (64, 32), "strides": (256,), "box": (64, 4), "element_strides": (1, 1)},
        ),
    ],
)
def test_fields(text: str, expected: dict[str, object]) -> None:
    found = changed(text)
    for name in TensorMap.__dataclass_fields__:
        assert getattr(found, name) == expected.get(name, getattr(MAP, name))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (step("box_dim", "5, 8"), "ordinal 5 of a field that has 5 entries"),
        (step("box_dim", "1, 512"), r"box_dim 512 is not in 1\.\.256"),
        (step("swizzle_mode", "9"), r"swizzle_mode 9 is not in 0\.\.3"),
        (step("elemtype", "16"), r"elemtype 16 is not in 0\.\.15"),
        ("mov.b64 %rd5, 24;" + step("global_stride", "0, %rd5", "b64"), "no multiple of 16"),
        (step("rang", "2"), "one of .global_address"),
    ],
)
def test_mistakes(text: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        changed(text)


def test_a_map_may_begin_as_zeros() -> None:
    """As in Triton's kernels: what it is in between is no matter."""
    fields = [
        ("global_address", "%rd5", "b64"), ("rank", "2"), ("elemtype", "6"), ("swizzle_mode", "3"),
        ("interleave_layout", "0"), ("fill_mode", "0"), ("swizzle_atomicity", "0"),
        *(("box_dim", f"{at}, {value}") for at, value in enumerate(MAP.box)),
        *(("global_dim", f"{at}, {value}") for at, value in enumerate(MAP.dims)),
        *(("element_stride", f"{at}, 1") for at in range(3)),
        ("global_stride", "0, %rd6", "b64"), ("global_stride", "1, %rd7", "b64"),
    ]  # fmt: skip
    steps = "\n".join(step(*one) for one in fields)
    values = "mov.b64 %rd5, 0x100000; mov.b64 %rd6, 256; mov.b64 %rd7, 8192;"
    assert changed(f"st.shared.b32 [%r3], 0; bar.warp.sync -1; {values} {steps}") == MAP
