"""A kernel together with concrete tensors: extents, output tiles, and tiles in global memory."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import TypeAlias

import torch

from schedgen.elements import tile_numbers, whole_scalars
from schedgen.errors import SchedgenError
from schedgen.expressions import Expression, Name, evaluate, evaluate_int, parse
from schedgen.extents import beyond
from schedgen.interpret.formulas import scalar
from schedgen.interpret.pieces import TORCH
from schedgen.kernel import Kernel, Kind, Operation
from schedgen.sums import adds, summed
from schedgen.tensors import Argument, Place
from schedgen.walking import numbers_of_tiles, tiles_of

_EXACT = torch.float64
Coordinates: TypeAlias = Mapping[str, int]
"""Which output tile it is, along each extent that output tiles are cut along."""


class InterpretationError(SchedgenError):
    """A kernel, a program or its inputs cannot be interpreted, or the program went wrong."""


class Problem:
    """The inputs of ``kernel``, tensors and scalars by name; ``extents`` are those of results that
    no input has.

    Attributes:
        extents: the value of each named extent.
        tiles: the coordinates of each output tile, by extent, in the order of computation.
        trips: iterations of the main loop, for tiles that need all of them.

    Raises:
        InterpretationError: inputs are missing or do not fit together, or the spec does not tell
            where a tile lies.
    """

    def __init__(
        self,
        kernel: Kernel,
        inputs: Mapping[str, torch.Tensor | float],
        extents: Mapping[str, int] | None = None,
    ) -> None:
        self.kernel = kernel
        self.stored = {o.tensor or "" for o in kernel.operations if o.kind is Kind.STORE}
        self.summed = summed(kernel)
        self.inputs: dict[str, torch.Tensor] = {}
        shapes = {extent for argument in kernel.arguments for extent in argument.shape}
        # Those of no tensor: lengths that formulas name.
        self.extents = {e: size for e, size in (extents or {}).items() if e not in shapes}
        for argument in kernel.arguments:
            if argument.name not in self.stored - self.summed:
                self._add(argument, inputs)
        for extent in (extent for argument in kernel.arguments for extent in argument.shape):
            if extent not in self.extents:  # of what is stored only
                if extent not in (extents or {}):
                    raise InterpretationError(f"no input has the extent '{extent}'; fix: give it")
                self.extents[extent] = (extents or {})[extent]
        self._check()
        self.tiles = self._tiles()
        values = {**self.parameters, **self.extents}
        assert kernel.trip_count is not None
        count = evaluate_int(kernel.trip_count, values)
        self.trips = max(1, count) if kernel.ragged else count
        numbers = {n: v for n, v in values.items() if not isinstance(v, str)}
        self.names = {n: scalar(v if isinstance(v, bool) else float(v)) for n, v in numbers.items()}
        self.names.update((a.name, self.inputs[a.name]) for a in self._scalars)

    def trips_of(self, coordinates: Coordinates) -> int:
        """Iterations of the main loop for one output tile."""
        if self.kernel.walk is not None:
            most = self.inputs[self.kernel.walk.listed].shape[-1]
            count = self.inputs[self.kernel.walk.count][self._numbers(coordinates)]
            return min(max(int(count), 1), most)
        return self._end(coordinates) - self.first_of(coordinates)

    def first_of(self, coordinates: Coordinates) -> int:
        """The iteration of the main loop that is an output tile's first one."""
        if self.kernel.tile_first is None:
            return 0
        count = evaluate_int(self.kernel.tile_first, self._at(coordinates))
        return min(max(count, 0), max(self._end(coordinates) - 1, 0))

    def block_of(self, coordinates: Coordinates, iteration: int) -> int:
        """Which block of what the main loop walks an iteration takes, counted from the output
        tile's first one.
        """
        if self.kernel.walk is None:
            return iteration + self.first_of(coordinates)
        listed = self.inputs[self.kernel.walk.listed]
        block = listed[(*self._numbers(coordinates), iteration)]
        return min(max(int(block), 0), self.trips - 1)

    def partly(self, coordinates: Coordinates, iteration: int) -> bool:
        """Whether an iteration is not one of those that a list says to be full."""
        walk = self.kernel.walk
        if walk is None or not walk.full:
            return True
        return iteration >= int(self.inputs[walk.full][self._numbers(coordinates)])

    def _numbers(self, coordinates: Coordinates) -> tuple[int, ...]:
        """Where an output tile's element is in the arrays of a walk."""
        walk = self.kernel.walk
        assert walk is not None
        numbers = tuple(coordinates[extent] for extent in walk.axes)
        if not walk.order:
            return numbers
        order = self.inputs[walk.order][numbers[:-1]]
        return (*numbers[:-1], int((order == numbers[-1]).nonzero()[0]))

    def _end(self, coordinates: Coordinates) -> int:
        """The iteration of the main loop before which an output tile ends."""
        if self.kernel.tile_trips is None:
            return self.trips
        count = evaluate_int(self.kernel.tile_trips, self._at(coordinates))
        return min(self.trips, max(count, 1))

    def holds(self, condition: Expression, coordinates: Coordinates) -> bool:
        """Whether the condition of a store, or of tiles, holds for an output tile."""
        return bool(evaluate(condition, self._at(coordinates)))

    def element(self, tensor: str, coordinates: Coordinates) -> torch.Tensor:
        """The element of a tensor that belongs to an output tile, as float32."""
        argument = next(a for a in self.kernel.arguments if a.name == tensor)
        at = tuple(coordinates[extent] for extent in argument.shape)
        return self.inputs[tensor][at].to(torch.float32)

    def _at(self, coordinates: Coordinates) -> dict[str, Fraction | bool | str | int]:
        """What names of an output tile's arithmetic stand for."""
        whole = {name: int(self.inputs[name].item()) for name in whole_scalars(self.kernel)}
        numbers = tile_numbers(self.kernel).items()
        place = {name: coordinates.get(extent, 0) for name, extent in numbers}
        return {**self.parameters, **self.extents, **whole, **place}

    @cached_property
    def parameters(self) -> dict[str, Fraction | bool | str]:
        """The parameters of the kernel: numbers, truth values and words."""
        return {name: _literal(text) for name, text in self.kernel.parameters}

    @property
    def _scalars(self) -> list[Argument]:
        return [a for a in self.kernel.arguments if not a.shape]

    def outputs(self) -> dict[str, torch.Tensor]:
        """Tensors for what the kernel stores; what is not a number was not stored. Of sums, what is
        added to.
        """
        begun = {name: self.inputs[name].clone() for name in sorted(self.summed)}
        return begun | {
            a.name: torch.full([self.extents[e] for e in a.shape], torch.nan, dtype=TORCH[a.dtype])
            for a in self.kernel.arguments
            if a.name in self.stored - self.summed
        }

    # -- tiles ---------------------------------------------------------------------------------

    def start(self, place: Place, coordinates: Coordinates, iteration: int) -> int:
        """The first element of a tile along an axis; ``iteration`` is counted from the output
        tile's first one.
        """
        coordinate = coordinates[place.along] if place.along else 0
        if place.grouped:
            return coordinate * self.extents[place.extent] // self.extents[place.along]
        if place.step:
            iteration = self.block_of(coordinates, iteration)
        if place.split_k:
            iteration += coordinates[place.split_k] * self.trips
        return place.block * coordinate + place.step * iteration + place.offset

    def load(self, operation: Operation, coordinates: Coordinates, iteration: int) -> torch.Tensor:
        """The tile [rows, columns] that a load reads; 0 outside of the tensor."""
        part = self._part(self.inputs[operation.tensor or ""], operation, coordinates, iteration)
        sizes = {place.side: place.size for place in operation.places}
        tile = torch.zeros(sizes.get("rows", 1), sizes.get("columns", 1), dtype=part.dtype)
        tile[: part.shape[0], : part.shape[1]] = part
        return tile

    def store(
        self,
        operation: Operation,
        tile: torch.Tensor,
        coordinates: Coordinates,
        iteration: int,
        outputs: Mapping[str, torch.Tensor],
    ) -> None:
        """Write the tile of a store, or add it; what lies outside of the tensor is dropped."""
        part = self._part(outputs[operation.tensor or ""], operation, coordinates, iteration)
        inside = tile[: part.shape[0], : part.shape[1]]
        part.copy_(part + inside if adds(operation) else inside)

    def _part(
        self, tensor: torch.Tensor, operation: Operation, coordinates: Coordinates, iteration: int
    ) -> torch.Tensor:
        """A view [rows, columns] of what the tile of a load or store covers of ``tensor``."""
        axes: dict[str, int] = {}
        for axis, place in enumerate(operation.places):
            start = min(self.start(place, coordinates, iteration), tensor.shape[axis])
            size = min(place.size, tensor.shape[axis] - start)
            tensor = tensor.narrow(axis, start, size)
            axes[place.side] = axis
        kept = [axes[side] for side in ("rows", "columns") if side in axes]
        rest = [axis for axis in range(tensor.ndim) if axis not in kept]
        tensor = tensor.permute(*rest, *kept)
        if 0 in tensor.shape[: len(rest)]:
            return tensor.new_zeros(0, 0)  # it lies beyond the end of an axis that it has one of
        tensor = tensor[(0,) * len(rest)]
        for side, axis in (("rows", 0), ("columns", 1)):
            tensor = tensor if side in axes else tensor.unsqueeze(axis)
        return tensor

    def _tiles(self) -> list[dict[str, int]]:
        axes = self.kernel.grid
        counts = [range(-(-self.extents[axis.extent] // axis.block)) for axis in axes]
        tiles = [
            dict(zip((axis.extent for axis in axes), at, strict=True)) for at in product(*counts)
        ]
        when = self.kernel.tile_when
        if when is not None:
            tiles = [tile for tile in tiles if self.holds(when, tile)]
        if self.kernel.tiles != "lower_triangle":
            return tiles
        block = {axis.extent: axis.block for axis in axes}
        rows, columns = self.kernel.tile_extents
        return [
            tile
            for tile in tiles
            if (tile[rows] + 1) * block[rows] > tile[columns] * block[columns]
        ]

    # -- checks --------------------------------------------------------------------------------

    def _add(self, argument: Argument, inputs: Mapping[str, torch.Tensor | float]) -> None:
        if argument.name not in inputs:
            raise InterpretationError(f"the input '{argument.name}' is missing")
        dtype = TORCH[argument.dtype]
        given = inputs[argument.name]
        # torch would make float32 of a number: not enough for integers.
        value = given if isinstance(given, torch.Tensor) else torch.tensor(given, dtype=_EXACT)
        if value.ndim != len(argument.shape):
            want = f"[{', '.join(argument.shape)}]"
            raise InterpretationError(
                f"'{argument.name}' has shape {list(value.shape)}, not {want}"
            )
        if argument.shape and value.dtype != dtype:
            raise InterpretationError(f"'{argument.name}' is {value.dtype}, not {dtype}")
        self.inputs[argument.name] = value.to(dtype)
        for extent, size in zip(argument.shape, value.shape, strict=True):
            if self.extents.setdefault(extent, size) != size:
                was = self.extents[extent]
                raise InterpretationError(f"'{extent}' is {size} in '{argument.name}', but {was}")

    def _check(self) -> None:
        """Extents are ones that the kernel covers, and the spec says where each tile lies."""
        wrong = beyond(self.kernel, self.extents)
        if wrong:
            raise InterpretationError(wrong)
        for operation in self.kernel.operations:
            if operation.tensor is not None and not operation.places:
                message = f"'{operation.name}' does not say where its tile lies"
                fix = "name the extents with 'tiled', and those of shared elements in 'groups'"
                raise InterpretationError(f"{message} in '{operation.tensor}': {fix}")
        for extent, least in tiles_of(self.kernel, self.extents).items():
            if self.extents[extent] < least:
                got = f"'{extent}' is {self.extents[extent]}"
                raise InterpretationError(f"{got}, but {least} is needed to count output tiles")
        for extent, count in numbers_of_tiles(self.kernel, self.extents).items():
            if self.extents[extent] != count:
                got = f"'{extent}' is {self.extents[extent]}"
                raise InterpretationError(f"{got}, but there are {count} output tiles to count")
        if not self.kernel.grid:
            raise InterpretationError("the tiles that are stored do not make up a grid")


def _literal(text: str) -> Fraction | bool | str:
    expression = parse(text)
    return expression.name if isinstance(expression, Name) else evaluate(expression, {})
