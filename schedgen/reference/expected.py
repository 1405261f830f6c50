"""What the evaluation of a kernel says of each tensor that it stores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from schedgen.reference.estimate import Estimate
from schedgen.reference.rounding import Truth


@dataclass(frozen=True)
class Expected:
    """What a kernel stores in a tensor.

    Attributes:
        number: values, rounded to the tensor's data type, with magnitudes and error bounds; of what
            is never stored nothing is known.
        stores: how often each element is stored; the value of one that is stored more than once is
            that of the last tile in the order of the grid, which is nobody's on a GPU. Of sums how
            many parts they have, what was there before among them.
        clashes: elements that are stored more than once with values that differ.
    """

    number: Estimate
    stores: npt.NDArray[np.int64]
    clashes: Truth
