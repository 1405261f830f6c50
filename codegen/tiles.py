"""Which output tiles a block computes, and where they lie."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext

from schedgen.codegen import ir, rounds
from schedgen.codegen.dense import BAND, DenseTiles
from schedgen.codegen.errors import EmitError
from schedgen.codegen.formulas import integer_condition
from schedgen.codegen.ir import Code, Name, Node, called, code, joined
from schedgen.codegen.plan import Plan
from schedgen.codegen.ragged import RaggedExtents
from schedgen.codegen.source import Source
from schedgen.codegen.tile_groups import Groups, loads_of_loop
from schedgen.codegen.tile_trips import differ, numbers_of_tile, trips_at_most, write_trips
from schedgen.codegen.walks import Walks
from schedgen.expressions import Expression
from schedgen.extents import falls, single_extents, uneven
from schedgen.ordered import ordered_sums
from schedgen.tensors import Argument

TEAM = "team"
"""The number of a warpgroup among those that take tiles in turn."""
_FIRST, _ONE = "tile = cute.arch.block_idx()[0]", code("Int32(1)")
_TRIPS, _TILES, _TILE = Name("trips"), Name("tiles"), Name("tile")


class Tiles:
    """Block b computes tile b, and then b + blocks, b + 2 blocks, ..., no other, or those that it
    claims (`schedgen.program.claims`).
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        if plan.kernel.tiles not in ("all", "lower_triangle", "dense"):
            raise EmitError(f"no emitter for tiles '{plan.kernel.tiles}'")
        placed = (place for o in plan.kernel.operations for place in o.places if place.along)
        unknown = {place.along for place in placed} - {axis.extent for axis in plan.kernel.grid}
        if unknown:
            raise EmitError(
                "tiles of loads and stores disagree about how far output tiles are apart along "
                f"'{min(unknown)}'",
                rule="tiles-disagree",
                fix="give their buffers the same sizes",
            )
        self.ragged = RaggedExtents(plan)
        self.walks = Walks(plan.kernel)
        self.triangle = plan.kernel.tiles == "lower_triangle"
        self.dense = DenseTiles(plan) if plan.kernel.tiles == "dense" else None
        self.single = single_extents(plan.kernel)

    # -- host ----------------------------------------------------------------------------------

    def parameters(self) -> dict[str, str]:
        """What the host computes for the kernel: names and types."""
        found = {self.all_trips.text: "Int32", "tiles": "Int32"}
        found |= {"slices": "Int32"} if self.in_turns else {}
        found |= {"rotation": "Int32"} if self.in_rounds else {}
        return found | {f"by_{name}": "cute.FastDivmodDivisorV2" for name in self._divisors()}

    @property
    def all_trips(self) -> Name:
        """The iterations of a tile, or the most that one may have."""
        return Name("all_trips" if self.differ else "trips")

    @property
    def differ(self) -> bool:
        """Whether each tile has iterations of its own, by a formula or by data."""
        return differ(self.plan.kernel)

    @property
    def late(self) -> bool:
        """Whether where a tile lies is data, too, or found out by each role for itself."""
        return self.differ or bool(self.plan.ragged)

    def _divisors(self) -> dict[str, Code]:
        """``by_X`` -> the number that it divides by, in expressions over extents."""
        return {**(rounds.DIVISOR if self.in_rounds else {}), **self._counts()}

    def _counts(self) -> dict[str, Code]:
        if self.dense is not None:
            found = {axis: self.count(axis) for axis in self._others}
            return found | self.dense.by_band(self._others, found)
        if self.triangle:
            axes = self._outer()
            return {axis: self.count(axis) for axis in axes[1:]} | {"triangle": code("triangle")}
        if self.grouped:
            found = {axis: self.count(axis) for axis in (*self.axes[1:-2], self.axes[-2])}
            count, group = self.count(self.axes[-1]), Name(f"{self.axes[-1]}_in_group")
            return found | {"group": code("{}", group), "groups": code("{} // {}", count, group)}
        if self.banded:
            rows, columns = (self.count(extent) for extent in self.axes[-2:])
            found = {axis: self.count(axis) for axis in self.axes[1:-2]}
            band = code(f"{BAND} * {{}}", columns)
            return found | {"slice": code("{} * {}", rows, columns), "band": band}
        return {axis: self.count(axis) for axis in self.axes[1:]}

    def host(self, source: Source, host: dict[str, str]) -> None:
        """Computes the parameters; ``host`` has the names of extents there."""
        source.add(code("{} = {}", self.all_trips, trips_at_most(self.plan.kernel).renamed(host)))
        counts = [self.count(axis) for axis in self.axes]
        if self.triangle:
            rows, _ = self.plan.kernel.tile_extents
            count = called("tiles_in_rows", self.count(rows), self._blocks).renamed(host)
            source.add(code("triangle = {}", count))
            counts = [*map(self.count, self._outer()), code("triangle")]
        if self.dense is not None:
            counts = [self.dense.most(), *map(self.count, self._others)]
        if self.grouped:
            self._in_groups(source, host)
        source.add(code("tiles = {}", (joined(" * ", counts) if counts else _ONE).renamed(host)))
        if self.in_turns:
            source.add(code("slices = {}", self._slices.renamed(host)))
        if self.in_rounds:
            rounds.of_host(source, self.blocks)
        for name, count in self._divisors().items():
            divisor = "cute.fast_divmod_create_divisor_v2"
            source.add(code(f"by_{name} = {divisor}({{}})", count.renamed(host)))

    def _in_groups(self, source: Source, host: dict[str, str]) -> None:
        """Computes how many tiles along the last axis follow each other in a group."""
        groups = Groups(
            self.plan,
            self.axes[-1],
            self.all_trips.text,
            rows=self.count(self.axes[-2]),
            count=self.count(self.axes[-1]),
            slices=self._product(self.axes[:-2]),
            in_turns=self.in_turns,
            ordered=self.walks.ordered == self.axes[-2],
        )
        groups.write(source, host)

    @property
    def _slices(self) -> Code:
        """The number of slices: tiles of all rows that follow each other."""
        rows = self.plan.kernel.tile_extents[0]
        found = self._product(self.axes[: self.axes.index(rows)])
        if not self.grouped:
            return found
        inner = self.axes[-1]
        return code("{} * ({} // {})", found, self.count(inner), Name(f"{inner}_in_group"))

    def _product(self, axes: Sequence[str]) -> Code:
        """The number of tiles along ``axes``."""
        return joined(" * ", map(self.count, axes)) if axes else _ONE

    @property
    def grouped(self) -> bool:
        """Whether tiles of all rows read the same in the main loop, and those along the last axis
        something else: tiles of as many of the latter as fit in L2 follow each other.
        """
        rows = self.plan.kernel.tile_extents[0]
        if self.triangle or self.dense or self.banded or self.axes[-2:-1] != [rows]:
            return False
        along = {place.along for load in loads_of_loop(self.plan) for place in load.places}
        return rows not in along and self.axes[-1] in along

    @property
    def _blocks(self) -> str:
        return ", ".join(str(self.plan.block(extent)) for extent in self.plan.kernel.tile_extents)

    def _outer(self) -> list[str]:
        """Axes beside rows and columns."""
        return [axis for axis in self.axes if axis not in self.plan.kernel.tile_extents]

    def count(self, extent: str) -> Code:
        """The number of tiles along an extent."""
        block = self.plan.block(extent)
        return code("{}" if block == 1 else f"cute.ceil_div({{}}, {block})", Name(extent))

    # -- device --------------------------------------------------------------------------------

    @property
    def axes(self) -> list[str]:
        """Extents that have more than one tile, outermost first."""
        extents = [axis.extent for axis in self.plan.kernel.grid]
        return [extent for extent in extents if extent not in self.single]

    @property
    def _others(self) -> list[str]:
        """Axes beside the two that are numbered densely."""
        return [axis for axis in self.axes if self.dense and axis not in self.dense.axes]

    @property
    def banded(self) -> bool:
        """Whether there may be many rows and many columns of tiles, and all are the same work."""
        kernel = self.plan.kernel
        fixed = {name for name, _ in kernel.parameters} | self.single
        axes = tuple(axis.extent for axis in kernel.grid[-2:])
        return not (self.late or self.dense) and axes == kernel.tile_extents and not fixed & {*axes}

    @property
    def uneven(self) -> bool:
        """Whether tiles differ in their iterations."""
        return uneven(self.plan.kernel)

    @property
    def sliced(self) -> bool:
        """Whether tiles of all rows follow each other, and have different numbers of iterations."""
        return self.uneven and (self.grouped or self.plan.kernel.tile_extents[0] in self.axes[1:])

    @property
    def in_turns(self) -> bool:
        """Whether rows are gone through down and up in turn in these slices, see `_along`."""
        return self.sliced and self.plan.kernel.claim == "fixed"

    @property
    def in_rounds(self) -> bool:
        """Whether blocks change places from round to round; not where data leave tiles out."""
        return self.in_turns and self.dense is None and not self.plan.ragged

    @property
    def last_first(self) -> bool:
        """Whether the last rows of a slice come first: they have the most iterations, or others add
        after them (`schedgen.ordered`), and begin with what these need last.
        """
        kernel = self.plan.kernel
        return self.sliced and (not falls(kernel) or bool(ordered_sums(kernel)))

    @property
    def blocks(self) -> str:
        """How many blocks there are, on the host."""
        return "tiles" if self.plan.kernel.claim == "launch" else "cutlass.min(tiles, sms)"

    def first(self, source: Source) -> dict[str, str]:
        """Writes where a block's first tile lies; returns variables that roles may take over.

        That depends on no data, so it is done before the kernel waits for the one before it. Where
        the iterations of a tile are a formula, roles find out for themselves: registers are few.
        Nor do they take over the number of the tile then: on an H200 attention with head_dim 128
        and no mask took 3 % longer (files edited by hand).
        """
        if self.late:
            return {}
        source.add(_FIRST)
        self.coordinates(source)
        return dict.fromkeys(["tile", *self.handed_over], "Int32")

    @property
    def handed_over(self) -> list[str]:
        """Variables that say where a block's first tile lies, if the kernel computes them."""
        return [] if self.late else [f"at_{axis}" for axis in self.axes]

    def begin(self, source: Source, teams: int = 1) -> None:
        """Before a role's loop over tiles, of which each of ``teams`` takes every ``teams``-th."""
        source.add(*([_FIRST] if self.late else []))
        source.add(*(["first = Int32(0)"] if self.differ else []))
        if teams > 1:
            first = code("{} += {} * cute.arch.grid_dim()[0]", _TILE, Name(TEAM))
            source.add(code("t = {}", Name(TEAM)), first)
        else:
            source.add("t = Int32(0)")
        source.add(*([rounds.placed()] if self.in_rounds else []))

    def loop(self, source: Source, body: Sequence[Node], *, ahead: bool, teams: int = 1) -> None:
        """Writes a role's loop over tiles; ``body`` is what it does in one.

        ``ahead``: coordinates of the first tile are handed over, those of the next one are computed
        at the end of each. That takes registers.
        """
        used, differ = ir.names(body), self.differ
        elements = {n: a for n, a in self.plan.elements.items() if n in used}
        computed = self._computed()
        placed = differ or elements or computed or used & {f"at_{axis}" for axis in self.axes}
        ahead = ahead and not self.late
        used |= {f"at_{extent}" for tensor in elements.values() for extent in tensor.shape}
        used |= self.walks.coordinates
        source.add(*self._constants(used))
        number = rounds.PLACED if self.in_rounds else _TILE
        with source.block(code("while {} < {}:", number, _TILES)):
            if placed and not ahead:
                self.coordinates(source)
            if not differ:
                source.add(code("first = t * {}", _TRIPS))
            for name, tensor in elements.items():
                source.add(self._element(name, tensor))
            with source.block(code("if {}:", computed)) if computed else nullcontext():
                source.put(*body)
                if differ:
                    source.add("first += trips")
                if computed:
                    source.add("t += 1")
            more = "" if teams == 1 else f"{teams} * "
            each = [] if computed else [f"t += {teams}"]
            if not self.plan.claims:
                source.add(f"tile += {more}cute.arch.grid_dim()[0]")
                source.add(*([rounds.placed()] if self.in_rounds else []))
            source.add(*each)
            if placed and ahead:
                with source.block(code("if {} < {}:", _TILE, _TILES)):
                    self.coordinates(source)

    def _element(self, name: str, tensor: Argument) -> Code:
        """The element of a tensor that belongs to the tile; all threads read the same."""
        at = joined(", ", (Name(f"at_{extent}") for extent in tensor.shape))
        element = code("{}[({},)]", Name(f"of_{tensor.name}"), at)
        return code("{} = Float32({})", Name(name), element)

    def _constants(self, used: set[str]) -> list[str]:
        """Lines for coordinates that are the same for all tiles, as far as a role uses them."""
        names = [f"at_{a.extent}" for a in self.plan.kernel.grid if a.extent in self.single]
        return [f"{name} = 0" for name in names if name in used]

    def coordinates(self, source: Source) -> None:
        """``at_X`` for each extent that has several tiles; ``trips`` and ``skipped``, how many
        iterations come before the tile's first one, if they depend on them.
        """
        rows, columns = self.plan.kernel.tile_extents
        rest, axes = rounds.PLACED if self.in_rounds else _TILE, self.axes
        if self.triangle:
            found = called("in_triangle", "inside", self.count(rows), self._blocks)
            source.add(
                code("rest, inside = divmod({}, {})", _TILE, Name("by_triangle")),
                code("{}, {} = {}", *self._at(rows, columns), found),
            )
            rest, axes = Name("rest"), self._outer()
        elif self.banded:
            found = called("in_bands", "inside", self.count(rows), Name("by_band"))
            source.add(
                code("rest, inside = divmod({}, {})", _TILE, Name("by_slice")),
                code("{}, {} = {}", *self._at(rows, columns), found),
            )
            rest, axes = Name("rest"), axes[:-2]
        elif self.dense is not None:
            if self.dense.banded(self._others):
                self.dense.in_bands(source, _TILE, _TILES)
            else:
                for axis in reversed(self._others):
                    self._along(source, axis, rest)
                    rest = Name("rest")
            self.dense.place(source, Name("rest") if self._others else rest)
            axes = []
        elif self.grouped:
            source.add(
                code("rest, inside = divmod({}, {})", rest, Name("by_group")),
            )
            self._along(source, rows, Name("rest"))
            source.add(
                code("rest, group = divmod(rest, {})", Name("by_groups")),
                code("{} = group * {}.divisor + inside", *self._at(axes[-1]), Name("by_group")),
            )
            rest, axes = Name("rest"), axes[:-2]
        for axis in reversed(axes[1:]):
            self._along(source, axis, rest)
            rest = Name("rest")
        source.add(*(code("{} = {}", *self._at(axis), rest) for axis in axes[:1]))
        self.ragged.sizes(source)
        if self.dense is not None and self.dense.turned_around:
            self.dense.turn_around(source)
        if self.walks.ordered:
            self.walks.place(source, self.count(self.walks.ordered))
        write_trips(source, self.plan.kernel, self.walks)

    def counted(self, source: Source) -> None:
        """Writes how many tiles there are where that is data, which the kernel begins with."""
        if self.dense is not None:
            others = [code("{}.divisor", Name(f"by_{axis}")) for axis in self._others]
            self.dense.counted(source, others)

    def _along(self, source: Source, axis: str, rest: Name) -> None:
        """``at_X``, and in ``rest`` what is left of the number of the tile.

        Blocks take a tile of each round. If rows with the most iterations came first in all slices,
        the first blocks would have more work than the last ones, by a quarter where slices are
        short; so every other slice is gone through backwards, and blocks change places. Those that
        come to tiles otherwise have as much work as others anyway.
        """
        source.add(code("rest, {} = divmod({}, {})", *self._at(axis), rest, Name(f"by_{axis}")))
        if not self.sliced or axis != self.plan.kernel.tile_extents[0]:
            return
        at, divisor = self._at(axis)[0], Name(f"by_{axis}")
        back = code("{} = {}.divisor - 1 - {}", at, divisor, at)
        if self.in_turns:
            way, odd = ("down", 1) if self.last_first else ("up", 0)
            source.comment(f"{axis} down and up in turn, {way} in the last slice: long tiles first")
            with source.block(code(f"if ({{}} - rest) % 2 == {odd}:", Name("slices"))):
                source.add(back)
        elif self.last_first:
            source.comment("short tiles first" if falls(self.plan.kernel) else "long tiles first")
            source.add(back)

    def _at(self, *axes: str) -> list[Name]:
        """Variables that are given values; those that a branch changes have to be there before."""
        return [Name(f"at_{axis}") for axis in axes]

    def _computed(self) -> Code | None:
        """Whether an output tile is computed; None: all are."""
        found = [self.ragged.computed()]
        when = self.plan.kernel.tile_when
        if when is not None:
            found.append(integer_condition(when, numbers_of_tile(self.plan.kernel), extremes=True))
        terms = [term for term in found if term is not None]
        return joined(" and ", terms) if terms else None

    def condition_of(self, when: Expression) -> Code:
        """A condition of a store, over the coordinates of the tile."""
        return integer_condition(when, numbers_of_tile(self.plan.kernel))
