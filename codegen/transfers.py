"""Bulk tensor copies between global tensors and tiles in shared memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import gcd

from schedgen.codegen.dtypes import DTYPES
from schedgen.codegen.errors import EmitError
from schedgen.codegen.ir import Code, LibraryFunction, Name, called, code, joined, plus
from schedgen.codegen.plan import Part, Plan
from schedgen.codegen.printing import expression
from schedgen.codegen.ragged import RaggedExtents
from schedgen.codegen.running import Iteration
from schedgen.codegen.small_tiles import is_small
from schedgen.codegen.source import Source
from schedgen.codegen.walks import Walks
from schedgen.kernel import Kernel, Kind, Operation
from schedgen.program.operations import Access
from schedgen.sums import adds
from schedgen.tensors import Argument, Place, Ragged

MODES = 5
"""The most that a tensor map has (CUDA driver API, cuTensorMapEncodeTiled)."""
SWIZZLED = 8
"""Rows after which the swizzle of a tile in shared memory is the same again."""


@dataclass(frozen=True, slots=True)
class Map:
    """A tensor map: tiles of ``rows`` x ``columns`` of an argument, along two of its axes.

    ``sides`` has for each axis of the argument "rows", "columns" or "". Of a ``ragged`` one the
    elements along an axis end where data says, see `schedgen.codegen.ragged`. A store that ``adds``
    reduces: elements are added where they lie. ``taken``: elements of a tile, where these are less
    than a copy brings.
    """

    name: str
    argument: Argument
    rows: int
    columns: int
    sides: tuple[str, ...]
    store: bool
    ragged: Ragged | None = None
    adds: bool = False
    taken: int = 0

    @property
    def shared(self) -> int:
        """How many tiles a copy brings at once, one of which is wanted."""
        return self.rows * self.columns // self.taken if self.taken else 1

    @property
    def folded(self) -> bool:
        """Whether numbers, or pages, are along an axis of their own, which is that of rows here."""
        return self.ragged is not None and not self.ragged.packed and self._outer is not None

    @property
    def pitch(self) -> Name:
        """How many rows such are apart."""
        return Name(f"pitch_{self.argument.name}")

    @property
    def folds(self) -> tuple[int, int]:
        """The axes of a tensor that is passed that are folded: of numbers, and of their rows."""
        assert self.ragged is not None
        shape = self.argument.shape
        return shape.index(self.ragged.of), shape.index(self.ragged.extent)

    @property
    def order(self) -> tuple[int, ...]:
        """The axes of the argument that are those of the tensor: that of rows, that of columns, the
        others.
        """
        sided = [self.sides.index(side) for side in ("rows", "columns") if side in self.sides]
        rest = [axis for axis, side in enumerate(self.sides) if not side and axis != self._outer]
        return (*sided, *reversed(rest))

    @property
    def axes(self) -> list[int]:
        """`order` in axes of the tensor that is passed."""
        if self._outer is None or self.folded:
            return [*self.order]
        outer = self._outer
        return [axis - (axis > outer) for axis in self.order]

    @property
    def _outer(self) -> int | None:
        """The axis along which numbers have elements of their own, which a map has none for."""
        if self.ragged is None or self.ragged.of not in self.argument.shape:
            return None
        axis = self.argument.shape.index(self.ragged.of)
        return None if self.sides[axis] else axis

    @property
    def tile(self) -> tuple[int, ...]:
        """Elements along each axis of `order`, and of what a ragged map has more."""
        sizes = {"rows": self.box, "columns": self.columns, "": 1}
        sided = [sizes[self.sides[axis]] for axis in self.order]
        return (*sided, 1, 1) if self.ragged else tuple(sided)

    @property
    def box(self) -> int:
        """Rows of a copy: none lies in two pages, wherever a tile of so many rows begins."""
        paged = self.ragged is not None and self.ragged.table
        return gcd(self.rows, self.ragged.page_size) if paged and self.ragged else self.rows

    @property
    def mode(self) -> int:
        """Which one of `order` the ragged axis is."""
        assert self.ragged is not None
        return self.order.index(self.argument.shape.index(self.ragged.extent))


class Transfers:
    """The tensor maps of a kernel, and the copies that use them."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.ragged = plan, RaggedExtents(plan)
        self.maps: dict[str, Map] = {}
        """Operation -> its map; operations that differ only in where their tile lies share one."""
        made: dict[tuple[object, ...], Map] = {}
        for operation in plan.kernel.operations:
            if operation.kind in (Kind.LOAD, Kind.STORE):
                self._add(operation, made)

    def _add(self, operation: Operation, made: dict[tuple[object, ...], Map]) -> None:
        if not operation.places:
            raise EmitError(
                f"nothing says where the tile of {operation.name} lies along all axes of "
                f"'{operation.tensor}'",
                operation,
                rule="place-of-tile",
                fix="give the buffer a size along each axis that no output tile and no iteration "
                "goes along, or load from a tensor without the others",
            )
        argument = next(a for a in self.plan.kernel.arguments if a.name == operation.tensor)
        store = operation.kind is Kind.STORE
        part = self.plan.part(operation, "from" if store else "to")
        sides = tuple(place.side for place in operation.places)
        key = (argument.name, part.rows, part.columns, sides, store, adds(operation))
        if key not in made:
            taken = {m.name for m in made.values()}
            taken |= {a.name for a in self.plan.kernel.arguments if a is not argument}
            name, number = argument.name, 2
            while name in taken:
                name, number = f"{argument.name}_{number}", number + 1
            ragged = self._ragged(argument)
            if ragged and ragged.table:
                _check_pages(operation, ragged, sides, part.rows)
            view = self.plan.views[part.region.name]
            rows, columns, taken = part.rows, part.columns, 0
            if is_small(self.plan.kernel, part.region):  # none of which is ever split
                rows, columns, taken = view.rows, view.columns, rows * columns
            made[key] = Map(
                name, argument, rows, columns, sides, store, ragged, adds(operation), taken
            )
            if ragged and len(made[key].tile) > MODES:
                raise EmitError(
                    f"the map of '{argument.name}' has {len(made[key].tile)} modes, two of them "
                    f"for '{ragged.extent}', and a map has at most {MODES}",
                    operation,
                    rule="modes-of-map",
                    fix="pack the tensor ('starts' and 'packed' instead of 'lengths')",
                )
        self.maps[operation.name] = made[key]

    def _ragged(self, argument: Argument) -> Ragged | None:
        """The ragged extent of an argument that copies have to end at. The last extent, whose
        elements lie side by side, is padded: maps cannot begin at any element.
        """
        found = (extent for extent in argument.shape[:-1] if extent in self.plan.ragged)
        return next((self.plan.ragged[extent] for extent in found), None)

    @property
    def distinct(self) -> list[Map]:
        return list({map_.name: map_ for map_ in self.maps.values()}.values())

    def of_role(self, role: str) -> list[Map]:
        found = [self.maps[o.name] for o in self.plan.runs[role] if o.name in self.maps]
        return list({map_.name: map_ for map_ in found}.values())

    # -- host ----------------------------------------------------------------------------------

    def make(self, source: Source, map_: Map) -> None:
        """The copy atom ``tma_x`` and the tensor of coordinates ``g_x``."""
        op = "cpasync.CopyBulkTensorTileG2SOp()"
        if map_.store:
            op = "cpasync.CopyBulkTensorTileS2GOp()"
        if map_.adds:
            op = "cpasync.CopyReduceBulkTensorTileS2GOp(cute.ReductionKind.ADD)"
        tensor = f"cute.select({map_.argument.name}.layout, {map_.axes})"
        dtype = DTYPES[map_.argument.dtype]
        both = all(side in map_.sides for side in ("rows", "columns"))
        if map_.box < map_.rows:
            tile = called("part_of_tile", map_.rows, map_.columns, map_.box, dtype)
        elif both and 1 in (map_.rows, map_.columns):
            tile = code(f"cute.make_layout(({map_.rows}, {map_.columns}))")  # a row of a matrix
        elif both:
            tile = code(f"{{}}({map_.rows}, {map_.columns}, {dtype})", LibraryFunction("one_tile"))
        else:
            tile = code(f"cute.make_layout({map_.rows * map_.columns})")
        sizes = zip(map_.tile, map_.order, strict=map_.ragged is None)
        sided = [size for size, axis in sizes if map_.sides[axis]]
        tiler = _tuple(sided)
        whole = code(f"cute.make_tensor({map_.argument.name}.iterator, {tensor})")
        if map_.folded:
            of, along = (f"{map_.argument.name}.stride[{axis}]" for axis in map_.folds)
            source.add(f"{map_.pitch.text} = Int32({of} // cutlass.max({along}, 1))")
            count = f"{map_.argument.name}.shape[{map_.folds[0]}]"
            whole = called("folded_map", whole, map_.mode, count, map_.pitch)
        elif map_.ragged:
            whole = called("ragged_map", whole, map_.mode)
        source.add(
            f"tma_{map_.name}, g_{map_.name} = cpasync.make_tiled_tma_atom(",
            f"    {op},",
            code("    {},", whole),
            code("    {},", tile),
            f"    {tiler},",
            ")",
        )

    # -- device --------------------------------------------------------------------------------

    def partition(
        self, source: Source, operations: Iterable[Operation], *, ragged: bool = False
    ) -> None:
        """``s_X``: the stages in shared memory, ``t_X``: the tiles in the tensor; once for all
        operations that move tiles of the same tensor through the same stages. Of those of
        ``ragged`` maps at each output tile, and by themselves.
        """
        maps = ((n, m) for n, m in self.maps.items() if not (m.ragged and m.ragged.table))
        known = {name for name, map_ in maps if bool(map_.ragged) == ragged}
        copies = (operation for operation in operations if operation.name in known)
        for name, operation in {self._name(each): each for each in copies}.items():
            map_, part = self.maps[operation.name], self._part(operation)
            rank, view = len(map_.tile), self.plan.views[part.region.name]
            staged = code(f"{{}}, 0, {1 if view.vector else 2}", self.plan.copied(part))
            places = f"{_tuple(map_.tile)}, {_tuple([None] * rank)}"
            tensor_ = Name(f"g_{map_.name}")
            tensor = code("{}", tensor_)
            if map_.ragged:
                pitch = map_.pitch if map_.folded else None
                tensor = self.ragged.within(map_.ragged, tensor_, map_.mode, pitch)
            tiles = code(f"cute.local_tile({{}}, {places}), 0, {rank}", tensor)
            arguments = [code("{}", Name(f"tma_{map_.name}")), "0", "cute.make_layout(1)"]
            arguments += [code("cute.group_modes({})", modes) for modes in (staged, tiles)]
            source.call(f"s_{name}, t_{name} = cpasync.tma_partition", arguments)

    def _part(self, operation: Operation) -> Part:
        """What a copy moves, in shared memory."""
        return self.plan.part(operation, "from" if self.maps[operation.name].store else "to")

    def _name(self, operation: Operation) -> str:
        """What the partition of a copy is called."""
        alike = self._alike[self._ends(operation)]
        if len(alike) == 1:
            return self.plan.names.of("operation", operation.name)
        return self.plan.names.of("partition", alike[0].name, base=alike[0].base)

    @cached_property
    def _alike(self) -> dict[tuple[str, str], list[Operation]]:
        """Operations of the same two ends."""
        found: dict[tuple[str, str], list[Operation]] = {}
        for operation in self.plan.kernel.operations:
            if operation.name in self.maps:
                found.setdefault(self._ends(operation), []).append(operation)
        return found

    def _ends(self, operation: Operation) -> tuple[str, str]:
        """The map of a copy, and its stages."""
        stages = self.plan.copied(self._part(operation))
        return self.maps[operation.name].name, expression(stages)

    def copy(
        self,
        source: Source,
        operation: Operation,
        access: Access,
        at: Iteration | None,
        barrier: Code | None,
    ) -> None:
        """The copy itself; a store has no ``barrier``."""
        map_ = self.maps[operation.name]
        if map_.ragged and map_.ragged.table:
            self._copy_pages(source, operation, access, at, barrier)
            return
        name = self._name(operation)
        indices = [self._index(operation.places[axis], at) for axis in map_.order]
        if map_.shared > 1:
            side = next(n for n, axis in enumerate(map_.order) if map_.sides[axis])
            indices[side] = code(f"{{}} >> {map_.shared.bit_length() - 1}", atom(indices[side]))
        where = joined(", ", [*indices, *(["0", "0"] if map_.ragged else [])])
        tile = code(f"t_{name}[(None, {{}})]", where)
        stage = code(f"s_{name}[(None, {{}})]", self.plan.stage(access, at))
        tma = Name(f"tma_{map_.name}")
        if barrier is None:
            source.add(code("cute.copy({}, {}, {})", tma, stage, tile))
        else:
            source.add(code("cute.copy({}, {}, {}, tma_bar_ptr={})", tma, tile, stage, barrier))

    def _copy_pages(
        self,
        source: Source,
        operation: Operation,
        access: Access,
        at: Iteration | None,
        barrier: Code | None,
    ) -> None:
        """A load of rows that lie in pages."""
        map_, part = self.maps[operation.name], self._part(operation)
        one = map_.ragged
        assert one is not None
        assert barrier is not None
        row, *others = (self._index(operation.places[axis], at) for axis in map_.order)
        first = code(f"{map_.rows} * {{}}", atom(row))
        tile = code("{}[(None, None, {})]", self.plan.matrix(part), self.plan.stage(access, at))
        found = called(
            "copy_pages", Name(f"tma_{map_.name}"), Name(f"g_{map_.name}"), tile, barrier,
            code("({},)", joined(", ", others)), Name(f"of_{one.table}"), Name(f"at_{one.of}"),
            first, Name(one.extent), Name(one.pages), map_.pitch, one.page_size,
        )  # fmt: skip
        source.add(found)

    def _index(self, place: Place, at: Iteration | None) -> Code:
        """Which tile along an axis."""
        along = Name(f"at_{place.along}")
        if place.grouped:
            return code("{} * {} // {}", along, Name(place.extent), Name(place.along))
        i = shared(place, at, self.plan.kernel)
        terms: list[Code] = []
        for size in (place.block, place.step, place.offset):
            if size % place.size:
                raise EmitError(
                    f"a tile of {place.size} begins at {size} along '{place.extent}'",
                    rule="place-of-tile",
                    fix="make parts of a tile equally large",
                )
        for size, what in ((place.block, code("{}", along)), (place.step, i)):
            times = size // place.size
            if times:
                terms.append(code(f"{times} * {{}}", atom(what)) if times > 1 else what)
        offset = place.offset // place.size
        return plus(joined(" + ", terms), offset) if terms else code(str(offset))


def _tuple(values: Sequence[object]) -> str:
    """A tuple as Python writes it."""
    return f"({', '.join(map(str, values))}{',' if len(values) == 1 else ''})"


def shared(place: Place, at: Iteration | None, kernel: Kernel) -> Code:
    """An iteration of an output tile, counted from where the main loop begins, or that of the first
    tile if several share it.
    """
    if at is None and place.step:
        raise EmitError(
            f"a tile outside of the loop moves along '{place.extent}' with it",
            rule="place-of-tile",
            fix="load it in the body",
        )
    found = Code(()) if at is None else code("{}", at)
    if place.step and kernel.walk is not None:
        return Walks(kernel).block(found)
    if place.step and kernel.tile_first is not None:
        found = code("{} + {}", Name("skipped"), found)
    if not place.split_k:
        return found
    return code("{} + {} * {}", found, Name("trips"), Name(f"at_{place.split_k}"))


def atom(value: Code) -> Code:
    """A sum in parentheses."""
    return code("({})", value) if " " in expression(value) else value


def _check_pages(operation: Operation, one: Ragged, sides: tuple[str, ...], rows: int) -> None:
    """Raises EmitError: pages and the rows of a tile do not fit together."""
    axis = [place.extent for place in operation.places].index(one.extent)
    if sides[axis] != "rows":
        raise EmitError(
            f"pages of '{one.extent}' are columns of the tile of {operation.name}",
            operation,
            rule="page-of-tile",
            fix="say in 'tiled' of the tensor that its rows are along the pages",
        )
    if gcd(rows, one.page_size) % SWIZZLED:
        raise EmitError(
            f"a tile of {rows} rows, from pages of {one.page_size}, would be copied by "
            f"{gcd(rows, one.page_size)} rows, which is no multiple of {SWIZZLED}",
            operation,
            rule="page-of-tile",
            fix=f"let both the rows of the tile and '{one.page}' be multiples of {SWIZZLED}",
        )
