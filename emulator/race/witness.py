"""Executes a launch once more, to see what two warps did around its findings."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from schedgen.emulator.emulation import Emulator
from schedgen.emulator.launch.capture import Launch
from schedgen.emulator.launched import Lines
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.policies import Policy
from schedgen.emulator.machine.program import Decoded
from schedgen.emulator.machine.replay import Replayed, Schedule
from schedgen.emulator.order.findings import Finding
from schedgen.emulator.order.grid import warps_per_cta
from schedgen.emulator.race.barriers import Barriers
from schedgen.emulator.race.recorder import Enough, Recorder
from schedgen.emulator.race.timeline import Timeline, timelines


def recorded(
    emulator: Emulator, launch: Launch, policy: Policy, keys: Iterable[Hashable]
) -> Recorder:
    """The last launch of `emulator` under a schedule, until findings with these keys were met."""
    made: list[Recorder] = []
    decoded = Decoded()

    def make(*arguments: Any, **options: Any) -> Recorder:
        made.append(Recorder(frozenset(keys), *arguments, **options))
        decoded.hear = made[-1].hear
        return made[-1]

    try:
        emulator.again(launch, policy, make, decoded)
    except (Enough, EmulationError):
        made[-1].settle()  # a stop is another finding
    return made[-1]


def drawn(
    emulator: Emulator,
    launch: Launch,
    shown: Mapping[Hashable, Schedule | int],
    lines: Lines,
    barriers: Barriers,
) -> dict[Hashable, tuple[Finding, Timeline]]:
    """Findings of the last launch, by their keys, as these schedules show them.

    Args:
        shown: by key a schedule that shows the finding, or its number (`Report.shown`).
        lines, barriers: of the launch.
    """
    found: dict[Hashable, tuple[Finding, Timeline]] = {}
    for schedule in dict.fromkeys(shown.values()):
        if isinstance(schedule, Schedule):
            policy: Policy = Replayed(schedule)
            name = "round-robin" if schedule.plain else "the simplest that was found"
        else:
            policy, name = emulator.schedule(schedule), schedule_name(emulator, schedule)
        keys = [key for key, one in shown.items() if one == schedule]
        recorder = recorded(emulator, launch, policy, keys)
        found |= timelines(recorder, lines, barriers, warps_per_cta(launch.block), name)
    return found


def schedule_name(emulator: Emulator, number: int) -> str:
    """A schedule in words."""
    return "round-robin" if number >= emulator.count else str(emulator.schedule(number))
