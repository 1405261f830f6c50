"""Which elements of a tile the threads of a role have in registers.

A role of four warps works on tiles of ``rows`` rows. Its threads hold whole tiles between them, in
the way in which the tensor cores of the architecture, or tensor memory, hand out their results.
"""

from __future__ import annotations

from dataclasses import dataclass

THREADS = 128
"""Threads of a role that does arithmetic."""


@dataclass(frozen=True, slots=True)
class Share:
    """``rows`` of a tile, ``values`` of them with elements in each thread.

    ``row`` is the number of element v's row among these values; ``row_at`` and ``column_at`` are
    where the element lies in the tile. All three are expressions over ``v`` and ``thread``.
    """

    rows: int
    values: int
    row: str
    row_at: str
    column_at: str

    def elements(self, columns: int) -> int:
        """How many elements of that many columns a thread has."""
        return self.rows * columns // THREADS


FRAGMENT = Share(
    rows=64,
    values=2,
    row="v // 2 % 2",
    row_at="thread // 32 * 16 + thread % 32 // 4 + 8 * (v // 2 % 2)",
    column_at="8 * (v // 4) + 2 * (thread % 4) + v % 2",
)
"""Results of wgmma.

Thread t of a warpgroup has of 64 rows and N columns the elements v = v0 + 2 v1 + 4 v2 with row
16 (t / 32) + (t / 4) % 8 + 8 v1 and column 8 v2 + 2 (t % 4) + v0 (PTX ISA, register fragments of
wgmma.mma_async). Four neighbouring threads share two rows; all four hold the values of both.
"""

ROW = Share(rows=128, values=1, row="0", row_at="thread", column_at="v")
"""A row for each thread.

Tensor memory has 128 lanes, and warp w of four reaches lanes 32 w to 32 w + 31: with 32 lanes and
32 bits per column (tcgen05.ld and st, shape 32x32b) thread t gets its columns of lane t.
"""
