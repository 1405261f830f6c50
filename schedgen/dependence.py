"""Derives every dependence of the main loop from what operations read, what they write and where
tiles are stored.

The author declares dataflow only. A flow edge follows from a read; every anti and output edge
follows from storage: the ring depth of a region, a ring that several regions fill in turn, a region
that lives inside another one. Where storage is still a decision, the edge carries the decision it
belongs to, so the solver sees all alternatives.

An edge src -> dst with distance d: instance dst(j + d) must wait for src(j). Distances can be zero
or negative.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from schedgen.edges import (
    Choice,
    Condition,
    DependenceGraph,
    Edge,
    EdgeClass,
    RingOption,
    home_choice,
    ring_choice,
    ring_options,
)
from schedgen.kernel import AliasOption, Kernel, Kind, Operation, Piece, Region, Ring, Space

__all__ = [
    "Choice",
    "Condition",
    "DependenceGraph",
    "Edge",
    "EdgeClass",
    "RingOption",
    "derive",
    "home_choice",
    "ring_choice",
    "ring_options",
]


@dataclass(frozen=True, slots=True)
class Use:
    """Operation ``name`` (at place ``place`` of the loop body) touches a piece ``distance``
    iterations later.
    """

    name: str
    place: int
    distance: int


class Accesses:
    """Who writes and who reads each piece, in the order of the loop body."""

    def __init__(self, body: tuple[Operation, ...]) -> None:
        self.writers: dict[str, list[Use]] = {}
        self.readers: dict[str, list[Use]] = {}
        for place, operation in enumerate(body):
            for read in operation.reads:
                self.readers.setdefault(read.piece, []).append(
                    Use(operation.name, place, read.distance)
                )
            for piece in operation.writes:
                self.writers.setdefault(piece, []).append(Use(operation.name, place, 0))

    def first_writer(self, piece: str) -> Use:
        return self.writers[piece][0]

    def source(self, piece: str, reader: Use) -> Use | None:
        """The write whose value ``reader`` sees: the latest one before it in the order of the loop
        body.
        """
        writers = self.writers.get(piece, [])
        if reader.distance > 0:
            return writers[-1] if writers else None
        return next((w for w in reversed(writers) if w.place < reader.place), None)

    def kind(self, piece: str, use: Use) -> EdgeClass:
        """Class of an edge that protects ``piece`` from being overwritten after ``use``."""
        return EdgeClass.OUTPUT if use in self.writers[piece] else EdgeClass.ANTI

    def last_uses(self, piece: str) -> list[Use]:
        """The accesses after which a version of ``piece`` is dead: reads of its last value, or else
        its last write.
        """
        last = self.writers[piece][-1]
        reads = [r for r in self.readers.get(piece, []) if r.distance > 0 or r.place > last.place]
        return reads or [last]


def derive(kernel: Kernel) -> DependenceGraph:
    """The dependence graph of the main loop of ``kernel``."""
    accesses = Accesses(kernel.body)
    edges: list[Edge] = []
    edges.extend(_flow(kernel, accesses))
    edges.extend(_updates_in_place(kernel, accesses))
    edges.extend(_beside_products(kernel, accesses))
    choices: list[Choice] = []
    for region in kernel.regions:
        if region.ring is None and _rotates(kernel, region, accesses):
            edges.extend(_storage(kernel, region, accesses))
            if any(option.host is not None for option in region.options):
                choices.append(_home_choice(kernel, region))
    for ring in kernel.rings:
        if not all(_rotates(kernel, kernel.region[name], accesses) for name in ring.regions):
            continue
        options = ring_options(ring)
        choices.append(Choice(ring_choice(ring), ring.name, options))
        edges.extend(_shared_ring(kernel, ring, options, accesses))
    edges.extend(_fixed_orders(kernel))
    return DependenceGraph(kernel, _without_repeats(edges), tuple(choices))


def _rotates(kernel: Kernel, region: Region, accesses: Accesses) -> bool:
    """Whether the main loop writes ``region``; what it only reads is filled once per tile."""
    return any(p.name in accesses.writers for p in kernel.pieces if p.region == region.name)


def _flow(kernel: Kernel, accesses: Accesses) -> Iterator[Edge]:
    """A reader waits for the write whose value it uses."""
    for piece, readers in accesses.readers.items():
        for reader in readers:
            writer = accesses.source(piece, reader)
            if writer is None:
                continue
            kind = EdgeClass.CARRIED if reader.distance else EdgeClass.FLOW
            size = kernel.piece[piece].bytes
            about = (kernel.piece[piece].region,)
            yield Edge(writer.name, reader.name, reader.distance, kind, about, size)


def _beside_products(kernel: Kernel, accesses: Accesses) -> Iterator[Edge]:
    """Threads read what they have in registers before a product whose left operand it is, or when
    that is complete: as long as it runs its registers may not even be read (PTX ISA,
    wgmma.mma_async).
    """
    for product in (o for o in kernel.body if o.kind is Kind.MMA):
        if product.operand_space("a") != Space.REGISTERS:
            continue
        for piece in dict(product.operands)["a"]:
            readers = accesses.readers[piece]
            mine = next(use for use in readers if use.name == product.name)
            for other in readers:
                same = accesses.source(piece, other) == accesses.source(piece, mine)
                if same and kernel.operation[other.name].kind is not Kind.MMA:
                    about, size = (kernel.piece[piece].region,), kernel.piece[piece].bytes
                    later = mine.distance - other.distance
                    if (later, mine.place) > (0, other.place):
                        yield Edge(other.name, product.name, later, EdgeClass.ANTI, about, size)
                    else:
                        yield Edge(product.name, other.name, -later, EdgeClass.ANTI, about, size)


def _updates_in_place(kernel: Kernel, accesses: Accesses) -> Iterator[Edge]:
    """Within one iteration a second write waits for the reads of the first value, or for the first
    write.
    """
    for piece, writers in accesses.writers.items():
        region = kernel.region_of(piece)
        for first, second in pairwise(writers):
            between = [
                r
                for r in accesses.readers.get(piece, [])
                if r.distance == 0 and first.place < r.place <= second.place
            ]
            size = kernel.piece[piece].bytes
            for reader in between:
                if reader.name != second.name and region.hazards:
                    yield Edge(reader.name, second.name, 0, EdgeClass.ANTI, (region.name,), size)
            if not between and region.hazards:
                yield Edge(first.name, second.name, 0, EdgeClass.OUTPUT, (region.name,), size)


def _storage(kernel: Kernel, region: Region, accesses: Accesses) -> Iterator[Edge]:
    """Reuse of the region's own slots or of its host's bytes, for each way to store it."""
    pieces = [p for p in kernel.pieces if p.region == region.name and p.name in accesses.writers]
    for number, option in enumerate(region.options):
        condition = None if len(region.options) == 1 else Condition(home_choice(region), number)
        if option.host is None:
            for piece in pieces:
                yield from _reuse(region, piece, accesses, condition)
        else:
            host = kernel.region[option.host]
            for piece in pieces:
                for host_piece in (p for p in kernel.pieces if p.region == host.name):
                    size = piece.overlaps(host_piece, shift=option.column)
                    if size and region.hazards:
                        yield from _tenancy(
                            piece, host_piece, host, option, size, accesses, condition
                        )


def _reuse(
    region: Region, piece: Piece, accesses: Accesses, condition: Condition | None
) -> Iterator[Edge]:
    """A slot is written again ``depth`` iterations later, after its last uses.

    Storage that keeps its slot for a tile is written again in the very next iteration, in place.
    """
    writer = accesses.first_writer(piece.name)
    slots, depth_of = (1, None) if region.per_tile else (0, region.name)
    for use in accesses.last_uses(piece.name):
        # An operation that updates its own value in place reads before it writes.
        in_place = use.name == writer.name and use.distance > 0
        if region.hazards and not in_place:
            distance, kind = slots - use.distance, accesses.kind(piece.name, use)
            about, size = (region.name,), piece.bytes
            yield Edge(use.name, writer.name, distance, kind, about, size, depth_of, condition)


def _tenancy(
    piece: Piece,
    host_piece: Piece,
    host: Region,
    option: AliasOption,
    size: int,
    accesses: Accesses,
    condition: Condition | None,
) -> Iterator[Edge]:
    """Tenant version j uses the bytes of host version j + skew: after its last uses, before its
    successor.
    """
    about = piece.region, host.name
    entering = accesses.first_writer(piece.name)
    for use in accesses.last_uses(host_piece.name):
        distance, kind = -(option.skew + use.distance), accesses.kind(host_piece.name, use)
        if not (use.name == entering.name and distance == 0):
            yield Edge(use.name, entering.name, distance, kind, about, size, None, condition)
    returning = accesses.first_writer(host_piece.name)
    slots, depth_of = (1, None) if host.per_tile else (0, host.name)
    least = 1 if host.per_tile else host.depth.low
    for use in accesses.last_uses(piece.name):
        distance, kind = option.skew + slots - use.distance, accesses.kind(piece.name, use)
        in_place = use.name == returning.name and option.skew + least == use.distance
        if not in_place:
            yield Edge(use.name, returning.name, distance, kind, about, size, depth_of, condition)


def _home_choice(kernel: Kernel, region: Region) -> Choice:
    """Two tenants may not overlap in one host: nothing would say which of them comes first."""
    excludes: list[tuple[int, Condition]] = []
    for other in kernel.regions:
        if other.name == region.name:
            break
        for mine, option in enumerate(region.options):
            for theirs, rival in enumerate(other.options):
                if option.host is None or option.host != rival.host:
                    continue
                ends = (option.column + region.row_bytes, rival.column + other.row_bytes)
                if min(ends) > max(option.column, rival.column):
                    excludes.append((mine, Condition(home_choice(other), theirs)))
    return Choice(home_choice(region), region.name, region.options, tuple(excludes))


def _shared_ring(
    kernel: Kernel, ring: Ring, options: tuple[RingOption, ...], accesses: Accesses
) -> Iterator[Edge]:
    """Fill number f of the ring waits for the last uses of fill f - depth; fills are issued in
    order.
    """
    count = len(ring.regions)
    for number, option in enumerate(options):
        condition = Condition(ring_choice(ring), number)
        for place, name in enumerate(ring.regions):
            for step, kind in ((option.depth, EdgeClass.ANTI), (1, EdgeClass.ORDER)):
                follower = (place + step) % count
                distance = option.lags[place] - option.lags[follower] + (place + step) // count
                yield from _refill(
                    kernel, ring, name, ring.regions[follower], distance, kind, condition, accesses
                )


def _refill(
    kernel: Kernel,
    ring: Ring,
    region: str,
    follower: str,
    distance: int,
    kind: EdgeClass,
    condition: Condition,
    accesses: Accesses,
) -> Iterator[Edge]:
    """From ``region`` to the ``follower`` that fills its slot (anti) or the next one (order)."""
    pieces = [p for p in kernel.pieces if p.region == region]
    writers = {accesses.first_writer(p.name).name for p in kernel.pieces if p.region == follower}
    for piece in pieces:
        if kind is EdgeClass.ORDER:
            uses = [accesses.first_writer(piece.name)]
        else:
            uses = accesses.last_uses(piece.name) if kernel.region[region].hazards else []
        for use in uses:
            for writer in sorted(writers):
                gap = distance - use.distance
                if use.name == writer and gap == 0:
                    continue  # updates its own value in place
                why = kind if kind is EdgeClass.ORDER else accesses.kind(piece.name, use)
                size = 0 if kind is EdgeClass.ORDER else piece.bytes
                yield Edge(use.name, writer, gap, why, (ring.name,), size, None, condition)


def _fixed_orders(kernel: Kernel) -> Iterator[Edge]:
    """Issue orders that the spec fixes: a cycle through the named operations, one period long."""
    for order in kernel.orders:
        entries = order.sequence
        for (src, a), (dst, b) in pairwise(entries):
            yield Edge(src, dst, b - a, EdgeClass.ORDER, (order.name,), 0)
        (src, a), (dst, b) = entries[-1], entries[0]
        yield Edge(src, dst, b - a + 1, EdgeClass.ORDER, (order.name,), 0)


def _without_repeats(edges: list[Edge]) -> tuple[Edge, ...]:
    """Adds up the bytes of edges that differ in nothing else: pieces of one region."""
    total: dict[tuple[object, ...], Edge] = {}
    for edge in edges:
        key = (
            edge.src,
            edge.dst,
            edge.distance,
            edge.kind,
            edge.about,
            edge.depth_of,
            edge.condition,
        )
        known = total.get(key)
        total[key] = edge if known is None else replace(edge, bytes=known.bytes + edge.bytes)
    return tuple(total.values())
