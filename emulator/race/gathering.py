"""The findings of one launch: those with the same places are one, and how each of them shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from schedgen.emulator.emulation import Emulator
from schedgen.emulator.launch.capture import Launch
from schedgen.emulator.launched import Lines, module_of
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.replay import Schedule
from schedgen.emulator.order.findings import Finding
from schedgen.emulator.order.grid import warps_per_cta
from schedgen.emulator.order.groups import Group
from schedgen.emulator.race.barriers import Barriers
from schedgen.emulator.race.findings import Found, found_in
from schedgen.emulator.race.schedules import told
from schedgen.emulator.race.shrinking import Budget, Shows, shows_finding, shows_stop, shrunk
from schedgen.emulator.race.timeline import Timeline
from schedgen.emulator.race.witness import drawn, schedule_name

Name = tuple[str, str]
"""Fingerprint and severity."""


@dataclass
class _Member:
    """A finding, and by its keys of the race checker the schedules that show it."""

    found: Found
    shown: dict[Hashable, tuple[int, ...]] = field(default_factory=dict[Hashable, tuple[int, ...]])

    def simplest(self, last: int) -> tuple[Hashable, int] | None:
        """A key and the number of a schedule that shows it; round-robin, ``last``, if that does."""
        for key, numbers in self.shown.items():
            if last in numbers:
                return key, last
        return next(((key, numbers[0]) for key, numbers in self.shown.items() if numbers), None)


class Gathered:
    """The findings of a launch that `emulator` has just executed.

    Args:
        number: of the launch in its program, from 1.
        groups: what the race checker found.
        shown: `Report.shown`.
    """

    def __init__(
        self,
        emulator: Emulator,
        launch: Launch,
        number: int,
        groups: Iterable[Group],
        shown: Mapping[Hashable, tuple[int, ...]],
        barriers: Barriers,
    ) -> None:
        self._emulator = emulator
        self._launch = launch
        self._barriers = barriers
        self._lines = Lines(module_of(launch.ptx))
        self._members: dict[Name, _Member] = {}
        for group in groups:
            own = {one.key: shown.get(one.key, ()) for one in group.findings}
            numbers = sorted({one for several in own.values() for one in several})
            found = replace(
                found_in(group, launch.kernel, self._lines, barriers),
                shows=tuple(schedule_name(emulator, one) for one in numbers),
                schedules=emulator.count + 1,
                launch=number,
            )
            name = found.fingerprint, found.severity
            if name in self._members:
                member = self._members[name]
                member.found = member.found.beside(found)
            else:
                member = self._members[name] = _Member(found)
            member.shown |= own

    @property
    def found(self) -> tuple[Found, ...]:
        """The findings, in the order in which they were met."""
        return tuple(one.found for one in self._members.values())

    def shrink(self, known: Collection[Name], budget: Budget) -> None:
        """Looks for the simplest schedules that show findings which are news."""
        last = self._emulator.count
        for name, member in self._members.items():
            simplest = member.simplest(last)
            if name in known or simplest is None:
                continue
            if simplest[1] == last:
                self._tell(member, Schedule(), {})
                continue
            keys = tuple(key for key, numbers in member.shown.items() if numbers)
            shows = shows_finding(self._emulator, self._launch, budget, keys)
            self._shrink(member, simplest[1], shows, budget)

    def shrink_stop(
        self,
        stop: Found,
        schedule: int,
        same: Callable[[EmulationError], bool],
        budget: Budget,
    ) -> Found:
        """The error that ended the launch under a schedule, with the simplest one that shows it."""
        member = _Member(stop)
        shows = shows_stop(self._emulator, self._launch, budget, same)
        self._shrink(member, schedule, shows, budget)
        return member.found

    def draw(self, known: Collection[Name]) -> None:
        """Gives timelines to findings which are news, under the simplest schedules."""
        wanted: dict[Hashable, Schedule | int] = {}
        keys: dict[Name, list[Hashable]] = {}
        for name, member in self._members.items():
            simplest = member.simplest(self._emulator.count)
            if name in known or simplest is None:
                continue
            schedule = member.found.schedule
            if schedule is None or schedule.plain:
                keys[name] = [simplest[0]]
            else:
                keys[name] = list(member.shown)
            wanted |= dict.fromkeys(
                keys[name], simplest[1] if schedule is None or schedule.plain else schedule
            )
        if not wanted:
            return
        pictures = drawn(self._emulator, self._launch, wanted, self._lines, self._barriers)
        for name, several in keys.items():
            key = next((key for key in several if key in pictures), None)
            if key is not None:
                self._members[name].found = self._pictured(name, *pictures[key])

    def _pictured(self, name: Name, finding: Finding, timeline: Timeline) -> Found:
        """A finding as the schedule of its timeline shows it: the same warps are in both."""
        before = self._members[name].found
        found = replace(before, timeline=timeline)
        shown = found_in(Group((finding,), (1,)), before.kernel, self._lines, self._barriers)
        if (shown.fingerprint, shown.severity) != name:
            return found
        return replace(
            found,
            title=shown.title,
            places=shown.places,
            needs=shown.needs,
            barriers=tuple(dict.fromkeys((*shown.barriers, *before.barriers))),
        )

    def _shrink(self, member: _Member, number: int, shows: Shows, budget: Budget) -> None:
        result = shrunk(self._emulator.schedule(number), shows, budget)
        if result is not None:
            self._tell(member, result.schedule, result.held)

    def _tell(
        self, member: _Member, schedule: Schedule, held: Mapping[Hashable, list[int]]
    ) -> None:
        body = self._lines.module.kernels[self._launch.kernel].body
        stops = dict.fromkeys(body[at].line for at in sorted(schedule.stops))
        words = told(schedule, held, self._lines, warps_per_cta(self._launch.block), [*stops])
        member.found = replace(member.found, how=words, schedule=schedule)
