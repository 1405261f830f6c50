"""Dependences of random kernels are exactly the conflicts of storage simulated byte by byte."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import product

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from schedgen.dependence import Edge, EdgeClass, RingOption, derive
from schedgen.kernel import (
    OWN_STORAGE,
    AliasOption,
    Depth,
    Kernel,
    Kind,
    Operation,
    Phase,
    Piece,
    Read,
    Region,
    Ring,
    Space,
)
from schedgen.storage_rules import storage_mistakes

Arrow = tuple[str, str, int]  # source, destination, iterations between them

# -- random kernels ----------------------------------------------------------------------------

ROWS, COLUMNS = 2, 4


def region(name: str, depth: int = 1, *, per_tile: bool = False, ring: str | None = None) -> Region:
    shape, slots = (ROWS, COLUMNS), Depth(depth, depth)
    return Region(name, name, Space.SMEM, shape, "e4m3", slots, per_tile, ring=ring)


def pieces_of(name: str, cut: str, columns: int = COLUMNS) -> tuple[Piece, ...]:
    """The whole region, or two pieces side by side, or two on top of each other."""
    half = columns // 2
    match cut:
        case "columns":
            corners = [(0, ROWS, 0, half), (0, ROWS, half, columns)]
        case "rows":
            corners = [(0, 1, 0, columns), (1, ROWS, 0, columns)]
        case _:
            return (Piece(name, name, 0, ROWS, 0, columns),)
    return tuple(Piece(f"{name}.{n}", name, *corner) for n, corner in enumerate(corners))


@st.composite
def layouts(draw: st.DrawFn) -> tuple[list[Region], list[Piece], list[Ring]]:
    """Regions with slots of their own, tenants in the halves of one of them, a shared ring."""
    cuts = st.sampled_from(["whole", "columns", "rows"])
    count, still = draw(st.integers(1, 2)), st.sampled_from([False, False, False, True])
    regions = [region(f"R{n}", draw(st.integers(1, 4)), per_tile=draw(still)) for n in range(count)]
    pieces = [piece for r in regions for piece in pieces_of(r.name, draw(cuts))]
    hosts = [r.name for r in regions if not r.per_tile]
    for half in range(draw(st.integers(0, 2)) if hosts else 0):
        host, skew = draw(st.sampled_from(hosts)), draw(st.sampled_from([0, 0, 1, 1, 2]))
        inside = AliasOption(host, half * 2, skew)
        options = draw(st.sampled_from([(inside,), (OWN_STORAGE, inside)]))
        name, shape = f"T{half}", (ROWS, COLUMNS // 2)
        regions.append(Region(name, "T", Space.SMEM, shape, "e4m3", Depth(1, 1), options=options))
        pieces.extend(pieces_of(name, draw(cuts), COLUMNS // 2))
    rings: list[Ring] = []
    if count := draw(st.integers(0, 3)):
        names = tuple(f"K{n}" for n in range(count))
        regions.extend(region(name, ring="K") for name in names)
        pieces.extend(piece for name in names for piece in pieces_of(name, draw(cuts)))
        lags = tuple(draw(st.integers(0, 1)) for _ in names)
        depth = draw(st.integers(1, 5))
        rings.append(Ring("K", names, Depth(depth, depth), tuple({(0,) * count, lags})))
    return regions, pieces, rings


@st.composite
def kernels(draw: st.DrawFn) -> Kernel:
    """A random loop body over a random layout: every piece is written, reads follow writes."""
    regions, pieces, rings = draw(layouts())
    names, count = [piece.name for piece in pieces], draw(st.integers(1, 6))
    places = st.sets(st.integers(0, count - 1), min_size=1, max_size=2)
    writers = {name: draw(places) for name in names}
    operations: list[Operation] = []
    for place in range(count):
        reads: dict[Read, None] = {}
        for name in draw(st.lists(st.sampled_from(names), max_size=3)):
            low = 0 if any(w < place for w in writers[name]) else 1
            most = 1 if place in writers[name] else 2
            reads[Read(name, draw(st.integers(low, most)))] = None
        writes = tuple(name for name in names if place in writers[name])
        operations.append(Operation(f"op{place}", "", Kind.MAP, Phase.BODY, tuple(reads), writes))
    return Kernel(
        *("random", "none", "", "", (), ()),
        regions=tuple(regions),
        pieces=tuple(pieces),
        rings=tuple(rings),
        operations=tuple(operations),
    )


# -- brute force -------------------------------------------------------------------------------

Instance = tuple[str, int]  # operation and iteration
Ending = tuple[Instance, set[Instance]]  # last write of a byte and the reads after it
SPAN = 12  # iterations after which any slot was used again


class Simulation:
    """Lays out every access of many iterations byte by byte and notes which must keep their order.

    A byte's accesses are sorted by what the byte stands for at the time (version of its owner,
    then of a tenant), then by the order of the loop body. Slots of a shared ring are handed over
    as a whole. ``flows`` and ``conflicts`` are kept for each storage on its own.
    """

    def __init__(self, kernel: Kernel, chosen: Mapping[str, RingOption | AliasOption]) -> None:
        self.kernel, self.chosen = kernel, chosen
        self.flows: dict[str, set[Arrow]] = defaultdict(set)
        self.conflicts: dict[str, set[Arrow]] = defaultdict(set)
        memory: dict[tuple[str, int, int, int], list[tuple[tuple[int, ...], Instance]]]
        memory = defaultdict(list)
        for iteration, piece, version, number, name in self.accesses():
            slot, rank, shift = self.place(piece, version)
            order, store = (*rank, *number), self.store(piece.region)
            for row in range(piece.row0, piece.row1):
                for column in range(piece.byte0 + shift, piece.byte1 + shift):
                    memory[store, slot, row, column].append((order, (name, iteration)))
        starts: dict[tuple[str, int], set[Instance]] = defaultdict(set)
        ends: dict[tuple[str, int], list[Ending]] = defaultdict(list)
        for (store, slot, _, _), history in memory.items():
            accesses = [(o[-1] == 0, instance) for o, instance in sorted(history)]
            start, end = self.replay(store, accesses)
            starts[store, slot].add(start)
            ends[store, slot].append(end)
        for ring, (store, number) in product(kernel.rings, list(starts)):
            if store == ring.name:
                later = starts.get((store, number + self.shape(ring).depth), set())
                for end, start in product(ends[store, number], later):
                    self.overwrite(store, end, start)
                for pair in product(starts[store, number], starts.get((store, number + 1), ())):
                    self.note(self.conflicts[store], *pair)

    def accesses(self) -> Iterator[tuple[int, Piece, int, tuple[int, int], str]]:
        """Iteration, piece, version, (write number, 0 for the write, 1 for reads), operation."""
        body, piece = self.kernel.body, self.kernel.piece
        places = {name: [n for n, o in enumerate(body) if name in o.writes] for name in piece}
        for iteration, (place, operation) in product(range(3 * SPAN), enumerate(body)):
            for read in operation.reads:
                writes = places[read.piece]
                before = [w for w in writes if read.distance or w < place]
                number, version = (len(before) - 1, 1), iteration - read.distance
                yield iteration, piece[read.piece], version, number, operation.name
            for name in operation.writes:
                number = (places[name].index(place), 0)
                yield iteration, piece[name], iteration, number, operation.name

    def shape(self, ring: Ring) -> RingOption:
        shape = self.chosen[f"ring {ring.name}"]
        assert isinstance(shape, RingOption)
        return shape

    def option(self, region: Region) -> AliasOption:
        option = self.chosen.get(f"place of {region.name}", region.options[0])
        assert isinstance(option, AliasOption)
        return option

    def store(self, name: str) -> str:
        """What a region is stored in: its ring, its host or itself."""
        region = self.kernel.region[name]
        return region.ring or self.option(region).host or name

    def place(self, piece: Piece, version: int) -> tuple[int, tuple[int, int], int]:
        """Slot (of a ring: the fill), what the slot stands for at that time, shift in bytes."""
        region = self.kernel.region[piece.region]
        if region.ring is not None:
            ring = self.kernel.ring[region.ring]
            turn = ring.regions.index(region.name)
            fill = (version + self.shape(ring).lags[turn]) * len(ring.regions) + turn
            return fill, (0, 0), 0
        option = self.option(region)
        owner = self.kernel.region[option.host or region.name]
        version += option.skew
        slot = 0 if owner.per_tile else version % owner.depth.low
        return slot, (version, int(option.host is not None)), option.column

    def replay(self, store: str, history: list[tuple[bool, Instance]]) -> tuple[Instance, Ending]:
        """Notes conflicts with the last writer and readers since; the first write, the last use."""
        first = writer = history[0][1]
        readers = set[Instance]()
        for writes, instance in history[1:]:
            if writes:
                self.overwrite(store, (writer, readers), instance)
                writer, readers = instance, set[Instance]()
            else:
                self.note(self.flows[store], writer, instance)
                readers.add(instance)
        return first, (writer, readers)

    def overwrite(self, store: str, end: Ending, writer: Instance) -> None:
        """A value has been read, or else at least written, before it is overwritten."""
        last, readers = end
        for use in readers or {last}:
            self.note(self.conflicts[store], use, writer)

    def note(self, found: set[Arrow], one: Instance, other: Instance) -> None:
        away_from_ends = SPAN <= one[1] < 2 * SPAN
        if away_from_ends and one != other:
            found.add((one[0], other[0], other[1] - one[1]))


def closure(edges: Iterable[Arrow]) -> dict[tuple[str, str], int] | None:
    """Smallest distance between any two operations, None if a cycle runs backwards in time."""
    edges = list(edges)
    nodes = {name for src, dst, _ in edges for name in (src, dst)}
    least = {(name, name): 1 for name in nodes}  # instances of an operation are in order
    for src, dst, distance in edges:
        least[src, dst] = min(distance, least.get((src, dst), distance))
    for middle, one, other in product(nodes, repeat=3):
        if (one, middle) in least and (middle, other) in least:
            through = least[one, middle] + least[middle, other]
            least[one, other] = min(through, least.get((one, other), through))
    return None if any(least[name, name] < 0 for name in nodes) else least


def compare(derived: set[Arrow], simulated: set[Arrow]) -> None:
    """Each set implies the other, or both are impossible."""
    have, need = closure(derived), closure(simulated)
    event("possible" if need is not None else "impossible")
    assert (have is None) == (need is None)
    if have is not None and need is not None:
        assert {a for a in simulated if have.get(a[:2], SPAN) > a[2]} == set(), "missing"
        assert {a for a in derived if need.get(a[:2], SPAN) > a[2]} == set(), "unfounded"


def reads(kernel: Kernel, edge: Edge) -> bool:
    """Whether the source of ``edge`` reads the storage that the edge protects."""
    regions = {kernel.piece[read.piece].region for read in kernel.operation[edge.src].reads}
    names = edge.about
    return any(name in names or kernel.region[name].ring in names for name in regions)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(kernels(), st.data())
def test_edges_are_the_conflicts_of_simulated_storage(kernel: Kernel, data: st.DataObject) -> None:
    assume(not any(storage_mistakes(kernel)))
    graph = derive(kernel)
    chosen = {c.name: data.draw(st.sampled_from(c.options), c.name) for c in graph.choices}
    depths = {region.name: region.depth.low for region in kernel.regions}
    simulation = Simulation(kernel, chosen)
    flows: dict[str, set[Arrow]] = defaultdict(set)
    others: dict[str, set[Arrow]] = defaultdict(set)
    for edge in graph.resolve(
        depths, {c.name: c.options.index(chosen[c.name]) for c in graph.choices}
    ):
        name = edge.about[-1]
        store = simulation.store(name) if name in kernel.region else name
        flow = edge.kind in (EdgeClass.FLOW, EdgeClass.CARRIED)
        (flows if flow else others)[store].add((edge.src, edge.dst, edge.distance))
        assert edge.kind is not EdgeClass.ANTI or reads(kernel, edge)
    for store in {simulation.store(region.name) for region in kernel.regions}:
        assert flows[store] == simulation.flows[store]
        compare(flows[store] | others[store], flows[store] | simulation.conflicts[store])
