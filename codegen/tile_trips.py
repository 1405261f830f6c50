"""Which iterations of the main loop an output tile has."""

from __future__ import annotations

from schedgen.codegen.formulas import whole
from schedgen.codegen.ir import Code, Name, called, code
from schedgen.codegen.source import Source
from schedgen.codegen.walks import Walks
from schedgen.elements import tile_formulas, tile_numbers
from schedgen.extents import trips_are_data
from schedgen.kernel import Kernel
from schedgen.ordered import most_trips, ordered_sums


def numbers_of_tile(kernel: Kernel) -> dict[str, str]:
    """Variables with the number of the output tile, by their names in formulas."""
    return {name: f"at_{extent}" for name, extent in tile_numbers(kernel).items()}


def differ(kernel: Kernel) -> bool:
    """Whether each output tile has iterations of its own, by a formula or by data."""
    return bool(tile_formulas(kernel) or trips_are_data(kernel) or kernel.walk)


def trips_at_most(kernel: Kernel) -> Code:
    """On the host: the iterations of a tile, or the most that one may have. Words that tell turns
    are counted by that: those of the largest size that a number may have, of which 0 has one, too.
    """
    most = most_trips(kernel) if kernel.ragged and ordered_sums(kernel) else None
    if most is not None:
        return code("cutlass.max({}, 1)", whole(most))
    assert kernel.trip_count is not None
    return whole(kernel.trip_count)


def every_trip(kernel: Kernel) -> Code:
    """The iterations of a tile from which formulas may take some away: those of its number where
    sizes are data, else those that the host counted.
    """
    every = code("{}", Name("all_trips"))
    if not kernel.ragged or kernel.walk is not None or not differ(kernel):
        return every
    assert kernel.trip_count is not None
    found = code("cutlass.max({}, Int32(1))", whole(kernel.trip_count))
    # Iterations beyond the room of a number would wait for turns of the next number.
    return code("cutlass.min({}, {})", found, every) if ordered_sums(kernel) else found


def write_trips(source: Source, kernel: Kernel, walks: Walks) -> None:
    """``trips``, how many iterations a tile has; ``skipped``, how many come before its first one;
    where that depends on the tile.
    """
    every = code("{}", Name("all_trips"))
    if kernel.walk is not None:
        source.add(code("trips = {}", called("opaque", walks.trips())))
        full = walks.full()
        source.add(*([] if full is None else [full]))
        return
    data = bool(kernel.ragged) and differ(kernel)
    if data:
        source.comment("of no elements there is one iteration, in which all is masked")
        source.add(code("trips = {}", every_trip(kernel)))
        every = code("trips")
    names = numbers_of_tile(kernel)
    end = "trips" if kernel.tile_first is None else "end"
    if kernel.tile_trips is not None:
        needed = f"{end} = cutlass.min({{}}, cutlass.max(Int32({{}}), Int32(1)))"
        source.add(code(needed, every, whole(kernel.tile_trips, names, extremes=True)))
    elif kernel.tile_first is not None:
        source.add(code("end = {}", every))
    if kernel.tile_first is not None:
        # At least 1 is said last, and of a single number: that is what a loop counts to.
        left = "trips = cutlass.min(end, cutlass.max(end - {}, Int32(1)))"
        first = whole(kernel.tile_first, names, extremes=True)
        source.add(code(left, first), "skipped = end - trips")
    if data:
        # Else the compiler asks in each role in other terms whether there is another turn.
        source.add(code("trips = {}", called("opaque", Name("trips"))))
