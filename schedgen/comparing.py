"""What a kernel stored beside what it should have stored, element by element.

Right values come with a bound of the error of each of them (`schedgen.reference`): it follows from
the type of the result, from the types in between and from the magnitudes that went in. What is not
a number, or infinite, has to be that at the same places.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Worst:
    """The element that is farthest from right, in units of what it may be off.

    Attributes:
        at: its coordinates.
        found: what the kernel stored.
        wanted: what it should have stored.
        allowed: how far off it may be.
    """

    at: tuple[int, ...]
    found: float
    wanted: float
    allowed: float

    @property
    def ratio(self) -> float:
        """Of the error to what is allowed; infinite where nothing is, or there is no number."""
        gap = abs(self.found - self.wanted)
        if self.found == self.wanted or (np.isnan(self.found) and np.isnan(self.wanted)):
            return 0.0
        return gap / self.allowed if self.allowed > 0 and np.isfinite(gap) else float("inf")


@dataclass(frozen=True)
class Compared:
    """A tensor beside its reference.

    Attributes:
        extents: names of its axes.
        elements: how many it has.
        differ: how many are farther off than they may be, or a number, infinite or stored where
            they should not be, or the other way round.
        worst: the worst element, also if all are right; None of a tensor without elements.
        nan: how many of the kernel's elements are not a number though they are stored.
        nan_wanted: how many are not a number in the reference.
        unknown: how many may be anything: they depend on what nobody has written, or on what the
            reference can say nothing of.
        error: relative error in the Frobenius norm, of elements that are numbers in both.
        allowed: the same of the bounds, of those that are in the reference.
    """

    extents: tuple[str, ...]
    elements: int
    differ: int
    worst: Worst | None
    nan: int
    nan_wanted: int
    unknown: int
    error: float
    allowed: float

    @property
    def matches(self) -> bool:
        """Whether the kernel stored what the spec says."""
        return self.differ == 0

    @property
    def defined(self) -> bool:
        """Whether what the spec says is a number everywhere."""
        return not (self.nan_wanted or self.unknown)

    @property
    def ratio(self) -> float:
        """The largest error in units of what is allowed."""
        return 0.0 if self.worst is None else self.worst.ratio

    def text(self, name: str) -> str:
        """One line for people: how many elements differ, the worst one, shares of NaN."""
        share = 100 / max(self.elements, 1)
        text = f"{name}: all {self.elements} elements within their bounds"
        if self.differ:
            text = f"{name}: {self.differ} of {self.elements} elements differ"
            text += f" ({self.differ * share:.2g} %)"
        if self.worst is not None and (self.differ or self.worst.ratio):
            at = ", ".join(f"{x}={n}" for x, n in zip(self.extents, self.worst.at, strict=True))
            text += f", the worst at ({at}): {self.worst.found:.6g} instead of "
            text += f"{self.worst.wanted:.6g}"
            text += f", {self.worst.allowed:.2g} allowed"
        if self.nan or self.nan_wanted:
            text += f"; NaN are {self.nan * share:.2g} %"
            text += f", in the reference {self.nan_wanted * share:.2g} %"
        return text

    def reservation(self, name: str) -> str:
        """What keeps a tensor that matches from being right, '' if nothing does."""
        found: list[str] = []
        if self.nan_wanted:
            found.append(
                f"{self.nan_wanted} of {self.elements} elements of '{name}' are NaN in the "
                "reference, too: for these inputs the spec computes no numbers, such as of rows "
                "that are masked as a whole (-inf - -inf); fix: other extents, or a formula that "
                "keeps them apart with where(...)"
            )
        if self.unknown:
            found.append(
                f"{self.unknown} of {self.elements} elements of '{name}' were not compared: any "
                "value is within the error bounds of the reference; fix: smaller inputs, or a "
                "formula that does not lose all digits"
            )
        return "; ".join(found)


def compare(
    found: Array,
    value: Array,
    error: Array,
    stored: npt.NDArray[np.bool_],
    extents: tuple[str, ...],
) -> Compared:
    """Compares what a kernel stored with a reference; all arrays have one shape.

    Args:
        found: what the kernel left in the tensor, NaN where it stored nothing.
        value: what should be there.
        error: how far from it a right element is at most; infinite where nothing is known.
        stored: which elements should have been stored.
        extents: names of the axes.
    """
    unknown = stored & np.isinf(error)
    value = np.where(stored, value, np.nan)
    limit = np.where(stored, np.where(np.isfinite(value), error, 0.0), 0.0)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        same = (found == value) | (np.isnan(found) & np.isnan(value))
        gap = np.where(same, 0.0, np.abs(found - value))
        gap = np.where(np.isnan(gap), np.inf, gap)
        wrong = (gap > limit) & ~unknown
        ratio = np.where(gap == 0, 0.0, np.where(limit > 0, gap / limit, np.inf))
        ratio = np.where(unknown, -1.0, np.where(wrong, np.maximum(ratio, 1.0), ratio))
    worst = None
    if found.size:
        at = np.unravel_index(int(np.argmax(ratio)), found.shape)
        worst = Worst(
            tuple(int(n) for n in at), float(found[at]), float(value[at]), float(limit[at])
        )
    numbers = np.isfinite(value) & ~unknown
    both = numbers & np.isfinite(found)
    size = float(np.square(value[numbers]).sum()) or 1e-300
    return Compared(
        extents,
        found.size,
        int(wrong.sum()),
        worst,
        int((np.isnan(found) & stored).sum()),
        int((np.isnan(value) & stored & ~unknown).sum()),
        int(unknown.sum()),
        float(np.sqrt(np.square(gap[both]).sum() / size)),
        float(np.sqrt(np.square(limit[numbers]).sum() / size)),
    )
