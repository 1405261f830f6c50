"""Runs micro-kernels: on a GPU through the CUDA driver, or in the emulator."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
from micro.launch import EXACT, Array, Micro, aligned

from schedgen.emulator.launch.tensor_map_bits import encode

Results = dict[str, Array]
_LOG = 8192


class Gpu:
    """The first GPU. Its tensor maps are ours: `tensor_maps` shows that they are the driver's."""

    def __init__(self) -> None:
        self._cuda: Any = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._check(self._cuda.cuInit(0))
        self._check(self._cuda.cuDeviceGet(ctypes.byref(device), 0))
        self._check(self._cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        self._check(self._cuda.cuCtxSetCurrent(context))
        name = ctypes.create_string_buffer(256)
        self._check(self._cuda.cuDeviceGetName(name, 256, device))
        number = ctypes.c_int()
        self._check(self._cuda.cuDriverGetVersion(ctypes.byref(number)))
        self.name, self.driver = name.value.decode(), number.value

    def run(self, micro: Micro) -> Results:
        """Outputs after the launch. Raises RuntimeError."""
        module, function = self._load(micro.source), ctypes.c_void_p()
        self._check(self._cuda.cuModuleGetFunction(ctypes.byref(function), module, b"k"))
        arrays = {**micro.inputs, **micro.outputs}
        memory = {name: self._copied(array) for name, array in arrays.items()}
        values: list[Any] = list(memory.values())
        for array, map_ in micro.maps.values():
            data = encode(replace(map_, address=int(memory[array].value)))
            values.append((ctypes.c_char * len(data)).from_buffer_copy(data))
        arguments = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        shape = (micro.cluster, 1, 1, micro.threads, 1, 1)
        self._check(self._cuda.cuLaunchKernel(function, *shape, 0, None, arguments, None))
        self._check(self._cuda.cuCtxSynchronize())
        found: Results = {}
        for name, array in micro.outputs.items():
            found[name] = np.empty_like(array)
            host = ctypes.c_void_p(found[name].ctypes.data)
            size = ctypes.c_size_t(array.nbytes)
            self._check(self._cuda.cuMemcpyDtoH_v2(host, memory[name], size))
        for address in memory.values():
            self._check(self._cuda.cuMemFree_v2(address))
        self._check(self._cuda.cuModuleUnload(module))
        return found

    def _copied(self, array: Array) -> ctypes.c_uint64:
        address, size = ctypes.c_uint64(), ctypes.c_size_t(array.nbytes)
        self._check(self._cuda.cuMemAlloc_v2(ctypes.byref(address), size))
        host = ctypes.c_void_p(array.ctypes.data)
        self._check(self._cuda.cuMemcpyHtoD_v2(address, host, size))
        return address

    def _load(self, source: str) -> ctypes.c_void_p:
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(_LOG)
        options = (ctypes.c_int * 2)(5, 6)  # the error log and its size
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG)
        text = source.encode()
        status = self._cuda.cuModuleLoadDataEx(ctypes.byref(module), text, 2, options, values)
        if status:
            raise RuntimeError(f"CUDA error {status}: {log.value.decode()[:500]}")
        return module

    def _check(self, status: int) -> None:
        if status:
            raise RuntimeError(f"CUDA error {status}")


def emulate(micro: Micro) -> tuple[Results, str]:
    """Outputs, and what the race checker finds ("" for nothing). Raises SchedgenError.

    Sums of wgmma are those of an H200 where the case asks for the same bits.
    """
    from schedgen.emulator.machine.launch import execute
    from schedgen.emulator.machine.memory import HostMemory
    from schedgen.emulator.machine.switches import Accumulation, Switches
    from schedgen.emulator.order.checker import Checker
    from schedgen.emulator.order.grid import cluster_of
    from schedgen.emulator.ptx.parse import parse

    kernel = parse(micro.source).kernels["k"]
    found: Results = {}
    for name, array in micro.outputs.items():
        found[name] = aligned(array.shape, array.dtype)
        found[name][...] = array
    arrays = {**micro.inputs, **found}
    memory = HostMemory()
    values: list[bytes] = []
    for name, array in arrays.items():
        memory.register(int(array.ctypes.data), array.nbytes, name)
        values.append(int(array.ctypes.data).to_bytes(8, "little"))
    for name, map_ in micro.maps.values():
        values.append(encode(replace(map_, address=int(arrays[name].ctypes.data))))
    parameters = bytearray(max(p.offset + p.size for p in kernel.parameters))
    for parameter, value in zip(kernel.parameters, values, strict=True):
        parameters[parameter.offset : parameter.offset + parameter.size] = value
    shape = (micro.cluster, 1, 1)
    exact = micro.rule == EXACT
    switches = Switches(accumulation=Accumulation.H200 if exact else Accumulation.FLOAT32)
    checker = Checker(-(-micro.threads // 32), cluster_of(shape, shape), switches=switches)
    execute(
        kernel,
        grid=shape,
        block=(micro.threads, 1, 1),
        cluster=shape if micro.cluster > 1 else None,
        parameters=bytes(parameters),
        memory=memory,
        target="sm_90a",
        tracker=checker,
        switches=switches,
    )
    checker.close()
    return found, checker.report() if checker.findings else ""
