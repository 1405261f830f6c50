"""Global tensors of a kernel, and where its tiles lie in them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Argument:
    """A tensor that the caller passes, with the names of its extents; a scalar has none.

    Of one that is not ``whole``, elements that no output tile stores are undefined. ``stored`` has
    the extents of the tensor that is passed, where it holds elements of a ragged extent packed: one
    extent instead of two of ``shape``.
    """

    name: str
    shape: tuple[str, ...]
    dtype: str
    whole: bool = True
    stored: tuple[str, ...] = ()

    @property
    def passed(self) -> tuple[str, ...]:
        """The extents of the tensor that the caller passes."""
        return self.stored or self.shape


def tile_number(extent: str) -> str:
    """What the number of an output tile is called along an extent of which it has one element."""
    return f"tile_{extent}"


INTEGERS = ("i32",)
"""Data types of arguments that say sizes; no tile has them."""


@dataclass(frozen=True, slots=True)
class Ragged:
    """An ``extent`` whose size differs along the extent ``of``, by an array of 32-bit integers.

    Either ``starts`` is that array: element i is where the elements of number i begin in what is
    packed, and one element more where the last ones end; the extent of the array is ``bounds``, and
    ``packed`` is the extent of tensors in which the elements of all numbers follow each other. Or
    ``lengths`` is: element i is the size at number i, in tensors that have room for the largest.

    What an array says is limited to what tensors have. An output tile at which an extent that the
    main loop walks has size 0 has one iteration all the same; none is computed that begins behind
    the size of an extent that it is cut along.
    """

    extent: str
    of: str
    starts: str = ""
    bounds: str = ""
    packed: str = ""
    lengths: str = ""

    @property
    def array(self) -> str:
        """The argument that says it."""
        return self.starts or self.lengths


@dataclass(frozen=True, slots=True)
class GridAxis:
    """Output tiles are ``block`` elements apart along ``extent``; each has a coordinate there."""

    extent: str
    block: int


@dataclass(frozen=True, slots=True)
class Place:
    """Which elements along ``extent`` a tile covers: ``size`` of them from a start on.

    The start is ``block * c + step * i + offset``, where c is the output tile's coordinate along
    the extent ``along`` and i the iteration of the main loop. If the tiles along ``split_k`` share
    the iterations, i begins at the iterations of a tile times the coordinate along that extent. If
    ``grouped``, neighbouring coordinates share an element: the start is ``c * extent // along``, of
    the extents' values.
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
