"""Small correct programs: the ways in which kernels hand data on."""

from __future__ import annotations

from dataclasses import replace

from schedgen.benchmarks.mutants.sites import Site, sites
from schedgen.kernel import Space
from schedgen.program.model import (
    FIRST,
    Action,
    Arrive,
    Barrier,
    Commit,
    Fence,
    FenceKind,
    Program,
    Run,
    Step,
    Wait,
    WaitGroup,
)
from schedgen.program.operations import Allocation, Engine, TileOperation
from tests.schedgen.program.examples import MACHINE
from tests.schedgen.proof import small
from tests.schedgen.proof.small import EACH, TILE, access, loop, operation

PROXY = Fence(FenceKind.ASYNC_PROXY)


def program(
    roles: dict[str, tuple[Step, ...]],
    barriers: tuple[Barrier, ...],
    operations: tuple[TileOperation, ...],
    allocations: tuple[tuple[str, Space, int], ...],
) -> Program:
    """A small program whose stores lie one behind the other."""
    found = small.program(roles, barriers, operations)
    address = {Space.SMEM: 1024, Space.TMEM: 0, Space.REGISTERS: -1}
    listed: list[Allocation] = []
    for name, space, slots in allocations:
        size = slots * (4 if space is Space.TMEM else 16)
        listed.append(Allocation(name, space, slots, 1, 16, address[space], size))
        if space is not Space.REGISTERS:
            address[space] += size
    return replace(found, allocations=tuple(listed), capacities=MACHINE)


def barrier(name: str, slots: int = 1, arrivals: int = 1, size: int = 0) -> Barrier:
    return Barrier(name, "mbarrier", slots, arrivals, size)


def the(found: Program, role: str, wanted: Action) -> Site:
    """The step of a role with an action."""
    return next(s for s in sites(found) if s.role.name == role and s.action == wanted)


def staged(depth: int) -> Program:
    """Bulk copies fill stages that threads read and give back."""
    return program(
        {
            "load": loop(
                Wait("empty", EACH.moved(-depth)),
                Arrive("full", EACH, 1, 16),
                Run("LOAD", "full", EACH, 16),
            ),
            "math": loop(Wait("full", EACH), Run("READ"), PROXY, Arrive("empty", EACH, 32)),
        },
        (barrier("full", depth, size=16), barrier("empty", depth, 32)),
        (
            operation("LOAD", Engine.COPY_IN, access("s", 0, write=True)),
            operation("READ", Engine.THREADS, access("s", 1)),
        ),
        (("s", Space.SMEM, depth),),
    )


def from_registers() -> Program:
    """A warpgroup stores a tile to shared memory, and multiplies from there."""
    return program(
        {"math": loop(Run("STS"), PROXY, Run("MMA"), WaitGroup("MMA"))},
        (),
        (
            operation("STS", Engine.THREADS, access("s", 0, write=True)),
            operation("MMA", Engine.WGMMA, access("s", 1)),
        ),
        (("s", Space.SMEM, 1),),
    )


def through_tensor_memory() -> Program:
    """Threads store an operand to tensor memory, the tensor core uses it."""
    after, before = Fence(FenceKind.TMEM_AFTER), Fence(FenceKind.TMEM_BEFORE)
    return program(
        {
            "softmax": loop(
                Wait("P empty", EACH.moved(-1)),
                after,
                Run("STP"),
                Fence(FenceKind.TMEM_STORED),
                before,
                Arrive("P full", EACH, 128),
            ),
            "tensor": loop(Wait("P full", EACH), after, Run("PV"), Commit("P empty", EACH)),
        },
        (barrier("P full", arrivals=128), barrier("P empty")),
        (
            operation("STP", Engine.THREADS, access("P", 0, write=True)),
            operation("PV", Engine.TENSOR, access("P", 1)),
        ),
        (("P", Space.TMEM, 1),),
    )


def statistics(offset: int) -> Program:
    """Two warpgroups leave row maxima in one array, the second one's ``offset`` bytes on."""

    def row_max(place: int, first: int, *, write: bool = False) -> TileOperation:
        touched = replace(access("max", place, write=write), bytes=(first, first + 8))
        return operation(f"{'PUT' if write else 'GET'}{place % 2}", Engine.THREADS, touched)

    roles = {
        f"softmax{n}": loop(
            Wait(f"empty{n}", EACH.moved(-1)), Run(f"PUT{n}"), Arrive(f"full{n}", EACH, 128)
        )
        for n in range(2)
    }
    for n in range(2):
        roles[f"correction{n}"] = loop(
            Wait(f"full{n}", EACH), Run(f"GET{n}"), Arrive(f"empty{n}", EACH, 128)
        )
    return program(
        roles,
        tuple(barrier(f"{what}{n}", arrivals=128) for what in ("full", "empty") for n in range(2)),
        (
            row_max(0, 0, write=True),
            row_max(1, offset, write=True),
            row_max(2, 0),
            row_max(3, offset),
        ),
        (("max", Space.SMEM, 1),),
    )


def rendezvous() -> Program:
    """A role hands something to another one for each tile, at a named barrier."""
    roles = {
        "a": loop(Wait("back", TILE.moved(-1)), Arrive("meet", TILE, 32)),
        "b": loop(Wait("meet", TILE), Arrive("back", TILE, 32)),
    }
    once = {
        name: tuple(replace(step, guard=FIRST) for step in steps) for name, steps in roles.items()
    }
    named = Barrier("meet", "named", 1, 32, 0)
    return program(once, (named, barrier("back", arrivals=32)), (), ())


def two_warpgroups() -> Program:
    """Two warpgroups multiply from the same ring."""
    roles = {
        "load": loop(
            Wait("empty 0", EACH.moved(-2)),
            Wait("empty 1", EACH.moved(-2)),
            Arrive("full", EACH, 1, 16),
            Run("LOAD", "full", EACH, 16),
        )
    }
    for n in range(2):
        roles[f"math{n}"] = loop(
            Wait("full", EACH),
            Run(f"MMA{n}"),
            WaitGroup(f"MMA{n}"),
            Arrive(f"empty {n}", EACH, 128),
        )
    return program(
        roles,
        (barrier("full", 2, size=16), barrier("empty 0", 2, 128), barrier("empty 1", 2, 128)),
        (
            operation("LOAD", Engine.COPY_IN, access("s", 0, write=True)),
            operation("MMA0", Engine.WGMMA, access("s", 1)),
            operation("MMA1", Engine.WGMMA, access("s", 2)),
        ),
        (("s", Space.SMEM, 2),),
    )
