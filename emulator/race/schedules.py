"""Schedules that show findings: in words, and as a file, from which they are executed again."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedgen.emulator.launched import Lines
from schedgen.emulator.machine.replay import ENDED, WARP, Agent, Delay, Deviation, Early, Schedule
from schedgen.emulator.race.kept import entries
from schedgen.emulator.race.places import Place
from schedgen.errors import SchedgenError

_FIX = "fix: write it with --schedules"
_SHOWN = 3
"""Deviations that are told."""
ROUND_ROBIN = "round-robin shows it"


@dataclass(frozen=True, slots=True)
class Kept:
    """A schedule of a file.

    Attributes:
        finding: the fingerprint of the finding that it shows.
        launch: of the program, from 1, in which it does.
        kernel: that is launched.
    """

    finding: str
    launch: int
    kernel: str
    schedule: Schedule


def told(
    schedule: Schedule,
    held: Mapping[Any, Sequence[int]],
    lines: Lines,
    warps: int,
    stops: Collection[int] = (),
) -> str:
    """What has to happen for a finding to show, in words.

    Args:
        schedule: that shows it.
        held: see `replay.Replayed.held`.
        lines: of the launch.
        warps: of a CTA.
        stops: PTX lines of those of the schedule.
    """
    if schedule.plain:
        return ROUND_ROBIN
    words = [_deviation(one, held.get(one, (0, 0)), lines, warps) for one in schedule.deviations]
    if len(words) > _SHOWN:
        words[_SHOWN:] = [f"{len(words) - _SHOWN} more delays"]
    turns = Schedule().quantum
    if schedule.quantum != turns:
        words.append(f"warps take turns of {schedule.quantum} instructions instead of {turns}")
    if stops:
        words.append(f"turns end before {', '.join(_place(lines, one) for one in stops)}")
    if schedule.clusters != Schedule().clusters:
        words.append(f"{schedule.clusters} clusters are started at once")
    return f"shows if {', and '.join(words)}; all else is round-robin"


def _deviation(one: Deviation, held: Sequence[int], lines: Lines, warps: int) -> str:
    if isinstance(one, Early):
        return f"a wait of {_warp(one.warp, warps)} returns early, as it may"
    agent, until = one.agent, one.until
    at = f" before {_place(lines, held[0])}" if held[0] > 0 else ""
    if until.line != WARP:
        event = f"{_operation(until, lines, warps)} is done"
    elif held[1] == ENDED:
        event = f"{_warp(until.warp, warps)} has ended"
    elif held[1]:
        event = f"{_warp(until.warp, warps)} has come to {_place(lines, held[1])}"
    else:
        event = f"{_warp(until.warp, warps)} has had {one.turns} turns"
    who = (
        f"{_warp(agent.warp, warps)} is held back{at}"
        if agent.line == WARP
        else f"{_operation(agent, lines, warps)} waits"
    )
    return f"{who} until {event}"


def _warp(number: int, warps: int) -> str:
    return f"warp {number} of CTA {number // warps}"


def _operation(agent: Agent, lines: Lines, warps: int) -> str:
    return f"what {_warp(agent.warp, warps)} issued at {_place(lines, agent.line)}"


def _place(lines: Lines, line: int) -> str:
    return Place.at(lines, line).name


def data_of(schedule: Schedule) -> dict[str, Any]:
    """A schedule as JSON has it."""
    return {
        "quantum": schedule.quantum,
        "clusters": schedule.clusters,
        "delays": [
            {
                "agent": list(one.agent),
                "turn": one.turn,
                "until": list(one.until),
                "turns": one.turns,
            }
            for one in schedule.deviations
            if isinstance(one, Delay)
        ],
        "early": [list(one) for one in schedule.deviations if isinstance(one, Early)],
        "stops": sorted(schedule.stops),
    }


def text_of(kept: Iterable[Kept]) -> str:
    """Schedules as the text of a file, a line each."""
    rows = [
        json.dumps(
            {
                "finding": one.finding,
                "launch": one.launch,
                "kernel": one.kernel,
                "schedule": data_of(one.schedule),
            },
            ensure_ascii=False,
        )
        for one in kept
    ]
    body = ",\n ".join(rows)
    return f'{{"schedgen_race_schedules": 1, "schedules": [\n {body}\n]}}\n'


def read(path: Path) -> tuple[Kept, ...]:
    """The schedules of a file.

    Raises:
        SchedgenError: there is no such file, or it is none of schedules; names file and entry.
    """
    found = entries(path, "--replay", "schedgen_race_schedules", "schedules", _FIX)
    return tuple(_kept(path, at, one) for at, one in enumerate(found))


def _kept(path: Path, at: int, entry: Any) -> Kept:
    try:
        schedule = entry["schedule"]
        delays = [
            Delay(_agent(one["agent"]), int(one["turn"]), _agent(one["until"]), int(one["turns"]))
            for one in schedule["delays"]
        ]
        early = [Early(*map(int, one)) for one in schedule["early"]]
        # Files of earlier versions have no stops.
        stops = frozenset(map(int, schedule.get("stops", ())))
        turns = int(schedule["quantum"]), int(schedule["clusters"])
        read = Schedule(*turns, (*delays, *early), stops)
        if min(read.quantum, read.clusters) < 1:
            raise ValueError("quantum and clusters are 1 or more")
        return Kept(str(entry["finding"]), int(entry["launch"]), str(entry["kernel"]), read)
    except (KeyError, TypeError, ValueError) as error:
        text = f"{type(error).__name__}: {error}"
        raise SchedgenError(f"--replay {path}: schedules[{at}]: {text}; {_FIX}") from None


def _agent(numbers: Any) -> Agent:
    warp, line, ordinal = map(int, numbers)
    return Agent(warp, line, ordinal)
