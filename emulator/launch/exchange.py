"""DLPack capsules that say that their memory is on the GPU.

Source: ``dlpack.h`` 0.8, DLManagedTensor: it begins with its DLTensor, which begins with the
address of the data and the device.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

CUDA = 2
"""``kDLCUDA``"""


class _Head(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
    )


_address_of = ctypes.pythonapi.PyCapsule_GetPointer
_address_of.restype = ctypes.c_void_p
_address_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


def capsule(plain: torch.Tensor) -> Any:
    """Return the DLPack capsule (``dltensor``) of `plain`, a tensor on the CPU, as one on GPU 0."""
    made: Any = torch._C._to_dlpack(plain)  # pyright: ignore
    head = _Head.from_address(_address_of(made, b"dltensor"))
    head.device_type, head.device_id = CUDA, 0
    return made


class Exchanged:
    """A tensor that can be exchanged by DLPack only, and is on GPU 0."""

    def __init__(self, plain: torch.Tensor) -> None:
        self._plain = plain

    def __dlpack__(self, **_: Any) -> Any:
        """A capsule."""
        return capsule(self._plain)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Type and number of the device."""
        return CUDA, 0
