"""Which barriers, and which cells of shared memory, are slots of one ring.

Slots follow each other in memory at equal distances, and each role goes through them in turn. A
slot may be left out at first: a buffer that joins a shared ring some iterations late.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

Tiles = Sequence[Sequence[int]]
"""Places in the order in which a role comes to them, tile by tile."""
_ENDS = 8
"""Uses at both ends of a tile where the order may be another one."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in its ring something is; ``late``: its first turn is left out."""

    ring: int
    slot: int
    slots: int
    late: bool = False

    def number(self, phase: int) -> int:
        """The running number of its ``phase``-th turn."""
        return phase * self.slots + self.slot


def rings(
    places: Iterable[int], alike: Mapping[int, Hashable], sequences: Sequence[Tiles]
) -> dict[int, Place]:
    """The ring of each place: the longest ones that there are, from the lowest place on.

    Args:
        places: addresses.
        alike: what slots of one ring have in common.
        sequences: for each role and use.
    """
    ordered = sorted(places)
    found: dict[int, Place] = {}
    at = number = 0
    while at < len(ordered):
        end, late = at + 1, frozenset[int]()
        for candidate in range(len(ordered), at + 1, -1):
            left_out = _left_out(ordered[at:candidate], alike, sequences)
            if left_out is not None:
                end, late = candidate, left_out
                break
        for slot, place in enumerate(ordered[at:end]):
            found[place] = Place(number, slot, end - at, slot in late)
        at, number = end, number + 1
    return found


def _left_out(
    slots: Sequence[int], alike: Mapping[int, Hashable], sequences: Sequence[Tiles]
) -> frozenset[int] | None:
    """Slots of a ring that are left out at first; None if these are no ring."""
    if len({b - a for a, b in pairwise(slots)}) > 1 or len({alike[s] for s in slots}) > 1:
        return None
    slot = {place: number for number, place in enumerate(slots)}
    late: set[int] = set()
    for sequence in sequences:
        mine = [[slot[place] for place in tile if place in slot] for tile in sequence]
        skipped = _skipped([one for tile in mine for one in tile], len(slots))
        if skipped is None:
            skipped = _inside(mine, len(slots))
        if skipped is None:
            return None
        late |= skipped
    return frozenset(late)


def _inside(tiles: Sequence[Sequence[int]], slots: int) -> set[int] | None:
    """The same where it is so only inside of tiles: a role may come to what a late buffer has of
    one tile behind, or in front of, the first of the next."""
    if not tiles or min(map(len, tiles)) < 2 * (slots + _ENDS):
        return None
    if any(_skipped(tile[_ENDS:-_ENDS], slots) != set() for tile in tiles):
        return None
    return _skipped(tiles[0][:-_ENDS], slots)


def _skipped(sequence: Sequence[int], slots: int) -> set[int] | None:
    """What is left out of the first round; None if it goes through slots in another order."""
    late: set[int] = set()
    seen: set[int] = set()
    for a, b in pairwise(sequence):
        seen.add(a)
        if b in (a, (a + 1) % slots):
            continue
        between = set(range(a + 1, b))
        if b < a or between & seen:
            return None
        late |= between
    return late
