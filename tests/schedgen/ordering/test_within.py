"""Why hazards within a role need what they have, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.benchmarks.mutants.operators_steps import without_meeting
from schedgen.ordering.conflicts import conflicts
from schedgen.ordering.within import within_roles
from schedgen.program.model import Program
from schedgen.reasons import Reason, ReasonKind
from schedgen.synchronize.text import program_text
from tests.codegen.examples import SPECS, solved

RELU, TRANSPOSE = SPECS / "relu_in_role.yaml", SPECS / "transpose_in_role.yaml"
ROWS, ROUND_TRIP = SPECS / "rows_in_role.yaml", SPECS / "tensor_round_trip.yaml"
SAME = Reason(ReasonKind.SAME_THREADS)


def program_of(spec: Path | str, target: str) -> Program:
    return solved(spec, target)[0].program


def reasons(program: Program) -> dict[tuple[str, str, str], tuple[Reason, ...]]:
    """(role, before, after) -> reasons, for memory that threads share."""
    return {
        (one.role, *one.pairs[0]): one.reasons for one in within_roles(program) if not one.registers
    }


@pytest.mark.medium
@pytest.mark.parametrize(
    ("spec", "target", "pair", "expected"),
    [
        (ROWS, "b200", ("PUB", "OUT"), (SAME,)),
        (
            ROWS,
            "h200",
            ("PUB", "OUT"),
            (SAME, Reason(ReasonKind.WARPS_MEET, ("one meets in warps before OUT",))),
        ),
        (
            TRANSPOSE,
            "h200",
            ("PUT", "BACK"),
            (SAME, Reason(ReasonKind.ROLE_MEETS, ("one meets before BACK",))),
        ),
        (
            RELU,
            "h200",
            ("FUN", "MMA"),
            (
                Reason(ReasonKind.ISSUED_BEHIND),
                Reason(ReasonKind.FENCED, ("fence.proxy.async",)),
                Reason(ReasonKind.ROLE_MEETS, ("one meets before MMA",)),
            ),
        ),
        (
            RELU,
            "h200",
            ("MMA", "FUN"),
            (
                Reason(ReasonKind.GROUP_AWAITED, ("MMA",)),
                Reason(ReasonKind.ROLE_MEETS, ("one meets before MMA",)),
            ),
        ),
        (
            ROUND_TRIP,
            "b200",
            ("PUT", "BACK"),
            (SAME, Reason(ReasonKind.FENCED, ("tcgen05.wait::st",))),
        ),
    ],
    ids=lambda value: getattr(value, "stem", None),
)
def test_reasons_are_those_of_threads_fences_and_meetings(
    spec: Path, target: str, pair: tuple[str, str], expected: tuple[Reason, ...]
) -> None:
    assert reasons(program_of(spec, target))["one", *pair] == expected


@pytest.mark.medium
def test_queues_order_their_products() -> None:
    found = reasons(program_of("gemm_chain", "b200"))
    queue = (Reason(ReasonKind.QUEUE, ("tensor",)),)
    assert queue in [why for (role, *_), why in found.items() if role == "mma"]


def test_registers_are_told_together() -> None:
    ones = [one for one in within_roles(program_of(RELU, "h200")) if one.registers]
    assert {one.role for one in ones} == {"one"}
    found = {one.reasons: one.pairs for one in ones}
    assert found[Reason(ReasonKind.GROUP_AWAITED, ("MMA",)),] == (("MMA", "EPI"),)
    fence = Reason(ReasonKind.FENCED, ("wgmma.fence",))
    assert found[Reason(ReasonKind.ISSUED_BEHIND), fence] == (("EPI", "MMA"),)


@pytest.mark.medium
@pytest.mark.parametrize(("spec", "target"), [(ROWS, "h200"), (RELU, "h200"), ("gemm", "b200")])
def test_every_hazard_of_a_role_is_told(spec: Path | str, target: str) -> None:
    program = program_of(spec, target)
    role_of = {
        step.action.operation: role.name
        for role in program.roles
        for step in role.steps
        if step.action.do == "run"
    }
    expected = {
        (role_of[c.before], c.before, c.after)
        for c in conflicts(program)
        if role_of[c.before] == role_of[c.after]
    }
    told = {(one.role, *pair) for one in within_roles(program) for pair in one.pairs}
    assert told == expected
    unordered = Reason(ReasonKind.UNORDERED)
    assert not any(unordered in one.reasons for one in within_roles(program))


def test_what_nothing_orders_is_told() -> None:
    (_, changed, _), *_ = [
        change for change in without_meeting(program_of(ROWS, "h200")) if "before OUT" in change[0]
    ]
    assert Reason(ReasonKind.UNORDERED) in reasons(changed)["one", "PUB", "OUT"]


def test_text_has_them_by_reason() -> None:
    text = program_text(program_of(RELU, "h200"))
    section = text[text.index("what keeps operations of one role in order") :].splitlines()
    at = section.index("    it is issued behind it; fence.proxy.async; one meets before MMA")
    assert section[at + 1] == "        FUN before MMA (sF)"
    assert "        1 pair in registers" in section
    assert max(map(len, section)) <= 100
