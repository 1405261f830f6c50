"""What a warp does for given trip counts: its skeleton, executed with numbers.

Each output tile has a trip count. A loop that data ends, which nobody knows here, is the loop over
output tiles: it turns once for each. What depends on data otherwise must not decide what
synchronizes; where it decides whether threads access memory, they are taken to do so.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from schedgen.conform.refusal import Refusal
from schedgen.conform.registers import SHARED
from schedgen.conform.skeleton import Action, Branch, Exit, Items, Loop
from schedgen.conform.terms import Term, Terms, below
from schedgen.emulator.ptx.tree import Instruction
from schedgen.lift.evaluate import SHARED_START, Lanes, Seen, Worth, Worths, is_leaf_of_block
from schedgen.lift.operands import Span, spans_of
from schedgen.lift.walking import PEEK

_MOST_TURNS = 4096
_BARRIER = ("init", "wait", "arrive", "expect", PEEK)
_ACCESSES = ("read", "write")


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """An instruction as it is executed by ``lanes`` threads of a warp.

    Attributes:
        word: byte of its mbarrier in shared memory.
        value: parity, arrivals or bytes of an mbarrier's; groups that a wait leaves; else the first
            plain operand.
        starts: bytes of shared memory that bulk copies begin at.
        spans: bytes that products read.
        touched: bytes that each lane's access begins at.
        maybe: data decides whether it happens.
    """

    kind: str
    instruction: Instruction
    lanes: int
    word: int | None = None
    value: int | None = None
    starts: tuple[int, ...] = ()
    spans: tuple[Span, ...] = ()
    touched: Lanes | None = None
    maybe: bool = False


@dataclass
class Trace:
    """What a warp does before its tiles, for each of them, and behind the last one.

    Attributes:
        tiled: whether there is a loop over tiles; else all that it does is in ``before``.
        asked: conditions, the same for all threads of a block, under which there is work.
    """

    before: list[Event] = field(default_factory=list[Event])
    tiles: list[list[Event]] = field(default_factory=list[list[Event]])
    after: list[Event] = field(default_factory=list[Event])
    tiled: bool = False
    asked: list[Term] = field(default_factory=list[Term])


class _Left(Exception):
    """A loop is left."""


class Execution:
    """One warp. ``trip``: terms that are the trip count together; the first is given all of it.
    ``given``: other terms that are numbers.
    """

    def __init__(
        self,
        terms: Terms,
        warp: int,
        trip: Sequence[Term],
        trips: Sequence[int],
        outside: Collection[Term],
        assumed: dict[Term, int],
        given: Mapping[Term, int],
    ) -> None:
        thread, shared = terms.symbol("%tid.x"), terms.symbol(SHARED)
        self.worths = Worths(thread, 32 * warp, shared, outside)
        self.worths.assumed = assumed
        self.trip, self.trips = trip, trips
        self.worths.set(dict(given))
        self.found = Trace()
        self._into = self.found.before
        self._mask: Lanes = np.ones(32, np.int64)
        self._maybe = False
        self._inside = 0

    def run(self, items: Items) -> Trace:
        """All that the warp does.

        Raises:
            Refusal: data decides what synchronizes, or nobody knows where an access is.
        """
        self._tile(0)
        self._items(items)
        return self.found

    def _tile(self, number: int) -> None:
        if self.trip:
            values: dict[Term, Worth] = dict.fromkeys(self.trip, 0)
            values[self.trip[0]] = self.trips[number]
            self.worths.set(values)

    # -- control flow --------------------------------------------------------------------------

    def _items(self, items: Items) -> None:
        for item in items:
            match item:
                case Action():
                    self._action(item)
                case Branch():
                    self._branch(item)
                case Loop():
                    self._loop(item)
                case Exit():
                    self._exit(item)

    def _exit(self, item: Exit) -> None:
        holds = self._uniform(self.worths.of(item.condition))
        if holds is None:
            raise Refusal("data decides how often a loop turns", item.instruction)
        if holds:
            raise _Left

    @staticmethod
    def _uniform(value: Worth) -> bool | None:
        if isinstance(value, int):
            return bool(value)
        if value is None or isinstance(value, Seen):
            return None
        truth = value != 0
        return bool(truth[0]) if bool((truth == truth[0]).all()) else None

    def _branch(self, item: Branch) -> None:
        value = self.worths.of(item.condition)
        holds = self._uniform(value)
        if holds is not None:
            self._items(item.yes if holds else item.no)
        elif isinstance(value, Seen):
            self._peeked(item, value)
        elif value is None:
            self._unknown(item)
        elif not isinstance(value, int):
            self._divided(item, value)

    def _divided(self, item: Branch, value: Lanes) -> None:
        """Lanes go apart, and meet behind it."""
        mask = self._mask
        for arm, truth in ((item.yes, value != 0), (item.no, value == 0)):
            self._mask = mask * truth.astype(np.int64)
            if arm and self._mask.any():
                if any(isinstance(one, Loop | Exit) for one in arm):
                    raise Refusal("some lanes of a warp are in a loop", item.instruction)
                self._items(arm)
        self._mask = mask

    def _peeked(self, item: Branch, seen: Seen) -> None:
        """The wait that is left out if the phase has been seen already, in this test or, where it
        had not been, in the next one.
        """
        missed, other = (item.yes, item.no) if seen.negated else (item.no, item.yes)
        before = len(self._into)
        self._items(missed)
        waits = [(event.kind, event.word, event.value) for event in self._into[before:]]
        if other or [kind for kind, _, _ in waits] != ["wait"]:
            raise Refusal("more than a wait depends on a test of a phase", item.instruction)
        if waits != [("wait", seen.word, seen.parity)]:
            raise Refusal("a wait is left out after a test of another phase", item.instruction)

    def _unknown(self, item: Branch) -> None:
        """Data decides whether there is any work for the block, or threads access memory."""
        arms = [arm for arm in (item.yes, item.no) if arm]
        if all(_only_accesses(arm) for arm in arms):
            maybe, self._maybe = self._maybe, True
            for arm in arms:
                self._items(arm)
            self._maybe = maybe
        elif len(arms) == 1 and not self._inside and _of_block(item.condition):
            self.found.asked.append(item.condition)
            self.worths.set({item.condition: int(arms[0] is item.yes)})
            self._items(arms[0])
        else:
            raise Refusal("data decides what synchronizes here", item.instruction)

    def _loop(self, loop: Loop) -> None:
        exits = [item for item in loop.body if isinstance(item, Exit)]
        if len(exits) != 1:
            raise Refusal("a loop has no single end", loop.instruction)
        self._enter(loop)
        if self._uniform(self.worths.of(exits[0].condition)) is None:
            self._tiles(loop)
            return
        self._inside += 1
        for _ in range(_MOST_TURNS):
            try:
                self._items(loop.body)
            except _Left:
                break
            self._again(loop)
        else:
            raise Refusal(f"a loop turns more than {_MOST_TURNS} times", loop.instruction)
        self._inside -= 1

    def _enter(self, loop: Loop) -> None:
        self.worths.set({s: self.worths.of(one.entry) for s, one in loop.carried.items()})

    def _again(self, loop: Loop) -> None:
        self.worths.set({s: self.worths.of(one.update) for s, one in loop.carried.items()})

    def _tiles(self, loop: Loop) -> None:
        """The loop over output tiles, one turn for each."""
        if self.found.tiled or self._inside:
            raise Refusal("data decides how often a loop turns", loop.instruction)
        self.found.tiled = True
        body = tuple(item for item in loop.body if not isinstance(item, Exit))
        if not isinstance(loop.body[-1], Exit) and not isinstance(loop.body[0], Exit):
            raise Refusal("the loop over tiles is left in the middle of a turn", loop.instruction)
        for number in range(len(self.trips)):
            self._tile(number)
            tile: list[Event] = []
            self._into = tile
            self.found.tiles.append(tile)
            self._inside += 1
            self._items(body)
            self._inside -= 1
            # A loop that asks behind its turn is left with what registers held in it.
            if isinstance(loop.body[0], Exit) or number + 1 < len(self.trips):
                self._again(loop)
        self._into = self.found.after

    # -- instructions --------------------------------------------------------------------------

    def _action(self, action: Action) -> None:
        lanes = int(self._mask.sum())
        if action.kind == PEEK:
            word, parity = self._word(action), self._number(action, action.values[0])
            found: dict[Term, Worth] = {action.values[-1]: Seen(word, parity)}
            self.worths.set(found)
            return
        event = Event(action.kind, action.instruction, lanes, maybe=self._maybe)
        if action.kind in _BARRIER:
            word, value = self._word(action), self._number(action, action.values[0])
            event = Event(action.kind, action.instruction, lanes, word, value)
        elif action.kind == "load":
            word = self._shared(action, action.values[0])
            start = self._shared(action, action.address)
            event = Event("load", action.instruction, lanes, word, None, (start,))
        elif action.kind == "store":
            start = self._shared(action, action.address)
            event = Event("store", action.instruction, lanes, None, None, (start,))
        elif action.kind == "wgmma":
            spans = self._operands(action)
            event = Event("wgmma", action.instruction, lanes, None, None, spans=spans)
        elif action.kind in _ACCESSES:
            event = self._access(action, lanes)
        elif action.values:
            value = self._even(self.worths.of(action.values[0]))
            number = value if isinstance(value, int) else None
            event = Event(action.kind, action.instruction, lanes, None, number)
        self._into.append(event)

    def _operands(self, action: Action) -> tuple[Span, ...]:
        left, right = (self._descriptor(action, term) for term in action.values[:2])
        if right is None:
            raise Refusal("where a product reads is not known", action.instruction)
        return tuple(
            (begin - SHARED_START, end - SHARED_START)
            for begin, end in spans_of(action.instruction, left, right)
        )

    def _descriptor(self, action: Action, term: Term) -> int | None:
        """None where the operand is in registers."""
        if term.op == "registers?":
            return None
        value = self._even(self.worths.of(term))
        if not isinstance(value, int):
            raise Refusal("where a product reads is not known", action.instruction)
        return value

    def _access(self, action: Action, lanes: int) -> Event:
        value = None if action.address is None else self.worths.of(action.address)
        if value is None or isinstance(value, Seen):
            raise Refusal("where threads access shared memory is not known", action.instruction)
        every = np.broadcast_to(np.asarray(value, np.int64), (32,)) - SHARED_START
        touched = every[self._mask != 0]
        one = action.instruction
        return Event(action.kind, one, lanes, touched=touched, maybe=self._maybe)

    def _word(self, action: Action) -> int:
        return self._shared(action, action.address)

    @staticmethod
    def _even(value: Worth) -> Worth:
        """One number where all lanes have it."""
        if isinstance(value, np.ndarray) and bool((value == value[0]).all()):
            return int(value[0])
        return value

    def _shared(self, action: Action, address: Term | None) -> int:
        value = None if address is None else self._even(self.worths.of(address))
        if not isinstance(value, int):
            raise Refusal("where in shared memory this is, is not known", action.instruction)
        return value - SHARED_START

    def _number(self, action: Action, term: Term) -> int:
        value = self._even(self.worths.of(term))
        if not isinstance(value, int):
            raise Refusal("an operand is not known", action.instruction)
        return value


def _only_accesses(items: Items) -> bool:
    return all(
        (isinstance(item, Action) and item.kind.startswith((*_ACCESSES, "ld.global", "st.global")))
        or (isinstance(item, Branch) and _only_accesses(item.yes) and _only_accesses(item.no))
        for item in items
    )


def _of_block(condition: Term) -> bool:
    leaves = [term for term in below(condition) if not term.parts and term.op != "const"]
    return all(is_leaf_of_block(leaf) for leaf in leaves)
