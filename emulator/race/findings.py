"""A finding as an engineer acts on it: both places in the source, what is missing, the repair."""

from __future__ import annotations

import hashlib
import linecache
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from schedgen.emulator.launched import Lines
from schedgen.emulator.order.findings import Access, Broken, Defect, Race, where
from schedgen.emulator.order.groups import Group
from schedgen.emulator.ptx.tree import Location
from schedgen.emulator.race.repairs import repair_of, summary_of

_STOPPED = "the kernel cannot go on"


@dataclass(frozen=True, slots=True)
class Call:
    """A line of the source, with its text without indentation."""

    file: str
    line: int
    text: str

    @staticmethod
    def of(location: Location) -> Call:
        """The line that `location` names."""
        text = linecache.getline(location.file, location.line).strip()
        return Call(location.file, location.line, text)

    @property
    def name(self) -> str:
        """``file:line``."""
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the source.

    Attributes:
        file: as the compiler names it; empty where PTX says nothing of its source.
        line: from 1; 0 if not known.
        text: of the line of the source, without indentation.
        ptx: the line of PTX, 0 if not known.
        instruction: the text of that line.
        who: the warp and what it does there.
        calls: through which it was inlined, innermost first, to the kernel.
    """

    file: str
    line: int
    text: str
    ptx: int
    instruction: str
    who: str = ""
    calls: tuple[Call, ...] = ()

    @staticmethod
    def of(
        location: Location | None,
        ptx: int,
        instruction: str,
        who: str = "",
        calls: Iterable[Location] = (),
    ) -> Place:
        """The place that `location`, of the instruction in line `ptx`, names."""
        if location is None:
            return Place("", 0, "", ptx, instruction, who)
        at = Call.of(location)
        around = tuple(map(Call.of, calls))
        return Place(at.file, at.line, at.text, ptx, instruction, who, around)

    @staticmethod
    def at(lines: Lines, ptx: int, who: str = "") -> Place:
        """The place of the instruction in a line of PTX, with the calls around it."""
        return Place.of(lines.location(ptx), ptx, lines.text(ptx), who, lines.stack(ptx)[1:])

    @property
    def name(self) -> str:
        """``file:line``, or the line of PTX."""
        return f"{self.file}:{self.line}" if self.file else f"PTX line {self.ptx}"


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
        return replace(self, times=self.times + other.times, members=self.members + other.members)

    def and_again(self, other: Found) -> Found:
        """This one, met in the launches of `other`, too."""
        return replace(
            self,
            times=self.times + other.times,
            launches=self.launches + other.launches,
            members=max(self.members, other.members),
        )


def found_in(group: Group, kernel: str, lines: Lines) -> Found:
    """A group of the race checker's findings as one."""
    first = group.findings[0]
    times = sum(group.counts)
    members = len(group.findings)
    if isinstance(first, Broken):
        place = Place.at(lines, first.line)
        return Found(
            first.rule, first.severity.value, first.problem.splitlines()[0], kernel, (place,),
            first.problem, repair_of(first), None, times, 1, members,
        )  # fmt: skip
    return Found(
        first.rule, first.severity.value, f"{summary_of(first)}: {where(first)}", kernel,
        tuple(_place(one, lines) for one in _accesses(first)), first.needs, repair_of(first),
        first.switch, times, 1, members,
    )  # fmt: skip


def stopped(text: str, kernel: str, rule: str, places: tuple[Place, ...]) -> Found:
    """An error that ended a launch, whose text says all."""
    title = text.splitlines()[0] if text else _STOPPED
    return Found(rule, "error", title, kernel, places, text, "", None)


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
