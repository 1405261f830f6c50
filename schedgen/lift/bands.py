"""Which parts of a cell the threads of each role touch, and how they divide them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schedgen.lift.cells import SECOND, every
from schedgen.lift.items import GRANULE, Role
from schedgen.lift.numbering import Numbering, RingKey


@dataclass(slots=True)
class Bands:
    """The parts of a cell that roles touch: of each role which part, and which of its threads touch
    what: "own" if each granule is one thread's, "" if it is one warp's, None if it is neither."""

    count: int
    band: dict[int, int]
    lanes: dict[int, str | None]


def bands_of(roles: Sequence[Role], numbering: Numbering) -> dict[RingKey, Bands]:
    """Of each ring of cells, the parts that roles touch."""
    owners: dict[RingKey, dict[int, dict[int, set[int]]]] = defaultdict(dict)
    for role in roles:
        for item in every(role):
            for touch in item.touches:
                ring = numbering.cell_ring(touch, item)
                mine = owners[ring].setdefault(role.number, defaultdict(set))
                start = numbering.shared.of(touch, item)
                for granule, owner in touch.owners:
                    mine[granule - start % SECOND // GRANULE].add(owner)
    return {ring: _banded(by_role) for ring, by_role in owners.items()}


def _banded(by_role: Mapping[int, Mapping[int, set[int]]]) -> Bands:
    found = Bands(1, {}, {})
    parts: list[set[int]] = []
    for role, granules in by_role.items():
        if not granules:
            continue
        mine = set(granules)
        meeting = [at for at, part in enumerate(parts) if part & mine]
        for at in meeting[1:]:
            parts[meeting[0]] |= parts[at]
            found.band = {r: meeting[0] if b == at else b for r, b in found.band.items()}
            parts[at] = set()
        if meeting:
            parts[meeting[0]] |= mine
        else:
            parts.append(mine)
        found.band[role] = meeting[0] if meeting else len(parts) - 1
        found.lanes[role] = _lanes(granules)
    found.count = max(1, len(parts))
    return found


def _lanes(granules: Mapping[int, set[int]]) -> str | None:
    if all(len(owners) == 1 and min(owners) >= 0 for owners in granules.values()):
        return "own"
    warps = ({o // 32 if o >= 0 else -1 - o for o in owners} for owners in granules.values())
    return "" if all(len(one) == 1 for one in warps) else None
