"""Work that shares units: how fast each piece of it goes on at any time.

A job needs cycles of several units and uses them evenly while it lasts; alone it takes the most of
them. What runs at the same time shares each unit equally (max-min fairness of the share that a job
has of the unit that it needs most), except that jobs of engines come before those of threads, and
that a unit ``in_turn`` serves who came first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf

_ALMOST = 1e-9


@dataclass(slots=True)
class _Job:
    need: dict[str, float]
    ahead: bool
    left: float = 1.0
    rate: float = 0.0

    @property
    def most(self) -> float:
        return max(self.need.values())


class Sharing:
    """Jobs by number, as time goes on; times in cycles."""

    def __init__(self, in_turn: Iterable[str] = ()) -> None:
        self.now = 0.0
        self._in_turn = tuple(in_turn)
        self._jobs: dict[int, _Job] = {}

    def add(self, number: int, need: Mapping[str, float], *, ahead: bool) -> None:
        """A job begins now; ``need``: unit -> cycles, one of them above 0."""
        self._jobs[number] = _Job({u: float(c) for u, c in need.items() if c > 0}, ahead)
        self._share()

    def next(self) -> tuple[float, int]:
        """When the next job is done, and which; infinity if there is none."""
        ends = ((self._end(job), number) for number, job in self._jobs.items())
        return min(ends, default=(inf, -1))

    def advance(self, time: float) -> None:
        """Lets time pass, to no later than `next` says."""
        passed = time - self.now
        if passed > 0:
            for job in self._jobs.values():
                job.left -= passed * job.rate
            self.now = time

    def remove(self, number: int) -> None:
        """A job is done."""
        del self._jobs[number]
        self._share()

    def _end(self, job: _Job) -> float:
        return self.now + max(job.left, 0.0) / job.rate if job.rate > 0 else inf

    def _share(self) -> None:
        running = dict(self._jobs)
        for job in running.values():
            job.rate = 0.0
        for unit in self._in_turn:
            users = [number for number, job in running.items() if unit in job.need]
            for number in users[1:]:
                del running[number]
        free = {unit: 1.0 for job in running.values() for unit in job.need}
        _fill([job for job in running.values() if job.ahead], free)
        _fill([job for job in running.values() if not job.ahead], free)


def _fill(jobs: list[_Job], free: dict[str, float]) -> None:
    """Raises the rates of all ``jobs`` together until a unit is used up, then of those that do not
    need it, and so on; what is left of units stays in ``free``.
    """
    while jobs:
        wanted: dict[str, float] = {}
        for job in jobs:
            for unit, cycles in job.need.items():
                wanted[unit] = wanted.get(unit, 0.0) + cycles / job.most
        share, scarce = min((free[unit] / much, unit) for unit, much in wanted.items())
        if share >= 1.0:
            share, bound = 1.0, list(jobs)
        else:
            bound = [job for job in jobs if scarce in job.need]
        for job in bound:
            job.rate = max(share, _ALMOST) / job.most
            for unit, cycles in job.need.items():
                free[unit] = max(free[unit] - cycles * job.rate, 0.0)
        jobs = [job for job in jobs if job not in bound]
