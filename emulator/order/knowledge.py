"""What one warp knows to be done: vector clocks, one row per kind of knowledge.

A row has one column per agent of the cluster (`agents.Cluster`); the entry is the clock up to which
the accesses of that agent are done, in the sense of the row:

    CAUSAL      they happened before, by causality order or an observed completion
    FENCED      and a proxy fence for shared memory of whoever made them came after (X6, S5)
    FENCED_GLOBAL   the same for global memory
    ANYWHERE    as FENCED, with a fence of anybody on the way (what S5 'anywhere' asks for)
    PUBLISHED   tcgen05 accesses, as far as a fence::before or a commit let them go (C6)
    TENSOR      tcgen05 accesses that tcgen05 operations of this warp are ordered after

The first five travel with releases and acquires, the last belongs to the warp.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.int32]
"""(6, columns)"""

CAUSAL, FENCED, FENCED_GLOBAL, ANYWHERE, PUBLISHED, TENSOR = range(6)
ROWS = 6
_TRAVELS = slice(0, TENSOR)
_NOBODY: Mapping[int, Rows] = MappingProxyType({})


class Message(NamedTuple):
    """Knowledge that is handed on. Nobody changes ``rows``, so they are shared, not copied."""

    cluster: int
    rows: Rows
    foreign: Mapping[int, Rows] = _NOBODY
    """What is known of other clusters."""

    def of(self, cluster: int) -> Rows | None:
        """What it says about the agents of a cluster."""
        return self.rows if cluster == self.cluster else self.foreign.get(cluster)

    def knows(self, row: int, cluster: int, column: int, clock: int) -> bool:
        """Whether an agent's access is known in the sense of a row."""
        rows = self.of(cluster)
        return rows is not None and column < rows.shape[1] and rows.item(row, column) >= clock


def empty(columns: int) -> Rows:
    return np.zeros((ROWS, columns), np.int32)


def widen(rows: Rows, columns: int) -> Rows:
    """The same knowledge with room for at least so many columns."""
    if rows.shape[1] >= columns:
        return rows
    wide = empty(columns)
    wide[:, : rows.shape[1]] = rows
    return wide


def joined(a: Rows, b: Rows) -> Rows:
    """New rows that know what either knows."""
    if a.shape == b.shape:
        return np.maximum(a, b)
    columns = max(a.shape[1], b.shape[1])
    return np.maximum(widen(a, columns), widen(b, columns))


def met(a: Rows, b: Rows) -> Rows:
    """New rows that know what both know."""
    if a.shape == b.shape:
        return np.minimum(a, b)
    columns = min(a.shape[1], b.shape[1])
    return np.minimum(a[:, :columns], b[:, :columns])


def merge(a: Message | None, b: Message | None) -> Message | None:
    """What two messages say together, in the numbering of the first one's cluster."""
    if a is None or b is None or a is b:
        return a if b is None else b
    if a.cluster != b.cluster:
        rows, others = a.rows, {b.cluster: b.rows, **b.foreign}
        back = others.pop(a.cluster, None)
        rows = rows if back is None else joined(rows, back)
        return Message(a.cluster, rows, _merge_foreign(a.foreign, others))
    return Message(a.cluster, joined(a.rows, b.rows), _merge_foreign(a.foreign, b.foreign))


def learn(rows: Rows, message: Message, *, implied: bool) -> Rows:
    """Adds to ``rows``, in place where they are wide enough, what a message of the same cluster
    says. ``implied``: tcgen05 operations are ordered after it without fence::after."""
    told = message.rows
    if rows.shape == told.shape:
        mine = rows[_TRAVELS]
    else:
        rows = widen(rows, told.shape[1])
        mine = rows[_TRAVELS, : told.shape[1]]
    np.maximum(mine, told[_TRAVELS], out=mine)
    if implied:
        np.maximum(rows[TENSOR], rows[PUBLISHED], out=rows[TENSOR])
    return rows


def _merge_foreign(a: Mapping[int, Rows], b: Mapping[int, Rows]) -> Mapping[int, Rows]:
    if not a or not b or a is b:
        return a or b
    both = dict(a)
    for cluster, rows in b.items():
        mine = both.get(cluster)
        both[cluster] = rows if mine is None or mine is rows else joined(mine, rows)
    return both
