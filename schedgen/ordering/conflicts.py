"""Which accesses must happen in which order, read off a program's storage.

Two accesses conflict if they share bytes of a slot and one of them writes. Within a tile they are
meant to happen in the order of the versions of the slot, across tiles in the order of the tiles.
Later versions follow by transitivity: every version is written, and that write is in an order of
its own with what came before.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import product

from schedgen.ordering.steps import section_of
from schedgen.program.model import Program, Run
from schedgen.program.operations import Access


class Kind(Enum):
    """Where the later access is. ``distance`` counts iterations, or tiles for TILES.

    SAME    both in the loop, later one ``distance`` iterations after, in the same tile
    LATER   both in the loop, at least ``distance`` iterations after, in a later tile
    OUTER   in the same tile, at least one of them once per tile
    TILES   ``distance`` tiles after
    """

    SAME = auto()
    LATER = auto()
    OUTER = auto()
    TILES = auto()


@dataclass(frozen=True, slots=True)
class Conflict:
    """``before`` must be complete when ``after`` begins."""

    before: str
    after: str
    first: Access
    second: Access
    kind: Kind
    distance: int

    @property
    def text(self) -> str:
        """``PV[0] reads P[0], then QK[1] writes S[1], 1 iteration later``."""
        verbs = ["writes" if access.write else "reads" for access in (self.first, self.second)]
        when = {
            Kind.SAME: f"{_count(self.distance, 'iteration')} later in the same tile",
            Kind.LATER: f"{_count(self.distance, 'iteration')} later in another tile",
            Kind.OUTER: "later in the same tile",
            Kind.TILES: f"{_count(self.distance, 'tile')} later",
        }[self.kind]
        return (
            f"{self.before} {verbs[0]} {self.first.buffer}, "
            f"then {self.after} {verbs[1]} {self.second.buffer}, {when}"
        )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


LOOP = 2
PLACES = {"before": 0, "first": 1, "loop": LOOP, "last": 3, "after": 4}


def places(program: Program) -> dict[str, int]:
    """Where in a tile each operation is meant to be. In the loop, what runs in the first iteration
    alone comes before what runs in each, and what runs in the last alone behind that.
    """
    found: dict[str, int] = {}
    for role in program.roles:
        listed = {"before": role.before, "loop": role.loop, "after": role.after}
        for section, steps in listed.items():
            for step in steps:
                if isinstance(step.action, Run):
                    found[step.action.operation] = PLACES[section_of(section, step)]
    return found


def conflicts(program: Program) -> Iterator[Conflict]:
    """All orders that ``program`` has to keep, the nearest instances of each pair."""
    place = places(program)
    accesses = [
        (operation.name, access)
        for operation in program.operations
        for access in operation.accesses
        if operation.name in place
    ]
    by_allocation: dict[str, list[tuple[str, Access]]] = {}
    for name, access in accesses:
        by_allocation.setdefault(access.allocation, []).append((name, access))
    for allocation, uses in by_allocation.items():
        slots = program.allocation[allocation].slots
        for (a, first), (b, second) in product(uses, uses):
            if first.overlaps(second) and (first.write or second.write):
                yield from _pair(a, b, first, second, place[a], place[b], slots)


def _pair(
    a: str, b: str, first: Access, second: Access, where_a: int, where_b: int, slots: int
) -> Iterator[Conflict]:
    """The orders a -> b; the ones b -> a come when the pair is looked at the other way round."""
    if first.version.per_tile or second.version.per_tile:
        yield from _pair_of_tiles(a, b, first, second, where_a, where_b, slots)
        return
    scale = first.version.scale
    # a uses version scale * c + x, b the version scale * (c + d) + y.
    lead = first.version.offset - second.version.offset
    behind, rest = divmod(lead, scale)
    if not rest and first.order < second.order:
        yield Conflict(a, b, first, second, Kind.SAME, behind)
    for refill in range(1, scale + 1):
        distance, rest = divmod(lead + refill * slots, scale)
        if not rest:
            yield Conflict(a, b, first, second, Kind.SAME, distance)
            break
    for distance in range(1, scale * slots + 1):
        gap = scale * distance + second.version.offset - first.version.offset
        if gap % slots == 0:
            yield Conflict(a, b, first, second, Kind.LATER, distance)
            break


def _pair_of_tiles(
    a: str, b: str, first: Access, second: Access, where_a: int, where_b: int, slots: int
) -> Iterator[Conflict]:
    """Orders of storage that keeps its slot for a tile, or is filled several times per tile."""
    scale, gap = first.version.scale, second.version.offset - first.version.offset
    if gap % slots == 0:
        if where_a == where_b == LOOP:
            if first.order < second.order:
                yield Conflict(a, b, first, second, Kind.SAME, 0)
            yield Conflict(a, b, first, second, Kind.SAME, 1)
        elif (-gap, where_a, first.order) < (0, where_b, second.order):
            yield Conflict(a, b, first, second, Kind.OUTER, 0)
    tiles = next((k for k in range(1, slots + 1) if (scale * k + gap) % slots == 0), None)
    if tiles is not None:
        yield Conflict(a, b, first, second, Kind.TILES, tiles)
