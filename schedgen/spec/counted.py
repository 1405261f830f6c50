"""Extents of tensors that count output tiles or iterations: what a spec says of them.

A tensor with such an extent has elements for each output tile, such as the sums of its rows, which
whoever reads it adds up in whatever order it likes; or for each block that a tile or an iteration
consists of, such as scale factors.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from schedgen.errors import suggest
from schedgen.kernel import Operation
from schedgen.spec.schema import SpecFile
from schedgen.spec.values import Scope
from schedgen.tensors import GridAxis


def check_counted(
    spec: SpecFile,
    scope: Scope,
    grid: Sequence[GridAxis],
    operations: Sequence[Operation],
    walked: Collection[str],
) -> None:
    """Reports extents that count neither output tiles nor iterations, which walk ``walked``, or are
    something else as well.
    """
    extents = {extent for argument in spec.arguments.values() for extent in argument.shape}
    axes = [axis.extent for axis in grid]
    for key in ("counted_by", "counted_in"):
        for extent in getattr(spec.loops, key):
            if extent not in spec.loops.counted:
                message = f"'{extent}' counts nothing"
                fix = suggest(extent, spec.loops.counted) or f"add 'counted: {{{extent}: ...}}'"
                scope.error("bad-count", message, ("loops", key, extent), key=True, fix=fix)
                return
    for extent, along in spec.loops.counted.items():
        path = ("loops", "counted", extent)
        if extent not in extents:
            fix = suggest(extent, sorted(extents)) or "give it to a tensor that tiles store to"
            message = f"'{extent}' is no extent of a tensor"
            scope.error("unknown-extent", message, path, key=True, fix=fix)
        elif not axes:
            continue  # tiles disagree about the grid, which is said elsewhere
        elif along not in axes and along not in walked:
            message = f"output tiles are not cut along '{along}', so there is nothing to count"
            fix = suggest(along, [*axes, *walked]) or f"they are along {', '.join(axes)}"
            if walked:
                fix += f", and iterations along {', '.join(sorted(walked))}"
            scope.error("bad-count", message, path, fix=fix)
        else:
            _check_use(spec, scope, extent, operations, axes)
            _check_parts(spec, scope, grid, operations, extent)


def _check_use(
    spec: SpecFile,
    scope: Scope,
    extent: str,
    operations: Sequence[Operation],
    axes: Sequence[str],
) -> None:
    """An extent that counts has no other meaning, and is of a tensor that tiles are moved to."""
    loops, path = spec.loops, ("loops", "counted", extent)
    others = {"groups": loops.groups, "one_tile": loops.one_tile, "split_k": [loops.split_k]}
    for key, names in others.items():
        if extent in names:
            message = f"'{extent}' counts output tiles, and '{key}' says something else of it"
            scope.error("bad-count", message, path, key=True, fix=f"remove it from '{key}'")
    places = [(o, p) for o in operations if o.tensor for p in o.places if p.extent == extent]
    lying = next((o for o, place in places if not place.counts), None)
    cut = spec.loops.counted[extent]
    outside = next((o for o, p in places if p.along == cut and cut not in axes), None)
    if lying is not None:
        message = f"'{extent}' counts output tiles, but the tile of '{lying.base}' lies along it"
        fix = f"say in 'tiled' of '{lying.tensor}' along what its tiles lie, rename the extent, or "
        fix += "say in 'counted_in' how many elements each has"
        scope.error("bad-count", message, path, key=True, fix=fix)
    elif outside is not None:
        message = f"iterations go along '{cut}', but '{outside.base}' is outside of them"
        fix = "count what output tiles are cut along"
        scope.error("bad-count", message, path, fix=fix + f": {', '.join(axes)}" * bool(axes))
    elif not places:
        message = f"no tile is loaded from, or stored to, a tensor with the extent '{extent}'"
        scope.error("bad-count", message, path, key=True, fix="remove it")


def _check_parts(
    spec: SpecFile,
    scope: Scope,
    grid: Sequence[GridAxis],
    operations: Sequence[Operation],
    extent: str,
) -> None:
    """Tiles and iterations consist of whole blocks, which a dimension numbers or the tile has."""
    places = [p for o in operations if o.tensor for p in o.places]
    mine = next((p for p in places if p.extent == extent and p.counts), None)
    by = spec.loops.counted_by.get(extent)
    if mine is None:
        return
    if by is not None and by not in spec.dimensions:
        fix = suggest(by, spec.dimensions) or "declare it under 'dimensions'"
        path = ("loops", "counted_by", extent)
        scope.error("unknown-dimension", f"'{by}' is not a dimension", path, fix=fix)
        return
    sizes = {axis.extent: axis.block for axis in grid}
    steps = {p.extent: p.step for p in places if p.step and not p.counts}
    whole = (steps if mine.step else sizes).get(mine.counts, 0)
    what = "an iteration" if mine.step else "an output tile"
    path = ("loops", "counted", extent)
    if not whole:
        message = f"no tile lies along '{mine.counts}', so nobody knows how long a block of it is"
        fix = f"load a tensor with the extent '{mine.counts}', or count another one"
        scope.error("bad-count", message, path, fix=fix)
        return
    elements = mine.step or mine.block
    if elements % mine.unit:
        message = f"{what} has {elements} elements along '{extent}', in which no block has "
        message += f"{mine.unit}"
        fix = f"load a multiple of {mine.unit} of them, or change 'counted_in'"
        scope.error("bad-count", message, path, fix=fix)
    elif whole % (elements // mine.unit):
        blocks = elements // mine.unit
        message = f"{what} has {whole} elements along '{mine.counts}', which are no {blocks} blocks"
        scope.error("bad-count", message, path, fix=f"make {whole} a multiple of {blocks}")
