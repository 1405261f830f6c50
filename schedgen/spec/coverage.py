"""Whether each element of a tensor is stored once: by one output tile and by one operation. Of a
sum, whether the order matters in which its parts are added, and whether the spec allows any.

Tiles run side by side, so of an element that two of them store nobody knows which came last; the
same goes for two stores of one tile, which are bulk copies. A gap would be left undefined. And a
tensor that is stored cannot be loaded as well: another tile may have written it by then, or not.

A store that adds (``reduce: add``) is atomic for each element. What no tile adds to keeps its
value, and of an element that several add to the sum is known, but not its last bits: float32 sums
depend on their order, which is that in which copies happen to arrive. Such stores have to be
``unordered``, or in turns (`schedgen.spec.taking_turns`).

Tiles of a small grid are laid out and what they store is counted. Along axes beside the rows and
columns of tiles, which no condition knows, a store has to depend on the tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import gcd, lcm

import numpy as np

from schedgen.expressions import evaluate, references
from schedgen.extents import single_extents
from schedgen.kernel import LOADS, Kernel, Kind, Operation, Phase
from schedgen.spec.parameters import literal
from schedgen.spec.taking_turns import turn_mistake
from schedgen.spec.values import Value
from schedgen.sums import adds
from schedgen.tensors import Place

_PERIODS = 2
"""Of the pattern that blocks of rows and of columns make together; also iterations."""
_MOST_TILES = 1 << 14


@dataclass(frozen=True, slots=True)
class StoreMistake:
    """What is wrong with the stores of ``tensor``; ``operation`` is one of them, or ''."""

    rule: str
    tensor: str
    operation: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class _Stored:
    """A box of a tensor that an operation stores for a tile, in an iteration of the main loop."""

    operation: Operation
    tile: tuple[int, int]
    iteration: int
    box: tuple[tuple[int, int], ...]

    def __str__(self) -> str:
        where = f"{self.operation.name} of tile ({self.tile[0]}, {self.tile[1]})"
        looped = self.operation.phase is Phase.BODY
        return f"{where} in iteration {self.iteration}" if looped else where


def coverage_mistakes(kernel: Kernel) -> list[StoreMistake]:
    """Tensors of which some element is not stored once, or that are loaded as well."""
    found: list[StoreMistake] = []
    stores = [o for o in kernel.operations if o.kind is Kind.STORE and not o.boundary]
    for tensor in dict.fromkeys(o.tensor for o in stores if o.tensor is not None):
        mine = [o for o in stores if o.tensor == tensor]
        wrong = _loaded(kernel, tensor, mine) or _mixed(tensor, mine)
        turns = any(store.turns for store in mine)
        if wrong is None and turns:
            wrong = _in_turns(kernel, tensor, mine)
        elif wrong is None and not all(store.unordered for store in mine):
            wrong = _apart(kernel, tensor, mine)
            if wrong is None and all(store.places for store in mine):
                wrong = _Coverage(kernel, tensor, mine).mistake()
            if wrong is not None and adds(mine[0]):
                wrong = _in_order(wrong)
        found += [wrong] if wrong else []
    return found


def _mixed(tensor: str, stores: Sequence[Operation]) -> StoreMistake | None:
    """A tensor is either written or added to."""
    if len({adds(store) for store in stores}) == 1:
        return None
    writes, other = (next(s for s in stores if adds(s) is one) for one in (False, True))
    message = (
        f"'{tensor}' is written by {writes.base} and added to by {other.base}: what is added "
        "before it is written is lost"
    )
    fix = "add to what the caller passes: zeros, or a first part"
    return StoreMistake("bad-coverage", tensor, other.base, message, fix)


def _in_turns(kernel: Kernel, tensor: str, stores: Sequence[Operation]) -> StoreMistake | None:
    """Output tiles that could not add one after the other."""
    found = turn_mistake(kernel, stores)
    if found is None:
        return None
    return StoreMistake("bad-turns", tensor, found.operation, found.message, found.fix)


def _in_order(found: StoreMistake) -> StoreMistake:
    """Parts of a sum that meet, and nobody said in which order."""
    message = f"{found.message}; float32 sums depend on the order, which is that of arrival here"
    fix = (
        "say 'unordered: true' if results may have other bits in each run, 'ordered' with an array "
        "of turns if not, or store the parts along an extent of their own"
    )
    return StoreMistake("unordered-sum", found.tensor, found.operation, message, fix)


def _loaded(kernel: Kernel, tensor: str, stores: Sequence[Operation]) -> StoreMistake | None:
    """A tensor that is stored is not an operand."""
    loads = [o for o in kernel.operations if o.kind in LOADS and o.tensor == tensor]
    if not loads:
        return None
    message = (
        f"'{tensor}' is stored by {stores[0].base} and loaded by {loads[0].base}: whether a tile "
        "is loaded before or after it is stored is not defined"
    )
    fix = "load it from an argument of its own"
    return StoreMistake("stored-operand", tensor, loads[0].base, message, fix)


def _apart(kernel: Kernel, tensor: str, stores: Sequence[Operation]) -> StoreMistake | None:
    """Output tiles that differ in another coordinate than row and column store other elements."""
    several = {a.extent for a in kernel.grid} - single_extents(kernel) - {*kernel.tile_extents}
    for store in stores if all(store.places for store in stores) else ():
        own = {place.along for place in store.places if not place.grouped}
        for extent in (axis.extent for axis in kernel.grid if axis.extent in several - own):
            group = next((p for p in store.places if p.grouped and p.along == extent), None)
            what = "add to" if adds(store) else "store"
            message = f"all output tiles along '{extent}' {what} the same elements of '{tensor}'"
            fix = f"give '{tensor}' the extent '{extent}'"
            if group is not None:
                message = (
                    f"neighbouring output tiles along '{extent}' {what} the same element along "
                    f"'{group.extent}' of '{tensor}'"
                )
                fix = f"give '{tensor}' the extent '{extent}' instead of '{group.extent}'"
            else:
                fix += f", name '{extent}' in 'one_tile' if a single tile covers it, or say in "
                fix += "'counted' which output tiles it counts"
            return StoreMistake("bad-coverage", tensor, store.base, message, fix)
    return None


class _Coverage:
    """A few output tiles: a square as large as the pattern needs to repeat where not all tiles do
    the same, else two along each axis.
    """

    def __init__(self, kernel: Kernel, tensor: str, stores: Sequence[Operation]) -> None:
        self.kernel, self.tensor, self.stores = kernel, tensor, stores
        self.sum = adds(stores[0])
        self.whole = not self.sum and next(a.whole for a in kernel.arguments if a.name == tensor)
        blocks = {axis.extent: axis.block for axis in kernel.grid}
        self.blocks = [blocks.get(extent, 0) for extent in kernel.tile_extents]
        single = single_extents(kernel)
        self.several = [
            bool(block) and extent not in single
            for extent, block in zip(kernel.tile_extents, self.blocks, strict=True)
        ]
        self.size = _PERIODS * lcm(*(block or 1 for block in self.blocks))
        triangle = kernel.tiles == "lower_triangle"
        differ = triangle or any(s.when is not None or s.transposed for s in stores)
        self.square = differ and all(self.several)

    def mistake(self) -> StoreMistake | None:
        """An element that is not stored once."""
        if len(self._tiles()) > _MOST_TILES:
            return None
        every = list(self._stored())
        if not every:  # no tile is computed, or no store has a 'when' that holds
            return self._describe([0 for _ in self._dimensions()], every) if self.whole else None
        step = gcd(*(edge for stored in every for side in stored.box for edge in side), self.size)
        ends = [max(b[axis][1] for b in (s.box for s in every)) for axis in self._dimensions()]
        if self.square:
            ends = [self._size(axis) or end for axis, end in enumerate(ends)]
        counts = np.zeros([end // step for end in ends], int)
        for stored in every:
            counts[tuple(slice(begin // step, end // step) for begin, end in stored.box)] += 1
        wrong = np.argwhere(counts != 1 if self.whole else counts > 1)
        if not len(wrong):
            return None
        return self._describe([int(n) * step for n in wrong[0]], every)

    def _describe(self, at: list[int], every: Sequence[_Stored]) -> StoreMistake:
        element = f"element ({', '.join(map(str, at))}) of '{self.tensor}'"
        here = [
            stored
            for stored in every
            if all(b <= n < e for n, (b, e) in zip(at, stored.box, strict=True))
        ]
        if not here:
            message, fix = f"{element} is never stored", "change 'when' of its stores, or the tiles"
            return StoreMistake("bad-coverage", self.tensor, "", message, fix)
        what = "added to" if self.sum else "stored"
        message = f"{element} is {what} {len(here)} times: by {here[0]} and by {here[1]}"
        fix = "store each element once: change 'when', or store to another argument"
        if here[0].tile != here[1].tile and here[0].operation.base == here[1].operation.base:
            columns = here[0].tile[0] == here[1].tile[0]
            extent = self.kernel.tile_extents[columns]
            name = "tile_column" if columns else "tile_row"
            fix = (
                f"name '{extent}' in 'one_tile' if a single tile covers it, give '{self.tensor}' "
                f"an extent for these tiles ('counted' of 'loops'), or store one of them with "
                f"'when: {name} == 0'"
            )
        return StoreMistake("bad-coverage", self.tensor, here[1].operation.base, message, fix)

    # -- tiles and boxes -----------------------------------------------------------------------

    def _tiles(self) -> list[tuple[int, int]]:
        counts = [
            (self.size // block if self.square else _PERIODS) if several else 1
            for block, several in zip(self.blocks, self.several, strict=True)
        ]
        tiles = list(product(range(counts[0]), range(counts[1])))
        triangle = self.kernel.tiles == "lower_triangle"
        return [t for t in tiles if self._computed(t)] if triangle else tiles

    def _computed(self, tile: tuple[int, int]) -> bool:
        """Whether a tile reaches to the diagonal or below it."""
        return (tile[0] + 1) * self.blocks[0] > tile[1] * self.blocks[1]

    @property
    def _iterations(self) -> int:
        """Of the main loop, as far as they are looked at."""
        count = self.kernel.trip_count
        if count is None or references(count):
            return _PERIODS
        return min(_PERIODS, int(evaluate(count, {})))

    def _stored(self) -> Iterator[_Stored]:
        for tile in self._tiles():
            values = self._values(tile)
            for store in self.stores:
                if store.when is not None and not evaluate(store.when, values):
                    continue
                for iteration in range(self._iterations if store.phase is Phase.BODY else 1):
                    yield _Stored(store, tile, iteration, self._box(store, tile, iteration))

    def _box(
        self, store: Operation, tile: tuple[int, int], iteration: int
    ) -> tuple[tuple[int, int], ...]:
        at = dict(zip(self.kernel.tile_extents, tile, strict=True))
        found: list[tuple[int, int]] = []
        for axis in self._dimensions_of(store):
            place = store.places[axis]
            start = place.block * at.get(place.along, 0) + place.step * iteration + place.offset
            found.append((start, start + place.size))
        return tuple(found)

    def _dimensions_of(self, store: Operation) -> list[int]:
        """Axes of the tensor that differ between these tiles, or that a tile lies along."""
        extents = {*self.kernel.tile_extents}

        def counts(place: Place) -> bool:
            return bool(place.side or place.step or not place.along or place.along in extents)

        kept = [any(counts(s.places[n]) for s in self.stores) for n in range(len(store.places))]
        return [n for n, keep in enumerate(kept) if keep]

    def _dimensions(self) -> range:
        return range(len(self._dimensions_of(self.stores[0])))

    def _size(self, dimension: int) -> int:
        """Of the tensor along an axis that output tiles are cut along or count them; 0: neither."""
        axis = self._dimensions_of(self.stores[0])[dimension]
        blocks = dict(zip(self.kernel.tile_extents, self.blocks, strict=True))
        places = [store.places[axis] for store in self.stores]
        cut = [place for place in places if place.along in blocks]
        if not cut:
            return 0
        return self.size // blocks[cut[0].along] if cut[0].counts else self.size

    def _values(self, tile: tuple[int, int]) -> dict[str, Value]:
        extents = {extent for argument in self.kernel.arguments for extent in argument.shape}
        values: dict[str, Value] = dict.fromkeys(sorted(extents), Fraction(self.size))
        values |= {name: literal(text) for name, text in self.kernel.parameters}
        return values | {"tile_row": Fraction(tile[0]), "tile_column": Fraction(tile[1])}
