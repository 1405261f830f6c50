"""Output tiles that are numbered without those behind a size (``tiles: dense``)."""

from __future__ import annotations

from collections.abc import Sequence

from schedgen.spec.schema import SpecFile
from schedgen.spec.values import Scope
from schedgen.tensors import GridAxis


def check_dense(spec: SpecFile, scope: Scope, grid: Sequence[GridAxis]) -> None:
    """Reports where there is not one extent whose packed elements tiles are cut along.

    Only of packed elements it is known how many there are together, and so how many tiles.
    """
    if spec.loops.tiles != "dense":
        return
    axes = {axis.extent for axis in grid}
    cut = [extent for extent in spec.ragged if extent in axes]
    if not cut:
        message = "no output tile begins behind a size: none is cut along an extent of 'ragged'"
        fix = "compute all tiles, or say under 'ragged' which sizes are data"
    elif len(cut) > 1:
        message = f"output tiles are cut along '{cut[0]}' and '{cut[1]}', whose sizes are data"
        fix = "compute all tiles: those behind a size are left out"
    elif not spec.ragged[cut[0]].packed:
        message = f"tiles along '{cut[0]}' follow each other only if its elements do"
        fix = "give it 'starts' and 'packed' instead of 'lengths', or compute all tiles"
    else:
        return
    scope.error("bad-dense", message, ("loops", "tiles"), fix=fix)
