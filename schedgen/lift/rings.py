"""Which barriers, and which cells of shared memory, are slots of one ring.

Slots follow each other in memory at equal distances, and each role goes through them in turn.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Place:
    """Where in its ring something is."""

    ring: int
    slot: int
    slots: int

    def number(self, phase: int) -> int:
        """The running number of its ``phase``-th turn."""
        return phase * self.slots + self.slot


def rings(
    places: Iterable[int], alike: Mapping[int, Hashable], sequences: Sequence[Sequence[int]]
) -> dict[int, Place]:
    """The ring of each place.

    Args:
        places: addresses.
        alike: what slots of one ring have in common.
        sequences: places in the order in which a role comes to them, for each role and use.
    """
    ordered = sorted(places)
    found: dict[int, Place] = {}
    at = number = 0
    while at < len(ordered):
        end = at + 1
        for candidate in range(len(ordered), at + 1, -1):
            if _is_ring(ordered[at:candidate], alike, sequences):
                end = candidate
                break
        for slot, place in enumerate(ordered[at:end]):
            found[place] = Place(number, slot, end - at)
        at, number = end, number + 1
    return found


def _is_ring(
    slots: Sequence[int], alike: Mapping[int, Hashable], sequences: Sequence[Sequence[int]]
) -> bool:
    if len({b - a for a, b in pairwise(slots)}) > 1 or len({alike[s] for s in slots}) > 1:
        return False
    slot = {place: number for number, place in enumerate(slots)}
    for sequence in sequences:
        mine = [slot[place] for place in sequence if place in slot]
        if any(b not in (a, (a + 1) % len(slots)) for a, b in pairwise(mine)):
            return False
    return True
