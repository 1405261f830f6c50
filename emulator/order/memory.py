"""The shadows of all memories of a launch, and where in them an access is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.order.footprint import Footprint, Ranges
from schedgen.emulator.order.places import Place, Span, place
from schedgen.emulator.order.shadow import UNIT, DenseShadow, Layer, Shadow, pages_of
from schedgen.emulator.order.sparse import SparseShadow
from schedgen.emulator.order.tensor_cells import TENSOR_CELLS, TENSOR_UNIT, outside, tensor_place
from schedgen.emulator.order.tracker import Cells, Space

# Python 3.11 takes as long to find a member in its enumeration as for several calls.
_SHARED, _TENSOR, _GLOBAL = Space.SHARED, Space.TENSOR, Space.GLOBAL

SHARED_BYTES = 228 * 1024
"""Shared memory of an SM of sm_90 and sm_100, CUDA C Programming Guide, compute capabilities."""
_CHUNK = 20  # log2 of the bytes of global memory that share a shadow
_CHUNK_BYTES = 1 << _CHUNK
_KEPT = 4096  # places of arrays that come again


@lru_cache(maxsize=_KEPT)
def _span(start: int, stop: int) -> tuple[Place, int]:
    """Consecutive cells, and the pages that they are in."""
    span = Span(start, stop)
    return span, pages_of(span)


class Part(NamedTuple):
    """What an access touches in one shadow. ``base``: the number of the shadow's first cell."""

    shadow: Shadow
    place: Place
    pages: int
    base: int
    tensor: bool = False

    def overlap(self, layer: Layer, number: int) -> NDArray[np.int64]:
        """The cells, as `tracker.Cells` has them, in which an earlier access left its number."""
        found = layer.overlap(self.place, number)
        return outside(found) if self.tensor else found + self.base


class Memory:
    """Shadows, made when first touched."""

    def __init__(self) -> None:
        self._shared: dict[int, DenseShadow] = {}
        self._tensor: dict[int, DenseShadow] = {}
        self._global: dict[int, SparseShadow] = {}
        self._known: dict[tuple[Space, int, int, int], tuple[Sequence[Part], object]] = {}
        """Where accesses were that may come again."""

    @property
    def shared(self) -> Mapping[int, DenseShadow]:
        """Shared memories by CTA."""
        return self._shared

    def footprint(self) -> Footprint:
        """Which bytes of global memory were accessed. Reads in front of a write are not kept: the
        write says as much."""
        return Footprint(self._accessed(write=False), self._accessed(write=True))

    def where(self, layer: Layer, number: int) -> NDArray[np.int64]:
        """The bytes of a shared memory that an access touched."""
        return layer.overlap(Span(0, SHARED_BYTES), number)

    def parts(self, cells: Cells) -> Sequence[Part]:
        """Where an access is; nothing where it has no cells."""
        space, cta, index, width = cells
        if isinstance(index, slice):
            if index.stop <= index.start:
                return ()
            if space is _GLOBAL:
                return self._parts(cells)
            key = (space, cta, index.start, index.stop)
        else:
            key = (space, cta, id(index), -width)
        known = self._known.get(key)
        if known is None:
            if not isinstance(index, slice):
                if not index.size:
                    return ()
                if index.flags.writeable:
                    return self._parts(cells)
            if len(self._known) >= _KEPT:
                self._known.clear()
            known = self._known[key] = self._parts(cells), index  # which keeps its identity
        return known[0]

    def _parts(self, cells: Cells) -> Sequence[Part]:
        space, cta, index, width = cells
        if space is _GLOBAL:
            return self._global_parts(index, width)
        tensor = space is _TENSOR
        shadows = self._tensor if tensor else self._shared
        shadow = shadows.get(cta)
        if shadow is None:
            # Memories of one launch are mostly used alike.
            unit = min((s.unit for s in shadows.values()), default=TENSOR_UNIT if tensor else UNIT)
            size = TENSOR_CELLS if tensor else SHARED_BYTES
            shadow = shadows[cta] = DenseShadow(size, unit)
        where, pages = _place(index, width, space)
        return (Part(shadow, where, pages, 0, tensor),)

    def _accessed(self, *, write: bool) -> Ranges:
        starts, stops = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for chunk, shadow in self._global.items():
            for first, behind in shadow.accessed(write=write):
                starts.append(first + (chunk << _CHUNK))
                stops.append(behind + (chunk << _CHUNK))
        return Ranges.of(np.concatenate(starts), np.concatenate(stops))

    def _global_parts(self, index: NDArray[np.int64] | slice, width: int) -> Sequence[Part]:
        if isinstance(index, slice):
            return self._global_span(index.start, index.stop)
        if index.flags.writeable:
            return self._global_rows(index, width)
        known = _chunks.get((id(index), width))
        if known is None:
            if len(_chunks) >= _KEPT:
                _chunks.clear()
            parts = self._global_rows(index, width)
            where = [(part.base >> _CHUNK, part.place, part.pages) for part in parts]
            _chunks[id(index), width] = index, where
            return parts
        return [
            Part(self._chunk(chunk), where, pages, chunk << _CHUNK)
            for chunk, where, pages in known[1]
        ]

    def _global_rows(self, index: NDArray[np.int64], width: int) -> list[Part]:
        low, high = int(index.min()), int(index.max()) + width
        if (chunk := low >> _CHUNK) == (high - 1) >> _CHUNK:
            return [self._global_part(chunk, index, width)]
        split = index[(index >> _CHUNK) != ((index + width - 1) >> _CHUNK)].tolist()
        parts = [part for start in split for part in self._global_span(start, start + width)]
        whole = index[(index >> _CHUNK) == ((index + width - 1) >> _CHUNK)]
        chunks = whole >> _CHUNK
        for number in sorted(set(chunks.tolist())):
            parts.append(self._global_part(number, whole[chunks == number], width))
        return parts

    def _global_span(self, start: int, stop: int) -> list[Part]:
        parts: list[Part] = []
        while start < stop:
            chunk = start >> _CHUNK
            base = chunk << _CHUNK
            end = min(stop, base + _CHUNK_BYTES)
            where, pages = _span(start - base, end - base)
            parts.append(Part(self._chunk(chunk), where, pages, base))
            start = end
        return parts

    def _global_part(self, chunk: int, index: NDArray[np.int64], width: int) -> Part:
        base = chunk << _CHUNK
        where = place(index - base, width, _CHUNK_BYTES)
        return Part(self._chunk(chunk), where, pages_of(where), base)

    def _chunk(self, number: int) -> SparseShadow:
        shadow = self._global.get(number)
        if shadow is None:
            shadow = self._global[number] = SparseShadow(_CHUNK_BYTES)
        return shadow


_chunks: dict[tuple[int, int], tuple[object, Sequence[tuple[int, Place, int]]]] = {}
"""Of arrays of global addresses that come again: numbers of shadows, and where in them they are."""


def _where(index: NDArray[np.int64] | slice, width: int, space: Space) -> Place:
    """Where an access is in the shadow of a shared or a tensor memory."""
    if space is _TENSOR:
        return tensor_place(index, width)
    return place(index, width, SHARED_BYTES)


_places: dict[tuple[int, int, Space], tuple[object, Place, int]] = {}
"""Of arrays that come again, in this launch or another one; they keep their identities."""


def _place(index: NDArray[np.int64] | slice, width: int, space: Space) -> tuple[Place, int]:
    """Where an access is in such a shadow, and the pages that it is in."""
    if isinstance(index, slice) and space is _SHARED:
        return _span(index.start, index.stop)
    if isinstance(index, slice) or index.flags.writeable:
        where = _where(index, width, space)
        return where, pages_of(where)
    key = id(index), width, space
    known = _places.get(key)
    if known is None:
        if len(_places) >= _KEPT:
            _places.clear()
        where = _where(index, width, space)
        known = _places[key] = index, where, pages_of(where)
    return known[1], known[2]
