"""From signals to barriers: what is always awaited together shares one.

The signals of a ring, one for each buffer that takes turns in it, become one array of barriers with
the numbers of the ring. Signals of several operations that the same steps wait for become one
barrier that takes the arrivals of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from schedgen.program.model import Barrier
from schedgen.synchronize.layout import Layout
from schedgen.synchronize.naming import Guard, names_of
from schedgen.synchronize.parts import (
    Assignment,
    BarrierPlace,
    Handoff,
    Mapped,
    Signal,
    Synchronization,
)


def separate(layout: Layout, made: Synchronization) -> Assignment:
    """A barrier for each signal: what orders events does not depend on how they are merged."""
    barriers: list[Barrier] = []
    of: dict[Signal, Mapped] = {}
    for signal in made.signals:
        name = signal_name(signal)
        size, arrivals = layout.loaded_bytes(signal.operation), layout.arrivals(signal)
        barriers.append(Barrier(name, "mbarrier", signal.slots, arrivals, size))
        of[signal] = Mapped(name)
    return Assignment(tuple(barriers), of)


def signal_name(signal: Signal) -> str:
    """The barrier of a signal that has one of its own."""
    number = signal.number
    kind = "t" if number.per_tile else "c"
    return f"{signal.operation} {number.scale}{kind}{number.offset:+d} of {signal.slots}"


@dataclass
class _Group:
    """Signals that become one barrier, by the phase that they stand for (number modulo scale)."""

    slots: int
    alone: bool
    phases: dict[int, list[Signal]] = field(default_factory=dict[int, list[Signal]])

    @property
    def signals(self) -> list[Signal]:
        return [signal for phase in self.phases.values() for signal in phase]


def assign(
    layout: Layout, made: Synchronization, more: Mapping[BarrierPlace, int] | None = None
) -> Assignment:
    """Barriers for all signals, as few as their phases allow.

    ``more`` gives barriers more slots than they need for the storage that they guard.
    """
    awaited: dict[Signal, list[Handoff]] = {signal: [] for signal in made.signals}
    for handoff in made.handoffs:
        awaited[handoff.signal].append(handoff)
    groups = [*_rings(layout, made.signals, awaited)]
    done = {signal for group in groups for signal in group.signals}
    together: dict[object, _Group] = {}
    for signal in made.signals:
        if signal not in done:
            group = _Group(_own_slots(signal, awaited[signal]), alone=True)
            key = (signal.number.per_tile, group.slots, _waits(signal, awaited[signal]))
            together.setdefault(key, group).phases.setdefault(0, []).append(signal)
    return _name(layout, [*groups, *together.values()], awaited, more or {})


def _waits(signal: Signal, awaited: Iterable[Handoff]) -> frozenset[tuple[str, int]]:
    """Who waits for a signal, and how many instances back."""
    scale = signal.number.scale
    return frozenset((h.target, (h.number.offset - signal.number.offset) // scale) for h in awaited)


def _own_slots(signal: Signal, awaited: Iterable[Handoff]) -> int:
    """Slots that a signal needs by itself, counted in its own instances."""
    back = max((-by for _, by in _waits(signal, awaited)), default=0)
    return max(-(-signal.slots // signal.number.scale), back, 1)


def _rings(
    layout: Layout, signals: Iterable[Signal], awaited: dict[Signal, list[Handoff]]
) -> list[_Group]:
    """Groups of signals that number the fills of one allocation together, all phases of it."""
    families: dict[object, list[Signal]] = {}
    for signal in signals:
        if signal.number.scale > 1:
            reasons = frozenset((h.allocation, h.fills) for h in awaited[signal])
            key = (reasons, signal.slots, signal.number.scale, signal.number.per_tile)
            families.setdefault(key, []).append(signal)
    found: list[_Group] = []
    for family in families.values():
        found += _split(layout, family, awaited, 0)
    return found


def _split(
    layout: Layout, family: list[Signal], awaited: dict[Signal, list[Handoff]], times: int
) -> list[_Group]:
    """The family as one ring, or as several: a slot that is loaded and then written over has two,
    and one whose parts are filled and read by different roles has one for each of them.
    """
    ring = _ring(layout, family, awaited)
    if ring is not None or times == 2:
        return [] if ring is None else [ring]
    apart: dict[object, list[Signal]] = {}
    for signal in family:
        key: tuple[object, ...] = (layout.kernel.operation[signal.operation].base,)
        if times:
            targets = frozenset(layout.role_of[h.target] for h in awaited[signal])
            key += (layout.role_of[signal.operation], targets)
        apart.setdefault(key, []).append(signal)
    return [ring for part in apart.values() for ring in _split(layout, part, awaited, times + 1)]


def _ring(
    layout: Layout, family: list[Signal], awaited: dict[Signal, list[Handoff]]
) -> _Group | None:
    """The signals as one array of barriers, if its phases are alike and none is missing."""
    scale = family[0].number.scale
    group = _Group(family[0].slots, alone=False)
    for signal in family:
        group.phases.setdefault(signal.number.offset % scale, []).append(signal)
    phases = group.phases.values()
    alike = {
        (
            sum(layout.arrivals(s) for s in phase),
            sum(layout.loaded_bytes(s.operation) for s in phase),
        )
        for phase in phases
    }
    awaited_alike = all(
        len({_waits(s, awaited[s]) for s in phase}) == 1
        and len({s.number.offset for s in phase}) == 1
        for phase in phases
    )
    return group if len(phases) == scale and len(alike) == 1 and awaited_alike else None


def _name(
    layout: Layout,
    groups: list[_Group],
    awaited: dict[Signal, list[Handoff]],
    more: Mapping[BarrierPlace, int],
) -> Assignment:
    barriers: list[Barrier] = []
    of: dict[Signal, Mapped] = {}
    guards = [
        Guard(tuple(group.signals), tuple(h for s in group.signals for h in awaited[s]))
        for group in groups
    ]
    plain = [guard.plain for guard in guards]
    places = [(name, plain[:number].count(name)) for number, name in enumerate(plain)]
    names = names_of(layout, guards)
    for group, guard, name, place in zip(groups, guards, names, places, strict=True):
        handoffs = guard.handoffs
        phase = next(iter(group.phases.values()))
        skipped: list[int] = []
        for signal in group.signals:
            number = signal.number
            # By itself a signal counts its own instances; in a ring it keeps the numbers of it.
            divisor = number.scale if group.alone else 1
            moved = -number.offset if group.alone else 0
            rest = 0 if group.alone else number.offset
            of[signal] = Mapped(name, moved, divisor)
            skipped.extend(range(rest % number.scale, rest, number.scale))
        barriers.append(
            Barrier(
                name,
                "mbarrier",
                max(group.slots, more.get(place, 0)),
                sum(layout.arrivals(signal) for signal in phase),
                sum(layout.loaded_bytes(signal.operation) for signal in phase),
                tuple(sorted(set(skipped))),
                tuple(reason.text for reason in dict.fromkeys(h.protects for h in handoffs)),
                tuple(dict.fromkeys(h.allocation for h in handoffs)),
            )
        )
    return Assignment(tuple(barriers), of, dict(zip(names, places, strict=True)))
