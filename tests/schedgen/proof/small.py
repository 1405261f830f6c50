"""Programs of a few steps, to look at one rule at a time."""

from __future__ import annotations

from schedgen.kernel import Space
from schedgen.program.model import Action, Barrier, Capacities, Program, RoleProgram, Step
from schedgen.program.operations import Access, Allocation, Engine, Number, TileOperation

EACH = Number()
TILE = Number(per_tile=True)


def operation(name: str, engine: Engine, *accesses: Access) -> TileOperation:
    return TileOperation(name, engine, accesses, (1, 1), (1, 1))


def access(
    allocation: str, place: int, *, write: bool = False, number: Number = EACH, initial: int = 0
) -> Access:
    """An access to all of a slot, in the order of ``place``."""
    return Access(allocation, number, (0, 1), (0, 16), write, (0, 0, place), allocation, initial)


def loop(*actions: Action | Step) -> tuple[Step, ...]:
    return tuple(action if isinstance(action, Step) else Step(action) for action in actions)


def program(
    roles: dict[str, tuple[Step, ...]],
    barriers: tuple[Barrier, ...] = (),
    operations: tuple[TileOperation, ...] = (),
    allocations: tuple[tuple[str, Space, int], ...] = (),
) -> Program:
    """Each role with its loop; stores are given by name, space and slots."""
    return Program(
        *("small", "none", "none", "", 1, 1, Capacities(1, 1, 1, 1, 1)),
        allocations=tuple(
            Allocation(name, space, slots, 1, 16, 0, 16) for name, space, slots in allocations
        ),
        operations=operations,
        barriers=barriers,
        roles=tuple(RoleProgram(name, 1, 24, loop=steps) for name, steps in roles.items()),
    )


def barrier_of(name: str, slots: int = 1, arrivals: int = 1) -> Barrier:
    """An mbarrier."""
    return Barrier(name, "mbarrier", slots, arrivals, 0)
