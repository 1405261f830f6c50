"""Groups that may be unfinished after a wait, against the sequence of all that were committed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from schedgen.codegen.errors import EmitError
from schedgen.codegen.pending import pending
from schedgen.codegen.plan import Plan
from schedgen.program.model import EVERY, FIRST, Guard, RoleProgram, Run, Step, WaitGroup
from schedgen.program.operations import Engine, TileOperation


def plan(*names: str, engine: Engine = Engine.WGMMA) -> Plan:
    found = {name: TileOperation(name, engine, (), (1, 1), (1, 1)) for name in names}
    return cast("Plan", SimpleNamespace(program=SimpleNamespace(operation=found)))


def ran(name: str, shift: int = 0, guard: Guard = EVERY) -> Step:
    return Step(Run(name), shift, guard)


def waits(name: str, shift: int = 0, lag: int = 0) -> Step:
    return Step(WaitGroup(name, lag), shift)


LOOPS = [
    [ran("A"), waits("A")],
    [ran("A"), ran("B"), waits("A"), waits("B")],
    [waits("A", 1), ran("A"), ran("B", 1), waits("B", 2)],
    [ran("B"), waits("A", 2), ran("A"), waits("B", 0, 1), ran("A2", 1), waits("A2", 1, 1)],
    [ran("A"), ran("B", 1), waits("A", 1), ran("A2", 2), waits("B", 2), waits("A2", 3)],
]


@pytest.mark.parametrize("loop", LOOPS)
def test_counts_what_was_issued_later(loop: list[Step]) -> None:
    """Every step commits a group in every turn, so a list of all groups is easily made."""
    trips = 8
    role = RoleProgram("role", 4, 64, loop=tuple(loop))
    groups: list[tuple[str, int]] = []
    checked: set[int] = set()
    for turn in range(trips + role.shifts):
        for number, step in enumerate(loop):
            action: Any = step.action
            if isinstance(action, Run):
                groups.append((action.operation, turn - step.shift))
            elif 0 <= turn - step.shift - action.lag < trips:
                target = action.operation, turn - step.shift - action.lag
                after = len(groups) - 1 - groups.index(target)
                assert pending(plan("A", "A2", "B"), role, step) == after
                checked.add(number)
    assert len(checked) == sum(isinstance(step.action, WaitGroup) for step in loop)


def test_outside_of_the_loop() -> None:
    after = (ran("A"), ran("B"), waits("A"), waits("B"))
    role = RoleProgram("role", 4, 64, loop=(ran("C"),), after=(*after, waits("C")))
    counts = [pending(plan("A", "B", "C"), role, role.after[n]) for n in (2, 3, 4)]
    assert counts == [1, 0, 0]


def test_guards_are_refused() -> None:
    role = RoleProgram("role", 4, 64, loop=(ran("A"), ran("B", 0, FIRST), waits("A")))
    with pytest.raises(EmitError, match=r"'B' does not run in every iteration") as found:
        pending(plan("A", "B"), role, role.loop[2])
    assert "'A' in another role" in (found.value.fix or "")


def test_guards_of_other_engines_do_not_matter() -> None:
    role = RoleProgram("role", 4, 64, loop=(ran("A"), ran("B", 0, FIRST), waits("A")))
    other = plan("A", "B")
    other.program.operation["B"] = TileOperation("B", Engine.COPY_OUT, (), (1, 1), (1, 1))
    assert pending(other, role, role.loop[2]) == 0
