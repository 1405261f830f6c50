"""A program drawn as it would run: its pace is the one that its event graph has."""

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from schedgen.driver.checking import load_program
from schedgen.errors import SchedgenError
from schedgen.program.model import Program
from schedgen.program.operations import Engine
from schedgen.synchronize.pace import pace
from schedgen.visualize.executed import execute
from schedgen.visualize.perfetto import perfetto
from schedgen.visualize.svg import svg
from schedgen.visualize.unrolled import OUTSIDE
from tests.visualize.schedules import SHIPPED, solved


@cache
def program(spec: str, target: str) -> Program:
    return load_program(solved(spec, target).to_json(), "schedule.json")


@pytest.mark.slow
@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize("which", SHIPPED, ids="-".join)
def test_it_runs_at_the_pace_of_the_event_graph(which: tuple[str, str], end: str) -> None:
    """The maximum cycle ratio is computed without executing anything."""
    made = program(*which)
    view = execute(made, end=end, trips=32)
    starts: dict[str, list[int]] = {}
    for one in view.slices:
        if one.iteration != OUTSIDE and one.kind == "mma":
            starts.setdefault(one.operation, []).append(one.start)
    for times in starts.values():
        assert times[30] - times[16] == pytest.approx(14 * pace(made, end).cycles, abs=2)


@pytest.mark.medium
@pytest.mark.parametrize("which", SHIPPED, ids="-".join)
def test_every_operation_runs_once_per_iteration(which: tuple[str, str]) -> None:
    made = program(*which)
    view = execute(made, trips=9)
    times = Counter(one.operation for one in view.slices)
    schedule = solved(*which)
    assert times == {op.id: 9 if op.phase == "body" else 1 for op in schedule.ops}


@pytest.mark.medium
@pytest.mark.parametrize("which", SHIPPED, ids="-".join)
def test_lanes_units_and_roles(which: tuple[str, str]) -> None:
    made = program(*which)
    view = execute(made)
    for track in view.tracks:
        for lane in range(track.lanes):
            unit = track.kind == "unit"
            busy = [
                (s.start, s.unit_end if unit else s.hold_end)
                for s in view.on(track)
                if (s.unit_lane if unit else s.role_lane) == lane
            ]
            assert all(end <= start for (_, end), (start, _) in pairwise(busy))
    queues = {made.operation[s.operation].engine for s in view.slices}
    assert Engine.COPY_IN in queues
    for engine in (Engine.TENSOR, Engine.COPY_OUT):
        ends = [s.end for s in view.slices if made.operation[s.operation].engine is engine]
        assert ends == sorted(ends)


def test_arrows_are_barriers_that_somebody_waited_for() -> None:
    made = program("attention_fwd", "b200")
    view = execute(made)
    # What the first tile waits for; storage that a tile leaves is free at the start.
    found = {arrow.resource for arrow in view.arrows}
    assert {"kv full", "kv empty", "S[0] full by QK[0]"} <= found
    assert found <= {b.name for b in made.barriers}
    for arrow in view.arrows:
        src, dst = view.slices[arrow.src], view.slices[arrow.dst]
        assert dst.start - src.start == arrow.delay + arrow.slack
        assert arrow.slack >= 0


def test_trip_counts_of_zero_and_one() -> None:
    for trips in (0, 1):
        view = execute(program("gemm", "b200"), trips=trips)
        assert Counter(s.iteration != OUTSIDE for s in view.slices)[True] == 3 * trips


def test_one_latency_changes_the_pictures() -> None:
    made = program("gemm", "b200")
    longer = tuple(
        replace(o, latency=(o.latency[0], o.latency[1] + 7)) if o.name == "LB" else o
        for o in made.operations
    )
    before, after = execute(made), execute(replace(made, operations=longer))
    assert svg(before) != svg(after)
    assert perfetto(before) != perfetto(after)
    moved = {s.operation for s, t in zip(before.slices, after.slices, strict=True) if s != t}
    assert "MMA[0]" in moved


def test_a_program_that_stops_is_reported() -> None:
    made = program("fa4_unit", "abstract")
    barriers = (
        replace(made.barriers[0], arrivals=made.barriers[0].arrivals + 1),
        *made.barriers[1:],
    )
    with pytest.raises(SchedgenError, match=r"for ever; 'schedgen check' says why"):
        execute(replace(made, barriers=barriers))


# Not fa4_unit: its EXP writes P over the S that it reads, value by value.
@pytest.mark.parametrize("which", [s for s in SHIPPED if s[0] != "fa4_unit"], ids="-".join)
def test_bytes_have_one_owner_at_a_time(which: tuple[str, str]) -> None:
    view = execute(program(*which), trips=5)
    placed = sorted((o for o in view.occupancies if o.address >= 0), key=lambda o: o.start)
    assert {o.buffer.partition("[")[0] for o in placed} >= {
        b.name.partition("[")[0] for b in solved(*which).buffers if b.space != "registers"
    }
    for number, one in enumerate(placed):
        for other in placed[number + 1 :]:
            apart = other.address >= one.address + one.size or one.address >= (
                other.address + other.size
            )
            stems = {o.buffer.partition("[")[0] for o in (one, other)}
            parts = {o.buffer.partition(",")[2] for o in (one, other)}
            # Parts of a buffer have different columns of the same rows.
            same = len(stems) == 1 and (len(parts) == 2 or one.buffer == other.buffer)
            assert apart or same or one.space != other.space or one.end <= other.start, (one, other)
