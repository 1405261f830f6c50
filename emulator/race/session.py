"""What ran in a program, launch by launch, and what was found in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from time import perf_counter

from schedgen.emulator.emulation import Emulator
from schedgen.emulator.launch.capture import Launch
from schedgen.emulator.launched import Lines, module_of
from schedgen.emulator.machine.lanes import DeadlockError, EmulationError, EndlessError
from schedgen.emulator.machine.replay import Replayed
from schedgen.emulator.order.findings import Severity
from schedgen.emulator.order.groups import Group
from schedgen.emulator.ptx.errors import PtxError
from schedgen.emulator.ptx.tree import Location
from schedgen.emulator.race.banks import Banks
from schedgen.emulator.race.barriers import Barriers
from schedgen.emulator.race.coverage import Coverage
from schedgen.emulator.race.findings import Found, stopped
from schedgen.emulator.race.gathering import Gathered
from schedgen.emulator.race.places import Place
from schedgen.emulator.race.schedules import Kept
from schedgen.emulator.race.shrinking import Budget
from schedgen.emulator.reports import Aborted
from schedgen.errors import SchedgenError


class LimitReached(BaseException):
    """The program has had what it may have; no Exception, so that programs do not catch it."""


@dataclass(frozen=True)
class Limit:
    """How much of a program is executed; None: all of it.

    Attributes:
        launches: of kernels.
        seconds: by the clock, from the beginning of the program; looked at before each launch.
    """

    launches: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Ran:
    """A launch, and what came of it.

    Attributes:
        kernel: its name.
        grid, block: CTAs and threads, along x, y and z.
        found: errors and warnings, each once for all schedules.
        ended: whether the kernel came to its end; if not, one finding says why.
        instructions: warp instructions of the last schedule, 0 if it did not end.
        seconds: of all its schedules.
    """

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    found: tuple[Found, ...]
    ended: bool
    instructions: int
    seconds: float


@dataclass
class Session:
    """Takes the launches of a program: executes each in `emulator` and keeps what was found.

    Attributes:
        emulator: with ``races="report"``.
        limit: what the program may have.
        known: fingerprints of findings that are no news (`baseline`).
        launches: those that were executed, in order.
        begin: of the program, as `perf_counter` says.
    """

    emulator: Emulator
    limit: Limit = field(default_factory=Limit)
    known: Collection[str] = frozenset()
    launches: list[Ran] = field(default_factory=list[Ran])
    begin: float = field(default_factory=perf_counter)
    pictures: bool = False
    """Whether findings are to have timelines, for each of which a launch is executed again."""
    budget: Budget = field(default_factory=lambda: Budget(_SECONDS))
    """What may be spent on finding simple schedules."""
    replay: Collection[Kept] | None = None
    """Schedules under which launches are executed instead of adversarial ones."""
    _seen: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    progress: Callable[[str], None] | None = None
    banks: Banks | None = None
    """Counts bank conflicts of all launches; None: nobody does."""
    released: Callable[[int], bool] | None = None
    """Says of an address whether it was in memory that is no longer allocated."""

    def run(self, launch: Launch) -> None:
        """Executes a launch.

        Raises:
            LimitReached: the program has had what it may have.
            EmulationError, PtxError: the launch cannot be executed to its end; it is kept, too.
        """
        self._check_limit()
        if self.progress is not None:
            self.progress(f"launch {len(self.launches) + 1}: {launch.kernel[:60]}")
        if self.replay is not None:
            self._replay(launch, self.replay)
        begin = perf_counter()
        try:
            self.emulator.run(launch)
        except (EmulationError, PtxError) as error:
            aborted = error.aborted if isinstance(error, EmulationError) else None
            known = aborted if isinstance(aborted, Aborted) else Aborted(str(error), (), {}, 0)
            text, rule = known.text, _rule_of(error)
            address = _ADDRESS.search(text)
            if address and self.released is not None and self.released(int(address[1], 16)):
                rule = "released"
                text += (
                    "\n  a tensor on cuda was there and is released: the program has to keep it "
                    "until the kernel has ended"
                )
            if isinstance(error, PtxError):
                found = (stopped(text, launch.kernel, rule, _places(text)),)
            else:
                found = self._ended(launch, known, text, error)
            self._keep(launch, found, False, 0, begin)
            raise
        report = self.emulator.reports.pop()
        lines = Lines(module_of(launch.ptx))
        barriers = Barriers(report.inits, lines)
        found = self._gathered(launch, report.groups, report.shown, barriers).found
        self._keep(launch, found, True, report.statistics.instructions, begin)

    @property
    def coverage(self) -> Coverage:
        """What of the synchronization of its kernels was executed."""
        return self.emulator.coverage

    @property
    def errors(self) -> tuple[Found, ...]:
        """What is wrong and no known finding, each once for all launches."""
        return tuple(
            one
            for one in self.found
            if one.severity == "error" and one.fingerprint not in self.known
        )

    @property
    def found(self) -> tuple[Found, ...]:
        """All that was found, each once for all launches, with their number."""
        merged: dict[tuple[str, str], Found] = {}
        for one in (one for ran in self.launches for one in ran.found):
            key = one.fingerprint, one.severity
            merged[key] = one if key not in merged else merged[key].and_again(one)
        order = [severity.value for severity in Severity]
        return tuple(sorted(_news(merged.values()), key=lambda one: order.index(one.severity)))

    def _replay(self, launch: Launch, kept: Collection[Kept]) -> None:
        """Has a launch executed under the schedules that were kept for it, and round-robin."""
        number = len(self.launches) + 1
        own = [one for one in kept if (one.launch, one.kernel) == (number, launch.kernel)]
        schedules = {one.schedule: f"the schedule of {one.finding}" for one in own}
        named = [one for one in schedules.items() if not one[0].plain]
        self.emulator.schedules = len(named)
        self.emulator.order = lambda at: Replayed(*named[at])

    def _check_limit(self) -> None:
        most, seconds = self.limit.launches, self.limit.seconds
        if most is not None and len(self.launches) >= most:
            raise LimitReached(f"after {most} launches")
        if seconds is not None and perf_counter() - self.begin > seconds:
            raise LimitReached(f"after {seconds:g} seconds and {len(self.launches)} launches")

    def _gathered(
        self,
        launch: Launch,
        groups: Collection[Group],
        shown: Mapping[Hashable, tuple[int, ...]],
        barriers: Barriers,
    ) -> Gathered:
        """Findings of a launch, with how they show and timelines, as far as that is wanted."""
        number = len(self.launches) + 1
        made = Gathered(self.emulator, launch, number, groups, shown, barriers)
        if self.emulator.schedules:
            made.shrink(self._seen, self.budget)
        if self.pictures:
            made.draw(self._seen)
        self._seen.update((one.fingerprint, one.severity) for one in made.found)
        return made

    def _ended(
        self, launch: Launch, known: Aborted, text: str, error: SchedgenError
    ) -> tuple[Found, ...]:
        """What a launch has found before an error ended it, and that error."""
        rule = _rule_of(error) if text == known.text else "released"
        barriers = Barriers(known.inits, Lines(module_of(launch.ptx)))
        stop = stopped(text, launch.kernel, rule, _places(text), barriers)
        stop = replace(stop, launch=len(self.launches) + 1)
        # Whether a read of what nobody wrote matters is known only at the end.
        groups = [one for one in known.groups if one.findings[0].rule != _UNWRITTEN]
        shown = {f.key: (known.schedule,) for one in groups for f in one.findings}
        made = self._gathered(launch, groups, shown, barriers)
        if self.emulator.schedules and rule not in _EVERYWHERE:
            places = _places(text)[:1]

            def same(other: EmulationError) -> bool:
                return _rule_of(other) == rule and _places(str(other))[:1] == places

            stop = made.shrink_stop(stop, known.schedule, same, self.budget)
        news = (one for one in made.found if not _same(one, stop))
        return (stop, *(replace(one, shows=(), schedules=0) for one in news))

    def _keep(
        self,
        launch: Launch,
        found: tuple[Found, ...],
        ended: bool,
        instructions: int,
        begin: float,
    ) -> None:
        seconds = perf_counter() - begin
        self.launches.append(
            Ran(launch.kernel, launch.grid, launch.block, found, ended, instructions, seconds)
        )


def _same(one: Found, stop: Found) -> bool:
    """Whether a finding says what the error that ended the launch says."""
    names = {place.name for place in stop.places}
    return one.rule == stop.rule and any(place.name in names for place in one.places)


def _news(found: Collection[Found]) -> Iterator[Found]:
    """Without reads of what nobody wrote where the write is there, but comes in any order: the
    race says it. Without breaches that happened where it is known what would rule them out."""
    racing = {place.name for one in found if len(one.places) == 2 for place in one.places}
    known = {(one.rule, place.name) for one in found if not _told(one) for place in one.places}
    for one in found:
        if _told(one) and any((one.rule, place.name) in known for place in one.places):
            continue
        if one.rule == _UNWRITTEN and len(one.places) == 1 and one.places[0].name in racing:
            continue
        yield one


def _told(one: Found) -> bool:
    """Whether all that is known of it is that a rule was broken."""
    return one.needs.startswith(one.title)


_UNWRITTEN = "K9"
_EVERYWHERE = frozenset({"endless", "released", "stopped"})
"""Ends of launches for which no simpler schedule is looked for."""
_SECONDS = 30.0
_RULE = re.compile(r"rule ([A-Z]\d+[a-z]?)")
_ADDRESS = re.compile(r"address (0x[0-9a-f]+) is in no registered tensor")
_SOURCE = re.compile(r"(?:\[|\(|at |in )([^\s\[\]()]+\.py):(\d+)")


def _rule_of(error: SchedgenError) -> str:
    """Rules that nobody may demote stand in the texts of errors only."""
    match error:
        case DeadlockError():
            return "deadlock"
        case EndlessError():
            return "endless"
        case _:
            found = _RULE.search(str(error))
            return found[1] if found else "stopped"


def _places(text: str) -> tuple[Place, ...]:
    places = dict.fromkeys((file, int(line)) for file, line in _SOURCE.findall(text))
    return tuple(Place.of(Location(file, line), 0, "") for file, line in list(places)[:2])
