"""Places and shadows against sets of cells."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numpy.typing import NDArray

from schedgen.emulator.order.memory import Memory
from schedgen.emulator.order.places import Blocks, Grid, Place, Span, place
from schedgen.emulator.order.shadow import EVERY, DenseShadow, Key, Manner, Shadow, pages_of
from schedgen.emulator.order.sparse import SparseShadow
from schedgen.emulator.order.tracker import Cells, Space

SIZE = 1 << 16

PATTERNS = [
    ([5], 4, Span),
    (range(0, 128, 4), 4, Span),
    ([64] * 32, 16, Span),
    (range(1024, 1024 + 32 * 512, 512), 64, Grid),
    (range(4096, 4096 + 32 * 128, 128), 128, Span),
    (range(100, 100 + 32 * 128, 128), 64, Blocks),  # it goes over the end of a row
    ([0, 16, 48, 16], 16, Blocks),
    ([0, 24, 72], 8, Blocks),
    ([96, 0, 160], 128, Blocks),
    ([3, 1, 2], 1, Span),
    ([3, 1, 4], 1, Blocks),
    (range(31, -1, -1), 1, Span),
    ([*range(64, 128, 4), *range(0, 64, 4)], 4, Span),
    (np.random.default_rng(0).permutation(2048) + 512, 1, Span),
    ([*range(2000), 0, 1], 1, Blocks),
]


@pytest.mark.parametrize(("index", "width", "kind"), PATTERNS)
def test_place(index: list[int], width: int, kind: type) -> None:
    array = np.array([*index], np.int64)
    found = place(array, width, SIZE)
    assert isinstance(found, kind)
    expected = {int(i) + w for i in array for w in range(width)}
    assert set(found.cells().tolist()) == expected
    low, high = found.bounds()
    assert (low, high) == (min(expected), max(expected) + 1)
    memory = np.zeros(SIZE, np.int32)
    found.put(memory, 7)
    assert set(memory.nonzero()[0].tolist()) == expected
    memory[:] = np.arange(SIZE)
    assert (found.get(memory) == found.cells()).all()
    found.put(memory, found.get(memory) + 1)
    assert (memory[found.cells()] == found.cells() + 1).all()


def test_slice() -> None:
    assert place(slice(3, 9), 1, SIZE) == Span(3, 9)


class Naive:
    """Cell by cell."""

    def __init__(self) -> None:
        self.writes: dict[int, int] = {}
        self.touched: dict[int, dict[Key, int]] = {}

    def write(self, cells: set[int], number: int) -> None:
        for cell in cells:
            self.writes[cell] = number
            self.touched.pop(cell, None)

    def touch(self, key: Key, cells: set[int], number: int) -> None:
        for cell in cells:
            self.touched.setdefault(cell, {})[key] = number

    def touches(self, cells: set[int], manners: tuple[Manner, ...]) -> dict[tuple[int, Key], int]:
        """By cell and key."""
        return {
            (cell, key): number
            for cell in cells
            for key, number in self.touched.get(cell, {}).items()
            if key[2] in manners
        }


def random_index(rng: random.Random) -> tuple[NDArray[np.int64] | slice, int]:
    start = rng.randrange(0, 40000)
    match rng.randrange(4):
        case 0:
            return slice(start, start + rng.randint(1, 6000)), 1
        case 1:
            return start // 512 * 512 + 512 * np.arange(rng.randint(2, 16)), rng.choice([32, 512])
        case 2:
            return 16 * np.array(rng.sample(range(64), 8)) + start // 16 * 16, 16
        case _:
            return np.array(rng.sample(range(64), 5)) + start, 1


@pytest.mark.parametrize("kind", [DenseShadow, SparseShadow])
@pytest.mark.parametrize("seed", range(4))
def test_random_accesses(kind: type[DenseShadow | SparseShadow], seed: int) -> None:
    rng = random.Random(seed)
    shadow: Shadow = kind(SIZE)
    naive = Naive()
    keys: dict[int, Key] = {}
    for number in range(1, 60):
        where = place(*random_index(rng), SIZE)
        pages, cells = pages_of(where), set(where.cells().tolist())
        manners = rng.choice([tuple(Manner), (Manner.ATOMIC_WRITE,)])
        last = {naive.writes.get(cell, 0) for cell in cells}
        assert set(shadow.last_writes(where)) == last
        found: dict[tuple[int, Key], int] = {}
        for layer, before in shadow.touches(where, pages, manners):
            for cell in layer.overlap(where, before).tolist():
                at = cell, keys[before]  # the last of a key counts, others do no harm
                found[at] = max(found.get(at, 0), before)
        assert found == naive.touches(cells, manners)
        if rng.random() < 0.4:
            shadow.write(where, pages, number, shadow.touches(where, pages, EVERY))
            naive.write(cells, number)
        else:
            key = keys[number] = 0, rng.randrange(3), rng.choice([Manner.READ, Manner.ATOMIC_READ])
            shadow.touch(key, where, pages, number)
            naive.touch(key, cells, number)


def check_alike(grouped: DenseShadow, single: DenseShadow, where: Place, pages: int) -> None:
    """Two shadows say the same of what was there before."""
    assert grouped.last_writes(where) == single.last_writes(where)
    found, expected = (
        [(n, layer.overlap(where, n).tolist()) for layer, n in one.touches(where, pages, EVERY)]
        for one in (grouped, single)
    )
    assert found == expected


@pytest.mark.parametrize("seed", range(4))
def test_groups_of_cells(seed: int) -> None:
    """A shadow that keeps groups of cells as one says what one of single cells says."""
    rng = random.Random(seed)
    grouped, single = DenseShadow(SIZE), DenseShadow(SIZE, 1)
    units: list[int] = []
    for number, align in enumerate((16, 32) * 8 + (4, 16) * 8 + (1, 6) * 4, 1):
        start = rng.randrange(64) * align
        index: NDArray[np.int64] | slice = slice(start, start + rng.randint(1, 16) * align)
        if number == 40:
            index = slice(1, 102)  # more parts of groups than are kept apart
        elif rng.random() < 0.5:
            index = align * np.array(rng.sample(range(64), 8)) + start
        where = place(index, align, SIZE)
        pages = pages_of(where)
        check_alike(grouped, single, where, pages)
        key = 0, rng.randrange(3), rng.choice(EVERY)
        written = rng.random() < 0.5
        for one in (grouped, single):
            if written:
                one.write(where, pages, number, one.touches(where, pages, EVERY))
            else:
                one.touch(key, where, pages, number)
        units.append(grouped.unit)
    assert (units[0], units[-1]) == (16, 1)


@pytest.mark.parametrize("seed", range(4))
def test_parts_of_few_groups(seed: int) -> None:
    """Groups of which parts were accessed have a number for each cell, the others do not."""
    rng = random.Random(seed)
    grouped, single = DenseShadow(SIZE), DenseShadow(SIZE, 1)
    for number in range(1, 80):
        start, width = rng.choice([(rng.randrange(192), rng.choice([1, 4, 8])), (0, 96), (48, 64)])
        where = place(np.array([start, start + 32]), width, SIZE)
        pages = pages_of(where)
        check_alike(grouped, single, where, pages)
        key, written = (0, rng.randrange(2), rng.choice(EVERY)), rng.random() < 0.5
        for one in (grouped, single):
            if written:
                one.write(where, pages, number, one.touches(where, pages, EVERY))
            else:
                one.touch(key, where, pages, number)
    everything = [{n for _, n in one.everything()} for one in (grouped, single)]
    assert everything[0] == everything[1]
    assert grouped.unit == 16


def test_an_atomic_write_initializes() -> None:
    shadow = DenseShadow(SIZE)
    where, pages = Span(0, 8), 1
    shadow.write(Span(0, 4), pages, 1, [])
    shadow.touch((0, 0, Manner.ATOMIC_WRITE), where, pages, 2)
    assert shadow.last_writes(where) == [1, 2]


def cells_of(memory: Memory, cells: Cells) -> set[int]:
    parts = memory.parts(cells)
    found = [cell + part.base for part in parts for cell in part.place.cells().tolist()]
    assert len(found) == len(set(found))
    return set(found)


def test_global_memory_is_split() -> None:
    memory = Memory()
    edge = 1 << 20
    for index, width in [
        (slice(edge - 10, edge + 10), 1),
        (edge - 32 + 16 * np.arange(4), 16),
        (np.array([edge - 8, 5, 3 * edge]), 16),
        (np.arange(edge - 3, edge + 3), 1),
    ]:
        expected = set(range(index.start, index.stop)) if isinstance(index, slice) else {
            int(i) + w for i in index for w in range(width)
        }  # fmt: skip
        assert cells_of(memory, Cells(Space.GLOBAL, -1, index, width)) == expected
    parts = memory.parts(Cells(Space.GLOBAL, -1, slice(edge - 1, 2 * edge + 2)))
    bounds = [tuple(part.base + at for at in part.place.bounds()) for part in parts]
    assert bounds == [(edge - 1, edge), (edge, 2 * edge), (2 * edge, 2 * edge + 2)]


def test_nothing_is_touched() -> None:
    memory = Memory()
    assert memory.parts(Cells(Space.SHARED, 0, slice(8, 8))) == ()
    none = np.array([], np.int64)
    assert memory.parts(Cells(Space.GLOBAL, -1, none)) == ()
    none.flags.writeable = False
    assert memory.parts(Cells(Space.SHARED, 0, none)) == ()


@pytest.mark.parametrize(
    ("index", "width", "kind"),
    [
        (np.arange(128) * 512 + 64, 128, Grid),
        (np.arange(32, 64) * 512 + 7, 1, Grid),
        (np.arange(16, 32) * 512 + 8, 4, Span),
        (
            np.concatenate([np.arange(first, first + 16) for first in (0, 32, 64, 96)]) * 512,
            32,
            Grid,
        ),
        (np.arange(8) * 512, 2, Grid),
        (np.unique((np.arange(128) * 512)[:, None] + np.arange(40, 44)), 1, Grid),
        (np.array([700, 5, 5]), 3, Blocks),
        (slice(510, 514), 1, Blocks),
    ],
)
def test_cells_of_tensor_memory(index: NDArray[np.int64] | slice, width: int, kind: type) -> None:
    memory = Memory()
    (part,) = memory.parts(Cells(Space.TENSOR, 0, index, width))
    assert isinstance(part.place, kind)
    part.shadow.write(part.place, part.pages, 3, [])
    every: NDArray[np.int64] = (
        np.arange(int(index.start), int(index.stop)) if isinstance(index, slice) else index
    )
    expected = np.unique((every[:, None] + np.arange(width)).ravel())
    assert part.overlap(part.shadow.written, 3).tolist() == expected.tolist()
    (all_,) = memory.parts(Cells(Space.TENSOR, 0, slice(0, 1 << 16)))
    assert all_.overlap(part.shadow.written, 3).tolist() == expected.tolist()


def test_arrays_that_come_again() -> None:
    memory = Memory()
    index = np.array([0, 48, 16])
    index.setflags(write=False)
    first, again = (memory.parts(Cells(Space.SHARED, 0, index, 16))[0] for _ in range(2))
    assert first.place is again.place
    other = memory.parts(Cells(Space.SHARED, 0, index, 8))[0]
    assert other.place.cells().size == 24


def test_rows_of_boxes_that_come_again() -> None:
    memory, rows = Memory(), np.arange(4) * 4096 + (1 << 21)
    fixed = rows.copy()
    fixed.setflags(write=False)
    first, again = (memory.parts(Cells(Space.GLOBAL, -1, fixed, 64)) for _ in range(2))
    assert first is again
    (one,), (other,) = first, memory.parts(Cells(Space.GLOBAL, -1, rows, 64))
    assert one.shadow is other.shadow
    assert (one.place.cells() + one.base == other.place.cells() + other.base).all()
