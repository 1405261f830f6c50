"""One list of steps for all trip counts: what a role does in a tile, rolled up.

Two traces, of n and n + 1 iterations, differ by one turn of the loop. Where the longer one repeats
with that period is the loop; in front of it and behind it are turns in which the software pipeline
fills and drains, and what comes once per tile. Nothing relies on how the compiler wrote
loops: whether they are unrolled, peeled or rotated is gone in a trace. That the steps are right for
every trip count is checked afterwards, trip count by trip count (`agrees`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from schedgen.program.model import EVERY, FIRST, LAST, Guard

Shape = tuple[object, ...]
"""What an item is, but for its numbers."""


@dataclass(frozen=True, slots=True)
class Counted:
    """How the numbers of a ring grow: ``scale`` for each iteration, or for each tile."""

    scale: int
    per_tile: bool


@dataclass(frozen=True, slots=True)
class Accessed:
    """In a shape: a ring of cells, and whether it is written."""

    ring: tuple[str, int]
    write: bool


@dataclass(frozen=True, slots=True)
class Sign:
    """An item within its tile: ``numbers`` less what earlier tiles have had."""

    shape: Shape
    rings: tuple[Counted, ...]
    numbers: tuple[int, ...]

    def after(self, turns: int) -> Sign:
        """The same so many iterations later."""
        moved = (
            number if ring.per_tile else number + turns * ring.scale
            for ring, number in zip(self.rings, self.numbers, strict=True)
        )
        return replace(self, numbers=tuple(moved))

    @property
    def moves(self) -> bool:
        """Whether it is another one in each iteration."""
        return any(not ring.per_tile for ring in self.rings)


@dataclass(frozen=True, slots=True)
class Rolled:
    """A step: ``sign`` is that of iteration 0 in a loop, of the tile outside of it. ``place``: of
    an item in the trace that it was made of."""

    sign: Sign
    place: int
    shift: int = 0
    guard: Guard = EVERY


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of a role."""

    before: tuple[Rolled, ...] = ()
    loop: tuple[Rolled, ...] = ()
    after: tuple[Rolled, ...] = ()

    @property
    def shifts(self) -> int:
        return max((step.shift for step in self.loop), default=0)

    def signs(self, trips: int) -> Iterator[Sign]:
        """What the role does in a tile: `schedgen.program.sequence` has the same order."""
        yield from (step.sign for step in self.before)
        for turn in range(max(trips, 1) + self.shifts):
            for step in self.loop:
                iteration = turn - step.shift
                if step.guard.holds(iteration, trips):
                    yield step.sign.after(iteration)
        yield from (step.sign for step in self.after)


def agrees(steps: Steps, found: Sequence[Sign], trips: int) -> int | None:
    """Where what a role did in a tile differs from its steps; None if it does not."""
    wanted = list(steps.signs(trips))
    for at, (one, other) in enumerate(zip(wanted, found, strict=False)):
        if one != other:
            return at
    return None if len(wanted) == len(found) else min(len(wanted), len(found))


def rolled(fewer: Sequence[Sign], more: Sequence[Sign], trips: int) -> Steps | None:
    """The steps of a tile that does ``more`` in ``trips`` iterations, and ``fewer`` in one less.

    None if there are none of this form.
    """
    period = len(more) - len(fewer)
    if period < 0:
        return None
    if not period:
        return _straight(more)
    best: tuple[int, Steps] | None = None
    first, last = _repeated(more, period)
    if last - first < 2 * period:
        return None
    for begin in range(first, first + period):
        for steps in _rolled_at(more, period, begin, last, trips):
            if agrees(steps, more, trips) is None and agrees(steps, fewer, trips - 1) is None:
                cost = len(steps.before) + len(steps.after) + len(steps.loop)
                if best is None or cost < best[0]:
                    best = cost, steps
                break
    return None if best is None else best[1]


def in_front(steps: Mapping[str, Steps]) -> dict[str, Steps]:
    """Of roles without a loop, what fills memory that loops of others use comes before the loop."""
    used = {ring for one in steps.values() for step in one.loop for ring, _ in _memory(step.sign)}
    found: dict[str, Steps] = {}
    for name, one in steps.items():
        filling = [at for at, step in enumerate(one.after) if _fills(step.sign, used)]
        found[name] = one
        if not one.before and not one.loop and filling:
            end = filling[-1] + 1
            found[name] = Steps(before=one.after[:end], after=one.after[end:])
    return found


def _memory(sign: Sign) -> list[tuple[object, bool]]:
    """Rings of cells that an item accesses, and whether it writes there."""
    return [(part.ring, part.write) for part in sign.shape if isinstance(part, Accessed)]


def _fills(sign: Sign, used: set[object]) -> bool:
    return sign.shape[0] == "copy" and any(ring in used and w for ring, w in _memory(sign))


def _straight(signs: Sequence[Sign]) -> Steps | None:
    if any(sign.moves for sign in signs):
        return None
    return Steps(after=tuple(Rolled(sign, at) for at, sign in enumerate(signs)))


def _repeated(signs: Sequence[Sign], period: int) -> tuple[int, int]:
    """The longest part in which each item is that of a period before, one iteration later."""
    best = 0, 0
    start: int | None = None
    for at in range(period, len(signs) + 1):
        holds = at < len(signs) and signs[at] == signs[at - period].after(1)
        if holds and start is None:
            start = at - period
        if not holds and start is not None:
            if at - start > best[1] - best[0]:
                best = start, at
            start = None
    return best


def _rolled_at(
    signs: Sequence[Sign], period: int, begin: int, last: int, trips: int
) -> Iterator[Steps]:
    """Steps whose loop's body begins at ``begin``."""
    body = signs[begin : begin + period]
    turns = (last - begin) // period
    first = _iterations(signs)
    known = [_iteration(sign, first) for sign in body]
    there = set(signs)
    fewer = [
        _missing(sign.after(-done), there, trips) if done is not None else None
        for sign, done in zip(body, known, strict=True)
    ]
    highs = sorted({missing for missing in fewer if missing is not None}) or [0]
    peeled = trips - turns - highs[0]
    if peeled < 0:
        return
    for most in range(max(0, peeled), peeled + 8):
        choices: list[Sequence[tuple[int, int]]] = []
        for iteration, missing in zip(known, fewer, strict=True):
            if iteration is None or missing is None:
                choices.append(tuple(product(range(most + 1), highs)))
            else:
                choices.append([(iteration, missing)] if 0 <= iteration <= most else [])
        total = 1
        for choice in choices:
            total *= len(choice)
        if not 0 < total <= 4096:
            continue
        for chosen in product(*choices):
            if max(done for done, _ in chosen) == most:
                steps = _with(signs, body, chosen, begin, period, trips)
                if steps is not None:
                    yield steps


def _iterations(signs: Sequence[Sign]) -> dict[tuple[object, ...], int]:
    """Of each kind of item that moves with iterations: the number of the first one in a tile."""
    found: dict[tuple[object, ...], int] = {}
    for sign in signs:
        for ring, number in _moving(sign):
            key = sign.shape, number % ring.scale
            found[key] = min(number, found.get(key, number))
    return found


def _moving(sign: Sign) -> list[tuple[Counted, int]]:
    """The first number that is another one in each iteration."""
    pairs = zip(sign.rings, sign.numbers, strict=True)
    return [(ring, number) for ring, number in pairs if not ring.per_tile and ring.scale][:1]


def _iteration(sign: Sign, first: Mapping[tuple[object, ...], int]) -> int | None:
    """Which iteration an item is of, as the first of its kind is of iteration 0."""
    for ring, number in _moving(sign):
        return (number - first[sign.shape, number % ring.scale]) // ring.scale
    return None


def _missing(sign: Sign, there: Collection[Sign], trips: int) -> int:
    """How many of the last iterations do not have a step; ``sign`` is that of iteration 0."""
    return sum(sign.after(iteration) not in there for iteration in range(trips))


def _with(
    signs: Sequence[Sign],
    body: Sequence[Sign],
    chosen: Sequence[tuple[int, int]],
    begin: int,
    period: int,
    trips: int,
) -> Steps | None:
    """``chosen``: how many instances of each step there are before the first turn of the loop, and
    how many of the last iterations go without it."""
    most = max(done for done, _ in chosen)
    loop = [
        Rolled(sign.after(-done), begin + at, most - done, Guard(high=high))
        for at, (sign, (done, high)) in enumerate(zip(body, chosen, strict=True))
    ]
    head = _head(signs, loop, begin, most)
    least = min(high for _, high in chosen)
    turns = trips - most - least
    end = begin + turns * period
    if head is None or turns < 0 or end > len(signs):
        return None
    before, firsts = head
    tail = _tail(signs, loop, end, trips, least)
    if tail is None:
        return None
    lasts, after = tail
    merged: list[Rolled] = []
    for at in range(len(loop) + 1):
        merged += firsts.get(at, []) + lasts.get(at, [])
        merged += loop[at : at + 1]
    return Steps(tuple(before), tuple(merged), tuple(after))


Between = dict[int, list[Rolled]]
"""Steps that stand before the step of that number in the body."""


def _head(
    signs: Sequence[Sign], loop: Sequence[Rolled], begin: int, most: int
) -> tuple[list[Rolled], Between] | None:
    """What comes before the first whole turn: steps of the first turns, others among them that run
    once, and what comes before the loop."""
    wanted = [
        (turn, at, step)
        for turn in range(most)
        for at, step in enumerate(loop)
        if turn - step.shift >= 0
    ]
    found: Between = {}
    place = begin - 1
    follows = 0, most
    for turn, at, step in reversed(wanted):
        while place >= 0 and signs[place] != step.sign.after(turn - step.shift):
            found.setdefault(follows[0], []).insert(0, _once(signs, place, follows[1]))
            place -= 1
        if place < 0:
            return None
        follows, place = (at, turn), place - 1
    moving = next((at for at in range(place + 1) if signs[at].moves), place + 1)
    found[0] = [_once(signs, at, 0) for at in range(moving, place + 1)] + found.get(0, [])
    return [Rolled(signs[at], at) for at in range(moving)], found


def _once(signs: Sequence[Sign], place: int, shift: int) -> Rolled:
    return Rolled(signs[place], place, shift, _at_end(signs[place], FIRST))


def _at_end(sign: Sign, guard: Guard) -> Guard:
    """``guard``, but for what has the number of an iteration: a tile of none goes without it."""
    return replace(guard, low=1) if sign.moves else guard


def _tail(
    signs: Sequence[Sign], loop: Sequence[Rolled], end: int, trips: int, least: int
) -> tuple[Between, list[Rolled]] | None:
    """What comes behind the last whole turn; all steps leave out the ``least`` last iterations."""
    shifts = max(step.shift for step in loop)
    wanted = [
        (turn, at, step)
        for turn in range(trips - least, trips + shifts)
        for at, step in enumerate(loop)
        if turn - step.shift < trips - step.guard.high
    ]

    def once(place: int, turn: int) -> Rolled:
        guard = _at_end(signs[place], LAST)
        return Rolled(signs[place].after(1 - trips), place, turn - trips + 1, guard)

    found: Between = {}
    place = end
    for turn, at, step in wanted:
        sign = step.sign.after(turn - step.shift)
        while place < len(signs) and signs[place] != sign:
            found.setdefault(at, []).append(once(place, turn))
            place += 1
        if place == len(signs):
            return None
        place += 1
    rest = range(place, len(signs))
    moving = max((at + 1 for at in rest if signs[at].moves), default=place)
    last = [once(at, trips + shifts - 1) for at in range(place, moving)]
    found[len(loop)] = found.get(len(loop), []) + last
    return found, [Rolled(signs[at], at) for at in range(moving, len(signs))]
