"""Launches that are kept, and run again where neither the DSL nor the tensors are.

A recording has the PTX, the sizes of the launch, the content of all memory that the kernel may
access, and its parameters. Parameters and tensor maps hold addresses; a replay has its memory
elsewhere and puts the new addresses in.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.launch.capture import Allocation, Dimensions, Launch, Parameters
from schedgen.emulator.launch.targets import Target

_WORD = 8
_ALIGNMENT = 4096
"""Bytes; addresses keep their rest modulo this, so that alignment is as it was."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Memory of a launch: its name, its content, and the rest of its address (`_ALIGNMENT`)."""

    name: str
    content: bytes
    skip: int


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address at byte ``at`` of a parameter: ``offset`` bytes into memory number ``memory``."""

    parameter: int
    at: int
    memory: int
    offset: int


@dataclass(frozen=True, slots=True)
class Recording:
    """A launch without what belongs to a process; attributes as of `Launch`."""

    kernel: str
    grid: Dimensions
    block: Dimensions
    cluster: Dimensions
    shared_bytes: int
    ptx: str
    target: Target
    attributes: dict[int, bytes]
    parameters: tuple[bytes, ...]
    memory: tuple[Kept, ...]
    pointers: tuple[Pointer, ...]


def record(launch: Launch, sizes: Sequence[int]) -> Recording:
    """Keeps a launch before it runs; ``sizes`` are the bytes of its parameters, in order.

    Aligned words of the parameters that are addresses in the memory of the launch are taken for
    pointers: those of tensors, and those in tensor maps, which begin with one. Pointers that lie in
    memory themselves stay as they are.
    """
    parameters = tuple(launch.parameter(index, size) for index, size in enumerate(sizes))
    memory = tuple(
        Kept(one.name, ctypes.string_at(one.start, one.size), one.start % _ALIGNMENT)
        for one in launch.allocations
    )
    return Recording(
        launch.kernel, launch.grid, launch.block, launch.cluster, launch.shared_bytes, launch.ptx,
        launch.target, dict(launch.attributes), parameters, memory,
        tuple(_pointers(parameters, launch.allocations)),
    )  # fmt: skip


def _pointers(parameters: tuple[bytes, ...], memory: tuple[Allocation, ...]) -> list[Pointer]:
    found: list[Pointer] = []
    for number, data in enumerate(parameters):
        for at in range(0, len(data) - _WORD + 1, _WORD):
            word = int.from_bytes(data[at : at + _WORD], "little")
            found += [
                Pointer(number, at, index, word - one.start)
                for index, one in enumerate(memory)
                if one.start <= word < one.end
            ]
    return found


class Replay:
    """A recording with memory of its own. ``launch`` may run again and again.

    A launch leaves its results in the memory; `reset` puts back what was recorded.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._rooms = [_room(one) for one in recording.memory]
        values = [bytearray(data) for data in recording.parameters]
        for one in recording.pointers:
            address = self._rooms[one.memory].ctypes.data + one.offset
            values[one.parameter][one.at : one.at + _WORD] = address.to_bytes(_WORD, "little")
        self._values = [ctypes.create_string_buffer(bytes(data), len(data)) for data in values]
        addresses = [ctypes.addressof(value) for value in self._values]
        self._array = (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
        allocations = [
            Allocation(room.ctypes.data, len(room), one.name)
            for room, one in zip(self._rooms, recording.memory, strict=True)
        ]
        self.launch = Launch(
            recording.kernel, recording.grid, recording.block, recording.cluster,
            recording.shared_bytes, recording.ptx, recording.target,
            tuple(sorted(allocations, key=lambda one: one.start)), recording.attributes,
            _Parameters(self, ctypes.addressof(self._array)),
        )  # fmt: skip

    def reset(self) -> None:
        """Puts the recorded content back."""
        for room, one in zip(self._rooms, self._recording.memory, strict=True):
            room[:] = np.frombuffer(one.content, np.uint8)

    def content(self) -> list[bytes]:
        """What the memory holds, in the order of the recording."""
        return [room.tobytes() for room in self._rooms]


class _Parameters(Parameters):
    """Keeps the memory of a replay as long as its launch."""

    def __init__(self, owner: Replay, address: int) -> None:
        super().__init__(address)
        self.owner = owner


def _room(kept: Kept) -> NDArray[np.uint8]:
    """Writable memory with the recorded content, aligned as it was."""
    size = len(kept.content)
    room = np.zeros(size + 2 * _ALIGNMENT, np.uint8)
    first = (kept.skip - room.ctypes.data) % _ALIGNMENT
    view = room[first : first + size]
    view[:] = np.frombuffer(kept.content, np.uint8)
    return view
