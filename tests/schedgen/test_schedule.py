"""Schedules of the shipped specs: round trip, certificates, and the figures that the project
promises.
"""

import pytest

from schedgen.driver.found import Infeasible, Solution
from schedgen.driver.selecting import with_registers
from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.schedule import Schedule, read_schedule
from schedgen.spec.reader import read_spec
from tests.schedgen.shipped import targets

SHIPPED = targets()


def solved(name: str, target: str, latencies: str = "high", **settings: str) -> Solution:
    return solve(read_spec(name), read_machine(target), settings=settings, latencies=latencies)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), SHIPPED)
def test_shipped_specs(name: str, target: str) -> None:
    schedule = solved(name, target).schedule
    assert schedule.proven_optimal
    assert schedule.lower_bound_cycles == schedule.ii_cycles
    assert schedule.max_cycle_ratio_cycles <= schedule.ii_cycles
    assert all(edge.slack >= 0 for edge in schedule.edges)
    assert all(unit.busy <= schedule.ii_cycles for unit in schedule.units)
    assert read_schedule(schedule.to_json(solve_seconds=1.0)) == schedule
    by_name = {role.name: role for role in schedule.roles}
    assert all(op.id in by_name[op.role].operations for op in schedule.ops)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "low", "high"),
    [
        ({"p_storage": "own", "product_order": "pv_first", "kv_lag": "0"}, 2513, 2954),
        ({"p_storage": "other", "product_order": "qk_first", "kv_lag": "1"}, 2072, 2092),
    ],
)
def test_published_maps(settings: dict[str, str], low: int, high: int) -> None:
    """Both hand-written kernels keep the recurrence bounds of their published graphs within 2 %."""
    free = {"exp2_polynomial": "3/16"}
    for latencies, published in (("low", low), ("high", high)):
        fixed = solved("attention_fwd", "b200", latencies, **free, **settings).schedule
        assert fixed.max_cycle_ratio_cycles == pytest.approx(published, rel=0.02)
        best = solved("attention_fwd", "b200", latencies, **free).schedule
        assert best.ii_cycles <= fixed.ii_cycles


@pytest.mark.medium
def test_high_latencies_cover_low_ones() -> None:
    ratios = solved("attention_fwd", "b200").schedule.cycle_ratios
    assert ratios["low"] <= ratios["high"]


def test_hopper_alternates_and_overlaps() -> None:
    """One warpgroup's exponentials run under the other's products, and under its own product of the
    next keys.
    """
    schedule = solved("attention_fwd", "h200").schedule
    assert schedule.certificate.kind == "resource"
    products = sorted((op for op in schedule.body if op.unit == "TENSOR"), key=lambda op: op.slot)
    roles = [op.role for op in products]
    assert roles in (roles[:1] * 2 + roles[2:3] * 2, [roles[0], roles[1], roles[1], roles[0]])
    assert len(set(roles)) == 2
    for op in schedule.body:
        if op.unit == "MUFU":
            busy = [
                p
                for p in products
                if p.role != op.role and _meet(op.slot, op.cycles, p.slot, p.cycles, schedule)
            ]
            assert busy


def _meet(a: int, la: int, b: int, lb: int, schedule: Schedule) -> bool:
    turns = (-schedule.ii_cycles, 0, schedule.ii_cycles)
    return any(a + turn < b + lb and b < a + la + turn for turn in turns)


def test_accumulator_ring_overlaps_the_epilogue() -> None:
    """On b200 a second accumulator hides the epilogue; on h200 registers hold only one."""
    blackwell, hopper = solved("gemm", "b200").schedule, solved("gemm", "h200").schedule
    depth = {b.name: b.depth for b in blackwell.buffers}
    assert depth["acc"] == 2
    assert blackwell.tile.period_cycles == blackwell.tile.floor_cycles
    assert {b.name: b.depth for b in hopper.buffers}["acc"] == 1
    assert hopper.tile.period_cycles > hopper.tile.floor_cycles
    single = solved("gemm", "b200", accumulators="1").schedule
    assert single.tile.period_cycles > blackwell.tile.period_cycles


@pytest.mark.medium
def test_choices_are_pruned_by_their_bounds() -> None:
    schedule = solved("attention_fwd", "b200").schedule
    assert schedule.choices["exp2_polynomial"] == "1/4"
    assert any("excluded by their lower bound" in note for note in schedule.notes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target", "settings", "words"),
    [
        ("gemm", "b200", {"tile_k": "512"}, "shared memory"),
        ("attention_fwd", "b200", {"p_storage": "none"}, "tensor"),
        ("attention_fwd", "h200", {"head_dim": "128", "rows": "128", "keys": "256"}, "register"),
    ],
)
def test_infeasible(name: str, target: str, settings: dict[str, str], words: str) -> None:
    with pytest.raises(Infeasible, match=words):
        solved(name, target, **settings)


@pytest.mark.medium
def test_no_registers_outside_of_the_loop() -> None:
    """A product between two products takes a warpgroup, and there are no registers for one."""
    machine = with_registers(read_machine("b200"), 16)
    with pytest.raises(
        Infeasible, match=r"registers-capacity\].* inside and outside of the main loop"
    ):
        solve(read_spec("gemm_chain"), machine)
