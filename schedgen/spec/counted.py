"""Extents of tensors that count output tiles: what a spec says of them.

A tensor with such an extent has elements for each output tile, such as the sums of its rows, which
whoever reads it adds up in whatever order it likes.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedgen.errors import suggest
from schedgen.kernel import Operation
from schedgen.spec.schema import SpecFile
from schedgen.spec.values import Path, Scope
from schedgen.tensors import GridAxis


def check_counted(
    spec: SpecFile, scope: Scope, grid: Sequence[GridAxis], operations: Sequence[Operation]
) -> None:
    """Reports extents that count no output tiles, or are something else as well."""
    extents = {extent for argument in spec.arguments.values() for extent in argument.shape}
    axes = [axis.extent for axis in grid]
    for extent, along in spec.loops.counted.items():
        path = ("loops", "counted", extent)
        if extent not in extents:
            fix = suggest(extent, sorted(extents)) or "give it to a tensor that tiles store to"
            message = f"'{extent}' is no extent of a tensor"
            scope.error("unknown-extent", message, path, key=True, fix=fix)
        elif not axes:
            continue  # tiles disagree about the grid, which is said elsewhere
        elif along not in axes:
            message = f"output tiles are not cut along '{along}', so there is nothing to count"
            fix = suggest(along, axes) or f"they are along {', '.join(axes)}"
            scope.error("bad-count", message, path, fix=fix)
        else:
            _check_use(spec, scope, extent, operations, path)


def _check_use(
    spec: SpecFile, scope: Scope, extent: str, operations: Sequence[Operation], path: Path
) -> None:
    """An extent that counts has no other meaning, and is of a tensor that tiles are moved to."""
    loops = spec.loops
    others = {"groups": loops.groups, "one_tile": loops.one_tile, "split_k": [loops.split_k]}
    for key, names in others.items():
        if extent in names:
            message = f"'{extent}' counts output tiles, and '{key}' says something else of it"
            scope.error("bad-count", message, path, key=True, fix=f"remove it from '{key}'")
    places = [(o, p) for o in operations if o.tensor for p in o.places if p.extent == extent]
    lying = next((o for o, place in places if not place.counted), None)
    if lying is not None:
        message = f"'{extent}' counts output tiles, but the tile of '{lying.base}' lies along it"
        fix = f"say in 'tiled' of '{lying.tensor}' along what its tiles lie, or rename the extent"
        scope.error("bad-count", message, path, key=True, fix=fix)
    elif not places:
        message = f"no tile is loaded from, or stored to, a tensor with the extent '{extent}'"
        scope.error("bad-count", message, path, key=True, fix="remove it")
