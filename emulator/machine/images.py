"""What a kernel is launched with besides tensors: parameters, constants and global variables."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.machine.addresses import CONSTANT_WINDOW, PARAMETER_WINDOW
from schedgen.emulator.machine.memory import HostMemory
from schedgen.emulator.ptx.tree import Kernel, Variable

_APART = 128
"""Bytes: what each begins at a multiple of, the alignment of tensor maps."""


class Images:
    """Parameters and initialized variables of a kernel, as ranges of its memory.

    Args:
        memory: gets the ranges.
        image: the parameter space.
        rooms: by name, where the bytes lie; for the next launch, so that addresses stay.

    Attributes:
        symbols: generic addresses by name: code for old PTX takes those of parameters without a
            ``cvta``. Registers of 32 bits get the address in the state space.
    """

    def __init__(
        self,
        memory: HostMemory,
        kernel: Kernel,
        variables: tuple[Variable, ...],
        image: bytes,
        rooms: dict[str, NDArray[np.uint8]],
    ) -> None:
        self._memory = memory
        self._rooms = rooms
        self._addresses: list[int] = []
        self.symbols: dict[str, int] = {}
        self._place(image, len(image), "the kernel parameters", PARAMETER_WINDOW)
        for parameter in kernel.parameters:
            self.symbols[parameter.name] = PARAMETER_WINDOW + parameter.offset
        at = CONSTANT_WINDOW
        for variable in variables:
            if variable.space in ("const", "global"):
                constant = variable.space == "const"
                address = self._place(
                    variable.data, variable.size, f".{variable.space} variable {variable.name}",
                    at if constant else None,
                )  # fmt: skip
                self.symbols[variable.name] = address
                at += -(-max(variable.size, 1) // _APART) * _APART if constant else 0

    def release(self) -> None:
        """Makes the ranges inaccessible again."""
        for address in self._addresses:
            self._memory.unregister(address)

    def _place(self, data: bytes, size: int, name: str, address: int | None = None) -> int:
        """Copies bytes to a multiple of 128 bytes, the alignment of tensor maps, where they are, or
        are at ``address``."""
        room = self._rooms.get(name)
        if room is None or len(room) != max(size, 1) + 2 * _APART:
            room = self._rooms[name] = np.zeros(max(size, 1) + 2 * _APART, np.uint8)
        first = -room.ctypes.data % _APART
        room[:] = 0
        room[first : first + len(data)] = np.frombuffer(data, np.uint8)
        if address is None:
            address = int(room.ctypes.data) + first
            self._memory.register(address, max(size, 1), name)
        else:
            self._memory.map(address, room[first:], max(size, 1), name)
        self._addresses.append(address)
        return address
