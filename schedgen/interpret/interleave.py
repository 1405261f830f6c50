"""One random execution of compiled role programs."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from random import Random

import torch

from schedgen.interpret.actions import (
    ARRIVE,
    COMMIT,
    DRAIN,
    EXECUTE,
    ISSUE,
    WAIT,
    Actions,
    describe_step,
)
from schedgen.interpret.instances import Instance
from schedgen.interpret.problem import InterpretationError
from schedgen.program.model import Engine

_PACES = (1.0, 1.0, 0.3, 0.05)
"""How willing an agent is to go on; a run draws one for each, so that some lag behind."""
_LAST = -1.0
"""The rank of what only goes on when nothing else can."""
_CHANGE = 0.02
"""How often an agent changes its rank, in runs where the highest ranking agent always goes on."""


class Interleaving:
    """The state of a run.

    Agents are numbered: roles, then in-order queues, then bulk copies by their instance. ``active``
    holds those that can go on.
    """

    def __init__(
        self,
        actions: Actions,
        instances: Sequence[Instance],
        cells: int,
        names: Sequence[str],
        random: Random,
    ) -> None:
        self._actions = actions
        self._instances = instances
        self._names = names
        self._random = random.random
        self._roles = len(actions.roles)
        self._copies = self._roles + actions.queues
        self._memory = [0] * cells
        self._uses = [0] * cells
        self._next = [0] * self._roles
        self._phase = [0] * len(actions.arrivals)
        self._pending = list(actions.arrivals)
        self._bytes = [0] * len(actions.arrivals)
        self._waiters: list[list[int]] = [[] for _ in actions.arrivals]
        self._drainers: dict[int, list[int]] = {}
        self._queues: list[deque[int]] = [deque() for _ in range(actions.queues)]
        self._begun: dict[int, tuple[tuple[int, ...], torch.Tensor | None]] = {}
        self._done: set[int] = set()
        self._commits: dict[int, list[int]] = {}
        self._active = list(range(self._roles))
        self._ranked = random.random() < 1 / 2
        agents = range(self._copies + len(instances))
        self._pace = [random.random() if self._ranked else random.choice(_PACES) for _ in agents]
        if self._ranked:
            groups = [[agent] for agent in range(self._copies)]
            groups += [[self._copies + n for n in copy] for copy in actions.copies.values()]
            for agent in random.choice(groups):
                self._pace[agent] = _LAST
        self._outputs: list[tuple[Instance, torch.Tensor]] = []

    def run(self) -> list[tuple[Instance, torch.Tensor]]:
        """Execute everything; return the tiles that went to global memory, in that order.

        Raises:
            InterpretationError: a deadlock, or a barrier that is not used as it can be.
        """
        for slot in range(len(self._phase)):
            self._complete_phases(slot)
        active = self._active
        while active:
            place = self._choose()
            agent = active[place]
            goes_on = self._step(agent) if agent < self._roles else self._progress(agent)
            if not goes_on:
                # Others may have become active meanwhile, but only behind this place.
                active[place] = active[-1]
                active.pop()
        self._check_finished()
        return self._outputs

    def _choose(self) -> int:
        """The place in ``active`` of who goes on.

        Half of the runs draw it, with agents more or less willing. The others go by rank, and one
        agent (or all copies of one operation) lags as far behind as waits allow, which finds a
        missing wait soon.
        """
        random, active, pace = self._random, self._active, self._pace
        if self._ranked:
            place = max(range(len(active)), key=lambda number: pace[active[number]])
            if random() < _CHANGE and pace[active[place]] != _LAST:
                pace[active[place]] = random()
            return place
        place = int(random() * len(active))
        while len(active) > 1 and random() > pace[active[place]]:
            place = int(random() * len(active))
        return place

    # -- roles ---------------------------------------------------------------------------------

    def _step(self, role: int) -> bool:
        """Execute a step of a role; whether it can go on."""
        actions = self._actions.roles[role]
        if self._next[role] == len(actions):
            return False
        kind, first, second, third = actions[self._next[role]]
        if kind == WAIT:
            if not self._passes(role, first, second):
                self._waiters[first].append(role)
                return False
        elif kind == ARRIVE:
            self._arrive(first, second, third)
        elif kind == EXECUTE:
            instance = self._instances[first]
            self._write(instance, *self._read(instance))
        elif kind == ISSUE:
            self._issue(first)
        elif kind == COMMIT:
            if second < 0 or second in self._done:
                self._arrive(first, 1, 0)
            else:
                self._commits.setdefault(second, []).append(first)
        elif kind == DRAIN:
            for number in self._actions.drained[first]:
                if number not in self._done:
                    self._drainers.setdefault(number, []).append(role)
                    return False
        self._next[role] += 1
        return True

    def _passes(self, role: int, slot: int, phase: int) -> bool:
        """Whether a wait succeeds: hardware sees no more than whether the phase is odd."""
        behind = self._phase[slot] - phase
        if behind in (0, 1):
            return behind == 1
        what = f"{self._actions.barriers[slot]} is in phase {self._phase[slot]}"
        raise InterpretationError(f"{self._where(role)} waits for phase {phase}, but {what}")

    def _issue(self, number: int) -> None:
        instance, queue = self._instances[number], self._actions.queue[number]
        if queue < 0:
            self._active.append(self._copies + number)
            if instance.operation.engine is Engine.COPY_IN:
                self._poison(instance)
            return
        self._queues[queue].append(number)
        if len(self._queues[queue]) == 1:
            self._active.append(self._roles + queue)

    # -- asynchronous operations ---------------------------------------------------------------

    def _progress(self, agent: int) -> bool:
        """Let an operation read its operands, or write its results; whether its agent goes on."""
        queue = agent - self._roles
        number = self._queues[queue][0] if agent < self._copies else agent - self._copies
        instance = self._instances[number]
        engine = instance.operation.engine
        result = self._begun.pop(number, None)
        if result is None:
            self._begun[number] = self._read(instance)
            self._poison(instance)
            if engine is Engine.COPY_OUT:
                self._finish(number)
            return True
        self._write(instance, *result)
        if engine is not Engine.COPY_OUT:
            self._finish(number)
        if agent >= self._copies:
            return False
        self._queues[queue].popleft()
        return bool(self._queues[queue])

    def _finish(self, number: int) -> None:
        """Make known what a drain, a commit or a barrier sees of the completion."""
        self._done.add(number)
        if number in self._actions.signal:
            slot, size = self._actions.signal[number]
            self._bytes[slot] -= size
            self._complete_phases(slot)
        for slot in self._commits.pop(number, ()):
            self._arrive(slot, 1, 0)
        self._active.extend(self._drainers.pop(number, ()))

    # -- barriers ------------------------------------------------------------------------------

    def _arrive(self, slot: int, count: int, size: int) -> None:
        self._bytes[slot] += size
        self._pending[slot] -= count
        if self._pending[slot] < 0:
            name = self._actions.barriers[slot]
            raise InterpretationError(
                f"more arrivals at {name} than phase {self._phase[slot]} takes"
            )
        self._complete_phases(slot)

    def _complete_phases(self, slot: int) -> None:
        skipped = self._actions.skipped[slot]
        while (not self._pending[slot] and not self._bytes[slot]) or self._phase[slot] in skipped:
            self._phase[slot] += 1
            self._pending[slot] = self._actions.arrivals[slot]
            self._active.extend(self._waiters[slot])
            self._waiters[slot].clear()

    # -- storage -------------------------------------------------------------------------------

    def _read(self, instance: Instance) -> tuple[tuple[int, ...], torch.Tensor | None]:
        """What an operation computes from what its cells hold; their contents get used up."""
        memory, uses = self._memory, self._uses
        contents = tuple([memory[cell] for cell in instance.reads])
        for cell in instance.reads:
            uses[cell] -= 1
            if not uses[cell]:
                memory[cell] = 0
        result = instance.known.get(contents)
        if result is None:
            result = instance.known[contents] = instance.compute(contents)
        return result

    def _write(
        self, instance: Instance, contents: tuple[int, ...], tile: torch.Tensor | None
    ) -> None:
        memory, uses = self._memory, self._uses
        for cell, content, count in zip(instance.writes, contents, instance.uses, strict=True):
            memory[cell] = content if count else 0
            uses[cell] = count
        if tile is not None:
            self._outputs.append((instance, tile))

    def _poison(self, instance: Instance) -> None:
        for cell in instance.writes:
            self._memory[cell] = 0

    # -- messages ------------------------------------------------------------------------------

    def _where(self, role: int) -> str:
        return describe_step(self._names[role], self._actions.steps[role][self._next[role]])

    def _check_finished(self) -> None:
        stuck = [
            self._where(role)
            for role in range(self._roles)
            if self._next[role] < len(self._actions.roles[role])
        ]
        if stuck:
            raise InterpretationError(f"deadlock: {'; '.join(stuck)}")
