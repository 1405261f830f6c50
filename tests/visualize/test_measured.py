"""Measured beside planned: differences are those that were put in."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from schedgen.program.model import Run
from schedgen.program.sequence import Instance
from schedgen.schedule import Schedule
from schedgen.visualize.measured import Comparison, Row, compare
from schedgen.visualize.measured_text import comparison_data, comparison_text
from schedgen.visualize.measured_trace import comparison_trace
from schedgen.visualize.record import RecordError, read_record
from tests.visualize.records import CLOCK, LATE, WAIT, WAIT_GROUP, Cost, made, record_of, text_of

GEMM, ATTENTION = ("gemm", "h200"), ("attention_fwd", "h200")


def compared(
    spec: tuple[str, str], tiles: int = 3, cost: Cost = lambda _, cycles: cycles
) -> Comparison:
    schedule, program = made(*spec)
    data = record_of(schedule, program, [schedule.tile.trips] * tiles, cost)
    return compare(read_record(text_of(data)), schedule)


def row(comparison: Comparison, role: str, kind: str, name: str) -> Row:
    (found,) = [
        row for row in comparison.rows if (row.role, row.kind, row.name) == (role, kind, name)
    ]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("spec", [GEMM, ATTENTION, ("gemm", "b200"), ("attention_fwd", "b200")])
def test_each_operation_is_as_late_as_it_was(spec: tuple[str, str]) -> None:
    comparison = compared(spec)
    operations = [row for row in comparison.rows if row.kind == "operation"]
    planned = {op.id for op in comparison.schedule.ops}
    assert planned <= {row.name for row in operations}
    for found in operations:
        assert found.difference == (LATE if found.name in planned else None)
        assert found.low == found.high == found.measured
    for found in (row for row in comparison.rows if row.kind == "wait"):
        cycles = {"wait": WAIT, "wait_group": WAIT_GROUP}
        assert [part.measured for part in found.parts] == [cycles[p.kind] for p in found.parts]


def test_idle_time_is_what_the_schedule_leaves() -> None:
    """By hand: LB starts 96 cycles after LA, which keeps its role for 30."""
    comparison = compared(GEMM)
    ops = {op.id: op for op in comparison.schedule.ops}
    assert row(comparison, "load", "operation", "LA").planned == ops["LA"].hold
    wait = row(comparison, "load", "wait", "LA")
    first, last = sorted((ops["LA"], ops["LB"]), key=lambda op: op.start)
    ii = comparison.schedule.ii_cycles
    assert first.id == "LA"
    assert wait.planned == first.start + ii - last.start - last.hold
    products = row(comparison, "epilogue0", "wait", "MMA[0]")
    assert products.planned == ii - ops["MMA[0]"].hold
    assert (products.parts[0].kind, products.parts[0].name) == ("wait_group", "MMA[0]")
    assert products.measured == WAIT_GROUP + WAIT


def test_a_schedule_that_starts_otherwise_changes_the_plan() -> None:
    schedule, program = made(*GEMM)
    data = text_of(record_of(schedule, program, [schedule.tile.trips] * 2))
    before = row(compare(read_record(data), schedule), "load", "wait", "LA").planned
    moved = tuple(replace(op, start=op.start - (op.id == "LB")) for op in schedule.ops)
    after = compare(read_record(data), replace(schedule, ops=moved))
    assert before is not None
    assert row(after, "load", "wait", "LA").planned == before + 1


def test_medians_are_those_of_full_turns() -> None:
    """What fills and drains the pipeline may be slow, and so may the first tile."""
    schedule, _ = made(*GEMM)

    def slow(instance: Instance, cycles: int) -> int:
        outside = not 4 <= instance.iteration < schedule.tile.trips - 4
        return cycles + 1000 * (instance.tile == 0 or outside)

    comparison = compared(GEMM, 3, slow)
    for name in ("LA", "LB"):
        found = row(comparison, "load", "operation", name)
        assert (found.difference, found.high) == (LATE, found.measured)
        assert found.count == 2 * (schedule.tile.trips - 2 * schedule.stages)


def test_one_slow_operation() -> None:
    def slow(instance: Instance, cycles: int) -> int:
        action = instance.step.action
        return cycles + 100 * (isinstance(action, Run) and action.operation == "EXP[0,0]")

    comparison, usual = compared(ATTENTION, 2, slow), compared(ATTENTION, 2)
    assert row(comparison, "softmax0", "operation", "EXP[0,0]").difference == LATE + 100
    assert row(comparison, "softmax1", "operation", "EXP[1,0]").difference == LATE
    iteration = row(comparison, "softmax0", "period", "iteration")
    assert iteration.measured == row(usual, "softmax0", "period", "iteration").measured + 100
    share = next(s for s in comparison.shares if s.role == "softmax0")
    assert share.clocks == comparison.record.clocks["softmax0"] * CLOCK
    parts = share.operations + share.waits + share.clocks + share.rest
    assert parts == pytest.approx(iteration.measured)
    assert share.rest == 0  # nothing but steps and clocks takes time in these records


def test_between_two_loops() -> None:
    """By hand: 4 slices of the epilogue with a wait each; the wait_groups of the last two products
    before them, and the wait for the next tile's operands. All of these read a clock at their end;
    wait_groups, slices and that last wait read one at their begin, too, as does the next product.
    """
    comparison = compared(GEMM, 4)
    share = next(s for s in comparison.shares if (s.role, s.scope) == ("epilogue0", "tile"))
    schedule = comparison.schedule
    product = next(op for op in schedule.ops if op.id == "MMA[0]")
    slices = [op for op in schedule.ops if op.id.startswith("EPI") and op.role == "epilogue0"]
    assert len(slices) == 4
    assert share.operations == sum(op.hold + LATE for op in slices)
    assert share.waits == 2 * WAIT_GROUP + 4 * WAIT + WAIT
    assert share.longest_cycles == 4 * WAIT
    assert share.longest == "c_stages full by LC"
    assert share.clocks == CLOCK * (2 * 2 + 3 * 4 + 2 + 1)
    assert share.rest == 0
    trips = schedule.tile.trips
    assert trips > 1
    between = schedule.tile.period_cycles - (trips - 1) * schedule.ii_cycles - product.hold
    assert share.planned == between


def test_a_tile_is_from_operation_to_operation() -> None:
    """Not from wait to wait: the first one of a role that runs ahead is over before it matters.
    The first tile does not count if there are others.
    """

    def slow(instance: Instance, cycles: int) -> int:
        return cycles + 5000 * (instance.tile == 0)

    usual, late = compared(GEMM, 3), compared(GEMM, 3, slow)
    for role in ("load", "epilogue_load", "epilogue0"):
        one = row(late, role, "period", "tile")
        assert (one.measured, one.count) == (row(usual, role, "period", "tile").measured, 1)


def test_text_and_data() -> None:
    comparison = compared(GEMM)
    text = comparison_text(comparison)
    assert text.startswith("gemm on h200, measured on a synthetic GPU, block 0, 3 tiles\n")
    assert "11.0 us with events, 10.0 us without (+10.0%), the same bits" in text
    line = next(line for line in text.splitlines() if line.startswith("  MMA[0] "))
    hold = 20 + 4 * 18  # fence and commit, and four wgmma, in the model of h200
    assert line.split()[:4] == ["MMA[0]", str(hold), str(hold + LATE), f"+{LATE}"]
    data = json.loads(json.dumps(comparison_data(comparison)))
    assert len(data["rows"]) == len(comparison.rows)
    assert {found["difference"] for found in data["rows"] if found["kind"] == "operation"} == {LATE}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"ii_cycles": 1}, "its cycles per iteration is 1, here it is 1024"),
        ({"kernel": "other"}, "its kernel is other, here it is gemm"),
        ({"spec_sha256": "0"}, "its spec is 0, here it is"),
    ],
)
def test_records_of_other_schedules(fields: dict[str, Any], message: str) -> None:
    schedule, program = made(*GEMM)
    data = {**record_of(schedule, program, [4]), **fields}
    with pytest.raises(RecordError, match=message):
        compare(read_record(text_of(data)), schedule)


# -- traces ----------------------------------------------------------------------------------------


def events(comparison: Comparison, kind: str) -> list[dict[str, Any]]:
    trace = json.loads(comparison_trace(comparison))
    return [event for event in trace["traceEvents"] if event["ph"] == kind]


def tracks(comparison: Comparison) -> dict[tuple[int, int], tuple[str, str]]:
    """(process, thread) -> their names."""
    names = events(comparison, "M")
    processes = {e["pid"]: e["args"]["name"] for e in names if e["name"] == "process_name"}
    return {
        (e["pid"], e["tid"]): (processes[e["pid"]], e["args"]["name"])
        for e in names
        if e["name"] == "thread_name"
    }


@pytest.mark.slow
@pytest.mark.parametrize("spec", [GEMM, ATTENTION, ("attention_fwd", "b200")])
def test_the_same_tracks_measured_as_planned(spec: tuple[str, str]) -> None:
    comparison = compared(spec, 2)
    schedule = comparison.schedule
    roles: dict[str, set[str]] = {"planned": set(), "measured": set()}
    for process, thread in tracks(comparison).values():
        if "roles" in process:
            roles["measured" if "measured" in process else "planned"].add(thread)
    assert roles["planned"] == roles["measured"] == {role.name for role in schedule.roles}
    slices = [e for e in events(comparison, "X") if e["cat"] == "role" and e["pid"] > 2]
    assert len(slices) == len(comparison.record.timed)


@pytest.mark.parametrize("spec", [GEMM, ATTENTION])
def test_slices_do_not_overlap(spec: tuple[str, str]) -> None:
    ends: dict[tuple[int, int], int] = {}
    found = sorted(events(compared(spec, 2), "X"), key=lambda e: (e["pid"], e["tid"], e["ts"]))
    assert found
    for event in found:
        track = event["pid"], event["tid"]
        assert event["ts"] >= ends.get(track, 0)
        ends[track] = event["ts"] + event["dur"]


def _start(comparison: Comparison, schedule: Schedule, part: str, phase: str) -> int:
    first = min(schedule.body, key=lambda op: op.start).id
    at = tracks(comparison)
    (found,) = [
        event["ts"]
        for event in events(comparison, "X")
        if event["name"] == first and event["args"]["iteration"] == 0 and event["cat"] == "role"
        if part in at[event["pid"], event["tid"]][0] and event["args"]["phase"].endswith(phase)
    ]
    return found


@pytest.mark.medium
def test_the_second_tile_begins_as_planned() -> None:
    comparison = compared(GEMM, 3)
    planned = _start(comparison, comparison.schedule, "planned", "prologue")
    assert _start(comparison, comparison.schedule, "measured", "tile 1") == planned
    assert _start(comparison, comparison.schedule, "measured", "tile 0") < planned


@pytest.mark.medium
def test_arrows_say_how_much_time_there_was() -> None:
    comparison = compared(GEMM, 2)
    arrows = [e for e in events(comparison, "s") if e["pid"] > 2]
    edges = len(comparison.schedule.edges)
    trips = comparison.schedule.tile.trips
    assert 2 * edges * (trips - 4) < len(arrows) <= 2 * edges * trips
    assert len({e["id"] for e in events(comparison, "s")}) == len(events(comparison, "s"))
