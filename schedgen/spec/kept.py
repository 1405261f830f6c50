"""Whether the iterations of an output tile are all that a mask keeps something in.

A mask that depends on the row says which elements along what the main loop walks an output tile
needs. Iterations that ``tile_first`` and ``tile_trips`` leave out must have none of them: kernel,
interpreter and reference all begin and end there, so nothing else would notice. A few problems
are laid out, ragged ones and ones that are larger than every number of the formulas, and in each of
them a few tiles, with the iterations at both ends of what is left out. Whatever is found there is a
counterexample; that there is none does not prove that there is none anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import product

import numpy as np

from schedgen.elements import tile_formulas, tile_numbers
from schedgen.expressions import (
    Array,
    Expression,
    ExpressionError,
    Number,
    evaluate,
    evaluate_arrays,
    references,
)
from schedgen.expressions.nodes import walk
from schedgen.kernel import Kernel, Kind
from schedgen.spec.parameters import literal
from schedgen.spec.values import Value
from schedgen.tensors import Place, tile_number

_SCALARS = (0, 1, 10, 1000)
"""Values of scalar arguments that are tried, all scalars at the same one."""
_NUMBERS = (0, 1, 3)
"""Numbers of tiles that are tried along extents of which each tile has one element, all at the same
one.
"""
_MANY = 40
"""Tiles along a side, of those problems that have many."""
_APART = 16
"""Rows of a tile that are looked at, beside its last one."""
_MOST_NUMBER = 1 << 14
"""A larger number of a formula is none that says how far a mask reaches."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An element that ``operation`` keeps in an iteration that is left out by ``key`` of loops."""

    key: str
    operation: str
    message: str
    fix: str


@dataclass(frozen=True, slots=True)
class _Mask:
    """A mask of the main loop, with all that says in which iterations it keeps something.

    ``walked`` and ``fixed`` are its sides that move with the loop and that do not; ``tile`` is the
    name of an output tile's number along the latter. ``trip_count``, ``tile_trips``, ``tile_first``
    and ``tile_when`` are those of the kernel. ``numbers`` are the names of an output tile's numbers
    along other extents, ``shared`` is one of them if its tiles share the iterations.
    """

    name: str
    keep: Expression
    walked: Place
    fixed: Place
    tile: str
    trip_count: Expression
    tile_trips: Expression | None
    tile_first: Expression | None
    tile_when: Expression | None
    parameters: tuple[tuple[str, Value], ...]
    extents: tuple[str, ...]
    scalars: tuple[str, ...]
    numbers: tuple[str, ...]
    shared: str

    @property
    def formulas(self) -> list[Expression]:
        found = (self.keep, self.tile_trips, self.tile_first, self.tile_when)
        return [formula for formula in found if formula is not None]

    @property
    def names(self) -> tuple[str, str]:
        """What the coordinates along ``fixed`` and ``walked`` are called."""
        return ("row", "column") if self.fixed.side == "rows" else ("column", "row")


def left_out(kernel: Kernel) -> LeftOut | None:
    """A kept element in an iteration that its output tile leaves out, if one is found."""
    return next(filter(None, map(_found, _masks(kernel))), None)


@lru_cache(maxsize=256)
def _found(mask: _Mask) -> LeftOut | None:
    """The first one of a mask. Many kernels of a spec have the same masks."""
    try:
        return next(_Search(mask).counterexamples(), None)
    except ExpressionError:  # what only a kernel knows, or what is reported elsewhere
        return None


def _masks(kernel: Kernel) -> Iterator[_Mask]:
    """Masks that say something of a tile's rows, where these do not move with the loop."""
    if not kernel.tile_range or kernel.trip_count is None:
        return
    extents = {extent for argument in kernel.arguments for extent in argument.shape}
    known = {name: literal(text) for name, text in kernel.parameters if name not in extents}
    arguments = {argument.name for argument in kernel.arguments if not argument.shape}
    for operation in kernel.operations:
        moving = [place for place in operation.places if place.step]
        still = [place for place in operation.places if not place.step]
        if operation.kind is not Kind.MASK or len(moving) != 1 or len(still) != 1:
            continue
        if still[0].extent not in kernel.tile_extents:
            continue
        keep = dict(operation.formulas)["keep"]
        along = kernel.tile_extents.index(still[0].extent)
        formulas = (keep, kernel.trip_count, *tile_formulas(kernel))
        named = {name.name for formula in formulas for name in references(formula)}
        mask = _Mask(
            operation.base,
            keep,
            moving[0],
            still[0],
            ("tile_row", "tile_column")[along],
            kernel.trip_count,
            kernel.tile_trips,
            kernel.tile_first,
            kernel.tile_when,
            tuple((name, value) for name, value in known.items() if name in named),
            tuple(sorted(extents)),
            tuple(sorted(arguments & named)),
            tuple(sorted({*tile_numbers(kernel)} & named - {"tile_row", "tile_column"})),
            tile_number(kernel.split) if kernel.split else "",
        )
        if mask.names[0] in {name.name for name in references(keep)}:
            yield mask


class _Search:
    """Problems of one mask."""

    def __init__(self, mask: _Mask) -> None:
        self.mask = mask
        numbers = [value for _, value in mask.parameters]
        numbers += [n.value for f in mask.formulas for n in walk(f) if isinstance(n, Number)]
        large = [int(n) for n in numbers if isinstance(n, Fraction) and n <= _MOST_NUMBER]
        self.large = max([0, *large])

    def counterexamples(self) -> Iterator[LeftOut]:
        """What is kept where nothing is computed."""
        for size, walked, tiles in self._problems():
            extents = dict.fromkeys(self.mask.extents, 1)
            extents |= {self.mask.fixed.extent: size, self.mask.walked.extent: walked}
            # A scalar that decides how iterations are shared, or that divides, is never 0.
            scalars = _SCALARS[bool(self.mask.shared) :] if self.mask.scalars else (0,)
            numbers = _NUMBERS if self.mask.numbers else (0,)
            for tile, scalar, number in product(tiles, scalars, numbers):
                found = self._of_tile(extents, tile, scalar, number)
                if found is not None:
                    yield found

    def _problems(self) -> Iterator[tuple[int, int, list[int]]]:
        """Extents along the sides, and which tiles to look at: one, several and a part, many,
        more than any number in formulas is large; and the second of three tiles, at every distance
        of what a row keeps from the ends of iterations.
        """
        block, step = self.mask.fixed.block or self.mask.fixed.size, self.mask.walked.step
        for size, walked in product(self._sizes(block), self._sizes(step)):
            count = -(-size // block) if self.mask.fixed.block else 1
            chosen = {0, 1, count // 2, count - 2, count - 1}
            yield size, walked, sorted(tile for tile in chosen if 0 <= tile < count)
        for more in range(step):
            walked = self.large + 3 * block + 2 * step + more
            yield 3 * block, walked, [1 if self.mask.fixed.block else 0]

    def _sizes(self, block: int) -> list[int]:
        return [1, block + 1, 3 * block + 5, _MANY * block + 1, self.large + 4 * block + 1]

    def _of_tile(
        self, extents: Mapping[str, int], tile: int, scalar: int, number: int
    ) -> LeftOut | None:
        names = dict(self.mask.parameters)
        names |= {name: Fraction(size) for name, size in extents.items()}
        names |= {"tile_row": Fraction(0), "tile_column": Fraction(0)}
        names[self.mask.tile] = Fraction(tile)
        names |= dict.fromkeys(self.mask.scalars, Fraction(scalar))
        names |= dict.fromkeys(self.mask.numbers, Fraction(number))
        every, first, end = self._iterations(names)
        if self.mask.shared:
            first, end = self._shared(names, every)
        before, after = {0, first - 1}, {end, every - 1}
        for iteration in sorted(before | after):
            if 0 <= iteration < every and not first <= iteration < end:
                at = self._kept(names, extents, tile, iteration, scalar)
                if at is not None:
                    key = "tile_first" if iteration < first else "tile_trips"
                    return self._describe(key, extents, at, (first, end), scalar)
        return None

    def _shared(self, names: Mapping[str, Value], every: int) -> tuple[int, int]:
        """The iterations of all tiles that share them, up to the first one that none has."""
        end = 0
        for number in range(every):
            here = {**names, self.mask.shared: Fraction(number)}
            if self.mask.tile_when is not None and not evaluate(self.mask.tile_when, here):
                continue
            _, first, behind = self._iterations(here)
            if first > end:
                break
            end = max(end, behind)
            if end == every:
                break
        return 0, end

    def _iterations(self, names: Mapping[str, Value]) -> tuple[int, int, int]:
        """All iterations there are; the first one of a tile, and the one before which it ends."""
        mask, first = self.mask, 0
        every = end = _whole(evaluate(mask.trip_count, names))
        if mask.tile_trips is not None:
            end = min(every, max(1, _whole(evaluate(mask.tile_trips, names))))
        if mask.tile_first is not None:
            first = min(max(0, _whole(evaluate(mask.tile_first, names))), end - 1)
        return every, first, end

    def _kept(
        self,
        names: Mapping[str, Value],
        extents: Mapping[str, int],
        tile: int,
        iteration: int,
        scalar: int,
    ) -> tuple[int, int] | None:
        """Where an iteration keeps something: along the side that stays, and along the other."""
        mask = self.mask
        inside = np.arange(mask.fixed.size)
        some = (inside % _APART == 0) | (inside == mask.fixed.size - 1)
        still = (mask.fixed.block * tile + mask.fixed.offset + inside[some])[:, None]
        start = mask.walked.step * iteration + mask.walked.offset
        moving = np.arange(start, start + mask.walked.size)[None, :]
        known: dict[str, Array | float | bool] = {
            name: value if isinstance(value, bool) else float(value)
            for name, value in names.items()
            if not isinstance(value, str)
        }
        known |= dict.fromkeys(mask.scalars, float(scalar))
        known |= dict(zip(mask.names, (still, moving), strict=True))
        there = (still < extents[mask.fixed.extent]) & (moving < extents[mask.walked.extent])
        with np.errstate(all="ignore"):  # division by a scalar that is 0 here
            kept = np.argwhere(evaluate_arrays(mask.keep, known) & there)
        if not len(kept):
            return None
        return int(still[kept[0][0], 0]), int(moving[0, kept[0][1]])

    def _describe(
        self,
        key: str,
        extents: Mapping[str, int],
        at: tuple[int, int],
        iterations: tuple[int, int],
        scalar: int,
    ) -> LeftOut:
        mask, (first, end) = self.mask, iterations
        (one, other), step = mask.names, mask.walked.step
        sizes = {name: extents[name] for name in (mask.fixed.extent, mask.walked.extent)}
        sizes |= dict.fromkeys(mask.scalars, scalar)
        where = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        message = (
            f"'{mask.name}' keeps {other} {at[1]} of {one} {at[0]} where {where}, but the tile of "
            f"that {one} has only {other}s {first * step} to {end * step - 1}"
        )
        edge = "begin no later than at the first" if key == "tile_first" else "end behind the last"
        return LeftOut(key, mask.name, message, f"{edge} {other} that a {one} of it keeps")


def _whole(value: Value) -> int:
    """An iteration count; what is none is reported elsewhere."""
    if isinstance(value, Fraction) and value.denominator == 1:
        return int(value)
    raise ExpressionError(f"{value} is not an integer")
