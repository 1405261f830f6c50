"""Sums in global memory to which output tiles add in the order of their numbers.

Of the tiles that add to an element, which lie side by side along one extent, each one adds after
the tile before it. There is a turn for each iteration of the main loop and each place along the
other extents: a word in global memory that says which tile has added last. It is the number of that
tile along the extent, in the order in which tiles follow each other there, plus one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from schedgen.expressions import Expression, Name, Values, evaluate_int, fold, parse
from schedgen.extents import single_extents
from schedgen.kernel import Kernel, Operation


@dataclass(frozen=True, slots=True)
class OrderedSum:
    """A ``tensor`` that is added to in turns, which the argument ``turns`` tells.

    ``along`` is the extent along which tiles take turns; along those of ``places`` each tile has
    turns of its own.
    """

    tensor: str
    turns: str
    stores: tuple[str, ...]
    along: str
    places: tuple[str, ...]


def turning(kernel: Kernel, stores: tuple[Operation, ...]) -> tuple[str, ...]:
    """Extents along which several output tiles add to the same elements by these stores."""
    own = {place.along for store in stores for place in store.places}
    several = [a.extent for a in kernel.grid if a.extent not in single_extents(kernel)]
    return tuple(extent for extent in several if extent not in own)


def ordered_sums(kernel: Kernel) -> tuple[OrderedSum, ...]:
    """Those of a kernel, by their tensors."""
    by_tensor: dict[str, list[Operation]] = {}
    for operation in kernel.operations:
        if operation.turns:
            by_tensor.setdefault(operation.tensor or "", []).append(operation)
    found: list[OrderedSum] = []
    for tensor, stores in by_tensor.items():
        (along,) = turning(kernel, tuple(stores))
        single = single_extents(kernel)
        places = [a.extent for a in kernel.grid if a.extent != along and a.extent not in single]
        names = tuple(store.name for store in stores)
        found.append(OrderedSum(tensor, stores[0].turns, names, along, tuple(places)))
    return tuple(found)


def folded(kernel: Kernel, formula: Expression | None) -> Expression | None:
    """A formula with the numbers of parameters, but for those that extents of tensors override."""
    extents = {extent for argument in kernel.arguments for extent in argument.shape}
    values = {name: parse(text) for name, text in kernel.parameters if name not in extents}
    return None if formula is None else fold(formula, values)


def most_trips(kernel: Kernel) -> Expression | None:
    """How many iterations an output tile has at most, in extents of tensors. A ragged extent that
    no tensor has room for is at most all that is packed.
    """
    tensors = {extent for argument in kernel.arguments for extent in argument.passed}
    most = {
        one.extent: Name(one.packed)
        for one in kernel.ragged
        if one.packed and one.extent not in tensors
    }
    count = folded(kernel, kernel.trip_count)
    return None if count is None else fold(count, most)


def words(
    places: Iterable[tuple[str, int]], trips: Expression, extents: Mapping[str, int], values: Values
) -> int:
    """How many words tell turns: one for each output tile along some extents, of which it has so
    many elements, in each iteration. ``values`` has what ``trips`` names beside extents.
    """
    tiles = prod(-(-extents[extent] // block) for extent, block in places)
    return tiles * max(1, evaluate_int(trips, {**values, **extents}))
