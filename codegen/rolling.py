"""Statements of a role that repeat become loops.

Statements that follow one another k times, equal but for integers in arithmetic progression, and
for variables that are used nowhere else, become ``for i in cutlass.range_constexpr(k):``. Such a
loop is unrolled when the kernel is traced, so that nothing else changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from schedgen.codegen.families import chosen, indexed, of_lines, of_parameters
from schedgen.codegen.generalize import (
    Turns,
    generalized,
)
from schedgen.codegen.ir import Block, Comment, Name, code
from schedgen.codegen.numbers import Number, follows, progression
from schedgen.codegen.terms import AllFacts, Facts, Term, counter_of, names_in, variables

_COUNTERS = ("i", "j", "k", "n")
_SAVED, _SAVED_BY_TWO = 3, 5
"""Lines that a loop has to save, and one of two turns."""


@dataclass(frozen=True, slots=True)
class Run:
    """``turns`` times ``period`` statements, from number ``start`` on."""

    start: int
    period: int
    turns: int
    saved: int

    @property
    def end(self) -> int:
        return self.start + self.period * self.turns


def rolled(terms: Sequence[Term], parameters: Mapping[str, str]) -> tuple[Term, ...]:
    """Statements of a role with loops for those that repeat.

    ``parameters`` are its variables from outside, with their types.
    """
    tuples = of_parameters(terms, parameters)
    while True:
        given = indexed(terms, tuples)
        made = of_lines(given)
        found = _roll(indexed(given, made))
        if (fewer := chosen(found, made)) != made:
            found = _roll(indexed(given, fewer))
        if (useful := chosen(found, tuples)) == tuples:
            return found
        tuples = useful


def _roll(terms: Sequence[Term]) -> tuple[Term, ...]:
    return _Roller(terms).roll(terms, ())


class _Roller:
    """Writes the loops of one role."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.facts = AllFacts(variables(terms))
        self.uses = names_in(terms)
        self.counters = [name for name in _COUNTERS if name not in self.uses]

    def roll(self, terms: Sequence[Term], around: tuple[str, ...]) -> tuple[Term, ...]:
        """With loops here and inside; those around count with ``around``."""
        found = list(terms)
        facts = [self.facts.of(term) for term in found]
        counters = [name for name in self.counters if name not in around]
        while counters and (run := self._best(found, facts)) is not None:
            loop = self._loop(found, facts, run, counters[0])
            found[run.start : run.end] = [loop]
            facts[run.start : run.end] = [self.facts.of(loop)]
        return tuple(self._inside(term, around) for term in found)

    def _inside(self, term: Term, around: tuple[str, ...]) -> Term:
        if not isinstance(term, Block):
            return term
        body = cast("tuple[Term, ...]", term.body)
        return Block(term.head, self.roll(body, (*around, *counter_of(term))))

    def _loop(self, terms: Sequence[Term], facts: Sequence[Facts], run: Run, counter: str) -> Block:
        turns = range(run.start, run.end, run.period)
        bodies = [terms[at : at + run.period] for at in turns]
        origin = _origin(*(_atoms(facts, at, run.period) for at in turns[:2]))
        body = generalized(bodies, Turns(counter, origin, {*self.uses}))
        self.uses.subtract(names_in(terms[run.start : run.end]))
        self.uses.update(names_in(body))
        self.facts.known |= variables(body)
        span = f"{origin}, {origin + run.turns}" if origin else run.turns
        return Block(code("for {} in cutlass.range_constexpr({}):", Name(counter), span), body)

    # -- what repeats --------------------------------------------------------------------------

    def _best(self, terms: Sequence[Term], facts: Sequence[Facts]) -> Run | None:
        """The run that saves most; of those that save as much one of the shortest period, one that
        begins with a comment, the first.
        """

        def merit(run: Run) -> tuple[int, int, bool, int]:
            return run.saved, -run.period, isinstance(terms[run.start], Comment), -run.start

        return max(self._runs(terms, facts), key=merit, default=None)

    def _runs(self, terms: Sequence[Term], facts: Sequence[Facts]) -> Iterator[Run]:
        numbers = dict[object, int]()
        shapes = [numbers.setdefault(each.shape, len(numbers)) for each in facts]
        for period in range(1, len(terms) // 2 + 1):
            equal = 0  # neighbours from here on that are equal to those a period later
            for start in range(len(terms) - period - 1, -1, -1):
                equal = equal + 1 if shapes[start] == shapes[start + period] else 0
                if equal < period or _splits_comment(terms, start, period):
                    continue
                turns = self._turns(facts, start, period, equal // period + 1)
                saved = (turns - 1) * sum(f.lines for f in facts[start : start + period]) - 1
                if saved >= (_SAVED_BY_TWO if turns == 2 else _SAVED):
                    yield Run(start, period, turns, saved)

    def _turns(self, facts: Sequence[Facts], start: int, period: int, most: int) -> int:
        """How many turns from ``start`` on are a loop."""
        first = _atoms(facts, start, period)
        second = _atoms(facts, start + period, period)
        steps = [_step(one, other) for one, other in zip(first, second, strict=True)]
        turns = 1
        while turns < most and self._continues(facts, start, period, turns, steps):
            turns += 1
        end = start + period * turns
        kept = {n for f in facts[start : start + period] for n in f.assigned - f.counters}
        if any(self.uses[n] != sum(f.uses[n] for f in facts[start:end]) for n in kept):
            return 1  # something that is made in the loop is used behind it, or before
        return turns

    def _continues(
        self,
        facts: Sequence[Facts],
        start: int,
        period: int,
        turn: int,
        steps: Sequence[int | None],
    ) -> bool:
        """Whether turn number ``turn`` differs from the first one as a loop's turns do."""
        at = start + period * turn
        renamed = dict[str, str]()
        pairs = zip(_atoms(facts, start, period), _atoms(facts, at, period), steps, strict=True)
        for one, other, step in pairs:
            if isinstance(one, Name) and isinstance(other, Name):
                if renamed.setdefault(one.text, other.text) != other.text:
                    return False
            elif not (
                isinstance(one, Number)
                and isinstance(other, Number)
                and step is not None
                and follows(one, step, turn, other)
            ):
                return False
        changed = {one: other for one, other in renamed.items() if one != other}
        return (
            len({*renamed.values()}) == len(renamed)
            and self._temporary(facts[start : start + period], changed.keys())
            and self._temporary(facts[at : at + period], changed.values())
        )

    def _temporary(self, facts: Sequence[Facts], names: Iterable[str]) -> bool:
        """Whether variables are made by some statements and used by them only."""
        return all(
            any(name in each.assigned for each in facts)
            and self.uses[name] == sum(each.uses[name] for each in facts)
            for name in names
        )


def _atoms(facts: Sequence[Facts], start: int, period: int) -> list[Name | Number]:
    return [atom for each in facts[start : start + period] for atom in each.atoms]


def _step(one: Name | Number, other: Name | Number) -> int | None:
    """By how much an integer grows; None if it cannot be one of a loop.

    Running numbers and places do not go back: where they begin anew, so does a loop.
    """
    if isinstance(one, Number) and isinstance(other, Number):
        step = progression((one, other))
        return None if step is not None and step < 0 and one.summand else step
    return None


def _splits_comment(terms: Sequence[Term], start: int, period: int) -> bool:
    """Whether a comment would stand apart from what it is about."""
    before = start > 0 and isinstance(terms[start - 1], Comment)
    return before or isinstance(terms[start + period - 1], Comment)


def _origin(first: Sequence[Name | Number], second: Sequence[Name | Number]) -> int:
    """Where a loop begins to count, so that most of its integers are multiples of the counter."""
    found = Counter[int]()
    for one, other in zip(first, second, strict=True):
        step = _step(one, other)
        if isinstance(one, Number) and step and one.value.constant % step == 0:
            found[one.value.constant // step] += 1
    possible = ((often, -origin) for origin, often in found.items() if origin >= 0)
    return -max(possible, default=(0, 0))[1]
