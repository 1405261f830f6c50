"""Asynchronous operations: their order, their groups, and when policies let them execute."""

from __future__ import annotations

import gc
from typing import Any, cast

import pytest

from schedgen.emulator.machine.agents import Operations
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.machine import Machine
from schedgen.emulator.machine.operations import Groups, InOrder, Operation
from schedgen.emulator.machine.policies import Adversarial, Policy, RoundRobin, Seeded
from tests.emulator.instructions.launches import launch


class FakeMachine:
    """As much of a machine as operations need."""

    def __init__(self, policy: Policy) -> None:
        self.tracking = False
        self.events = 0
        self.policy = policy
        self.operations = Operations(cast(Any, self))


class FakeWarp:
    def __init__(self, machine: FakeMachine) -> None:
        self.machine = machine
        self.number = 0
        self.title = "warp 0"


class Note(Operation):
    """Adds its name to a list when it executes."""

    def __init__(self, warp: FakeWarp, name: str, log: list[str]) -> None:
        super().__init__(cast(Any, warp), name, 1, None)
        self.log = log

    def execute(self) -> None:
        if self.name == "bad":
            raise EmulationError("no")
        self.log.append(self.name)


def drain(machine: FakeMachine) -> None:
    pending = machine.operations.pending
    while pending:
        machine.operations.run(machine.policy.pick([], pending))


@pytest.mark.parametrize("policy", [RoundRobin(), Seeded(1), Adversarial(0), Adversarial(1)])
def test_a_queue_executes_in_order_and_everything_at_last(policy: Policy) -> None:
    machine = FakeMachine(policy)
    warp, log, queue = FakeWarp(machine), list[str](), InOrder()
    for name in "abcd":
        machine.operations.issue(Note(warp, name, log), queue)
        machine.operations.issue(Note(warp, name.upper(), log))
    drain(machine)
    assert [name for name in log if name.islower()] == list("abcd")
    assert sorted(log) == list("ABCDabcd")
    assert machine.operations.executed == 8


def test_an_operation_waits_for_those_it_comes_after() -> None:
    machine = FakeMachine(Seeded(5))
    warp, log = FakeWarp(machine), list[str]()
    first = [Note(warp, name, log) for name in "abc"]
    for operation in first:
        machine.operations.issue(operation)
    machine.operations.issue(Note(warp, "last", log), after=first)
    assert machine.operations.waiting == 1
    drain(machine)
    assert log[-1] == "last"
    machine.operations.issue(late := Note(warp, "late", log), after=first)
    assert machine.operations.pending == [late]


def test_groups_complete_in_order() -> None:
    machine = FakeMachine(RoundRobin())
    warp, log, groups = FakeWarp(machine), list[str](), Groups("bulk")
    for name in "abc":
        machine.operations.issue(operation := Note(warp, name, log))
        groups.add(operation)
        groups.commit()
    groups.commit()  # an empty group
    assert groups.pending == 4
    condition = groups.wait(2)
    assert condition is not None
    assert "at most 2 of its 4 bulk groups unfinished" in condition.explain()
    machine.operations.run(1)  # the second group: it does not count before the first
    assert groups.pending == 4
    machine.operations.run(0)
    assert groups.pending == 2
    assert condition.ready()
    assert groups.wait(2) is None
    drain(machine)
    assert groups.pending == 0


def test_errors_of_operations_say_which_it_was() -> None:
    machine = FakeMachine(RoundRobin())
    machine.operations.issue(Note(FakeWarp(machine), "bad", []))
    with pytest.raises(
        EmulationError, match="when it executed: bad of PTX line 1, issued by warp 0"
    ):
        drain(machine)


def test_late_and_early_completion() -> None:
    for delay, expected in (("late", 0), ("early", 1)):
        policy = Adversarial(0, delay=delay)
        machine = FakeMachine(policy)
        warp: Any = FakeWarp(machine)
        machine.operations.issue(Note(warp, "a", []))
        assert policy.pick([warp], machine.operations.pending) == expected


def machines() -> int:
    gc.collect()
    return sum(isinstance(one, Machine) for one in gc.get_objects())


@pytest.mark.medium
def test_nothing_of_a_launch_stays() -> None:
    """A session of many launches must not grow: shared memory and shadows are megabytes each."""
    before = machines()
    text = "wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; add.u32 %r1, %r1, 1;"
    launch(text, threads=128, target="sm_90a")
    assert machines() == before
