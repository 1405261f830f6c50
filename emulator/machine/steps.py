"""What instructions are made of: steps that warps execute, and operations that they issue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from schedgen.emulator.machine.conditions import Condition
from schedgen.emulator.machine.operations import Operation
from schedgen.emulator.machine.warp import Warp
from schedgen.emulator.order.tracker import Queue

Run = Callable[[Warp], Condition | None]
"""A step that may block the lanes that execute; see `Control`."""


Several = Callable[[Sequence[Warp]], bool]
"""Executes a step for all lanes of several warps of a CTA, as if one warp after the other; or does
nothing, and returns False, where it has to be done so."""


class SideBySide:
    """A step that warps in the same place may also execute together, which costs less.

    Args:
        run: for the executing lanes of one warp.
        several: for some warps.
    """

    __slots__ = ("run", "several")

    def __init__(self, run: Callable[[Warp], None], several: Several) -> None:
        self.run = run
        self.several = several

    def __call__(self, warp: Warp) -> None:
        self.run(warp)


class Control(NamedTuple):
    """A step that may branch, end lanes or block: it is the last of the steps run in one go.

    When ``run`` is called, ``warp.pc`` is the index of the next instruction; it may be changed.
    A condition as result blocks the lanes that execute; `YIELD` lets other warps go first, and
    `EXITED` says that the lanes have ended. `Warp.resumed` is the condition for which the
    instruction has waited, while it is executed again. ``guarded``: the step looks at the guard of
    the instruction by itself. ``several`` does the same for several warps with all lanes, and
    blocks none of them; None: it has to be done for one after the other.
    """

    run: Run
    guarded: bool = False
    several: Several | None = None


class WarpOperation(Operation):
    """An asynchronous operation that knows the warp which has issued it, as ``warp``.

    Arguments as of `Operation`.
    """

    __slots__ = ("warp",)

    def __init__(self, warp: Warp, name: str, line: int, queue: Queue | None) -> None:
        super().__init__(warp, name, line, queue)
        self.warp = warp
