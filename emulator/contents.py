"""What the memory of a launch holds, and whether that depends on what nobody wrote (K9).

A kernel may read shared or tensor memory that nobody wrote and use it for nothing: rows of a tile
behind the end of a tensor are loaded, multiplied and never stored. Bytes that nobody wrote have an
unknown value (PTX ISA 8.2.6), so such a read is harmless if, and only if, another value makes no
difference. That is tried: the launch is executed again with other contents.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from schedgen.emulator.launch.capture import Allocation
from schedgen.emulator.machine.lanes import EmulationError

OTHER = 0x00
"""Byte that shared and tensor memory hold at the start of the second execution."""


UNUSED = "nothing: what it leaves in global memory is the same with other values there"
"""What a read of memory that nobody wrote needs if it makes no difference."""


class Contents:
    """The bytes of some allocations at one time."""

    def __init__(self, allocations: Sequence[Allocation]) -> None:
        self._allocations = tuple(allocations)
        self._bytes = [ctypes.string_at(one.start, one.size) for one in self._allocations]

    def restore(self) -> None:
        """Puts the bytes back."""
        for one, held in zip(self._allocations, self._bytes, strict=True):
            # Arguments that are only read may be in memory that cannot be written.
            if ctypes.string_at(one.start, one.size) != held:
                ctypes.memmove(one.start, held, one.size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Contents) and self._bytes == other._bytes

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def independent(
    before: Contents, allocations: Sequence[Allocation], again: Callable[[], object]
) -> bool:
    """Whether a launch that has been executed leaves the same when it is executed again.

    Args:
        before: global memory before the launch. After this function memory is as it was found.
        allocations: the ranges that the launch may access.
        again: executes the launch with other contents of shared and tensor memory.
    """
    after = Contents(allocations)
    before.restore()
    try:
        again()
    except EmulationError:
        return False
    else:
        return Contents(allocations) == after
    finally:
        after.restore()
