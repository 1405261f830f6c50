"""Where the tiles of a spec lie in global tensors, from the names of extents.

The rules: the rows and columns of a tile lie along the last extents of a tensor, or along those
that it calls ``tiled``; along its other extents the tile is one element, and so is a tile of one
row along the extent of its rows. The extent that the trip count grows with is walked by the main
loop; extents of tensors that are stored are cut into output tiles; every other one is covered as a
whole. Along an extent that the main loop walks a tile is the
next one in each iteration, or the next element if it does not lie along it. Instances of a buffer
lie side by side: along the columns if their dimension splits columns elsewhere, else along the
rows; of a dimension that splits both, such as of keys, as what threads compute with them is split.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import prod

from schedgen.expressions import Expression, ExpressionError, evaluate, references
from schedgen.kernel import LOADS, Kind, Operation, Phase
from schedgen.layouts import DTYPE_BITS
from schedgen.operations import Gather, Load, Mma, Store
from schedgen.spec.dimensions import Index
from schedgen.spec.draft import Draft
from schedgen.spec.layout import Layout
from schedgen.spec.schema import SpecFile, Split
from schedgen.spec.spreading import named
from schedgen.spec.values import Scope
from schedgen.tensors import GridAxis, Place

_SIDES = ("rows", "columns")
_COORDINATES = {"row", "column"}
_MUCH = 1024
"""A factor by which an extent outgrows any rounding of the trip count."""


@dataclass(frozen=True, slots=True)
class Part:
    """Number ``number`` of the ``count`` blocks along the extent ``of`` that each output tile, or
    each iteration, has by the dimension ``by``; ``unit`` elements each.
    """

    of: str
    by: str
    number: int
    count: int
    unit: int


class Placing:
    """Finds the place of each tile; nothing is reported, a tile without a place just has none."""

    def __init__(self, spec: SpecFile, scope: Scope, layout: Layout) -> None:
        self.spec = spec
        self.scope = scope
        self.layout = layout

    def places(self, operation: Operation, draft: Draft, index: Index) -> tuple[Place, ...]:
        """Return the places of what ``operation`` moves, or computes from coordinates."""
        if operation.kind in (*LOADS, Kind.STORE):
            operand = "to" if operation.kind in LOADS else "from"
            counted = self._counted(operation, index)
            by = {part.by for part in counted.values()}
            sides = self._sides(
                operand, draft, index, transposed=operation.transposed, elsewhere=by
            )
            return self._in_tensor(operation, sides, counted) or ()
        used = [*operation.formulas, *([("", operation.when)] if operation.when else [])]
        names = {name.name for _, formula in used for name in references(formula)}
        if not names & _COORDINATES:
            return ()
        widest = self._widest(operation, draft)
        sides = self._sides(widest, draft, index)
        extents = list(self.tile_extents)
        shape = self.layout.regions[draft.operands[widest][0].region].shape
        if not any(extents) and len(shape) == 1:
            if "column" in names or not self._of_vectors:
                return ()
            return self._along(self._of_vectors, sides[0], operation), sides[1]
        if operation.phase is Phase.BODY and len(self.walked) == 1:
            extents[1] = next(iter(self.walked))
        if not all(extents):
            return ()
        rows, columns = (self._along(*pair, operation) for pair in zip(extents, sides, strict=True))
        return rows, columns

    def lying(self, operation: Operation, extents: tuple[str, str]) -> Operation:
        """``operation`` with coordinates along the extents that its rows and columns do lie along,
        as far as these are known.
        """
        if operation.tensor is not None or not operation.places:
            return operation
        places: list[Place] = []
        for at, extent in zip(operation.places, extents, strict=True):
            side = replace(at, along="", block=at.block or at.step, step=0, split_k="")
            known = extent and extent != at.extent
            places.append(self._along(extent, side, operation) if known else at)
        return replace(operation, places=tuple(places))

    def _widest(self, operation: Operation, draft: Draft) -> str:
        """Return an output of ``operation`` that has columns, or else one of its vectors."""
        outputs = [name for name, _ in operation.formulas if name in draft.operands]
        names = [name for name in (*outputs, "to") if name in draft.operands]
        regions = {name: self.layout.regions[draft.operands[name][0].region] for name in names}
        wide = [name for name in names if len(regions[name].shape) > 1]
        return (wide or names)[0]

    def grid(self, operations: Sequence[Operation]) -> tuple[GridAxis, ...]:
        """Return the axes along which the stored tensors are cut; none if they disagree.

        Loads and stores say so: coordinates of values per row know nothing of columns.
        """
        blocks: dict[str, set[int]] = {}
        for operation in operations:
            if operation.kind not in (*LOADS, Kind.STORE):
                continue
            for place in operation.places:
                if place.along and not (place.grouped or place.counts):
                    blocks.setdefault(place.along, set()).add(place.block)
        if any(len(found) > 1 for found in blocks.values()):
            return ()
        return tuple(
            GridAxis(extent, blocks[extent].pop()) for extent in self._stored if extent in blocks
        )

    @cached_property
    def tile_extents(self) -> tuple[str, str]:
        """The extents along which the rows and columns of output tiles lie."""
        for store in self.spec.stores:
            tiled = self._tiled(store.to)
            if not store.transposed and len(tiled) == len(_SIDES):
                if store.source in self.layout.present and self.layout.rank(store.source) == 1:
                    continue
                return tiled[0], tiled[1]
        return self._counting

    @property
    def _of_vectors(self) -> str:
        """The extent along which rows lie where only values of rows are stored."""
        along = {self._tiled(store.to)[-1] for store in self.spec.stores}
        return along.pop() if len(along) == 1 else ""

    @property
    def _counting(self) -> tuple[str, str]:
        """The same where only values of rows are stored: columns are what these count tiles of."""
        counts = self.spec.loops.counted
        for store in self.spec.stores:
            *outer, rows = self.spec.arguments[store.to].shape
            along = {counts[extent] for extent in outer if extent in counts}
            if len(along) == 1 and not store.transposed:
                return rows, along.pop()
        return "", ""

    # -- extents -------------------------------------------------------------------------------

    @cached_property
    def _stored(self) -> dict[str, None]:
        """The extents of all tensors that are stored, and those along which these count tiles."""
        shapes = [self.spec.arguments[store.to].shape for store in self.spec.stores]
        stored = {extent: None for shape in shapes for extent in shape}
        counts = self.spec.loops.counted
        return stored | {counts[extent]: None for extent in stored if extent in counts}

    @cached_property
    def walked(self) -> set[str]:
        """The extents that the main loop walks: those that the trip count grows with.

        Another extent may have the name of a parameter there, such as the elements of an iteration,
        by which it divides. A trip count that grows with none is for whatever its loads reach and
        the output has not.
        """
        trips = self.scope.expression(self.spec.loops.trips, ("loops", "trips"))
        named = {name.name for name in references(trips)} if trips is not None else set[str]()
        extents = {size for argument in self.spec.arguments.values() for size in argument.shape}
        extents -= {self.spec.loops.split_k}
        grown = {x for x in sorted(named & extents) if trips is not None and self._grows(trips, x)}
        if grown:
            return grown
        loaded = [e.source for e in self.spec.operations.body if isinstance(e, Load | Gather)]
        reached = {x for name in loaded if name in self.spec.arguments for x in self._tiled(name)}
        return reached - self._stored.keys() - self.spec.parameters.keys()

    def _grows(self, trips: Expression, extent: str) -> bool:
        """Whether there are more iterations of a much larger extent."""
        nominal = self.scope.values.get(extent)
        if not isinstance(nominal, Fraction):
            return False
        try:
            now = evaluate(trips, self.scope.values)
            then = evaluate(trips, {**self.scope.values, extent: nominal * _MUCH})
        except ExpressionError:
            return False
        return isinstance(now, Fraction) and isinstance(then, Fraction) and then > now

    @property
    def _split_k(self) -> str:
        """The extent whose tiles begin at a multiple of the trip count, unless formulas say it."""
        return "" if self.spec.loops.tile_first is not None else self.spec.loops.split_k or ""

    def _tiled(self, tensor: str) -> list[str]:
        argument = self.spec.arguments[tensor]
        return argument.tiled or argument.shape[-2:]

    def _side_of(self, dimension: str, base: str) -> str:
        """Along what instances of the buffer ``base`` lie side by side."""
        splits = [buffer.split for buffer in self.layout.present.values()]
        if {dimension} <= {s.rows for s in splits} & {s.columns for s in splits}:
            splits = self._beside(dimension, base) or splits
        columns = any(split.columns == dimension for split in splits)
        return "columns" if columns and all(s.rows != dimension for s in splits) else "rows"

    def _beside(self, dimension: str, base: str) -> list[Split]:
        """How the nearest buffers are split along ``dimension`` that threads have element by
        element together with ``base``, or with what they have so.
        """
        seen, now = set[str](), {base}
        while now:
            found = [self.layout.present[name].split for name in sorted(now)]
            found = [split for split in found if dimension in (split.rows, split.columns)]
            if found:
                return found
            seen |= now
            now = {n for names in self._together(dimension) if names & now for n in names} - seen
        return []

    def _together(self, dimension: str) -> Iterator[set[str]]:
        """The buffers of each operation of threads over ``dimension``."""
        listed = self.spec.operations
        for entry in (*listed.before, *listed.body, *listed.after):
            if dimension in entry.over and not isinstance(entry, Load | Gather | Store | Mma):
                yield set(named(entry, self.layout.present))

    # -- places --------------------------------------------------------------------------------

    def _sides(
        self,
        operand: str,
        draft: Draft,
        index: Index,
        *,
        transposed: bool = False,
        elsewhere: Collection[str] = (),
    ) -> tuple[Place, Place]:
        """Return size, offset and block of the pieces of an operand: rows, then columns.

        What is ``transposed`` has the columns of the output tile as its rows. Instances along
        dimensions of ``elsewhere`` lie along another extent, and not side by side.
        """
        pieces = draft.operands[operand]
        region = self.layout.regions[pieces[0].region]
        bits = DTYPE_BITS[region.dtype]
        spans = (
            (min(p.row0 for p in pieces), max(p.row1 for p in pieces)),
            (min(p.byte0 for p in pieces) * 8 // bits, max(p.byte1 for p in pieces) * 8 // bits),
        )
        found: list[Place] = []
        frame = _SIDES[::-1] if transposed else _SIDES
        extents = (*region.shape, 1)
        split = self.layout.present[region.base].split
        for side, other, (begin, end), whole in zip(_SIDES, frame, spans, extents, strict=False):
            apart, size = getattr(split, side) in elsewhere, end - begin
            number, count = self._instance(region.base, other, index, elsewhere)
            all_of_it = size if apart else whole
            offset = number * all_of_it + (0 if apart else begin)
            found.append(Place("", side, size, block=count * all_of_it, offset=offset))
        return found[0], found[1]

    def _instance(
        self, base: str, side: str, index: Index, elsewhere: Collection[str]
    ) -> tuple[int, int]:
        """Return the number of a buffer's instance among those side by side, and their count."""
        count = self.layout.dimensions.count
        per = [dim for dim in self.layout.present[base].per if dim not in elsewhere]
        own = [dim for dim in per if self._side_of(dim, base) == side]
        number = 0
        for dim in own:
            number = number * count[dim] + index[dim]
        return number, prod(count[dim] for dim in own)

    def _in_tensor(
        self, operation: Operation, sides: tuple[Place, Place], counted: Mapping[str, Part]
    ) -> tuple[Place, ...] | None:
        """Return the place along each axis of the tensor, None if the spec does not tell."""
        shape = self.spec.arguments[operation.tensor or ""].shape
        tiled = self._tiled(operation.tensor or "")
        operand = "to" if operation.kind in LOADS else "from"
        region = self.layout.regions[_region(operation, operand, self.layout)]
        if len(region.shape) == 1:
            used = {tiled[-1]: sides[0]}
        elif len(tiled) == 1:
            if sides[0].size != 1:
                return None
            used = {tiled[0]: sides[1]}
        else:
            used = dict(zip(tiled, sides, strict=True))
        if len(region.shape) > 1 and region.rows == 1 and not operation.transposed:
            # a row is copied as a vector, from one element along the extent of the rows
            used = {x: s if s.side == "columns" else replace(s, side="") for x, s in used.items()}
        frame = {extent: extent for extent in used}
        if operation.transposed:
            frame = dict(zip(used, reversed(used), strict=True))
        places: list[Place] = []
        for extent in shape:
            if extent in used and extent in counted and extent in self.spec.loops.counted_in:
                places.append(self._blocks(extent, used[extent], counted[extent], operation))
            elif extent in used:
                place = self._along(frame[extent], used[extent], operation)
                places.append(replace(place, extent=extent))
            elif extent in counted:
                places.append(self._block(extent, counted[extent], operation))
            elif extent in self.spec.loops.groups:
                along = self.spec.loops.groups[extent]
                places.append(Place(extent, along=along, grouped=True))
            elif operation.phase is Phase.BODY and extent in self.walked:
                places.append(Place(extent, step=1, split_k=self._split_k))
            elif extent in self._stored:
                places.append(Place(extent, along=extent, block=1))
            else:
                return None
        return tuple(places)

    def _counted(self, operation: Operation, index: Index) -> dict[str, Part]:
        """Which blocks an operation moves, of extents of its tensor that count them."""
        found: dict[str, Part] = {}
        shape = self.spec.arguments[operation.tensor or ""].shape
        for extent, of in self.spec.loops.counted.items():
            if extent in shape:
                by = self.spec.loops.counted_by.get(extent, "")
                count = self.layout.dimensions.count.get(by, 1)
                unit = self.scope.integer(
                    self.spec.loops.counted_in.get(extent, 1), ("loops", "counted_in", extent)
                )
                found[extent] = Part(of, by, index.get(by, 0), count, unit)
        return found

    def _block(self, extent: str, part: Part, operation: Operation) -> Place:
        """Return the place of a block along an extent that counts blocks."""
        found = Place(extent, offset=part.number, counts=part.of)
        if operation.phase is Phase.BODY and part.of in self.walked:
            return replace(found, step=part.count, split_k=self._split_k)
        return replace(found, along=part.of, block=part.count)

    def _blocks(self, extent: str, side: Place, part: Part, operation: Operation) -> Place:
        """Return the place of a side of a tile that lies along an extent that counts blocks."""
        all_of_it = part.count * side.block
        offset = side.offset + part.number * side.block
        found = replace(side, extent=extent, counts=part.of, unit=part.unit, offset=offset)
        if operation.phase is Phase.BODY and part.of in self.walked:
            return replace(found, block=0, step=all_of_it, split_k=self._split_k)
        return replace(found, along=part.of, block=all_of_it)

    def _along(self, extent: str, side: Place, operation: Operation) -> Place:
        """Return the place of one side of a tile that lies along ``extent``."""
        if operation.phase is Phase.BODY and extent in self.walked:
            return replace(side, extent=extent, block=0, step=side.block, split_k=self._split_k)
        if extent in self._stored:
            return replace(side, extent=extent, along=extent)
        return replace(side, extent=extent, block=0)


def _region(operation: Operation, operand: str, layout: Layout) -> str:
    name = dict(operation.operands)[operand][0]
    return next(region for region, pieces in layout.pieces.items() if name in pieces)
