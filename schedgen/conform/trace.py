"""The instructions of a skeleton in the order in which they come, for one case of trip counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schedgen.conform.cases import Case, Turn
from schedgen.conform.closed import Closed
from schedgen.conform.evaluate import Environment, Linear
from schedgen.conform.minima import Implied
from schedgen.conform.parts import Stops, View
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
    of the tile in this block. ``parts``: the loops of a tile, in order, with where each ends.
    """

    count: Term | None
    earlier: tuple[Term, ...]
    tile: tuple[Term, ...]
    parts: tuple[tuple[Loop, Term], ...] = ()


class Trace:
    """Lays out what a role does in one tile."""

    def __init__(
        self, terms: Terms, closed: Closed, numbers: Numbers, given: dict[Term, Value]
    ) -> None:
        self.terms, self.closed, self.numbers = terms, closed, numbers
        self.given = given
        self._stops: Stops = ()

    def environment(
        self, case: Case | None, view: View | None = None, part: int = 0
    ) -> Environment:
        """Values in a turn of the loop number ``part``, or outside of loops."""
        values, forms = dict(self.given), dict[Term, Linear]()
        if case is not None:
            values.update(dict.fromkeys(self.numbers.earlier, case.earlier))
            values.update(dict.fromkeys(self.numbers.tile, case.tile))
            self._count(case, view or View(case, self._stops, None), part, values, forms)
        return Environment(values, forms, self.closed.value, self.closed.form)

    def _count(
        self, case: Case, view: View, part: int, values: dict[Term, Value],
        forms: dict[Term, Linear],
    ) -> None:  # fmt: skip
        """The trip count, where loops end, and turns of those that have begun."""
        count = self.numbers.count
        if count is None:
            return
        implied = Implied(forms)
        value = case.count()[0] if view.turn is None else case.counts(view.turn)[0]
        form, turn, ends = view.forms()
        if value is not None:
            values[count] = value
        implied.add(count, form)
        for number, end in enumerate(ends):
            term, found = self.numbers.parts[number][1], view.known(view.end(number))
            implied.add(term, end)
            if found is not None:
                values[term] = found
        if turn is None or view.turn is None:
            return
        begins = [Linear(case.shifts), *ends]
        for number, (loop, _) in enumerate(self.numbers.parts[: part + 1]):
            if number < part and view.begin(number) == view.end(number):
                continue  # it has no turns
            now = view.turn if number == part else view.end(number).earlier(1)
            at = turn if number == part else ends[number].plus(Linear(-1))
            found = view.known(now) if number < part else case.number(now)[0]
            if found is not None:
                values[self.closed.turn_of(loop)] = found
            for first, (other, _) in enumerate(self.numbers.parts[: number + 1]):
                term = self.closed.turns_since(other, loop)
                found = view.apart(now, view.begin(first))
                if found is not None:
                    values[term] = found
                forms[term] = at.plus(begins[first], -1)

    def events(self, items: Items, case: Case | None, stops: Stops = ()) -> list[Event]:
        """All events of ``items``; ``stops`` says which loop has which turns."""
        self._stops = stops
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
        parts = (n for n, (one, _) in enumerate(self.numbers.parts) if one is loop)
        part = next(parts, None)
        if part is None:
            raise Refusal("a loop within the one over iterations", loop.instruction)
        steady = case.steady()
        begin = self._stops[part - 1] if part else 0
        end = self._stops[part] if part < len(self._stops) else len(steady)
        for at in range(begin, end + 1):
            view = View(case, self._stops, at, behind=at == end)
            self._env, self._turn = self.environment(case, view, part), view.turn
            for item in loop.body:
                if not isinstance(item, Exit):
                    yield from self._events((item,), case, False, ())
                elif self._leaves(item, case, view, last=at + 1 >= end):
                    self._turn = None
                    return
        raise Refusal(f"the loop goes on after its last turn ({case.text})", loop.instruction)

    def _leaves(self, item: Exit, case: Case, view: View, *, last: bool) -> bool:
        found = self._env.decide(item.condition)
        turn = view.turn
        assert turn is not None
        if found is None:
            raise Refusal(
                f"whether the loop ends after {turn.text} ({case.text}) is not known",
                item.instruction,
            )
        if found and not last:
            raise Refusal(f"the loop ends early: {turn.text}, {case.text}", item.instruction)
        return found
