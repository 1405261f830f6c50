"""What instructions are made of: steps that warps execute, and operations that they issue."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from schedgen.emulator.machine.conditions import Condition
from schedgen.emulator.machine.operations import Operation
from schedgen.emulator.machine.warp import Warp
from schedgen.emulator.order.tracker import Queue

Run = Callable[[Warp], Condition | None]
"""A step that may block the lanes that execute; see `Control`."""


class Control(NamedTuple):
    """A step that may branch, end lanes or block: it is the last of the steps run in one go.

    When ``run`` is called, ``warp.pc`` is the index of the next instruction; it may be changed.
    A condition as result blocks the lanes that execute; `YIELD` lets other warps go first, and
    `EXITED` says that the lanes have ended. `Warp.resumed` is the condition for which the
    instruction has waited, while it is executed again. ``guarded``: the step looks at the guard of
    the instruction by itself.
    """

    run: Run
    guarded: bool = False


class WarpOperation(Operation):
    """An asynchronous operation that knows the warp which has issued it, as ``warp``.

    Arguments as of `Operation`.
    """

    __slots__ = ("warp",)

    def __init__(self, warp: Warp, name: str, line: int, queue: Queue | None) -> None:
        super().__init__(warp, name, line, queue)
        self.warp = warp
