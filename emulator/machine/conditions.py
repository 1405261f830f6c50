"""What a warp waits for, and what wakes it.

A resource (mbarrier, named barrier, group of operations, register pool …) keeps the conditions that
wait for it and calls `Resource.changed` after each change that may satisfy one; nobody polls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp


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
            otherwise is woken; ``expired`` is then True when the instruction is executed again.
    """

    __slots__ = ("again", "expired", "explain", "ready", "resource", "timed", "wake")

    def __init__(
        self,
        resource: Resource,
        ready: Callable[[], bool],
        explain: Callable[[], str],
        *,
        again: bool = True,
        timed: bool = False,
    ) -> None:
        self.resource = resource
        self.ready = ready
        self.explain = explain
        self.again = again
        self.timed = timed
        self.expired = False
        self.wake: Callable[[], None] = _nobody


class Control(NamedTuple):
    """A step that may branch, end lanes or block: it is the last of the steps run in one go.

    When ``run`` is called, ``warp.pc`` is the index of the next instruction; it may be changed.
    A condition as result blocks the group of lanes that executes.
    """

    run: Callable[[Warp], Condition | None]


def _nobody() -> None:
    raise AssertionError("a condition wakes a warp only while one waits for it")
