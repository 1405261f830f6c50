"""Who owns which storage when, as far as a schedule file tells: its dependences name the buffers
that the main loop writes and reads. Buffers that only operations around the loop use have a place
but no dependences in the file; they have no occupancies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from schedgen.schedule import Schedule, ScheduledBuffer, ScheduledOperation

COLUMN_BYTES = 512
"""A tensor-memory column: 128 lanes of 4 bytes (PTX ISA, tensor memory)."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Version ``iteration`` of ``buffer`` has ``slot`` in [start, end): from the start of the first
    operation that writes it to the end of the last one that reads it.

    ``address`` and ``size``: bytes in shared memory, columns in tensor memory; -1 and registers per
    thread in registers. ``host`` names the buffer that owns the storage, or is empty.
    """

    buffer: str
    space: str
    host: str
    slot: int
    iteration: int
    start: int
    end: int
    address: int
    size: int


def occupancies(
    schedule: Schedule, shown: int, number: Callable[[int], int]
) -> tuple[Occupancy, ...]:
    """Those of the first ``shown`` iterations; ``number`` gives the iteration its name."""
    found: list[Occupancy] = []
    for buffer in schedule.buffers:
        use = _use(schedule, buffer.name)
        if use is None:
            continue
        begin, end, carried = use
        for iteration in range(shown):
            start = begin + iteration * schedule.ii_cycles
            stop = end + iteration * schedule.ii_cycles
            # A running value is updated in place: its next version takes over where it stands.
            stop = min(stop, start + schedule.ii_cycles) if carried else stop
            slot = slot_of(schedule, buffer, iteration)
            found.append(
                Occupancy(
                    buffer.name,
                    buffer.space,
                    buffer.alias or "",
                    slot,
                    number(iteration),
                    start,
                    stop,
                    address_of(schedule, buffer, slot),
                    size_of(buffer),
                )
            )
    return tuple(found)


def slot_of(schedule: Schedule, buffer: ScheduledBuffer, iteration: int) -> int:
    """The slot of version ``iteration``: rings are filled by their buffers in turn, in the order of
    the file; a tenant is where its host's version ``iteration + skew`` is.
    """
    host = next((b for b in schedule.buffers if b.name == buffer.alias), None)
    if host is not None:
        return slot_of(schedule, host, iteration + buffer.skew)
    if buffer.ring is None:
        return iteration % max(buffer.depth, 1)
    ring = [b.name for b in schedule.buffers if b.ring == buffer.ring]
    place = len(ring) * (iteration + buffer.lag) + ring.index(buffer.name)
    return place % max(buffer.depth, 1)


def size_of(buffer: ScheduledBuffer) -> int:
    """What a slot's contents take: bytes, tensor-memory columns, or registers per thread."""
    return buffer.bytes if buffer.space == "smem" else max(1, -(-buffer.bytes // COLUMN_BYTES))


def address_of(schedule: Schedule, buffer: ScheduledBuffer, slot: int) -> int:
    """Where ``slot`` begins; -1 in registers."""
    if buffer.address < 0:
        return -1
    owner = next((b for b in schedule.buffers if b.name == buffer.alias), buffer)
    sharing = [b for b in schedule.buffers if b.ring is not None and b.ring == owner.ring]
    return buffer.address + slot * max(map(_stride, sharing or [owner]))


def _stride(buffer: ScheduledBuffer) -> int:
    """From one slot to the next: bytes with the alignment of tiles, or columns."""
    if buffer.space != "smem":
        return size_of(buffer)
    alignment = 1024 if buffer.bytes >= 1024 else 128  # as schedgen.solver.storage places them
    return -(-buffer.bytes // alignment) * alignment


def _use(schedule: Schedule, buffer: str) -> tuple[int, int, bool] | None:
    """When version 0 begins to be written, when its last reader ends, whether it is carried on."""
    ops = {op.id: op for op in schedule.body}
    moves = [e for e in schedule.edges if e.resource == buffer and e.kind in ("flow", "carried")]
    if not moves:
        return None
    begin = min(_start(schedule, ops[e.src]) for e in moves)
    end = max(
        _start(schedule, ops[e.dst])
        + e.distance * schedule.ii_cycles
        + _reads(schedule, ops[e.dst])
        for e in moves
    )
    return begin, end, any(e.kind == "carried" for e in moves)


def _reads(schedule: Schedule, op: ScheduledOperation) -> int:
    """Cycles for which ``op`` reads: while it has a unit to itself; the result may take longer."""
    exclusive = {unit.name for unit in schedule.units if unit.kind == "exclusive"}
    return op.cycles if op.unit in exclusive else op.latency


def _start(schedule: Schedule, op: ScheduledOperation) -> int:
    return op.stage * schedule.ii_cycles + op.slot
