"""Level 0: a kernel operation by operation, in the order of its spec, one tile after the other."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from schedgen.interpret.gathered import in_order
from schedgen.interpret.pieces import POISON, initial_tile, part
from schedgen.interpret.problem import Coordinates, Problem
from schedgen.interpret.ragged import Numbers
from schedgen.interpret.tiles import Moment, execute, reads_of
from schedgen.kernel import Kernel, Kind, Operation, Phase, Read


def run(
    kernel: Kernel,
    inputs: Mapping[str, torch.Tensor | float],
    extents: Mapping[str, int] | None = None,
) -> dict[str, torch.Tensor]:
    """What ``kernel`` stores for these tensors and scalars, by the names of its arguments.

    ``extents`` are those of results that no input has.

    Raises:
        InterpretationError: the inputs do not fit the kernel, or the spec does not say where a tile
            lies in a tensor.
    """
    kernel, inputs = in_order(kernel, inputs)
    if kernel.ragged:
        numbers = Numbers(kernel, inputs, extents)
        for one in numbers.parts():
            one.put(run(numbers.kernel, one.inputs, one.extents))
        return numbers.outputs
    problem = Problem(kernel, inputs, extents)
    outputs = problem.outputs()
    for coordinates in problem.tiles:
        _Tile(problem, coordinates, outputs).run()
    return outputs


class _Tile:
    """The buffers of one output tile: what each holds, and held after earlier iterations."""

    def __init__(
        self, problem: Problem, coordinates: Coordinates, outputs: Mapping[str, torch.Tensor]
    ) -> None:
        self.problem = problem
        self.kernel = problem.kernel
        self.coordinates = coordinates
        self.outputs = outputs
        self.now = {region.name: initial_tile(region) for region in self.kernel.regions}
        self.past: dict[str, list[torch.Tensor]] = {}  # latest last; the first is before the loop
        body = [o for o in self.kernel.operations if o.phase is Phase.BODY]
        carried = [read.piece for o in body for read in o.reads if read.distance]
        self._carried = {self.kernel.piece[piece].region for piece in carried}
        self._fresh = {
            self.kernel.piece[piece].region for o in body if not o.boundary for piece in o.writes
        }

    def run(self) -> None:
        for operation in self.kernel.operations:
            if operation.phase is Phase.BEFORE:
                self._execute(operation, 0)
        self.past = {name: [self.now[name].clone()] for name in self._carried}
        for iteration in range(self.problem.trips_of(self.coordinates)):
            self._iteration(iteration)
        for operation in self.kernel.operations:
            if operation.phase is Phase.AFTER:
                self._execute(operation, 0)

    def _iteration(self, iteration: int) -> None:
        for name in self._fresh:
            if not self.kernel.region[name].per_tile:
                self.now[name].view(torch.uint8).fill_(POISON)
        for operation in self.kernel.operations:
            if operation.phase is Phase.BODY:
                self._execute(operation, iteration)
        for name, versions in self.past.items():
            versions.append(self.now[name].clone())

    def _execute(self, operation: Operation, iteration: int) -> None:
        values = {read: self._read(read) for read in reads_of(operation)}
        moment = Moment(self.coordinates, iteration)
        found = execute(self.problem, operation, values, moment)
        if operation.kind is Kind.STORE:
            for tile in found.values():
                self.problem.store(operation, tile, self.coordinates, iteration, self.outputs)
            return
        for piece, tile in found.items():
            part(self.kernel, piece, self.now[self.kernel.piece[piece].region]).copy_(tile)

    def _read(self, read: Read) -> torch.Tensor:
        region = self.kernel.piece[read.piece].region
        if read.distance <= 0:
            return part(self.kernel, read.piece, self.now[region]).clone()
        versions = self.past[region]
        return part(self.kernel, read.piece, versions[max(len(versions) - read.distance, 0)])
