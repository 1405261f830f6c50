"""Role programs as flat lists of actions on numbered barriers and instances."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, groupby
from typing import TypeAlias

from schedgen.interpret.instances import Instance
from schedgen.interpret.problem import InterpretationError
from schedgen.kernel import Kernel, Phase
from schedgen.program.model import (
    Arrive,
    Barrier,
    Commit,
    Drain,
    Engine,
    Fence,
    Number,
    Program,
    RoleProgram,
    Run,
    Step,
    Wait,
)
from schedgen.program.sequence import Instance as StepInstance
from schedgen.program.sequence import sequence

WAIT, ARRIVE, EXECUTE, ISSUE, COMMIT, DRAIN = range(6)

Action: TypeAlias = tuple[int, int, int, int]
"""What to do, and three numbers:

WAIT slot, phase; ARRIVE slot, count, bytes; EXECUTE instance; ISSUE instance; COMMIT slot, instance
or -1; DRAIN place in ``drained``.
"""


@dataclass
class Actions:
    """Actions of each role, and the facts about barriers and asynchronous instances they use.

    Attributes:
        roles: by role, its actions.
        steps: by role, the step of each action, for messages.
        arrivals: by barrier slot, arrivals in a phase.
        skipped: by barrier slot, phases that complete without anybody.
        queue: by instance, its in-order queue, -1 for bulk copies.
        signal: by instance of a bulk load, the barrier slot and the bytes that it reports.
        drained: instances that a drain waits for.
        barriers: the name of each barrier slot, for messages.
        copies: by operation that is a bulk copy, its instances.
        queues: how many in-order queues there are.
    """

    roles: list[list[Action]] = field(default_factory=list[list[Action]])
    steps: list[list[StepInstance]] = field(default_factory=list[list[StepInstance]])
    arrivals: list[int] = field(default_factory=list[int])
    skipped: list[set[int]] = field(default_factory=list[set[int]])
    queue: dict[int, int] = field(default_factory=dict[int, int])
    signal: dict[int, tuple[int, int]] = field(default_factory=dict[int, tuple[int, int]])
    drained: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    barriers: list[str] = field(default_factory=list[str])
    copies: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    queues: int = 0


class Compiler:
    """Compiles the roles of ``program`` for tiles with these trip counts."""

    def __init__(
        self,
        program: Program,
        kernel: Kernel,
        trips: Sequence[int],
        instances: Mapping[tuple[str, int, int], Instance],
    ) -> None:
        self.program = program
        self.kernel = kernel
        self.trips = trips
        self.starts = list(accumulate(trips, initial=0))
        self.instances = instances
        self.made = Actions()
        self._first: dict[str, tuple[int, Barrier]] = {}
        self._queues: dict[tuple[Engine, str], int] = {}
        self._issued: list[tuple[Instance, Engine, int]] = []  # by the role at hand
        self._waited: dict[Engine, int] = {}
        self._run: set[int] = set()

    def compile(self) -> Actions:
        """The actions of all roles.

        Raises:
            InterpretationError: the roles do not execute each instance exactly once, or one names
                what does not exist.
        """
        for barrier in self.program.barriers:
            if barrier.arrivals < 1:
                raise InterpretationError(f"no phase of barrier '{barrier.name}' ever ends")
            self._first[barrier.name] = len(self.made.arrivals), barrier
            for slot in range(barrier.slots):
                self.made.arrivals.append(barrier.arrivals)
                phases = {n // barrier.slots for n in barrier.skipped if n % barrier.slots == slot}
                self.made.skipped.append(phases)
                self.made.barriers.append(f"{barrier.name} {slot}")
        for role in self.program.roles:
            self._role(role)
        for at, instance in self.instances.items():
            if instance.number not in self._run:
                raise InterpretationError(f"no role runs {_describe(at)}")
        self.made.queues = len(self._queues)
        return self.made

    def _role(self, role: RoleProgram) -> None:
        self._issued, self._waited = [], {}
        actions: list[Action] = []
        steps: list[StepInstance] = []
        for step, section in self._sections(role):
            action = self._action(role, step, section)
            if action is not None:
                actions.append(action)
                steps.append(step)
        self.made.roles.append(actions)
        self.made.steps.append(steps)

    def _sections(self, role: RoleProgram) -> Iterator[tuple[StepInstance, Phase]]:
        """All steps of a role with the section that each stands in."""
        for _, group in groupby(sequence(role, self.trips), key=lambda step: step.tile):
            steps = list(group)
            for place, step in enumerate(steps):
                if place < len(role.before):
                    yield step, Phase.BEFORE
                else:
                    rest = len(steps) - place
                    yield step, Phase.AFTER if rest <= len(role.after) else Phase.BODY

    def _action(self, role: RoleProgram, at: StepInstance, section: Phase) -> Action | None:
        match at.step.action:
            case Run():
                return self._start(role, at, at.step.action)
            case Wait(barrier, number):
                return (WAIT, *self._slot(barrier, number, at), 0)
            case Arrive(barrier, number, count, size):
                return ARRIVE, self._slot(barrier, number, at)[0], count, size
            case Commit(barrier, number):
                queued = [i.number for i, engine, _ in self._issued if engine is Engine.TENSOR]
                return COMMIT, self._slot(barrier, number, at)[0], queued[-1] if queued else -1, 0
            case Drain():
                return self._drain(at, at.step.action, section)
            case Fence():
                return None

    def _slot(self, barrier: str, number: Number, at: StepInstance) -> tuple[int, int]:
        """The slot and the phase that a number of a barrier means."""
        if barrier not in self._first:
            raise InterpretationError(f"there is no barrier '{barrier}'")
        first, what = self._first[barrier]
        phase, slot = divmod(at.number(number), what.slots)
        return first + slot, phase

    def _looped(self, operation: str) -> bool:
        return self.kernel.operation[operation].phase is Phase.BODY

    def _start(self, role: RoleProgram, at: StepInstance, run: Run) -> Action:
        looped = self._looped(run.operation)
        which = (run.operation, at.tile, at.iteration if looped else 0)
        instance = self.instances.get(which)
        if instance is None or instance.number in self._run:
            problem = "twice" if instance is not None else "beyond its trip count"
            raise InterpretationError(f"role {role.name} runs {_describe(which)} {problem}")
        self._run.add(instance.number)
        engine = instance.operation.engine
        if not engine.asynchronous:
            return EXECUTE, instance.number, 0, 0
        key = self.starts[at.tile] + at.iteration if looped else at.tile
        self._issued.append((instance, engine, key))
        queue = -1
        if engine in (Engine.TENSOR, Engine.WGMMA):
            owner = "" if engine is Engine.TENSOR else role.name
            queue = self._queues.setdefault((engine, owner), len(self._queues))
        else:
            self.made.copies.setdefault(run.operation, []).append(instance.number)
        self.made.queue[instance.number] = queue
        if run.barrier is not None and run.number is not None:
            slot, _ = self._slot(run.barrier, run.number, at)
            self.made.signal[instance.number] = slot, run.bytes
        return ISSUE, instance.number, 0, 0

    def _drain(self, at: StepInstance, drain: Drain, section: Phase) -> Action:
        """Everything that the role issued to the engine up to the instance that is meant."""
        engine = self.program.operation[drain.operation].engine
        here = at.tile
        if self._looped(drain.operation):
            inside = {Phase.BEFORE: -1, Phase.BODY: at.iteration}
            here = self.starts[at.tile] + inside.get(section, self.trips[at.tile] - 1)
        last = -1
        for place, (instance, _, key) in enumerate(self._issued):
            if instance.operation.name == drain.operation and key <= here - drain.lag:
                last = place
        begin = self._waited.get(engine, 0)
        self._waited[engine] = max(begin, last + 1)
        meant = self._issued[begin : last + 1]
        self.made.drained.append(tuple(i.number for i, other, _ in meant if other is engine))
        return DRAIN, len(self.made.drained) - 1, 0, 0


def describe_step(role: str, at: StepInstance) -> str:
    """A step for messages."""
    return f"{role}: {_text(at.step)} (tile {at.tile}, iteration {at.iteration})"


def _text(step: Step) -> str:
    match step.action:
        case Run(operation):
            return f"run {operation}"
        case Drain(operation, lag):
            return f"drain {operation} of {lag} iterations before"
        case Wait(barrier):
            return f"wait {barrier}"
        case Arrive(barrier) | Commit(barrier):
            return f"arrive at {barrier}"
        case Fence(kind):
            return kind.value


def _describe(at: tuple[str, int, int]) -> str:
    return f"{at[0]} of tile {at[1]}, iteration {at[2]},"
