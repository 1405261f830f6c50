"""Global memory of the GPU that is not there: memory of this process, aligned as CUDA aligns it."""

from __future__ import annotations

import ctypes
import weakref
from typing import Any

import numpy as np
import torch

from schedgen.emulator.launch.capture import Allocation

ALIGNMENT = 512
"""Bytes. Memory of torch's CUDA allocator begins at multiples of it; kernels assume 16 to 256 of
them, and torch's CPU allocator gives 64."""
_GAP = 512
"""Bytes between two allocations at least, which no kernel may access."""

_REMEMBERED = 1000
"""Storages that are gone, for messages."""
_KEPT = 16 << 20
"""Bytes of storages that are gone and whose memory is kept, so that a kernel that still uses them
goes on, as it does on a GPU, whose allocator keeps memory, too."""


class GlobalMemory:
    """What is allocated, from the first tensor of a storage to the last."""

    def __init__(self) -> None:
        self._sizes: dict[int, int] = {}
        self._released: dict[int, int] = {}
        self._rooms: dict[int, np.ndarray[Any, Any]] = {}
        """Of storages that are gone, by their addresses, oldest first."""

    def __contains__(self, address: int) -> bool:
        """Whether a storage that begins at `address` is in this memory."""
        return address in self._sizes

    def allocations(self) -> tuple[Allocation, ...]:
        """All storages that are alive, and those that are gone and kept; ascending."""
        alive = [(start, size, False) for start, size in self._sizes.items()]
        gone = [(start, self._released[start], True) for start in self._rooms]
        return tuple(
            Allocation(start, size, "a tensor on cuda", released, -size % ALIGNMENT)
            for start, size, released in sorted(alive + gone)
        )

    def released(self, address: int) -> bool:
        """Whether an address was in this memory, in a storage that is gone, and is in no other."""
        return _inside(address, self._released) and not _inside(address, self._sizes)

    def allocate(self, size: int) -> torch.Tensor:
        """Return `size` bytes (uint8, zero-initialized) that begin at a multiple of `ALIGNMENT`."""
        room = np.zeros(size + ALIGNMENT + _GAP, np.uint8)
        first = -room.ctypes.data % ALIGNMENT
        view = room[first : first + size]
        found = torch.from_numpy(view)
        if size:
            address = found.data_ptr()
            self._sizes[address] = size
            self._released.pop(address, None)
            weakref.finalize(view, self._release, address, room)  # torch keeps it while it is used
        return found

    def _release(self, address: int, room: np.ndarray[Any, Any]) -> None:
        self._released[address] = self._sizes.pop(address)
        self._rooms[address] = room
        while sum(one.nbytes for one in self._rooms.values()) > _KEPT:
            del self._rooms[next(iter(self._rooms))]
        while len(self._released) > _REMEMBERED:
            oldest = next(iter(self._released))
            del self._released[oldest]
            self._rooms.pop(oldest, None)

    def empty_strided(
        self, shape: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype
    ) -> torch.Tensor:
        """Return a tensor of `shape` in elements that has a storage of its own in this memory."""
        elements = 0
        if 0 not in shape:
            elements = 1 + sum((n - 1) * step for n, step in zip(shape, stride, strict=True))
        size = elements * torch.empty(0, dtype=dtype).element_size()
        return _seen(self.allocate(size), dtype, 0, shape, stride)

    def place(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return `tensor`, a plain one, if its storage is here, else its like in a copy of it."""
        storage = tensor.untyped_storage()
        start, size = storage.data_ptr(), storage.nbytes()
        if not size or start in self._sizes:
            return tensor
        room = self.allocate(size)
        ctypes.memmove(room.data_ptr(), start, size)
        return _seen(
            room, tensor.dtype, int(tensor.storage_offset()), tensor.shape, tensor.stride()
        )


def _inside(address: int, sizes: dict[int, int]) -> bool:
    return any(start <= address < start + size for start, size in sizes.items())


def _seen(
    room: torch.Tensor,
    dtype: torch.dtype,
    offset: int,
    shape: tuple[int, ...],
    stride: tuple[int, ...],
) -> torch.Tensor:
    """The bytes of `room` as elements."""
    with torch.no_grad():
        return torch.empty(0, dtype=dtype).set_(room.untyped_storage(), offset, shape, stride)
