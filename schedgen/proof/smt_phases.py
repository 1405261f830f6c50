"""Phases as questions: can a wait confuse two phases, or a phase end before anyone has seen it?

For number n of a barrier with D slots:

* no wait for n begins before phase n - D is complete, or it takes that one for the one before;
* each arrival of n + D comes after some wait for n (the consumption rule);
* each wait for n is over before phase n + D is complete, or it hangs.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from schedgen.findings import Claim
from schedgen.program.model import Barrier, Program, Run
from schedgen.proof.smt_barriers import Occurrence, Use, instances, offset, producers, waits
from schedgen.proof.smt_question import Question, describe
from schedgen.proof.smt_window import Term, Window


def distances(program: Program) -> set[tuple[bool, int]]:
    """(per tile or not, turns) from the first to the last event that a question is about."""
    found: set[tuple[bool, int]] = set()
    for barrier in program.barriers:
        makers, waiting = producers(program, barrier.name), waits(program, barrier.name)
        groups = [(wait, [maker], -barrier.slots) for wait in waiting for maker in makers]
        groups += [(wait, makers, barrier.slots) for wait in waiting]
        groups += [(maker, waiting, -barrier.slots) for maker in makers]
        for use, others, moved in groups:
            turns = [0, *(turn for _, turn in _apart(use, others, moved))]
            found.add((use.number.per_tile, max(turns) - min(turns)))
    return found


def uncomparable(program: Program) -> Iterator[str]:
    """Barriers whose numbers this method cannot compare."""
    for barrier in program.barriers:
        uses = [*producers(program, barrier.name), *waits(program, barrier.name)]
        if len({(use.number.per_tile, use.number.scale) for use in uses}) > 1:
            yield barrier.name


def _apart(use: Use, others: list[Use], moved: int) -> list[tuple[Use, int]]:
    """How many turns later others have the number of ``use``, ``moved`` on, if they ever have."""
    turns = [(other, offset(use.number.moved(moved), other.number)) for other in others]
    return [(other, turn) for other, turn in turns if turn is not None]


class Phases:
    """The questions about phases in one window."""

    def __init__(self, window: Window) -> None:
        self.window, self.program = window, window.program
        self._known: dict[Use, list[Occurrence]] = {}

    def questions(self) -> Iterator[Question]:
        for barrier in self.program.barriers:
            makers = producers(self.program, barrier.name)
            waiting = waits(self.program, barrier.name)
            for wait in waiting:
                for maker in makers:
                    yield from self._early(barrier, wait, maker)
                yield from self._late(barrier, wait, makers)
            for maker in makers:
                if waiting and not self._copies(maker):
                    yield from self._unseen(barrier, waiting, maker)

    def _copies(self, use: Use) -> bool:
        return isinstance(use.step_of.action, Run)

    def _occurrences(self, use: Use, turn: int) -> list[Occurrence]:
        if use not in self._known:
            self._known[use] = instances(self.window, use)
        return [found for found in self._known[use] if found.turn == turn]

    def _placed(self, use: Use, others: list[tuple[Use, int]]) -> list[list[Occurrence]]:
        """The events of ``use`` in one turn, and for each other use those so many turns later.

        The earliest turn is the anchor; if turns are tiles, the latest is the last of the window.
        """
        per_tile, window = use.number.per_tile, self.window
        if per_tile != bool(window.jump):
            return []
        turns = [0, *(apart for _, apart in others)]
        width = max(turns) - min(turns)
        if per_tile and width not in (0, window.jump):
            return []
        base = (0 if per_tile else window.anchor) - min(turns)
        uses = [use, *(other for other, _ in others)]
        return [self._occurrences(u, base + t) for u, t in zip(uses, turns, strict=True)]

    def _early(self, barrier: Barrier, wait: Use, maker: Use) -> Iterator[Question]:
        window = self.window
        text = (
            f"a wait for '{barrier.name}' can begin before the phase {barrier.slots} earlier is "
            f"complete, and takes that one for its own"
        )
        ones, *rest = self._placed(wait, _apart(wait, [maker], -barrier.slots)) or [[]]
        for one, other in product(ones, *rest) if rest else ():
            poll = window.time(one.event._replace(kind="poll"))
            formula = window.all([*one.when, *other.when, poll < window.time(other.event)])
            subject, events = self._subject(barrier, wait), (other.event, one.event)
            yield Question(Claim.PHASE, text, subject, formula, events, ("early",))

    def _late(self, barrier: Barrier, wait: Use, makers: list[Use]) -> Iterator[Question]:
        """Some of the next phase must come after the wait."""
        window = self.window
        text = (
            f"the phase of '{barrier.name}' after the one that is waited for can be complete "
            f"before the wait is over"
        )
        ones, *rest = self._placed(wait, _apart(wait, makers, barrier.slots)) or [[]]
        others = [other for group in rest for other in group]
        for one in ones if others else ():
            time = window.time(one.event)
            some = window.any(window.all(other.when) for other in others)
            done = [window.implied(o.when, window.time(o.event) < time) for o in others]
            formula = window.all([*one.when, some, *done])
            events = (*(other.event for other in others), one.event)
            subject = self._subject(barrier, wait)
            yield Question(Claim.PHASE, text, subject, formula, events, ("late",))

    def _unseen(self, barrier: Barrier, waiting: list[Use], maker: Use) -> Iterator[Question]:
        """Some wait for the phase before must come before each arrival."""
        window = self.window
        text = (
            f"an arrival of the next phase of '{barrier.name}' can happen before any wait has seen "
            f"the phase before"
        )
        others, *rest = self._placed(maker, _apart(maker, waiting, -barrier.slots)) or [[]]
        ones = [one for group in rest for one in group]
        for other in others:
            time = window.time(other.event)
            later: list[Term] = [
                window.implied(one.when, time < window.time(one.event)) for one in ones
            ]
            formula = window.all([*other.when, *later])
            events = (other.event, *(one.event for one in ones))
            subject = self._subject(barrier, maker)
            yield Question(Claim.PHASE, text, subject, formula, events, ("unseen",))

    def _subject(self, barrier: Barrier, use: Use) -> tuple[str, ...]:
        return barrier.name, describe(self.program, use.role.name, use.step)
