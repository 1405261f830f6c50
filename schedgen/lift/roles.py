"""Which warps are a role, and what each does for given trip counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from schedgen.conform.flow import Flow
from schedgen.conform.refusal import Refusal
from schedgen.conform.skeleton import Items, all_loops
from schedgen.conform.terms import Term, Terms
from schedgen.emulator.ptx.tree import Kernel
from schedgen.lift.execute import Event, Execution, Trace
from schedgen.lift.items import SETUP, Reader, Role, Touch, touch_of
from schedgen.lift.trips import Trip, actions_of, conditions_of
from schedgen.lift.walking import PEEK, Following

_GROUP = 4
_WORK = ("wait", "arrive", "load", "store", "wgmma", "read", "write", "expect", "mma")
Executed = tuple[Event, int, tuple[Touch, ...]]
"""An event, how many threads execute it, and what they touch."""


@dataclass
class Threads:
    """The warps of a kernel with their skeletons."""

    flow: Flow
    terms: Terms
    skeletons: dict[int, Items]
    trip: tuple[Term, ...]
    breaks: tuple[Term, ...] = ()
    """Where data has loops divide the trip count among them."""
    assumed: dict[Term, int] = field(default_factory=dict[Term, int])
    known: dict[object, Touch] = field(default_factory=dict[object, Touch])

    @cached_property
    def outside(self) -> frozenset[Term]:
        """Terms that an execution sets: trip counts, conditions, what loops carry, peeks."""
        found = {*self.trip, *self.breaks}
        for items in self.skeletons.values():
            found |= {symbol for loop in all_loops(items) for symbol in loop.carried}
            found |= {a.values[-1] for a in actions_of(items) if a.kind == PEEK}
            found |= set(conditions_of(items))
        return frozenset(found)

    @property
    def block(self) -> int:
        return 32 * len(self.skeletons)


def threads_of(kernel: Kernel) -> Threads:
    """All warps of a kernel.

    Raises:
        Refusal: its control flow cannot be followed, or nobody knows how many warps there are.
    """
    shape = kernel.directives.get("reqntid") or kernel.directives.get("maxntid")
    if shape is None:
        raise Refusal("the kernel does not say how many threads a block has")
    if any(size != 1 for size in shape[1:]):
        raise Refusal(f"a block of {shape} threads is no row of them")
    flow, terms = Flow(kernel), Terms()
    skeletons = {warp: Following(flow, terms, warp).skeleton() for warp in range(shape[0] // 32)}
    group, breaks = Trip(skeletons.values()).divided()
    return Threads(flow, terms, skeletons, tuple(term for term, _ in group), breaks)


class Traces:
    """What all warps do for some trip counts, which loops divide ``at`` some numbers; `roles` joins
    those that are one role.
    """

    def __init__(self, threads: Threads, trips: Sequence[int], at: Sequence[int] = ()) -> None:
        self.threads, self.trips = threads, trips
        given = dict(zip(threads.breaks, at, strict=True))
        self.found: dict[int, Trace] = {
            warp: Execution(
                threads.terms, warp, threads.trip, trips, threads.outside, threads.assumed, given
            ).run(items)
            for warp, items in threads.skeletons.items()
        }
        asked = {tuple(t.asked) for t in self.found.values() if t.asked}
        if len(asked) > 1:
            raise Refusal("warps ask for different conditions whether there is work")
        self.tiled = any(trace.tiled for trace in self.found.values())
        for warp in self.found:
            for event in self.setup(warp):
                if event.kind not in SETUP and not event.kind.startswith("ld.global"):
                    text = f"'{event.instruction.name}' before the roles is not lifted"
                    raise Refusal(text, event.instruction)

    def roles(self) -> list[Role]:
        """Warpgroups whose warps do the same, or multiply together; single warps otherwise."""
        made: list[Role] = []
        for first in range(0, len(self.found), _GROUP):
            group = [w for w in range(first, first + _GROUP) if w in self.found]
            if len(group) == _GROUP and self._together(group):
                made += self._warpgroup(first, len(made))
                continue
            for warp in group:
                if self._works(warp):
                    role = Role(f"warp{warp}", len(made), warp, 1)
                    self._read(role, [self._alone(warp, part) for part in self._parts(warp)])
                    made.append(role)
        return made

    # -- which warps ---------------------------------------------------------------------------

    def _parts(self, warp: int) -> list[list[Event]]:
        """Its tiles, and what is behind them; a kernel without a loop over them has one."""
        trace = self.found[warp]
        if trace.tiled or not self._tile_of(trace):
            return [*trace.tiles, trace.after]
        return [self._tile_of(trace), []]

    def _tile_of(self, trace: Trace) -> list[Event]:
        """Behind the meeting of all threads that publishes barriers."""
        if self.tiled:
            return []
        kinds = [event.kind for event in trace.before]
        fence = kinds.index("fence.mbarrier_init") if "fence.mbarrier_init" in kinds else -1
        meets = [at for at, kind in enumerate(kinds) if kind == "bar.sync" and at > fence]
        return trace.before[meets[0] + 1 :] if meets else trace.before

    def setup(self, warp: int) -> list[Event]:
        """What it does before that."""
        trace = self.found[warp]
        tile = self._tile_of(trace)
        return trace.before[: len(trace.before) - len(tile)] if tile else trace.before

    def _works(self, warp: int) -> bool:
        return any(event.kind in _WORK for part in self._parts(warp) for event in part)

    def _together(self, group: list[int]) -> bool:
        kinds = [[e.kind for part in self._parts(w) for e in part] for w in group]
        if any("wgmma" in one for one in kinds):
            return True
        lines = [[e.instruction.line for part in self._parts(w) for e in part] for w in group]
        return all(one == lines[0] for one in lines) and self._works(group[0])

    # -- their events --------------------------------------------------------------------------

    def _alone(self, warp: int, events: list[Event]) -> list[Executed]:
        return [(e, e.lanes, self._touches(e, warp)) for e in events]

    def _warpgroup(self, first: int, number: int) -> list[Role]:
        """A warpgroup; what one of its warps does beside the others is a role of its own."""
        group = range(first, first + _GROUP)
        role = Role(f"warps{first}", number, first, _GROUP)
        together: list[list[Executed]] = []
        beside: list[list[Executed]] = []
        every = list(zip(*(self._parts(warp) for warp in group), strict=True))
        others = sorted({at for parts in every for at in _with_more(list(parts))})
        for parts in every:
            mine, other = self._divided(first, list(parts), others)
            together.append(mine)
            beside.append(other)
        self._read(role, together)
        if not any(e.kind not in ("bar.sync",) for part in beside for e, _, _ in part):
            return [role]
        single = Role(f"warp{first}", number + 1, first, 1, beside=role.name)
        self._read(single, beside)
        return [role, single]

    def _read(self, role: Role, parts: list[list[Executed]]) -> None:
        reader = Reader(role, self.threads.block)
        *tiles, after = parts
        role.tiles = [reader.tile(part, number) for number, part in enumerate(tiles)]
        role.after = reader.tile(after, len(tiles))
        if reader.unread:
            raise Refusal(f"{role.name}: bulk stores may still read shared memory when it ends")

    def _touches(self, event: Event, warp: int) -> tuple[Touch, ...]:
        known = self.threads.known
        return () if event.touched is None else (touch_of(event, warp, known),)

    def _divided(
        self, first: int, parts: list[list[Event]], others: list[int]
    ) -> tuple[list[Executed], list[Executed]]:
        """What four warps do together, and what one of them, ``others``, does beside that, with the
        meetings.
        """
        lines = [[event.instruction.line for event in part] for part in parts]
        fewest = min(lines, key=len)
        if len(others) > 1:
            one = next((e.instruction for at in others for e in parts[at]), None)
            raise Refusal("several warps of a warpgroup do what the others do not", one)
        at = [0] * _GROUP
        mine: list[Executed] = []
        beside: list[Executed] = []
        for line in fewest:
            for warp in others:
                while at[warp] < len(lines[warp]) and lines[warp][at[warp]] != line:
                    event = parts[warp][at[warp]]
                    beside.append((event, event.lanes, self._touches(event, first + warp)))
                    at[warp] += 1
                if at[warp] == len(lines[warp]):
                    raise Refusal(
                        "warps of a warpgroup do different things", parts[warp][-1].instruction
                    )
            events = [parts[warp][at[warp]] for warp in range(_GROUP)]
            at = [one + 1 for one in at]
            event = _one(events)
            if (others and event.kind.endswith("copies read")) or event.kind.endswith("copies"):
                beside.append((events[others[0] if others else 0], 32, ()))
                continue
            touches = tuple(t for w, e in enumerate(events) for t in self._touches(e, first + w))
            mine.append((event, sum(e.lanes for e in events), touches))
            if event.kind == "bar.sync" and others:
                beside.append((replace(events[others[0]], maybe=True), 32, ()))
        for warp in others:
            for event in parts[warp][at[warp] :]:
                beside.append((event, event.lanes, self._touches(event, first + warp)))
        return mine, beside


def _with_more(parts: list[list[Event]]) -> list[int]:
    """Which of four warps do more than the others."""
    lines = [[event.instruction.line for event in part] for part in parts]
    fewest = min(lines, key=len)
    return [at for at, one in enumerate(lines) if one != fewest]


def _one(events: list[Event]) -> Event:
    """The same instruction, executed by four warps."""
    first = events[0]
    same = {(e.word, e.value, e.starts) for e in events}
    if len(same) > 1 and first.kind != "wgmma":
        raise Refusal("warps of a warpgroup use different operands", first.instruction)
    spans = tuple(dict.fromkeys(span for e in events for span in e.spans))
    return replace(first, spans=spans)
