"""Addresses that come again: what is known of their offsets.

Warps of all CTAs, and iterations of loops, access shared memory at the same offsets. An array of
offsets that is not writeable is taken for one that comes again; so does the race checker
(`order.tracker.Cells`). Arrays are kept with what is known of them, so that their identity stays.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Offsets = NDArray[np.int64]
_KEPT = 4096
"""Arrays, after which all are forgotten."""


class Spot:
    """What is known of an array of offsets: the least, the greatest, all bits that are set in one
    of them, and whether they differ from each other."""

    __slots__ = ("_indices", "_kept", "different", "high", "joined", "low", "offsets")

    def __init__(self, offsets: Offsets) -> None:
        self.offsets = offsets
        lanes = offsets.tolist()
        self.low, self.high = min(lanes), max(lanes)
        self.different = len(set(lanes)) == len(lanes)
        self.joined = 0
        for lane in lanes:
            self.joined |= lane
        self._indices: dict[Hashable, NDArray[np.int64]] = {}
        self._kept: dict[Hashable, Any] = {}

    def index(self, key: Hashable, make: Callable[[Offsets], NDArray[np.int64]]) -> Any:
        """Elements of a memory that belong to the offsets, made when first asked for."""
        found = self._indices.get(key)
        if found is None:
            found = self._indices[key] = make(self.offsets)
        return found

    def kept(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Something else that depends on the offsets, of one array or of several that are joined
        in it."""
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = make()
        return found


_spots: dict[int, Spot] = {}
_joined: dict[tuple[int, ...], tuple[Spot, Sequence[Offsets]]] = {}
"""By the identities of arrays, which are kept beside it."""
_offsets: dict[tuple[bytes, int], Offsets] = {}


def offsets_of(addresses: NDArray[Any], base: int) -> Offsets:
    """Addresses of shared memory as offsets from the first byte of a CTA."""
    key = addresses.tobytes(), base
    found = _offsets.get(key)
    if found is None:
        found = addresses.astype(np.int64) - base
        found.flags.writeable = False
        if len(_offsets) >= _KEPT:
            _forget()
        _offsets[key] = found
    return found


def spot_of(offsets: Offsets) -> Spot | None:
    """What is known of offsets that come again, None of others."""
    found = _spots.get(id(offsets))
    if found is None and not offsets.flags.writeable:
        if len(_spots) >= _KEPT:
            _forget()
        found = _spots[id(offsets)] = Spot(offsets)
    return found


def spot_of_all(every: Sequence[Offsets]) -> Spot | None:
    """What is known of several arrays of offsets that come again, one behind the other."""
    key = tuple(map(id, every))
    found = _joined.get(key)
    if found is None:
        if any(offsets.flags.writeable for offsets in every):
            return None
        if len(_joined) >= _KEPT:
            _forget()
        offsets = np.concatenate(every)
        offsets.flags.writeable = False
        spot = spot_of(offsets)
        assert spot is not None
        found = _joined[key] = spot, every
    return found[0]


def _forget() -> None:
    _offsets.clear()
    _spots.clear()
    _joined.clear()
