"""The rules of barriers, queues, commits, drains and fences, one at a time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from schedgen.kernel import Space
from schedgen.program.model import (
    Arrive,
    Barrier,
    Commit,
    Drain,
    Engine,
    Fence,
    FenceKind,
    Program,
    Run,
    Wait,
)
from schedgen.proof.machine import Machine, Setup, Trouble
from schedgen.proof.machine_conflicts import conflicts
from schedgen.proof.machine_events import unroll
from schedgen.proof.machine_trace import describe
from tests.schedgen.program.examples import gemm
from tests.schedgen.proof.small import EACH, TILE, access, loop, operation, program


class Player:
    """A machine that is told what happens next, in words."""

    def __init__(self, what: Program, trips: Sequence[int]) -> None:
        self.setup = Setup(what, trips)
        self.machine = Machine(self.setup)

    @property
    def ready(self) -> set[str]:
        return {describe(self.setup.case, event) for event in self.machine.ready}

    @property
    def trouble(self) -> set[Trouble]:
        return {problem.trouble for problem in self.machine.problems}

    def play(self, *events: str) -> None:
        for text in events:
            where, what = text.split(": ")
            found = [
                event
                for event in self.machine.ready
                if describe(self.setup.case, event).startswith(f"role {where}, ")
                and f": {what}" in describe(self.setup.case, event)
            ]
            assert found, (text, self.ready)
            self.machine.ready.remove(found[0])
            self.machine.fire(found[0])


def barrier(slots: int = 1, arrivals: int = 1, size: int = 0, *skipped: int) -> Barrier:
    return Barrier("b", "mbarrier", slots, arrivals, size, skipped)


def test_gemm_unrolled() -> None:
    case = unroll(gemm(2), [2, 0])
    assert {role: len(steps) for role, steps in case.roles.items()} == {
        "load": 6,
        "tensor": 12,
        "epilogue": 18,
        "store": 8,
    }
    kinds = [event.kind for event in case.events]
    assert kinds.count("completion") == 2 + 2 + 2
    assert kinds.count("arrival") == 2 + 2
    assert set(case.queues) == {(Engine.TENSOR,), (Engine.COPY_OUT, "store")}


@pytest.mark.parametrize(("offset", "passes"), [(-1, True), (-2, True), (0, False), (1, False)])
def test_a_fresh_barrier_grants_one_round(offset: int, passes: bool) -> None:
    player = Player(program({"r": loop(Wait("b", EACH.moved(offset)))}, (barrier(2),)), [1])
    assert bool(player.ready) is passes
    assert not player.trouble


def test_a_second_round_of_credit_is_not_granted() -> None:
    player = Player(program({"r": loop(Wait("b", EACH.moved(-3)))}, (barrier(2),)), [1])
    assert player.trouble == {Trouble.LAPPED}


def test_a_skipped_number_is_complete_from_the_beginning() -> None:
    waits = loop(Wait("b", EACH), Wait("b", EACH.moved(1)))
    player = Player(program({"r": waits}, (barrier(2, 1, 0, 0),)), [1])
    player.play("r: waits for b number 0")
    assert not player.ready
    assert not player.trouble


def test_parity_lets_a_wait_pass_a_phase_too_early() -> None:
    player = Player(program({"r": loop(Wait("b", EACH.moved(1)))}, (barrier(),)), [1])
    assert player.trouble == {Trouble.EARLY}


def test_parity_stops_a_wait_that_was_lapped() -> None:
    roles = {"p": loop(Arrive("b", EACH, 1)), "c": loop(Wait("b", EACH))}
    player = Player(program(roles, (barrier(),)), [2])
    player.play("p: arrives for b number 0")
    assert not player.trouble
    player.play("p: arrives for b number 1")
    assert player.trouble == {Trouble.LAPPED, Trouble.UNSEEN}


def test_an_arrival_before_its_phase() -> None:
    roles = {"p": loop(Arrive("b", EACH, 1)), "q": loop(Arrive("b", EACH, 1))}
    player = Player(program(roles, (barrier(1, 2),)), [2])
    player.play("p: arrives for b number 0", "p: arrives for b number 1")
    assert player.trouble == {Trouble.AHEAD}
    player.play("q: arrives for b number 0", "q: arrives for b number 1")
    assert player.machine.phases == [2]


def test_an_arrival_too_many() -> None:
    roles = {"p": loop(Arrive("b", TILE, 1)), "q": loop(Wait("b", TILE))}
    player = Player(program(roles, (barrier(),)), [2])
    player.play("p: arrives", "p: arrives")
    assert player.trouble == {Trouble.SURPLUS}


def copies() -> Program:
    """A load that is issued before its bytes are announced, twice."""
    steps = loop(Run("L", "b", EACH, 64), Arrive("b", EACH, 1, 64))
    roles = {"p": steps, "c": loop(Wait("b", EACH))}
    return program(roles, (barrier(2, 1, 64),), (operation("L", Engine.COPY_IN),))


def test_bytes_before_they_are_announced() -> None:
    player = Player(copies(), [1])
    player.play("p: issues L", "p: L completes")
    assert player.machine.announced == [-64, 0]
    player.play("p: arrives", "c: waits")
    assert not player.trouble


def test_a_phase_needs_arrivals_and_bytes() -> None:
    player = Player(copies(), [1])
    player.play("p: issues L", "p: arrives")
    assert player.machine.phases == [0, 0]
    player.play("p: L completes")
    assert player.machine.phases == [1, 0]


def test_copies_complete_in_any_order() -> None:
    player = Player(copies(), [2])
    player.play("p: issues L", "p: arrives", "p: issues L", "p: arrives")
    player.play("p: L completes, 64 bytes for b number 1", "p: L completes")
    assert player.machine.phases == [1, 1]


@pytest.mark.parametrize("engine", [Engine.TENSOR, Engine.WGMMA, Engine.COPY_OUT])
def test_queues_complete_in_order(engine: Engine) -> None:
    roles = {"r": loop(Run("A"), Run("B")), "s": loop(Run("C"))}
    operations = tuple(operation(name, engine) for name in "ABC")
    player = Player(program(roles, operations=operations), [1])
    player.play("r: issues A", "r: issues B", "s: issues C")
    both = {"role r, tile 0, iteration 0: A completes", "role s, tile 0, iteration 0: C completes"}
    assert player.ready == (both if engine is not Engine.TENSOR else {min(both)})
    player.play("r: A completes")
    assert "role r, tile 0, iteration 0: B completes" in player.ready


def test_a_commit_arrives_after_what_its_role_issued() -> None:
    roles = {"r": loop(Run("A"), Commit("b", EACH)), "s": loop(Run("B"))}
    operations = (operation("A", Engine.TENSOR), operation("B", Engine.TENSOR))
    player = Player(program(roles, (barrier(),), operations), [1])
    player.play("r: issues A", "s: issues B", "r: commits")
    assert len(player.ready) == 1
    player.play("r: A completes", "r: the commit arrives")
    assert player.machine.phases == [1]


@pytest.mark.parametrize(("lag", "iteration"), [(0, 0), (1, 1), (2, 2)])
def test_a_drain_blocks_on_an_iteration_before(lag: int, iteration: int) -> None:
    roles = {"r": loop(Run("A"), Drain("A", lag))}
    player = Player(program(roles, operations=(operation("A", Engine.WGMMA),)), [3])
    for _ in range(iteration):
        player.play("r: issues A", "r: drains")
    player.play("r: issues A")
    assert player.ready == {"role r, tile 0, iteration 0: A completes"}


def test_a_drain_of_what_is_issued_later_never_ends() -> None:
    roles = {"r": loop(Drain("A"), Run("A"))}
    player = Player(program(roles, operations=(operation("A", Engine.WGMMA),)), [1])
    assert not player.ready
    assert not player.machine.finished


# -- conflicts ---------------------------------------------------------------------------------


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
    stores = (("s", Space.REGISTERS, 1),)
    where = "a, tile 0, iteration 0:"
    found = orders(program(with_fence, (), operations, stores), [1])
    assert found == {(f"{where} fence wgmma.fence", f"{where} issues B")}
    without = {"a": loop(Run("A"), Run("B"))}
    found = orders(program(without, (), operations, stores), [1])
    assert found == {("never", f"{where} issues B")}
