"""Pieces of operations in tensor memory, and whether they are waited for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NoReturn

from schedgen.conform.assign import Choice
from schedgen.conform.taking import TRACKED, WAITS
from schedgen.conform.trace import Event
from schedgen.program.model import FenceKind

_THREADS = "an operation of threads"
Differ = Callable[[str, str, Event | None], NoReturn]


@dataclass(frozen=True, slots=True)
class Found:
    """An access, and the operations that it may belong to; or a wait for tensor memory, which
    belongs to none. ``run``: the one that it is taken to belong to, -1 for waits.
    """

    event: Event
    choice: Choice
    run: int = -1

    @property
    def kind(self) -> str:
        return self.event.action.kind

    @property
    def allocations(self) -> tuple[str, ...]:
        """What it accesses, if it belongs to ``run``."""
        return tuple(sorted(allocation for allocation, _ in self.choice.get(self.run, ())))


def own_waits(kind: str, found: list[Found], differ: Differ) -> dict[int, bool]:
    """Which operations wait themselves behind each piece but the last.

    A piece has all operands of an operation, one after the other: where an operation waits for its
    pieces they are alike.
    """
    own: dict[int, bool] = {}
    first: dict[int, list[tuple[str, ...]]] = {}
    loads = kind == WAITS[FenceKind.TMEM_LOADED]
    for piece in _pieces(kind, found):
        last = found[piece[-1]]
        allocations = [found[at].allocations for at in piece]
        again = len(list(groupby(allocations))) > len(set(allocations))
        behind = (n for n in range(piece[-1] + 1, len(found)) if found[n].choice)
        # What the operation reads elsewhere may come between a load and the wait for it.
        ends = (n for n in behind if found[n].kind != "read" or found[n].run != last.run)
        later = next(ends, len(found))
        more = later < len(found) and found[later].run == last.run
        waits = any(one.kind == kind for one in found[piece[-1] + 1 : later])
        if more and loads and found[later].kind == "tmem write" and not waits:
            differ(f"no '{kind}' between it and the load before", _THREADS, found[later].event)
        if more and own.setdefault(last.run, waits) is not waits:
            differ(f"no '{kind}' behind it, although other pieces have one", _THREADS, last.event)
        alike = first.setdefault(last.run, allocations) == allocations
        if loads and (again or (own.get(last.run, False) and not alike)):
            differ(f"no '{kind}' between two pieces", _THREADS, last.event)
    return own


def _pieces(kind: str, found: list[Found]) -> Iterator[list[int]]:
    """Accesses of one operation in a row, without a wait between them."""
    piece: list[int] = []
    for at, one in enumerate(found):
        mine = one.kind in TRACKED[kind]
        ends = one.kind == kind or (bool(one.choice) and not mine)
        if piece and (ends or (mine and one.run != found[piece[-1]].run)):
            yield piece
            piece = []
        if mine:
            piece.append(at)
    if piece:
        yield piece
