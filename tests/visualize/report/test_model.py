"""The data of a report: complete, true to its file, and made of the file alone."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from schedgen.bounds import critical_cycle
from schedgen.driver.checking import load_program
from schedgen.errors import SchedgenError
from schedgen.program.file import to_json
from schedgen.schedule import Schedule, ScheduleError
from schedgen.solver.decisions import order_constraints
from schedgen.visualize.report.decided import decisions
from schedgen.visualize.report.graph import columns
from schedgen.visualize.report.model import model
from schedgen.visualize.report.page import embedded, html_report
from schedgen.visualize.report.source import read_source, settled
from tests.visualize.report.many import side_by_side
from tests.visualize.schedules import SHIPPED, solved


@cache
def data_of(spec: str, target: str) -> dict[str, Any]:
    return model(read_source(solved(spec, target).to_json(), spec))


def with_start(schedule: Schedule, name: str, by: int) -> str:
    """The file of ``schedule`` with one start time changed, and nothing else."""
    data = json.loads(schedule.to_json())
    for op in data["ops"]:
        op["start"] += by if op["id"] == name else 0
    return json.dumps(data)


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "target"), SHIPPED)
def test_everything_of_the_file_is_there(spec: str, target: str) -> None:
    schedule, data = solved(spec, target), data_of(spec, target)
    assert [op["id"] for op in data["ops"]] == [op.id for op in schedule.ops]
    assert len(data["edges"]) == len(schedule.edges)
    assert {role["name"] for role in data["roles"]} == {role.name for role in schedule.roles}
    assert {node["id"] for node in data["graph"]["nodes"]} == {op.id for op in schedule.body}
    drawn = {row[0] for row in data["timeline"]["slices"]}
    assert drawn == {op.id for op in schedule.ops}


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "target"), SHIPPED)
def test_every_barrier_and_every_order_has_its_proof(spec: str, target: str) -> None:
    program = load_program(solved(spec, target).to_json(), spec)
    proofs = data_of(spec, target)["proofs"]
    assert {row["name"] for row in data_of(spec, target)["barriers"]} == {*program.barrier}
    assert proofs["findings"] == []
    assert all(path >= 0 for order in proofs["orders"] for _, path in order["cases"])
    used = {name for order in proofs["orders"] for name in order["barriers"]}
    assert used <= {*program.barrier}
    assert used, "no order leads through a barrier"


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "target"), SHIPPED)
def test_owners_fit_their_memory_and_never_overlap(spec: str, target: str) -> None:
    """Two owners of the same bytes at the same time would be a race."""
    assert data_of(spec, target)["memory"]
    for panel in data_of(spec, target)["memory"]:
        if "register" in panel["title"]:
            assert panel["used"] <= panel["room"]
            continue
        assert all(0 <= o["from"] < o["to"] <= panel["room"] for o in panel["owners"])
        owners = [o for o in panel["owners"] if o["end"] > o["start"]]
        for number, one in enumerate(owners):
            for other in owners[:number]:
                at_once = one["start"] < other["end"] and other["start"] < one["end"]
                shared = one["from"] < other["to"] and other["from"] < one["to"]
                # An operation may write over what it reads itself.
                in_place = {*one["writers"]} & {*other["readers"]}
                assert not (at_once and shared) or in_place, (one, other)


@pytest.mark.slow
def test_aliases_are_tenants_in_the_storage_of_another_buffer() -> None:
    panels = data_of("attention_fwd", "b200")["memory"]
    tensor = next(panel for panel in panels if panel["title"] == "tensor memory")
    tenants = {(o["buffer"][:4], o["allocation"]) for o in tensor["owners"] if o["tenant"]}
    assert tenants == {("P[0,", "S[1]"), ("P[1,", "S[0]")}


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "target"), SHIPPED)
def test_loads_are_those_of_the_schedule(spec: str, target: str) -> None:
    schedule, loads = solved(spec, target), data_of(spec, target)["loads"]
    busy = {unit.name: unit.busy for unit in schedule.units if unit.busy}
    units = {load["name"]: load for load in loads if load["kind"] != "role"}
    assert {name: load["cycles"] for name, load in units.items()} == busy
    for load in units.values():
        assert sum(cycles for _, cycles in load["parts"]) == load["cycles"]
    assert all(load["cycles"] <= schedule.ii_cycles for load in loads)


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "target"), SHIPPED)
def test_decisions_are_read_back_from_the_file(spec: str, target: str) -> None:
    """With them the solver's own constraints give the cycle ratio that the file has."""
    schedule = solved(spec, target)
    problem = read_source(schedule.to_json(), spec).problem
    assert problem is not None
    made = decisions(schedule, problem)
    assert made is not None
    cycle = critical_cycle(order_constraints(problem, made))
    assert cycle is not None
    assert round(float(cycle.ratio), 3) == schedule.max_cycle_ratio_cycles


@pytest.mark.medium
def test_what_would_help_does_help() -> None:
    helps = data_of("attention_fwd", "b200")["helps"]
    assert {row["where"] for row in helps} == {"schedule", "program"}
    assert all(row["cycles"] < row["now"] for row in helps)
    assert data_of("attention_fwd", "b200")["helps_tried"]


@pytest.mark.slow
def test_one_start_time_changes_everything_that_follows_from_it() -> None:
    schedule = solved("attention_fwd", "b200")
    moved = model(read_source(with_start(schedule, "LV", 8), "moved"))
    before = data_of("attention_fwd", "b200")
    changed = [a["id"] for a, b in zip(before["ops"], moved["ops"], strict=True) if a != b]
    assert changed == ["LV"]
    op = next(op for op in moved["ops"] if op["id"] == "LV")
    old = next(op for op in before["ops"] if op["id"] == "LV")
    assert (op["start"], op["slot"]) == (old["start"] + 8, old["slot"] + 8)
    for a, b in zip(before["edges"], moved["edges"], strict=True):
        shift = 8 * ((a["dst"] == "LV") - (a["src"] == "LV"))
        assert b["slack"] == a["slack"] + shift
    assert before["timeline"]["slices"] != moved["timeline"]["slices"]
    assert before["memory"] != moved["memory"]


@pytest.mark.medium
def test_a_start_time_that_breaks_a_dependence_shows_negative_slack() -> None:
    schedule = solved("attention_fwd", "b200")
    tight = next(edge for edge in schedule.edges if edge.slack == 0 and edge.distance == 0)
    broken = settled(
        replace(
            schedule,
            ops=tuple(
                replace(op, start=op.start - 5) if op.id == tight.dst else op for op in schedule.ops
            ),
        )
    )
    again = next(e for e in broken.edges if (e.src, e.dst) == (tight.src, tight.dst))
    assert again.slack == -5


@pytest.mark.parametrize(("spec", "target"), SHIPPED)
def test_dependences_within_an_iteration_lead_to_the_right(spec: str, target: str) -> None:
    schedule = solved(spec, target)
    column = columns(schedule)
    start = {op.id: op.start for op in schedule.body}
    for edge in schedule.edges:
        if edge.distance == 0 and start[edge.src] < start[edge.dst]:
            assert column[edge.src] < column[edge.dst]
    places = [(op.role, column[op.id]) for op in schedule.body]
    assert len(set(places)) == len(places)


@pytest.mark.slow
def test_the_explanation_is_that_of_the_file_or_of_the_solver() -> None:
    schedule = solved("gemm", "b200")
    told = schedule.to_json(explanation=["because", "of this"])
    assert read_source(told, "gemm").explanation == ("because", "of this")
    assert read_source(schedule.to_json(), "gemm").explanation == ()
    asked = read_source(schedule.to_json(), "gemm", explain=True).explanation
    assert asked
    assert asked[0].startswith(f"II cannot go below {schedule.ii_cycles}")


@pytest.mark.slow
def test_the_same_file_gives_the_same_bytes() -> None:
    text = solved("gemm", "b200").to_json()
    assert html_report(text, "a") == html_report(text, "a")


@pytest.mark.medium
def test_a_program_file_has_barriers_but_no_times() -> None:
    program = load_program(solved("gemm", "b200").to_json(), "gemm")
    data = model(read_source(to_json(program), "program"))
    assert data["schedule"] is None
    assert data["timeline"] is None
    assert len(data["barriers"]) == len(program.barriers)


def test_without_the_spec_the_report_says_what_is_missing() -> None:
    schedule = replace(solved("gemm", "b200"), spec_sha256="changed")
    data = model(read_source(schedule.to_json(), "gemm.json"))
    assert "has changed" in data["missing"]
    assert data["proofs"] is None
    assert data["memory"], "the dependences alone tell who owns what"


def test_an_accumulator_has_one_owner_for_the_tile() -> None:
    schedule = replace(solved("gemm", "b200"), spec_sha256="changed")
    panels = model(read_source(schedule.to_json(), "gemm.json"))["memory"]
    tensor = next(panel for panel in panels if panel["title"] == "tensor memory")
    assert [owner["buffer"] for owner in tensor["owners"]] == ["acc"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 1}', "not json"])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises((SchedgenError, ScheduleError)):
        html_report(text, "other.json")


def test_no_name_can_end_the_script() -> None:
    text = embedded({"kernel": "</script><script>alert(1)</script><!--"})
    assert "<" not in text
    assert json.loads(text)["kernel"].startswith("</script>")


@pytest.mark.medium
def test_copies_side_by_side_are_proven_too() -> None:
    source = read_source(solved("gemm_chain", "b200").to_json(), "chain")
    assert source.schedule is not None
    assert source.program is not None
    data = model(side_by_side(source.schedule, source.program, 3))
    assert len(data["ops"]) == 3 * len(source.schedule.ops)
    assert data["proofs"]["findings"] == []
