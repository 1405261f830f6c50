"""What a block with one tile leaves open when it ends.

A program works on any number of tiles, and each of them completes as many phases of a barrier as
its trip count says. A kernel that ends behind its only tile may stop in the middle of a phase: the
last stage is not released, as nobody fills it again. In the program it is: the step that releases
does so in the last iterations, too. Nobody waits for these phases, or the kernel would not come to
its end, so that nothing in the tile is another; and all roles meet before the next one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from schedgen.conform.refusal import Refusal
from schedgen.lift.items import Word
from schedgen.lift.numbering import Numbering, RingKey, ring_text
from schedgen.lift.rolling import Counted, Rolled, Steps
from schedgen.lift.simulate import Simulation, State
from schedgen.program.model import EVERY, When

MOST = 8
"""Phases of one ring that may be left open."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Of a tile: so many phases ``behind`` the last one of its ring, which is 0."""

    ring: RingKey
    behind: int


Open = Mapping[Phase, int]
"""Phases that a tile leaves open, with the arrivals that are missing."""


def left_open(
    numbering: Numbering, counts: Mapping[Word, int], simulation: Simulation, trips: int
) -> Open:
    """The phases of all barriers that a block with one tile of ``trips`` iterations leaves open.

    ``counts``: what barriers take; with few iterations nobody may meet at some of them.

    Raises:
        Refusal: more than some arrivals are missing.
    """
    words: dict[RingKey, dict[int, Word]] = defaultdict(dict)
    for word, place in numbering.words.items():
        if word[0] != "copies":
            words[numbering.ring_of(word)][place.slot] = word
    return {
        phase: missing
        for ring, slots in words.items()
        for slot, word in slots.items()
        for phase, missing in _of_word(
            (ring, slot, len(slots)),
            numbering.counted[ring],
            simulation.states.get(word),
            trips,
            counts[word],
        )
    }


def _of_word(
    place: tuple[RingKey, int, int], counted: Counted, state: State | None, trips: int, count: int
) -> Iterator[tuple[Phase, int]]:
    """``place``: its ring, its slot, and how many slots there are; a phase takes ``count``."""
    ring, slot, slots = place
    total = counted.scale * (1 if counted.per_tile else trips)
    complete = state.phase if state is not None else 0
    for number in range(slot, total, slots):
        phase = number // slots
        if phase < complete:
            continue
        arrived = state.count - state.left if state is not None and phase == complete else 0
        if (state is not None and state.bytes) or total - number > MOST:
            raise Refusal("the end of the kernel leaves more than some arrivals open")
        yield Phase(ring, total - 1 - number), count - arrived


def completed(steps: Mapping[str, Steps], opened: Open, numbering: Numbering) -> dict[str, Steps]:
    """The same steps, but for arrivals that go on until the last iteration.

    Raises:
        Refusal: they do not complete just the phases that are left open.
    """
    given: Counter[Phase] = Counter()
    found: dict[str, Steps] = {}
    for role, one in steps.items():
        loop: list[Rolled] = []
        for step in one.loop:
            adds = dict(_added(step))
            completes = bool(adds) and all(phase in opened for phase in adds)
            given.update(adds if completes else {})
            loop.append(replace(step, guard=EVERY) if completes else step)
        found[role] = replace(one, loop=tuple(loop))
    for phase, missing in opened.items():
        if given[phase] != missing:
            text = ring_text(phase.ring, numbering)
            raise Refusal(f"the end of the kernel leaves a phase of {text} open")
    return found


def _added(step: Rolled) -> Iterator[tuple[Phase, int]]:
    """Phases, with arrivals, that a step would have in iterations that it is left out of."""
    kind, *rest = step.sign.shape
    if kind != "arrive" or step.guard.kind is not When.EVERY or not step.sign.moves:
        return
    ring, count, size = rest
    assert isinstance(count, int)
    if size:
        return
    (counted,), (offset,) = step.sign.rings, step.sign.numbers
    for left in range(step.guard.high):
        yield Phase(ring, counted.scale * (1 + left) - 1 - offset), count  # type: ignore[arg-type]
