"""Which orders an unrolled case needs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from schedgen.execution.describe import describe
from schedgen.execution.events import unroll
from schedgen.kernel import Space
from schedgen.program.model import Fence, FenceKind, Program, Run
from schedgen.program.operations import Engine
from schedgen.proof.machine_conflicts import conflicts
from tests.schedgen.proof.small import EACH, access, loop, operation, program


def orders(what: Program, trips: Sequence[int]) -> set[tuple[str, str]]:
    """What must happen before what, in words; 'never' if a fence is missing."""
    case = unroll(what, trips)
    texts = [describe(case, event).removeprefix("role ") for event in range(len(case.events))]
    texts.append("never")
    return {(texts[end], texts[begin]) for begin, ends in conflicts(case).items() for end in ends}


def test_versions_come_in_order_and_tiles_before_that() -> None:
    operations = (
        operation("A", Engine.THREADS, access("s", 0, write=True)),
        operation("B", Engine.THREADS, access("s", 1)),
    )
    roles = {"a": loop(Run("A")), "b": loop(Run("B"))}
    found = orders(program(roles, (), operations, (("s", Space.SMEM, 2),)), [2, 1])
    a = [f"a, tile {t}, iteration {i}: runs A" for t, i in ((0, 0), (0, 1), (1, 0))]
    b = [f"b, tile {t}, iteration {i}: runs B" for t, i in ((0, 0), (0, 1), (1, 0))]
    assert found == {(a[0], b[0]), (a[1], b[1]), (a[2], b[2]), (b[0], a[2]), (a[0], a[2])} | {
        (a[0], b[2])
    }


def test_initial_values_are_not_accessed() -> None:
    operations = (
        operation("A", Engine.THREADS, access("s", 0, number=EACH.moved(-1), initial=1)),
        operation("B", Engine.THREADS, access("s", 1, write=True)),
    )
    roles = {"a": loop(Run("A")), "b": loop(Run("B"))}
    assert not orders(program(roles, (), operations, (("s", Space.SMEM, 4),)), [1, 1])
    assert orders(program(roles, (), operations, (("s", Space.SMEM, 4),)), [2])


SPACES = [
    (Space.SMEM, Engine.THREADS, Engine.TENSOR, "fence fence.proxy.async", "issues B"),
    (Space.SMEM, Engine.THREADS, Engine.THREADS, "runs A", "runs B"),
    (Space.SMEM, Engine.COPY_IN, Engine.THREADS, "A completes", "runs B"),
    (
        Space.TMEM,
        Engine.THREADS,
        Engine.TENSOR,
        "fence tcgen05.fence::before_thread_sync",
        "fence tcgen05.fence::after_thread_sync",
    ),
    (
        Space.TMEM,
        Engine.TENSOR,
        Engine.THREADS,
        "A completes",
        "fence tcgen05.fence::after_thread_sync",
    ),
    (Space.TMEM, Engine.TENSOR, Engine.TENSOR, "issues A", "issues B"),
]


@pytest.mark.parametrize(("space", "first", "second", "end", "begin"), SPACES)
def test_fences(space: Space, first: Engine, second: Engine, end: str, begin: str) -> None:
    operations = (
        operation("A", first, access("s", 0, write=True)),
        operation("B", second, access("s", 1)),
    )
    roles = {
        "a": loop(
            Run("A"),
            Fence(FenceKind.TMEM_LOADED),
            Fence(FenceKind.TMEM_STORED),
            Fence(FenceKind.TMEM_BEFORE),
            Fence(FenceKind.ASYNC_PROXY),
        ),
        "b": loop(Fence(FenceKind.TMEM_AFTER), Run("B")),
    }
    found = orders(program(roles, (), operations, (("s", space, 1),)), [1])
    assert found == {(f"a, tile 0, iteration 0: {end}", f"b, tile 0, iteration 0: {begin}")}


def test_registers_of_one_role() -> None:
    operations = (
        operation("A", Engine.THREADS, access("s", 0, write=True)),
        operation("B", Engine.WGMMA, access("s", 1)),
    )
    with_fence = {"a": loop(Run("A"), Fence(FenceKind.REGISTERS), Run("B"))}
    allocations = (("s", Space.REGISTERS, 1),)
    where = "a, tile 0, iteration 0:"
    found = orders(program(with_fence, (), operations, allocations), [1])
    assert found == {(f"{where} fence wgmma.fence", f"{where} issues B")}
    without = {"a": loop(Run("A"), Run("B"))}
    found = orders(program(without, (), operations, allocations), [1])
    assert found == {("never", f"{where} issues B")}
