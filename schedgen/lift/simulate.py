"""All roles together, for given trip counts: which phases they wait for, and what they access.

Every role goes on as far as it can. Arrivals only ever enable, so whatever order roles run in, they
come as far; if they do not all come to their end, the kernel hangs for these trip counts, whatever
the latencies. On the way each wait learns which phase it was for, each access which version of the
bytes it has: the one that the role knows of through what it waited for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from schedgen.conform.refusal import Refusal
from schedgen.emulator.ptx.tree import Instruction
from schedgen.lift.cells import Cells, every
from schedgen.lift.items import Item, Role, Touch, Word

Known = dict[int, int]
"""Cell -> the latest version that is known of."""


class Wrong(Exception):
    """An execution for ``trips`` iterations of its tiles that goes wrong."""

    trips: tuple[int, ...] = ()
    at: Instruction | None = None
    """Where it shows."""


class Hang(Wrong):
    """Roles that do not come to their end, each with the item that it waits at."""

    def __init__(self, waiting: Sequence[tuple[Role, Item]]) -> None:
        super().__init__("a hang")
        self.waiting = tuple(waiting)
        self.at = waiting[0][1].instruction


class Miscount(Wrong):
    """Arrivals or bytes that do not fit the phase that they are for."""

    def __init__(self, role: Role, item: Item, text: str) -> None:
        super().__init__(text)
        self.role, self.item, self.text = role, item, text
        self.at = item.instruction


@dataclass
class State:
    """A barrier: the phase that it is in, and what that still takes."""

    count: int
    phase: int = 0
    left: int = 0
    bytes: int = 0
    known: dict[int, Known] = field(default_factory=dict[int, Known])


@dataclass
class _At:
    """Where a role is, and what it knows."""

    items: list[Item]
    place: int = 0
    known: Known = field(default_factory=Known)
    met: dict[Word, int] = field(default_factory=dict[Word, int])
    written: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    epoch: int = 0


class Simulation:
    """``counts``: arrivals that the barriers take."""

    def __init__(
        self,
        roles: Sequence[Role],
        counts: Mapping[Word, int],
        cells: Cells,
        skipped: Collection[Word] = (),
    ) -> None:
        self.roles, self.cells = roles, cells
        self.states = {
            word: State(count, phase=int(word in skipped), left=count)
            for word, count in counts.items()
        }
        self.at = [_At(every(role)) for role in roles]
        self.fills: dict[int, int] = defaultdict(int)
        self.order: list[tuple[Role, Item]] = []
        """Items as they were come to."""

    def run(self) -> None:
        """Fills in numbers and versions.

        Raises:
            Hang, Miscount: the kernel is wrong for these trip counts.
        """
        progress = True
        while progress:
            progress = False
            for role, at in zip(self.roles, self.at, strict=True):
                while at.place < len(at.items) and self._step(role, at, at.items[at.place]):
                    self.order.append((role, at.items[at.place]))
                    at.place += 1
                    progress = True
        waiting = [
            (role, at.items[at.place])
            for role, at in zip(self.roles, self.at, strict=True)
            if at.place < len(at.items)
        ]
        if waiting:
            self._sure(waiting)
            raise Hang(waiting)

    def _sure(self, waiting: Sequence[tuple[Role, Item]]) -> None:
        """How many bytes a copy brings is in its tensor map, which PTX does not have: a phase that
        only bytes are missing from says nothing."""
        for _, item in waiting:
            state = self.states.get(item.word) if item.word is not None else None
            if state is not None and state.bytes and not state.left:
                raise Refusal(
                    f"a phase expects {abs(state.bytes)} bytes more or less than its copies bring, "
                    "by the distances of where they write",
                    item.instruction,
                )

    def _state(self, item: Item) -> State:
        assert item.word is not None
        if item.word not in self.states:
            raise Refusal("nobody initializes this barrier", item.instruction)
        return self.states[item.word]

    def _step(self, role: Role, at: _At, item: Item) -> bool:
        match item.kind:
            case "wait":
                return self._wait(at, item)
            case "arrive":
                self._arrive(role, at, item)
            case "copy":
                self._copy(at, item)
            case "products" | "threads":
                item.versions = tuple(self._version(at, item, touch) for touch in item.touches)
            case "group" | "fence":
                pass
        return True

    def _wait(self, at: _At, item: Item) -> bool:
        state = self._state(item)
        assert item.word is not None
        if item.phase is not None:
            number = item.phase
        elif item.word[0] == "bar":
            number = at.met[item.word]
        elif state.phase % 2 != item.parity:
            number = state.phase - 1
        else:
            return False
        if number >= state.phase:
            return False
        item.number = number
        at.epoch += 1
        for cell, version in state.known.get(number, {}).items():
            at.known[cell] = max(version, at.known.get(cell, version))
        return True

    def _arrive(self, role: Role, at: _At, item: Item) -> None:
        state = self._state(item)
        assert item.word is not None
        if item.count > state.left:
            text = f"{item.count} arrivals for a phase that takes {state.left} more"
            raise Miscount(role, item, text)
        item.number = state.phase
        at.met[item.word] = state.phase
        known = state.known.setdefault(state.phase, {})
        for cell, version in at.known.items():
            known[cell] = max(version, known.get(cell, version))
        state.left -= item.count
        state.bytes += item.bytes
        self._complete(state)

    def _complete(self, state: State) -> None:
        if not state.left and not state.bytes:
            state.phase += 1
            state.left = state.count

    def _copy(self, at: _At, item: Item) -> None:
        state = self._state(item)
        (touch,) = item.touches
        cell = self.cells.of(touch, item)
        item.number = state.phase
        if item.write:
            if not item.bytes:
                if not self.cells.size(cell):
                    self.cells.fix(cell, state.bytes)
                item.bytes = self.cells.size(cell)
            item.versions = (self.fills[cell],)
            self.fills[cell] += 1
            known = state.known.setdefault(state.phase, {})
            known[cell] = max(item.versions[0], known.get(cell, 0))
        else:
            item.versions = (self._version(at, item, touch),)
        state.bytes -= item.bytes
        if state.bytes < 0 and not state.left:
            raise Refusal(
                "more bytes than a phase expects are copied, by the distances of where",
                item.instruction,
            )
        self._complete(state)

    def _version(self, at: _At, item: Item, touch: Touch) -> int:
        cell = self.cells.of(touch, item)
        if cell in self.cells.loaded or not touch.write or item.kind != "threads":
            return at.known.get(cell, 0)
        epoch, count = at.written.get(cell, (-1, -1))
        if epoch != at.epoch:
            count += 1
        at.written[cell] = at.epoch, count
        at.known[cell] = count
        return count
