"""``cudaLaunchConfig_t`` and its attributes, as host code passes them.

Source: CUDA runtime API, data structures cudaLaunchConfig_t and cudaLaunchAttribute.
"""

from __future__ import annotations

import ctypes
from typing import ClassVar

from schedgen.emulator.launch.capture import Dimensions

CLUSTER_DIMENSION = 4
"""``cudaLaunchAttributeClusterDimension``"""


class _Attribute(ctypes.Structure):
    _fields_: ClassVar = [
        ("id", ctypes.c_uint32),
        ("pad", ctypes.c_uint32),
        ("value", ctypes.c_ubyte * 64),
    ]


class _Config(ctypes.Structure):
    _fields_: ClassVar = [
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared_bytes", ctypes.c_size_t),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("attribute_count", ctypes.c_uint32),
    ]


class Config:
    """A launch configuration, copied from memory of the host code at `address`.

    Attributes: as of `Launch`.
    """

    def __init__(self, address: int) -> None:
        raw = _Config.from_address(address)
        self.grid: Dimensions = tuple(raw.grid)
        self.block: Dimensions = tuple(raw.block)
        self.shared_bytes: int = raw.shared_bytes
        self.attributes: dict[int, bytes] = {
            raw.attributes[i].id: bytes(raw.attributes[i].value) for i in range(raw.attribute_count)
        }

    @property
    def cluster(self) -> Dimensions:
        """CTAs of a cluster along x, y, z."""
        value = self.attributes.get(CLUSTER_DIMENSION)
        if value is None:
            return (1, 1, 1)
        x, y, z = (ctypes.c_uint32 * 3).from_buffer_copy(value)
        return (x, y, z)
