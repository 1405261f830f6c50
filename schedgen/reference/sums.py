"""Tensors that output tiles add to, in an order that nobody knows."""

from __future__ import annotations

import numpy as np

from schedgen.kernel import Kernel, Kind
from schedgen.reference.estimate import UNIT, Estimate, exact, loosened
from schedgen.reference.rounding import Array


def summed_tensors(kernel: Kernel) -> set[str]:
    """The arguments that the kernel adds to: it is given them."""
    stores = (o for o in kernel.operations if o.kind is Kind.STORE and o.reduction is not None)
    return {store.tensor or "" for store in stores}


class Sum:
    """A sum for each element of a tensor, which holds ``begun`` before anything is added.

    Attributes:
        count: how many parts were added to each element.
    """

    def __init__(self, begun: Array) -> None:
        self._sum = exact(begun.copy())
        self._sizes: Array = np.abs(begun)
        self.count = np.zeros(begun.shape, np.int64)

    def add(self, at: tuple[slice, ...], part: Estimate) -> None:
        """Add ``part``, which may have axes of one element less, to the elements ``at``."""
        fields = (part.value, part.magnitude, part.error)
        shape = self._sizes[at].shape
        value, magnitude, error = (field.reshape(shape) for field in fields)
        with np.errstate(invalid="ignore", over="ignore"):
            self._sum.value[at] += value
            self._sum.magnitude[at] += magnitude
            self._sum.error[at] += error
            self._sizes[at] += np.abs(value) + error
        self.count[at] += 1

    def number(self) -> Estimate:
        """The sums in float32, each addition rounded, in whatever order: every partial sum is at
        most the sum of absolute values, and there are as many as parts.
        """
        with np.errstate(invalid="ignore", over="ignore"):
            error = UNIT * self.count * self._sizes
        return loosened(self._sum, np.where(np.isfinite(error), error, 0.0))
