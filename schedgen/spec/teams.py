"""How many warpgroups compute output tiles in turn, by role."""

from __future__ import annotations

from collections.abc import Sequence

from schedgen.errors import suggest
from schedgen.expressions import references
from schedgen.kernel import Operation, Phase
from schedgen.spec.schema import SpecFile
from schedgen.spec.values import Scope

MOST = 4
"""With more, each would have fewer registers than a product of 64 rows and 128 columns takes."""


def bind_teams(
    spec: SpecFile, scope: Scope, operations: Sequence[Operation], claim: str
) -> tuple[tuple[str, int], ...]:
    """The roles with several teams, and how many, of a kernel whose CTAs ``claim`` tiles like that.
    Mistakes are reported to ``scope``.
    """
    found: list[tuple[str, int]] = []
    for name, count in spec.loops.teams.items():
        path = ("loops", "teams", name)
        teams = scope.integer(count, path)
        if not 1 <= teams <= MOST:
            message = f"{name} has {teams} teams; 1 to {MOST} are possible"
            scope.error("bad-teams", message, path, fix="use 2, or 1 for none that takes turns")
        elif teams > 1 and _fits(spec, scope, operations, name, claim):
            found.append((name, teams))
    return tuple(found)


def _fits(
    spec: SpecFile, scope: Scope, operations: Sequence[Operation], name: str, claim: str
) -> bool:
    """Whether the tiles of a role can be computed in turn: all have as many iterations, so that
    each team knows how many the other ones have done, and the role has something to do behind them.
    """
    path = ("loops", "teams", name)
    pinned = dict.fromkeys(o.role for o in operations if o.role is not None)
    mine = [operation for operation in operations if operation.role == name]
    formulas = ("tile_trips", "tile_first", "tile_when")
    ranges = [key for key in formulas if getattr(spec.loops, key) is not None]
    ranges += [] if _equally_long(spec, scope) else ["ragged"]
    ranges += ["walk"] if spec.loops.walk else []
    if not mine:
        known = ", ".join(pinned) or "none"
        fix = suggest(name, list(pinned)) or f"say 'role: {name}' in one; roles that are: {known}"
        message = f"no operation has the role '{name}'"
        scope.error("bad-teams", message, path, key=True, fix=fix)
    elif all(operation.phase is not Phase.AFTER for operation in mine):
        message = f"'{name}' has nothing to do after the loop while another team multiplies"
        fix = "give an operation behind the loop that role, or remove it here"
        scope.error("bad-teams", message, path, key=True, fix=fix)
    elif ranges:
        message = "teams take tiles in turn, and these may have different numbers of iterations"
        scope.error("bad-teams", message, path, key=True, fix=f"remove 'teams' or '{ranges[0]}'")
    elif claim == "launch":
        message = "teams take the tiles of a CTA in turn, and a CTA has one"
        scope.error("bad-teams", message, path, key=True, fix="say 'claim: fixed'")
    elif claim == "dynamic":
        message = (
            "teams take every other tile of a CTA, and which those are is known before only if it "
            "is fixed"
        )
        scope.error("bad-teams", message, path, key=True, fix="say 'claim: fixed'")
    else:
        return True
    return False


def _equally_long(spec: SpecFile, scope: Scope) -> bool:
    """Whether sizes that are data leave no output tile out, and say of none how many iterations it
    has.
    """
    trips = scope.expression(spec.loops.trips, ("loops", "trips"))
    named = set[str]() if trips is None else {name.name for name in references(trips)}
    return not spec.ragged or (spec.loops.tiles == "dense" and named.isdisjoint(spec.ragged))
