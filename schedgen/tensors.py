"""Global tensors of a kernel, and where its tiles lie in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Argument:
    """A tensor that the caller passes, with the names of its extents; a scalar has none.

    Of one that is not ``whole``, elements that no output tile stores are undefined. ``stored`` has
    the extents of the tensor that is passed, where it holds elements of a ragged extent packed: one
    extent instead of two of ``shape``. With an ``index`` the first extent of the tensor that is
    passed is another one: element i of ``shape`` is element index[i] of that, and 0 where that has
    none.
    """

    name: str
    shape: tuple[str, ...]
    dtype: str
    whole: bool = True
    stored: tuple[str, ...] = ()
    index: str = ""

    @property
    def passed(self) -> tuple[str, ...]:
        """The extents of the tensor that the caller passes."""
        return self.stored or self.shape


def tile_number(extent: str) -> str:
    """What the number of an output tile is called along an extent of which it has one element."""
    return f"tile_{extent}"


PARTLY = "partly"
"""Whether an iteration may have elements that a mask leaves out, in formulas."""

LARGEST = (1 << 30) - 1
"""What a size is limited to where no tensor has room for it."""
INTEGERS = ("i32",)
"""Data types of arguments that say sizes, and of scalars to count with; no tile has them."""


@dataclass(frozen=True, slots=True)
class Ragged:
    """An ``extent`` whose size differs along the extent ``of``, by an array of 32-bit integers.

    Either ``starts`` is that array: element i is where the elements of number i begin in what is
    packed, and one element more where the last ones end; the extent of the array is ``bounds``, and
    ``packed`` is the extent of tensors in which the elements of all numbers follow each other. Or
    ``ends`` is, with ``packed``, too: element i is where those of number i end, and the first ones
    begin at 0. Or ``lengths`` is: element i is the size at number i, in tensors that have room for
    the largest.

    With ``lengths``, elements may lie in ``pages``, an extent of tensors that have a ``page`` of
    ``page_size`` elements at each, and ``table`` says in which: row i has the numbers of the pages
    of number i in order, ``most_pages`` is the extent of its rows. A page that is not there holds
    nothing but zeros.

    What an array says is limited to what tensors have, or to `LARGEST` if none has the extent. An
    output tile at which an extent that the main loop walks has size 0 has one iteration all the
    same; none is computed that begins behind the size of an extent that it is cut along.
    """

    extent: str
    of: str
    starts: str = ""
    bounds: str = ""
    packed: str = ""
    lengths: str = ""
    table: str = ""
    most_pages: str = ""
    pages: str = ""
    page: str = ""
    page_size: int = 0
    ends: str = ""

    @property
    def array(self) -> str:
        """The argument that says it."""
        return self.starts or self.ends or self.lengths

    @property
    def arrays(self) -> tuple[str, ...]:
        """All arguments that are about it."""
        return (self.array, self.table) if self.table else (self.array,)

    def room(self, extents: Mapping[str, int]) -> int:
        """What a size is limited to: what is packed, what pages hold, or what tensors have."""
        if self.table:
            return extents[self.most_pages] * self.page_size
        return extents.get(self.packed or self.extent, LARGEST)


@dataclass(frozen=True, slots=True)
class Walk:
    """Arrays of 32-bit integers that say which blocks of what it walks the main loop takes.

    An element of ``count`` is how many iterations an output tile has: its axes go along the extents
    ``axes`` of the grid, where a tile has its number. ``listed`` has an axis more: element i there
    is the block of iteration i, in place of i itself. Before iteration number ``full``, by an array
    like ``count``, `PARTLY` is 0 in formulas, and 1 from there on; without that it is 1. With an
    array ``order`` like ``count`` the last of an element's numbers is not that of its output tile,
    but a place in the order of tiles; ``order`` says which tile has it, each once.

    What they say is limited to what there is: a tile has at least one iteration, and at most as
    many as the last axis of ``listed`` has elements; blocks are those of the trip count.
    """

    listed: str
    count: str
    axes: tuple[str, ...]
    full: str = ""
    order: str = ""

    @property
    def arrays(self) -> tuple[str, ...]:
        """All arguments of it."""
        return tuple(filter(None, (self.listed, self.count, self.full, self.order)))


@dataclass(frozen=True, slots=True)
class GridAxis:
    """Output tiles are ``block`` elements apart along ``extent``; each has a coordinate there."""

    extent: str
    block: int


@dataclass(frozen=True, slots=True)
class Place:
    """Which elements along ``extent`` a tile covers: ``size`` of them from a start on.

    The start is ``block * c + step * i + offset``, where c is the output tile's coordinate along
    the extent ``along`` and i the iteration of the main loop, or its block in a `Walk`. If the
    tiles along ``split_k`` share the iterations, i begins at the iterations of a tile times the
    coordinate along that extent. If ``grouped``, neighbouring coordinates share an element: the
    start is ``c * extent // along``, of the extents' values. Elements of an
    extent that ``counts`` another one are blocks of that: parts of output tiles, or of iterations;
    each block has ``unit`` elements.
    ``side`` says which way the tile lies there: its "rows", its "columns", or "" for one element.
    """

    extent: str
    side: str = ""
    size: int = 1
    along: str = ""
    block: int = 0
    step: int = 0
    offset: int = 0
    grouped: bool = False
    split_k: str = ""
    counts: str = ""
    unit: int = 1
