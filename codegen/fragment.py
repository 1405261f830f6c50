"""Which elements of a tile the threads of a role have in registers.

A role of four warps works on tiles of ``rows`` rows. Its threads hold whole tiles between them, in
the way in which the tensor cores of the architecture, or tensor memory, hand out their results.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from schedgen.codegen.style import QUICK_MAX, SELDOM, STRAIGHT_LOAD, STRAIGHT_STORE, Style

THREADS = 128
"""Threads of a role that does arithmetic."""


@dataclass(frozen=True, slots=True)
class Fragment:
    """``rows`` of a tile, ``values`` of them with elements in each thread.

    A thread's rows begin at ``row_first``, an expression over ``thread``, and are ``row_step``
    apart; element v is in the one with the number ``row``, an expression over ``v``. Its column is
    the sum of ``column_first``, over ``thread``, and ``column_step``, over ``v``; where threads
    have pairs of neighbours, ``pair_step`` is that of the first of two. ``packed`` says whether
    there are instructions for two neighbouring elements. A tile has a multiple of
    ``repeat`` columns. ``load_bytes`` is the library's function that loads tiles of 8-bit elements
    from shared memory, ``load_halves`` the one for elements of two numbers; ``load_words`` and
    ``store_words`` are those for elements of 32 bits, ``turn_words`` stores them transposed.
    ``quick_max``, if there is one, finds maxima of rows that are not negative; ``seldom``, if there
    is one, says whether a condition holds for one of a warp's rows.
    """

    rows: int
    values: int
    row: str
    row_first: str
    row_step: int
    column_first: str
    column_step: str
    packed: bool
    pair_step: str = ""
    repeat: int = 1
    load_bytes: str = "load_tile"
    load_halves: str = "load_tile"
    load_words: str = "load_tile"
    store_words: str = "store_tile"
    turn_words: str = "store_transposed"
    quick_max: str = ""
    seldom: str = ""

    def elements(self, columns: int) -> int:
        """How many elements of that many columns a thread has."""
        return self.rows * columns // THREADS

    def row_at(self, value: str) -> str:
        """Where a thread's row with that number lies in the tile."""
        return f"{self.row_first} + {self.row_step} * {value}" if self.row_step else self.row_first

    @property
    def element_row(self) -> str:
        """Where the row of element ``v`` lies in the tile."""
        return self.row_at(f"({self.row})")

    @property
    def element_column(self) -> str:
        """Where the column of element ``v`` lies in the tile."""
        return " + ".join(filter(None, (self.column_first, self.column_step)))

    @property
    def paired_column(self) -> str:
        """The same with the place in a pair as a bit, where the tile begins at an even column: so
        that the compiler sees which of its bits neighbours have in common.
        """
        if not self.pair_step:
            return self.element_column
        return f"{self.column_first} + {self.pair_step} | v % 2"


WGMMA = Fragment(
    rows=64,
    values=2,
    row="v // 2 % 2",
    row_first="thread // 32 * 16 + thread % 32 // 4",
    row_step=8,
    column_first="2 * (thread % 4)",
    column_step="8 * (v // 4) + v % 2",
    packed=False,
    pair_step="8 * (v // 4)",
    repeat=8,
    load_bytes="load_bytes",
    load_halves="load_halves",
    load_words="load_pairs",
    store_words="store_pairs",
    turn_words="store_turned",
)
"""Results of wgmma.

Thread t of a warpgroup has of 64 rows and N columns the elements v = v0 + 2 v1 + 4 v2 with row
16 (t / 32) + (t / 4) % 8 + 8 v1 and column 8 v2 + 2 (t % 4) + v0 (PTX ISA, register fragments of
wgmma.mma_async). Four neighbouring threads share two rows; all four hold the values of both.
"""


def of_wgmma(style: Style) -> Fragment:
    """The same, in a style that says something of it."""
    found = WGMMA
    if style.straight:
        found = replace(found, load_words=STRAIGHT_LOAD, store_words=STRAIGHT_STORE)
    if style.threes:
        found = replace(found, quick_max=QUICK_MAX)
    return replace(found, seldom=SELDOM) if style.seldom else found


ROW = Fragment(
    rows=128,
    values=1,
    row="0",
    row_first="thread",
    row_step=0,
    column_first="",
    column_step="v",
    packed=True,
)
"""A row for each thread.

Tensor memory has 128 lanes, and warp w of four reaches lanes 32 w to 32 w + 31: with 32 lanes and
32 bits per column (tcgen05.ld and st, shape 32x32b) thread t gets its columns of lane t.
"""
