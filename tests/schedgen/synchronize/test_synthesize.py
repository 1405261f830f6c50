"""Synchronization: enough, nothing too much, and for any pipeline."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.program.model import Fence, FenceKind, Program, RoleProgram, Step, Wait, WaitGroup
from schedgen.proof.explore import explore
from schedgen.proof.graph import prove
from schedgen.proof.smt import refute
from schedgen.spec.reader import read_spec
from schedgen.synchronize.synthesize import synthesize

SHIPPED = [
    (name, target)
    for name in ("gemm", "gemm_epilogue", "gemm_symmetric", "gemm_chain", "attention_fwd")
    for target in ("b200", "h200")
] + [("fa4_unit", "abstract")]

FA4_MAP = {"p_storage": "own", "product_order": "pv_first", "kv_lag": "0"}


@cache
def shipped(name: str, target: str, *settings: tuple[str, str]) -> Program:
    solution = solve(read_spec(name), read_machine(target), settings=dict(settings))
    problem = solution.problem
    return synthesize(problem.kernel, solution.schedule, problem.machine)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), SHIPPED)
def test_shipped_programs_are_proven(name: str, target: str) -> None:
    program = shipped(name, target)
    assert prove(program).findings == ()
    assert explore(program).findings == ()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), SHIPPED)
def test_z3_agrees(name: str, target: str) -> None:
    assert refute(shipped(name, target)).findings == ()


def steps(program: Program) -> list[tuple[RoleProgram, str, int, Step]]:
    return [
        (role, section, place, step)
        for role in program.roles
        for section in ("before", "loop", "after")
        for place, step in enumerate(getattr(role, section))
    ]


def without(program: Program, role: RoleProgram, section: str, place: int) -> Program:
    listed = getattr(role, section)
    shorter = replace(role, **{section: (*listed[:place], *listed[place + 1 :])})
    return replace(program, roles=tuple(shorter if r is role else r for r in program.roles))


@pytest.mark.medium
@pytest.mark.parametrize(
    ("name", "target"), [("gemm", "b200"), ("gemm_chain", "h200"), ("attention_fwd", "h200")]
)
def test_nothing_can_be_left_out(name: str, target: str) -> None:
    """But for fences that only compilers need: one in front of each product of Hopper."""
    program = shipped(name, target)
    for role, section, place, step in steps(program):
        if step.action == Fence(FenceKind.REGISTERS):
            continue
        if isinstance(step.action, Wait | Fence | WaitGroup):
            shorter = without(program, role, section, place)
            assert prove(shorter).findings, f"{role.name} does not need {step}"


@pytest.mark.slow
def test_equal_input_gives_equal_programs() -> None:
    shipped.cache_clear()
    once = shipped("attention_fwd", "b200")
    shipped.cache_clear()
    assert shipped("attention_fwd", "b200") == once


# -- what FlashAttention-4's authors left out by hand ----------------------------------------------


def fa4() -> Program:
    return shipped("attention_fwd", "b200", *FA4_MAP.items())


@pytest.mark.medium
@pytest.mark.parametrize(
    ("before", "after", "because"),
    [
        ("PV[0,1]", "QK[0]", "the tensor engine works in order"),
        ("LDS[0]", "QK[0]", "barrier S[0] full O[0] full"),
        ("PV[0,0]", "STP[0,0]", "a commit follows the queue"),
        ("PV[0,1]", "CR[0]", "barrier S[0] full"),
    ],
)
def test_waits_that_fa4_left_out(before: str, after: str, because: str) -> None:
    found = [r for r in fa4().removals if (r.before, r.after) == (before, after)]
    assert found
    assert any(because in line for line in found[0].reason), found[0].reason


def test_p_and_rescale_share_a_barrier() -> None:
    """128 softmax threads and 128 correction threads, as FlashAttention-4's s_p_o."""
    shared = [b for b in fa4().barriers if b.arrivals == 256]
    assert len(shared) == 2
    assert all("PV" in line for b in shared for line in b.protects)


def test_the_ring_of_keys_and_values_has_one_pair_of_barriers() -> None:
    kv = [b for b in fa4().barriers if "kv" in b.name]
    assert sorted((b.name, b.slots, b.bytes) for b in kv) == [
        ("kv empty", 3, 0),
        ("kv full", 3, 32768),
    ]


def test_a_lagging_buffer_skips_a_phase() -> None:
    kv = [b for b in shipped("attention_fwd", "h200").barriers if "kv" in b.name]
    assert {b.skipped for b in kv} == {(1,)}


# -- any pipeline ----------------------------------------------------------------------------------

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much]
ANY = settings(deadline=None, suppress_health_check=SLOW)


@pytest.mark.slow
@settings(ANY, max_examples=200)
@given(st.data())
def test_random_pipelines_are_proven(
    pipelines: st.SearchStrategy[Program], data: st.DataObject
) -> None:
    program = data.draw(pipelines)
    assert prove(program).findings == ()
    assert explore(program).findings == ()


@pytest.mark.slow
@settings(ANY, max_examples=60)
@given(st.data())
def test_z3_agrees_on_random_pipelines(
    pipelines: st.SearchStrategy[Program], data: st.DataObject
) -> None:
    assert refute(data.draw(pipelines)).findings == ()
