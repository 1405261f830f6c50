"""Extents, output tiles and parts of tensors for one problem, from the facts of a kernel alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import product

from schedgen.errors import SchedgenError
from schedgen.expressions.nodes import references
from schedgen.kernel import Kernel, Kind, Operation
from schedgen.reference.formulas import arithmetic
from schedgen.reference.rounding import Array
from schedgen.tensors import Place, Walk


@dataclass(frozen=True)
class Sizes:
    """A kernel with the sizes of its tensors: where output tiles are and how long they take."""

    kernel: Kernel
    extents: Mapping[str, int]
    scalars: Mapping[str, int] = field(default_factory=dict[str, int])
    """Those that say which iterations a tile has."""
    blocks: Array | None = None
    counts: Array | None = None
    fulls: Array | None = None
    order: Array | None = None
    """The arrays of a walk."""

    @property
    def parameters(self) -> dict[str, Fraction | bool | str]:
        """The parameters of the kernel: numbers, truth values and words."""
        return {name: _meaning(text) for name, text in self.kernel.parameters}

    def names(self, tile: Mapping[str, int]) -> dict[str, Fraction | bool | str]:
        """What names of exact arithmetic stand for at an output tile."""
        extents = {name: Fraction(size) for name, size in self.extents.items()}
        row, column = (Fraction(tile.get(extent, 0)) for extent in self.kernel.tile_extents)
        numbers = {f"tile_{extent}": Fraction(at) for extent, at in tile.items()}
        declared = {*self.parameters, *(argument.name for argument in self.kernel.arguments)}
        place = {name: at for name, at in numbers.items() if name not in declared}
        place |= {"tile_row": row, "tile_column": column}
        whole = {name: Fraction(value) for name, value in self.scalars.items()}
        return {**self.parameters, **extents, **whole, **place}

    @property
    def all_trips(self) -> int:
        """Iterations of the main loop, of a tile that needs them all: at least one."""
        assert self.kernel.trip_count is not None
        return max(1, int(arithmetic(self.kernel.trip_count, self.names({}))))

    def iterations(self, tile: Mapping[str, int]) -> Sequence[int]:
        """The iterations of the main loop that one output tile has, at least one; in a walk the
        blocks that it takes.
        """
        kernel, names = self.kernel, self.names(tile)
        if kernel.walk is not None:
            return self._walked(self._listed_at(kernel.walk, tile))
        end, first = self.all_trips, 0
        if kernel.tile_trips is not None:
            end = min(end, max(1, int(arithmetic(kernel.tile_trips, names))))
        if kernel.tile_first is not None:
            first = max(0, min(end - 1, int(arithmetic(kernel.tile_first, names))))
        return range(first, end)

    def partly(self, tile: Mapping[str, int], number: int) -> bool:
        """Whether iteration ``number`` of an output tile is not among the full ones of a list."""
        if self.fulls is None or self.kernel.walk is None:
            return True
        return number >= int(self.fulls[self._listed_at(self.kernel.walk, tile)])

    def _listed_at(self, walk: Walk, tile: Mapping[str, int]) -> tuple[int, ...]:
        """Where the arrays of a walk have an output tile: at its number, or where their order has
        that.
        """
        at = [tile[extent] for extent in walk.axes]
        if self.order is not None:
            at[-1] = self.order[tuple(at[:-1])].tolist().index(at[-1])
        return tuple(at)

    def _walked(self, at: tuple[int, ...]) -> list[int]:
        assert self.blocks is not None
        assert self.counts is not None
        row = self.blocks[at]
        taken = row[: max(1, int(self.counts[at]))]
        last = self.all_trips - 1
        return [0 if block < 0 else last if block > last else int(block) for block in taken]

    def tiles(self) -> list[dict[str, int]]:
        """The output tiles, by the extents that they are cut along.

        Raises SchedgenError if the stores of the kernel do not make up a grid.
        """
        axes = self.kernel.grid
        if not axes:
            raise SchedgenError(f"the stores of {self.kernel.name} do not make up a grid of tiles")
        counts = [range(-(-self.extents[axis.extent] // axis.block)) for axis in axes]
        found = [
            {axis.extent: at for axis, at in zip(axes, place, strict=True)}
            for place in product(*counts)
        ]
        when = self.kernel.tile_when
        if when is not None:
            found = [tile for tile in found if arithmetic(when, self.names(tile))]
        if self.kernel.tiles != "lower_triangle":
            return found
        block = {axis.extent: axis.block for axis in axes}
        row, column = self.kernel.tile_extents
        return [t for t in found if (t[row] + 1) * block[row] - 1 >= t[column] * block[column]]

    def start(self, place: Place, tile: Mapping[str, int], iteration: int) -> int:
        """The first element along an axis."""
        if place.grouped:
            return tile[place.along] * self.extents[place.extent] // self.extents[place.along]
        first = tile[place.split_k] * self.all_trips if place.split_k else 0
        coordinate = tile[place.along] if place.along else 0
        return place.offset + place.block * coordinate + place.step * (first + iteration)

    def parts(
        self, operation: Operation, tile: Mapping[str, int], iteration: int
    ) -> tuple[tuple[slice, ...], tuple[int, int], bool]:
        """Which elements of its tensor a load or store touches: a slice along each axis, how many
        rows and columns of the tile those are, and whether the columns' axis comes first.
        """
        slices: list[slice] = []
        lengths = {"rows": 1, "columns": 1}
        sides: list[str] = []
        for place in operation.places:
            extent = self.extents[place.extent]
            begin = min(self.start(place, tile, iteration), extent)
            end = min(begin + place.size, extent)
            slices.append(slice(begin, end))
            lengths[place.side or "rows"] *= end - begin
            sides += [place.side] if place.side else []
        flipped = sides[:1] == ["columns"] and len(sides) == 2
        return tuple(slices), (lengths["rows"], lengths["columns"]), flipped


def deciding(kernel: Kernel) -> set[str]:
    """Names in what says which iterations an output tile has, and whether it is computed."""
    formulas = [*kernel.tile_range, *([] if kernel.tile_when is None else [kernel.tile_when])]
    return {name.name for formula in formulas for name in references(formula)}


def stored_tensors(kernel: Kernel) -> set[str]:
    """The arguments that the kernel writes."""
    return {o.tensor or "" for o in kernel.operations if o.kind is Kind.STORE}


def _meaning(text: str) -> Fraction | bool | str:
    if text in ("true", "false"):
        return text == "true"
    try:
        return Fraction(text)
    except ValueError:
        return text
