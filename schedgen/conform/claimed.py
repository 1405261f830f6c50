"""Output tiles that a block claims (`schedgen.program.claims`), beside the instructions that do it.

A program says that a ticket is drawn, told and taken, and where the number lies in between; that
the atomic counts to the number of tiles, that what is written is its result behind the blocks, and
that what is read is the tile that a role goes on with, is said here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from schedgen.conform.refusal import Refusal
from schedgen.conform.skeleton import Exit, Loop
from schedgen.conform.terms import Term, Terms, addends
from schedgen.conform.trace import Event
from schedgen.emulator.ptx.tree import Instruction

ATOMIC = "atom.relaxed.gpu.global.inc.u32"
"""How a ticket is drawn."""
DRAWN, READ = "drawn", "read"
"""Terms with what an atomic returned, and what was read from shared memory; both with the number of
the instruction, so that no two of them are taken to be equal."""
WORD = "ld.shared.b32"
"""How a number is read."""


def told(term: Term) -> int | None:
    """The instruction that read a number, if a term is that for all threads."""
    if term.op == "shfl" and term.args[1] == 0 and term.parts[0].op == READ:
        number = term.parts[0].args[0]
        assert isinstance(number, int)
        return number
    return None


def next_tile(end: Exit) -> Term:
    """The tile that a loop over tiles goes on with, if there is one. Raises Refusal."""
    found = [term for part in _conditions(end.condition) for term, _ in addends(part)[1]]
    read = [term for term in found if told(term) is not None]
    if len(read) != 1:
        raise Refusal(
            "the loop over tiles does not end with a number that is told", end.instruction
        )
    return read[0]


def _conditions(condition: Term) -> tuple[Term, ...]:
    """What a comparison, or its opposite, compares with 0."""
    while condition.op == "not":
        (condition,) = condition.parts
    return condition.parts


def check_taken(tiles: Loop, lines: set[int], body: Sequence[Instruction]) -> None:
    """A role goes on with the tile that it has read as the program says: in one of ``lines``.

    Raises Refusal.
    """
    (end,) = (item for item in tiles.body if isinstance(item, Exit))
    number = told(next_tile(end))
    if number is None or body[number].line not in lines:
        raise Refusal("it does not go on with the tile that it takes", tiles.instruction)


def check_drawn(event: Event, tiles: Term | None, terms: Terms) -> None:
    """One thread of a warp counts up to all tiles. Raises Refusal."""
    one = event.action.instruction
    if not _by_first_lane(event):
        raise Refusal("not the first thread of a warp draws a ticket", one)
    address, last = event.action.address, event.action.values[-1]
    if address is None or address.op != "loaded?" or address.parts[0].op != "sym":
        raise Refusal("the counter is not an argument of the kernel", one)
    if tiles is None or last is not terms.sum(((tiles, 1),), -1):
        raise Refusal("tickets do not begin anew behind the last tile", one)


def check_told(event: Event, terms: Terms) -> None:
    """The thread that drew a ticket writes the tile that it stands for. Raises Refusal."""
    one = event.action.instruction
    if not _by_first_lane(event) or len(event.action.values) != 1:
        raise Refusal("not the first thread of a warp tells a tile", one)
    blocks = terms.symbol("%nctaid.x")
    constant, pairs = addends(event.action.values[0])
    left = [(term, factor) for term, factor in pairs if term is not blocks]
    if constant or dict(pairs).get(blocks) != 1 or len(left) != 1 or left[0][1] != 1:
        raise Refusal("the tile that is told is not a ticket behind all blocks", one)
    if not _drawn(left[0][0], event):
        raise Refusal("the tile that is told is not the ticket that was drawn", one)


def _drawn(term: Term, event: Event) -> bool:
    """Whether a value is that of the atomic, for the thread that writes it."""
    if term.op == "select":
        condition, yes, no = term.parts
        holds = True
        while condition.op == "not":
            (condition,), holds = condition.parts, not holds
        if (condition, holds) in event.conditions:
            return yes.op == DRAWN
        return (condition, not holds) in event.conditions and no.op == DRAWN
    return term.op == DRAWN


def _by_first_lane(event: Event) -> bool:
    """Whether exactly the first thread of each warp comes there."""
    mine = np.ones((1, 1, 1, 1), bool)
    for condition, holds in event.conditions:
        value = event.env.value(condition)
        if value is None or not value.plain:
            return False
        mine = mine & ((value.array != 0) == holds)
    lanes = np.arange(mine.size) % 32
    return mine.size >= 32 and bool((mine.reshape(-1) == (lanes == 0)).all())
