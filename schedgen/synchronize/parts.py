"""What synchronization consists of before it is laid out: signals, hand-offs, fences, meetings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from schedgen.program.model import (
    EVERY,
    FIRST,
    Barrier,
    FenceKind,
    Guard,
)
from schedgen.program.operations import Number
from schedgen.reasons import Reason, ReasonKind

Among = Literal["role", "roles", "warp"]
"""Who meets: the kind of a meeting's barrier."""


@dataclass(frozen=True, slots=True)
class Signal:
    """Says that ``operation`` has reached ``number``; ``slots`` phases can be open at a time."""

    operation: str
    number: Number
    slots: int


@dataclass(frozen=True, slots=True)
class Handoff:
    """``target`` waits until ``signal`` has been given for ``number``.

    ``allocation`` and ``fills`` say why: the target uses what was written, or writes over it; or a
    ``later`` operation of its role does, for which the target waits as well.
    """

    signal: Signal
    target: str
    number: Number
    allocation: str
    fills: bool
    later: str = ""

    @property
    def reason(self) -> Reason:
        """Why the target waits."""
        kind = ReasonKind.USES if self.fills else ReasonKind.OVERWRITES
        return Reason(kind, (self.later or self.target, self.allocation))

    @property
    def protects(self) -> Reason:
        """The same with what has to come first."""
        kind = ReasonKind.USES_AFTER if self.fills else ReasonKind.OVERWRITES_AFTER
        user = self.later or self.target
        return Reason(kind, (user, self.allocation, self.signal.operation))


@dataclass(frozen=True, slots=True)
class Fenced:
    """A fence right after an operation, or right before it (behind its waits)."""

    operation: str
    kind: FenceKind
    guard: Guard = EVERY


@dataclass(frozen=True, slots=True)
class Meeting:
    """The warps of a role wait for each other right before one of its operations; or the threads of
    each warp, or the warps of several roles, if ``among`` says so.

    ``protects`` are the accesses of different threads that this keeps in order, ``others`` the
    operations of the other roles right before which their warps meet those of the first one.
    """

    operation: str
    guard: Guard = EVERY
    protects: tuple[Reason, ...] = ()
    among: Among = "role"
    others: tuple[str, ...] = ()

    @property
    def operations(self) -> tuple[str, ...]:
        """One of each role that takes part."""
        return (self.operation, *self.others)

    def name(self, role_of: Mapping[str, str]) -> str:
        """What its barrier is called; ``role_of``: operation -> role."""
        first = "first " if self.guard == FIRST else ""
        meets = {"role": "meets", "warp": "meets in warps", "roles": "meet"}[self.among]
        roles = _listed([role_of[operation] for operation in self.operations])
        return f"{roles} {meets} before {first}{_listed(self.operations)}"


def _listed(names: Sequence[str]) -> str:
    """``one``, ``one and two``, ``one, two and three``."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


@dataclass(frozen=True, slots=True)
class Paced:
    """``after`` is issued after ``before``, an operation of another role, because the schedule has
    them in that order on ``unit``.

    Both roles count turns of their loops, whatever iterations their operations belong to. Turn t
    has iteration t - ``lag`` of ``before``, and an arrival behind it. Turn t + ``distance`` has a
    wait for that, and behind it iteration t + ``distance`` - ``after_lag`` of ``after``. So there
    are as many arrivals as waits in each tile, even where an operation has no iteration yet.
    """

    unit: str
    before: str
    lag: int
    after: str
    after_lag: int
    distance: int

    @property
    def barrier(self) -> str:
        """Its barrier."""
        return f"pace {self.after} after {self.before}"

    @property
    def arrives(self) -> Number:
        """The number of a turn in which there is an arrival."""
        return Number(1, self.distance)

    @property
    def skipped(self) -> tuple[int, ...]:
        """Numbers that ``after`` waits for and nobody provides."""
        return tuple(range(self.distance))

    @property
    def reason(self) -> Reason:
        """Why there is a wait."""
        return Reason(ReasonKind.PACE, (self.after, self.before, self.unit))


Part = Handoff | Fenced | Meeting | Paced | str
"""One decision; a wait_group is just the name of the operation."""


@dataclass(frozen=True)
class Synchronization:
    """All decisions; `lay_out` turns them into steps. ``wait_groups`` are operations to wait for,
    ``slots`` those of barriers that have more than the storage that they guard. ``paces`` come
    last, when all else is decided.
    """

    handoffs: tuple[Handoff, ...] = ()
    fences: tuple[Fenced, ...] = ()
    wait_groups: tuple[str, ...] = ()
    meetings: tuple[Meeting, ...] = ()
    slots: tuple[tuple[BarrierPlace, int], ...] = ()
    paces: tuple[Paced, ...] = ()

    @property
    def signals(self) -> tuple[Signal, ...]:
        return tuple(dict.fromkeys(h.signal for h in self.handoffs))

    def without(self, part: Part) -> Synchronization:
        return Synchronization(
            tuple(h for h in self.handoffs if h != part),
            tuple(f for f in self.fences if f != part),
            tuple(d for d in self.wait_groups if d != part),
            tuple(m for m in self.meetings if m != part),
            paces=tuple(p for p in self.paces if p != part),
        )

    def joined(self, other: Synchronization) -> Synchronization:
        return Synchronization(
            tuple(dict.fromkeys((*self.handoffs, *other.handoffs))),
            tuple(dict.fromkeys((*self.fences, *other.fences))),
            tuple(dict.fromkeys((*self.wait_groups, *other.wait_groups))),
            tuple(dict.fromkeys((*self.meetings, *other.meetings))),
            paces=tuple(dict.fromkeys((*self.paces, *other.paces))),
        )


@dataclass(frozen=True, slots=True)
class Mapped:
    """The barrier of a signal; its numbers there are ``(number + moved) / divisor``."""

    barrier: str
    moved: int = 0
    divisor: int = 1

    def number(self, number: Number) -> Number:
        scale, offset = number.scale // self.divisor, (number.offset + self.moved) // self.divisor
        return Number(scale, offset, number.per_tile)


@dataclass(frozen=True, slots=True)
class Assignment:
    """The barriers, and the one of each signal.

    ``place`` tells a barrier from others that do the same, while more and more are made: names say
    what tells all of them apart, which changes with each.
    """

    barriers: tuple[Barrier, ...]
    of: Mapping[Signal, Mapped]
    place: Mapping[str, BarrierPlace] = field(default_factory=dict[str, "BarrierPlace"])


BarrierPlace = tuple[str, int]
"""What a barrier does, and the number of barriers before it that do the same."""
