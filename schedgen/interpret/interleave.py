"""One random execution of a program on values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from random import Random
from typing import NamedTuple

import torch

from schedgen.execution.describe import describe
from schedgen.execution.events import Case
from schedgen.execution.machine import Machine, Problem, Setup, Trouble
from schedgen.interpret.instances import Instance
from schedgen.interpret.problem import InterpretationError
from schedgen.program.model import Run
from schedgen.program.operations import Engine

_PACES = (1.0, 1.0, 0.3, 0.05)
"""How willing an agent is to go on; a run draws one for each, so that some lag behind."""
_LAST = -1.0
"""The rank of what only goes on when nothing else can."""
_CHANGE = 0.02
"""How often an agent changes its rank, in runs where the highest ranking agent always goes on."""


class Deed(Enum):
    """What an event does to storage."""

    EXECUTE = "reads and writes"
    READ = "reads, and leaves poison until it writes"
    WRITE = "writes what it computed when it read"
    POISON = "leaves poison"


class Effect(NamedTuple):
    """What an event does with an instance."""

    deed: Deed
    instance: Instance


Effects = Mapping[int, Effect]
"""By event; the others touch nothing."""


def effects(case: Case, instances: Mapping[tuple[str, int, int], Instance]) -> Effects:
    """What each event of a case with begins does.

    Threads execute at their step. A product reads at its begin and writes at its completion. What a
    copy from global memory writes is poison from its issue to its completion; one to global memory
    may read until it is complete.

    Raises:
        InterpretationError: the roles do not execute each instance exactly once.
    """
    found: dict[int, Effect] = {}
    run: set[int] = set()
    for role, steps in case.roles.items():
        for step in steps:
            event = case.events[step]
            if not isinstance(event.action, Run):
                continue
            looped = (event.action.operation, event.instance.tile, event.instance.iteration)
            at = looped if looped in instances else (*looped[:2], 0)
            instance = instances.get(at)
            if instance is None or instance.number in run:
                problem = "twice" if instance is not None else "beyond its trip count"
                raise InterpretationError(f"role {role} runs {_text(looped)} {problem}")
            run.add(instance.number)
            for index, deed in _deeds(case, step, instance.operation.engine):
                found[index] = Effect(deed, instance)
    for at, instance in instances.items():
        if instance.number not in run:
            raise InterpretationError(f"no role runs {_text(at)}")
    return found


def _deeds(case: Case, step: int, engine: Engine) -> Iterator[tuple[int, Deed]]:
    if not engine.asynchronous:
        yield step, Deed.EXECUTE
    elif step in case.begin:
        yield case.begin[step], Deed.READ
        yield case.completion[step], Deed.WRITE
    else:
        if engine is Engine.COPY_IN:
            yield step, Deed.POISON
        yield case.completion[step], Deed.EXECUTE


def _text(at: tuple[str, int, int]) -> str:
    return f"{at[0]} of tile {at[1]}, iteration {at[2]},"


class Agents:
    """Who makes each event happen: roles, in-order queues, and each bulk copy for itself.

    Attributes:
        of: by event, the number of its agent.
        groups: agents that lag together: one, or all bulk copies of an operation.
    """

    def __init__(self, case: Case) -> None:
        roles = {role: number for number, role in enumerate(case.roles)}
        queues = len(roles)
        copies: dict[str, list[int]] = {}
        self.count = queues + len(case.queues)
        self.of: list[int] = []
        for event in case.events:
            if event.kind != "step" and event.queue >= 0:
                agent = queues + event.queue
            elif event.kind == "completion" and isinstance(event.action, Run):
                agent = self.count
                copies.setdefault(event.action.operation, []).append(agent)
                self.count += 1
            else:
                agent = roles[event.role]
            self.of.append(agent)
        alone = range(queues + len(case.queues))
        self.groups = [*([agent] for agent in alone), *copies.values()]


class Pace:
    """Which of the agents that can go on does so.

    Half of the runs draw it, with agents more or less willing. The others go by rank, and one agent
    (or all copies of one operation) lags as far behind as waits allow, which finds a missing wait
    soon.
    """

    def __init__(self, agents: Agents, random: Random) -> None:
        self._of = agents.of
        self._random = random.random
        self._ranked = random.random() < 1 / 2
        self._pace = [
            random.random() if self._ranked else random.choice(_PACES) for _ in range(agents.count)
        ]
        if self._ranked:
            for agent in random.choice(agents.groups):
                self._pace[agent] = _LAST

    def choose(self, ready: Sequence[int]) -> int:
        """The place in ``ready``, a list of events, of the one that happens."""
        random, of, pace = self._random, self._of, self._pace
        if self._ranked:
            place = max(range(len(ready)), key=lambda number: pace[of[ready[number]]])
            agent = of[ready[place]]
            if random() < _CHANGE and pace[agent] != _LAST:
                pace[agent] = random()
            return place
        place = int(random() * len(ready))
        while len(ready) > 1 and random() > pace[of[ready[place]]]:
            place = int(random() * len(ready))
        return place


class Values:
    """What cells hold: numbers of contents, 0 where there is none that could be read.

    Attributes:
        outputs: the tiles that went to global memory, in that order.
    """

    def __init__(self, cells: int) -> None:
        self._memory = [0] * cells
        self._uses = [0] * cells
        self._begun: dict[int, tuple[tuple[int, ...], torch.Tensor | None]] = {}
        self.outputs: list[tuple[Instance, torch.Tensor]] = []

    def happen(self, effect: Effect) -> None:
        """Lets an event have its effect."""
        deed, instance = effect
        if deed is Deed.EXECUTE:
            self._write(instance, *self._read(instance))
        elif deed is Deed.READ:
            self._begun[instance.number] = self._read(instance)
            self._poison(instance)
        elif deed is Deed.WRITE:
            self._write(instance, *self._begun.pop(instance.number))
        else:
            self._poison(instance)

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
            self.outputs.append((instance, tile))

    def _poison(self, instance: Instance) -> None:
        for cell in instance.writes:
            self._memory[cell] = 0


def interleaved(
    setup: Setup, effects: Effects, agents: Agents, cells: int, random: Random
) -> list[tuple[Instance, torch.Tensor]]:
    """Executes everything once; the tiles that went to global memory, in that order.

    Raises:
        InterpretationError: a deadlock, or a barrier that is not used as it can be.
    """
    machine, pace, values = Machine(setup), Pace(agents, random), Values(cells)
    ready = machine.ready
    while ready:
        place = pace.choose(ready)
        event = ready[place]
        ready[place] = ready[-1]
        ready.pop()
        machine.fire(event)
        effect = effects.get(event)
        if effect is not None:
            values.happen(effect)
        if machine.problems:
            _check(setup.case, machine.problems)
    if not machine.finished:
        raise InterpretationError(f"deadlock: {'; '.join(_stuck(setup.case, machine))}")
    return values.outputs


def _check(case: Case, problems: Sequence[Problem]) -> None:
    """Raises for the first problem after which the hardware does something else than was meant."""
    for trouble, index, phase in problems:
        signal = case.events[index].signal
        if trouble is Trouble.UNSEEN or signal is None:
            continue  # against the rules, but what happens is what was meant
        slot = f"{signal.barrier} {signal.cell - case.cells[signal.barrier]}"
        where = describe(case, index)
        if trouble is Trouble.SURPLUS:
            raise InterpretationError(f"more arrivals at {slot} than phase {phase} takes: {where}")
        raise InterpretationError(
            f"{where}, phase {signal.phase}, but {slot} is in phase {phase}: {trouble.value}"
        )


def _stuck(case: Case, machine: Machine) -> Iterator[str]:
    """The step at which each role stands that has not come to its end."""
    for steps in case.roles.values():
        step = next((step for step in steps if not machine.done >> step & 1), None)
        if step is not None:
            yield describe(case, step)
