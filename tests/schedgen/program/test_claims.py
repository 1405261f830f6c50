"""Output tiles that blocks claim, as operations of a program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from schedgen.benchmarks.mutants.outcomes import Outcome, judge
from schedgen.benchmarks.mutants.programs import Mutant, mutants
from schedgen.driver.found import Solution
from schedgen.driver.solution import solve
from schedgen.findings import Claim
from schedgen.kernel import Space
from schedgen.machine_file import read_machine
from schedgen.program.claims import (
    DRAW,
    RING,
    SLOTS,
    TELL,
    claimant,
    claimed,
    is_claim,
    of_kernel,
    take,
    unclaimed,
)
from schedgen.program.model import Program, RoleProgram, Run, Step
from schedgen.program.operations import Number
from schedgen.proof.prove import METHODS, check
from schedgen.spec.reader import parse_spec, read_spec
from schedgen.synchronize.synthesize import ProgramError, synthesize

Change = Callable[[RoleProgram], RoleProgram]


@cache
def solution(name: str = "gemm", target: str = "h200", *settings: str) -> Solution:
    text = read_spec(name).source.text
    spec = parse_spec(text.replace("persistent: true", "claim: dynamic"))
    chosen = dict(setting.split("=") for setting in settings)
    return solve(spec, read_machine(target), settings=chosen)


@cache
def program(name: str = "gemm", target: str = "h200", *settings: str) -> Program:
    found = solution(name, target, *settings)
    return synthesize(found.problem.kernel, found.schedule, found.problem.machine)


def changed(name: str, change: Change) -> Program:
    found = program()
    roles = (change(role) if role.name == name else role for role in found.roles)
    return replace(found, roles=tuple(roles))


def claims_of(steps: tuple[Step, ...]) -> list[str]:
    runs = (step.action.operation for step in steps if isinstance(step.action, Run))
    return [name for name in runs if is_claim(name)]


CASES = [
    ("gemm", "h200"),
    ("gemm", "b200"),
    ("attention_fwd", "h200", "causal=true"),
    ("attention_fwd", "b200", "causal=true"),
]


@pytest.mark.medium
@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_all_methods_prove_it(case: tuple[str, ...]) -> None:
    methods = METHODS if case == CASES[0] else ("graph", "execution")
    proof = check(program(*case), methods, quick=True)
    assert proof.proven, proof.findings
    assert proof.methods_agree


def test_one_warp_draws_and_tells_and_all_roles_take() -> None:
    found = program()
    mine = claimant(found)
    assert mine is not None
    assert mine.name == "load"
    for role in found.roles:
        tells = role.name == "load"
        assert claims_of(role.before) == ([DRAW] if tells else [])
        assert not claims_of(role.loop)
        assert claims_of(role.after) == [*([TELL] if tells else []), take(role.name)]
    ring = found.allocation[RING]
    assert (ring.space, ring.slots, ring.address + ring.size) == (Space.SMEM, SLOTS, 1024)
    assert found.barrier[f"{RING} empty"].arrivals == 128 + 128 + 3


def test_a_fixed_program_has_none_of_it() -> None:
    fixed = of_kernel(program())
    assert not any(is_claim(operation.name) for operation in fixed.operations)
    assert RING not in fixed.allocation
    assert not list(unclaimed(fixed))
    assert of_kernel(fixed) is fixed


def test_a_program_without_a_warp_that_loads_cannot_claim() -> None:
    found = of_kernel(program())
    wide = tuple(replace(role, warps=4) for role in found.roles)
    assert claimed(replace(found, roles=wide)) is None


def _none(program: Program) -> None:
    """Stands in for `claimed`."""


def test_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("schedgen.synchronize.synthesize.claimed", _none)
    found = solution()
    with pytest.raises(ProgramError, match="no role of one warp"):
        synthesize(found.problem.kernel, found.schedule, found.problem.machine)


# -- what no order of accesses says ----------------------------------------------------------------


def without(operation: str, section: str) -> Change:
    def change(role: RoleProgram) -> RoleProgram:
        steps = tuple(step for step in getattr(role, section) if step.action != Run(operation))
        assert steps != getattr(role, section)
        return replace(role, **{section: steps})

    return change


def twice(operation: str) -> Change:
    step = Step(Run(operation))
    return lambda role: replace(role, after=(*role.after, step))


def into_loop(operation: str) -> Change:
    step = Step(Run(operation))
    return lambda role: replace(without(operation, "after")(role), loop=(step, *role.loop))


def cut(role: RoleProgram) -> RoleProgram:
    return replace(role, after=role.after[:-3])


def drawn_late(role: RoleProgram) -> RoleProgram:
    return replace(role, before=(), after=(*role.before, *role.after))


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("store", without(take("store"), "after")),
        ("store", twice(take("store"))),
        ("store", into_loop(take("store"))),
        ("load", without(TELL, "after")),
        ("load", without(DRAW, "before")),
        ("load", drawn_late),
        ("load", twice(TELL)),
        ("store", twice(TELL)),
        ("store", twice(DRAW)),
        ("epilogue0", cut),
    ],
)
def test_roles_that_lose_their_tiles_are_refuted(name: str, change: Change) -> None:
    found = changed(name, change)
    assert list(unclaimed(found))
    proof = check(found, ("graph",))
    assert not proof.proven
    assert any(finding.subject == ("claims",) for finding in proof.findings)


@pytest.mark.parametrize("number", [Number(offset=1, per_tile=True), Number(2, 0, per_tile=True)])
def test_numbers_of_other_tiles_are_refuted(number: Number) -> None:
    """Even where they are ordered: it would be the wrong tile, and no race."""
    found = program()
    operation = found.operation[take("store")]
    (access,) = operation.accesses
    other = replace(operation, accesses=(replace(access, version=number),))
    operations = (other if one is operation else one for one in found.operations)
    mistakes = list(unclaimed(replace(found, operations=tuple(operations))))
    assert mistakes == ["'take tile: store' is about other numbers than that of the next tile"]


# -- mutants of the ring ---------------------------------------------------------------------------


def of_ring(mutant: Mutant) -> bool:
    """Whether a mutant is about the barriers of the ring."""
    one, other = mutant.program, program()
    differ = {
        str(step)
        for role, same in zip(one.roles, other.roles, strict=True)
        for step in {*role.before, *role.after} ^ {*same.before, *same.after}
    }
    differ |= {str(barrier) for barrier in {*one.barriers} ^ {*other.barriers}}
    return any(RING in text for text in differ)


@pytest.mark.slow
def test_mutants_of_its_barriers_are_killed() -> None:
    found = [mutant for mutant in mutants(program()) if of_ring(mutant)]
    outcomes = Counter(judge(mutant).outcome for mutant in found)
    assert outcomes[Outcome.KILLED] > 60
    assert not {Outcome.SURVIVED, Outcome.UNPROVEN} & {*outcomes}
    assert outcomes[Outcome.EQUIVALENT] <= 8


@pytest.mark.slow
@pytest.mark.parametrize(
    ("barrier", "kind", "claim"),
    [("full", "Wait", Claim.RACE), ("empty", "Wait", Claim.RACE), ("empty", "Arrive", Claim.COUNT)],
)
def test_a_step_that_is_missing_is_found_by_all(barrier: str, kind: str, claim: Claim) -> None:
    name = f"{RING} {barrier}"
    role = "load" if (barrier, kind) == ("empty", "Wait") else "store"

    def change(role: RoleProgram) -> RoleProgram:
        kept = (
            step
            for step in role.after
            if (type(step.action).__name__, getattr(step.action, "barrier", "")) != (kind, name)
        )
        return replace(role, after=tuple(kept))

    proof = check(changed(role, change), METHODS, quick=True)
    assert all(not verdict.proven for verdict in proof.verdicts)
    assert not proof.holds(claim)
