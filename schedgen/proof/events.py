"""The periodic event graph of a program.

Events are the steps of the roles, and for what runs asynchronously also where it begins and ends.
An event of a loop happens once per iteration, any other once per tile. Arcs say what must have
happened, in one of six forms; ``shift`` counts iterations (ANY, SAME) or tiles (TILES):

    ANY     a(c) before b(c + shift), in whatever tiles the two iterations are; shift >= 0
    SAME    a(c) before b(c + shift) if both are in one tile
    OUT     a(c) before the tile event b of its own tile
    IN      the tile event a before b in all iterations of the tile
    TILES   tile event a(t) before tile event b(t + shift)

Later instances of an event come after earlier ones, so a path of arcs orders all later instances of
its end, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import cached_property
from itertools import pairwise, product

from schedgen.program.model import (
    Arrive,
    Commit,
    Drain,
    Engine,
    Fence,
    FenceKind,
    Number,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
)
from schedgen.proof.steps import describe, fires_always, loop_distance, margins, section_of


class Form(Enum):
    ANY = auto()
    SAME = auto()
    OUT = auto()
    IN = auto()
    TILES = auto()


@dataclass(frozen=True, slots=True)
class Arc:
    dst: int
    form: Form
    shift: int
    why: str
    in_role: bool = False
    """Whether it is just the order of the steps of a role."""


@dataclass(frozen=True, slots=True)
class Event:
    """``part``: the step itself, or ``begin``, ``end`` or ``arrival`` of what it started.

    ``section``: before, loop, first, last or after; ``place`` orders the steps of a section.
    """

    role: str
    section: str
    place: int
    part: str
    step: Step | None

    @property
    def per_tile(self) -> bool:
        return self.section != "loop"

    @property
    def name(self) -> str:
        """What a person calls it."""
        text = "" if self.step is None else describe(self.step)
        what = {"begin": " begins", "end": " is done", "arrival": " arrives"}.get(self.part, "")
        return f"{self.role}: {text or self.part}{what if text else ''}"


class EventGraph:
    """All events of ``program``, and what orders them."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.events: list[Event] = []
        self.margins: list[tuple[int, int]] = []
        """Iterations at the start and the end of a tile in which an event may not happen."""
        self.arcs: list[list[Arc]] = []
        """What leads on to other events: work that is handed over, waits for it, signals."""
        self.in_role: list[list[Arc]] = []
        """The same along the order of a role. Only what it learned from others is passed on so."""
        self.learns: list[bool] = []
        self.in_role_at_times: list[list[Arc]] = []
        """Of these, the ones to steps of the loop that do not run in each iteration."""
        self.without: set[int] = set()
        """Events that are to be ignored: would the program do without them?"""
        self.last: list[list[tuple[int, Arc]]] = []
        """Event -> arcs into it from where, which lead nowhere else: a way may only end there."""
        self.of_role: dict[str, list[int]] = {}
        self.begins: dict[str, int] = {}
        self.ends: dict[str, int] = {}
        """Role -> the event before or after all that it does for a tile."""
        self.begin_of: dict[str, list[int]] = {}
        """Operation -> the events at which it begins to touch its operands."""
        self.end_of: dict[int, int] = {}
        """Begin -> end."""
        self.waits: dict[str, list[int]] = {}
        self.ahead: list[int] = []
        """Events that are no steps: what a wait has seen ahead is known there."""
        self.providers: dict[str, list[tuple[int, int, Number]]] = {}
        """Barrier -> (step, event that provides, number)."""
        for role in program.roles:
            self._add_role(role)
        for role in program.roles:
            self._order_role(role)
            self._order_engines(role)
        self._synchronize()
        self._starts: dict[int, int] = {}

    # -- events --------------------------------------------------------------------------------

    def _event(
        self, role: str, section: str, place: int, part: str, step: Step | None = None
    ) -> int:
        self.events.append(Event(role, section, place, part, step))
        self.margins.append(margins(section, step))
        self.arcs.append([])
        self.in_role.append([])
        self.in_role_at_times.append([])
        learns = step is None or isinstance(step.action, Wait | Drain)
        self.learns.append(learns or section in {"before", "after"})
        self.last.append([])
        return len(self.events) - 1

    def _arc(self, a: int, b: int, form: Form, shift: int = 0, why: str = "") -> None:
        in_role = why.startswith("order of")
        arc = Arc(b, form, shift, why, in_role)
        if in_role:
            if self._leads_on(b):
                self.in_role[a].append(arc)
                if self.margins[b] != (0, 0):
                    self.in_role_at_times[a].append(arc)
            else:
                self.last[b].append((a, arc))
        else:
            self.arcs[a].append(arc)

    def _leads_on(self, event: int) -> bool:
        """Whether anything follows an event that does not follow what comes before it, too."""
        step = self.events[event].step
        if self.events[event].section in {"before", "after"}:
            return True  # the steps outside of the loop are a chain
        if step is None or isinstance(step.action, Arrive | Commit):
            return True
        return (
            isinstance(step.action, Run)
            and self.program.operation[step.action.operation].engine.asynchronous
        )

    def _add_role(self, role: RoleProgram) -> None:
        self.begins[role.name] = self._event(role.name, "before", -1, "begin of tile")
        self.ends[role.name] = self._event(role.name, "after", 1 << 20, "end of tile")
        steps: list[int] = []
        for section, listed in (
            ("before", role.before),
            ("loop", role.loop),
            ("after", role.after),
        ):
            for place, step in enumerate(listed):
                number = self._event(role.name, section_of(section, step), place, "step", step)
                steps.append(number)
                self._attach(number, step)
            if section == "loop":
                steps.extend(self._seen_ahead(role))
        self.of_role[role.name] = steps

    def _seen_ahead(self, role: RoleProgram) -> Iterator[int]:
        """Events at which a wait that looks n iterations ahead has seen its own iteration.

        It has seen it n iterations before, or in the waits for the first n iterations of the tile.
        """
        for place, step in enumerate(role.loop):
            ahead, action = step.guard.high, step.action
            if step.guard.kind != "every" or not isinstance(action, Wait) or not ahead:
                continue
            number, seen = action.number, set[tuple[Number, int]]()
            for other in role.loop[:place]:
                early = other.action if other.guard.kind == "first" else None
                alike = isinstance(early, Wait) and early.barrier == action.barrier
                if isinstance(early, Wait) and alike and other.shift == step.shift:
                    seen.add((early.number, other.guard.low))
            first = number.moved(-ahead * number.scale)
            wanted = {(first.moved(k * number.scale), k + 1) for k in range(ahead)}
            if step.guard.low == 0 and wanted <= seen:
                known = Step(Wait(action.barrier, first), step.shift)
                event = self._event(role.name, "loop", place, "step", known)
                self.ahead.append(event)
                yield event

    def _attach(self, number: int, step: Step) -> None:
        """Notes what a step waits for or provides; asynchronous work gets events of its own."""
        event, action = self.events[number], step.action
        match action:
            case Wait():
                self.waits.setdefault(action.barrier, []).append(number)
            case Arrive():
                self._provides(action.barrier, number, number, action.number)
            case Commit():
                arrival = self._event(event.role, event.section, event.place, "arrival", step)
                self._follow(number, arrival, "the commit arrives after it was issued")
                self._provides(action.barrier, number, arrival, action.number)
            case Run():
                begin = end = number
                if self.program.operation[action.operation].engine.asynchronous:
                    begin = self._event(event.role, event.section, event.place, "begin", step)
                    end = self._event(event.role, event.section, event.place, "end", step)
                    self._follow(number, begin, "it begins after it was issued")
                    self._follow(begin, end, "it ends after it began")
                self.begin_of.setdefault(action.operation, []).append(begin)
                self.end_of[begin] = end
                # A copy of no bytes tells a barrier nothing.
                if action.barrier is not None and action.number is not None and action.bytes:
                    self._provides(action.barrier, number, end, action.number)
            case _:
                pass

    def start(self, wait: int) -> int:
        """The event at which a role comes to a wait; the wait itself is when it returns.

        It comes after what stands before the wait, but not after what that waits for.
        """
        if wait in self._starts:
            return self._starts[wait]
        event = self.events[wait]
        start = self._event(event.role, event.section, event.place, "start", event.step)
        self._starts[wait] = start
        mine = [self.begins[event.role], *self.of_role[event.role]]
        before = ((a, arc) for a in mine for arc in self.in_role[a])
        for a, arc in [*before, *self.last[wait]]:
            if arc.dst == wait:
                self.last[start].append((a, replace(arc, dst=start)))
        return start

    def _follow(self, a: int, b: int, why: str) -> None:
        """b happens in the same instance, after a."""
        self._arc(a, b, Form.TILES if self.events[a].per_tile else Form.ANY, 0, why)

    def _provides(self, barrier: str, step: int, event: int, number: Number) -> None:
        self.providers.setdefault(barrier, []).append((step, event, number))

    # -- order within a role -------------------------------------------------------------------

    def _order_role(self, role: RoleProgram) -> None:
        begin, end, why = self.begins[role.name], self.ends[role.name], f"order of {role.name}"
        self._arc(end, begin, Form.TILES, 1, f"next tile of {role.name}")
        steps = self.of_role[role.name]
        before = [begin, *(a for a in steps if self.events[a].section == "before")]
        after = [*(a for a in steps if self.events[a].section == "after"), end]
        for a, b in pairwise([*before, *after]):
            self._arc(a, b, Form.TILES, 0, why)
        loop = [a for a in steps if self.events[a].section not in {"before", "after"}]
        for a in loop:
            per_tile = self.events[a].per_tile
            self._arc(before[-1], a, Form.TILES if per_tile else Form.IN, 0, why)
            self._arc(a, after[0], Form.TILES if per_tile else Form.OUT, 0, why)
        ends = [b for b in loop if self._can_end(b)]
        for a, b in product(loop, ends):
            self.order(a, b, a, b, why)

    def _can_end(self, event: int) -> bool:
        """Whether it matters that something comes before this step."""
        action = self.step(event).action
        if isinstance(action, Fence):
            return action.kind in (FenceKind.TMEM_AFTER, FenceKind.REGISTERS)
        return not isinstance(action, Drain)

    def order(self, a: int, b: int, src: int, dst: int, why: str) -> None:
        """Arcs from ``src`` to ``dst`` wherever step a comes before step b in their role."""
        one, other = self.events[a], self.events[b]
        assert one.step is not None
        assert other.step is not None
        if one.per_tile and other.per_tile:
            if a != b and self._tile_order(one, other):
                self._arc(src, dst, Form.TILES, 0, why)
        elif one.per_tile:
            if one.section == "before" or (one.section == "first" and _earlier(one, other)):
                self._arc(src, dst, Form.IN, 0, why)
        elif other.per_tile:
            if other.section == "after" or (other.section == "last" and _earlier(one, other)):
                self._arc(src, dst, Form.OUT, 0, why)
        else:
            least = loop_distance(one.step, one.place, other.step, other.place)
            if a != b or src != dst or least > 0:
                self._arc(src, dst, Form.ANY, max(least, 0), why)
            if least < 0:
                self._arc(src, dst, Form.SAME, least, why)

    def _tile_order(self, one: Event, other: Event) -> bool:
        """Whether one comes before the other in every tile, whatever its trip count."""
        rank = {"before": 0, "first": 1, "last": 2, "after": 3}
        sections = rank[one.section], rank[other.section]
        if {one.section, other.section} <= {"first", "last"}:
            return sections[0] <= sections[1] and _earlier(one, other)
        if sections[0] == sections[1]:
            return one.place < other.place
        return sections[0] < sections[1]

    def _order_engines(self, role: RoleProgram) -> None:
        """In-order engines, and the commits and drains that know what they have finished."""
        runs: dict[Engine, list[int]] = {}
        for number in self.of_role[role.name]:
            step = self.events[number].step
            if step is not None and isinstance(step.action, Run):
                engine = self.program.operation[step.action.operation].engine
                if engine.asynchronous:
                    runs.setdefault(engine, []).append(number)
        for engine, numbers in runs.items():
            if engine is Engine.COPY_IN:
                continue
            for a, b in product(numbers, numbers):
                why, begin = f"the {engine} engine works in order", self.begin_event(b)
                # Copies run at the same time, but a drain counts them in the order of issue.
                then = self.end_of[begin] if engine is Engine.COPY_OUT else begin
                self.order(a, b, self.end_of[self.begin_event(a)], then, why)
            if engine is not Engine.COPY_OUT:
                self._order_tiles(role.name, numbers, f"the {engine} engine works in order")
        for number in self.of_role[role.name]:
            step = self.events[number].step
            assert step is not None
            if isinstance(step.action, Commit):
                for a in runs.get(Engine.TENSOR, []):
                    end = self.end_of[self.begin_event(a)]
                    self.order(a, number, end, number + 1, "a commit follows the queue")
            if isinstance(step.action, Drain):
                self._drain(number, step.action, runs)

    def _order_tiles(self, role: str, runs: list[int], why: str) -> None:
        """An in-order engine finishes what it got for one tile before it begins with the next."""
        done = self._event(role, "after", 1 << 20, "end of queue")
        begun = self._event(role, "before", -1, "begin of queue")
        self._arc(done, begun, Form.TILES, 1, why)
        self._arc(begun, done, Form.TILES, 0, why)
        for run in runs:
            begin, per_tile = self.begin_event(run), self.events[run].per_tile
            self._arc(self.end_of[begin], done, Form.TILES if per_tile else Form.OUT, 0, why)
            self._arc(begun, begin, Form.TILES if per_tile else Form.IN, 0, why)

    def begin_event(self, run: int) -> int:
        """The event at which the operation of the step ``run`` begins."""
        return run if run in self.end_of else run + 1

    def _drain(self, number: int, drain: Drain, runs: dict[Engine, list[int]]) -> None:
        engine = self.program.operation[drain.operation].engine
        mine, why = self.events[number], "a drain waits for what was issued"
        for a in runs.get(engine, []):
            event = self.events[a]
            assert event.step is not None
            assert isinstance(event.step.action, Run)
            if event.step.action.operation != drain.operation:
                continue
            # What the engine did before that operation is ordered by the engine itself.
            src = self.end_of[self.begin_event(a)]
            if event.per_tile and mine.per_tile:
                self.order(a, number, src, number, why)
            elif not event.per_tile and mine.per_tile:
                self._arc(src, number, Form.OUT, 0, why)
            elif not event.per_tile:
                assert mine.step is not None
                least = loop_distance(event.step, event.place, mine.step, mine.place)
                if drain.lag >= least:
                    form = Form.SAME if drain.lag else Form.ANY
                    self._arc(src, number, form, drain.lag, why)

    # -- order between roles -------------------------------------------------------------------

    def _synchronize(self) -> None:
        """A wait for number k happens after all that provides number k."""
        ahead: dict[str, list[int]] = {}
        for event in self.ahead:
            action = self.step(event).action
            assert isinstance(action, Wait)
            ahead.setdefault(action.barrier, []).append(event)
        for barrier, steps in self.waits.items():
            waits = [*steps, *ahead.get(barrier, [])]
            for wait, (step, event, given) in product(waits, self.providers.get(barrier, [])):
                action = self.step(wait).action
                assert isinstance(action, Wait)
                self._provide(step, event, given, wait, action.number, f"barrier {barrier}")

    def _provide(
        self, step: int, event: int, given: Number, wait: int, wanted: Number, why: str
    ) -> None:
        shift, remainder = divmod(given.offset - wanted.offset, wanted.scale)
        if given.scale != wanted.scale or given.per_tile != wanted.per_tile or remainder:
            return
        if not fires_always(self.step(step).guard, self.events[step].section, given):
            return
        if given.per_tile:
            if self.events[wait].per_tile and self.events[step].per_tile and shift >= 0:
                self._arc(event, wait, Form.TILES, shift, why)
        elif not self.events[step].per_tile and not self.events[wait].per_tile:
            guard = self.step(wait).guard
            if shift >= 0:
                self._arc(event, wait, Form.ANY, shift, why)
            elif guard.high >= -shift:
                self._arc(event, wait, Form.SAME, shift, why)

    # -- reading -------------------------------------------------------------------------------

    def step(self, number: int) -> Step:
        step = self.events[number].step
        assert step is not None
        return step

    @cached_property
    def operation_at(self) -> dict[int, str]:
        """Begin event -> operation."""
        return {begin: name for name, begins in self.begin_of.items() for begin in begins}

    def same_wait(self, ahead: int, event: int) -> bool:
        """Whether an event of `ahead` stands for what the wait ``event`` sees."""
        action, other = self.step(ahead).action, self.step(event).action
        if not isinstance(action, Wait) or not isinstance(other, Wait):
            return False
        role = self.events[ahead].role == self.events[event].role
        return role and action.barrier == other.barrier

    def place_of(self, event: int) -> tuple[str, str, tuple[int, int]]:
        """Role, section, and where in a turn of the loop: shift and place."""
        found = self.events[event]
        return found.role, found.section, (found.step.shift if found.step else 0, found.place)

    def loop_arcs(self) -> Iterator[tuple[int, Arc]]:
        """What orders the events of the loop; of the order of a role only from step to step."""
        for event, arcs in enumerate(self.arcs):
            if not self.events[event].per_tile:
                yield from ((event, a) for a in arcs if a.form in (Form.ANY, Form.SAME))
        for role, numbers in self.of_role.items():
            loop = [n for n in numbers if self.events[n].section == "loop"]
            loop.sort(key=lambda n: self.events[n].place)
            for a, b in zip(loop, [*loop[1:], *loop[:1]], strict=True):
                one, other = self.events[a], self.events[b]
                assert one.step is not None
                assert other.step is not None
                turn = 0 if one.place <= other.place and a != b and b != loop[0] else 1
                shift = one.step.shift - other.step.shift + turn
                yield a, Arc(b, Form.SAME, shift, f"order of {role}", True)

    def all_arcs(self) -> Iterator[tuple[int, Arc]]:
        """Every arc with the event that it starts from."""
        for lists in (self.arcs, self.in_role):
            for event, arcs in enumerate(lists):
                yield from ((event, arc) for arc in arcs)
        for arcs in self.last:
            yield from arcs


def _earlier(one: Event, other: Event) -> bool:
    """Whether one comes before the other in the turns of the loop, at the same iteration."""
    assert one.step is not None
    assert other.step is not None
    return (one.step.shift, one.place) < (other.step.shift, other.place)
