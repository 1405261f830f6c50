"""A `Program` made of rolled steps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from schedgen.conform.refusal import Refusal
from schedgen.kernel import Space
from schedgen.lift.bands import bands_of
from schedgen.lift.cells import SECOND, every
from schedgen.lift.items import GRANULE, Item, Role, Word
from schedgen.lift.numbering import Numbering, RingKey, ring_text
from schedgen.lift.rolling import Counted, Rolled, Steps
from schedgen.program.model import (
    Action,
    Arrive,
    AwaitKernel,
    Barrier,
    Capacities,
    Fence,
    FenceKind,
    Initialize,
    Meet,
    Program,
    Publish,
    RoleProgram,
    Run,
    SetUp,
    Step,
    Wait,
    WaitGroup,
)
from schedgen.program.operations import (
    Access,
    Allocation,
    Engine,
    Number,
    Spread,
    TileOperation,
)

_ENGINES = {"copy": Engine.COPY_IN, "products": Engine.WGMMA, "threads": Engine.THREADS}
"""Bulk stores tell a barrier of their own that they have read, so they are as loads here."""
_RANKS = {("copy", True): 0, ("threads", True): 1, ("threads", False): 2}
_WARPS = 4
_BAND = 8
"""Rows of an allocation that stand for what the threads of one role touch, two for each warp."""
_END = "end of the block"
_ANY = (1, 1)
"""Latencies: the proofs hold for all."""
CAPACITIES = Capacities(2 * SECOND, 512, 4096, 256, 64, 16)
"""Memory, registers and warps are those of a kernel that the compiler has accepted; not looked at
here. Second uses of memory have addresses of their own."""
_TURNS = 1 << 10
"""Rows of the allocation that stands for memory with two uses: more than there are operations."""


@dataclass(frozen=True, slots=True)
class Made:
    """What steps of a program are in the PTX: role, section and place of a step -> its item."""

    program: Program
    items: Mapping[tuple[str, str, int], Item]


class Builder:
    """``steps``: of each role, made of ``items``, the tile that was rolled."""

    def __init__(
        self,
        kernel: str,
        arch: str,
        numbering: Numbering,
        counts: Mapping[Word, int],
        setup: Sequence[SetUp],
    ) -> None:
        self.kernel, self.arch, self.setup = kernel, arch, tuple(setup)
        self.numbering, self.counts = numbering, counts
        self.skipped: frozenset[Word] = frozenset()
        self.once = False
        """Whether a block has one tile: all roles meet behind it, which changes nothing before."""
        self.operations: list[TileOperation] = []
        self.names: dict[int, str] = {}
        self.places: dict[tuple[str, str, int], Item] = {}

    def build(
        self, roles: Sequence[Role], steps: Sequence[Steps], items: Sequence[Sequence[Item]]
    ) -> Made:
        """The program.

        Raises:
            Refusal: a step has no meaning in a program.
        """
        self.bands = bands_of(roles, self.numbering)
        made = [
            self._role(role, one, mine) for role, one, mine in zip(roles, steps, items, strict=True)
        ]
        barriers = tuple(self._barriers(roles))
        if self.once:
            threads = sum(32 * role.warps for role in roles)
            barriers = (*barriers, Barrier(_END, "mbarrier", 1, threads, 0))
        setup = [Initialize(b.name, b.arrivals) for b in barriers]
        program = Program(
            self.kernel, "", self.arch, "", 1, 8, CAPACITIES, tuple(self._allocations()),
            tuple(_in_order(self.operations)), barriers, tuple(made), setup=(*setup, *self.setup),
        )  # fmt: skip
        return Made(program, self.places)

    # -- roles ---------------------------------------------------------------------------------

    def _role(self, role: Role, steps: Steps, items: Sequence[Item]) -> RoleProgram:
        sections: dict[str, list[Step]] = {}
        for section, listed in (
            ("before", steps.before), ("loop", steps.loop), ("after", steps.after)
        ):  # fmt: skip
            for at, rolled in enumerate(listed):
                item = items[rolled.place]
                self.places[role.name, section, at] = item
                if item.kind in _ENGINES:
                    self._operation(f"{role.name} {section}[{at}]", role, rolled, item)
                    self._used(section, rolled, item)
        for section, listed in (
            ("before", steps.before), ("loop", steps.loop), ("after", steps.after)
        ):  # fmt: skip
            sections[section] = [
                Step(self._action(rolled, items, listed, steps), rolled.shift, rolled.guard)
                for rolled in listed
            ]
        products = any(
            items[s.place].kind == "products" for s in (*steps.before, *steps.loop, *steps.after)
        )
        if self.once:
            number = Number(1, 0, True)
            meet = Step(Arrive(_END, number, 32 * role.warps)), Step(Wait(_END, number))
            sections["after"] += meet
        return RoleProgram(
            role.name, role.warps, 24, tuple(sections["before"]), tuple(sections["loop"]),
            tuple(sections["after"]),
            open=(Fence(FenceKind.REGISTERS),) if products else (),
        )  # fmt: skip

    def _action(
        self, rolled: Rolled, items: Sequence[Item], listed: Sequence[Rolled], steps: Steps
    ) -> Action:
        item = items[rolled.place]
        numbers = [
            _number(c, n) for c, n in zip(rolled.sign.rings, rolled.sign.numbers, strict=True)
        ]
        name = "" if item.word is None else self._name(item.word)
        match item.kind:
            case "wait":
                return Wait(name, numbers[0])
            case "arrive":
                return Arrive(name, numbers[0], item.count, item.bytes)
            case "copy":
                return Run(self.names[id(item)], name, numbers[0], item.bytes)
            case "products" | "threads":
                return Run(self.names[id(item)])
            case "group":
                return self._await(rolled, item, listed, steps)
            case "fence":
                assert item.fence is not None
                return Fence(item.fence)

    def _await(
        self, rolled: Rolled, item: Item, listed: Sequence[Rolled], steps: Steps
    ) -> WaitGroup:
        """Which step's products a wait is for, and of how many iterations before."""
        shape = rolled.sign.shape[1:]
        for other in (*listed, *steps.loop):
            if other.sign.shape != shape:
                continue
            lag = _apart(other, rolled)
            if lag is not None and (lag == 0 or (lag > 0 and listed is steps.loop)):
                return WaitGroup(self._of_place(other), lag)
            if listed is steps.after and other in steps.loop:
                return WaitGroup(self._of_place(other), 0)
        raise Refusal("which products this waits for is not known", item.instruction)

    def _of_place(self, step: Rolled) -> str:
        return self._by_place[step.place]

    def _operation(self, name: str, role: Role, rolled: Rolled, item: Item) -> None:
        if not hasattr(self, "_by_place"):
            self._by_place: dict[int, str] = {}
        self._by_place[rolled.place] = name
        self.names[id(item)] = name
        skip = 0 if item.word is None else 1
        touched = self.numbering.touched(item)
        versions = list(zip(rolled.sign.rings, rolled.sign.numbers, strict=True))[skip:]
        rank = _RANKS.get((item.kind, any(write for _, write, _ in touched)), 3)
        accesses = tuple(
            self._access(role, item, (ring, write), _number(*version), rank)
            for (ring, write, _), version in zip(touched, versions, strict=True)
        )
        accesses += tuple(self._again(item, rank))
        self.operations.append(TileOperation(name, _ENGINES[item.kind], accesses, _ANY, _ANY, 1))

    def _again(self, item: Item, rank: int) -> Iterator[Access]:
        """Of memory with two uses: all of it for the first one, and a row of its own for each
        operation of the second, which writes there, so that each has an order with all of the first
        use and with none of its own.
        """
        rings = {ring: ring in self.numbering.again for ring, _, _ in self.numbering.touched(item)}
        for first in sorted({self.numbering.again.get(ring, ring) for ring in rings}):
            if first not in self.numbering.again.values():
                continue
            second = first not in rings
            row = len(self.operations)
            yield Access(
                self._twice(first), Number(1, 0, True), (row, row + 1) if second else (0, _TURNS),
                (0, 1), second, (rank, 0, row), self._twice(first),
            )  # fmt: skip

    def _twice(self, first: RingKey) -> str:
        return f"{ring_text(first, self.numbering)} for two uses"

    def _used(self, section: str, rolled: Rolled, item: Item) -> None:
        """The second use is behind the loop, the first one in it or before. What a tile has once is
        accessed in each turn, or outside of the loop."""
        for ring, _, _ in self.numbering.touched(item):
            second = ring in self.numbering.again
            first = ring in self.numbering.again.values()
            if (second and section != "after") or (first and section == "after"):
                text = "memory that is used for something else in the middle of the loop"
                raise Refusal(text, item.instruction)

    def _access(
        self, role: Role, item: Item, of: tuple[RingKey, bool], version: Number, rank: int
    ) -> Access:
        ring, write = of
        bands = self.bands[ring]
        rows, spread = (0, _BAND * bands.count), None
        if item.kind == "threads":
            band = bands.band[role.number]
            rows = (_BAND * band, _BAND * (band + 1))
            lanes = bands.lanes[role.number]
            if lanes is not None:
                spread = Spread("rows", _BAND // _WARPS, lanes or f"{item.instruction.line}")
        order = (rank, 0, len(self.operations))
        name = ring_text(ring, self.numbering)
        return Access(
            name, version, rows, (0, self._row_bytes(ring)), write, order, name, 0, spread
        )

    # -- barriers and memory -------------------------------------------------------------------

    def _name(self, word: Word) -> str:
        return ring_text(self.numbering.ring_of(word), self.numbering)

    def _barriers(self, roles: Sequence[Role]) -> list[Barrier]:
        """Each phase takes the bytes that are expected for it; all phases the same."""
        expected: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        slots: dict[str, int] = {}
        counts: dict[str, int] = {}
        for role in roles:
            for item in every(role):
                if item.word is None:
                    continue
                name = self._name(item.word)
                slots[name] = self.numbering.words[item.word].slots
                counts[name] = self.counts[item.word]
                if item.word[0] == "copies":
                    slots[name] = _store_slots(roles, item.word)
                if item.kind == "arrive":
                    expected[name][self.numbering.number(item)] += item.bytes
        skipped: dict[str, set[int]] = defaultdict(set)
        for word in self.skipped & set(self.numbering.words):
            skipped[self._name(word)].add(self.numbering.words[word].number(0))
        return [
            Barrier(
                name, "mbarrier", slots[name], counts[name],
                max(expected[name].values(), default=0), tuple(sorted(skipped[name])),
            )
            for name in slots
        ]  # fmt: skip

    def _row_bytes(self, ring: RingKey) -> int:
        return max(1, self._size(ring) // (_BAND * self.bands[ring].count))

    def _size(self, ring: RingKey) -> int:
        first = min(at for at, p in self.numbering.cells.items() if p.ring == ring[1])
        return self.numbering.shared.size(first) or GRANULE

    def _allocations(self) -> list[Allocation]:
        found: list[Allocation] = []
        for ring, bands in self.bands.items():
            mine = sorted(at for at, p in self.numbering.cells.items() if p.ring == ring[1])
            size, slots = self._size(ring), len(mine)
            step = mine[1] - mine[0] if slots > 1 else size
            found.append(
                Allocation(
                    ring_text(ring, self.numbering),
                    Space.SMEM,
                    slots,
                    _BAND * bands.count,
                    self._row_bytes(ring),
                    mine[0],
                    max(step, size) * (slots - 1) + size,
                )
            )
        for at, first in enumerate(sorted(set(self.numbering.again.values()))):
            name, begin = self._twice(first), SECOND + (SECOND >> 1) + _TURNS * at
            found.append(Allocation(name, Space.SMEM, 1, _TURNS, 1, begin, _TURNS))
        return found


def _in_order(operations: Sequence[TileOperation]) -> list[TileOperation]:
    """Operations whose accesses are meant in the order of versions, and of what each is: a copy
    fills, threads write, then others read."""
    keys = {(access.version.offset, *access.order) for one in operations for access in one.accesses}
    place = {key: number for number, key in enumerate(sorted(keys))}
    return [
        replace(
            one,
            accesses=tuple(
                replace(a, order=(0, 0, place[a.version.offset, *a.order])) for a in one.accesses
            ),
        )
        for one in operations
    ]


def _store_slots(roles: Sequence[Role], word: Word) -> int:
    """Enough for the groups that a role leaves in flight: no phase begins before the one a ring
    before was waited for."""
    mine = [item for role in roles for item in every(role) if item.word == word]
    sent = most = 0
    for item in mine:
        if item.kind == "arrive":
            sent += 1
        elif item.kind == "wait" and item.phase is not None:
            most = max(most, sent - item.phase)
    return most + 1


def _number(counted: Counted, number: int) -> Number:
    return Number(counted.scale or 1, number, counted.per_tile)


def _apart(one: Rolled, other: Rolled) -> int | None:
    """Iterations from a step's iteration back to that of another whose numbers are these."""
    for distance in range(8):
        if one.sign.after(-distance).numbers == other.sign.numbers:
            return distance
    return None


def setup_of(kinds: Sequence[str]) -> list[SetUp]:
    """What surrounds the roles, from the instructions before them."""
    found: list[SetUp] = []
    for kind in kinds:
        if kind == "fence.mbarrier_init":
            found.append(Publish())
        elif kind == "bar.sync":
            found.append(Meet())
        elif kind == "griddepcontrol.wait":
            found.append(AwaitKernel())
    return found
