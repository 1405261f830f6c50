"""The simplest schedule that shows a finding: as few deviations from round-robin as are found.

Deviations are taken away as long as the finding still shows (delta debugging: A. Zeller, R.
Hildebrandt, "Simplifying and isolating failure-inducing input", IEEE TSE 28(2), 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Hashable
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

from schedgen.emulator.emulation import Emulator
from schedgen.emulator.launch.capture import Launch
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.policies import Policy
from schedgen.emulator.machine.program import Decoded
from schedgen.emulator.machine.replay import Deviation, Recording, Replayed, Schedule
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.order.findings import Finding

TRIES = 80


class _Shown(BaseException):
    """The finding is there; no Exception, so that nothing puts it into other words."""


@dataclass
class Budget:
    """What shrinking may take.

    Attributes:
        seconds: by the clock, for all that is shrunk with this.
        tries: executions for each finding.
    """

    seconds: float
    tries: int = TRIES

    def spend(self, since: float) -> None:
        """Takes the time since ``since`` off it."""
        self.seconds -= perf_counter() - since


@dataclass(frozen=True)
class Shrunk:
    """A schedule that shows a finding.

    Attributes:
        schedule: the simplest that was found.
        before: how many deviations the one had in which it was met.
        tries: executions that it took.
        held: see `Replayed.held`.
    """

    schedule: Schedule
    before: int
    tries: int
    held: dict[Any, list[int]]


Shows = Callable[[Policy], bool]
"""Executes a launch and says whether the finding is there."""


def shows_finding(
    emulator: Emulator, launch: Launch, budget: Budget, keys: Collection[Hashable]
) -> Shows:
    """Whether one of some findings is met, by their keys."""
    wanted = frozenset(keys)
    decoded = Decoded()

    def listen(finding: Finding) -> None:
        if finding.key in wanted:
            raise _Shown

    def make(*arguments: Any, **options: Any) -> Checker:
        return Checker(*arguments, listener=listen, **options)

    def shows(policy: Policy) -> bool:
        try:
            with _bounded(emulator, budget):
                emulator.again(launch, policy, make, decoded)
        except _Shown:
            return True
        except EmulationError:
            return False
        return False

    return shows


def shows_stop(
    emulator: Emulator, launch: Launch, budget: Budget, same: Callable[[EmulationError], bool]
) -> Shows:
    """Whether an error ends the launch that is the same to `same`."""
    decoded = Decoded()

    def shows(policy: Policy) -> bool:
        try:
            with _bounded(emulator, budget):
                emulator.again(launch, policy, Checker, decoded)
        except EmulationError as error:
            return same(error)
        return False

    return shows


@contextmanager
def _bounded(emulator: Emulator, budget: Budget) -> Generator[None]:
    """No execution takes more than the budget has."""
    before = emulator.seconds
    emulator.seconds = max(budget.seconds, 0.1)
    try:
        yield
    finally:
        emulator.seconds = before


def shrunk(policy: Policy, shows: Shows, budget: Budget) -> Shrunk | None:
    """The simplest schedule for a finding that a policy shows, within the budget.

    None if the finding does not show again, or there is no time.
    """
    begin = perf_counter()
    try:
        return _shrunk(policy, shows, budget, begin)
    finally:
        budget.spend(begin)


def _shrunk(policy: Policy, shows: Shows, budget: Budget, begin: float) -> Shrunk | None:
    if budget.seconds <= 0:
        return None
    tries = 0

    def there(schedule: Schedule) -> bool:
        nonlocal tries
        tries += 1
        return shows(Replayed(schedule))

    def left() -> bool:
        return tries < budget.tries and perf_counter() - begin < budget.seconds

    if there(Schedule()):
        return Shrunk(Schedule(), 0, tries, {})
    recording = Recording(policy)
    if not shows(recording):
        return None
    whole = recording.schedule
    if not there(whole):
        return None
    few = _fewest(whole, there, left)
    last = Replayed(few)
    shows(last)
    return Shrunk(few, len(whole.deviations), tries + 2, last.held)


There = Callable[[Schedule], bool]


def _fewest(whole: Schedule, there: There, left: Callable[[], bool]) -> Schedule:
    """As few deviations as suffice, none of which can be left out if there is time to find out."""
    if left() and there(replace(whole, deviations=())):
        return replace(whole, deviations=())
    kept = whole.deviations
    parts = 2
    while len(kept) > 1 and left():
        size = -(-len(kept) // parts)
        pieces = [kept[at : at + size] for at in range(0, len(kept), size)]
        smaller = _smaller(whole, pieces, there, left)
        if smaller is not None:
            parts = 2 if len(smaller) <= size else max(parts - 1, 2)
            kept = smaller
        elif size == 1:
            break
        else:
            parts = min(len(kept), 2 * parts)
    few = replace(whole, deviations=kept)
    if few.stops and left() and there(replace(few, stops=frozenset())):
        few = replace(few, stops=frozenset())
    plain = replace(few, quantum=Schedule().quantum, clusters=Schedule().clusters)
    return plain if left() and there(plain) else few


def _smaller(
    whole: Schedule,
    pieces: list[tuple[Deviation, ...]],
    there: There,
    left: Callable[[], bool],
) -> tuple[Deviation, ...] | None:
    """One piece alone, or all but one, with which the finding still shows."""
    for piece in pieces:
        if left() and there(replace(whole, deviations=piece)):
            return piece
    for at in range(len(pieces) if len(pieces) > 2 else 0):
        rest = tuple(one for other, piece in enumerate(pieces) if other != at for one in piece)
        if left() and there(replace(whole, deviations=rest)):
            return rest
    return None
