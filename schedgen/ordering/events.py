"""The periodic event graph of a program: its events, and lists of the arcs between them.

`schedgen.ordering.arcs` says what events and arcs are, `schedgen.ordering.graph` which arcs there
are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from schedgen.ordering.arcs import Arc, Event, Form
from schedgen.ordering.steps import margins, section_of
from schedgen.program.model import (
    Arrive,
    Commit,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
    WaitGroup,
    When,
)
from schedgen.program.operations import Number
from schedgen.reasons import Reason, ReasonKind


class EventGraph:
    """All events of ``program``, and what orders them: `schedgen.ordering.graph` adds that."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.events: list[Event] = []
        self.margins: list[tuple[int, int]] = []
        """Iterations at the start and the end of a tile in which an event may not happen."""
        self.conditional: list[bool] = []
        """Whether there are any."""
        self.where: list[tuple[str, str, tuple[int, int]]] = []
        """Role, section, and where in a turn of the loop: shift and position."""
        self.arcs: list[list[Arc]] = []
        """What leads on to other events: work that is handed over, waits for it, signals."""
        self.in_role: list[list[Arc]] = []
        """The same along the order of a role. Only what it learned from others is passed on so."""
        self.learns: list[bool] = []
        self.in_role_at_times: list[list[Arc]] = []
        """Of these, the ones to steps of the loop that do not run in each iteration."""
        self.without: set[int] = set()
        """Events that are to be ignored: would the program do without them?"""
        self._leads_on: list[bool] = []
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
        self._starts: dict[int, int] = {}

    # -- events --------------------------------------------------------------------------------

    def add_event(
        self, role: str, section: str, position: int, part: str, step: Step | None = None
    ) -> int:
        self.events.append(Event(role, section, position, part, step))
        self.margins.append(margins(section, step))
        self.conditional.append(self.margins[-1] != (0, 0))
        self.where.append((role, section, (step.shift if step else 0, position)))
        self.arcs.append([])
        self.in_role.append([])
        self.in_role_at_times.append([])
        learns = step is None or isinstance(step.action, Wait | WaitGroup)
        self.learns.append(learns or section in {"before", "after"})
        self.last.append([])
        self._leads_on.append(self._whether_it_leads_on(section, step))
        return len(self.events) - 1

    def add_arc(self, a: int, b: int, form: Form, shift: int, why: Reason) -> None:
        arc = Arc(b, form, shift, why)
        if arc.in_role:
            if self._leads_on[b]:
                self.in_role[a].append(arc)
                if self.conditional[b]:
                    self.in_role_at_times[a].append(arc)
            else:
                self.last[b].append((a, arc))
        else:
            self.arcs[a].append(arc)

    def _whether_it_leads_on(self, section: str, step: Step | None) -> bool:
        """Whether anything follows an event that does not follow what comes before it, too."""
        if section in {"before", "after"}:
            return True  # the steps outside of the loop are a chain
        if step is None or isinstance(step.action, Arrive | Commit):
            return True
        return (
            isinstance(step.action, Run)
            and self.program.operation[step.action.operation].engine.asynchronous
        )

    def _add_role(self, role: RoleProgram) -> None:
        self.begins[role.name] = self.add_event(role.name, "before", -1, "begin of tile")
        self.ends[role.name] = self.add_event(role.name, "after", 1 << 20, "end of tile")
        steps: list[int] = []
        for section, listed in (
            ("before", role.before),
            ("loop", role.loop),
            ("after", role.after),
        ):
            for position, step in enumerate(listed):
                number = self.add_event(
                    role.name, section_of(section, step), position, "step", step
                )
                steps.append(number)
                self._attach(number, step)
            if section == "loop":
                steps.extend(self._seen_ahead(role))
        self.of_role[role.name] = steps

    def _seen_ahead(self, role: RoleProgram) -> Iterator[int]:
        """Events at which a wait that looks n iterations ahead has seen its own iteration.

        It has seen it n iterations before, or in the waits for the first n iterations of the tile.
        """
        for position, step in enumerate(role.loop):
            ahead, action = step.guard.high, step.action
            if step.guard.kind is not When.EVERY or not isinstance(action, Wait) or not ahead:
                continue
            number, seen = action.number, set[tuple[Number, int]]()
            for other in role.loop[:position]:
                early = other.action if other.guard.kind is When.FIRST else None
                alike = isinstance(early, Wait) and early.barrier == action.barrier
                if isinstance(early, Wait) and alike and other.shift == step.shift:
                    seen.add((early.number, other.guard.low))
            first = number.moved(-ahead * number.scale)
            wanted = {(first.moved(k * number.scale), k + 1) for k in range(ahead)}
            if step.guard.low == 0 and wanted <= seen:
                known = Step(Wait(action.barrier, first), step.shift)
                event = self.add_event(role.name, "loop", position, "step", known)
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
                arrival = self.add_event(event.role, event.section, event.position, "arrival", step)
                self._follow(number, arrival, ReasonKind.COMMIT_DONE)
                self._provides(action.barrier, number, arrival, action.number)
            case Run():
                begin = end = number
                if self.program.operation[action.operation].engine.asynchronous:
                    begin = self.add_event(event.role, event.section, event.position, "begin", step)
                    end = self.add_event(event.role, event.section, event.position, "end", step)
                    self._follow(number, begin, ReasonKind.BEGINS)
                    self._follow(begin, end, ReasonKind.ENDS)
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
        start = self.add_event(event.role, event.section, event.position, "start", event.step)
        self._starts[wait] = start
        for a, arc in [*self._before.get(wait, []), *self.last[wait]]:
            self.last[start].append((a, replace(arc, dst=start)))
        return start

    @cached_property
    def _before(self) -> dict[int, list[tuple[int, Arc]]]:
        """Event -> what comes before it in its role, where anything follows it."""
        found: dict[int, list[tuple[int, Arc]]] = {}
        for a, arcs in enumerate(self.in_role):
            for arc in arcs:
                found.setdefault(arc.dst, []).append((a, arc))
        return found

    def _follow(self, a: int, b: int, kind: ReasonKind) -> None:
        """b happens in the same instance, after a."""
        form = Form.TILES if self.events[a].per_tile else Form.ANY
        self.add_arc(a, b, form, 0, Reason(kind))

    def _provides(self, barrier: str, step: int, event: int, number: Number) -> None:
        self.providers.setdefault(barrier, []).append((step, event, number))

    # -- reading -------------------------------------------------------------------------------

    def step(self, number: int) -> Step:
        step = self.events[number].step
        assert step is not None
        return step

    def begin_event(self, run: int) -> int:
        """The event at which the operation of the step ``run`` begins: made right after it."""
        return run if run in self.end_of else run + 1

    def issue_event(self, begin: int) -> int:
        """The step that issues what begins at the event ``begin``: the same one for threads."""
        return begin if self.events[begin].part == "step" else begin - 1

    def same_wait(self, ahead: int, event: int) -> bool:
        """Whether an event of `ahead` stands for what the wait ``event`` sees."""
        action, other = self.step(ahead).action, self.step(event).action
        if not isinstance(action, Wait) or not isinstance(other, Wait):
            return False
        role = self.events[ahead].role == self.events[event].role
        return role and action.barrier == other.barrier

    def loop_arcs(self) -> Iterator[tuple[int, Arc]]:
        """What orders the events of the loop; of the order of a role only from step to step."""
        for event, arcs in enumerate(self.arcs):
            if not self.events[event].per_tile:
                yield from ((event, a) for a in arcs if a.form in (Form.ANY, Form.SAME))
        for role, numbers in self.of_role.items():
            loop = [n for n in numbers if self.events[n].section == "loop"]
            why = Reason(ReasonKind.STEPS, (role,))
            loop.sort(key=lambda n: self.events[n].position)
            for a, b in zip(loop, [*loop[1:], *loop[:1]], strict=True):
                one, other = self.events[a], self.events[b]
                assert one.step is not None
                assert other.step is not None
                turn = 0 if one.position <= other.position and a != b and b != loop[0] else 1
                shift = one.step.shift - other.step.shift + turn
                yield a, Arc(b, Form.SAME, shift, why)

    def all_arcs(self) -> Iterator[tuple[int, Arc]]:
        """Every arc with the event that it starts from."""
        for lists in (self.arcs, self.in_role):
            for event, arcs in enumerate(lists):
                yield from ((event, arc) for arc in arcs)
        for arcs in self.last:
            yield from arcs
