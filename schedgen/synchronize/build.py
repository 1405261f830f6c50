"""A program without synchronization: storage, accesses and the order of each role, from a schedule.

A region has its own allocation, or it takes turns in that of a ring, or it lives in that of its
host. Versions are numbered per iteration or per tile; a ring of n regions is filled n times in each
of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from schedgen.dependence import RingOption, ring_options
from schedgen.errors import SchedgenError
from schedgen.kernel import Kernel, Kind, Operation, Phase, Piece, Region, Ring, Space
from schedgen.machine import Cost, Machine, price
from schedgen.program.model import Capacities
from schedgen.program.operations import Access, Allocation, Engine, Number, TileOperation
from schedgen.program.threads import spread_of
from schedgen.schedule import Schedule, ScheduledBuffer
from schedgen.solver.storage import aligned_bytes


class ProgramError(SchedgenError, ValueError):
    """The schedule cannot be made a program; the message says why."""

    status = 1


@dataclass(frozen=True, slots=True)
class Home:
    """Where a region lives: its allocation, the number of its versions, bytes into each row, and
    whether it is a tenant there.
    """

    allocation: str
    version: Number
    shift: int
    tenant: bool
    rows: int
    row_bytes: int


class Storage:
    """The allocations of a schedule and the home of each region."""

    def __init__(self, kernel: Kernel, schedule: Schedule, machine: Machine) -> None:
        self.kernel, self.machine = kernel, machine
        self.buffer = {buffer.name: buffer for buffer in schedule.buffers}
        self.homes: dict[str, Home] = {}
        self.allocations: list[Allocation] = []
        self._outer = _used_outside(kernel)
        for ring in kernel.rings:
            self._add_ring(ring)
        for region in kernel.regions:
            if region.ring is None and self.buffer[region.name].alias is None:
                self._add_region(region)
        for region in kernel.regions:
            if self.buffer[region.name].alias is not None:
                self._add_tenant(region)
        self.mixed = {allocation.name for allocation in self.allocations if self._mixed(allocation)}
        """Stores in shared memory in which tiles of different shapes lie."""

    def _mixed(self, allocation: Allocation) -> bool:
        homes = [
            (name, home) for name, home in self.homes.items() if home.allocation == allocation.name
        ]
        regions = [self.kernel.region[name] for name, _ in homes]
        shapes = {(region.rows, region.row_bytes) for region in regions}
        moved = any(home.shift for _, home in homes)
        return allocation.space is Space.SMEM and (len(shapes) > 1 or moved)

    def _per_tile(self, region: Region) -> bool:
        inside, outside = self._outer.get(region.name, (False, False))
        if inside and outside and not region.per_tile:
            raise ProgramError(
                f"{region.name} is used in the loop and outside of it; let it live for a tile"
            )
        return region.per_tile or outside

    def _add_ring(self, ring: Ring) -> None:
        regions = [self.kernel.region[name] for name in ring.regions]
        first = self.buffer[ring.regions[0]]
        lags = self._lags(ring)
        shapes = {(region.rows, region.row_bytes) for region in regions}
        # Tiles of different shapes share the bytes of a slot, not its rows.
        rows, row_bytes = shapes.pop() if len(shapes) == 1 else (1, 0)
        row_bytes = row_bytes or max(region.slot_bytes for region in regions)
        self._allocate(ring.name, regions[0].space, first, rows, row_bytes, regions)
        for place, region in enumerate(regions):
            offset = len(regions) * lags[place] + place
            number = Number(len(regions), offset, self._per_tile(region))
            self.homes[region.name] = Home(ring.name, number, 0, False, rows, row_bytes)

    def _lags(self, ring: Ring) -> tuple[int, ...]:
        found = tuple(self.buffer[name].lag for name in ring.regions)
        depth = self.buffer[ring.regions[0]].depth
        if RingOption(depth, found) not in ring_options(ring):
            raise ProgramError(f"ring {ring.name} has a shape that the spec does not allow")
        return found

    def _add_region(self, region: Region) -> None:
        buffer = self.buffer[region.name]
        self._allocate(region.name, region.space, buffer, region.rows, region.row_bytes, [region])
        number = Number(per_tile=self._per_tile(region))
        self.homes[region.name] = Home(region.name, number, 0, False, region.rows, region.row_bytes)

    def _add_tenant(self, region: Region) -> None:
        buffer = self.buffer[region.name]
        assert buffer.alias is not None
        host, place = self.homes[buffer.alias], self.buffer[buffer.alias]
        unit = 4 if region.space is Space.TMEM else 1
        shift = (buffer.address - place.address) * unit
        version = host.version.moved(buffer.skew * host.version.scale)
        self.homes[region.name] = Home(
            host.allocation, version, shift, True, host.rows, host.row_bytes
        )

    def _allocate(
        self,
        name: str,
        space: Space,
        buffer: ScheduledBuffer,
        rows: int,
        row_bytes: int,
        regions: list[Region],
    ) -> None:
        slot = max(
            aligned_bytes(r)
            if space is Space.SMEM
            else r.tmem_columns
            if space is Space.TMEM
            else r.registers
            for r in regions
        )
        size = slot * buffer.depth
        self.allocations.append(
            Allocation(name, space, buffer.depth, rows, row_bytes, buffer.address, size)
        )

    def access(
        self, operation: Operation, piece: Piece, *, write: bool, distance: int, place: int
    ) -> Access:
        """How ``operation``, at ``place`` of the spec, touches ``piece``, ``distance`` iterations
        after it was written."""
        home = self.homes[piece.region]
        version = home.version
        if not version.per_tile:
            version = version.moved(-distance * version.scale)
        rows, columns = (
            (piece.row0, piece.row1),
            (piece.byte0 + home.shift, piece.byte1 + home.shift),
        )
        region = self.kernel.region[piece.region]
        spread = spread_of(self.kernel, self.machine, operation, piece, write=write)
        if home.allocation in self.mixed:
            rows, columns, spread = (0, 1), _in_memory(region, piece, home.shift), None
        elif (home.rows, home.row_bytes) != (region.rows, region.row_bytes) and not home.tenant:
            rows, spread = (0, 1), None
            columns = (piece.row0 * region.row_bytes, piece.row1 * region.row_bytes)
        initial = distance > 0 and not write and region.initial is not None
        lag = 0 if version.per_tile else distance
        order = (int(home.tenant), lag, place)
        return Access(
            home.allocation,
            version,
            rows,
            columns,
            write,
            order,
            piece.name,
            distance if initial else 0,
            spread,
        )


def _in_memory(region: Region, piece: Piece, shift: int) -> tuple[int, int]:
    """The bytes from the first to the last one of ``piece`` in a slot of shared memory.

    For tiles of different shapes in one allocation, of which rows and columns do not compare.
    """
    panels = region.panels(piece)
    return shift + panels[0][0], shift + panels[-1][1]


def _used_outside(kernel: Kernel) -> dict[str, tuple[bool, bool]]:
    """Region -> whether the loop uses it, whether anything else does."""
    used: dict[str, tuple[bool, bool]] = {}
    for operation in kernel.operations:
        for piece in (*(read.piece for read in operation.reads), *operation.writes):
            inside, outside = used.get(kernel.piece[piece].region, (False, False))
            in_loop = operation.phase is Phase.BODY
            used[kernel.piece[piece].region] = (inside or in_loop, outside or not in_loop)
    return used


def accesses(kernel: Kernel, storage: Storage, operation: Operation) -> Iterator[Access]:
    """Everything that ``operation`` reads, then everything that it writes."""
    place = [o.name for o in kernel.operations].index(operation.name)
    for read in operation.reads:
        piece, distance = kernel.piece[read.piece], read.distance
        yield storage.access(operation, piece, write=False, distance=distance, place=place)
    for name in operation.writes:
        piece = kernel.piece[name]
        yield storage.access(operation, piece, write=True, distance=0, place=place)


def engine(operation: Operation, cost: Cost | None, machine: Machine) -> Engine:
    """Who executes ``operation``: bulk copies and products are asynchronous, and so is what shares
    a queue with products.
    """
    if operation.kind is Kind.LOAD:
        return Engine.COPY_IN
    if operation.kind is Kind.STORE:
        return Engine.COPY_OUT
    if cost is not None and any(machine.queue(unit) for unit, _ in cost.units):
        return Engine.TENSOR
    return Engine.WGMMA if operation.kind is Kind.MMA and cost is not None else Engine.THREADS


def tile_operations(
    kernel: Kernel, machine: Machine, storage: Storage
) -> Mapping[str, TileOperation]:
    """All operations with what they touch and how long they take."""
    made: dict[str, TileOperation] = {}
    for operation in kernel.operations:
        cost = None if operation.boundary else price(operation, machine)
        latency = (0, 0) if cost is None else (cost.latency.low, cost.latency.high)
        hold = (0, 0) if cost is None else (cost.hold.low, cost.hold.high)
        if operation.kind is Kind.GATHER:
            latency = hold  # the role goes on; what lands later says so
        who = engine(operation, cost, machine)
        units = () if cost is None else cost.units
        queue = [cycles for unit, cycles in units if machine.in_order(unit, one_role=True)]
        touched = tuple(dict.fromkeys(accesses(kernel, storage, operation)))
        if who is not Engine.THREADS:
            touched = tuple(replace(access, spread=None) for access in touched)
        made[operation.name] = TileOperation(
            operation.name,
            who,
            touched,
            latency,
            hold,
            max(queue, default=0),
            () if cost is None else _units(cost),
        )
    return made


def _units(cost: Cost) -> tuple[tuple[str, int], ...]:
    rates = ((unit, -(-c.numerator // c.denominator)) for unit, c in cost.rates)
    return (*cost.units, *rates)


def capacities(machine: Machine) -> Capacities:
    """What ``machine`` has."""
    return Capacities(
        machine.smem_bytes,
        machine.tmem_columns,
        machine.registers_per_thread_sum,
        machine.max_registers,
        4 * machine.warpgroups,
    )
