"""Tensor maps that CuTe DSL's host code builds, decoded from the parameters of a launch."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import cutlass
import cutlass.experimental.cuda as cute_cuda
import pytest
import torch
from cutlass import cute
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import from_dlpack

from schedgen.emulator.launch.capture import Launch
from schedgen.emulator.launch.device import device
from schedgen.emulator.launch.tensor_map import (
    Element,
    Fill,
    Interleave,
    Promotion,
    TensorMap,
    TensorMapError,
)
from schedgen.emulator.launch.tensor_map_bits import SIZE, decode
from schedgen.emulator.layouts.swizzle import Swizzle

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportPrivateImportUsage=false, reportMissingTypeArgument=false
# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false


@cute.kernel
def copy_kernel(atom: cute.CopyAtom, coordinates: cute.Tensor):
    cpasync.prefetch_descriptor(atom)


@cute.jit
def copy(
    tensor: cute.Tensor,
    box: cutlass.Constexpr,
    swizzle: cutlass.Constexpr,
    store: cutlass.Constexpr,
):
    order = tuple(reversed(range(len(box))))
    layout = cute.make_ordered_layout(box, order=order)
    if cutlass.const_expr(swizzle is not None):
        layout = cute.make_composed_layout(cute.make_swizzle(*swizzle), 0, layout)
    operation = cpasync.CopyBulkTensorTileG2SOp()
    if cutlass.const_expr(store):
        operation = cpasync.CopyBulkTensorTileS2GOp()
    atom, coordinates = cpasync.make_tiled_tma_atom(operation, tensor, layout, box)
    copy_kernel(atom, coordinates).launch(grid=[1, 1, 1], block=[32, 1, 1])


@cute.kernel
def map_kernel(found: cutlass.GridConstant[cute_cuda.TensorMap]):
    found.get_ptr()


@cute.jit
def encode_tiled(address: cutlass.Int64, swizzle: cutlass.Constexpr, box: cutlass.Constexpr):
    found = cute_cuda.create_tensor_map_tiled(
        address,
        cutlass.Float32,
        (64, 33, 32),
        (256 // 16, 65536 // 16),
        box,
        traversal_strides=(1, 2, 3),
        interleave=cute_cuda.TensorMapInterleave.i16b,
        swizzle=swizzle,
        l2_promotion=cute_cuda.TensorMapL2Promotion.l2_256b,
        oob_fill=cute_cuda.TensorMapFloatOOBFill.nan_request_zero_fma,
        tma_format=cute_cuda.TensorMapDataFormat.F32_FTZ,
    )
    map_kernel(found).launch(grid=[1, 1, 1], block=[32, 1, 1])


def maps_of(function: Callable[..., Any], *arguments: Any, target: str = "sm_100a") -> TensorMap:
    """Return the tensor map that a call of `function` passes to its kernel as parameter 0."""
    found: list[TensorMap] = []

    def run(launch: Launch) -> None:
        assert re.search(rf"_param_0\[{SIZE}\]", launch.ptx)
        found.append(decode(launch.parameter(0, SIZE)))

    with device(target, run=run):
        function(*arguments)
    return found[0]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    ("swizzle", "mode", "row"),
    [
        (None, Swizzle.NONE, 64),
        ((1, 4, 3), Swizzle.B32, 8),
        ((2, 4, 3), Swizzle.B64, 16),
        ((3, 4, 3), Swizzle.B128, 32),
        ((2, 5, 2), Swizzle.B128_ATOM32, 32),
        ((1, 6, 3), Swizzle.B128_ATOM64, 32),
    ],
)
def test_swizzles(target: str, swizzle: Any, mode: Swizzle, row: int) -> None:
    tensor = torch.zeros(256, 128)
    found = maps_of(
        copy, from_dlpack(tensor, assumed_align=16), (32, row), swizzle, False, target=target
    )
    assert found == TensorMap(
        address=tensor.data_ptr(),
        element=Element.F32,
        dims=(128, 256),
        strides=(512,),
        box=(row, 32),
        element_strides=(1, 1),
        swizzle=mode,
        promotion=Promotion.B128,
    )


@pytest.mark.parametrize("rank", range(1, 6))
def test_ranks_and_dynamic_layouts(rank: int) -> None:
    shape, box = (3, 5, 7, 9, 64)[-rank:], (2, 4, 6, 8, 16)[-rank:]
    tensor = torch.zeros(shape, dtype=torch.float16)
    view = from_dlpack(tensor, assumed_align=16)
    if rank > 1:
        view = view.mark_layout_dynamic()
    found = maps_of(copy, view, box, None, True)
    assert found.dims == shape[::-1]
    assert found.strides == tuple(2 * step for step in tensor.stride()[-2::-1])
    assert found.box == box[::-1]
    assert found.element_strides == (1,) * rank
    assert found.rank == rank


@pytest.mark.parametrize(
    ("storage", "kind", "element"),
    [
        (torch.uint8, None, Element.U8),
        (torch.int16, None, Element.U16),
        (torch.int32, None, Element.U32),
        (torch.int64, None, Element.U64),
        (torch.float16, None, Element.F16),
        (torch.bfloat16, None, Element.BF16),
        (torch.float64, None, Element.F64),
        (torch.float32, cutlass.TFloat32, Element.TF32),
        (torch.int8, cutlass.Float8E4M3FN, Element.U8),
        (torch.int8, cutlass.Float8E5M2, Element.U8),
    ],
)
def test_elements(storage: torch.dtype, kind: Any, element: Element) -> None:
    tensor = from_dlpack(torch.zeros(256, 128, dtype=storage), assumed_align=16)
    if kind is not None:
        tensor.element_type = kind
    found = maps_of(copy, tensor, (32, 16), None, False)
    assert found.element is element
    assert found.strides == (128 * found.element_bytes,)


def test_maps_of_the_driver_call() -> None:
    memory = torch.zeros(4)
    found = maps_of(encode_tiled, memory.data_ptr(), cute_cuda.TensorMapSwizzle.s128b, (8, 7, 6))
    assert found == TensorMap(
        address=memory.data_ptr(),
        element=Element.F32_FTZ,
        dims=(64, 33, 32),
        strides=(256, 65536),
        box=(8, 7, 6),
        element_strides=(1, 2, 3),
        swizzle=Swizzle.B128,
        interleave=Interleave.B16,
        fill=Fill.NAN,
        promotion=Promotion.B256,
    )


def test_a_map_that_the_driver_call_refuses() -> None:
    swizzle = cute_cuda.TensorMapSwizzle.none
    with pytest.raises(TensorMapError, match="extent of the box 300 of dimension 1"):
        maps_of(encode_tiled, torch.zeros(4).data_ptr(), swizzle, (8, 300, 6))
