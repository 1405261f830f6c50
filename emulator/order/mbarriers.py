"""mbarrier objects as carriers of knowledge: what each phase hands to those who wait for it."""

from __future__ import annotations

from dataclasses import dataclass, field

from schedgen.emulator.order.agents import Agent, Cluster, Kind
from schedgen.emulator.order.knowledge import CAUSAL, Message, empty, merge, widen

Key = tuple[int, int]
"""CTA and byte offset."""
_PHASES = 4  # nobody may wait for one older than the preceding one (B9)


@dataclass(slots=True)
class Phase:
    """What the arrivals of one phase, and of all before it, brought.

    Attributes:
        near: for every wait.
        far: for waits of ``.cluster`` scope only (B13).
        commits: tcgen05 operations that commits tracked: queue column -> clock (S9).
    """

    near: Message | None = None
    far: Message | None = None
    commits: dict[int, int] = field(default_factory=dict[int, int])
    received: dict[tuple[bool, bool], Message] = field(
        default_factory=dict[tuple[bool, bool], Message]
    )
    """What waits got so far, by the arguments of `Barrier.received`."""


@dataclass(frozen=True, slots=True)
class Init:
    """Who initialized the object. ``clock``: of its ordinary accesses; ``count``: of its inits."""

    warp: int
    agent: Agent
    clock: int
    published: Agent
    count: int
    line: int


class Barrier:
    """One object, from its init to its end.

    Attributes:
        complete: the agent of what completes by complete-tx on it.
        completes: the columns of all such agents that a wait of any scope covers.
        completes_far: those that only a wait of cluster scope covers (S1).
        observed: the agent that counts phases that some wait observed (B7).
        uses: last use by each warp: its clock and line.
        tracked: the first phase after all in which copies completed.
        remote: the same for commits of other CTAs; the warp of the last one, and its line.
    """

    def __init__(self, key: Key, generation: int, cluster: Cluster, init: Init | None) -> None:
        self.key = key
        self.generation = generation
        self.init = init
        self.owner = (*key, generation)
        self.cluster = cluster
        self.complete = cluster.agent(Kind.COMPLETE_TX, self.owner)
        self.completes = [self.complete.column]
        self.completes_far: list[int] = []
        self.observed = cluster.agent(Kind.OBSERVED, self.owner)
        self.uses: dict[int, tuple[int, int]] = {}
        self.tracked = 0
        self.remote: tuple[int, int, int] = (0, 0, 0)
        self.verified: set[tuple[int, bool]] = set()
        """Warps, and whether asynchronously, whose use is known to come after the init."""
        self._phases: dict[int, Phase] = {}

    @property
    def cta(self) -> int:
        return self.key[0]

    def phase(self, number: int) -> Phase:
        """The phase, which begins with what the one before it brought (an arrive is a
        read-modify-write: one release sequence, PTX ISA 8.8)."""
        known = self._phases.get(number)
        if known is None:
            before = max((p for p in self._phases if p < number), default=None)
            known = self._phases[number] = Phase()
            if before is not None:
                last = self._phases[before]
                known.near, known.far = last.near, last.far
                known.commits.update(last.commits)
            if len(self._phases) > _PHASES:
                del self._phases[min(self._phases)]
        return known

    def bring(self, number: int, message: Message, *, far: bool = False) -> None:
        """An arrival hands ``message`` to a phase."""
        phase = self.phase(number)
        phase.received.clear()
        if far:
            phase.far = merge(phase.far, message)
        else:
            phase.near = merge(phase.near, message)

    def received(self, number: int, *, far: bool, copies_far: bool) -> Message:
        """What a wait for a phase brings.

        Args:
            far: also what arrivals brought that only a scope of more than the CTA covers.
            copies_far: also the copies that another CTA issued (S1).
        """
        phase = self.phase(number)
        known = phase.received.get((far, copies_far))
        if known is None:
            told = merge(phase.near, phase.far if far else None)
            rows = empty(self.cluster.capacity)
            if told is not None:
                rows = widen(told.rows, self.cluster.capacity).copy()
            for column in (*self.completes, *(self.completes_far if copies_far else ())):
                rows[CAUSAL, column] = number + 1
            known = Message(self.cluster.number, rows)
            if told is not None:
                known = known._replace(foreign=told.foreign)
            phase.received[far, copies_far] = known
        return known

    def complete_remote(self) -> Agent:
        """The agent of copies that another CTA issued (S1 strict)."""
        agent = self.cluster.agent(Kind.COMPLETE_TX_REMOTE, self.owner)
        if agent.column not in self.completes_far:
            self.completes_far.append(agent.column)
        return agent

    def stores(self) -> Agent:
        """The agent of st.async."""
        agent = self.cluster.agent(Kind.STORE_ASYNC, self.owner)
        if agent.column not in self.completes:
            self.completes.append(agent.column)
        return agent
