"""Which bytes of global memory a launch read and wrote, for the launch behind it (L1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.order.tracker import Cells

Bytes = NDArray[np.int64]
"""Addresses."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """Disjoint ranges of addresses in ascending order, no two of which touch.

    Attributes:
        starts: the first address of each.
        stops: the address behind each.
    """

    starts: NDArray[np.int64]
    stops: NDArray[np.int64]

    @classmethod
    def of(cls, starts: Bytes, stops: Bytes) -> Ranges:
        """The ranges that are left where some, in any order, overlap or touch."""
        order = np.argsort(starts, kind="stable")
        starts, reach = starts[order], np.maximum.accumulate(stops[order])
        if not starts.size:
            return cls(starts, reach)
        new = np.concatenate([[True], starts[1:] > reach[:-1]])
        ends = np.concatenate([new[1:], [True]])
        return cls(starts[new], reach[ends])

    def __or__(self, other: Ranges) -> Ranges:
        """The ranges of both."""
        starts = np.concatenate([self.starts, other.starts])
        return Ranges.of(starts, np.concatenate([self.stops, other.stops]))

    def meet(self, cells: Cells) -> bool:
        """Whether an access touches one of them."""
        if isinstance(cells.index, slice):
            low, high = np.array([cells.index.start]), np.array([cells.index.stop])
        else:
            low, high = cells.index, cells.index + cells.width
        if not self.starts.size:
            return False
        # Of the ranges that begin before the access ends, the last one reaches farthest.
        at = np.searchsorted(self.starts, high, side="left") - 1
        return bool(((at >= 0) & (self.stops[np.maximum(at, 0)] > low)).any())

    @classmethod
    def touched(cls, every: Sequence[Cells]) -> Ranges:
        """All that some accesses touch."""
        starts = [_addresses(c.index) for c in every]
        widths = [np.full(len(s), c.width) for s, c in zip(starts, every, strict=True)]
        begin = np.concatenate([NOWHERE, *starts])
        return cls.of(begin, begin + np.concatenate([NOWHERE, *widths]))


NOWHERE = np.zeros(0, np.int64)


def _addresses(index: Bytes | slice) -> Bytes:
    """The cells of an access, one by one."""
    if not isinstance(index, slice):
        return index
    return np.arange(int(index.start), int(index.stop), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a launch, or several that may run at the same time, did to global memory.

    Attributes:
        released: words that it wrote with ``.release``, so that others may go on behind them.
        counted: those of them to which it added.
    """

    reads: Ranges
    writes: Ranges
    released: Ranges = field(default_factory=lambda: Ranges(NOWHERE, NOWHERE))
    counted: Ranges = field(default_factory=lambda: Ranges(NOWHERE, NOWHERE))

    def __or__(self, other: Footprint) -> Footprint:
        """What both did."""
        return Footprint(
            self.reads | other.reads,
            self.writes | other.writes,
            self.released | other.released,
            self.counted | other.counted,
        )

    def concerns(self, cells: Cells, *, write: bool) -> bool:
        """Whether an access has to come after these launches: it touches what they wrote, or
        overwrites what they read."""
        return self.writes.meet(cells) or (write and self.reads.meet(cells))
