"""What surrounds the steps of a program: barriers and tensor memory before its roles, registers at
their beginning, what has to be over at their end.

Nothing of it orders accesses of two operations, so synthesis does not need it; it is part of the
program all the same, so that the proof sees all that a kernel does (`schedgen.proof.frame`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from schedgen.kernel import Space
from schedgen.program.following import follows
from schedgen.program.model import (
    PRODUCTS,
    Allocate,
    AwaitKernel,
    Budget,
    Fence,
    FenceKind,
    Finish,
    Free,
    Initialize,
    Meet,
    Program,
    Publish,
    ReleaseKernel,
    RoleProgram,
    Run,
    SetUp,
    TearDown,
)
from schedgen.program.operations import Engine, TileOperation
from schedgen.program.warpgroups import Warpgroups
from schedgen.synchronize.pacing import grants

FEWEST_COLUMNS, MOST_COLUMNS = 32, 512
"""Columns are allocated in powers of two between these (PTX ISA, tcgen05.alloc)."""


def framed(program: Program) -> Program:
    """``program`` with its setup, its teardown, and what its roles begin and end with."""
    warps = Warpgroups(program.roles)
    roles = tuple(_role(program, warps, role) for role in program.roles)
    whole = replace(program, roles=roles)
    return replace(whole, setup=tuple(_setup(whole)), teardown=tuple(_teardown(whole)))


def tensor_columns(program: Program) -> int:
    """Columns of tensor memory to allocate; 0 if the program uses none."""
    allocations = [
        allocation for allocation in program.allocations if allocation.space is Space.TMEM
    ]
    if not allocations:
        return 0
    needed = max(allocation.address + allocation.size for allocation in allocations)
    return max(FEWEST_COLUMNS, 1 << (needed - 1).bit_length())


def _setup(program: Program) -> Iterator[SetUp]:
    mbarriers = (barrier for barrier in program.barriers if barrier.kind == "mbarrier")
    yield from (Initialize(barrier.name, barrier.arrivals) for barrier in mbarriers)
    finishing = sum(Finish(Engine.TENSOR) in role.leave for role in program.roles)
    if finishing:
        yield Initialize(PRODUCTS, finishing)
    columns = tensor_columns(program)
    if columns:
        yield Allocate(columns)
    yield from (Publish(), Meet())
    if not follows(program):
        yield AwaitKernel()
    yield ReleaseKernel()


def _teardown(program: Program) -> Iterator[TearDown]:
    columns = tensor_columns(program)
    if columns:
        yield from (Meet(), Fence(FenceKind.TMEM_AFTER), Free(columns))
    if follows(program):
        yield AwaitKernel()


def _role(program: Program, warps: Warpgroups, role: RoleProgram) -> RoleProgram:
    runs = [
        program.operation[step.action.operation]
        for step in role.steps
        if isinstance(step.action, Run)
    ]
    engines = {operation.engine for operation in runs}
    budget = warps.registers(role)
    moves = warps.moves and budget != warps.entry
    return replace(
        role,
        enter=(*([Budget(budget)] if moves else []), *grants(program, role)),
        open=(Fence(FenceKind.REGISTERS),) if Engine.WGMMA in engines else (),
        leave=tuple(_leave(program, runs, engines)),
    )


def _leave(
    program: Program, runs: list[TileOperation], engines: set[Engine]
) -> Iterator[Finish | Fence]:
    if Engine.COPY_OUT in engines:
        yield Finish(Engine.COPY_OUT)
    if Engine.TENSOR in engines:
        yield Finish(Engine.TENSOR)
    if not any(
        program.allocation[a.allocation].space is Space.TMEM for o in runs for a in o.accesses
    ):
        return
    if Engine.TENSOR not in engines:
        yield from (Fence(FenceKind.TMEM_LOADED), Fence(FenceKind.TMEM_STORED))
    yield Fence(FenceKind.TMEM_BEFORE)
