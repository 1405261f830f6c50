"""What a warp waits for, and what wakes it.

A resource (mbarrier, named barrier, group of operations, register pool …) keeps the conditions that
wait for it and calls `Resource.changed` after each change that may satisfy one; nobody polls.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray


class Resource:
    """Something that warps wait for."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: list[Condition] = []

    def changed(self) -> None:
        """Wakes those whose condition holds now."""
        if not self.waiting:
            return
        still: list[Condition] = []
        woken: list[Condition] = []
        for condition in self.waiting:
            (woken if condition.ready() else still).append(condition)
        self.waiting = still
        for condition in woken:
            condition.wake()


class Condition:
    """Why a group of lanes cannot go on.

    Args:
        resource: whose changes may make it true.
        ready: whether it is true now.
        explain: a sentence for the explanation of a deadlock: what is awaited, in which state that
            is, who has arrived.
        again: execute the instruction again once ready (it will find what it needs), instead of
            going on behind it.
        timed: the wait may end without success, as `mbarrier.try_wait` does. Whoever cannot go on
            otherwise is woken; ``expired`` is then True.
        tag: what the instruction wants to find in `Warp.resumed` when it is executed again.
    """

    __slots__ = ("again", "expired", "explain", "ready", "resource", "tag", "timed", "wake")

    def __init__(
        self,
        resource: Resource,
        ready: Callable[[], bool],
        explain: Callable[[], str],
        *,
        again: bool = True,
        timed: bool = False,
        tag: object = None,
    ) -> None:
        self.resource = resource
        self.ready = ready
        self.explain = explain
        self.again = again
        self.timed = timed
        self.tag = tag
        self.expired = False
        self.wake: Callable[[], None] = _nobody


class Meeting(Condition):
    """Lanes wait at an instruction until others of their warp, ``needed``, have come to it."""

    __slots__ = ("needed",)

    def __init__(self, needed: NDArray[np.bool_]) -> None:
        super().__init__(_NOTHING, lambda: False, lambda: "other lanes of the warp")
        self.needed = needed


def _nobody() -> None:
    raise AssertionError("a condition wakes a warp only while one waits for it")


_NOTHING = Resource()
YIELD = Condition(_NOTHING, lambda: True, lambda: "its turn")
EXITED = Condition(_NOTHING, lambda: False, lambda: "nothing")
