"""Whether operations read the same values after two regions have become one.

A value is known by the operation that wrote it, and by how many iterations ago; a copy that is
about to go passes on the value of its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from schedgen.kernel import Operation, Phase

_Cell: TypeAlias = tuple[bool, str]  # before merging: of the region that goes?; kept piece
_Value: TypeAlias = tuple[str, int] | None  # writer, iterations ago; None: what was there before


@dataclass(frozen=True)
class Merge:
    """The kept pieces that make up each piece of the region that goes, and all kept pieces."""

    parts: Mapping[str, tuple[str, ...]]
    whole: set[str]

    def kept(self, piece: str) -> tuple[str, ...]:
        """Return the pieces that take the place of ``piece``."""
        return self.parts.get(piece, (piece,))

    def all_kept(self, pieces: Iterable[str]) -> tuple[str, ...]:
        """Return the pieces that take the place of ``pieces``."""
        return tuple(dict.fromkeys(new for piece in pieces for new in self.kept(piece)))

    def cells(self, piece: str) -> list[_Cell]:
        """Return what ``piece`` consists of; nothing if it is in neither region."""
        if piece in self.parts:
            return [(True, part) for part in self.parts[piece]]
        return [(False, piece)] if piece in self.whole else []

    def moves_nothing(self, copy: Operation) -> bool:
        """Whether source and destination of a copy become the same pieces."""
        source = [read.piece for read in copy.reads]
        inside = all(self.cells(piece) for piece in (*source, *copy.writes))
        return inside and set(self.all_kept(source)) == set(self.all_kept(copy.writes))


def same_values(operations: Sequence[Operation], copies: set[str], merge: Merge) -> bool:
    """Whether without ``copies`` all operations read what they read with them.

    ``operations`` are those that use either region, in sequential order. Those that do not always
    write are tried both ways.
    """
    sometimes = {o.name for o in operations if o.boundary or o.when is not None}
    return all(
        _agree(operations, copies, merge, {o.name for o in operations} - absent)
        for absent in (set[str](), sometimes)
    )


def _agree(
    operations: Sequence[Operation], copies: set[str], merge: Merge, writers: set[str]
) -> bool:
    apart = _Writers(operations, merge, writers, merged=False)
    merged = _Writers(operations, merge, writers - copies, merged=True)
    for place, operation in enumerate(operations):
        if operation.name in copies:
            continue
        for read in operation.reads:
            for gone, part in merge.cells(read.piece):
                old = apart.value((gone, part), operation.phase, place, read.distance)
                side = gone
                while old is not None and old[0] in copies:
                    number, side = apart.place[old[0]], not side
                    source = apart.value((side, part), operations[number].phase, number, 0)
                    old = None if source is None else (source[0], old[1] + source[1])
                if old != merged.value((False, part), operation.phase, place, read.distance):
                    return False
    return True


class _Writers:
    """Who writes each cell, in sequential order."""

    def __init__(
        self, operations: Sequence[Operation], merge: Merge, names: set[str], *, merged: bool
    ) -> None:
        self.place = {operation.name: number for number, operation in enumerate(operations)}
        self._of: dict[tuple[_Cell, Phase], list[tuple[int, str]]] = {}
        for number, operation in enumerate(operations):
            if operation.name in names:
                for piece in operation.writes:
                    for gone, part in merge.cells(piece):
                        cell = (gone and not merged, part)
                        self._of.setdefault((cell, operation.phase), []).append(
                            (number, operation.name)
                        )

    def value(self, cell: _Cell, phase: Phase, place: int, distance: int) -> _Value:
        """Return what a read at ``place`` sees."""
        earlier = {
            Phase.BEFORE: (Phase.BEFORE,),
            Phase.BODY: (Phase.BODY, Phase.BEFORE),
            Phase.AFTER: (Phase.AFTER, Phase.BODY, Phase.BEFORE),
        }
        if distance:
            last = self._of.get((cell, Phase.BODY), [])
            return (last[-1][1], distance) if last else None
        for part in earlier[phase]:
            for number, name in reversed(self._of.get((cell, part), [])):
                if number < place or part is not phase:
                    return name, 0
        return None
