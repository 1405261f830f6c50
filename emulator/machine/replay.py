"""A schedule as what it differs in from round-robin, to be executed again, whole or in part.

A policy chooses one of those that can go on, again and again. What it chooses is written down as
who was passed over: somebody who would have been next in round-robin does not get a turn before
somebody else has had one. Such a delay means the same when others are taken away, which the number
of a choice does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from schedgen.emulator.machine.operations import Operation
from schedgen.emulator.machine.policies import Policy, RoundRobin
from schedgen.emulator.machine.warp import Warp

_PATIENT = 1024
"""Turns without an event after which nobody is held: the others may spin for them."""
WARP = -1
"""In place of a line: a warp itself."""
ENDED = -2
"""In place of a line: behind the last one."""


class Agent(NamedTuple):
    """A warp, by its number in the launch, or an operation of it: the line of PTX that issued it
    and how many of that line could execute before."""

    warp: int
    line: int = WARP
    ordinal: int = 0


class Delay(NamedTuple):
    """``agent`` does not get turn number ``turn``, from 0, before ``until`` has had ``turns``."""

    agent: Agent
    turn: int
    until: Agent
    turns: int


class Early(NamedTuple):
    """In turn number ``turn`` of a warp its wait number ``query`` returns without success."""

    warp: int
    turn: int
    query: int


Deviation = Delay | Early


@dataclass(frozen=True)
class Schedule:
    """Round-robin, but for some deviations.

    Attributes:
        quantum, clusters, stops: as of a `policies.Policy`.
        deviations: in the order in which they were met.
    """

    quantum: int = RoundRobin().quantum
    clusters: int = RoundRobin().clusters
    deviations: tuple[Deviation, ...] = ()
    stops: frozenset[int] = frozenset()

    @property
    def plain(self) -> bool:
        """Whether it is round-robin."""
        return self == Schedule()


class _Turns:
    """Who had how many turns, and who operations are."""

    def __init__(self) -> None:
        self.turns: Counter[Agent] = Counter()
        self.current = Agent(-1)
        self.query = 0
        self._names: dict[int, Agent] = {}
        self._admitted: Counter[tuple[int, int]] = Counter()

    def admit(self, operation: Operation) -> None:
        key = operation.issuer.number, operation.line
        self._names[id(operation)] = Agent(*key, self._admitted[key])
        self._admitted[key] += 1

    def order(
        self, ready: Sequence[Warp], pending: Sequence[Operation]
    ) -> list[tuple[Agent, int, Warp | None]]:
        """Who can go on with the policy's index of each, as round-robin would take them."""
        operations = [
            (self._names[id(one)], len(ready) + at, None) for at, one in enumerate(pending)
        ]
        return [*operations, *((Agent(w.number), at, w) for at, w in enumerate(ready))]

    def take(self, agent: Agent) -> None:
        self.turns[agent] += 1
        self.current, self.query = agent, 0


class Recording:
    """Does what another policy does and writes it down."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.quantum = policy.quantum
        self.clusters = policy.clusters
        self.stops = policy.stops
        self.together = False
        self._state = _Turns()
        self._delays: dict[tuple[Agent, int], tuple[Agent, int]] = {}
        self._early: list[Early] = []

    @property
    def schedule(self) -> Schedule:
        """What was done so far."""
        delays = [Delay(*held, *until) for held, until in self._delays.items()]
        return Schedule(self.quantum, self.clusters, (*delays, *self._early), self.stops)

    def pick(self, ready: Sequence[Warp], pending: Sequence[Operation]) -> int:
        choice = self._policy.pick(ready, pending)
        state = self._state
        order = state.order(ready, pending)
        chosen = next(agent for agent, at, _ in order if at == choice)
        until = chosen, state.turns[chosen] + 1
        for agent, at, _ in order:
            if at == choice:
                break
            self._delays[agent, state.turns[agent]] = until
        state.take(chosen)
        return choice

    def admit(self, operation: Operation) -> None:
        self._state.admit(operation)
        self._policy.admit(operation)

    def spurious(self) -> bool:
        early = self._policy.spurious()
        state = self._state
        if early:
            turn = state.turns[state.current] - 1
            self._early.append(Early(state.current.warp, turn, state.query))
        state.query += 1
        return early


class Replayed:
    """Executes a schedule.

    Attributes:
        held: for delays that came about the line of PTX that the warp was held at, and the one
            that the other warp had come to then; 0 for operations, `ENDED` for warps at their end.
    """

    def __init__(self, schedule: Schedule, name: str = "the schedule of a finding") -> None:
        self.quantum = schedule.quantum
        self.clusters = schedule.clusters
        self.stops = schedule.stops
        self.together = False
        self.held: dict[Delay, list[int]] = {}
        self._name = name
        self._state = _Turns()
        self._delays = {
            (one.agent, one.turn): one for one in schedule.deviations if isinstance(one, Delay)
        }
        self._early = {one for one in schedule.deviations if isinstance(one, Early)}
        self._active: list[Delay] = []
        self._warps: dict[int, Warp] = {}
        self._events = -1
        self._idle = 0

    def pick(self, ready: Sequence[Warp], pending: Sequence[Operation]) -> int:
        state = self._state
        order = state.order(ready, pending)
        for warp in ready:
            self._warps[warp.number] = warp
        self._end()
        patient = self._patient(ready)
        free = (one for one in order if not (patient and self._holds(one[0], one[2])))
        agent, at, _ = next(free, order[0])
        state.take(agent)
        return at

    def admit(self, operation: Operation) -> None:
        self._state.admit(operation)

    def spurious(self) -> bool:
        state = self._state
        turn = state.turns[state.current] - 1
        state.query += 1
        return Early(state.current.warp, turn, state.query - 1) in self._early

    def __repr__(self) -> str:
        return self._name

    def _holds(self, agent: Agent, warp: Warp | None) -> bool:
        turns = self._state.turns
        delay = self._delays.get((agent, turns[agent]))
        if delay is None or turns[delay.until] >= delay.turns:
            return False
        if delay not in self.held:
            self.held[delay] = [_line(warp), 0]
            self._active.append(delay)
        return True

    def _end(self) -> None:
        """Notes where those that others were held for have come to."""
        turns = self._state.turns
        for delay in self._active:
            if turns[delay.until] >= delay.turns and delay.until.line == WARP:
                self.held[delay][1] = _line(self._warps.get(delay.until.warp))
        self._active = [one for one in self._active if turns[one.until] < one.turns]

    def _patient(self, ready: Sequence[Warp]) -> bool:
        if not ready:
            return True
        events = ready[0].machine.events
        self._idle = self._idle + 1 if events == self._events else 0
        self._events = events
        return self._idle < _PATIENT


def _line(warp: Warp | None) -> int:
    """The line that a warp goes on with; 0 if nothing is known of it."""
    if warp is None:
        return 0
    if warp.finished:
        return ENDED
    at = next((group.pc for group in warp.groups), None)
    return 0 if at is None else warp.program.kernel.body[at].line
