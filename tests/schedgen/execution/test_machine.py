"""The rules of barriers, queues, commits, wait_groups and fences, one at a time."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from schedgen.execution import machine as execution
from schedgen.execution.describe import describe
from schedgen.execution.events import unroll
from schedgen.execution.machine import Machine, Trouble
from schedgen.program.model import Arrive, Barrier, Commit, Program, Run, Wait, WaitGroup
from schedgen.program.operations import Engine
from schedgen.proof.machine_conflicts import Setup
from tests.schedgen.program.examples import gemm
from tests.schedgen.proof.small import EACH, TILE, loop, operation, program


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
    assert player.machine.expect_tx == [-64, 0]
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
def test_a_wait_group_blocks_on_an_iteration_before(lag: int, iteration: int) -> None:
    roles = {"r": loop(Run("A"), WaitGroup("A", lag))}
    player = Player(program(roles, operations=(operation("A", Engine.WGMMA),)), [3])
    for _ in range(iteration):
        player.play("r: issues A", "r: wait_groups")
    player.play("r: issues A")
    assert player.ready == {"role r, tile 0, iteration 0: A completes"}


def test_a_wait_group_of_what_is_issued_later_never_ends() -> None:
    roles = {"r": loop(WaitGroup("A"), Run("A"))}
    player = Player(program(roles, operations=(operation("A", Engine.WGMMA),)), [1])
    assert not player.ready
    assert not player.machine.finished


# -- products that begin -----------------------------------------------------------------------


def test_products_begin_one_after_the_other() -> None:
    """With begins, a product reads its operands when those before it in the queue are complete."""
    roles = {"r": loop(Run("A"), Run("B"))}
    what = program(roles, operations=tuple(operation(n, Engine.TENSOR) for n in "AB"))
    case = unroll(what, [1], begins=True)
    machine = Machine(execution.Setup(case))
    told: list[str] = []
    while machine.ready:
        # What is in the queue comes last, so that both products are issued before one begins.
        event = min(machine.ready, key=lambda ready: case.events[ready].kind != "step")
        machine.ready.remove(event)
        machine.fire(event)
        told.append(describe(case, event).split(": ")[1])
    assert told[2:] == ["A begins", "A completes", "B begins", "B completes"]
    assert machine.finished


def test_only_products_begin() -> None:
    roles = {"r": loop(Run("A"), Run("B"), Run("C"))}
    engines = {"A": Engine.COPY_IN, "B": Engine.COPY_OUT, "C": Engine.WGMMA}
    what = program(roles, operations=tuple(operation(n, e) for n, e in engines.items()))
    case = unroll(what, [2], begins=True)
    begun = [case.operation(event).name for event in case.begin]
    assert begun == ["C", "C"]
    assert [event.kind for event in case.events].count("completion") == 6
    assert "begin" not in {event.kind for event in unroll(what, [2]).events}


def test_an_order_that_is_not_kept_is_a_race() -> None:
    """The machine knows nothing of storage: it looks at the orders that it is given."""
    roles = {"a": loop(Run("A")), "b": loop(Run("B"))}
    what = program(roles, operations=tuple(operation(n, Engine.THREADS) for n in "AB"))
    case = unroll(what, [1])
    (first,), (second,) = case.roles["a"], case.roles["b"]
    for order, wanted in (((first, second), set[Trouble]()), ((second, first), {Trouble.RACE})):
        machine = Machine(execution.Setup(case, {second: [first]}))
        for event in order:
            machine.ready.remove(event)
            machine.fire(event)
        assert {problem.trouble for problem in machine.problems} == wanted
