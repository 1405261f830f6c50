"""What orders the events of a program: roles, engines, barriers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product

from schedgen.ordering.arcs import Event, Form
from schedgen.ordering.events import EventGraph
from schedgen.ordering.steps import fires_always, loop_distance
from schedgen.program.model import (
    Commit,
    Fence,
    FenceKind,
    Program,
    RoleProgram,
    Run,
    Wait,
    WaitGroup,
)
from schedgen.program.operations import Engine, Number
from schedgen.reasons import Reason, ReasonKind


def event_graph(program: Program) -> EventGraph:
    """The events of ``program`` with every arc that holds for all trip counts, tiles, latencies."""
    graph = EventGraph(program)
    ordering = _Ordering(graph)
    for role in program.roles:
        ordering.order_role(role)
        ordering.order_engines(role)
    ordering.synchronize()
    return graph


class _Ordering:
    def __init__(self, graph: EventGraph) -> None:
        self.graph = graph

    # -- order within a role -------------------------------------------------------------------

    def order_role(self, role: RoleProgram) -> None:
        begin, end, why = (
            self.graph.begins[role.name],
            self.graph.ends[role.name],
            Reason(ReasonKind.STEPS, (role.name,)),
        )
        again = Reason(ReasonKind.NEXT_TILE, (role.name,))
        self.graph.add_arc(end, begin, Form.TILES, 1, again)
        steps = self.graph.of_role[role.name]
        before = [begin, *(a for a in steps if self.graph.events[a].section == "before")]
        after = [*(a for a in steps if self.graph.events[a].section == "after"), end]
        for a, b in pairwise([*before, *after]):
            self.graph.add_arc(a, b, Form.TILES, 0, why)
        loop = [a for a in steps if self.graph.events[a].section not in {"before", "after"}]
        for a in loop:
            per_tile = self.graph.events[a].per_tile
            self.graph.add_arc(before[-1], a, Form.TILES if per_tile else Form.IN, 0, why)
            self.graph.add_arc(a, after[0], Form.TILES if per_tile else Form.OUT, 0, why)
        ends = [b for b in loop if self._can_end(b)]
        for a, b in product(loop, ends):
            self.order(a, b, a, b, why)

    def _can_end(self, event: int) -> bool:
        """Whether it matters that something comes before this step."""
        action = self.graph.step(event).action
        if isinstance(action, Fence):
            return action.kind in (FenceKind.TMEM_AFTER, FenceKind.REGISTERS)
        return not isinstance(action, WaitGroup)

    def order(self, a: int, b: int, src: int, dst: int, why: Reason) -> None:
        """Arcs from ``src`` to ``dst`` wherever step a comes before step b in their role."""
        one, other = self.graph.events[a], self.graph.events[b]
        assert one.step is not None
        assert other.step is not None
        if one.per_tile and other.per_tile:
            if a != b and self._tile_order(one, other):
                self.graph.add_arc(src, dst, Form.TILES, 0, why)
        elif one.per_tile:
            if one.section == "before" or (one.section == "first" and _earlier(one, other)):
                self.graph.add_arc(src, dst, Form.IN, 0, why)
        elif other.per_tile:
            if other.section == "after" or (other.section == "last" and _earlier(one, other)):
                self.graph.add_arc(src, dst, Form.OUT, 0, why)
        else:
            least = loop_distance(one.step, one.position, other.step, other.position)
            if a != b or src != dst or least > 0:
                self.graph.add_arc(src, dst, Form.ANY, max(least, 0), why)
            if least < 0:
                self.graph.add_arc(src, dst, Form.SAME, least, why)

    def _tile_order(self, one: Event, other: Event) -> bool:
        """Whether one comes before the other in every tile, whatever its trip count."""
        rank = {"before": 0, "first": 1, "last": 2, "after": 3}
        sections = rank[one.section], rank[other.section]
        if {one.section, other.section} <= {"first", "last"}:
            return sections[0] <= sections[1] and _earlier(one, other)
        if sections[0] == sections[1]:
            return one.position < other.position
        return sections[0] < sections[1]

    def order_engines(self, role: RoleProgram) -> None:
        """In-order engines, and the commits and wait_groups that know what they have finished."""
        runs: dict[Engine, list[int]] = {}
        for number in self.graph.of_role[role.name]:
            step = self.graph.events[number].step
            if step is not None and isinstance(step.action, Run):
                engine = self.graph.program.operation[step.action.operation].engine
                if engine.asynchronous:
                    runs.setdefault(engine, []).append(number)
        for engine, numbers in runs.items():
            if engine is Engine.COPY_IN:
                continue
            why = Reason(ReasonKind.QUEUE, (engine.value,))
            for a, b in self._nearest(numbers, numbers):
                begin = self.graph.begin_event(b)
                # Copies run at the same time, but a wait_group counts them in the order of issue.
                then = self.graph.end_of[begin] if engine is Engine.COPY_OUT else begin
                self.order(a, b, self.graph.end_of[self.graph.begin_event(a)], then, why)
            if engine is not Engine.COPY_OUT:
                self._order_tiles(role.name, numbers, why)
        steps = [(n, self.graph.step(n).action) for n in self.graph.of_role[role.name]]
        commits = [number for number, action in steps if isinstance(action, Commit)]
        for number, a in self._nearest(commits, runs.get(Engine.TENSOR, []), before=True):
            end = self.graph.end_of[self.graph.begin_event(a)]
            self.order(a, number, end, number + 1, Reason(ReasonKind.COMMIT_ORDER))
        for number, action in steps:
            if isinstance(action, WaitGroup):
                self._wait_group(number, action, runs)

    def _nearest(
        self, steps: list[int], queue: list[int], *, before: bool = False
    ) -> Iterator[tuple[int, int]]:
        """Each step with those of a queue that come right after it, or before it.

        What the queue does further away is ordered by the queue: steps of one section and one shift
        follow each other in every turn of the loop, so the next one and the first of each such
        group stand for all, up to the first that certainly happens.
        """
        groups: dict[tuple[str, int], list[int]] = {}
        for number in queue:
            _, section, (shift, _) = self.graph.where[number]
            groups.setdefault((section, shift), []).append(number)
        for group in groups.values():
            group.sort(key=lambda n: self.graph.events[n].position, reverse=before)
            positions = [self.graph.events[n].position for n in group]
            for step in steps:
                mine = self.graph.events[step].position
                beyond = (p < mine if before else p > mine for p in positions)
                first = next((n for n, further in enumerate(beyond) if further), 0)
                found = {*self._up_to_certain(group[first:]), *self._up_to_certain(group)}
                yield from ((step, number) for number in sorted(found))

    def _up_to_certain(self, numbers: list[int]) -> Iterator[int]:
        for number in numbers:
            yield number
            if self.graph.margins[number] == (0, 0):
                return

    def _order_tiles(self, role: str, runs: list[int], why: Reason) -> None:
        """An in-order engine finishes what it got for one tile before it begins with the next."""
        done = self.graph.add_event(role, "after", 1 << 20, "end of queue")
        begun = self.graph.add_event(role, "before", -1, "begin of queue")
        self.graph.add_arc(done, begun, Form.TILES, 1, why)
        self.graph.add_arc(begun, done, Form.TILES, 0, why)
        for run in runs:
            begin, per_tile = self.graph.begin_event(run), self.graph.events[run].per_tile
            self.graph.add_arc(
                self.graph.end_of[begin], done, Form.TILES if per_tile else Form.OUT, 0, why
            )
            self.graph.add_arc(begun, begin, Form.TILES if per_tile else Form.IN, 0, why)

    def _wait_group(
        self, number: int, wait_group: WaitGroup, runs: dict[Engine, list[int]]
    ) -> None:
        engine = self.graph.program.operation[wait_group.operation].engine
        mine, why = self.graph.events[number], Reason(ReasonKind.WAIT_GROUP)
        for a in runs.get(engine, []):
            event = self.graph.events[a]
            assert event.step is not None
            assert isinstance(event.step.action, Run)
            if event.step.action.operation != wait_group.operation:
                continue
            # What the engine did before that operation is ordered by the engine itself.
            src = self.graph.end_of[self.graph.begin_event(a)]
            if event.per_tile and mine.per_tile:
                self.order(a, number, src, number, why)
            elif not event.per_tile and mine.per_tile:
                self.graph.add_arc(src, number, Form.OUT, 0, why)
            elif not event.per_tile:
                assert mine.step is not None
                least = loop_distance(event.step, event.position, mine.step, mine.position)
                if wait_group.lag >= least:
                    form = Form.SAME if wait_group.lag else Form.ANY
                    self.graph.add_arc(src, number, form, wait_group.lag, why)

    # -- order between roles -------------------------------------------------------------------

    def synchronize(self) -> None:
        """A wait for number k happens after all that provides number k."""
        ahead: dict[str, list[int]] = {}
        for event in self.graph.ahead:
            action = self.graph.step(event).action
            assert isinstance(action, Wait)
            ahead.setdefault(action.barrier, []).append(event)
        for barrier, steps in self.graph.waits.items():
            waits = [*steps, *ahead.get(barrier, [])]
            why = Reason(ReasonKind.BARRIER, (barrier,))
            for wait, (step, event, given) in product(waits, self.graph.providers.get(barrier, [])):
                action = self.graph.step(wait).action
                assert isinstance(action, Wait)
                self._provide(step, event, given, wait, action.number, why)

    def _provide(
        self, step: int, event: int, given: Number, wait: int, wanted: Number, why: Reason
    ) -> None:
        shift, remainder = divmod(given.offset - wanted.offset, wanted.scale)
        if given.scale != wanted.scale or given.per_tile != wanted.per_tile or remainder:
            return
        if not fires_always(self.graph.step(step).guard, self.graph.events[step].section, given):
            return
        if given.per_tile:
            if self.graph.events[wait].per_tile and self.graph.events[step].per_tile and shift >= 0:
                self.graph.add_arc(event, wait, Form.TILES, shift, why)
        elif not self.graph.events[step].per_tile and not self.graph.events[wait].per_tile:
            guard = self.graph.step(wait).guard
            if shift >= 0:
                self.graph.add_arc(event, wait, Form.ANY, shift, why)
            elif guard.high >= -shift:
                self.graph.add_arc(event, wait, Form.SAME, shift, why)


def _earlier(one: Event, other: Event) -> bool:
    """Whether one comes before the other in the turns of the loop, at the same iteration."""
    assert one.step is not None
    assert other.step is not None
    return (one.step.shift, one.position) < (other.step.shift, other.position)
