"""Ordinary writes beside others that nothing orders, where both leave the same bytes (S30).

Whether they do is a matter of the cells that both write: beyond these the later one may well change
something, as where CTAs write some rows behind their own tiles, too, all of them the same.
"""

from __future__ import annotations

from math import gcd

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.order.agents import Kind
from schedgen.emulator.order.memory import Part
from schedgen.emulator.order.places import Blocks, Place
from schedgen.emulator.order.records import ATOMIC, SAME, WRITE, Record
from schedgen.emulator.order.shadow import UNIT, Layer
from schedgen.emulator.order.tracker import Changed


def leave_the_same(
    before: Record, now: Record, part: Part, layer: Layer, changed: Changed | None
) -> bool:
    """Two ordinary writes, the second of which found in memory what it wrote: what the first one
    had written there, as the last one before it.

    Args:
        before: the earlier write, whose number is in ``layer``.
        part: where the later one is.
        changed: the cells in which that found something else; None: any, unless it is ``SAME``.
    """
    both = before.agent.kind is now.agent.kind is Kind.GENERIC
    if not both or before.flags & (WRITE | ATOMIC) != WRITE:
        return False
    if now.flags & SAME or changed is None:
        return bool(now.flags & SAME)
    return not np.isin(part.overlap(layer, before.number), changed()).any()


def divided(part: Part, changed: Changed) -> tuple[Place | None, Place | None]:
    """The cells of a part that a write changed, and the others; None where there are none."""
    cells = np.unique(part.place.cells())
    new = np.isin(cells + part.base, changed())
    return _place(cells[new]), _place(cells[~new])


def _place(cells: NDArray[np.int64]) -> Place | None:
    """Some cells, ascending, as blocks that are as wide as they can be: a memory that is touched
    byte by byte is slower."""
    if not cells.size:
        return None
    first = np.diff(cells, prepend=cells[0] - 2) != 1
    width = gcd(int(np.gcd.reduce(cells[first])), int(np.gcd.reduce(cells[np.roll(first, -1)] + 1)))
    width = gcd(width, UNIT)
    return Blocks(width, cells[::width] // width)
