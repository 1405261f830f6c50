"""Blocks that the main loop takes from arrays: what a spec says of them.

`check_walk` looks at the arguments, before anything is placed; `bind_walk` at output tiles.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedgen.errors import suggest
from schedgen.spec.loop_models import WalkedBlocks
from schedgen.spec.schema import SpecFile
from schedgen.spec.values import Scope
from schedgen.tensors import INTEGERS, GridAxis, Walk

_PATH = ("loops", "walk")
_ALL = "remove it: the arrays say which iterations a tile has"


def check_walk(spec: SpecFile, scope: Scope) -> None:
    """Reports arrays that do not fit together, and what a walk cannot stand beside."""
    walk = spec.loops.walk
    if walk is None:
        return
    before = scope.errors
    for key in ("list", "count", "full", "order"):
        name = getattr(walk, key)
        if name is not None:
            _check_array(spec, scope, key, name)
    if scope.errors == before:
        _check_shapes(spec, scope, walk)
    for key in ("tile_trips", "tile_first", "tile_when", "split_k"):
        if getattr(spec.loops, key) is not None:
            message = f"'walk' says which iterations an output tile has, and so does '{key}'"
            scope.error("bad-walk", message, ("loops", key), key=True, fix=_ALL)
    if spec.ragged:
        message = "the main loop takes blocks of an array, and sizes are data"
        fix = "remove 'walk' or 'ragged'"
        scope.error("bad-walk", message, _PATH, key=True, fix=fix)
    if spec.loops.tiles == "lower_triangle":
        message = "the triangle of output tiles counts iterations as if all were taken"
        scope.error("bad-walk", message, ("loops", "tiles"), fix="compute all tiles")


def bind_walk(spec: SpecFile, scope: Scope, grid: Sequence[GridAxis]) -> Walk | None:
    """The walk of a kernel whose output tiles are cut along ``grid``; mistakes are reported."""
    walk = spec.loops.walk
    if walk is None:
        return None
    block = {axis.extent: axis.block for axis in grid}
    axes: list[str] = []
    for extent in spec.arguments[walk.count].shape:
        along = walk.tiles.get(extent, extent)
        if along not in block:
            message = f"output tiles are not cut along '{along}'"
            fix = f"they are along {', '.join(block)}"
            if extent == along:
                fix += f"; if '{extent}' counts tiles, say along what in 'tiles'"
            scope.error("bad-walk", message, (*_PATH, "count"), fix=fix)
        elif extent == along and block[along] > 1:
            message = f"output tiles are {block[along]} elements apart along '{along}'"
            fix = (
                f"give '{walk.count}' an extent of tiles there: tiles: {{{along}_blocks: {along}}}"
            )
            scope.error("bad-walk", message, (*_PATH, "count"), fix=fix)
        axes.append(along)
    return Walk(walk.list, walk.count, tuple(axes), walk.full or "", walk.order or "")


def _check_array(spec: SpecFile, scope: Scope, key: str, name: str) -> None:
    argument = spec.arguments.get(name)
    if argument is None:
        fix = suggest(name, spec.arguments) or "declare it under 'arguments'"
        message = f"'{name}' is not an argument of this kernel"
        scope.error("unknown-argument", message, (*_PATH, key), fix=fix)
        return
    dtype = scope.value(argument.dtype, ("arguments", name, "dtype"))
    if dtype is not None and dtype not in INTEGERS:
        message = f"'{name}' is {dtype}, but blocks are numbers of integers"
        scope.error("dtype-mismatch", message, (*_PATH, key), fix="make it i32")


def _check_shapes(spec: SpecFile, scope: Scope, walk: WalkedBlocks) -> None:
    listed, count = spec.arguments[walk.list].shape, spec.arguments[walk.count].shape
    if not listed or listed[:-1] != count:
        message = f"'{walk.list}' has shape [{', '.join(listed)}], and '{walk.count}' "
        message += f"[{', '.join(count)}]"
        fix = f"give '{walk.list}' the shape [{', '.join([*count, 'most'])}]"
        scope.error("bad-walk", message, (*_PATH, "list"), fix=fix)
        return
    for key, name in (("full", walk.full), ("order", walk.order)):
        if name is not None and (shape := spec.arguments[name].shape) != count:
            message = f"'{name}' has shape [{', '.join(shape)}]"
            fix = f"give it that of '{walk.count}': [{', '.join(count)}]"
            scope.error("bad-walk", message, (*_PATH, key), fix=fix)
            return
    if walk.order is not None and not count:
        message = "there is one list for all output tiles, and so no order of it"
        scope.error("bad-walk", message, (*_PATH, "order"), fix="remove 'order'")
    own = (walk.list, walk.count, walk.full, walk.order)
    others = [a.shape for n, a in spec.arguments.items() if n not in own]
    used = {extent for shape in others for extent in shape}
    for extent in (listed[-1], *(extent for extent in count if extent in walk.tiles)):
        if extent in used:
            message = f"'{extent}' counts blocks, but another argument has it, too"
            scope.error("bad-walk", message, (*_PATH, "list"), fix="give it a name of its own")
    for extent in walk.tiles:
        if extent not in count:
            message = f"'{walk.count}' has no extent '{extent}'"
            fix = suggest(extent, count) or f"its extents are {', '.join(count)}"
            scope.error("unknown-extent", message, (*_PATH, "tiles", extent), key=True, fix=fix)
