"""The text timeline follows the schedule and nothing else."""

from dataclasses import replace

from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.schedule import Schedule
from schedgen.spec.reader import read_spec
from schedgen.visualize.summary import summary
from schedgen.visualize.timeline import timeline


def unit_schedule() -> Schedule:
    return solve(read_spec("fa4_unit"), read_machine("abstract")).schedule


def test_every_operation_is_drawn() -> None:
    schedule = unit_schedule()
    text = timeline(schedule)
    assert all(op.id in text for op in schedule.body)
    assert all(unit.name in text for unit in schedule.units if unit.kind == "exclusive")


def test_width_is_kept() -> None:
    for width in (60, 80, 100, 140):
        assert max(map(len, timeline(unit_schedule(), width).splitlines())) <= width


def test_one_start_time_changes_the_picture() -> None:
    schedule = unit_schedule()
    first = schedule.ops[2]
    moved = replace(
        schedule,
        ops=(*schedule.ops[:2], replace(first, slot=(first.slot + 1) % 4), *schedule.ops[3:]),
    )
    assert timeline(moved) != timeline(schedule)


def test_what_wraps_around_continues_at_the_left() -> None:
    schedule = unit_schedule()
    op = next(op for op in schedule.body if op.unit == "TensorCore")
    wrapped = replace(op, slot=3, cycles=2)
    lines = timeline(replace(schedule, ops=(wrapped,), roles=())).splitlines()
    row = next(line for line in lines if line.startswith("TensorCore"))
    assert row[14] == "["
    assert row.rstrip().endswith("]")


def test_summary_names_roles_and_certificate() -> None:
    schedule = unit_schedule()
    text = summary(schedule, 0.5, ("because",))
    assert schedule.certificate.text in text
    assert all(role.name in text for role in schedule.roles)
    assert "because" in text
