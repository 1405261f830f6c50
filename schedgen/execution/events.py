"""A program unrolled for given trip counts: every event that an execution of it consists of.

Three kinds of events: a step of a role; the completion of an asynchronous operation; the arrival
of a commit. Who wants to know when products read their operands asks for a fourth one, their begin,
which stands in the queue before the completion. An event can happen once all events that it needs
have happened, one in a queue moreover not before those ahead of it, a wait not before its barrier
says so.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from schedgen.program.model import (
    Action,
    Arrive,
    Commit,
    Program,
    RoleProgram,
    Run,
    Wait,
    WaitGroup,
)
from schedgen.program.operations import Engine, Number, TileOperation
from schedgen.program.sequence import Instance, sequence

BEFORE, LOOP, AFTER = range(3)
PRODUCTS = (Engine.TENSOR, Engine.WGMMA)
IN_ORDER = (*PRODUCTS, Engine.COPY_OUT)


@dataclass(frozen=True, slots=True)
class Signal:
    """What an event does to a barrier slot, or waits for: ``cell`` numbers the slots of all
    barriers, ``phase`` is the one that is meant.
    """

    barrier: str
    number: int
    cell: int
    phase: int
    count: int = 0
    expect_tx: int = 0
    delivered: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """``kind`` is step, begin, completion or arrival; ``position`` counts the steps of the role,
    events of one step share it.
    """

    kind: str
    role: str
    instance: Instance
    section: int
    position: int
    signal: Signal | None = None
    queue: int = -1
    """The in-order queue of a completion."""

    @property
    def action(self) -> Action:
        return self.instance.step.action

    @property
    def waits(self) -> bool:
        return self.kind == "step" and isinstance(self.action, Wait)


@dataclass
class Case:
    """A program with trip counts for its tiles, unrolled."""

    program: Program
    trips: tuple[int, ...]
    events: list[Event] = field(default_factory=list[Event])
    needs: list[int] = field(default_factory=list[int])
    """How many events each event needs to have happened."""
    then: list[list[int]] = field(default_factory=list[list[int]])
    """Which events need it."""
    roles: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    """The steps of each role."""
    completion: dict[int, int] = field(default_factory=dict[int, int])
    """Step that issues an asynchronous operation -> its completion."""
    begin: dict[int, int] = field(default_factory=dict[int, int])
    """Step that issues a product -> its begin, if there are such events."""
    queues: dict[tuple[str, ...], int] = field(default_factory=dict[tuple[str, ...], int])
    cells: dict[str, int] = field(default_factory=dict[str, int])
    """The first slot of each barrier, among the slots of all."""
    waits: dict[tuple[str, int], list[int]] = field(
        default_factory=lambda: defaultdict[tuple[str, int], list[int]](list)
    )
    """Waits for each number of a barrier."""
    signals: dict[tuple[str, int], list[int]] = field(
        default_factory=lambda: defaultdict[tuple[str, int], list[int]](list)
    )
    """Arrivals and deliveries for each number of a barrier."""

    def operation(self, event: int) -> TileOperation:
        action = self.events[event].action
        assert isinstance(action, Run)
        return self.program.operation[action.operation]

    def add(self, event: Event, *needed: int) -> int:
        index = len(self.events)
        self.events.append(event)
        self.needs.append(0)
        self.then.append([])
        if event.signal is not None:
            known = self.waits if event.waits else self.signals
            known[event.signal.barrier, event.signal.number].append(index)
        for cause in needed:
            self.need(index, cause)
        return index

    def need(self, event: int, cause: int) -> None:
        self.needs[event] += 1
        self.then[cause].append(event)


def unroll(program: Program, trips: Sequence[int], *, begins: bool = False) -> Case:
    """All events of ``program`` for tiles with these trip counts.

    ``begins``: products begin and complete in two events.
    """
    case = Case(program, tuple(trips))
    cells = 0
    for barrier in program.barriers:
        case.cells[barrier.name] = cells
        cells += barrier.slots
    for role in program.roles:
        _Unroller(case, role, begins).run()
    return case


def sections(role: RoleProgram, trips: Sequence[int]) -> Iterator[tuple[int, Instance]]:
    """The sequence of a role, each step with the section that it stands in."""
    tiles: dict[int, list[Instance]] = defaultdict(list)
    for instance in sequence(role, trips):
        tiles[instance.tile].append(instance)
    for steps in tiles.values():
        end = len(steps) - len(role.after)
        for place, instance in enumerate(steps):
            section = BEFORE if place < len(role.before) else LOOP if place < end else AFTER
            yield section, instance


class _Unroller:
    """Walks one role and adds its events to the case."""

    def __init__(self, case: Case, role: RoleProgram, begins: bool) -> None:
        self.case = case
        self.role = role
        self.begins = begins
        self.issued: dict[Engine, list[int]] = defaultdict(list)
        """Completions of what was issued so far, per engine."""
        self.runs: dict[tuple[str, int], list[tuple[int, int, int]]] = defaultdict(list)
        """Operation, tile -> section, iteration and completion of each run."""
        self.wait_groups: list[tuple[int, Event]] = []

    def run(self) -> None:
        steps = self.case.roles[self.role.name] = []
        for section, instance in sections(self.role, self.case.trips):
            signal = self._signal(instance)
            event = Event("step", self.role.name, instance, section, len(steps), signal)
            step = self.case.add(event, *steps[-1:])
            steps.append(step)
            match instance.step.action:
                case Run() as action:
                    self._issue(step, event, action)
                case Commit(barrier, number):
                    signal = self._signal_of(barrier, number, instance, count=1)
                    arrival = Event(
                        "arrival", self.role.name, instance, section, event.position, signal
                    )
                    self.case.add(arrival, step, *self.issued[Engine.TENSOR][-1:])
                case WaitGroup():
                    self.wait_groups.append((step, event))
                case _:
                    pass
        for step, event in self.wait_groups:
            for completion in self._awaited(event):
                self.case.need(step, completion)

    def _signal(self, instance: Instance) -> Signal | None:
        match instance.step.action:
            case Wait(barrier, number):
                return self._signal_of(barrier, number, instance)
            case Arrive(barrier, number, count, expect_tx):
                return self._signal_of(barrier, number, instance, count=count, expect_tx=expect_tx)
            case _:
                return None

    def _signal_of(
        self,
        barrier: str,
        number: Number,
        instance: Instance,
        *,
        count: int = 0,
        expect_tx: int = 0,
        delivered: int = 0,
    ) -> Signal:
        value = instance.number(number)
        phase, slot = divmod(value, self.case.program.barrier[barrier].slots)
        cell = self.case.cells[barrier] + slot
        return Signal(barrier, value, cell, phase, count, expect_tx, delivered)

    def _issue(self, step: int, event: Event, action: Run) -> None:
        engine = self.case.program.operation[action.operation].engine
        if not engine.asynchronous:
            return
        signal = None
        if action.barrier is not None and action.number is not None:
            signal = self._signal_of(
                action.barrier, action.number, event.instance, delivered=action.bytes
            )
        queue = -1
        if engine in IN_ORDER:
            # The tensor queue is one for all roles, the others are the role's own.
            key = (engine,) if engine is Engine.TENSOR else (engine, self.role.name)
            queue = self.case.queues.setdefault(key, len(self.case.queues))
        before = step
        if self.begins and engine in PRODUCTS:
            begin = replace(event, kind="begin", queue=queue)
            before = self.case.begin[step] = self.case.add(begin, step)
        done = replace(event, kind="completion", signal=signal, queue=queue)
        completion = self.case.completion[step] = self.case.add(done, before)
        self.issued[engine].append(completion)
        self.runs[action.operation, event.instance.tile].append(
            (event.section, event.instance.iteration, completion)
        )

    def _awaited(self, event: Event) -> list[int]:
        """The completions that a wait_group needs.

        In the loop that of iteration - lag, or none if there is no such run; outside, and for
        operations from outside, the last one that stands before the wait_group.
        """
        wait_group = event.action
        assert isinstance(wait_group, WaitGroup)
        runs = self.runs[wait_group.operation, event.instance.tile]
        looped = [(i, completion) for section, i, completion in runs if section == LOOP]
        if event.section == LOOP and looped:
            wanted = event.instance.iteration - wait_group.lag
            found = [completion for i, completion in looped if i == wanted]
        else:
            found = [
                completion
                for _, _, completion in runs
                if self.case.events[completion].position < event.position
            ]
        if not found:
            return []
        engine = self.case.program.operation[wait_group.operation].engine
        issued = self.issued[engine]
        if engine in IN_ORDER:
            return found[-1:]  # which comes after all before it
        return issued[: issued.index(found[-1]) + 1]
