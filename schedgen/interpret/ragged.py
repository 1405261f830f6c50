"""Problems with extents whose sizes are data, as one problem for each number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch

from schedgen.interpret.pieces import TORCH
from schedgen.interpret.problem import InterpretationError
from schedgen.kernel import Kernel, Kind
from schedgen.ragged import along, dense, segments, unpaged
from schedgen.sums import summed


@dataclass(frozen=True)
class Part:
    """What belongs to one number: a problem of the dense kernel, and views of its results."""

    inputs: Mapping[str, torch.Tensor | float]
    extents: Mapping[str, int]
    results: Mapping[str, torch.Tensor]

    def put(self, found: Mapping[str, torch.Tensor]) -> None:
        """Write what the problem stores into the whole results."""
        for name, value in found.items():
            self.results[name].copy_(value)


class Numbers:
    """A ragged problem.

    Attributes:
        kernel: for a single number.
        outputs: whole results; what is not a number was not stored.

    Raises:
        InterpretationError: an array or an extent is missing.
    """

    def __init__(
        self,
        kernel: Kernel,
        inputs: Mapping[str, torch.Tensor | float],
        extents: Mapping[str, int] | None,
    ) -> None:
        self._inputs = _in_order(kernel, inputs)
        kernel = unpaged(kernel)
        self.kernel, self._ragged = dense(kernel), kernel
        self._extents = dict(extents or {})
        stored = {o.tensor for o in kernel.operations if o.kind is Kind.STORE}
        sums = summed(kernel)
        for argument in kernel.arguments:
            if argument.shape and argument.name not in stored - sums:
                given = self._tensor(argument.name)
                self._extents.update(zip(argument.passed, given.shape, strict=True))
        for one in kernel.ragged:
            if one.starts:
                self._extents.setdefault(one.of, self._extents[one.bounds] - 1)
        self._results = [a for a in kernel.arguments if a.name in stored]
        missing = {e for a in self._results for e in a.passed} - self._extents.keys()
        if missing:
            raise InterpretationError(f"no input has the extent '{min(missing)}'; fix: give it")
        self.outputs = {
            a.name: self._tensor(a.name).clone()
            if a.name in sums
            else torch.full([self._extents[e] for e in a.passed], torch.nan, dtype=TORCH[a.dtype])
            for a in self._results
        }

    def parts(self) -> Iterator[Part]:
        """Numbers that have an output, in order."""
        ragged = self._ragged.ragged
        found = {
            one.extent: segments(one, [int(n) for n in self._tensor(one.array)], self._extents)
            for one in ragged
        }
        cut = [axis.extent for axis in self._ragged.grid if axis.extent in found]
        for number in range(self._extents[along(self._ragged)]):
            here = {extent: segment[number] for extent, segment in found.items()}
            if all(here[extent][1] for extent in cut):
                yield self._part(number, here)

    def _part(self, number: int, here: Mapping[str, tuple[int, int]]) -> Part:
        inputs: dict[str, torch.Tensor | float] = {}
        results: dict[str, torch.Tensor] = {}
        for argument in self._ragged.arguments:
            if argument.name in self.outputs:
                whole = self.outputs[argument.name]
                results[argument.name] = self._view(argument.passed, whole, number, here)
                if argument.name in summed(self._ragged):
                    inputs[argument.name] = results[argument.name]
            elif not argument.shape:
                inputs[argument.name] = self._inputs[argument.name]
            else:
                whole = self._tensor(argument.name)
                inputs[argument.name] = self._view(argument.passed, whole, number, here)
        sizes = {extent: size for extent, (_, size) in here.items()}
        extents = {**self._extents, along(self._ragged): 1, **sizes}
        return Part(inputs, extents, results)

    def _view(
        self,
        extents: tuple[str, ...],
        tensor: torch.Tensor,
        number: int,
        here: Mapping[str, tuple[int, int]],
    ) -> torch.Tensor:
        """The part of a tensor that is of a number, with an axis for that."""
        packed = {one.packed: one.extent for one in self._ragged.ragged if one.packed}
        axis = 0
        for extent in extents:
            if extent in packed:
                tensor = tensor.narrow(axis, *here[packed[extent]]).unsqueeze(axis)
                axis += 1
            elif extent in here:
                tensor = tensor.narrow(axis, 0, here[extent][1])
            elif extent == along(self._ragged):
                tensor = tensor.narrow(axis, number, 1)
            axis += 1
        return tensor

    def _tensor(self, name: str) -> torch.Tensor:
        if name not in self._inputs:
            raise InterpretationError(f"the input '{name}' is missing")
        return torch.as_tensor(self._inputs[name])


def _in_order(
    kernel: Kernel, inputs: Mapping[str, torch.Tensor | float]
) -> dict[str, torch.Tensor | float]:
    """``inputs`` with tensors that have room for the largest size instead of those that lie in
    pages: (batch, most_pages * page_size) instead of (pages, page_size), zeros where a page is not
    there.
    """
    found = dict(inputs)
    for one in (one for one in kernel.ragged if one.table):
        if one.table not in found:
            raise InterpretationError(f"the input '{one.table}' is missing")
        table = torch.as_tensor(found[one.table]).long()
        for argument in kernel.arguments:
            if one.pages in argument.passed and argument.name in found:
                axes = (argument.passed.index(one.pages), argument.passed.index(one.page))
                pages = torch.as_tensor(found[argument.name]).movedim(axes, (0, 1))
                nothing = torch.zeros_like(pages[:1])
                there = (table >= 0) & (table < len(pages))
                whole = torch.cat([pages, nothing])[torch.where(there, table, len(pages))]
                found[argument.name] = whole.flatten(1, 2).movedim((0, 1), axes)
    return found
