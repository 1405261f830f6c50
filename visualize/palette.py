"""Colours of operations: light enough for black labels, apart in hue, and apart in grey."""

from __future__ import annotations

from collections.abc import Iterable

# Tints of the palette for colour-blind readers by Okabe and Ito (2008), in steps of lightness.
_TINTS = (
    "#7fbfe6",
    "#f7cf86",
    "#8fd4b5",
    "#f0b2d2",
    "#f5ef9b",
    "#eaa58b",
    "#b3b1e4",
    "#d3e6a6",
    "#9cc7cc",
    "#d9c2a8",
    "#cfcfcf",
    "#c7e3f4",
)


# By kind first, so that an operation keeps its colour on machines that need no copies.
_KINDS = ("mma", "load", "map", "reduce", "store", "copy")


def colours(kinds: Iterable[tuple[str, str]]) -> dict[str, str]:
    """A colour for each name of the (name, kind) pairs; they repeat after twelve."""
    distinct = sorted(set(kinds), key=lambda pair: (_rank(pair[1]), pair[0]))
    names = dict.fromkeys(name for name, _ in distinct)
    return {name: _TINTS[number % len(_TINTS)] for number, name in enumerate(names)}


def _rank(kind: str) -> int:
    return _KINDS.index(kind) if kind in _KINDS else len(_KINDS)


def paler(colour: str) -> str:
    """``colour`` half-way to white, for every other iteration."""
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{(part + 255) // 2:02x}" for part in parts)
