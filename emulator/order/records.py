"""The accesses that shadow memories refer to by number, and where each comes from."""

from __future__ import annotations

from dataclasses import dataclass

from schedgen.emulator.order.agents import Agent, Kind
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


Entry = tuple[Agent, int, Origin, int]
"""Agent, clock, origin and flags of an access."""


class Records:
    """Accesses by number, from 1.

    Attributes:
        entries: what there is of each; nobody has number 0.
    """

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        nobody = Agent(Kind.GENERIC, -1, -1, None)
        self.add((nobody, 0, Origin(-1, -1, 0, 0, 0, None), 0))

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, entry: Entry) -> int:
        """The number of a new access."""
        number = len(self.entries)
        self.entries.append(entry)
        return number

    def get(self, number: int) -> Record:
        """One access, all of it."""
        return Record(number, *self.entries[number])


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
