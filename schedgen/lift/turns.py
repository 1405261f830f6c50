"""Turns that roles hand to each other at numbered barriers.

Roles in a circle: each waits at a barrier of its own, has its turn, and arrives at the barrier of
the next one. Somebody arrives there once, before it waits for anything, so that the first turn
begins. Their arrivals have no step that comes in every phase, which the proofs ask for, so two
other programs show that the kernel is right:

*Unturned*: without these barriers. More executions are possible then, and nothing else waits for
what was taken out; so what none of its executions does, none of the kernel's does.

*Turned*: with them in the form of `schedgen.synchronize.pacing`: each is a barrier of pace for the
turns, and one where those meet who take them; the first turn is granted. Steps come in every
iteration; the kernel may go without turns in the last ones. Beside the kernel's events there are
only waits, and arrivals for these waits, so that if it comes to its end, the kernel does.

That no turn is taken for another one follows from the circle itself (`_alternate`): a role arrives
for a turn of the next one within its own turn of that number, and once around the circle within the
turn before. So turns begin one after the other, and nobody arrives for turn n + 1 at a barrier
before turn n there has begun, with all who take it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from schedgen.program.model import (
    EVERY,
    Arrive,
    Barrier,
    Grant,
    Guard,
    Initialize,
    Program,
    RoleProgram,
    Step,
    Wait,
    WaitGroup,
    When,
)
from schedgen.program.operations import Number
from schedgen.synchronize.pacing import without_barriers

TURN, NEXT = Number(1, 0), Number(1, 1)
"""Numbers of turns, in the iteration of that number and in the one before."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A numbered barrier at which a role is given its turns.

    Attributes:
        owner, takers: who waits there, and all roles that do: what a warp of its does beside it.
        giver: who arrives there, with ``threads``, for each turn or for all but the first.
        first: who arrives for the first one, if the giver does not.
        guard: in which iterations there is a turn.
    """

    barrier: str
    owner: str
    takers: frozenset[str]
    giver: str
    threads: int
    first: str
    guard: Guard

    @property
    def pace(self) -> str:
        """The barrier at which the turn is only given."""
        return f"turns at {self.barrier}"


def circles(
    program: Program, numbered: Collection[str], beside: Mapping[str, str]
) -> tuple[Turn, ...]:
    """All turns that are handed around. Each tile of ``program`` is one of a block of its own.

    Args:
        numbered: names of its numbered barriers.
        beside: role that is a part of another one -> that one.
    """
    found = [
        turn
        for barrier in program.barriers
        if barrier.name in numbered and (turn := _turn(program, barrier, beside)) is not None
    ]
    return tuple(turn for turn in found if _goes_round(program, _circle(turn, found)))


# -- one barrier -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Use:
    """A step that arrives at a barrier; ``waits``: the next one waits there."""

    role: RoleProgram
    place: int
    arrive: Arrive
    shift: int
    guard: Guard
    waits: bool

    @property
    def looped(self) -> bool:
        return len(self.role.before) <= self.place < len(self.role.before) + len(self.role.loop)


def _uses(program: Program, barrier: str) -> list[_Use] | None:
    """What roles do at a barrier; None if one waits without arriving."""
    found: list[_Use] = []
    for role in program.roles:
        waited = False
        for place, (step, then) in enumerate(zip(role.steps, [*role.steps[1:], None], strict=True)):
            action = step.action
            if isinstance(action, Arrive) and action.barrier == barrier:
                waits = then is not None and _same(step, then)
                found.append(_Use(role, place, action, step.shift, step.guard, waits))
                waited = waits
            elif isinstance(action, Wait) and action.barrier == barrier:
                if not waited:
                    return None
                waited = False
    return found


def _same(step: Step, then: Step) -> bool:
    """Whether a step waits for what the one before arrives for, in the same iterations."""
    arrive, wait = step.action, then.action
    return (
        isinstance(arrive, Arrive)
        and isinstance(wait, Wait)
        and (wait.barrier, wait.number) == (arrive.barrier, arrive.number)
        and (then.shift, then.guard) == (step.shift, step.guard)
    )


def _turn(program: Program, barrier: Barrier, beside: Mapping[str, str]) -> Turn | None:
    uses = _uses(program, barrier.name)
    if uses is None:
        return None
    takes = [use for use in uses if use.waits]
    gives = [use for use in uses if not use.waits and use.guard.kind is When.EVERY and use.looped]
    firsts = [use for use in uses if not use.waits and use not in gives]
    owners = [use.role.name for use in takes if use.role.name not in beside]
    if len(owners) != 1 or len(gives) != 1 or len(firsts) > 1:
        return None
    (owner,), (give,) = owners, gives
    fits = (
        all(beside.get(use.role.name, owner) == owner for use in takes)
        and all(use.looped and use.arrive.number == TURN for use in takes)
        and len({use.guard for use in (*takes, give)}) == 1
        and give.guard.low == 0
        and give.arrive.number == (NEXT if firsts else TURN)
        and all(_starts(use, give) for use in firsts)
        and sum(use.arrive.count for use in (*takes, give)) == barrier.arrivals
        and all(use.arrive.count == 32 * use.role.warps for use in uses)
        and len({use.role.name for use in takes}) == len(takes)
        and (barrier.slots, barrier.bytes, barrier.skipped) == (1, 0, ())
    )
    if not fits:
        return None
    takers = frozenset(use.role.name for use in takes)
    first = firsts[0].role.name if firsts else ""
    return Turn(barrier.name, owner, takers, give.role.name, give.arrive.count, first, give.guard)


def _starts(use: _Use, give: _Use) -> bool:
    """Whether an arrival is for the first turn, and its role waits for nothing before it."""
    at_first = use.looped and use.guard.kind is When.FIRST and use.guard.low <= 1
    once = use.place < len(use.role.before) or (at_first and not use.shift)
    before = (step.action for step in use.role.steps[: use.place])
    waited = any(isinstance(action, Wait | WaitGroup) for action in before)
    same = (use.arrive.number, use.arrive.count) == (TURN, give.arrive.count)
    return once and same and not waited


# -- around ------------------------------------------------------------------------------------


def _circle(turn: Turn, found: Sequence[Turn]) -> list[Turn]:
    """The turns around which this one comes back to its owner; none if it does not."""
    circle = [turn]
    while True:
        owned = [one for one in found if one.owner == circle[-1].giver]
        if len(owned) != 1 or owned[0] in circle[1:]:
            return []
        if owned[0] == turn:
            return circle
        circle.append(owned[0])


def _goes_round(program: Program, circle: Sequence[Turn]) -> bool:
    """Whether there is one turn at a time, in each role at its own barrier, then at the next."""
    return (
        len(circle) > 1
        and sum(bool(turn.first) for turn in circle) == 1
        and len({turn.guard for turn in circle}) == 1
        and all(
            _alternate(program.role[turn.giver], owned.barrier, turn.barrier)
            for turn, owned in zip(circle, [*circle[1:], circle[0]], strict=True)
        )
    )


def _alternate(role: RoleProgram, takes: str, gives: str) -> bool:
    """Whether a role arrives at one barrier each time that it has waited at the other one, and
    before it waits there again.
    """
    at = {
        (step.action.do, step.action.barrier): (step.shift, place)
        for place, step in enumerate(role.loop)
        if isinstance(step.action, Arrive | Wait) and step.guard.kind is When.EVERY
    }
    (shift, wait), (same, arrive) = at["wait", takes], at["arrive", gives]
    return shift == same and wait < arrive


# -- the programs ------------------------------------------------------------------------------


def unturned(program: Program, turns: Sequence[Turn]) -> Program:
    """``program`` without the barriers of ``turns``."""
    names = {turn.barrier for turn in turns}
    return replace(
        program,
        barriers=tuple(barrier for barrier in program.barriers if barrier.name not in names),
        roles=tuple(without_barriers(role, names) for role in program.roles),
        setup=tuple(
            one
            for one in program.setup
            if not (isinstance(one, Initialize) and one.barrier in names)
        ),
    )


def turned(program: Program, turns: Sequence[Turn]) -> Program:
    """``program`` with turns in every iteration, the first of which is granted."""
    by_name = {turn.barrier: turn for turn in turns}
    threads = Counter({turn.barrier: turn.threads for turn in turns})
    paces = (
        Barrier(turn.pace, "pace", 1, turn.threads, 0, (0,) if turn.first else ()) for turn in turns
    )
    return replace(
        program,
        barriers=(
            *(replace(b, arrivals=b.arrivals - threads[b.name]) for b in program.barriers),
            *paces,
        ),
        roles=tuple(_turned(role, by_name) for role in program.roles),
        setup=tuple(
            replace(one, arrivals=one.arrivals - threads[one.barrier])
            if isinstance(one, Initialize)
            else one
            for one in program.setup
        ),
    )


def _turned(role: RoleProgram, turns: Mapping[str, Turn]) -> RoleProgram:
    before = tuple(step for step in role.before if _at(step, turns) is None)
    loop = tuple(new for step in role.loop for new in _steps(role.name, step, turns))
    grants = (Grant(turn.pace, 0) for turn in turns.values() if turn.first == role.name)
    return replace(role, before=before, loop=loop, enter=(*role.enter, *grants))


def _at(step: Step, turns: Mapping[str, Turn]) -> Turn | None:
    return turns.get(getattr(step.action, "barrier", None) or "")


def _steps(role: str, step: Step, turns: Mapping[str, Turn]) -> Iterator[Step]:
    """What a step of a loop becomes: who takes a turn waits for it before it meets the others."""
    turn, action = _at(step, turns), step.action
    if turn is None:
        yield step
    elif role == turn.giver and isinstance(action, Arrive) and step.guard == turn.guard:
        yield replace(step, guard=EVERY, action=replace(action, barrier=turn.pace))
    elif role in turn.takers and step.guard == turn.guard:
        if role == turn.owner and isinstance(action, Arrive):
            yield replace(step, guard=EVERY, action=Wait(turn.pace, action.number))
        yield replace(step, guard=EVERY)
