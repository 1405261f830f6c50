"""Which output tiles a block computes, and where they lie."""

from __future__ import annotations

from fractions import Fraction

from schedgen.codegen.errors import EmitError
from schedgen.codegen.formulas import code
from schedgen.codegen.plan import Plan
from schedgen.codegen.source import Source
from schedgen.expressions import Binary, Call, Expression, Name, Number
from schedgen.expressions.nodes import walk
from schedgen.kernel import Kernel, Kind


class Tiles:
    """A static persistent schedule: block b computes tiles b, b + blocks, b + 2 blocks, ..."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        if plan.kernel.tiles not in ("all", "lower_triangle"):
            raise EmitError(f"no emitter for tiles '{plan.kernel.tiles}'")
        self.triangle = plan.kernel.tiles == "lower_triangle"
        self.single = single_extents(plan.kernel)

    def _count(self, extent: str) -> str:
        block = self.plan.block(extent)
        return extent if block == 1 else f"cute.ceil_div({extent}, {block})"

    @property
    def counts(self) -> list[tuple[str, str]]:
        """(extent, number of tiles along it), outermost first; without those that are 1."""
        extents = [axis.extent for axis in self.plan.kernel.grid]
        return [(extent, self._count(extent)) for extent in extents if extent not in self.single]

    @property
    def condition(self) -> str:
        return "tile < tiles"

    def trips(self) -> str:
        assert self.plan.kernel.trip_count is not None
        return integer(self.plan.kernel.trip_count)

    def total(self) -> str:
        """All tiles of the grid; of a triangle, those of the whole rectangle."""
        return " * ".join(count for _, count in self.counts) or "1"

    def begin(self, source: Source) -> None:
        fewer = self.plan.kernel.tile_trips is not None
        source.add(f"{'all_trips' if fewer else 'trips'} = {self.trips()}")
        if fewer:
            source.add("first = Int32(0)")
        if self.triangle:
            source.add(f"tiles = {self._triangle_call('count_triangle')}")
        else:
            source.add(f"tiles = {self.total()}")
        source.add("tile = cute.arch.block_idx()[0]", "t = Int32(0)")

    def _triangle_call(self, function: str, first: str = "") -> str:
        rows, columns = self.plan.kernel.tile_extents
        outer = [c for e, c in self.counts if e not in (rows, columns)]
        blocks = f"{self.plan.block(rows)}, {self.plan.block(columns)}"
        sizes = f"{self._count(rows)}, {self._count(columns)}"
        return f"{function}({first}{' * '.join(outer) or '1'}, {sizes}, {blocks})"

    @property
    def _banded(self) -> bool:
        """Whether there may be many rows and many columns of tiles, and all are the same work."""
        kernel = self.plan.kernel
        fixed = {name for name, _ in kernel.parameters}
        axes = tuple(axis.extent for axis in kernel.grid[-2:])
        fixed |= self.single
        return kernel.tile_trips is None and axes == kernel.tile_extents and not fixed & {*axes}

    def coordinates(self, source: Source) -> None:
        for axis in self.plan.kernel.grid:
            if axis.extent in self.single:
                source.add(f"at_{axis.extent} = 0")
        if self.triangle:
            rows, columns = self.plan.kernel.tile_extents
            source.add(
                f"outer, at_{rows}, at_{columns} = {self._triangle_call('in_triangle', 'tile, ')}"
            )
            rest, axes = "outer", [(e, c) for e, c in self.counts if e not in (rows, columns)]
        elif self._banded:
            (rows, height), (columns, width) = self.counts[-2:]
            source.add(
                f"rows, columns = {height}, {width}",
                f"at_{rows}, at_{columns} = in_bands(tile % (rows * columns), rows, columns)",
                "outer = tile // (rows * columns)",
            )
            rest, axes = "outer", self.counts[:-2]
        else:
            rest, axes = "tile", self.counts
        for number, (extent, count) in enumerate(reversed(axes)):
            last = number == len(axes) - 1
            at = rest if last else f"{rest} % ({count})"
            if (
                self.plan.kernel.tile_trips is not None
                and extent == self.plan.kernel.tile_extents[0]
            ):
                source.comment("the last rows of tiles have the most iterations, and come first")
                at = f"({count}) - 1 - {at}"
            source.add(f"at_{extent} = {at}")
            if not last:
                source.add(f"rest = {rest} // ({count})")
                rest = "rest"
        needed = self.plan.kernel.tile_trips
        if needed is None:
            source.add("first = t * trips")
        else:
            rows, columns = self.plan.kernel.tile_extents
            count = integer(needed, {"tile_row": f"at_{rows}", "tile_column": f"at_{columns}"})
            source.add(f"trips = cutlass.min(all_trips, cutlass.max(Int32({count}), Int32(1)))")

    def advance(self, source: Source) -> None:
        if self.plan.kernel.tile_trips is not None:
            source.add("first += trips")
        source.add("tile += cute.arch.grid_dim()[0]", "t += 1")

    def condition_of(self, when: Expression) -> str:
        """A condition of a store, over the coordinates of the tile."""
        rows, columns = self.plan.kernel.tile_extents
        names = {"tile_row": f"at_{rows}", "tile_column": f"at_{columns}"}
        return integer_condition(when, names)


def single_extents(kernel: Kernel) -> set[str]:
    """Extents that fit into one tile: products add up along them, and no loop goes there."""
    found: set[str] = set()
    for product in (operation for operation in kernel.operations if operation.kind is Kind.MMA):
        for operand, side in (
            ("a", "columns"),
            ("b", "columns" if product.transpose_b else "rows"),
        ):
            pieces = set(dict(product.operands)[operand])
            found |= {
                place.extent
                for load in kernel.operations
                if load.kind is Kind.LOAD and pieces & set(load.writes)
                for place in load.places
                if place.side == side and not place.step
            }
    return found


def integer(expression: Expression, names: dict[str, str] | None = None) -> str:
    """An expression over extents, in integers."""
    match expression:
        case Call("ceil", (Binary("/", left, right),)):
            return f"cute.ceil_div({integer(left, names)}, {integer(right, names)})"
        case Number(value) if value.denominator == 1:
            return str(int(value))
        case Name(name):
            return (names or {}).get(name, name)
        case Binary("+" | "-" | "*" as operator, left, right):
            return f"({integer(left, names)} {operator} {integer(right, names)})"
        case _:
            raise EmitError(f"no emitter for the number '{expression}'")


def integer_condition(expression: Expression, names: dict[str, str]) -> str:
    text = code(expression, lambda name: names.get(name.name, name.name))
    return text.replace(".0", "") if _whole(expression) else text


def _whole(expression: Expression) -> bool:
    numbers = [n.value for n in walk(expression) if isinstance(n, Number)]
    return all(Fraction(n).denominator == 1 for n in numbers)
