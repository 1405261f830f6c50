"""The accesses that shadow memories refer to by number, and where each comes from."""

from __future__ import annotations

from dataclasses import dataclass

from schedgen.emulator.order.agents import Agent
from schedgen.emulator.order.tracker import Queue


@dataclass(slots=True, eq=False)
class Origin:
    """The instruction that made an access.

    Attributes:
        iteration: how often the warp had executed this line before.
        clock: of the warp's ordinary accesses when the instruction was issued.
        queue: None for an ordinary access.
        consumed: its registers have been read (a tcgen05.ld, S10).
    """

    warp: int
    cta: int
    line: int
    iteration: int
    clock: int
    queue: Queue | None
    consumed: bool = False


WRITE, ATOMIC, FREED, SAME = 1, 2, 4, 8
"""Flags of an access. FREED: tensor memory was given back; nobody can be ordered after that.
SAME: a write of the bytes that were there already."""


class Records:
    """Accesses by number, from 1."""

    def __init__(self) -> None:
        self.columns: list[int] = [-1]
        self.clocks: list[int] = [0]
        self.agents: list[Agent | None] = [None]
        self.origins: list[Origin | None] = [None]
        self.flags: list[int] = [0]

    def __len__(self) -> int:
        return len(self.columns)

    def add(self, agent: Agent, clock: int, origin: Origin, flags: int) -> int:
        """The number of a new access."""
        self.columns.append(agent.column)
        self.clocks.append(clock)
        self.agents.append(agent)
        self.origins.append(origin)
        self.flags.append(flags)
        return len(self.columns) - 1

    def get(self, number: int) -> Record:
        """One access, all of it."""
        agent, origin = self.agents[number], self.origins[number]
        assert agent is not None
        assert origin is not None
        return Record(number, agent, self.clocks[number], origin, self.flags[number])


@dataclass(frozen=True, slots=True)
class Record:
    """One access: number ``clock`` of ``agent``."""

    number: int
    agent: Agent
    clock: int
    origin: Origin
    flags: int

    @property
    def writes(self) -> bool:
        return bool(self.flags & WRITE)
