"""Programs with one thing wrong: every step left out, every number, count and size off by one.

Smaller changes than those of `schedgen.benchmarks.mutants.programs`, and exchanged neighbours, for
tiny programs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from schedgen.benchmarks.mutants.sites import Site, sites, with_allocation, with_barrier
from schedgen.program.model import (
    Action,
    Arrive,
    Commit,
    Fence,
    Program,
    Run,
    Wait,
    WaitGroup,
)


def named(action: Action) -> str:
    match action:
        case Run(operation):
            return f"run {operation}"
        case Wait(barrier) | Arrive(barrier) | Commit(barrier):
            return f"{type(action).__name__.lower()} {barrier}"
        case WaitGroup(operation):
            return f"wait_group {operation}"
        case Fence(kind):
            return f"fence {kind.name}"


def at(site: Site) -> str:
    return f"{site.role.name}: {named(site.action)}"


def removals(program: Program) -> Iterator[tuple[str, Program]]:
    """Without one of the steps that synchronize."""
    for site in sites(program, Wait, Arrive, Commit, WaitGroup, Fence):
        yield at(site), site.without()


def swaps(program: Program) -> Iterator[tuple[str, Program]]:
    """With two neighbours the other way round."""
    for site in sites(program):
        if site.place > 0:
            other = site.steps[site.place - 1].action
            yield f"{at(site)} before {named(other)}", site.ahead_of(site.place - 1)


def changes(action: Action) -> Iterator[tuple[str, Action]]:
    """The action with something off by one, or half of it."""
    if isinstance(action, Wait | Arrive | Commit):
        for by in (-1, 1):
            yield f"number {by:+}", replace(action, number=action.number.moved(by))
    if isinstance(action, Run) and action.number is not None:
        for by in (-1, 1):
            yield f"number {by:+}", replace(action, number=action.number.moved(by))
        yield "half of the bytes", replace(action, bytes=action.bytes // 2)
    if isinstance(action, Arrive):
        for by in (-1, 1):
            yield f"count {by:+}", replace(action, count=action.count + by)
        if action.bytes:
            yield "half of the bytes", replace(action, bytes=action.bytes // 2)


def variations(program: Program) -> Iterator[tuple[str, Program]]:
    """With another number, count or size in one step, barrier or store."""
    for site in sites(program):
        for what, other in changes(site.action):
            yield f"{at(site)}, {what}", site.does(other)
    for barrier in program.barriers:
        for field in ("slots", "arrivals", "bytes"):
            for by in (-1, 1):
                value = getattr(barrier, field) + by
                if value >= (0 if field == "bytes" else 1):
                    other = replace(barrier, **{field: value})
                    yield f"{barrier.name}: {field} {by:+}", with_barrier(program, other)
    for allocation in program.allocations:
        for by in (-1, 1):
            if allocation.slots + by > 0:
                other = replace(allocation, slots=allocation.slots + by)
                yield f"{allocation.name}: slots {by:+}", with_allocation(program, other)


def mutants(program: Program) -> Iterator[tuple[str, Program]]:
    yield from removals(program)
    yield from swaps(program)
    yield from variations(program)
