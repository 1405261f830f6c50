"""The unrolled view says what the schedule says, once for each iteration."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest

from schedgen.schedule import Schedule, ScheduleError
from schedgen.visualize.unrolled import OUTSIDE, Unrolled, unroll
from tests.visualize.schedules import SHIPPED, solved


@pytest.fixture(params=SHIPPED, ids="-".join)
def schedule(request: pytest.FixtureRequest) -> Schedule:
    return solved(*request.param)


@pytest.mark.parametrize("cut", [False, True])
def test_every_operation_is_there_as_often_as_it_runs(schedule: Schedule, cut: bool) -> None:
    view = unroll(schedule, cut=cut)
    shown = schedule.tile.trips - (view.cut.iterations if view.cut else 0)
    times = Counter(s.operation for s in view.slices)
    assert times == {op.id: shown if op.phase == "body" else 1 for op in schedule.ops}


@pytest.mark.parametrize("cut", [False, True])
def test_no_two_slices_overlap_on_a_lane(schedule: Schedule, cut: bool) -> None:
    view = unroll(schedule, cut=cut)
    for track in view.tracks:
        for lane in range(track.lanes):
            busy = [
                (s.start, s.unit_end if track.kind == "unit" else s.hold_end)
                for s in view.on(track)
                if (s.unit_lane if track.kind == "unit" else s.role_lane) == lane
            ]
            assert busy
            assert all(end <= start for (_, end), (start, _) in pairwise(busy))


def test_exclusive_units_need_one_lane_for_the_main_loop(schedule: Schedule) -> None:
    view = unroll(replace(schedule, ops=schedule.body))
    assert all(track.lanes == 1 for track in view.tracks if track.exclusive)
    assert all(track.lanes == 1 for track in view.tracks if track.kind == "role")


@pytest.mark.parametrize("cut", [False, True])
def test_arrows_join_slices_as_far_apart_as_the_slack_says(schedule: Schedule, cut: bool) -> None:
    view = unroll(schedule, cut=cut)
    assert view.arrows
    for arrow in view.arrows:
        src, dst = view.slices[arrow.src], view.slices[arrow.dst]
        assert dst.start - src.start == arrow.delay + arrow.slack


def test_a_cut_leaves_out_whole_periods_and_nothing_else(schedule: Schedule) -> None:
    whole, cut = unroll(schedule), unroll(schedule, cut=True)
    assert cut.cut is not None
    assert cut.cut.cycles == cut.cut.iterations * schedule.ii_cycles
    times = {(s.operation, s.iteration): s.start for s in whole.slices}
    for found in cut.slices:
        gone = cut.cut.cycles if _from_the_end(cut, found.operation, found.iteration) else 0
        assert found.start + gone == times[found.operation, found.iteration]
    # Outer operations of the beginning end before the cut, those of the end start after it.
    for found in (s for s in cut.slices if s.iteration == OUTSIDE):
        moved = found.start != times[found.operation, OUTSIDE]
        assert found.start >= cut.cut.at if moved else found.end <= cut.cut.at


def _from_the_end(view: Unrolled, operation: str, iteration: int) -> bool:
    assert view.cut is not None
    if iteration != OUTSIDE:
        return iteration >= view.cut.first
    return next(s for s in view.slices if s.operation == operation).start >= view.cut.at


def test_what_runs_beside_the_cut_is_what_runs_there(schedule: Schedule) -> None:
    whole, cut = unroll(schedule), unroll(schedule, cut=True)
    assert cut.cut is not None
    for back in (schedule.ii_cycles, schedule.ii_cycles // 2, 1):
        assert _running(cut, cut.cut.at - back) == _running(whole, cut.cut.at - back)
        after = cut.cut.at + back - 1
        assert _running(cut, after) == _running(whole, after + cut.cut.cycles)


def _running(view: Unrolled, cycle: int) -> Counter[str]:
    return Counter(s.operation for s in view.slices if s.start <= cycle < s.unit_end)


def test_phases_follow_the_turns(schedule: Schedule) -> None:
    view = unroll(schedule)
    for one in view.slices:
        if one.iteration == OUTSIDE:
            assert one.phase in ("before", "after")
        elif one.phase == "prologue":
            assert one.start < (schedule.stages - 1) * schedule.ii_cycles
        elif one.phase == "epilogue":
            assert one.start >= schedule.tile.trips * schedule.ii_cycles


# Not fa4_unit: its EXP writes P over the S that it reads, value by value.
@pytest.mark.parametrize("which", [s for s in SHIPPED if s[0] != "fa4_unit"], ids="-".join)
def test_values_in_the_same_bytes_follow_one_another(which: tuple[str, str]) -> None:
    """Aliases and ring slots: whoever has bytes lets go before the next one comes."""
    view = unroll(solved(*which), cut=True)
    placed = [o for o in view.occupancies if o.space != "registers"]
    assert placed
    for number, one in enumerate(placed):
        for other in placed[number + 1 :]:
            share = max(one.address, other.address) < min(
                one.address + one.size, other.address + other.size
            )
            if share and one.space == other.space:
                first, second = sorted((one, other), key=lambda o: o.start)
                assert first.end <= second.start, (first, second)


def test_a_tenant_is_inside_its_host() -> None:
    view = unroll(solved("attention_fwd", "b200"))
    tenant = next(o for o in view.occupancies if o.buffer == "P[0]" and o.iteration == 0)
    host = next(o for o in view.occupancies if o.buffer == tenant.host and o.iteration == 1)
    assert (tenant.space, tenant.slot) == ("tmem", host.slot)
    assert host.address <= tenant.address < host.address + host.size


def test_one_start_time_changes_the_view() -> None:
    schedule = solved("fa4_unit", "abstract")
    op = schedule.ops[2]
    moved = replace(op, start=op.start + 1, slot=(op.slot + 1) % 4)
    ops = tuple(moved if o is op else o for o in schedule.ops)
    before, after = (
        {(s.operation, s.iteration): s.start for s in unroll(one).slices}
        for one in (schedule, replace(schedule, ops=ops))
    )
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {(op.id, i) for i in range(schedule.tile.trips)}


def test_contradictions_are_refused() -> None:
    good = solved("fa4_unit", "abstract")
    bad = {
        "period is positive": replace(good, ii_cycles=0),
        "no operations": replace(good, ops=()),
        "not in 'roles'": replace(good, roles=good.roles[1:]),
        "not in the main loop": replace(good, ops=good.ops[3:]),
        "link nobody -> .*: nobody is not": replace(
            good,
            critical_cycle=(replace(good.critical_cycle[0], src="nobody"),),
        ),
        "negative": replace(good, ops=(replace(good.ops[0], hold=-1), *good.ops[1:])),
    }
    for message, schedule in bad.items():
        with pytest.raises(ScheduleError, match=message):
            unroll(schedule)
