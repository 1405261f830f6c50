"""How CTAs come to the output tiles that they compute."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from schedgen.spec.schema import SpecFile
from schedgen.spec.values import Scope
from schedgen.tensors import GridAxis

CLAIMS = ("fixed", "dynamic", "launch")


def bind_claim(spec: SpecFile, scope: Scope, grid: Sequence[GridAxis]) -> str:
    """One of `CLAIMS`, for output tiles that are cut along ``grid``; mistakes are reported."""
    given, path = spec.loops.claim, ("loops", "claim")
    words = Scope(
        scope.source, scope.sink, {**dict(zip(CLAIMS, CLAIMS, strict=True)), **scope.values}
    )
    found = None if given is None else words.word(given, path, CLAIMS, "claim")
    if spec.loops.persistent is not None:
        persistent = scope.truth(spec.loops.persistent, ("loops", "persistent"))
        if found is None:
            found = "fixed" if persistent else "launch"
        elif persistent != (found != "launch"):
            several = "several tiles" if persistent else "one tile"
            message = f"'persistent' says that a CTA computes {several}, and 'claim: {found}' not"
            scope.error("bad-claim", message, path, fix="remove 'persistent'")
    skipped = _skipped(spec, {axis.extent for axis in grid})
    if found == "dynamic" and skipped:
        message = f"{skipped}: a CTA skips those, and would have to claim others meanwhile"
        scope.error("bad-claim", message, path, fix="say 'claim: fixed' or 'claim: launch'")
    return found or "fixed"


def _skipped(spec: SpecFile, cut: AbstractSet[str]) -> str:
    """Why there are output tiles, along the extents ``cut``, that are not computed; else ''."""
    behind = next((extent for extent in spec.ragged if extent in cut), None)
    if behind is not None and spec.loops.tiles != "dense":
        return f"output tiles are cut along '{behind}', whose sizes are data"
    if spec.loops.tile_when is not None:
        return "'tile_when' says which output tiles are computed"
    return ""
