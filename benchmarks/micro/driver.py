"""The CUDA driver through ctypes: all that running PTX needs, without a compiler or torch."""

from __future__ import annotations

import ctypes
from typing import Any

_LOG = 8192
_COMPUTE_CAPABILITY = (75, 76)


class Driver:
    """The driver, with the first GPU's primary context."""

    def __init__(self) -> None:
        self._library: Any = ctypes.CDLL("libcuda.so.1")
        self._device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(self._device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self._device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name: str, *arguments: Any) -> None:
        """Calls a function of the driver. Raises RuntimeError with its text for the error."""
        status = getattr(self._library, name)(*arguments)
        if status:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(status, ctypes.byref(text))
            raise RuntimeError(f"CUDA error {status}: {(text.value or b'?').decode()}")

    def name(self) -> str:
        """What the GPU is called."""
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, 256, self._device)
        return text.value.decode()

    def version(self) -> int:
        """Of the driver, as 13000 for 13.0."""
        number = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(number))
        return number.value

    def architecture(self) -> str:
        """Such as `sm_90a`."""
        numbers = [ctypes.c_int(), ctypes.c_int()]
        for number, attribute in zip(numbers, _COMPUTE_CAPABILITY, strict=True):
            self.call("cuDeviceGetAttribute", ctypes.byref(number), attribute, self._device)
        return f"sm_{numbers[0].value}{numbers[1].value}a"

    def load(self, source: str) -> ctypes.c_void_p:
        """A module of PTX text. Raises RuntimeError with what the compiler says."""
        module, log = ctypes.c_void_p(), ctypes.create_string_buffer(_LOG)
        options = (ctypes.c_int * 2)(5, 6)  # the error log and its size
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG)
        try:
            text = source.encode()
            self.call("cuModuleLoadDataEx", ctypes.byref(module), text, 2, options, values)
        except RuntimeError as error:
            raise RuntimeError(f"{error}: {log.value.decode()[:500]}") from None
        return module

    def function(self, module: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        """A kernel of a module."""
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function

    def allocate(self, size: int) -> ctypes.c_uint64:
        """Global memory of ``size`` bytes."""
        address = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address
