"""What a role does, as the proof sees it: waits, arrivals, copies, products and accesses.

Instructions become items: those of one group of products are one, and accesses of threads between
two instructions that synchronize. Bulk stores have a barrier of their own, which nobody else has:
its phases are their groups, and a ``wait_group`` waits for the phases that it leaves complete. The
threads that meet at a numbered barrier arrive at it and wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from schedgen.conform.refusal import Refusal
from schedgen.emulator.ptx.tree import Immediate, Instruction
from schedgen.lift.evaluate import Lanes
from schedgen.lift.execute import Event
from schedgen.lift.operands import joined
from schedgen.program.model import FenceKind

Word = tuple[str, int]
"""A barrier: ``("mbarrier", byte)``, ``("bar", number * THREADS + threads that it takes)``, or
``("copies", number of a role)``."""
THREADS = 2048
"""More than a block has."""
GRANULE = 4
"""Bytes that are told apart where threads access shared memory."""

FENCES = {
    "fence.proxy.async": FenceKind.ASYNC_PROXY,
    "wgmma.fence": FenceKind.REGISTERS,
}
GLOBAL = ("ld.global", "st.global", "ld.relaxed.gpu.global", "red.global", "st.param", "ld.param")
_STORES = 64
"""Parts in which the bulk stores of a group report to the phase that stands for it: one each, and
what is left from the last one, so that all groups take as many."""
SETUP = frozenset(
    (
        *(
            "init",
            "arrive",
            "wait",
            "fence.mbarrier_init",
            "bar.sync",
            "bar.warp.sync",
            "griddepcontrol.wait",
        ),
        *("griddepcontrol.launch_dependents", "setmaxnreg.inc", "setmaxnreg.dec"),
    )
)
"""What may come before the roles."""
_NOTHING = frozenset(
    (
        *("setmaxnreg.inc", "setmaxnreg.dec", "griddepcontrol.wait", "bar.warp.sync"),
        *("griddepcontrol.launch_dependents", "fence.mbarrier_init"),
    )
)
"""Instructions of which the order to others does not matter to a proof of the roles. Threads of a
warp that meet tell each other more than a proof here relies on."""


@dataclass(frozen=True, slots=True)
class Touch:
    """An access to shared memory from ``start`` on; ``owners`` has who touches which granule, where
    threads do: (granule, thread of the block), or -1 less a warp for any thread of that."""

    start: int
    write: bool
    owners: frozenset[tuple[int, int]] = frozenset()
    last: int = 0
    """The last byte that is known to be touched."""


@dataclass(slots=True, eq=False)
class Item:
    """One thing that a role does.

    Attributes:
        number, versions: found by `simulate`: of the phase; of what each touch accesses.
        target: the group of products that a wait leaves complete.
    """

    kind: Literal["wait", "arrive", "copy", "products", "group", "threads", "fence"]
    instruction: Instruction
    word: Word | None = None
    parity: int | None = None
    phase: int | None = None
    count: int = 0
    bytes: int = 0
    write: bool = False
    touches: tuple[Touch, ...] = ()
    fence: FenceKind | None = None
    target: Item | None = None
    beside: bool = False
    """An arrival of a warp that meets its warpgroup, beside which it does more."""
    number: int | None = None
    versions: tuple[int, ...] = ()
    tile: int = 0
    shape: tuple[object, ...] = ()


@dataclass
class Role:
    """Warps that do the same, and what they do: a warp, a warpgroup, or what one warp of a
    warpgroup does beside the others (``beside`` names them)."""

    name: str
    number: int
    first: int
    warps: int
    beside: str = ""
    registers: int = 0
    tiles: list[list[Item]] = field(default_factory=list[list[Item]])
    after: list[Item] = field(default_factory=list[Item])


class Reader:
    """Makes items of the events of one role, in order, tile by tile."""

    def __init__(self, role: Role, threads_of_block: int) -> None:
        self.role, self.block = role, threads_of_block
        self._copies: list[Event] = []
        self._groups = 0
        self._awaited: int | None = None
        self._products: list[Event] = []
        self._sent: list[Item | None] = []
        self._complete = 0
        self._tile = 0
        self._few: Event | None = None
        self._accessed = False

    def tile(
        self, events: Sequence[tuple[Event, int, tuple[Touch, ...]]], number: int
    ) -> list[Item]:
        """Items of a tile; each event with how many threads execute it, and what these touch."""
        self._tile = number
        found: list[Item] = []
        touched: dict[Touch, None] = {}
        last: Event | None = None
        for event, threads, touches in events:
            if event.kind in ("read", "write"):
                self._accessed = True
                touched |= dict.fromkeys(touches)
                last = last or event
                continue
            self._alike(event, threads)
            if event.kind in _NOTHING or event.kind.startswith(GLOBAL):
                continue
            if last is not None:
                found.append(Item("threads", last.instruction, touches=_joined(touched)))
                touched, last = {}, None
            found += self._items(event, threads)
        if last is not None:
            found.append(Item("threads", last.instruction, touches=_joined(touched)))
        for item in found:
            item.tile = number
        return found

    def _alike(self, event: Event, threads: int) -> None:
        """What some of a role's threads wait for, others do not know of; nor does an arrival of one
        tell what the others have accessed, if they have not met.
        """
        everybody = threads == 32 * self.role.warps
        if event.kind == "wait" and not everybody:
            self._few = event
        if self._few is not None and event.kind in ("wgmma", "read", "write"):
            raise Refusal("threads go on that have not waited", self._few.instruction)
        if event.kind in ("bar.sync", "bar.warp.sync"):
            self._accessed = False
        if event.kind in ("arrive", "expect") and not everybody and self._accessed:
            raise Refusal(
                "one thread arrives for accesses of others that it has not met", event.instruction
            )

    def _items(self, event: Event, threads: int) -> Iterator[Item]:
        one, word = event.instruction, ("mbarrier", event.word or 0)
        value = event.value or 0
        match event.kind:
            case "wait":
                yield Item("wait", one, word, parity=value)
            case "arrive":
                yield Item("arrive", one, word, count=value * threads)
            case "expect":
                yield Item("arrive", one, word, count=threads, bytes=value * threads)
            case "load":
                if "multicast::cluster" in one.modifiers or word[1] < 0:
                    raise Refusal("copies to several CTAs of a cluster are not lifted", one)
                touches = tuple(Touch(start, True) for start in event.starts)
                yield Item("copy", one, word, write=True, touches=touches)
            case "store":
                self._copies.append(event)
            case "close copies":
                yield from self._stored(one)
            case "wait_group copies read" | "wait_group copies":
                yield from self._read(one, value)
            case "wgmma":
                self._products.append(event)
            case "close products":
                yield from self._closed(one)
            case "wait_group products":
                yield from self._await(one, value)
            case "bar.sync" | "bar.arrive":
                yield from self._meet(event, threads)
            case kind if kind in FENCES:
                yield Item("fence", one, fence=FENCES[kind])
            case "fence.acq_rel" | "membar":
                return
            case _:
                raise Refusal(f"'{one.name}' is not lifted", one)

    # -- bulk stores ---------------------------------------------------------------------------

    def _stored(self, one: Instruction) -> Iterator[Item]:
        """A group of bulk stores: each reports to the phase of the group."""
        word = "copies", self.role.number
        if not 0 < len(self._copies) <= _STORES:
            raise Refusal(f"a group of {len(self._copies)} bulk stores", one)
        phase, left = self._groups, _STORES
        yield Item("arrive", self._copies[0].instruction, word, phase=phase, count=1, bytes=left)
        for number, event in enumerate(self._copies, 1):
            size = 1 if number < len(self._copies) else left
            left -= size
            touches = tuple(Touch(start, False) for start in event.starts)
            yield Item(
                "copy",
                event.instruction,
                word,
                phase=phase,
                bytes=size,
                write=False,
                touches=touches,
            )
        self._copies = []
        self._groups += 1

    def _read(self, one: Instruction, left: int) -> Iterator[Item]:
        """Waits for the groups that are complete then and have not been waited for."""
        newest = self._groups - left - 1
        first = min(newest, 0) if self._awaited is None else self._awaited + 1
        for phase in range(first, newest + 1):
            yield Item("wait", one, ("copies", self.role.number), phase=phase)
        self._awaited = newest if self._awaited is None else max(self._awaited, newest)

    @property
    def unread(self) -> bool:
        """Whether bulk stores may still read shared memory."""
        return bool(self._copies) or (self._awaited or 0) < self._groups - 1

    # -- products ------------------------------------------------------------------------------

    def _closed(self, one: Instruction) -> Iterator[Item]:
        if not self._products:
            self._sent.append(None)
            return
        spans = joined(span for event in self._products for span in event.spans)
        item = Item(
            "products",
            self._products[0].instruction,
            touches=tuple(Touch(begin, False, last=end - 1) for begin, end in spans),
        )
        item.tile = self._tile
        self._products = []
        self._sent.append(item)
        yield item

    def _await(self, one: Instruction, left: int) -> Iterator[Item]:
        if self._products:
            raise Refusal("a product is in no group when its warps wait", one)
        newest = len(self._sent) - left
        known = [item for item in self._sent[self._complete : newest] if item is not None]
        self._complete = max(self._complete, newest)
        if known and known[-1].tile == self._tile:
            yield Item("group", one, target=known[-1])

    # -- numbered barriers ---------------------------------------------------------------------

    def _meet(self, event: Event, threads: int) -> Iterator[Item]:
        if event.value is None:
            raise Refusal("which barrier this is, is not known", event.instruction)
        word = ("bar", event.value * THREADS + self._taken(event.instruction))
        yield Item("arrive", event.instruction, word, count=threads, beside=event.maybe)
        if event.kind == "bar.sync":
            yield Item("wait", event.instruction, word)

    def _taken(self, one: Instruction) -> int:
        """Threads that a numbered barrier takes: all of the block if it does not say."""
        if len(one.operands) < 2:
            return self.block
        if not isinstance(one.operands[1], Immediate):
            raise Refusal("how many threads a barrier takes is not known", one)
        return int(one.operands[1].value)


def _joined(touched: dict[Touch, None]) -> tuple[Touch, ...]:
    return tuple(touched)


# -- what threads touch ------------------------------------------------------------------------


def touch_of(event: Event, warp: int, known: dict[object, Touch]) -> Touch:
    """What the lanes of a warp touch with one instruction; ``known`` keeps what was found."""
    assert event.touched is not None
    key = event.instruction.line, warp, event.touched.tobytes()
    if key not in known:
        known[key] = _touch(event, warp, event.touched)
    return known[key]


def _touch(event: Event, warp: int, starts: Lanes) -> Touch:
    one = event.instruction
    owners: set[tuple[int, int]] = set()
    if one.opcode in ("ldmatrix", "stmatrix"):
        count = next((int(m[1:]) for m in one.modifiers if m in ("x1", "x2", "x4")), 1)
        if "m8n8" not in one.modifiers or len(starts) != 32:
            raise Refusal("which bytes this accesses is not known", one)
        plain = "trans" not in one.modifiers
        for lane in range(8 * count):
            for part in range(4):
                owner = 32 * warp + lane % 8 * 4 + part if plain else -1 - warp
                owners.add(((int(starts[lane]) + 4 * part) // GRANULE, owner))
        starts = starts[: 8 * count]
    else:
        width = _width(one)
        for lane, start in enumerate(starts):
            for byte in range(0, width, GRANULE):
                owner = 32 * warp + lane if len(starts) == 32 else -1 - warp
                owners.add(((int(start) + byte) // GRANULE, owner))
    last = max(granule for granule, _ in owners) * GRANULE + GRANULE - 1
    return Touch(int(np.min(starts)), event.kind == "write", frozenset(owners), last)


def _width(one: Instruction) -> int:
    kind = one.modifiers[-1]
    bits = "".join(c for c in kind if c.isdigit())
    if not bits:
        raise Refusal("how many bytes this accesses is not known", one)
    vector = next((int(m[1:]) for m in one.modifiers if m in ("v2", "v4", "v8")), 1)
    return max(GRANULE, vector * int(bits) // 8)
