"""Records are read as what the program executed, in its order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schedgen.program.model import Run, Wait, WaitGroup
from schedgen.program.sequence import sequence
from schedgen.visualize.record import RecordError, read_record
from tests.visualize.records import CLOCK, made, record_of, text_of

ATTENTION = ("attention_fwd", "h200")
TRIPS = [5, 1, 8]


@pytest.mark.medium
@pytest.mark.parametrize("spec", [ATTENTION, ("gemm", "b200"), ("attention_fwd", "b200")])
def test_everything_in_the_order_of_the_program(spec: tuple[str, str]) -> None:
    schedule, program = made(*spec)
    record = read_record(text_of(record_of(schedule, program, TRIPS)))
    assert record.trips == tuple(TRIPS)
    assert set(record.overhead.values()) == {CLOCK}
    assert min(one.begin for one in record.timed) == 0  # although the clocks go round
    for role in program.roles:
        wanted: list[tuple[str, int, int]] = []
        for one in sequence(role, TRIPS):
            match one.step.action:
                case Run(operation=name) | WaitGroup(operation=name) | Wait(barrier=name):
                    wanted.append((name, one.tile, one.iteration))
                case _:
                    pass
        mine = [one for one in record.timed if one.role == role.name]
        assert [(one.name, one.tile, one.iteration) for one in mine] == wanted
        times = [time for one in mine for time in (one.begin, one.end)]
        assert times == sorted(times)


def test_dates() -> None:
    data = record_of(*made(*ATTENTION), TRIPS)
    assert read_record(text_of(data)).date == data.pop("date") == "2026-11-22"
    assert read_record(text_of(data)).date == ""


def test_tiles_that_are_not_whole_are_left_out() -> None:
    schedule, program = made(*ATTENTION)
    data = record_of(schedule, program, TRIPS)
    data["words"]["load"].pop()
    record = read_record(text_of(data))
    assert record.trips == tuple(TRIPS[:2])
    assert {one.tile for one in record.timed} == {0, 1}


def _without(key: str) -> dict[str, Any]:
    data = record_of(*made(*ATTENTION), TRIPS)
    del data[key]
    return data


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "this is not JSON"),
        ("[]", "this JSON is no record of events"),
        ('{"event_format": 9}', "record format 9, this schedgen reads 1"),
        (json.dumps(_without("extents")), "this record is damaged .KeyError: 'extents'"),
        (json.dumps({**_without("words"), "words": {}}), "this record is damaged"),
        (json.dumps({**_without("events"), "events": [[1]]}), "the table of events is damaged"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        read_record(text, "file.json")


def test_blocks_that_recorded_nothing() -> None:
    data = record_of(*made(*ATTENTION), TRIPS)
    data["words"] = {role: [0] * 8 for role in data["words"]}
    with pytest.raises(RecordError, match=r"no block recorded anything; is there one"):
        read_record(text_of(data), "file.json")
