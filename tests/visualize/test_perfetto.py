"""Traces are what Perfetto's own parser reads back: nothing is dropped, nothing overlaps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from schedgen.schedule import Schedule
from schedgen.visualize.perfetto import perfetto
from schedgen.visualize.unrolled import unroll
from tests.visualize.processor import FROM, loaded_trace, overlaps, problems, rows
from tests.visualize.schedules import SHIPPED, solved

LOADED = [("attention_fwd", "b200"), ("gemm", "b200")]


@pytest.fixture(scope="module", params=LOADED, ids="-".join)
def loaded(request: pytest.FixtureRequest) -> Schedule:
    return solved(*request.param)


@pytest.fixture(scope="module")
def trace(loaded: Schedule, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    folder = tmp_path_factory.mktemp("trace")
    with loaded_trace(perfetto(unroll(loaded)), folder) as opened:
        yield opened


def test_nothing_is_dropped(trace: Any) -> None:
    assert not problems(trace)


def test_counts_are_operations_times_iterations(trace: Any, loaded: Schedule) -> None:
    schedule = loaded
    query = f"select slice.name as op, count(*) as n {FROM} where process.name like '%: roles%' "
    found = rows(trace, query + "group by 1")
    wanted = {op.id: schedule.tile.trips if op.phase == "body" else 1 for op in schedule.ops}
    assert {row["op"]: row["n"] for row in found} == wanted
    total = rows(trace, f"select count(*) as n {FROM} where process.name like '%: units%'")
    assert total[0]["n"] == sum(wanted[op.id] for op in schedule.ops if op.unit)


def test_no_slices_overlap_on_a_track(trace: Any) -> None:
    assert overlaps(trace) == 0


def test_flows_are_the_dependences(trace: Any, loaded: Schedule) -> None:
    view = unroll(loaded)
    query = (
        "select a.name as src, b.name as dst, count(*) as n from flow "
        "join slice a on slice_out = a.id join slice b on slice_in = b.id group by 1, 2"
    )
    wanted: dict[tuple[str, str], int] = {}
    for arrow in view.arrows:
        key = view.slices[arrow.src].operation, view.slices[arrow.dst].operation
        wanted[key] = wanted.get(key, 0) + 1
    assert {(row["src"], row["dst"]): row["n"] for row in rows(trace, query)} == wanted


def test_times_are_cycles(trace: Any, loaded: Schedule) -> None:
    schedule = loaded
    op = next(op for op in schedule.body if op.unit == "TENSOR")
    query = (
        f"select ts, dur {FROM} where slice.name = '{op.id}' and thread.name = 'TENSOR' order by ts"
    )
    found = rows(trace, query)
    begin = unroll(schedule).begin
    cycle = 1000  # nanoseconds of the trace
    assert [row["ts"] for row in found] == [
        (op.start - begin + i * schedule.ii_cycles) * cycle for i in range(schedule.tile.trips)
    ]
    assert {row["dur"] for row in found} == {op.cycles * cycle}


@pytest.mark.parametrize("which", SHIPPED, ids="-".join)
def test_every_trace_is_json_with_a_track_per_unit_and_role(which: tuple[str, str]) -> None:
    schedule = solved(*which)
    view = unroll(schedule, cut=True)
    events = json.loads(perfetto(view))["traceEvents"]
    names = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {track.name for track in view.tracks} <= names
    slices = [e for e in events if e["ph"] == "X"]
    assert len([e for e in slices if e["cat"] == "role"]) == len(view.slices)
    assert min(e["ts"] for e in slices) >= 0
    assert sum(e["ph"] == "s" for e in events) == len(view.arrows)


def test_one_start_time_changes_the_trace() -> None:
    schedule = solved("fa4_unit", "abstract")
    op = schedule.ops[2]
    moved = replace(op, start=op.start + 1, slot=(op.slot + 1) % 4)
    ops = tuple(moved if o is op else o for o in schedule.ops)
    assert perfetto(unroll(schedule)) != perfetto(unroll(replace(schedule, ops=ops)))
