"""Work that shares units: how fast each piece of it goes on at any time.

A job needs cycles of several units and uses them evenly while it lasts; alone it takes the most of
them. What runs at the same time shares each unit fairly: nobody has more of it than another one who
wants more than he gets. But jobs of engines come before those of threads, and a unit ``in_turn``
serves who came first.
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

    def share(self, unit: str) -> float:
        """The share of a unit that it uses when nothing slows it down."""
        return self.need.get(unit, 0.0) / self.most


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
    """Gives each of ``jobs`` its rate, and takes what they use from what is ``free`` of units.

    The unit that slows down somebody most is shared out first: all who want more than a level get
    just that, so that nobody who wants less is slowed down by it. Then the next one.
    """
    while jobs:
        levels = {unit: _level(unit, jobs, much) for unit, much in free.items()}
        slowest = min((levels[u] / j.share(u), u) for j in jobs for u in j.need)
        unit = slowest[1] if slowest[0] < 1 else None
        bound = [j for j in jobs if unit is None or j.share(unit) > levels[unit]]
        for job in bound:
            speed = 1.0 if unit is None else max(levels[unit] / job.share(unit), _ALMOST)
            job.rate = speed / job.most
            for used in job.need:
                free[used] = max(free[used] - job.share(used) * speed, 0.0)
        jobs = [job for job in jobs if not any(job is one for one in bound)]


def _level(unit: str, jobs: list[_Job], free: float) -> float:
    """The share of ``unit`` up to which each of ``jobs`` can have what it wants; 1 if all can."""
    wanted = sorted(job.share(unit) for job in jobs if unit in job.need)
    for number, share in enumerate(wanted):
        level = free / (len(wanted) - number)
        if share > level:
            return level
        free -= share
    return 1.0
