"""Programs written by hand, small enough to follow."""

from __future__ import annotations

from schedgen.kernel import Space
from schedgen.program.model import (
    FIRST,
    LAST,
    Arrive,
    Barrier,
    Capacities,
    Commit,
    Fence,
    FenceKind,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
    WaitGroup,
)
from schedgen.program.operations import Access, Allocation, Engine, Number, Spread, TileOperation
from schedgen.synchronize.frame import framed

MACHINE = Capacities(232448, 512, 512, 248, 16)
TILE = Number(per_tile=True)


def gemm(depth: int = 3) -> Program:
    """D = A B on Blackwell: a ring of operands, an accumulator for a tile, an epilogue, a store."""
    allocations = (
        Allocation("sA", Space.SMEM, depth, 128, 128, 1024, depth * 16384),
        Allocation("acc", Space.TMEM, 1, 128, 512, 0, 128),
        Allocation("sD", Space.SMEM, 1, 128, 256, 1024 + depth * 16384, 32768),
    )

    def whole(
        allocation: str, number: Number, *, write: bool, place: int, initial: int = 0, lag: int = 0
    ) -> Access:
        width = {"sA": 128, "acc": 512, "sD": 256}[allocation]
        turn = (0, lag, place)
        spread = Spread("rows", 32, "row") if place == 2 else None
        return Access(
            allocation, number, (0, 128), (0, width), write, turn, allocation, initial, spread
        )

    each = Number()
    operations = (
        TileOperation(
            "LA", Engine.COPY_IN, (whole("sA", each, write=True, place=0),), (600, 900), (20, 20)
        ),
        TileOperation(
            "MMA",
            Engine.TENSOR,
            (
                whole("sA", each, write=False, place=1),
                whole("acc", TILE, write=False, place=1, initial=1),
                whole("acc", TILE, write=True, place=1),
            ),
            (200, 300),
            (10, 10),
            128,
        ),
        TileOperation(
            "EPI",
            Engine.THREADS,
            (whole("acc", TILE, write=False, place=2), whole("sD", TILE, write=True, place=2)),
            (300, 500),
            (300, 500),
        ),
        TileOperation(
            "ST", Engine.COPY_OUT, (whole("sD", TILE, write=False, place=3),), (400, 900), (20, 20)
        ),
    )
    barriers = (
        Barrier("sA full", "mbarrier", depth, 1, 16384),
        Barrier("sA empty", "mbarrier", depth, 1, 0),
        Barrier("acc full", "mbarrier", 1, 1, 0),
        Barrier("acc empty", "mbarrier", 1, 128, 0),
        Barrier("sD full", "mbarrier", 1, 128, 0),
        Barrier("sD empty", "mbarrier", 1, 1, 0),
    )
    load = RoleProgram(
        "load",
        1,
        24,
        loop=(
            Step(Wait("sA empty", each.moved(-depth))),
            Step(Arrive("sA full", each, 1, 16384)),
            Step(Run("LA", "sA full", each, 16384)),
        ),
    )
    tensor = RoleProgram(
        "tensor",
        1,
        24,
        loop=(
            Step(Wait("acc empty", TILE.moved(-1)), guard=FIRST),
            Step(Fence(FenceKind.TMEM_AFTER), guard=FIRST),
            Step(Wait("sA full", each)),
            Step(Run("MMA")),
            Step(Commit("sA empty", each)),
            Step(Commit("acc full", TILE), guard=LAST),
        ),
    )
    epilogue = RoleProgram(
        "epilogue",
        4,
        128,
        after=(
            Step(Wait("acc full", TILE)),
            Step(Fence(FenceKind.TMEM_AFTER)),
            Step(Wait("sD empty", TILE.moved(-1))),
            Step(Run("EPI")),
            Step(Fence(FenceKind.TMEM_LOADED)),
            Step(Fence(FenceKind.TMEM_BEFORE)),
            Step(Arrive("acc empty", TILE, 128)),
            Step(Fence(FenceKind.ASYNC_PROXY)),
            Step(Arrive("sD full", TILE, 128)),
        ),
    )
    allocation = RoleProgram(
        "store",
        1,
        24,
        after=(
            Step(Wait("sD full", TILE)),
            Step(Run("ST")),
            Step(WaitGroup("ST")),
            Step(Arrive("sD empty", TILE, 1)),
        ),
    )
    roles = (load, tensor, epilogue, allocation)
    return framed(
        Program(
            *("gemm", "b200", "sm_100a", "", 128, 32, MACHINE),
            allocations=allocations,
            operations=operations,
            barriers=barriers,
            roles=roles,
        )
    )
