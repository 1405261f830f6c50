"""Records of kernels with events: what one block did, and when.

`schedgen.codegen.event_table` says what the words of a record mean, `schedgen.kernels.recording`
writes the files. Times are cycles of the SM's clock, from the first one that was recorded.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median
from typing import Any, cast

from schedgen.codegen.errors import EmitError
from schedgen.codegen.event_table import CALIBRATION, EventTable, RoleWords, table_of
from schedgen.errors import SchedgenError

FORMAT = 1
_MODULUS = 1 << 32


class RecordError(SchedgenError):
    """A record that cannot be read; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Timed:
    """An operation, wait or wait_group as it happened in [begin, end), cycles.

    ``kind``, ``name`` and ``why`` are those of `event_table.Event`. ``section``: before, loop or
    after; ``place``: among all events of the program; ``iteration`` within its tile, 0 outside of
    the loop.
    """

    role: str
    section: str
    place: int
    kind: str
    name: str
    why: str
    lag: int
    tile: int
    iteration: int
    begin: int
    end: int


def label(kind: str, name: str, why: str) -> str:
    """What a slice or a line calls an event: of a wait what it is for, and its barrier."""
    if kind == "run":
        return name
    if kind == "wait_group":
        return f"{name} is complete"
    return f"{why} ({name})" if why else name


@dataclass(frozen=True)
class Record:
    """What one block recorded.

    Attributes:
        ii_cycles: of the schedule that the kernel was made from.
        date: of the recording; empty in records that were made before they kept it.
        software: versions of what compiled and ran it.
        extents: of its tensors.
        microseconds: of a launch, ``with_events`` and ``without``.
        same_result: whether it computes the same bits as without events; None if nobody looked.
        overhead: role -> cycles that reading and writing one clock takes.
        clocks: role -> how many it wrote in a turn in the middle of its loop.
        trips: of each tile.
        timed: everything, by role, in the order of the program.
    """

    kernel: str
    target: str
    spec_sha256: str
    ii_cycles: int
    date: str
    device: str
    software: str
    extents: Mapping[str, int]
    block: int
    microseconds: Mapping[str, float]
    same_result: bool | None
    overhead: Mapping[str, float]
    clocks: Mapping[str, int]
    trips: tuple[int, ...]
    timed: tuple[Timed, ...]


def read_record(text: str, file: str = "<text>") -> Record:
    """The record in ``text``. Raises RecordError for what `recording.record` did not write."""
    again = "record it again with 'schedgen trace' or 'python -m schedgen.kernels.recording'"
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{file}: this is not JSON ({error}); {again}") from None
    if not isinstance(data, dict) or "event_format" not in data:
        raise RecordError(f"{file}: this JSON is no record of events; {again}")
    found = cast("dict[str, Any]", data)
    if found["event_format"] != FORMAT:
        raise RecordError(
            f"{file}: record format {found['event_format']!r}, this schedgen reads {FORMAT}; "
            f"{again}"
        )
    try:
        table = table_of(found["spec_sha256"], found["roles"], found["events"])
        words = {
            role.role: [int(word) for word in found["words"][role.role]] for role in table.roles
        }
        return _record(found, table, words)
    except EmitError as error:
        raise RecordError(f"{file}: {error}") from None
    except (KeyError, TypeError, ValueError, IndexError) as error:
        reason = f"{type(error).__name__}: {error}"
        raise RecordError(f"{file}: this record is damaged ({reason}); {again}") from None


def _record(data: dict[str, Any], table: EventTable, words: Mapping[str, list[int]]) -> Record:
    trips = [_trips(role, words[role.role]) for role in table.roles]
    clocks = {role: mine[:CALIBRATION] for role, mine in words.items()}
    zero = next(iter(clocks.values()))[0]
    whole = tuple(min(trips, key=len))
    timed = [
        one
        for role in table.roles
        for one in _timed(table, role, words[role.role], zero)
        if one.tile < len(whole)
    ]
    if not timed:
        raise ValueError("no block recorded anything; is there one of this number?")
    first = min(one.begin for one in timed)
    return Record(
        kernel=data["kernel"],
        target=data["target"],
        spec_sha256=data["spec_sha256"],
        ii_cycles=int(data["ii_cycles"]),
        date=data.get("date", ""),
        device=data["device"],
        software=data["software"],
        extents=dict(data["extents"]),
        block=int(data["block"]),
        microseconds=dict(data["microseconds"]),
        same_result=data["same_result"],
        overhead={role: _overhead(mine) for role, mine in clocks.items()},
        clocks={role.role: _clocks(role, words[role.role]) for role in table.roles},
        trips=whole,
        timed=tuple(replace(t, begin=t.begin - first, end=t.end - first) for t in timed),
    )


def _trips(role: RoleWords, words: Sequence[int]) -> list[int]:
    """Of each whole tile."""
    found: list[int] = []
    at = CALIBRATION
    while at < len(words) and words[at] and at + role.of_tile(words[at]) <= len(words):
        found.append(words[at])
        at += role.of_tile(words[at])
    return found


def _clocks(role: RoleWords, words: Sequence[int]) -> int:
    """In the middle turn of the first tile; steps that run once in a tile are in other ones."""
    at = CALIBRATION + 1 + role.before
    at += (words[CALIBRATION] + role.shifts) // 2 * role.loop
    return sum(word > 0 for word in words[at : at + role.loop])


def _timed(table: EventTable, role: RoleWords, words: Sequence[int], zero: int) -> Iterator[Timed]:
    """What a role did. Steps that did not run in a turn left zeros."""
    events = [(n, event) for n, event in enumerate(table.events) if event.role == role.role]
    at = CALIBRATION
    for tile, trips in enumerate(_trips(role, words)):
        at += 1
        turns = max(trips, 1) + role.shifts
        for section, count in (("before", 1), ("loop", turns), ("after", 1)):
            here = [(n, event) for n, event in events if event.section == section]
            for turn in range(count):
                for place, event in here:
                    begin, end = words[at + event.begin], words[at + event.end]
                    if begin and end:
                        yield Timed(
                            role.role,
                            section,
                            place,
                            event.kind,
                            event.name,
                            event.why,
                            event.lag,
                            tile,
                            turn - event.shift if section == "loop" else 0,
                            _since(zero, begin),
                            _since(zero, end),
                        )
                at += getattr(role, section)


def _since(zero: int, clock: int) -> int:
    """Cycles from one reading to another, less than half of the clock's period apart."""
    return (clock - zero + _MODULUS // 2) % _MODULUS - _MODULUS // 2


def _overhead(clocks: Sequence[int]) -> float:
    return float(median(_since(one, other) for one, other in pairwise(clocks)))
