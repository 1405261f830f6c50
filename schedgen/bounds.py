"""Lower bounds of the initiation interval that are plain arithmetic, each with the reason a person
can check.

Resource bound: the busiest unit, or the warps that must issue a group of operations. Recurrence
bound: the maximum cycle ratio, cycles of delay around a dependence cycle divided by the iterations
it spans.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

import numpy as np

from schedgen.errors import SchedgenError
from schedgen.reasons import Reason

# Above this denominator of a ratio, 64-bit integers could overflow along a path.
_SMALL = 1 << 20


@dataclass(frozen=True, slots=True)
class Constraint:
    """``start[dst] + II * distance >= start[src] + delay``, in cycles."""

    src: str
    dst: str
    delay: int
    distance: int
    reason: Reason | None = None


@dataclass(frozen=True, slots=True)
class Cycle:
    """A dependence cycle: it cannot run faster than ``delay / distance`` cycles an iteration."""

    constraints: tuple[Constraint, ...]

    @property
    def delay(self) -> int:
        return sum(c.delay for c in self.constraints)

    @property
    def distance(self) -> int:
        return sum(c.distance for c in self.constraints)

    @property
    def ratio(self) -> Fraction:
        return Fraction(self.delay, self.distance)

    @property
    def bound(self) -> int:
        """Smallest whole II that the cycle allows."""
        return ceil(self.ratio)

    def render(self) -> str:
        """``QK[0] -660-> LDS[0] -532-> ... = 2954 cycles / 1 iteration``."""
        parts = [self.constraints[0].src] if self.constraints else []
        for constraint in self.constraints:
            distance = f", +{constraint.distance}" if constraint.distance > 0 else ""
            distance = f", {constraint.distance}" if constraint.distance < 0 else distance
            parts.append(f"-({constraint.delay}{distance})-> {constraint.dst}")
        plural = "" if self.distance == 1 else "s"
        return f"{' '.join(parts)} = {self.delay} cycles / {self.distance} iteration{plural}"


class ImpossibleCycle(SchedgenError, ValueError):
    """A dependence cycle that no II satisfies: it spans no iteration but takes time."""

    status = 1

    def __init__(self, cycle: Cycle) -> None:
        super().__init__(
            f"operations wait for each other within one iteration: {cycle.render()}\n"
            "  fix: let one of them read what the iteration before wrote (NAME@1)"
        )
        self.cycle = cycle


def critical_cycle(constraints: Sequence[Constraint]) -> Cycle | None:
    """The cycle with the largest ratio of delay to distance, or None if there is no cycle that
    takes time.

    Lawler's search from below: look for a cycle that violates the best ratio so far and take its
    ratio instead; every round strictly improves, and the last round proves that nothing is better.
    Exact rational arithmetic. Raises ImpossibleCycle for a cycle of positive delay that spans no
    iteration.
    """
    best: Cycle | None = None
    ratio = Fraction(0)
    while (cycle := _violating_cycle(constraints, ratio)) is not None:
        if cycle.distance <= 0:
            raise ImpossibleCycle(cycle)
        best, ratio = cycle, cycle.ratio
    return best


def _violating_cycle(constraints: Sequence[Constraint], ratio: Fraction) -> Cycle | None:
    """A cycle with ``delay > ratio * distance``, found as a positive cycle by longest paths."""
    names = sorted({name for c in constraints for name in (c.src, c.dst)})
    place = {name: number for number, name in enumerate(names)}
    src = np.array([place[c.src] for c in constraints], dtype=np.int64)
    dst = np.array([place[c.dst] for c in constraints], dtype=np.int64)
    weights = np.array(
        [c.delay * ratio.denominator - c.distance * ratio.numerator for c in constraints],
        dtype=object if ratio.denominator > _SMALL else np.int64,
    )
    length = np.zeros(len(names), dtype=weights.dtype)
    arrival: dict[str, int] = {}
    for _ in range(len(names) + 1):
        reach = length[src] + weights
        better = np.flatnonzero(reach > length[dst])
        if not len(better):
            return None
        np.maximum.at(length, dst[better], reach[better])
        taken = better[reach[better] == length[dst[better]]]
        arrival.update((names[int(dst[number])], int(number)) for number in taken)
        cycle = _closed_walk(constraints, arrival, names[int(dst[taken[0]])])
        if cycle is not None:
            return cycle
    return None


def _closed_walk(
    constraints: Sequence[Constraint], arrival: dict[str, int], start: str
) -> Cycle | None:
    """The cycle in the tree of arrivals that can be reached backwards from ``start``, if there is
    one.
    """
    seen: dict[str, int] = {}
    walk: list[int] = []
    node = start
    while node in arrival and node not in seen:
        seen[node] = len(walk)
        walk.append(arrival[node])
        node = constraints[arrival[node]].src
    if node not in seen:
        return None
    return Cycle(tuple(constraints[number] for number in reversed(walk[seen[node] :])))


@dataclass(frozen=True, slots=True)
class Load:
    """Cycles per iteration for which ``resource`` is busy, and with what.

    ``resource``: a unit, or the issue of a group of operations.
    """

    resource: Reason
    cycles: int
    parts: tuple[tuple[str, int], ...]

    def render(self) -> str:
        parts = ", ".join(f"{name} {cycles}" for name, cycles in self.parts)
        return f"{self.resource.text} is busy {self.cycles} cycles: {parts}"


def busiest(loads: Iterable[Load]) -> Load | None:
    """The load with the most cycles, the first one named on ties."""
    best: Load | None = None
    for load in loads:
        if best is None or load.cycles > best.cycles:
            best = load
    return best
