"""Output tiles of a ragged extent without those that begin behind a size.

Numbered like tiles of equal sizes, each number has as many tiles as all that is packed might need,
and most are left out. Dense, tiles of a number follow those of the one before, and how many there
are is data: a kernel adds that up when it begins, and every other count that blocks, or the
counter that they claim from, know is the one of the host, no less than that unless numbers
overlap. So a tile that a block comes to is always one that is computed.

A role finds the number of a tile by a search through the array, 32 numbers at a time: no kernel
in front of this one, no array of its own, nothing that is kept from one tile to the next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from schedgen.codegen.ir import Code, LibraryFunction, Name, called, code, joined
from schedgen.codegen.plan import Plan
from schedgen.codegen.ragged import sizes_by
from schedgen.codegen.source import Source
from schedgen.extents import falls, uneven
from schedgen.ordered import ordered_sums
from schedgen.ragged import cut_densely

BAND = 8
"""Rows of tiles in a band, see `in_bands` of the library."""


class DenseTiles:
    """Those of a kernel that has them: along an extent of the grid, and what that is ragged of."""

    def __init__(self, plan: Plan) -> None:
        one = cut_densely(plan.kernel)
        assert one is not None
        self.one, self.block, self._kernel = one, plan.block(one.extent), plan.kernel
        rows, self._columns = plan.kernel.tile_extents
        self._even = rows == one.extent and not uneven(plan.kernel)

    @property
    def axes(self) -> tuple[str, str]:
        """The extents of the grid that are numbered together."""
        return self.one.of, self.one.extent

    def most(self) -> Code:
        """On the host: as many tiles as there may be. No number has more than its size and
        ``block - 1`` elements more have room for.
        """
        packed = Name(f"n_{self.one.packed}")
        if self.block == 1:
            return code("{}", packed)
        more = self.block - 1
        return code(f"(({{}} + {{}} * {more}) // {self.block})", packed, self._numbers)

    def count(self) -> Code:
        """On the device: how many tiles there are."""
        return called("tiles_of_all", *self._sizes, self.block)

    def counted(self, source: Source, others: Sequence[Code]) -> None:
        """On the device: how many tiles there are, of which ``others`` lie side by side."""
        tiles = joined(" * ", [self.count(), *others])
        if self._kernel.claim == "launch":
            # Numbers that overlap, which is a mistake of the caller's, have more of them. The last
            # ones are left out, for no other tile waits for their turns.
            tiles = code("cutlass.min({}, cute.arch.grid_dim()[0])", tiles)
        source.comment("no more than there are blocks for, or than the host counted")
        source.add(code("tiles = {}", tiles))

    @property
    def turned_around(self) -> bool:
        """Whether the last tiles of a number come first: they have the most iterations, or others
        add after them (`schedgen.ordered`).
        """
        late = not falls(self._kernel) or bool(ordered_sums(self._kernel))
        return uneven(self._kernel) and late

    def banded(self, others: Sequence[str]) -> bool:
        """Whether tiles along columns, of which there may be many, are all that is not numbered
        densely, and all tiles are the same work.
        """
        return self._even and list(others) == [self._columns]

    def by_band(self, others: Sequence[str], counts: Mapping[str, Code]) -> dict[str, Code]:
        """On the host: what a band of rows is divided by, where tiles are `banded`."""
        return {"band": code(f"{BAND} * {{}}", counts[others[0]])} if self.banded(others) else {}

    def in_bands(self, source: Source, tile: Name, tiles: Name) -> None:
        """On the device: the column of a tile, and in ``rest`` which one of all rows it is in. A
        band may have rows of several numbers: each row's operand is then read by a part of it.
        """
        columns = Name(f"by_{self._columns}")
        rows = code("divmod({}, {})[0]", tiles, columns)  # no variable: extents may have its name
        found = called("in_bands", tile, rows, Name("by_band"))
        source.add(code("rest, {} = {}", Name(f"at_{self._columns}"), found))

    def place(self, source: Source, tile: Name) -> None:
        """On the device: ``at_X`` along `axes`, where a tile lies."""
        at = [Name(f"at_{axis}") for axis in self.axes]
        found = called("number_of_tile", tile, *self._sizes, self.block)
        source.add(code("{}, {} = {}", *at, found))

    def turn_around(self, source: Source) -> None:
        """On the device, behind sizes: the last tiles of a number first."""
        at, size = Name(f"at_{self.one.extent}"), Name(self.one.extent)
        source.comment("short tiles first" if falls(self._kernel) else "long tiles first")
        last = code(f"cute.ceil_div({{}}, {self.block}) - 1 - {{}}", size, at)
        # Else the compiler makes it part of how many iterations there are, in each role in its way.
        source.add(code("{} = {}", at, called("opaque", last)))

    @property
    def _sizes(self) -> tuple[LibraryFunction, Name, Name, Name]:
        """What reads the array, the array, how many numbers there are and what is packed."""
        array, packed = Name(f"of_{self.one.array}"), Name(self.one.packed)
        return LibraryFunction(sizes_by(self.one)), array, self._numbers, packed

    @property
    def _numbers(self) -> Name:
        return Name(self.one.of)
