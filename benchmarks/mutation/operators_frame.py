"""Mistakes in what surrounds the steps of a program: left out, out of order, of the wrong size.

Among them are those of the collection of documented bugs that are not about what roles do for a
tile: no fence after barriers are initialized (M5), tensor memory that is used before its address is
there (M19) or freed before its last use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from schedgen.benchmarks.mutants.sites import Change, with_role
from schedgen.program.model import (
    Allocate,
    Budget,
    Fence,
    FenceKind,
    Free,
    Initialize,
    Meet,
    Program,
    Publish,
    ReleaseKernel,
)

_STEP = 8
"""Registers that a warpgroup can give away at a time."""


def frame_mutants(program: Program) -> Iterator[Change]:
    """``program`` with one mistake there, at every place where it can be made."""
    yield from _without(program)
    yield from _moved(program)
    yield from _sizes(program)


def _without(program: Program) -> Iterator[Change]:
    """Each step left out; letting the next kernel start early is no duty."""
    for part in ("setup", "teardown"):
        steps = getattr(program, part)
        for place, step in enumerate(steps):
            if not isinstance(step, ReleaseKernel):
                changed = replace(program, **{part: _less(steps, place)})
                yield Change(f"{part} without {step}", changed)
    for role in program.roles:
        for part in ("enter", "open", "leave"):
            steps = getattr(role, part)
            for place, step in enumerate(steps):
                changed = replace(role, **{part: _less(steps, place)})
                yield Change(f"{role.name} {part} without {step}", with_role(program, changed))


def _less(steps: Sequence[Any], place: int) -> tuple[Any, ...]:
    return (*steps[:place], *steps[place + 1 :])


def _moved(program: Program) -> Iterator[Change]:
    """What has to come later first, and what has to come before something last."""
    for kind in (Publish, Meet):
        yield Change(f"{kind.__name__} first", replace(program, setup=_first(program.setup, kind)))
    if any(isinstance(step, Allocate) for step in program.setup):
        changed = replace(program, setup=_first(program.setup, Allocate)[1:])
        allocated = next(step for step in program.setup if isinstance(step, Allocate))
        yield Change("Allocate last", replace(changed, setup=(*changed.setup, allocated)))
        yield Change("Free first", replace(program, teardown=_first(program.teardown, Free)))
    before = Fence(FenceKind.TMEM_BEFORE)
    for role in program.roles:
        if before in role.leave and role.leave[0] != before:
            rest = tuple(step for step in role.leave if step != before)
            changed = with_role(program, replace(role, leave=(before, *rest)))
            yield Change(f"{role.name} leaves with the fence first", changed)


def _first(steps: Sequence[Any], kind: type) -> tuple[Any, ...]:
    """The steps of a kind before all others."""
    return tuple(sorted(steps, key=lambda step: not isinstance(step, kind)))


def _sizes(program: Program) -> Iterator[Change]:
    for place, step in enumerate(program.setup):
        match step:
            case Initialize(arrivals=arrivals):
                others = [replace(step, arrivals=arrivals + by) for by in (-1, 1)]
            case Allocate(columns=columns):
                others = [replace(step, columns=columns // 2), replace(step, columns=columns * 2)]
            case _:
                others = []
        for other in others:
            setup = (*program.setup[:place], other, *program.setup[place + 1 :])
            yield Change(f"{other} instead of {step}", replace(program, setup=setup))
    for role in program.roles:
        for step in role.budgets:
            for count in (step.registers - _STEP, program.capacities.registers_per_thread_sum):
                changed = with_role(program, replace(role, enter=(Budget(count), *role.grants)))
                yield Change(f"{role.name}: {count} registers", changed)
