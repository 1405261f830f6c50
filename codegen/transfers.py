"""Bulk tensor copies between global tensors and tiles in shared memory."""

from __future__ import annotations

from dataclasses import dataclass

from schedgen.codegen.errors import EmitError
from schedgen.codegen.ir import Code, LibraryFunction, Name, code, joined
from schedgen.codegen.plan import DTYPES, Plan
from schedgen.codegen.printing import expression
from schedgen.codegen.running import Iteration
from schedgen.codegen.source import Source
from schedgen.kernel import Kind, Operation
from schedgen.program.model import Access
from schedgen.tensors import Argument, Place


@dataclass(frozen=True, slots=True)
class Map:
    """A tensor map: tiles of ``rows`` x ``columns`` of an argument, along two of its axes.

    ``sides`` has for each axis of the argument "rows", "columns" or "".
    """

    name: str
    argument: Argument
    rows: int
    columns: int
    sides: tuple[str, ...]
    store: bool

    @property
    def order(self) -> tuple[int, ...]:
        """The axes of the argument: that of rows, that of columns, the others."""
        sided = [self.sides.index(side) for side in ("rows", "columns") if side in self.sides]
        rest = [axis for axis, side in enumerate(self.sides) if not side]
        return (*sided, *reversed(rest))

    @property
    def tile(self) -> tuple[int, ...]:
        """Elements along each axis of `order`."""
        sizes = {"rows": self.rows, "columns": self.columns}
        sided = [sizes[side] for side in ("rows", "columns") if side in self.sides]
        return (*sided, *(1 for side in self.sides if not side))


class Transfers:
    """The tensor maps of a kernel, and the copies that use them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.maps: dict[str, Map] = {}
        """Operation -> its map; operations that differ only in where their tile lies share one."""
        made: dict[tuple[object, ...], Map] = {}
        for operation in plan.kernel.operations:
            if operation.kind in (Kind.LOAD, Kind.STORE):
                self._add(operation, made)

    def _add(self, operation: Operation, made: dict[tuple[object, ...], Map]) -> None:
        if not operation.places:
            raise EmitError(f"{operation.name} does not say where its tile lies")
        argument = next(a for a in self.plan.kernel.arguments if a.name == operation.tensor)
        store = operation.kind is Kind.STORE
        part = self.plan.part(operation, "from" if store else "to")
        sides = tuple(place.side for place in operation.places)
        key = (argument.name, part.rows, part.columns, sides, store)
        if key not in made:
            taken = {m.name for m in made.values()}
            taken |= {a.name for a in self.plan.kernel.arguments if a is not argument}
            name, number = argument.name, 2
            while name in taken:
                name, number = f"{argument.name}_{number}", number + 1
            made[key] = Map(name, argument, part.rows, part.columns, sides, store)
        self.maps[operation.name] = made[key]

    @property
    def distinct(self) -> list[Map]:
        return list({map_.name: map_ for map_ in self.maps.values()}.values())

    def of_role(self, role: str) -> list[Map]:
        found = [self.maps[o.name] for o in self.plan.runs[role] if o.name in self.maps]
        return list({map_.name: map_ for map_ in found}.values())

    # -- host ----------------------------------------------------------------------------------

    def make(self, source: Source, map_: Map) -> None:
        """The copy atom ``tma_x`` and the tensor of coordinates ``g_x``."""
        op = (
            "cpasync.CopyBulkTensorTileS2GOp()"
            if map_.store
            else "cpasync.CopyBulkTensorTileG2SOp()"
        )
        tensor = f"cute.select({map_.argument.name}.layout, {list(map_.order)})"
        dtype = DTYPES[map_.argument.dtype]
        both = all(side in map_.sides for side in ("rows", "columns"))
        if both and 1 in (map_.rows, map_.columns):
            tile = code(f"cute.make_layout(({map_.rows}, {map_.columns}))")  # a row of a matrix
        elif both:
            tile = code(f"{{}}({map_.rows}, {map_.columns}, {dtype})", LibraryFunction("one_tile"))
        else:
            tile = code(f"cute.make_layout({map_.rows * map_.columns})")
        sided = [n for n, side in zip(map_.tile, map_.order, strict=True) if map_.sides[side]]
        tiler = f"({', '.join(map(str, sided))},)"
        source.add(
            f"tma_{map_.name}, g_{map_.name} = cpasync.make_tiled_tma_atom(",
            f"    {op},",
            f"    cute.make_tensor({map_.argument.name}.iterator, {tensor}),",
            code("    {},", tile),
            f"    {tiler},",
            ")",
        )

    # -- device --------------------------------------------------------------------------------

    def partition(self, source: Source, operation: Operation) -> None:
        """``s_X``: the stages in shared memory, ``t_X``: the tiles in the tensor."""
        map_, name = self.maps[operation.name], self._name(operation)
        operand = "from" if map_.store else "to"
        part = self.plan.part(operation, operand)
        view = self.plan.views[part.region.name]
        tiles = ", ".join("None" for _ in map_.tile)
        tile = "(" + ", ".join(map(str, map_.tile)) + ("," if len(map_.tile) == 1 else "") + ")"
        modes = len(map_.tile)
        source.add(
            f"s_{name}, t_{name} = cpasync.tma_partition(",
            code("    {},", Name(f"tma_{map_.name}")),
            "    0,",
            "    cute.make_layout(1),",
            code(
                f"    cute.group_modes({{}}, 0, {1 if view.vector else 2}),", self.plan.matrix(part)
            ),
            "    cute.group_modes(",
            code(
                f"        cute.local_tile({{}}, {tile}, ({tiles},)), 0, {modes}",
                Name(f"g_{map_.name}"),
            ),
            "    ),",
            ")",
        )

    def _name(self, operation: Operation) -> str:
        return self.plan.names.of("operation", operation.name)

    def copy(
        self,
        source: Source,
        operation: Operation,
        access: Access,
        at: Iteration | None,
        barrier: Code | None,
    ) -> None:
        """The copy itself; a store has no ``barrier``."""
        map_, name = self.maps[operation.name], self._name(operation)
        where = joined(", ", (self._index(operation.places[axis], at) for axis in map_.order))
        tile = code(f"t_{name}[(None, {{}})]", where)
        stage = code(f"s_{name}[(None, {{}})]", self.plan.stage(access, at))
        tma = Name(f"tma_{map_.name}")
        if barrier is None:
            source.add(code("cute.copy({}, {}, {})", tma, stage, tile))
        else:
            source.add(code("cute.copy({}, {}, {}, tma_bar_ptr={})", tma, tile, stage, barrier))

    def _index(self, place: Place, at: Iteration | None) -> Code:
        """Which tile along an axis."""
        along = Name(f"at_{place.along}")
        if place.grouped:
            return code("{} * {} // {}", along, Name(place.extent), Name(place.along))
        i = shared(place, at)
        terms: list[Code] = []
        for size, what in ((place.block, code("{}", along)), (place.step, i), (place.offset, None)):
            if size % place.size:
                raise EmitError(f"a tile of {place.size} begins {size} along '{place.extent}'")
            if size:
                times = size // place.size
                if what is None:
                    terms.append(code(str(times)))
                else:
                    terms.append(code(f"{times} * {{}}", atom(what)) if times > 1 else what)
        return joined(" + ", terms) if terms else code("0")


def shared(place: Place, at: Iteration | None) -> Code:
    """An iteration counted from the first one of all tiles that share the main loop."""
    if at is None and place.step:
        raise EmitError(f"a tile outside of the loop moves along '{place.extent}' with it")
    found = Code(()) if at is None else code("{}", at)
    if not place.share:
        return found
    return code("{} + {} * {}", found, Name("trips"), Name(f"at_{place.share}"))


def atom(value: Code) -> Code:
    """A sum in parentheses."""
    return code("({})", value) if " " in expression(value) else value
