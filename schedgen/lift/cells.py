"""Shared memory in cells: each begins where a bulk copy does, and ends where the next does.

Bulk stores may begin inside of what a load fills: an epilogue that is given the memory of a
pipeline. Such memory has cells of both kinds. Those of its second use have keys of their own, so
that nothing is in two cells; that uses of the two are ordered is for `schedgen.lift.build`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from schedgen.conform.refusal import Refusal
from schedgen.lift.items import GRANULE, Item, Role, Touch

SECOND = 1 << 24
"""Added to the byte that a cell of a second use begins at: its key."""


def every(role: Role) -> list[Item]:
    """All items of a role."""
    return [item for tile in role.tiles for item in tile] + role.after


class Cells:
    """Keys of cells are the bytes that they begin at, plus `SECOND` for a second use.

    Attributes:
        starts: keys of first uses, ascending.
        second: keys of second uses, ascending.
        loaded: keys of cells that bulk loads fill.
    """

    def __init__(self, roles: Sequence[Role]) -> None:
        items = [item for role in roles for item in every(role)]
        copies = [item for item in items if item.kind == "copy"]
        self.loaded = {t.start for item in copies if item.write for t in item.touches}
        stored = {t.start for item in copies if not item.write for t in item.touches}
        inner = set(_inside(items, stored - self.loaded))
        self.starts = sorted(self.loaded | (stored - inner))
        again = {start for start in stored if self._start(start) in map(self._start, inner)}
        self.second = [SECOND + start for start in sorted(inner | again)]
        self._sizes: dict[int, int] = {}
        self._by_line: dict[int, set[int]] = defaultdict(set)
        for item in copies:
            self._by_line[item.instruction.line] |= {self.of(t, item) for t in item.touches}
        self._sized()
        self._last(items)

    # -- sizes ---------------------------------------------------------------------------------

    def _sized(self) -> None:
        gaps: dict[int, int] = {}
        for keys in (self.starts, self.second):
            gaps |= {a: b - a for a, b in pairwise(keys)}
        for starts in self._by_line.values():
            known = [gaps[start] for start in starts if start in gaps]
            for start in starts:
                size = min(known, default=0)
                old = self._sizes.get(start)
                self._sizes[start] = size if not old else min(size, old) if size else old

    def _last(self, items: Sequence[Item]) -> None:
        """The last cell ends nowhere: it is taken to be as large as the one before it, or to reach
        as far as threads touch it where there is none."""
        for keys in (self.starts, self.second):
            if not keys or self.size(keys[-1]):
                continue
            last = keys[-1]
            touched = [
                t.last for item in items for t in item.touches
                if t.owners and t.start >= last % SECOND and self._key(t, item) == last
            ]  # fmt: skip
            if touched:
                before = max(keys[:-1], default=None)
                end = max(touched) + 1 - last % SECOND
                self._sizes[last] = end if before is None else last - before

    def size(self, key: int) -> int:
        """Bytes of a cell; 0 if nobody knows."""
        return self._sizes.get(key, 0)

    def fix(self, key: int, size: int) -> None:
        """The bytes of a cell that nobody knew."""
        for keys in self._by_line.values():
            if key in keys:
                self._sizes |= dict.fromkeys(keys, size)

    # -- where something is --------------------------------------------------------------------

    def first_use(self, key: int) -> int:
        """The key of the cell of a first use that a cell begins in."""
        start = self._start(key % SECOND)
        assert start is not None
        return start

    def _start(self, byte: int) -> int | None:
        at = bisect_right(self.starts, byte) - 1
        return self.starts[at] if at >= 0 else None

    def _key(self, touch: Touch, item: Item) -> int | None:
        """Of the cell that an access begins in. Only threads and bulk stores access second uses."""
        first = self._start(touch.start)
        theirs = item.kind == "threads" or (item.kind == "copy" and not item.write)
        if theirs and self.second:
            at = bisect_right(self.second, SECOND + touch.start) - 1
            if at >= 0 and self.first_use(self.second[at]) == first:
                return self.second[at]
        return first

    def of(self, touch: Touch, item: Item) -> int:
        """The key of the cell that an access is in.

        Raises:
            Refusal: there is none, or it is in several.
        """
        key = self._key(touch, item)
        end = max(touch.last, touch.start)
        if (
            key is not None
            and self._key(replace(touch, start=end), item) == key
            and not 0 < self.size(key) <= end - key % SECOND
        ):
            return key
        raise Refusal("this accesses shared memory that no bulk copy has", item.instruction)

    def divide(self, roles: Sequence[Role]) -> None:
        """Gives each cell the part of an access that is in it: of products, and of threads."""
        for role in roles:
            for item in every(role):
                if item.kind in ("products", "threads"):
                    item.touches = tuple(p for t in item.touches for p in self._parts(t, item))

    def _parts(self, touch: Touch, item: Item) -> Iterator[Touch]:
        if self._key(touch, item) == self._key(replace(touch, start=touch.last), item):
            yield touch
            return
        if not touch.owners:
            cuts = [s for s in self.starts if touch.start < s <= touch.last]
            for begin, end in zip([touch.start, *cuts], [*cuts, touch.last + 1], strict=True):
                yield replace(touch, start=begin, last=end - 1)
            return
        parts: dict[int | None, set[tuple[int, int]]] = defaultdict(set)
        for granule, owner in touch.owners:
            key = self._key(replace(touch, start=granule * GRANULE), item)
            parts[key].add((granule, owner))
        for owners in parts.values():
            granules = [granule for granule, _ in owners]
            begin, end = min(granules) * GRANULE, (max(granules) + 1) * GRANULE
            yield Touch(begin, touch.write, frozenset(owners), end - 1)


def _inside(items: Sequence[Item], stored: set[int]) -> Iterator[int]:
    """Where bulk stores begin inside of what one group of products reads at once."""
    spans = {(t.start, t.last) for i in items if i.kind == "products" for t in i.touches}
    for start in stored:
        if any(begin < start <= last for begin, last in spans):
            yield start
