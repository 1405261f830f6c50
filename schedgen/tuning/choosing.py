"""Which candidate is the fastest, if that can be said.

Candidates are compared round by round, since those of one round ran under the same conditions. One
is only preferred to another that is before it in the model's order if it was faster by more than
noise; else the model has the last word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Literal

from schedgen.errors import SchedgenError
from schedgen.tuning.basics import mean
from schedgen.tuning.records import KEPT, Prepared, Record

NOISE = 0.005
"""Two candidates that are closer are not told apart, however quiet the GPU was: that much changes
from one process to the next."""
FEWEST = 3
"""Rounds without which nothing is said."""

By = Literal["eager", "graphs"]


@dataclass(frozen=True, slots=True)
class Spread:
    """Milliseconds: the median over rounds, and the lower and the upper quartile."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Choice:
    """The winner among candidates.

    Attributes:
        winner: its name.
        tied: others that nobody can tell from it, all of them behind it in the model's order.
        spreads: times of all candidates.
        before: the candidate that was kept from before: the spec's own settings, or the winner of
            the round before; the model's first if that does not run.
        gain: how many times as fast as that the winner is.
    """

    winner: str
    tied: tuple[str, ...]
    spreads: Mapping[str, Spread]
    before: str
    gain: float


@dataclass(frozen=True, slots=True)
class Choices:
    """The winner for each shape, and the one over all of them: by geometric means of times."""

    by: By
    shapes: tuple[Choice, ...]
    overall: Choice


def choose(record: Record, by: By = "eager") -> Choices:
    """The winners of what was measured.

    Raises SchedgenError: there are too few rounds, or no times in graphs.
    """
    if record.rounds < FEWEST:
        raise SchedgenError(
            f"there are {record.rounds} rounds, and quartiles take {FEWEST}; fix: go on with "
            "'schedgen tune --run DIR'"
        )
    times = {name: _rounds(record, name, by) for name in record.times}
    names = [one.name for one in record.prepared.candidates if times.get(one.name)]
    if not names:
        raise SchedgenError("no candidate was captured in a CUDA graph; fix: choose --by eager")
    count = min(len(rounds) for name in names for rounds in times[name])
    shapes = tuple(
        _choice({name: times[name][number][:count] for name in names})
        for number in range(len(record.prepared.shapes))
    )
    together = {
        name: [mean([rounds[at] for rounds in times[name]]) for at in range(count)]
        for name in names
    }
    return Choices(by, shapes, _choice(together))


def candidate(record: Record, name: str) -> Prepared:
    """The candidate that is called so."""
    return next(one for one in record.prepared.candidates if one.name == name)


def _rounds(record: Record, name: str, by: By) -> list[Sequence[float]]:
    """Times for each shape; none if a shape has too few."""
    found = [one.eager if by == "eager" else one.graph for one in record.times[name]]
    return [] if min(map(len, found)) < FEWEST else list(found)


def _choice(times: Mapping[str, Sequence[float]]) -> Choice:
    """The winner; ``times`` are in the model's order."""
    spreads = {name: _spread(rounds) for name, rounds in times.items()}
    fastest = min(spreads, key=lambda name: spreads[name].middle)
    equal = [name for name in times if _tied(times[name], times[fastest])]
    winner, *tied = equal
    before = KEPT if KEPT in times else next(iter(times))
    gain = spreads[before].middle / spreads[winner].middle
    return Choice(winner, tuple(tied), spreads, before, gain)


def _tied(times: Sequence[float], fastest: Sequence[float]) -> bool:
    """Whether a candidate may be as fast as the fastest: in a quarter of the rounds it is, or all
    of the difference is noise.
    """
    ratios = _spread([one / other for one, other in zip(times, fastest, strict=True)])
    return ratios.low <= 1.0 or ratios.middle <= 1.0 + NOISE


def _spread(values: Sequence[float]) -> Spread:
    low, _, high = quantiles(values, n=4, method="inclusive")
    return Spread(median(values), low, high)
