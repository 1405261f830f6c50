"""The CUDA functions that compiled host code calls, answered without a driver.

CuTe DSL's host code calls wrappers of its runtime library, named as the CUDA function with an
underscore before it. `schedgen.emulator.launch.host_code` gives them to the engine as symbols; the
arguments are those of the CUDA function, pointers as integers (None for a null pointer).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from schedgen.emulator.launch.capture import Launch, Parameters
from schedgen.emulator.launch.config import Config
from schedgen.emulator.launch.errors import LaunchError
from schedgen.emulator.launch.targets import Target
from schedgen.emulator.launch.tensor_map import (
    Element,
    Fill,
    Interleave,
    Promotion,
    TensorMap,
    TensorMapError,
)
from schedgen.emulator.launch.tensor_map_bits import encode
from schedgen.emulator.layouts.swizzle import Swizzle

FAILED = 999
"""``cudaErrorUnknown``: makes host code return; the Python error takes its place."""

_LIBRARY = 1  # a handle that is not null
_STATIC_SHARED_BYTES = 1  # CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
ELEMENTS = {element.api: element for element in Element}
SWIZZLES = (
    Swizzle.NONE,
    Swizzle.B32,
    Swizzle.B64,
    Swizzle.B128,
    Swizzle.B128_ATOM32,
    Swizzle.B128_ATOM32_FLIP8,
    Swizzle.B128_ATOM64,
)

Function = Callable[..., None]
"""Returns if CUDA would succeed, raises what the user is to see if not."""


class Driver:
    """Answers of one target to the host code of one compiled function.

    Attributes:
        ptx: gives the text of the module that the host code loads.
        functions: what host code may call, by symbol.
    """

    def __init__(
        self, target: Target, ptx: Callable[[], str], launch: Callable[[Launch], None]
    ) -> None:
        self.ptx = ptx
        self.functions: dict[str, Function] = {
            "_cudaLibraryLoadData": self._load_library,
            "_cudaLibraryGetKernel": self._get_kernel,
            "_cudaGetDevice": self._get_device,
            "_cudaSetDevice": self._nothing,
            "_cudaLibraryUnload": self._nothing,
            "_cudaDeviceGetAttribute": self._get_attribute,
            "_cuKernelGetAttribute": self._get_kernel_attribute,
            "_cudaFuncSetAttribute": self._nothing,
            "_cudaKernelSetAttributeForDevice": self._nothing,
            "_cudaLaunchKernelEx": self._launch_kernel,
            "_cuTensorMapEncodeTiled": self._encode_tiled,
            # Called with results of the others. A failure comes out as a Python error instead.
            "cuda_dialect_assert_success": self._nothing,
        }
        self._target = target
        self._launch = launch
        self._kernels: list[str] = []  # a handle is an index into it plus one

    def _load_library(self, library: int, *_: int | None) -> None:
        ctypes.c_uint64.from_address(library).value = _LIBRARY

    def _get_kernel(self, kernel: int, _library: int, name: int) -> None:
        self._kernels.append(ctypes.string_at(name).decode())
        ctypes.c_uint64.from_address(kernel).value = len(self._kernels)

    def _get_device(self, device: int) -> None:
        ctypes.c_int32.from_address(device).value = 0

    def _get_attribute(self, value: int, attribute: int, _device: int) -> None:
        answer = self._target.attribute(attribute)
        if answer is None:
            raise LaunchError(
                f"host code asks for attribute {attribute} (cudaDeviceAttr) of the device, which "
                "the emulator does not know"
            )
        ctypes.c_int32.from_address(value).value = answer

    def _get_kernel_attribute(self, value: int, attribute: int, _kernel: int, _device: int) -> None:
        if attribute != _STATIC_SHARED_BYTES:
            raise LaunchError(
                f"host code asks for attribute {attribute} (CUfunction_attribute) of a kernel, "
                "which the emulator does not know"
            )
        # CuTe DSL subtracts it from what a CTA can have. Its own kernels have none.
        ctypes.c_int32.from_address(value).value = 0

    def _nothing(self, *_: int) -> None:
        """Accept what needs no answer, such as a higher limit."""

    def _launch_kernel(self, config: int, kernel: int, parameters: int) -> None:
        read = Config(config)
        values = Parameters(parameters)
        try:
            self._launch(
                Launch(
                    kernel=self._kernels[kernel - 1],
                    grid=read.grid,
                    block=read.block,
                    cluster=read.cluster,
                    shared_bytes=read.shared_bytes,
                    ptx=self.ptx(),
                    target=self._target,
                    allocations=(),
                    attributes=read.attributes,
                    parameters=values,
                )
            )
        finally:
            values.close()

    def _encode_tiled(
        self,
        result: int,
        element: int,
        rank: int,
        address: int | None,
        dims: int,
        strides: int,
        box: int,
        element_strides: int,
        interleave: int,
        swizzle: int,
        promotion: int,
        fill: int,
    ) -> None:
        try:
            tensor = TensorMap(
                address=address or 0,
                element=ELEMENTS[element],
                dims=_array(ctypes.c_uint64, dims, rank),
                strides=_array(ctypes.c_uint64, strides, rank - 1),
                box=_array(ctypes.c_uint32, box, rank),
                element_strides=_array(ctypes.c_uint32, element_strides, rank),
                swizzle=SWIZZLES[swizzle],
                interleave=Interleave(interleave),
                fill=Fill(fill),
                promotion=Promotion(promotion),
            )
        except (KeyError, IndexError, ValueError) as error:
            raise TensorMapError(f"cuTensorMapEncodeTiled: unknown enumerator {error}") from error
        data = encode(tensor)
        ctypes.memmove(result, data, len(data))


def _array(
    kind: type[ctypes.c_uint32] | type[ctypes.c_uint64], address: int, count: int
) -> tuple[int, ...]:
    return tuple((kind * count).from_address(address))
