"""Peeled loops, executed as Python, run the steps that a role's program says, in its order."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from schedgen.codegen.ir import Name, Phase, Stage, code
from schedgen.codegen.library import COMMON
from schedgen.codegen.names import plain
from schedgen.codegen.peeling import Range
from schedgen.codegen.running import Carried, Iteration, Running
from schedgen.codegen.source import Source
from schedgen.codegen.turns import Peeled, emit_loop
from schedgen.program.model import EVERY, FIRST, LAST, Guard, RoleProgram, Run, Step, When
from schedgen.program.operations import Number
from schedgen.program.sequence import sequence
from tests.codegen.dsl import library, run

GUARDS = [
    *(EVERY, FIRST, LAST),
    *(Guard(When.EVERY, low, high) for low, high in ((1, 0), (0, 1), (2, 0), (0, 2), (1, 3))),
    *(Guard(kind, low) for kind, low in product((When.FIRST, When.LAST), (1, 2, 3))),
]


def role(shifts: int) -> RoleProgram:
    """A step for each shift and guard."""
    steps = (
        Step(Run(f"{shift}-{guard}"), shift, guard)
        for shift, guard in product(range(shifts + 1), GUARDS)
    )
    return RoleProgram("role", 4, 64, loop=tuple(steps))


def give(state: Carried, name: str) -> str:
    return plain(name)


def emitted(loop: RoleProgram) -> str:
    source = Source()

    def emit(out: Source, step: Step, at: Iteration | None, runs: bool) -> None:
        assert isinstance(step.action, Run)
        if runs:
            assert at is not None
            out.add(code(f"log(({step.action.operation!r}, {{}}, {at.total}))", at))

    emit_loop(source, loop, emit, give)
    return source.text


@pytest.mark.parametrize("shifts", [0, 1, 2, 3])
@pytest.mark.parametrize("trips", [1, 2, 3, 4, 7])
def test_steps_run_when_they_should(shifts: int, trips: int) -> None:
    loop, first, log = role(shifts), 100, list[Any]()
    run(emitted(loop), {"trips": trips, "first": first, "log": log.append})
    wanted = [
        (instance.step.action.operation, instance.iteration, first + instance.iteration)
        for instance in sequence(loop, [trips])
        if isinstance(instance.step.action, Run)
    ]
    assert log == wanted


@pytest.mark.parametrize("shifts", [0, 1, 2, 3])
def test_nothing_is_asked_that_is_known(shifts: int) -> None:
    """Each condition holds for some numbers of iterations and fails for others."""
    lines = emitted(role(shifts)).splitlines()
    seen: dict[int, set[bool]] = {}

    def asked(number: int, holds: bool) -> bool:
        seen.setdefault(number, set()).add(holds)
        return holds

    text = "\n".join(
        f"{line[: len(line) - len(line.lstrip())]}if asked({n}, {line.strip()[3:-1]}):"
        if line.strip().startswith("if ")
        else line
        for n, line in enumerate(lines)
    )
    for trips in range(1, 9):
        run(text, {"trips": trips, "first": 0, "log": str, "asked": asked})
    assert seen
    assert all(results == {True, False} for results in seen.values())


@pytest.mark.parametrize("shifts", [0, 1, 2, 3])
@pytest.mark.parametrize("trips", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("slots", [1, 2, 3])
def test_slots_of_a_ring(shifts: int, trips: int, slots: int) -> None:
    """Carried through the loop, whatever is guarded in it, and found anew at its ends."""
    loop, first, log = role(shifts), 100, list[Any]()
    source = Source()

    def emit(out: Source, step: Step, at: Iteration | None, runs: bool) -> None:
        if runs:
            assert at is not None
            ring = Running(Number(1, 2), slots, at, ("kv",))
            out.add(code(f"log(({at.total}, {{}}, {{}}))", Stage(ring), Phase(ring)))

    emit_loop(source, loop, emit, give, lambda out: out.add("ended()"))
    names = {"trips": trips, "first": first, "log": log.append, "ended": lambda: None}
    run(source.text, library(COMMON) | names)
    numbers = [(n, n + 2) for n in (first + i.iteration for i in sequence(loop, [trips]))]
    assert log == [(n, number % slots, number // slots % 2) for n, number in numbers]
    assert source.text.count("advance(kv_stage") == (min(shifts + 1, slots) if slots > 1 else 0)


@pytest.mark.parametrize("shifts", [0, 1, 2])
@pytest.mark.parametrize("trips", [1, 2, 5])
@pytest.mark.parametrize("sides", ["first", "end", "both"])
def test_turns_in_parts(shifts: int, trips: int, sides: str) -> None:
    """Wherever those that are peeled begin and end, each turn is there once, with its slots; and
    only turns in the range are peeled.
    """
    steps = (Step(Run(str(shift)), shift, EVERY) for shift in range(shifts + 1))
    loop = RoleProgram("role", 4, 64, loop=tuple(steps))
    given = [code(f"{n}_") if sides in (n, "both") else None for n in ("first", "end")]
    source, slots = Source(), 3

    def emit(
        out: Source, step: Step, at: Iteration | None, runs: bool, word: str = "plain"
    ) -> None:
        if runs:
            assert at is not None
            ring = Running(Number(1, 2), slots, at, ("kv",))
            out.add(code(f"log(({word!r}, {at.total}, {{}}, {{}}))", Stage(ring), Phase(ring)))

    def other(out: Source, step: Step, at: Iteration | None, runs: bool) -> None:
        emit(out, step, at, runs, "peeled")

    peeled = Peeled(Range(*given), other, Name("whole_first"), Name("whole_end"))
    emit_loop(source, loop, emit, give, peeled=peeled)
    assert source.text.count("advance(kv_stage") % (2 + (sides == "both")) == 0
    wanted = [i.iteration for i in sequence(loop, [trips])]
    for first, end in product((-2, 1, 2, 4, 9), repeat=2):
        log = list[Any]()
        names = {"trips": trips, "first": 0, "log": log.append, "first_": first, "end_": end}
        run(source.text, library(COMMON) | names)
        assert [n for _, n, _, _ in log] == wanted
        assert all((s, p) == ((n + 2) % slots, (n + 2) // slots % 2) for _, n, s, p in log)
        low = first if sides != "end" else 0
        high = end if sides != "first" else trips
        for word, n, _, _ in log:  # a turn has iterations of all shifts
            assert word == "plain" or any(low <= n + s < high for s in range(shifts + 1))
