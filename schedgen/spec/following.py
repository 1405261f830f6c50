"""Kernels that follow each other tile by tile: what a spec says of them (`schedgen.following`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedgen.errors import suggest
from schedgen.expressions import Expression, references
from schedgen.kernel import Kind, Operation
from schedgen.spec.schema import SpecFile
from schedgen.spec.values import Path, Scope
from schedgen.tensors import INTEGERS, GridAxis

_TELLS, _FOLLOWS = ("loops", "tells"), ("loops", "follows")


def in_order(spec: SpecFile, grid: Sequence[GridAxis]) -> tuple[GridAxis, ...]:
    """``grid`` with the extents of words outermost, so that tiles that wait for one of them follow
    each other; as it is where nothing is followed.
    """
    follows = spec.loops.follows
    argument = spec.arguments.get(follows.words) if follows is not None else None
    if argument is None:
        return tuple(grid)
    outer = {extent: number for number, extent in enumerate(argument.shape)}
    return tuple(sorted(grid, key=lambda axis: outer.get(axis.extent, len(outer))))


def check_tells(
    spec: SpecFile, scope: Scope, grid: Sequence[GridAxis], operations: Sequence[Operation]
) -> None:
    """Reports what is wrong with ``tells``."""
    name = spec.loops.tells
    if name is None or not _is_array(spec, scope, name, _TELLS):
        return
    for message, fix in [*_words(spec, name, grid, operations), *_stored(operations)]:
        scope.error("bad-tells", message, _TELLS, fix=fix)
    left_out = {
        "tile_when": spec.loops.tile_when is not None,
        "ragged": bool(spec.ragged),
        f"tiles: {spec.loops.tiles}": spec.loops.tiles != "all",
    }
    for skipped in (what for what, there in left_out.items() if there):
        message = f"how many output tiles count is not known with '{skipped}'"
        scope.error("bad-tells", message, _TELLS, key=True, fix="remove 'tells'")


def bind_follows(
    spec: SpecFile, scope: Scope, grid: Sequence[GridAxis], operations: Sequence[Operation]
) -> tuple[str, Expression] | None:
    """The words and the number that ``follows`` says; mistakes are reported."""
    follows = spec.loops.follows
    if follows is None:
        return None
    path = (*_FOLLOWS, "words")
    if _is_array(spec, scope, follows.words, path):
        for message, fix in _words(spec, follows.words, grid, operations):
            scope.error("bad-follows", message, path, fix=fix)
    if spec.loops.tells is not None:
        message = "a kernel that follows another one is not known to have begun behind all others"
        fix = "remove 'tells', so that the next one waits for its end"
        scope.error("bad-follows", message, _TELLS, key=True, fix=fix)
    for what in dict.fromkeys(_read_by_threads(spec, operations)):
        message = f"threads read {what} from global memory, and only loads wait"
        fix = "remove 'follows', so that the kernel waits for the end of the one before"
        scope.error("bad-follows", message, _FOLLOWS, key=True, fix=fix)
    tiles = scope.expression(follows.tiles, (*_FOLLOWS, "tiles"))
    if tiles is None:
        return None
    for one in references(tiles):
        _check_name(spec, scope, one.name)
    return follows.words, tiles


def _check_name(spec: SpecFile, scope: Scope, name: str) -> None:
    """A number of tiles is known where a kernel is launched."""
    extents = {extent for argument in spec.arguments.values() for extent in argument.shape}
    whole = {
        n
        for n, a in spec.arguments.items()
        if not a.shape and scope.value(a.dtype, ("arguments", n, "dtype")) in INTEGERS
    }
    if name in extents | whole or name in scope.values:
        return
    message = f"'{name}' is neither an extent nor an i32 argument without one"
    fix = suggest(name, extents | whole) or f"declare {name}: {{shape: [], dtype: i32}}"
    scope.error("bad-follows", message, (*_FOLLOWS, "tiles"), fix=fix)


def _is_array(spec: SpecFile, scope: Scope, name: str, path: Path) -> bool:
    """Whether it is an argument with words; mistakes are reported."""
    argument = spec.arguments.get(name)
    if argument is None:
        fix = suggest(name, spec.arguments) or "declare it under 'arguments'"
        message = f"'{name}' is not an argument of this kernel"
        scope.error("unknown-argument", message, path, fix=fix)
        return False
    dtype = scope.value(argument.dtype, ("arguments", name, "dtype"))
    if dtype is not None and dtype not in INTEGERS:
        message = f"'{name}' is {dtype}, but words that count are integers"
        scope.error("dtype-mismatch", message, path, fix="make it i32")
        return False
    return True


def _words(
    spec: SpecFile, name: str, grid: Sequence[GridAxis], operations: Sequence[Operation]
) -> Iterator[tuple[str, str]]:
    """What is wrong with the place of a tile's word, and how to repair it."""
    shape, block = spec.arguments[name].shape, {axis.extent: axis.block for axis in grid}
    apart = [axis.extent for axis in grid if axis.block == 1]
    fix = f"give it some of the extents {', '.join(apart)}"
    if not shape:
        yield f"'{name}' is a scalar, which nobody can write to", fix
    for extent in shape:
        if block.get(extent) != 1:
            yield f"an output tile has not one element of '{name}' along '{extent}'", fix
    meant = {one for ragged in spec.ragged.values() for one in ragged.model_dump().values()}
    meant |= {operation.turns for operation in operations}
    meant |= {o.tensor for o in operations} | ({*_walked(spec)})
    names = (f for o in operations for _, formula in o.formulas for f in references(formula))
    if name in meant | {one.name for one in names}:
        yield f"'{name}' means something else as well", "give the words an argument of their own"


def _walked(spec: SpecFile) -> list[str | None]:
    walk = spec.loops.walk
    return [] if walk is None else [walk.list, walk.count, walk.full, walk.order]


def _stored(operations: Sequence[Operation]) -> Iterator[tuple[str, str]]:
    """Why it would not be known when all is there that a tile stores."""
    stores = [operation for operation in operations if operation.kind is Kind.STORE]
    roles = {store.role for store in stores}
    if len(stores) > 1 and (len(roles) > 1 or None in roles):
        names = ", ".join(sorted({store.base for store in stores}))
        yield f"{names} may be stored by several roles, and one counts", "give them one 'role'"


def _read_by_threads(spec: SpecFile, operations: Sequence[Operation]) -> Iterator[str]:
    """What a kernel reads from global memory without a load."""
    if spec.ragged:
        yield "the sizes of 'ragged'"
    if spec.loops.walk is not None:
        yield "the blocks of 'walk'"
    yield from (f"the rows of {o.base}" for o in operations if o.kind is Kind.GATHER)
    tensors = {name for name, argument in spec.arguments.items() if argument.shape}
    for operation in operations:
        names = {n for n, _ in operation.operands}
        used = {one.name for _, formula in operation.formulas for one in references(formula)}
        yield from (f"'{name}'" for name in sorted((used - names) & tensors))
