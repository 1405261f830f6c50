"""A finding as an engineer acts on it: both places in the source, what is missing, the repair."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

from schedgen.emulator.launched import Lines
from schedgen.emulator.machine.replay import Schedule
from schedgen.emulator.order.findings import Access, Broken, Defect, Race, where
from schedgen.emulator.order.groups import Group
from schedgen.emulator.order.tracker import Space
from schedgen.emulator.race.barriers import Barriers
from schedgen.emulator.race.places import Barrier, Place
from schedgen.emulator.race.repairs import repair_of, summary_of
from schedgen.emulator.race.timeline import Timeline

_STOPPED = "the kernel cannot go on"


@dataclass(frozen=True, slots=True)
class Found:
    """What is wrong at one or two places of the source, in all launches of a kernel.

    Attributes:
        rule: its id in docs/emulator.md, or ``deadlock``, ``endless``, ``released``, ``stopped``.
        severity: ``error``, ``warning`` or ``review``.
        title: one line.
        kernel: the name of the first kernel in which it was found.
        places: of the accesses, in the order in which they were executed.
        needs: what would order them, or what is wrong.
        repair: what is usually done about it; may be empty.
        switch: the reading of the ISA that the verdict depends on, or None.
        times: how often it was met, in all launches.
        launches: in how many.
        members: how many pairs of lines of PTX are behind it.
        barriers: those that it is about, by their names in the source.
        shows: the schedules that show it, in words; empty if it ended the launch.
        schedules: how many there were.
        launch: in which it was found first, from 1.
        how: what has to happen for it to show, in words, if that was looked for.
        schedule: the simplest one that shows it.
        timeline: what happened around it, if somebody wanted to know.
    """

    rule: str
    severity: str
    title: str
    kernel: str
    places: tuple[Place, ...]
    needs: str
    repair: str
    switch: str | None = None
    times: int = 1
    launches: int = 1
    members: int = 1
    barriers: tuple[Barrier, ...] = ()
    shows: tuple[str, ...] = ()
    schedules: int = 0
    launch: int = 0
    how: str = ""
    schedule: Schedule | None = None
    timeline: Timeline | None = None

    @property
    def fingerprint(self) -> str:
        """Equal for the same finding after edits elsewhere in the file: it has no line number.

        Equal, too, for accesses that are unordered whichever of them comes first.
        """
        places = sorted(
            f"{Path(one.file).name} {one.text or one.instruction}" for one in self.places
        )
        parts = [self.rule, self.repair, *places] if places else [self.rule, self.title]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]

    def beside(self, other: Found) -> Found:
        """This one, with `other`, of the same launch and places."""
        return replace(
            self,
            times=self.times + other.times,
            members=self.members + other.members,
            barriers=tuple(dict.fromkeys((*self.barriers, *other.barriers))),
            shows=tuple(dict.fromkeys((*self.shows, *other.shows))),
            timeline=self.timeline or other.timeline,
        )

    def and_again(self, other: Found) -> Found:
        """This one, met in the launches of `other`, too."""
        return replace(
            self,
            times=self.times + other.times,
            launches=self.launches + other.launches,
            members=max(self.members, other.members),
            timeline=self.timeline or other.timeline,
        )


def found_in(group: Group, kernel: str, lines: Lines, barriers: Barriers) -> Found:
    """A group of the race checker's findings as one."""
    first = group.findings[0]
    times = sum(group.counts)
    members = len(group.findings)
    if isinstance(first, Broken):
        place = Place.at(lines, first.line)
        problem, about = barriers.named(first.problem)
        return Found(
            first.rule, first.severity.value, problem.splitlines()[0], kernel, (place,),
            problem, repair_of(first), None, times, 1, members, about,
        )  # fmt: skip
    needs, about = barriers.named(first.needs)
    title = f"{summary_of(first)}: {where(first)}"
    if first.space is Space.SHARED and (one := barriers.at(first.cta, first.low)) is not None:
        title += f", {one.name}" if one.name else ""
        about = tuple(dict.fromkeys((one, *about)))
    return Found(
        first.rule, first.severity.value, title, kernel,
        tuple(_place(one, lines) for one in _accesses(first)), needs, repair_of(first),
        first.switch, times, 1, members, about,
    )  # fmt: skip


def stopped(
    text: str,
    kernel: str,
    rule: str,
    places: tuple[Place, ...],
    barriers: Barriers | None = None,
) -> Found:
    """An error that ended a launch, whose text says all."""
    text, about = (text, ()) if barriers is None else barriers.named(text)
    title = text.splitlines()[0] if text else _STOPPED
    return Found(rule, "error", title, kernel, places, text, "", None, barriers=about)


def _accesses(finding: Race | Defect) -> list[Access]:
    if isinstance(finding, Race):
        return [finding.earlier, finding.later]
    return [one for one in (finding.other, finding.access) if one is not None]


def _place(access: Access, lines: Lines) -> Place:
    by = "" if access.queue is None else f" ({access.queue.value})"
    who = (
        f"warp {access.warp} of CTA {access.cta} {access.action}{by}, iteration {access.iteration}"
    )
    return Place.at(lines, access.line, who)
