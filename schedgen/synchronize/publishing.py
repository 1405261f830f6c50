"""Products that are issued before what threads wrote is fenced for the asynchronous proxy.

A fence waits until the writes before it are performed, which takes a while where tensor cores and
other warps use shared memory, too. A product that does not need them can be under way by then: its
operands were there before. What publishes the writes, an arrival or a meeting, comes behind both.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from schedgen.kernel import Space
from schedgen.program.model import Fence, FenceKind, Program, Run, Step
from schedgen.program.operations import Engine


def fenced_behind_products(steps: Sequence[Step], program: Program) -> tuple[Step, ...]:
    """``steps`` of a role, with its fences to the asynchronous proxy behind the products of its
    warpgroup that are issued right behind them, but for products that read or write what its
    threads write to shared memory.
    """
    written = _written(steps, program)
    found = list(steps)
    for at in reversed([n for n, step in enumerate(steps) if _is(step, FenceKind.ASYNC_PROXY)]):
        issued = list(takewhile(lambda s: _issues(s, program, written), found[at + 1 :]))
        while issued and not isinstance(issued[-1].action, Run):
            issued.pop()
        found[at : at + 1 + len(issued)] = [*issued, found[at]]
    return tuple(found)


def _written(steps: Sequence[Step], program: Program) -> set[str]:
    """Allocations of shared memory that threads of the role write."""
    shared = {one.name for one in program.allocations if one.space is Space.SMEM}
    runs = (program.operation[s.action.operation] for s in steps if isinstance(s.action, Run))
    threads = (one for one in runs if one.engine is Engine.THREADS)
    every = {a.allocation for one in threads for a in one.accesses if a.write}
    return every & shared


def _issues(step: Step, program: Program, written: set[str]) -> bool:
    """Whether a step issues a product that touches nothing of ``written``, or is part of that."""
    if not isinstance(step.action, Run):
        return _is(step, FenceKind.REGISTERS)
    operation = program.operation[step.action.operation]
    touched = {access.allocation for access in operation.accesses}
    return operation.engine is Engine.WGMMA and not touched & written


def _is(step: Step, kind: FenceKind) -> bool:
    return isinstance(step.action, Fence) and step.action.kind is kind
