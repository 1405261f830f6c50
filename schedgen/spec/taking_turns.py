"""Whether output tiles can add to a tensor in the order of their numbers (``ordered`` of a store).

A tile waits for the one before it, along the extent whose tiles add to the same elements. That ends
for all of them only if the one before comes to its turn without those behind it, so it must have
begun: CTAs have one tile each, and begin in the order of their numbers. And a
tile has to know without communication which one is before it: of those with an iteration, all have
it from one tile to another one, with none between that has not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from schedgen.expressions.monotone import Way, way
from schedgen.kernel import Kernel, Operation, Phase
from schedgen.ordered import folded, turning
from schedgen.ragged import cut_densely
from schedgen.tensors import INTEGERS


@dataclass(frozen=True, slots=True)
class TurnMistake:
    """What is wrong, at which operation, and how to repair it."""

    operation: str
    message: str
    fix: str


_Check = Callable[[Kernel, Sequence[Operation]], TurnMistake | None]


def turn_mistake(kernel: Kernel, stores: Sequence[Operation]) -> TurnMistake | None:
    """The first thing that is wrong with the ``stores`` of a tensor of which one is ordered."""
    kernel = _folded(kernel)
    checks: tuple[_Check, ...] = (_together, _array, _in_loop, _tiles, _apart, _in_a_row, _claimed)
    return next(filter(None, (check(kernel, stores) for check in checks)), None)


def _folded(kernel: Kernel) -> Kernel:
    """With the numbers of parameters in the formulas that say which iterations a tile has."""
    trips, first = (folded(kernel, formula) for formula in (kernel.tile_trips, kernel.tile_first))
    return replace(kernel, tile_trips=trips, tile_first=first)


def _together(kernel: Kernel, stores: Sequence[Operation]) -> TurnMistake | None:
    """One role adds to the tensor, always, and in turns of one array."""
    del kernel
    first = stores[0]
    for store in stores:
        if store.turns != first.turns:
            message = f"{store.base} and {first.base} add to '{store.tensor}' in different turns"
            return TurnMistake(store.base, message, "say the same 'ordered' of both")
        if store.role is None or store.role != first.role:
            message = f"'{store.tensor}' is added to in turns, which a single role takes"
            return TurnMistake(store.base, message, "give its stores one 'role'")
        if store.when is not None:
            message = f"{store.base} takes its turn in each iteration, and 'when' leaves some out"
            return TurnMistake(store.base, message, "remove 'when'")
    return None


def _array(kernel: Kernel, stores: Sequence[Operation]) -> TurnMistake | None:
    """The array is one of integers that says nothing else."""
    name, base = stores[0].turns, stores[0].base
    fix = f"declare it under 'arguments': {name}: {{shape: [n_{name}], dtype: i32}}"
    array = next((a for a in kernel.arguments if a.name == name), None)
    if array is None:
        return TurnMistake(base, f"'{name}' is not an argument of this kernel", fix)
    if array.dtype not in INTEGERS or len(array.shape) != 1:
        message = f"'{name}' is {array.dtype} of shape [{', '.join(array.shape)}]"
        return TurnMistake(base, f"{message}; turns are integers along one extent", fix)
    others = [a for a in kernel.arguments if a.name != name]
    meant = {one for ragged in kernel.ragged for one in ragged.arrays}
    meant |= {a.index for a in others} | {*(kernel.walk.arrays if kernel.walk else ())}
    if name in meant or any(array.shape[0] in a.shape for a in others):
        message = f"'{name}', or its extent, means something else as well"
        return TurnMistake(base, message, fix)
    taken = {o.turns for o in kernel.operations if o.turns and o.tensor != stores[0].tensor}
    if name in taken:
        message = f"'{name}' tells the turns of another tensor, too"
        return TurnMistake(base, message, "give each tensor an array of its own")
    return None


def _in_loop(kernel: Kernel, stores: Sequence[Operation]) -> TurnMistake | None:
    """Each iteration adds to elements of its own, the same in all tiles."""
    del kernel
    for store in stores:
        if store.phase is not Phase.BODY:
            message = f"{store.base} is outside of the main loop, and turns are those of iterations"
            return TurnMistake(store.base, message, "add in the body")
        walked = [p for p in store.places if p.step]
        if any(p.grouped or p.split_k or (p.step and p.block) for p in store.places) or not walked:
            message = f"iterations of {store.base} do not each add to elements of their own"
            fix = f"let '{store.tensor}' have the extent that the main loop walks, and no group"
            return TurnMistake(store.base, message, fix)
    for places in zip(*(store.places for store in stores), strict=True):
        span = max(p.offset + p.size for p in places) - min(p.offset for p in places)
        if any(place.step and abs(place.step) < span for place in places):
            message = f"iterations of {stores[0].base} add to elements of the ones before"
            return TurnMistake(stores[0].base, message, "add tiles that are as large as a step")
    return None


def _tiles(kernel: Kernel, stores: Sequence[Operation]) -> TurnMistake | None:
    """All output tiles are computed, each by itself, and which one is before another is known."""
    found = {
        f"'tiles: {kernel.tiles}'": kernel.tiles not in ("all", "dense"),
        "'ragged'": bool(kernel.ragged) and kernel.tiles != "dense",
        "'walk'": kernel.walk is not None,
        "'tile_when'": kernel.tile_when is not None,
        "'split_k'": bool(kernel.split),
        "'teams'": any(teams > 1 for _, teams in kernel.teams),
    }
    wrong = next((name for name, there in found.items() if there), None)
    if wrong is None:
        return None
    message = f"which tile is before another one is not known with {wrong}"
    fix = "say 'unordered: true' instead of 'ordered'"
    if wrong == "'ragged'":
        fix += ", or 'tiles: dense' under 'loops'"
    return TurnMistake(stores[0].base, message, fix)


def _apart(kernel: Kernel, stores: Sequence[Operation]) -> TurnMistake | None:
    """Tiles along one extent add to the same elements: one of those that tiles are cut along."""
    along = turning(kernel, tuple(stores))
    tensor = stores[0].tensor
    if len(along) == 0:
        message = f"each element of '{tensor}' is added to by one output tile: there are no turns"
        return TurnMistake(stores[0].base, message, "remove 'ordered'")
    if len(along) > 1 or along[0] not in kernel.tile_extents:
        message = f"output tiles along {' and '.join(map(repr, along))} add to '{tensor}'"
        fix = "let only those along the rows, or the columns, of a tile add to the same elements"
        return TurnMistake(stores[0].base, message, fix)
    cut, tensors = cut_densely(kernel), {e for a in kernel.arguments for e in a.passed}
    if cut is not None and along[0] != cut.extent:
        message = f"output tiles along '{along[0]}' add to '{tensor}', and those along "
        message += f"'{cut.extent}' are numbered densely"
        return TurnMistake(stores[0].base, message, "say 'unordered: true' instead of 'ordered'")
    if cut is not None and cut.of not in tensors:
        message = f"no tensor has the extent '{cut.of}', so how many turns there are is not known"
        fix = f"load something of each '{cut.of}', such as row sums of its own"
        return TurnMistake(stores[0].base, message, fix)
    return None


def _claimed(kernel: Kernel, stores: Sequence[Operation]) -> TurnMistake | None:
    """Each CTA computes one tile, and CTAs begin in the order of their numbers."""
    if kernel.claim == "launch":
        return None
    message = "a CTA with several output tiles may wait for one of a CTA that finds no room "
    message += "beside it"
    return TurnMistake(stores[0].base, message, "say 'claim: launch' under 'loops'")


def _in_a_row(kernel: Kernel, stores: Sequence[Operation]) -> TurnMistake | None:
    """Where a tile begins and ends goes one way with its number."""
    (along,) = turning(kernel, tuple(stores))
    mine = ("tile_row", "tile_column")[kernel.tile_extents.index(along)]
    ways = {way(formula, mine) for formula in kernel.tile_range} - {Way.SAME}
    if len(ways) <= 1 and Way.UNKNOWN not in ways:
        return None
    message = f"whether iterations of output tiles begin and end later with '{mine}' is not known"
    fix = f"write 'tile_first' and 'tile_trips' so that both rise, or fall, with '{mine}'"
    return TurnMistake(stores[0].base, message, fix)
