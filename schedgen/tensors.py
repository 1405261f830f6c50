"""Global tensors of a kernel, and where its tiles lie in them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Argument:
    """A tensor that the caller passes, with the names of its extents; a scalar has none.

    Of one that is not ``whole``, elements that no output tile stores are undefined.
    """

    name: str
    shape: tuple[str, ...]
    dtype: str
    whole: bool = True


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
