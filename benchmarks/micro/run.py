"""Runs micro-kernels: on a GPU through the CUDA driver, or in the emulator."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
from micro.driver import Driver
from micro.launch import EXACT, Array, Micro, aligned

from schedgen.emulator.launch.tensor_map_bits import encode

Results = dict[str, Array]


class Gpu:
    """The first GPU. Its tensor maps are ours: `tensor_maps` shows that they are the driver's."""

    def __init__(self) -> None:
        self._cuda = Driver()
        self.name, self.driver = self._cuda.name(), self._cuda.version()

    def run(self, micro: Micro) -> Results:
        """Outputs after the launch. Raises RuntimeError."""
        cuda = self._cuda
        module = cuda.load(micro.source)
        arrays = {**micro.inputs, **micro.outputs}
        memory = {name: self._copied(array) for name, array in arrays.items()}
        values: list[Any] = list(memory.values())
        for array, map_ in micro.maps.values():
            data = encode(replace(map_, address=int(memory[array].value)))
            values.append((ctypes.c_char * len(data)).from_buffer_copy(data))
        arguments = (ctypes.c_void_p * len(values))(*map(ctypes.addressof, values))
        shape = (micro.cluster, 1, 1, micro.threads, 1, 1)
        kernel = cuda.function(module, "k")
        cuda.call("cuLaunchKernel", kernel, *shape, 0, None, arguments, None)
        cuda.call("cuCtxSynchronize")
        found: Results = {}
        for name, array in micro.outputs.items():
            found[name] = np.empty_like(array)
            host = ctypes.c_void_p(found[name].ctypes.data)
            cuda.call("cuMemcpyDtoH_v2", host, memory[name], ctypes.c_size_t(array.nbytes))
        for address in memory.values():
            cuda.call("cuMemFree_v2", address)
        cuda.call("cuModuleUnload", module)
        return found

    def _copied(self, array: Array) -> ctypes.c_uint64:
        address = self._cuda.allocate(array.nbytes)
        host = ctypes.c_void_p(array.ctypes.data)
        self._cuda.call("cuMemcpyHtoD_v2", address, host, ctypes.c_size_t(array.nbytes))
        return address


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
