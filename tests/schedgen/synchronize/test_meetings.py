"""Meetings of a role's warps: where they are needed, that they are enough, and none too much."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.benchmarks.mutants.operators_steps import (
    narrow_meeting,
    without_fence,
    without_meeting,
)
from schedgen.benchmarks.mutants.outcomes import Outcome, judge
from schedgen.benchmarks.mutants.programs import sampled
from schedgen.codegen.binding import bound
from schedgen.codegen.compiling import compile_file
from schedgen.codegen.plan import Plan
from schedgen.conform.check import conform
from schedgen.driver.emulating import emulate
from schedgen.driver.inputs import default_extents
from schedgen.emulator.machine.policies import Adversarial, RoundRobin
from schedgen.emulator.ptx.parse import parse
from schedgen.findings import Claim
from schedgen.program.model import MEETINGS, Arrive, Fence, FenceKind, Program, Wait
from schedgen.program.warps import by_warps
from schedgen.proof.explore import explore
from schedgen.proof.graph import prove
from schedgen.proof.smt import refute
from tests.codegen.examples import ARCHITECTURES, SPECS, solved, text_of

RELU, TRANSPOSE = SPECS / "relu_in_role.yaml", SPECS / "transpose_in_role.yaml"
ROUND_TRIP, ROWS = SPECS / "tensor_round_trip.yaml", SPECS / "rows_in_role.yaml"
CASES = [
    (RELU, "h200"),
    (TRANSPOSE, "h200"),
    (TRANSPOSE, "b200"),
    (ROUND_TRIP, "b200"),
    (ROWS, "h200"),
    (ROWS, "b200"),
]
ROWS_MEETING = "one meets in warps before OUT"


def program_of(spec: Path, target: str) -> Program:
    return solved(spec, target)[0].program


def meetings(program: Program) -> list[str]:
    return [barrier.name for barrier in program.barriers if barrier.kind in MEETINGS]


@pytest.mark.parametrize(
    ("spec", "target", "expected"),
    [
        (RELU, "h200", ["one meets before MMA"]),
        (TRANSPOSE, "h200", ["one meets before BACK", "one meets before PUT"]),
        (TRANSPOSE, "b200", ["one meets before BACK", "one meets before PUT"]),
        (ROUND_TRIP, "b200", []),
        (ROWS, "h200", ["one meets in warps before OUT", "one meets in warps before PUB"]),
        (ROWS, "b200", []),  # each row is that of one thread
    ],
)
def test_meetings_stand_where_warps_touch_bytes_of_each_other(
    spec: Path, target: str, expected: list[str]
) -> None:
    assert sorted(meetings(program_of(spec, target))) == sorted(expected)


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "target"), CASES, ids=lambda value: getattr(value, "stem", value))
def test_none_can_be_left_out(spec: Path, target: str) -> None:
    changes = list(without_meeting(program_of(spec, target)))
    assert len(changes) == len(meetings(program_of(spec, target)))
    for what, changed, _ in changes:
        for verdict in (prove(changed), refute(changed), explore(changed)):
            found = {finding.claim for finding in verdict.findings}
            assert Claim.RACE in found, (what, verdict.method)


def test_each_meeting_says_what_it_is_for() -> None:
    found = {
        text
        for spec in (RELU, TRANSPOSE)
        for barrier in program_of(spec, "h200").barriers
        if barrier.kind == "role"
        for text in barrier.protects
    }
    assert "MMA uses what FUN of other warps did in sF" in found
    assert "PUT writes over what BACK of other warps did in sT" in found


def test_warps_meet_alone_where_only_their_threads_share_bytes() -> None:
    """That takes no barrier of the hardware, and says so."""
    program, kernel = solved(ROWS, "h200")
    found = {b.kind: b.protects for b in program.program.barriers if b.name == ROWS_MEETING}
    assert found == {"warp": ("OUT uses what PUB of other threads of a warp did in sV",)}
    assert Plan(program.program, bound(kernel)).numbered.of_role == {}
    text = text_of(ROWS, "h200")
    assert text.count("cute.arch.sync_warp()") == 2
    assert "cute.arch.barrier(barrier_id" not in text


@pytest.mark.medium
def test_meetings_of_single_warps_are_not_enough_for_a_role() -> None:
    for what, changed, _ in narrow_meeting(program_of(RELU, "h200")):
        for verdict in (prove(changed), refute(changed), explore(changed)):
            found = {finding.claim for finding in verdict.findings}
            assert Claim.RACE in found, (what, verdict.method)


@pytest.mark.slow
def test_compiled_code_has_the_meetings_of_warps(tmp_path: Path) -> None:
    file = tmp_path / "rows.py"
    file.write_text(text_of(ROWS, "h200"), encoding="utf-8")
    module = parse(compile_file(file, tmp_path, sms=132).ptx.read_text("utf-8"))
    proven, kernel = solved(ROWS, "h200")
    assert conform(module, proven.program, kernel).holds
    for _, changed, _ in without_meeting(proven.program):
        assert not conform(module, changed, kernel).holds


def test_arrival_and_wait_of_a_meeting_are_neighbours() -> None:
    program = program_of(RELU, "h200")
    for role in program.roles:
        for one, other in zip(role.loop, role.loop[1:], strict=False):
            if isinstance(other.action, Wait) and other.action.barrier in meetings(program):
                assert one.action == Arrive(other.action.barrier, other.action.number, 128)


@pytest.mark.medium
def test_stores_to_tensor_memory_are_waited_for_by_who_loads_them() -> None:
    program = program_of(ROUND_TRIP, "b200")
    needed = list(without_fence(FenceKind.TMEM_STORED)(program))
    assert needed
    for what, changed, _ in needed:
        for verdict in (prove(changed), refute(changed), explore(changed)):
            assert {finding.claim for finding in verdict.findings} == {Claim.RACE}, what


@pytest.mark.medium
@pytest.mark.parametrize(("spec", "target"), CASES, ids=lambda value: getattr(value, "stem", value))
def test_no_mistake_survives(spec: Path, target: str) -> None:
    for mutant in sampled(program_of(spec, target), 1):
        assert judge(mutant).outcome is not Outcome.SURVIVED, mutant.what


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["attention_fwd", "gemm", "gemm_epilogue", "gemm_chain"])
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_shipped_programs_need_none(spec: str, target: str) -> None:
    """Their roles write and read what their own threads hold, and products read what was loaded."""
    program = program_of(Path(spec), target)
    assert by_warps(program) is program


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "target"), CASES, ids=lambda value: getattr(value, "stem", value))
@pytest.mark.parametrize("policy", [RoundRobin, lambda: Adversarial(1)], ids=["turns", "adverse"])
def test_emulated(spec: Path, target: str, policy: type[RoundRobin]) -> None:
    _, kernel = solved(spec, target)
    extents = default_extents(kernel, {})
    text, arch = text_of(spec, target), ARCHITECTURES[target]
    outcome = emulate(text, kernel, arch, extents=extents, policy=policy())
    assert outcome.correct, outcome.errors
    assert outcome.clean, outcome.report.text


def test_fences_come_before_meetings() -> None:
    """A thread fences what it wrote itself; behind the meeting it would be somebody else's."""
    role = program_of(RELU, "h200").role["one"]
    actions = [step.action for step in role.loop]
    fence = actions.index(Fence(FenceKind.ASYNC_PROXY))
    waits = [a.barrier if isinstance(a, Wait) else "" for a in actions]
    assert fence < waits.index("one meets before MMA")
