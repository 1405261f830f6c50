"""Who orthogonalizes which matrix, and when."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

MOST_ELEMENTS = 1 << 26
"""That a rank owns in one round: enough to fill a GPU, and few enough that the exchange of one
round hides behind the products of another."""


@dataclass(frozen=True)
class Job:
    """A matrix, by its number among the parameters, and what must agree within a batch."""

    number: int
    shape: tuple[int, int]
    kind: str

    @property
    def cost(self) -> int:
        """Operations of five Gram iterations with one restart, n x m with n <= m.

        Symmetric products count half, as in benchmarks/polar.py.
        """
        n, m = sorted(self.shape)
        return n * n * (14 * n + 6 * m)

    @property
    def elements(self) -> int:
        return self.shape[0] * self.shape[1]


Round = tuple[tuple[Job, ...], ...]
"""What each rank owns."""


@lru_cache(maxsize=64)
def rounds(jobs: tuple[Job, ...], ranks: int, most: int = MOST_ELEMENTS) -> tuple[Round, ...]:
    """Divides ``jobs``: the most expensive first, each to the rank that has least to do.

    That is within 4/3 of the best division (Graham 1969), and deals out equal shapes evenly. Jobs
    of a rank come in runs of equal shape and kind, in as many rounds as the fullest rank needs.
    """
    order = sorted(jobs, key=lambda job: (-job.cost, job.shape, job.kind, job.number))
    loads = [0] * ranks
    owned: list[list[list[Job]]] = [[] for _ in range(ranks)]
    for job in order:
        owner = loads.index(min(loads))
        loads[owner] += job.cost
        mine = owned[owner]
        if not mine or sum(j.elements for j in mine[-1]) + job.elements > most:
            mine.append([])
        mine[-1].append(job)
    count = max(len(mine) for mine in owned)
    return tuple(
        tuple(tuple(mine[n]) if n < len(mine) else () for mine in owned) for n in range(count)
    )
