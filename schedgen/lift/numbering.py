"""Running numbers of barriers and of what shared memory holds, from traces of two trip counts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from schedgen.conform.refusal import Refusal
from schedgen.lift.cells import SECOND, Cells, every
from schedgen.lift.items import THREADS, Item, Role, Touch, Word
from schedgen.lift.rings import Place, rings
from schedgen.lift.rolling import Accessed, Counted, Sign

RingKey = tuple[str, int]
"""Kind of its words and its number among these, or ("cell", number)."""


@dataclass
class Numbering:
    """Rings of barriers and cells, and how their numbers grow.

    Attributes:
        words, cells: the place of each.
        counted: of each ring.
        again: of a ring of cells of a second use: that which has their memory first.
    """

    shared: Cells
    words: dict[Word, Place] = field(default_factory=dict[Word, Place])
    cells: dict[int, Place] = field(default_factory=dict[int, Place])
    counted: dict[RingKey, Counted] = field(default_factory=dict[RingKey, Counted])
    again: dict[RingKey, RingKey] = field(default_factory=dict[RingKey, RingKey])

    def ring_of(self, word: Word) -> RingKey:
        return word[0], self.words[word].ring

    def cell_ring(self, touch: Touch, item: Item) -> RingKey:
        return "cell", self.cells[self.shared.of(touch, item)].ring

    # -- numbers -------------------------------------------------------------------------------

    def number(self, item: Item) -> int:
        """Of the phase that an item waits for or provides."""
        assert item.word is not None
        assert item.number is not None
        if item.word[0] == "copies":
            return item.number
        return self.words[item.word].number(item.number)

    def version(self, item: Item, touch: Touch, version: int) -> int:
        place = self.cells[self.shared.of(touch, item)]
        return place.number(version + place.late)

    def touched(self, item: Item) -> list[tuple[RingKey, bool, int]]:
        """Ring, whether it writes, and running number of all that an item accesses, each once."""
        found = {
            (self.cell_ring(touch, item), touch.write, self.version(item, touch, version))
            for touch, version in zip(item.touches, item.versions, strict=True)
        }
        return sorted(found)

    def sign(self, item: Item, before: int, tile: int) -> Sign:
        """An item less what earlier tiles have had, of ``before`` iterations together."""
        shape, numbered = self._parts(item)
        numbers = tuple(
            number - self.counted[ring].scale * (tile if self.counted[ring].per_tile else before)
            for ring, number in numbered
        )
        return Sign(shape, tuple(self.counted[ring] for ring, _ in numbered), numbers)

    def _parts(self, item: Item) -> tuple[tuple[object, ...], list[tuple[RingKey, int]]]:
        if item.kind == "fence":
            return ("fence", item.fence), []
        if item.kind == "group":
            assert item.target is not None
            shape, numbered = self._parts(item.target)
            return ("group", *shape), numbered
        numbered: list[tuple[RingKey, int]] = []
        shape: tuple[object, ...] = (item.kind,)
        if item.word is not None:
            ring = self.ring_of(item.word)
            numbered.append((ring, self.number(item)))
            shape += (ring, item.count, item.bytes)
        for ring, write, number in self.touched(item):
            numbered.append((ring, number))
            shape += (Accessed(ring, write),)
        return shape, numbered


_LEFT_OUT = 4
"""Turns of a ring that the only tile of a block may leave out."""
Uses = Callable[[Item], Iterable[tuple[str, int]]]
"""How an item uses which places."""


def numbered(
    roles: list[Role],
    counts: Mapping[Word, int],
    cells: Cells,
    trips: int,
    more: list[Role],
    *,
    tiled: bool = True,
) -> Numbering:
    """``roles`` have done ``trips`` iterations in each tile, ``more`` one more.

    Where blocks have one tile, not ``tiled``, it may leave out a few turns of a ring.

    Raises:
        Refusal: something is used neither as often as there are iterations nor as tiles.
    """
    found = Numbering(cells)
    words = {item.word for role in roles for item in every(role) if item.word is not None}
    for kind in sorted({word[0] for word in words}):
        mine = {word[1]: Place(word[1], 0, 1) for word in words if word[0] == kind}
        if kind == "mbarrier":
            alike = {at: (counts[kind, at], users) for at, users in _users(roles, _words).items()}
            mine = rings(mine, alike, list(_orders(roles, _words)))
        found.words |= {(kind, at): place for at, place in mine.items()}

    def touched(item: Item) -> Iterable[tuple[str, int]]:
        return dict.fromkeys((f"{item.kind} {t.write}", cells.of(t, item)) for t in item.touches)

    alike = {at: (cells.size(at), users) for at, users in _users(roles, touched).items()}
    found.cells = rings(alike, alike, list(_orders(roles, touched)))
    for key in cells.second:
        first_use = "cell", found.cells[cells.first_use(key)].ring
        found.again["cell", found.cells[key].ring] = first_use
    for ring, (first, second) in _growth(found, roles, more).items():
        left_out = 0 if tiled else (second - first) * trips - first
        whole = first + left_out if 0 <= left_out <= _LEFT_OUT else first
        found.counted[ring] = _counted(ring, whole, second + whole - first, trips, found)
    return found


def _words(item: Item) -> Iterable[tuple[str, int]]:
    mine = item.word is not None and item.word[0] == "mbarrier"
    return [(item.kind, item.word[1])] if item.word is not None and mine else []


def _users(roles: Iterable[Role], uses: Uses) -> dict[int, frozenset[tuple[int, str]]]:
    """Place -> which roles use it, and how."""
    found: dict[int, set[tuple[int, str]]] = defaultdict(set)
    for role in roles:
        for item in every(role):
            for kind, at in uses(item):
                found[at].add((role.number, kind))
    return {at: frozenset(users) for at, users in found.items()}


def _tiles(count: int) -> list[list[int]]:
    return [[] for _ in range(count)]


def _orders(roles: Iterable[Role], uses: Uses) -> Iterator[list[list[int]]]:
    """The places that a role comes to, tile by tile, one use after the other."""
    for role in roles:
        found: dict[str, list[list[int]]] = defaultdict(partial(_tiles, len(role.tiles)))
        for number, tile in enumerate(role.tiles):
            for item in tile:
                for kind, at in uses(item):
                    found[kind][number].append(at)
        yield from found.values()


# -- how numbers grow --------------------------------------------------------------------------


def _growth(
    numbering: Numbering, roles: list[Role], more: list[Role]
) -> dict[RingKey, tuple[int, int]]:
    """Ring -> numbers that a tile adds, with the fewer and the more iterations."""
    first, second = _each_tile(numbering, roles), _each_tile(numbering, more)
    return {ring: (first[ring], second[ring]) for ring in first}


def _each_tile(numbering: Numbering, roles: list[Role]) -> dict[RingKey, int]:
    last: dict[RingKey, dict[int, int]] = defaultdict(dict)
    for role in roles:
        for tile, items in enumerate(role.tiles):
            for item in items:
                for ring, number in _provided(numbering, item):
                    last[ring][tile] = max(number, last[ring].get(tile, -1))
    return {
        ring: (tiles[1] - tiles[0]) if 1 in tiles and 0 in tiles else tiles[max(tiles)] + 1
        for ring, tiles in last.items()
    }


def _provided(numbering: Numbering, item: Item) -> Iterator[tuple[RingKey, int]]:
    if item.word is not None and item.kind in ("arrive", "copy", "wait"):
        yield numbering.ring_of(item.word), numbering.number(item)
    for ring, _, number in numbering.touched(item):
        yield ring, number


def _counted(ring: RingKey, first: int, second: int, trips: int, numbering: Numbering) -> Counted:
    scale = second - first
    if not scale:
        return Counted(first, True)
    if scale < 0 or first != scale * trips:
        raise Refusal(
            f"{ring_text(ring, numbering)} is used {first} times in a tile of {trips} iterations "
            f"and {second} times in one of {trips + 1}, which is no multiple of them"
        )
    return Counted(scale, False)


def ring_text(ring: RingKey, numbering: Numbering) -> str:
    """What a ring is called: by the byte of shared memory that it begins at."""
    kind, number = ring
    if kind == "cell":
        mine = sorted(at for at, place in numbering.cells.items() if place.ring == number)
        return f"shared[{mine[0] % SECOND}]{' again' if mine[0] >= SECOND else ''}"
    mine = sorted(at for (k, at), p in numbering.words.items() if k == kind and p.ring == number)
    if kind == "bar":
        return f"named barrier {mine[0] // THREADS} of {mine[0] % THREADS}"
    return f"mbarrier {mine[0]}" if kind == "mbarrier" else f"bulk stores of role {mine[0]}"
