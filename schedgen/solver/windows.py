"""All-pairs longest paths at a given II: how far apart any two operations can be.

``start[b] - start[a]`` lies in [least(a, b), most(a, b)]. The solver needs a decision for the order
of two operations only where that interval leaves one, which is rare: most operations are tied
together by dependence cycles.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedgen.bounds import Constraint

# Far below any sum of delays, far above overflow when two of them are added.
_NEVER = np.int64(-(1 << 40))


class Windows:
    """Longest paths between the operations ``names`` under ``constraints`` at ``ii``."""

    def __init__(self, names: Sequence[str], constraints: Sequence[Constraint], ii: int) -> None:
        self.ii = ii
        self._place = {name: number for number, name in enumerate(names)}
        count = len(names)
        longest = np.full((count, count), _NEVER, dtype=np.int64)
        np.fill_diagonal(longest, 0)
        for c in constraints:
            a, b = self._place[c.src], self._place[c.dst]
            longest[a, b] = max(longest[a, b], c.delay - ii * c.distance)
        for middle in range(count):
            through = longest[:, middle, None] + longest[None, middle, :]
            np.maximum(longest, through, out=longest)
        self._longest = longest

    @property
    def feasible(self) -> bool:
        """Whether no dependence cycle takes longer than the iterations it spans."""
        return bool((np.diagonal(self._longest) <= 0).all())

    def least(self, a: str, b: str) -> int | None:
        """Smallest possible ``start[b] - start[a]``, None if nothing bounds it."""
        value = int(self._longest[self._place[a], self._place[b]])
        return value if value > int(_NEVER) // 2 else None

    def most(self, a: str, b: str) -> int | None:
        """Largest possible ``start[b] - start[a]``, None if nothing bounds it."""
        back = self.least(b, a)
        return None if back is None else -back

    def allows(self, constraints: Sequence[Constraint]) -> bool:
        """Whether these constraints could be added without a cycle that takes too long."""
        longest = self._longest.copy()
        for c in constraints:
            a, b = self._place[c.src], self._place[c.dst]
            weight = c.delay - self.ii * c.distance
            if weight <= longest[a, b]:
                continue
            if weight + longest[b, a] > 0:
                return False
            through = longest[:, a, None] + weight + longest[None, b, :]
            np.maximum(longest, through, out=longest)
        return True
