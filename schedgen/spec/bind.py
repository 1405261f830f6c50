"""From a spec file to kernels with numbers: one for each combination the solver may pick from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from schedgen.conditional import condition_mistakes
from schedgen.errors import DiagnosticSink, Location, SchedgenError, suggest
from schedgen.exchanges import exchange_mistakes, priced_exchanges
from schedgen.expressions import Expression, ExpressionError, parse, references
from schedgen.kernel import Kernel, Operation, Phase, Space
from schedgen.layouts import DTYPE_BITS
from schedgen.operations.fields import Arithmetic
from schedgen.spec.aliases import bind_aliases
from schedgen.spec.alignment import check_alignment
from schedgen.spec.apart import sums_apart
from schedgen.spec.claiming import bind_claim
from schedgen.spec.counted import check_counted
from schedgen.spec.coverage import coverage_mistakes
from schedgen.spec.dataflow import Dataflow, check_dataflow
from schedgen.spec.dense import check_dense
from schedgen.spec.dimensions import bind_dimensions
from schedgen.spec.elide import elide_copies
from schedgen.spec.following import bind_follows, check_tells, in_order
from schedgen.spec.gathering import gathered
from schedgen.spec.kept import left_out
from schedgen.spec.landing import check_landing
from schedgen.spec.layout import Layout
from schedgen.spec.names import COORDINATES
from schedgen.spec.operations import OperationBinder
from schedgen.spec.orders import bind_orders
from schedgen.spec.parameters import bind_parameters
from schedgen.spec.ragged import Shapes, ragged_extents, unpacked
from schedgen.spec.resolve import resolved
from schedgen.spec.rings import bind_rings
from schedgen.spec.schema import SpecFile
from schedgen.spec.shares import check_shares
from schedgen.spec.source import Source
from schedgen.spec.spreading import spread
from schedgen.spec.teams import bind_teams
from schedgen.spec.trips import check_trips, trip_count
from schedgen.spec.values import WORDS, Path, Scope, Value, show
from schedgen.spec.walking import bind_walk, check_walk
from schedgen.storage_rules import storage_mistakes
from schedgen.tensors import INTEGERS, Argument, GridAxis, Place, tile_number


def bind(
    source: Source,
    spec: SpecFile,
    target: str,
    settings: Mapping[str, str] | None = None,
    *,
    accumulators: Space | None = None,
) -> tuple[Kernel, ...]:
    """Return every kernel that ``spec`` stands for on ``target``, preferred choices first.

    ``settings`` fixes parameters by name. ``accumulators`` says where products of the target
    accumulate (`schedgen.machine.Machine.accumulators`), for specs that leave it open.

    Raises:
        SpecError: with the mistakes of the file.
        SchedgenError: the kernel is not written for ``target``, or a setting is wrong.
    """
    if target not in spec.targets:
        fix = suggest(target, spec.targets) or f"it is written for {', '.join(spec.targets)}"
        raise SchedgenError(f"kernel {spec.kernel} has no target '{target}'; {fix}")
    sink = DiagnosticSink()
    _check_names(spec, Scope(source, sink, {}))
    combinations = bind_parameters(source, spec, target, settings or {}, sink)
    kernels: list[Kernel] = []
    for values in combinations:
        kernels.append(_kernel(source, spec, target, values, sink, accumulators))
    return tuple(kernels)


def _kernel(
    source: Source,
    spec: SpecFile,
    target: str,
    values: dict[str, Value],
    sink: DiagnosticSink,
    accumulators: Space | None,
) -> Kernel:
    scope = Scope(source, sink, values)
    written = spec.loops.one_tile
    spec = resolved(spec, scope)
    spec, taken = gathered(spec, scope)
    ragged = ragged_extents(spec, scope, taken.lists)
    sink.raise_if_any()
    spec, stored = unpacked(spec, ragged)
    spec, decided = spread(spec, scope, accumulators)
    sink.raise_if_any()
    dimensions = bind_dimensions(spec, scope)
    trips = scope.integer(spec.loops.trips, ("loops", "trips"))
    _check_tile_trips(source, spec, values, sink)
    _check_split(spec, scope)
    check_walk(spec, scope)
    arguments = _arguments(spec, scope, {**stored, **taken.stored}, taken.index)
    _check_one_tile(spec, written, scope)
    sink.raise_if_any()
    layout = Layout(spec, scope, dimensions)
    bind_aliases(layout)
    rings = bind_rings(layout)
    binder = OperationBinder(spec, scope, layout)
    operations = binder.bind()
    _check_walked(spec, scope, operations)
    check_trips(spec, scope, binder.placing, operations)
    check_shares(spec, scope, binder.placing, operations)
    check_landing(spec, scope, operations)
    sink.raise_if_any()
    check_dataflow(scope, Dataflow(layout, operations), rings, binder.locations)
    lie = check_alignment(scope, layout, operations, binder.locations)
    operations = tuple(binder.placing.lying(o, lie.get(o.name, ("", ""))) for o in operations)
    orders = bind_orders(spec, scope, operations, dimensions)
    grid = in_order(spec, binder.placing.grid(operations))
    claim = bind_claim(spec, scope, grid)
    teams = bind_teams(spec, scope, operations, claim)
    _check_coordinates(spec, scope, operations, grid)
    walk = bind_walk(spec, scope, grid)
    check_counted(spec, scope, grid, operations, binder.placing.walked)
    check_dense(spec, scope, grid)
    check_tells(spec, scope, grid, operations)
    follows = bind_follows(spec, scope, grid, operations)
    sink.raise_if_any()
    chosen = [name for name, parameter in spec.parameters.items() if parameter.choose is not None]
    kernel = Kernel(
        name=spec.kernel,
        target=target,
        spec_file=source.file,
        spec_sha256=source.sha256,
        parameters=tuple((name, show(value)) for name, value in values.items()),
        choices=tuple((name, show(values[name])) for name in chosen),
        regions=tuple(layout.regions.values()),
        pieces=tuple(piece for group in layout.pieces.values() for piece in group.values()),
        rings=rings,
        operations=operations,
        orders=orders,
        trips=trips,
        claim=claim,
        arguments=arguments,
        trip_count=trip_count(spec, scope, binder.placing),
        tile_trips=_formula(spec.loops.tile_trips, scope, "tile_trips"),
        tile_first=_formula(spec.loops.tile_first, scope, "tile_first"),
        tile_when=_formula(spec.loops.tile_when, scope, "tile_when"),
        grid=grid,
        tile_extents=binder.placing.tile_extents,
        tiles=str(spec.loops.tiles),
        split=spec.loops.split_k or "" if spec.loops.tile_first is not None else "",
        one_tile=tuple(dict.fromkeys(spec.loops.one_tile)),
        teams=teams,
        ragged=ragged,
        walk=walk,
        tells=spec.loops.tells or "",
        follows=follows,
        locations=_locations(source, spec),
        decided=decided,
    )
    return _storable(priced_exchanges(sums_apart(elide_copies(kernel))), spec, scope)


def _formula(given: Arithmetic | None, scope: Scope, key: str) -> Expression | None:
    """What a key of loops says, if it is there."""
    return None if given is None else scope.expression(given, ("loops", key))


def _check_coordinates(
    spec: SpecFile, scope: Scope, operations: Sequence[Operation], grid: Sequence[GridAxis]
) -> None:
    """``row`` and ``column`` count from where the output tile begins. A buffer that several parts
    of a tile use in turn is as large as one of them, and does not say which.
    """
    blocks = {axis.extent: axis.block for axis in grid}
    wrong: dict[str, tuple[str, Place]] = {}
    nowhere: dict[str, str] = {}
    for operation in (o for o in operations if o.tensor is None):
        used = [*(formula for _, formula in operation.formulas), operation.when]
        names = {name.name for formula in used if formula for name in references(formula)}
        if not operation.places and names & {"row", "column"}:
            nowhere[operation.base] = min(names & {"row", "column"})
        for name, place in zip(("row", "column"), operation.places, strict=False):
            if name in names and place.block != blocks.get(place.along, place.block):
                wrong.setdefault(operation.base, (name, place))
    for base, name in nowhere.items():
        message = f"'{base}' asks for '{name}', and no store says along which extent these lie"
        fix = "store a tile with rows and columns; of values of rows only 'row' is known"
        scope.error("bad-coordinates", message, _listed(spec, base), fix=fix)
    for base, (name, place) in wrong.items():
        message = (
            f"'{base}' asks for '{name}' along '{place.along}', and what it writes has "
            f"{place.block} for each output tile, but these are {blocks[place.along]} apart"
        )
        fix = "let it write a buffer for each part ('per'), which may share a ring"
        scope.error("bad-coordinates", message, _listed(spec, base), fix=fix)


def _locations(source: Source, spec: SpecFile) -> dict[tuple[str, str], Location]:
    """Where operations and buffers stand in the file."""
    found = {("buffers", name): source.locate(("buffers", name), key=True) for name in spec.buffers}
    for phase in Phase:
        for number, entry in enumerate(getattr(spec.operations, phase.value)):
            path = ("operations", phase.value, number, "id")
            found["operations", entry.id] = source.locate(path)
    return found


def _check_tile_trips(
    source: Source, spec: SpecFile, values: dict[str, Value], sink: DiagnosticSink
) -> None:
    """Evaluate the iterations of the first tile: a mistake in them is one in all of them."""
    extents = {size for argument in spec.arguments.values() for size in argument.shape}
    extents |= spec.ragged.keys()
    known = {name: Fraction(1) for name in sorted(extents)} | values
    first = dict.fromkeys(["tile_row", "tile_column", *spec.tile_numbers], Fraction(0))
    first |= {name: Fraction(1) for name, given in spec.arguments.items() if not given.shape}
    scope = Scope(source, sink, known | first)
    for key in ("tile_trips", "tile_first"):
        formula: str | int | None = getattr(spec.loops, key)
        if formula is not None:
            scope.value(formula, ("loops", key))
    if spec.loops.tile_when is not None:
        _check_tile_when(spec, scope, spec.loops.tile_when)


def _check_tile_when(spec: SpecFile, scope: Scope, condition: str | int) -> None:
    """It is a condition, and what is stored may have elements that no output tile stores."""
    path = ("loops", "tile_when")
    value = scope.value(condition, path)
    if value is None:
        return
    if not isinstance(value, bool):
        message = f"'tile_when' is {show(value)}, and says whether an output tile is computed"
        scope.error("bad-condition", message, path, fix="compare something: tile_part * 64 < k")
    for name in sorted({store.to for store in spec.stores if store.reduce is None}):
        if name in spec.arguments and scope.truth(
            spec.arguments[name].whole, ("arguments", name, "whole")
        ):
            message = f"'{name}' has elements of output tiles that 'tile_when' leaves out"
            fix = f"say 'whole: false' of '{name}': they are undefined then"
            scope.error("bad-coverage", message, ("arguments", name), key=True, fix=fix)


def _check_split(spec: SpecFile, scope: Scope) -> None:
    """The tiles that share the main loop are those along an extent of all results, in which each of
    them is one element. The trip count says how many iterations are left for each, or formulas of
    the tile's number which these are.
    """
    extent, path = spec.loops.split_k, ("loops", "split_k")
    if extent is None:
        return
    common, formulas = spec.beside, (spec.loops.tile_first, spec.loops.tile_trips)
    trips = scope.expression(spec.loops.trips, ("loops", "trips"))
    if extent not in common:
        _unknown_extent(scope, extent, common, path)
    elif formulas != (None, None):
        _check_split_formulas(spec, scope, extent)
    elif trips is not None and extent not in {name.name for name in references(trips)}:
        message = (
            f"the tiles along '{extent}' share the iterations, but 'trips' does not depend on it"
        )
        fix = f"divide by it: ceil(k / (tile_k * {extent}))"
        scope.error("bad-split", message, ("loops", "trips"), fix=fix)


def _check_split_formulas(spec: SpecFile, scope: Scope, extent: str) -> None:
    """Both ends of what a tile takes are formulas of its number."""
    name = tile_number(extent)
    for key in ("tile_first", "tile_trips"):
        given: str | int | None = getattr(spec.loops, key)
        formula = None if given is None else scope.expression(given, ("loops", key))
        if formula is None or name not in {n.name for n in references(formula)}:
            path = ("loops", "split_k" if given is None else key)
            message = f"the tiles along '{extent}' share the iterations, but '{key}' does not " + (
                "exist" if given is None else f"depend on '{name}'"
            )
            fix = f"say with '{name}' in both 'tile_first' and 'tile_trips' which each one takes"
            scope.error("bad-split", message, path, key=given is None, fix=fix)
            return


def _check_walked(spec: SpecFile, scope: Scope, operations: Sequence[Operation]) -> None:
    """Something differs between the tiles that share the main loop."""
    if spec.loops.tile_first is not None:
        return
    if spec.loops.split_k and not any(place.split_k for o in operations for place in o.places):
        message = "no load lies along an extent that the main loop walks, so all tiles are the same"
        fix = "name that extent in 'trips', or remove 'split_k'"
        scope.error("bad-split", message, ("loops", "split_k"), fix=fix)


def _arguments(
    spec: SpecFile, scope: Scope, passed: Shapes, index: Mapping[str, str]
) -> tuple[Argument, ...]:
    """Return the tensors and scalars, after checking the names of extents; ``passed`` and ``index``
    of those that are passed in another shape, and gathered.
    """
    arguments: list[Argument] = []
    extents = [size for argument in spec.arguments.values() for size in argument.shape]
    for name, argument in spec.arguments.items():
        path = ("arguments", name)
        dtype = scope.word(argument.dtype, (*path, "dtype"), [*DTYPE_BITS, *INTEGERS], "data type")
        for number, extent in enumerate(argument.tiled or ()):
            if extent not in argument.shape:
                _unknown_extent(scope, extent, argument.shape, (*path, "tiled", number))
        whole = scope.truth(argument.whole, (*path, "whole"))
        if not whole and all(store.to != name for store in spec.stores):
            message, fix = f"'{name}' is not stored", "remove 'whole'"
            scope.error("bad-whole", message, (*path, "whole"), fix=fix)
        shape, given = tuple(argument.shape), passed.get(name, ())
        arguments.append(Argument(name, shape, dtype or "f32", whole, given, index.get(name, "")))
    for extent, group in spec.loops.groups.items():
        if extent not in extents:
            _unknown_extent(scope, extent, extents, ("loops", "groups", extent), key=True)
        if group not in extents:
            _unknown_extent(scope, group, extents, ("loops", "groups", extent))
    return tuple(arguments)


def _check_one_tile(spec: SpecFile, written: Sequence[str], scope: Scope) -> None:
    """Results have the extents that a single tile covers, of those that are ``written``."""
    stored = [extent for store in spec.stores for extent in spec.arguments[store.to].shape]
    for number, extent in enumerate(written):
        if extent in spec.loops.one_tile and extent not in stored:
            _unknown_extent(scope, extent, stored, ("loops", "one_tile", number))


def _unknown_extent(
    scope: Scope, extent: str, known: Sequence[str], path: Path, *, key: bool = False
) -> None:
    listed = ", ".join(dict.fromkeys(known)) or "none: it is a scalar"
    fix = suggest(extent, known) or f"the extents are {listed}"
    message = f"'{extent}' is not an extent that can stand here"
    scope.error("unknown-extent", message, path, key=key, fix=fix)


def _storable(kernel: Kernel, spec: SpecFile, scope: Scope) -> Kernel:
    """Return ``kernel`` if its storage is one whose hazards have a meaning."""
    for mistake in storage_mistakes(kernel):
        path = ("buffers", mistake.buffer, mistake.key)
        scope.error(mistake.rule, mistake.message, path, fix=mistake.fix)
    for operation, reason in condition_mistakes(kernel):
        message = f"{operation.name} needs what a load with 'when' may leave out: it {reason}"
        fix = "use a map in the same iteration, or load always"
        scope.error("bad-condition", message, _listed(spec, operation.base), fix=fix)
    for base, message, fix in dict.fromkeys(exchange_mistakes(kernel)):
        scope.error("register-order", message, _listed(spec, base), fix=fix)
    for mistake in coverage_mistakes(kernel):
        at = _listed(spec, mistake.operation) or ("arguments", mistake.tensor)
        scope.error(mistake.rule, mistake.message, at, fix=mistake.fix)
    missed = left_out(kernel)
    if missed is not None:
        scope.error("bad-trips", missed.message, ("loops", missed.key), fix=missed.fix)
    scope.sink.raise_if_any()
    return kernel


def _listed(spec: SpecFile, operation: str) -> Path:
    """Where the id of an operation stands; () if there is none of that name."""
    listed = spec.operations
    for phase, entries in (
        ("before", listed.before),
        ("body", listed.body),
        ("after", listed.after),
    ):
        for number, entry in enumerate(entries):
            if entry.id == operation:
                return "operations", phase, number, "id"
    return ()


def _check_names(spec: SpecFile, scope: Scope) -> None:
    """Names can be used in expressions, and mean one thing there.

    A parameter may share its name with an extent of a tensor, whose nominal value it then is.
    """
    scalars = [name for name, argument in spec.arguments.items() if not argument.shape]
    extents = {size for argument in spec.arguments.values() for size in argument.shape}
    used = {**dict.fromkeys((*WORDS, "inf", *COORDINATES), "a word of the spec language")}
    groups = (
        ("parameters", list(spec.parameters), "a parameter"),
        ("arguments", scalars, "a scalar argument"),
        ("buffers", list(spec.buffers), "a buffer"),
    )
    for section, names, what in groups:
        for name in names:
            path = (section, name)
            try:
                parse(name)
            except ExpressionError as error:
                fix = "rename it: expressions could not use it"
                scope.error("bad-name", error.message, path, key=True, fix=fix)
            other = used.get(name)
            if name in extents and section != "parameters":
                other = other or "an extent of a tensor"
            if other is not None:
                message = f"'{name}' is {what} and also {other}"
                scope.error("name-clash", message, path, key=True, fix="rename one of them")
            used[name] = what
