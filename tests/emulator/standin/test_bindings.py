"""cuda-python on a GPU that is not there."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import ctypes
from typing import Any

import cuda.bindings.driver
import cuda.bindings.runtime

from schedgen.emulator.launch.targets import target
from schedgen.emulator.standin.tensors import MEMORY
from schedgen.emulator.standin.torch_standin import stand_in

driver: Any = cuda.bindings.driver
runtime: Any = cuda.bindings.runtime


def test_driver_and_runtime() -> None:
    plain = driver.cuInit
    good = driver.CUresult.CUDA_SUCCESS
    with stand_in(target("sm_90a", 7)):
        assert driver.cuInit(0) == (good,)
        assert driver.cuDeviceGetCount() == (good, 1)
        sms = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
        assert driver.cuDeviceGetAttribute(sms, 0) == (good, 7)
        status, stream = driver.cuStreamCreate(0)
        assert status == good
        assert isinstance(stream, driver.CUstream)
        (_, first), (_, last) = (driver.cuEventCreate(0) for _ in range(2))
        driver.cuEventRecord(first, stream)
        driver.cuEventRecord(last, stream)
        assert driver.cuEventElapsedTime(first, last)[1] > 0
        _, address = driver.cuMemAlloc(16)
        assert address in MEMORY
        driver.cuMemsetD32Async(address, 5, 4, stream)
        assert ctypes.string_at(address, 16) == b"\5\0\0\0" * 4
        driver.cuMemFree(address)
        assert address not in MEMORY
        assert runtime.cudaDeviceSynchronize() == (runtime.cudaError_t.cudaSuccess,)
    assert driver.cuInit is plain
