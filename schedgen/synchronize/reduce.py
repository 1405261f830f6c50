"""Takes out of a synchronization, one after the other, what the rest makes superfluous.

What the order of each conflict rests on is known from the way that proves it, so taking a part out
puts only those in question whose ways lead through it.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedgen.ordering.conflicts import Conflict
from schedgen.ordering.orders import Orders
from schedgen.program.model import EVERY, FenceKind
from schedgen.synchronize.layout import Layout
from schedgen.synchronize.merge import separate
from schedgen.synchronize.parts import Fenced, Handoff, Part, Synchronization


def leave_out(
    layout: Layout, made: Synchronization, conflicts: Sequence[Conflict]
) -> Synchronization:
    """``made`` without the parts that ``conflicts`` can do without. All of them must be ordered."""
    return _Reduction(layout, made, conflicts).run()


class _Reduction:
    def __init__(
        self, layout: Layout, made: Synchronization, conflicts: Sequence[Conflict]
    ) -> None:
        self.layout = layout
        self.made = made
        self.conflicts = conflicts
        self.orders = Orders(layout.lay_out(made, separate(layout, made)))
        self.rests: list[set[int]] = []
        """Conflict -> the events that its order rests on."""
        self.needed_by: dict[int, set[int]] = {}
        """Event -> the conflicts that rest on it."""
        for number, conflict in enumerate(conflicts):
            self.rests.append(set())
            found = self._events(conflict)
            assert found is not None, f"nothing makes sure that {conflict.text}"
            self._rest(number, found)

    def run(self) -> Synchronization:
        left_out: set[int] = set()
        for part, events in self._parts():
            touched = sorted(
                self._touched(part, events), key=lambda n: (_far(part, self.conflicts[n]), n)
            )
            self.orders.leave_out(left_out | events)
            found: dict[int, set[int]] = {}
            for number in touched:
                way = self._events(self.conflicts[number])
                if way is None:
                    break
                found[number] = way
            else:
                left_out |= events
                self.made = self.made.without(part)
                for number, way in found.items():
                    self._rest(number, way)
        return self.made

    def _events(self, conflict: Conflict) -> set[int] | None:
        """Everything that the order of ``conflict`` rests on, None if nothing orders it."""
        ways = self.orders.ordered(conflict)
        if ways is None:
            return None
        return {event for way in ways for event in way.events()}

    def _rest(self, number: int, events: set[int]) -> None:
        for event in self.rests[number] - events:
            self.needed_by[event].discard(number)
        for event in events - self.rests[number]:
            self.needed_by.setdefault(event, set()).add(number)
        self.rests[number] = events

    def _touched(self, part: Part, events: set[int]) -> set[int]:
        """The conflicts whose order could be gone without ``part``."""
        if not isinstance(part, Fenced):
            return set[int]().union(*(self.needed_by.get(event, set()) for event in events))
        role, before = self.layout.role_of, part.operation
        if part.kind in (FenceKind.TMEM_AFTER, FenceKind.REGISTERS):
            mine = role[before]
            return {n for n, c in enumerate(self.conflicts) if role[c.after] == mine}
        return {n for n, c in enumerate(self.conflicts) if c.before == before}

    def _parts(self) -> list[tuple[Part, set[int]]]:
        """Everything that could be left out, with its events: hazards before data before fences."""
        hazards = [h for h in self.made.handoffs if not h.fills]
        data = [h for h in self.made.handoffs if h.fills]
        fences = [f for f in self.made.fences if not _of_registers(f)]
        parts: list[Part] = [*hazards[::-1], *data[::-1], *fences, *self.made.wait_groups]
        graph = self.orders.graph
        event_of = {
            id(event.step): n for n, event in enumerate(graph.events) if event.part == "step"
        }
        found: dict[Part, set[int]] = {}
        for step, part in self.layout.origin:
            event = event_of.get(id(step))
            if event is not None:
                same = (e for e in graph.ahead if graph.same_wait(e, event))
                found.setdefault(part, set()).update({event, *same})
        for part in parts:
            if part not in found:  # another part has the same step, and comes first
                self.made = self.made.without(part)
        return [(part, found[part]) for part in parts if part in found]


def _of_registers(fenced: Fenced) -> bool:
    """Whether a fence is for registers that threads touch in the loop: each product has its own,
    because compilers move registers between one that stands further ahead and the product.
    """
    return fenced.kind is FenceKind.REGISTERS and fenced.guard == EVERY


def _far(part: Part, conflict: Conflict) -> int:
    """Conflicts that a part was made for come first: they tell soonest that it is needed."""
    if isinstance(part, Handoff):
        return 2 - (part.signal.operation == conflict.before) - (part.target == conflict.after)
    name = part.operation if isinstance(part, Fenced) else part
    return 2 - (conflict.before == name) - (conflict.after == name)
