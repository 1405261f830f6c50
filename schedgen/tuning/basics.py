"""What all halves of tuning share. Nothing here needs a solver, nor what measures and chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from time import monotonic

from schedgen.errors import SchedgenError


class NoCandidate(SchedgenError):
    """There is nothing to measure, or nothing of it runs."""

    status = 1


class Deadline:
    """Seconds that work may take, by the clock."""

    def __init__(self, seconds: float) -> None:
        self._end = monotonic() + seconds

    @property
    def over(self) -> bool:
        return monotonic() >= self._end


def mean(values: Sequence[float]) -> float:
    """The geometric mean, of times of different sizes."""
    return prod(values) ** (1 / len(values))


def shown(settings: Mapping[str, str]) -> str:
    """``tile_m=128 tile_n=192``."""
    return " ".join(f"{name}={value}" for name, value in settings.items()) or "the spec's own"
