"""Records that an H200 made (`tests/data/records`): facts read off their words by hand, and what
has to hold of any kernel that runs.

Block 7 of the kernels of 2026-11-22, with 4096 x 4096 x 768 and 1536 keys: 12 iterations a tile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from schedgen.schedule import read_schedule
from schedgen.visualize.measured import Comparison, Row, compare
from schedgen.visualize.measured_text import comparison_text
from schedgen.visualize.measured_trace import comparison_trace
from schedgen.visualize.record import Timed, read_record
from tests.visualize.processor import FROM, loaded_trace, overlaps, problems, rows

FOLDER = Path(__file__).parents[1] / "data" / "records"
BOTH = ("gemm", "attention_fwd")


def recorded(name: str) -> Comparison:
    record = (FOLDER / f"{name}.record.json").read_text("utf-8")
    schedule = (FOLDER / f"{name}.schedule.json").read_text("utf-8")
    return compare(read_record(record), read_schedule(schedule, name))


def row(comparison: Comparison, role: str, kind: str, name: str) -> Row:
    (found,) = [r for r in comparison.rows if (r.role, r.kind, r.name) == (role, kind, name)]
    return found


def runs(comparison: Comparison) -> dict[tuple[str, int, int], Timed]:
    timed = comparison.record.timed
    return {(t.name, t.tile, t.iteration): t for t in timed if t.kind == "run"}


def test_words_by_hand() -> None:
    """Words 0 to 7 of ``epilogue0`` are clocks 18 or 19 cycles apart, but for the first; word 8 is
    12; words 11, 12 and 13 are before and after MMA[0] and after its wait_group: 81 and 895 cycles.
    Word 16 is before the next MMA[0], 1235 later. Words 77 and 78, 2214 apart, are around the wait
    for the third slice of C.
    """
    comparison = recorded("gemm")
    record = comparison.record
    assert record.trips == (12, 12)
    assert record.overhead["epilogue0"] == 18
    mine = [t for t in record.timed if t.role == "epilogue0" and t.tile == 0]
    product, wait_group = (
        next(t for t in mine if (t.kind, t.name, t.iteration) == (kind, "MMA[0]", 0))
        for kind in ("run", "wait_group")
    )
    assert product.end - product.begin == 81
    assert wait_group.begin == product.end
    assert wait_group.end - wait_group.begin == 895
    assert runs(comparison)["MMA[0]", 0, 1].begin - product.begin == 1235
    (wait,) = [t for t in mine if t.why == "EPI[2,0] uses c_stages"]
    assert wait.end - wait.begin == 2214
    assert wait.name == "c_stages full"


@pytest.mark.parametrize("name", BOTH)
def test_each_role_does_one_thing_after_another(name: str) -> None:
    comparison = recorded(name)
    for role in comparison.schedule.roles:
        mine = [t for t in comparison.record.timed if t.role == role.name]
        times = [time for one in mine for time in (one.begin, one.end)]
        assert times
        assert times == sorted(times)


@pytest.mark.parametrize("name", BOTH)
def test_nothing_begins_before_what_it_depends_on(name: str) -> None:
    comparison = recorded(name)
    found = runs(comparison)
    pairs = [
        (source, found[edge.dst, tile, iteration + edge.distance])
        for edge in comparison.schedule.edges
        for (operation, tile, iteration), source in found.items()
        if operation == edge.src and (edge.dst, tile, iteration + edge.distance) in found
    ]
    assert len(pairs) > 200
    assert all(source.begin <= target.begin for source, target in pairs)


def hand_offs(comparison: Comparison) -> Iterator[tuple[Timed, Timed]]:
    """A wait for data, and the operation of the same tile and slice that makes it."""
    found = runs(comparison)
    for wait in comparison.record.timed:
        if wait.kind != "wait" or wait.section != "after" or " uses " not in wait.why:
            continue
        kind, _, instance = wait.why.partition(" ")[0].partition("[")
        number = instance.rstrip("]").split(",")[0]
        makers = {"EPI": ["LC[{}]"], "STD": ["EPI[{},0]", "EPI[{},1]"], "STO": ["EPI[{}]"]}[kind]
        for maker in makers:
            yield found[maker.format(number), wait.tile, 0], wait


@pytest.mark.parametrize(("name", "count"), [("gemm", 2 * (16 + 16)), ("attention_fwd", 2 * 2)])
def test_waits_end_after_what_they_wait_for(name: str, count: int) -> None:
    pairs = list(hand_offs(recorded(name)))
    assert len(pairs) == count
    for maker, wait in pairs:
        done = maker.begin if maker.name.startswith("LC") else maker.end
        assert done < wait.end


def test_gemm_departs_from_its_plan_where_it_waits_for_c() -> None:
    """The main loop is as planned within 5 %. Slices 2 to 7 of C come later than planned."""
    comparison = recorded("gemm")
    for role in ("load", "epilogue0", "epilogue1"):
        assert 1024 <= row(comparison, role, "period", "iteration").measured <= 1.05 * 1024
    late = row(comparison, "epilogue0", "wait", "EPI[2,0]")
    assert (late.planned, late.measured) == (954, 2598)
    assert (late.parts[0].name, late.parts[0].measured) == ("c_stages full", 2542)
    (between,) = [s for s in comparison.shares if (s.role, s.scope) == ("epilogue0", "tile")]
    assert between.longest == "c_stages full"
    assert between.longest_cycles > between.waits / 2
    for slice_ in (0, 1, 3, 5, 7):  # come with the slice before, or under the main loop
        wait = row(comparison, "epilogue0", "wait", f"EPI[{slice_},0]")
        c = next(part for part in wait.parts if part.name == "c_stages full")
        assert c.measured < 100


def test_latency_of_c() -> None:
    """By hand, from the words of the second tile: LC[2] to the end of the waits for it."""
    comparison = recorded("gemm")
    (planned,) = [op.latency for op in comparison.schedule.ops if op.id == "LC[2]"]
    load = runs(comparison)["LC[2]", 1, 0]
    ends = [wait.end for maker, wait in hand_offs(comparison) if maker == load]
    assert planned == 508
    assert [end - load.begin for end in ends] == [2463, 2472]


def test_attention_is_late_because_its_softmax_is() -> None:
    comparison = recorded("attention_fwd")
    (share,) = [s for s in comparison.shares if (s.role, s.scope) == ("softmax0", "iteration")]
    assert (share.planned, share.total) == (2048, 2973)
    assert share.waits < 0.15 * share.total
    planned = [op.hold for op in comparison.schedule.body if op.role == "softmax0"]
    assert share.operations > sum(planned)


def test_plans_for_longer_tiles() -> None:
    """The schedule has 64 iterations: what passes between LC[1] and LC[2] is not comparable."""
    comparison = recorded("gemm")
    assert row(comparison, "tile_load", "wait", "LC[2]").planned is None
    assert row(comparison, "tile_load", "wait", "LC[4]").planned == 576
    assert row(comparison, "load", "period", "tile").planned is None
    assert "between loops: 12663 = operations" in comparison_text(comparison)


@pytest.mark.parametrize("name", BOTH)
def test_perfetto_reads_the_trace(name: str, tmp_path: Path) -> None:
    comparison = recorded(name)
    text = comparison_trace(comparison)
    arrows = [event for event in json.loads(text)["traceEvents"] if event["ph"] == "s"]
    timed = comparison.record.timed
    query = f"select slice.name as name, count(*) as n {FROM} where process.name like "
    with loaded_trace(text, tmp_path) as trace:
        assert not problems(trace)
        assert overlaps(trace) == 0
        assert rows(trace, "select count(*) as n from flow")[0]["n"] == len(arrows)
        measured = rows(trace, query + "'% measured on h200: roles%' group by 1")
        assert sum(found["n"] for found in measured) == len(timed)
        operations = {found["name"]: found["n"] for found in measured}
    for op in comparison.schedule.ops:
        assert operations[op.id] == sum(comparison.record.trips if op.phase == "body" else (1, 1))
