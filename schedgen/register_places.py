"""Which registers of threads pieces of tiles share."""

from __future__ import annotations

from collections.abc import Iterator

from schedgen.kernel import Kernel, Piece, Region


def register_places(kernel: Kernel, piece: str) -> tuple[str, ...]:
    """Names for the places of ``piece``, which is in registers: two pieces have one in common if
    they take the same registers of some thread. Regions of a ring take turns in its only slot, and
    guests are where their hosts are.
    """
    one, region = kernel.piece[piece], kernel.region_of(piece)
    if region.guest:
        return tuple(dict.fromkeys(_hosts(kernel, one, region)))
    if region.ring is None:
        return (piece,)
    inside = set(kernel.ring[region.ring].regions)
    starts = {other.row0 for other in kernel.pieces if other.region in inside}
    rows = sorted(row for row in starts if one.row0 <= row < one.row1)
    return tuple(f"row {row} of ring {region.ring}" for row in rows)


def _hosts(kernel: Kernel, one: Piece, region: Region) -> Iterator[str]:
    """Pieces whose bytes a piece of a guest takes, in any of its places."""
    for option in region.options:
        for other in kernel.pieces:
            if other.region == option.host and one.overlaps(other, shift=option.column):
                yield other.name
