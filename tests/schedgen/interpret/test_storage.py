"""Physical storage: slots, overlapping accesses, poison."""

from __future__ import annotations

import pytest
import torch

from schedgen.interpret.problem import InterpretationError
from schedgen.interpret.storage import Cells
from schedgen.kernel import Space
from schedgen.program.model import Capacities, Program
from schedgen.program.operations import Access, Allocation, Engine, Number, TileOperation
from tests.schedgen.interpret.problems import kernel_of

KERNEL = kernel_of("""
schedgen: 1
kernel: two
targets: [b200]
arguments:
  x: {shape: [m, n], dtype: f32}
  y: {shape: [m, n], dtype: f32}
dimensions: {part: {count: 2}}
buffers:
  S: {space: smem, shape: [4, 8]}
  P: {space: smem, shape: [4, 8], dtype: bf16, split: {columns: part}}
loops: {trips: 1}
operations:
  body:
    - {id: L, kind: load, from: x, to: S}
    - {id: M, kind: map, over: [part], to: {P: 1}}
    - {id: R, kind: map, to: {S: P + 0}}
    - {id: T, kind: store, from: S, to: y}
""")


def access(buffer: str, columns: tuple[int, int], rows: tuple[int, int] = (0, 4)) -> Access:
    return Access("S", Number(), rows, columns, True, (0, 0, 0), buffer)


def cells(*accesses: Access, rows: int = 4, row_bytes: int = 32) -> Cells:
    operation = TileOperation("L", Engine.THREADS, accesses, (0, 0), (0, 0))
    allocations = (Allocation("S", Space.SMEM, 2, rows, row_bytes, 0, 256),)
    head = ("two", "b200", "sm_100a", "", 1, 1, Capacities(0, 0, 0, 0, 0))
    return Cells(Program(*head, allocations, (operation,), (), ()), KERNEL)


HOST = access("S", (0, 32))
GUESTS = access("P[0]", (16, 24)), access("P[1]", (24, 32))


def test_accesses_cover_whole_cells() -> None:
    storage = cells(HOST, *GUESTS)
    assert storage.total == 6  # bytes 0 to 16, 24 and 32, in two slots
    assert storage.cells(HOST, 0) == storage.cells(HOST, 2) == (0, 1, 2)
    assert storage.cells(HOST, 1) == (3, 4, 5)
    assert [storage.cells(guest, 0) for guest in GUESTS] == [(1,), (2,)]


def test_guest_overwrites_its_part_of_the_host() -> None:
    storage = cells(HOST, *GUESTS)
    host = torch.arange(32, dtype=torch.float32).reshape(4, 8)
    guest = torch.full((4, 4), 7, dtype=torch.bfloat16)
    memory = list(storage.numbers(HOST, host))
    (memory[1],) = storage.numbers(GUESTS[0], guest)
    found = storage.tile(HOST, memory)
    assert torch.equal(found[:, :4], host[:, :4])
    assert torch.equal(found[:, 6:], host[:, 6:])
    assert torch.equal(found[:, 4:6].contiguous().view(torch.bfloat16), guest)


def test_equal_bytes_have_equal_numbers() -> None:
    storage = cells(HOST, *GUESTS)
    guest = torch.full((4, 4), 7, dtype=torch.bfloat16)
    assert storage.numbers(GUESTS[0], guest) == storage.numbers(GUESTS[1], guest.clone())
    assert storage.numbers(GUESTS[0], guest) != storage.numbers(GUESTS[1], guest + 1)


def test_poison_is_no_number() -> None:
    storage = cells(HOST, *GUESTS)
    assert storage.tile(HOST, [0, 0, 0]).isnan().all()
    assert storage.tile(GUESTS[0], [0]).isnan().all()


def test_tiles_of_other_shapes_lie_in_a_slot_row_by_row() -> None:
    """In a ring of tiles with different shapes a slot is one row of bytes."""
    whole = access("S", (0, 128), (0, 1))
    storage = cells(whole, rows=1, row_bytes=256)
    tile = torch.arange(32, dtype=torch.float32).reshape(4, 8)
    numbers = storage.numbers(whole, tile)
    assert torch.equal(storage.tile(whole, numbers), tile)


def test_access_of_another_size() -> None:
    storage = cells(access("S", (0, 16)))
    with pytest.raises(InterpretationError, match="has another size than it"):
        storage.tile(access("S", (0, 16)), [0])
