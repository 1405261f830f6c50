"""How CTAs come to the output tiles that they compute."""

from __future__ import annotations

from collections.abc import Sequence

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
    cut = {axis.extent for axis in grid}
    behind = next((extent for extent in spec.ragged if extent in cut), None)
    if found == "dynamic" and behind is not None:
        message = (
            f"output tiles are cut along '{behind}', whose sizes are data: a CTA skips those that "
            "there are not, and would have to claim others meanwhile"
        )
        scope.error("bad-claim", message, path, fix="say 'claim: fixed' or 'claim: launch'")
    return found or "fixed"
