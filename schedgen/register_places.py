"""Which registers of threads pieces of tiles share, and which ones products keep."""

from __future__ import annotations

from collections.abc import Iterator

from schedgen.edges import Edge
from schedgen.kernel import Kernel, Piece, Region, Space


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


def taken_registers(kernel: Kernel, edge: Edge) -> bool:
    """Whether ``edge`` is about registers that are not the accumulators of both of its operations.

    A product has those until it is complete, so the order of products is not enough.
    """
    one, other = (_in_registers(kernel, edge, name) for name in (edge.src, edge.dst))
    return any(
        (writes or rewrites)
        and not (writes and rewrites and piece == same)
        and (piece == same or kernel.piece[piece].region != kernel.piece[same].region)
        for piece, writes in one.items()
        for same, rewrites in other.items()
    )


def _in_registers(kernel: Kernel, edge: Edge, name: str) -> dict[str, bool]:
    """Pieces of what ``edge`` is about that an operation has in registers, and whether it writes
    them.
    """
    operation = kernel.operation[name]
    found: dict[str, bool] = {}
    for piece in (*(read.piece for read in operation.reads), *operation.writes):
        region = kernel.region_of(piece)
        if region.space is Space.REGISTERS and {region.name, region.ring} & set(edge.about):
            found[piece] = piece in operation.writes
    return found
