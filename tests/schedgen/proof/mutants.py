"""Programs with one thing wrong: every step left out, every number, count and size off by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from schedgen.program.model import (
    Action,
    Arrive,
    Commit,
    Drain,
    Fence,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
)

Steps = tuple[Step, ...]
SECTIONS = ("before", "loop", "after")


def with_steps(program: Program, role: RoleProgram, section: str, steps: Steps) -> Program:
    """The program with other steps in one section of a role."""
    changed = RoleProgram(
        role.name,
        role.warps,
        role.registers,
        before=steps if section == "before" else role.before,
        loop=steps if section == "loop" else role.loop,
        after=steps if section == "after" else role.after,
    )
    roles = tuple(changed if other is role else other for other in program.roles)
    return replace(program, roles=roles)


def places(program: Program) -> Iterator[tuple[RoleProgram, str, Steps, int]]:
    """Every step: its role, section, the steps of the section and its place there."""
    for role in program.roles:
        for section, steps in zip(SECTIONS, (role.before, role.loop, role.after), strict=True):
            for place in range(len(steps)):
                yield role, section, steps, place


def named(action: Action) -> str:
    match action:
        case Run(operation):
            return f"run {operation}"
        case Wait(barrier) | Arrive(barrier) | Commit(barrier):
            return f"{type(action).__name__.lower()} {barrier}"
        case Drain(operation):
            return f"drain {operation}"
        case Fence(kind):
            return f"fence {kind.name}"


def removals(program: Program) -> Iterator[tuple[str, Program]]:
    """Without one of the steps that synchronize."""
    for role, section, steps, place in places(program):
        action = steps[place].action
        if not isinstance(action, Run):
            rest = (*steps[:place], *steps[place + 1 :])
            yield f"{role.name}: {named(action)}", with_steps(program, role, section, rest)


def swaps(program: Program) -> Iterator[tuple[str, Program]]:
    """With two neighbours the other way round."""
    for role, section, steps, place in places(program):
        if place > 0:
            both = (steps[place], steps[place - 1])
            rest = (*steps[: place - 1], *both, *steps[place + 1 :])
            name = f"{role.name}: {named(both[0].action)} before {named(both[1].action)}"
            yield name, with_steps(program, role, section, rest)


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
    for role, section, steps, place in places(program):
        action = steps[place].action
        for what, other in changes(action):
            changed = (*steps[:place], replace(steps[place], action=other), *steps[place + 1 :])
            name = f"{role.name}: {named(action)}, {what}"
            yield name, with_steps(program, role, section, changed)
    for place, barrier in enumerate(program.barriers):
        around = program.barriers[:place], program.barriers[place + 1 :]
        for field in ("slots", "arrivals", "bytes"):
            for by in (-1, 1):
                value = getattr(barrier, field) + by
                if value >= (0 if field == "bytes" else 1):
                    other = replace(barrier, **{field: value})
                    barriers = (*around[0], other, *around[1])
                    yield f"{barrier.name}: {field} {by:+}", replace(program, barriers=barriers)
    for place, store in enumerate(program.stores):
        for by in (-1, 1):
            if store.slots + by > 0:
                other = replace(store, slots=store.slots + by)
                stores = (*program.stores[:place], other, *program.stores[place + 1 :])
                yield f"{store.name}: slots {by:+}", replace(program, stores=stores)


def mutants(program: Program) -> Iterator[tuple[str, Program]]:
    yield from removals(program)
    yield from swaps(program)
    yield from variations(program)
