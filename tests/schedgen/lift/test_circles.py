"""Circles of turns in programs, and that no turn in one is taken for another one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest

from schedgen.emulator.ptx.parse import parse
from schedgen.lift.lift import Lifting
from schedgen.lift.turns import NEXT, TURN, circles
from schedgen.program.model import Arrive, Guard, Program, Step, Wait
from schedgen.program.sequence import sequence
from tests.schedgen.lift.turns import PTX, THREADS

NUMBERED = {f"named barrier {at} of {THREADS}" for at in (2, 3)}


@pytest.fixture(scope="module")
def kernels() -> Program:
    """As the kernel has its turns."""
    module = parse(PTX)
    (code,) = module.kernels.values()
    (lifted,) = Lifting(code, module.target).programs()
    return lifted.made.program


def with_loop(program: Program, role: str, change: Callable[[Step], Step | None]) -> Program:
    """Each step of a role's loop is replaced; None takes it out."""
    loop = (change(step) for step in program.role[role].loop)
    new = replace(program.role[role], loop=tuple(step for step in loop if step is not None))
    return replace(program, roles=tuple(new if r.name == role else r for r in program.roles))


def _gives(step: Step) -> bool:
    return isinstance(step.action, Arrive) and step.action == Arrive(
        "named barrier 3 of 256", TURN, 128
    )


def test_turns_of_a_program_are_found(kernels: Program) -> None:
    assert {turn.barrier for turn in circles(kernels, NUMBERED, {})} == NUMBERED
    assert not circles(kernels, (), {}), "mbarriers have parities"


NO_CIRCLES: dict[str, Callable[[Step], Step | None]] = {
    "in another iteration": lambda s: replace(s, guard=Guard(high=2)) if _gives(s) else s,
    "a turn of the pipeline later": lambda s: replace(s, shift=2) if _gives(s) else s,
    "never": lambda s: None if _gives(s) else s,
    "by some threads": lambda s: (
        replace(s, action=Arrive("named barrier 3 of 256", TURN, 96)) if _gives(s) else s
    ),
    "with the number of the next one": lambda s: (
        replace(s, action=Arrive("named barrier 3 of 256", NEXT, 128)) if _gives(s) else s
    ),
}


@pytest.mark.parametrize("name", NO_CIRCLES)
def test_a_turn_that_is_given_otherwise_is_in_no_circle(kernels: Program, name: str) -> None:
    assert not circles(with_loop(kernels, "warps0", NO_CIRCLES[name]), NUMBERED, {})


def early(program: Program) -> Program:
    """One role gives a turn before it has its own."""
    role = program.role["warps0"]
    gives = next(step for step in role.loop if _gives(step))
    at = next(at for at, step in enumerate(role.loop) if isinstance(step.action, Arrive))
    rest = [step for step in role.loop if not _gives(step)]
    new = replace(role, loop=(*rest[: at + 1], gives, *rest[at + 1 :]))
    return replace(program, roles=tuple(new if r.name == role.name else r for r in program.roles))


def test_a_turn_that_is_given_before_it_is_had_is_in_no_circle(kernels: Program) -> None:
    assert not circles(early(kernels), NUMBERED, {})


# -- no turn is taken for another one --------------------------------------------------------------

Move = tuple[str, int, bool]
"""A barrier, the turn that a warp has or gives there, and whether it waits."""
WARPS = 2
"""Of a role, here."""


def moves(program: Program, role: str, trips: int) -> list[Move]:
    """What each warp of a role does at numbered barriers."""
    found: list[Move] = []
    for instance in sequence(program.role[role], (trips,)):
        action = instance.step.action
        if isinstance(action, Arrive | Wait) and action.barrier in NUMBERED:
            number = instance.number(action.number)
            if isinstance(action, Wait):
                found[-1] = action.barrier, number, True
            else:
                found.append((action.barrier, number, False))
    return found


@dataclass(frozen=True)
class State:
    """Where each warp is, which of them wait, and the turns of what came to each barrier."""

    places: tuple[int, ...]
    waiting: frozenset[int] = frozenset()
    came: tuple[tuple[str, tuple[int, ...]], ...] = ()


class Mistaken(Exception):
    """A phase of a barrier has arrivals of several turns."""


def following(state: State, warps: list[list[Move]]) -> Iterator[State]:
    """As the hardware does it: a barrier counts arrivals, and lets go when it has enough."""
    for warp, place in enumerate(state.places):
        if warp in state.waiting or place == len(warps[warp]):
            continue
        barrier, turn, waits = warps[warp][place]
        came = dict(state.came)
        came[barrier] = tuple(sorted((*came.get(barrier, ()), turn)))
        waiting = state.waiting | (frozenset({warp}) if waits else frozenset[int]())
        places = tuple(at + (one == warp and not waits) for one, at in enumerate(state.places))
        if len(came[barrier]) == 2 * WARPS:
            if len(set(came.pop(barrier))) > 1:
                raise Mistaken
            let_go = {one for one in waiting if warps[one][places[one]][0] == barrier}
            places = tuple(at + (one in let_go) for one, at in enumerate(places))
            waiting -= let_go
        yield State(places, waiting, tuple(sorted(came.items())))


def explored(program: Program, trips: int) -> set[State]:
    """All states of all orders, and those in which nothing can happen any more."""
    warps = [moves(program, role, trips) for role in ("warps0", "warps4") for _ in range(WARPS)]
    first = State((0,) * len(warps))
    seen, todo, ends = {first}, [first], set[State]()
    while todo:
        state = todo.pop()
        then = list(following(state, warps))
        if not then:
            ends.add(state)
        todo += [one for one in then if one not in seen]
        seen |= set(then)
    assert all(state.places == tuple(map(len, warps)) for state in ends)
    return ends


@pytest.mark.parametrize("trips", [1, 2, 3, 5])
def test_no_order_of_warps_takes_a_turn_for_another_one(kernels: Program, trips: int) -> None:
    (end,) = explored(kernels, trips)
    assert len(end.came) == 1, "the turn that nobody takes"


def test_turns_given_early_are_taken_for_others(kernels: Program) -> None:
    with pytest.raises(Mistaken):
        explored(early(kernels), 4)
