"""The instructions of a skeleton in the order in which they come, for one case of trip counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schedgen.conform.cases import END, Case, Turn
from schedgen.conform.closed import Closed
from schedgen.conform.evaluate import Environment, Linear
from schedgen.conform.minima import no_less
from schedgen.conform.refusal import Refusal
from schedgen.conform.skeleton import Action, Branch, Exit, Items, Loop
from schedgen.conform.terms import Term, Terms
from schedgen.conform.values import Value


@dataclass(frozen=True, slots=True)
class Event:
    """An action where its operands have values; ``elected``: by one lane of each warp.

    ``conditions``: what else has to hold, with whether it or its opposite.
    """

    action: Action
    env: Environment
    elected: bool
    conditions: tuple[tuple[Term, bool], ...]
    turn: Turn | None


@dataclass(frozen=True, slots=True)
class Numbers:
    """Terms of a role that stand for numbers of the program.

    ``count``: iterations of the tile; ``earlier``: iterations of the tiles before; ``tile``: number
    of the tile in this block.
    """

    count: Term | None
    earlier: tuple[Term, ...]
    tile: tuple[Term, ...]


class Trace:
    """Lays out what a role does in one tile."""

    def __init__(
        self, terms: Terms, closed: Closed, numbers: Numbers, given: dict[Term, Value]
    ) -> None:
        self.terms, self.closed, self.numbers = terms, closed, numbers
        self.given = given

    def environment(
        self, case: Case | None, loop: Loop | None = None, turn: Turn | None = None
    ) -> Environment:
        """Values in one turn of a loop, or outside of it."""
        values, forms = dict(self.given), dict[Term, Linear]()
        if case is not None:
            values.update(dict.fromkeys(self.numbers.earlier, case.earlier))
            values.update(dict.fromkeys(self.numbers.tile, case.tile))
            self._count(case, turn, values, forms)
            if loop is not None and turn is not None:
                values[loop.number], forms[loop.number] = case.number(turn.earlier(case.shifts))
        return Environment(values, forms, self.closed.value, self.closed.form)

    def _count(
        self, case: Case, turn: Turn | None, values: dict[Term, Value], forms: dict[Term, Linear]
    ) -> None:
        count = self.numbers.count
        if count is None:
            return
        value, form = case.count() if turn is None else case.counts(turn)
        if value is not None:
            values[count] = value
        forms[count] = form
        for number, part in enumerate(no_less(count)):
            forms[part] = form.plus(Linear(0, ((f"more {number}", 1),)))

    def events(self, items: Items, case: Case | None) -> list[Event]:
        """All events of ``items``."""
        self._env, self._turn = self.environment(case), None
        return list(self._events(items, case, False, ()))

    def _events(
        self,
        items: Items,
        case: Case | None,
        elected: bool,
        conditions: tuple[tuple[Term, bool], ...],
    ) -> Iterator[Event]:
        for item in items:
            match item:
                case Action():
                    yield Event(item, self._env, elected, conditions, self._turn)
                case Branch():
                    yield from self._branch(item, case, elected, conditions)
                case Loop():
                    if case is None or elected or conditions:
                        raise Refusal("a loop under a condition", item.instruction)
                    yield from self._loop(item, case)
                case Exit():
                    raise Refusal("a loop is left under a condition", item.instruction)

    def _branch(
        self, item: Branch, case: Case | None, elected: bool,
        conditions: tuple[tuple[Term, bool], ...],
    ) -> Iterator[Event]:  # fmt: skip
        holds = self._env.decide(item.condition)
        if holds is not None:
            yield from self._events(item.yes if holds else item.no, case, elected, conditions)
            return
        plain, sign = item.condition, True
        while plain.op == "not":
            plain, sign = plain.parts[0], not sign
        for arm, value in ((item.yes, sign), (item.no, not sign)):
            if plain.op == "elect" and value:
                yield from self._events(arm, case, True, conditions)
            elif arm:
                yield from self._events(arm, case, elected, (*conditions, (plain, value)))

    # -- the loop of a tile --------------------------------------------------------------------

    def _loop(self, loop: Loop, case: Case) -> Iterator[Event]:
        """Turn by turn, until it ends; a loop that asks first comes to that once more."""
        turns = case.steady()
        after = turns[-1].earlier(-1) if turns else Turn(case.shifts)
        for turn in (*turns, after):
            self._env, self._turn = self.environment(case, loop, turn), turn
            for item in loop.body:
                if not isinstance(item, Exit):
                    yield from self._events((item,), case, False, ())
                elif self._leaves(item, case, turn):
                    self._turn = None
                    return
        raise Refusal(f"the loop goes on after its last turn ({case.text})", loop.instruction)

    def _leaves(self, item: Exit, case: Case, turn: Turn) -> bool:
        found = self._env.decide(item.condition)
        if found is None:
            raise Refusal(
                f"whether the loop ends after {turn.text} ({case.text}) is not known",
                item.instruction,
            )
        if found and case.trips is None and turn.base != END:
            raise Refusal(f"the loop ends early: {turn.text}, {case.text}", item.instruction)
        return found
