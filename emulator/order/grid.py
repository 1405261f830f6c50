"""How warps, CTAs and clusters of a launch are numbered."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

Triple = tuple[int, int, int]
_LANES = 32


def warps_per_cta(block: Triple) -> int:
    """Warps of a CTA with these numbers of threads along x, y, z."""
    return -(-prod(block) // _LANES)


def cluster_of(grid: Triple, cluster: Triple) -> Callable[[int], int]:
    """The number of the cluster of a CTA.

    Args:
        grid: CTAs along x, y, z. They are numbered x first.
        cluster: CTAs of a cluster along x, y, z.
    """
    clusters = tuple(size // part for size, part in zip(grid, cluster, strict=True))

    def number(cta: int) -> int:
        x, rest = cta % grid[0], cta // grid[0]
        y, z = rest % grid[1], rest // grid[1]
        at = x // cluster[0], y // cluster[1], z // cluster[2]
        return at[0] + clusters[0] * (at[1] + clusters[1] * at[2])

    return number
