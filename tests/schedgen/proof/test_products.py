"""Registers of a product are its own until it was waited for; all methods know that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from schedgen.benchmarks.mutants.sites import Site, sites
from schedgen.driver.solution import solve
from schedgen.findings import Claim, Verdict
from schedgen.kernel import Space
from schedgen.machine_file import read_machine
from schedgen.program.model import Action, Fence, FenceKind, Program, Run, WaitGroup
from schedgen.program.operations import Access, Engine
from schedgen.proof.explore import explore
from schedgen.proof.graph import prove
from schedgen.proof.smt import refute
from schedgen.spec.reader import read_spec
from schedgen.synchronize.synthesize import synthesize
from tests.codegen.examples import SPECS
from tests.schedgen.proof.patterns import program
from tests.schedgen.proof.small import access, loop, operation

Method = Callable[[Program], Verdict]
METHODS: tuple[Method, ...] = (prove, refute, explore)
FENCE = Fence(FenceKind.REGISTERS)


def races(verdict: Verdict) -> set[tuple[str, ...]]:
    """Pairs of operations between which a method finds an order missing, and nothing else."""
    assert {finding.claim for finding in verdict.findings} <= {Claim.RACE}
    return {finding.subject[:2] for finding in verdict.findings}


def tile(name: str, place: int, *, write: bool = False) -> Access:
    """All of a tile that lies in the registers of ``r``."""
    return replace(access("r", place, write=write), buffer=name)


def one_role(*steps: Action, **operations: tuple[Engine, tuple[Access, ...]]) -> Program:
    """A warpgroup in whose loop one store in registers is used by all."""
    made = (operation(name, engine, *touched) for name, (engine, touched) in operations.items())
    return program({"math": loop(*steps)}, (), tuple(made), (("r", Space.REGISTERS, 1),))


def guest(*steps: Action) -> Program:
    """Scores are rounded in their own registers, where the second product has its left operand."""
    return one_role(
        *steps,
        SCORES=(Engine.WGMMA, (tile("S", 0, write=True),)),
        ROUND=(Engine.THREADS, (tile("S", 1), tile("P", 2, write=True))),
        VALUES=(Engine.WGMMA, (tile("P", 3),)),
    )


SCORES = (FENCE, Run("SCORES"), WaitGroup("SCORES"), Run("ROUND"), FENCE, Run("VALUES"))


def written_by_threads(*steps: Action) -> Program:
    """Threads write the left operand of a product."""
    return one_role(
        *steps,
        ROUND=(Engine.THREADS, (tile("P", 0, write=True),)),
        VALUES=(Engine.WGMMA, (tile("P", 1),)),
    )


def turns(*steps: Action) -> Program:
    """Two products have results of different shapes in the same registers, one after the other."""
    return one_role(
        *steps,
        ONE=(Engine.WGMMA, (tile("S", 0, write=True),)),
        OTHER=(Engine.WGMMA, (tile("T", 1, write=True),)),
    )


def result_as_operand(*steps: Action) -> Program:
    """A product has the result of another one as its left operand."""
    return one_role(
        *steps,
        ONE=(Engine.WGMMA, (tile("S", 0, write=True),)),
        OTHER=(Engine.WGMMA, (tile("S", 1),)),
    )


def sum_of_two(*steps: Action) -> Program:
    """Two products add to the same tile."""
    return one_role(
        *steps,
        ONE=(Engine.WGMMA, (tile("S", 0), tile("S", 0, write=True))),
        OTHER=(Engine.WGMMA, (tile("S", 1), tile("S", 1, write=True))),
    )


BOTH = (Run("ONE"), WaitGroup("ONE"), Run("OTHER"), WaitGroup("OTHER"))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "right",
    [
        guest(*SCORES, WaitGroup("VALUES")),
        written_by_threads(Run("ROUND"), FENCE, Run("VALUES"), WaitGroup("VALUES")),
        turns(*BOTH),
        result_as_operand(*BOTH),
        sum_of_two(*BOTH),
        sum_of_two(Run("ONE"), Run("OTHER")),
    ],
)
def test_what_is_waited_for_is_accepted(method: Method, right: Program) -> None:
    assert races(method(right)) == set()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("wrong", "between"),
    [
        (guest(*SCORES), {("VALUES", "SCORES")}),
        # Behind the next product is too late, though the order of products is the same.
        (
            guest(FENCE, Run("SCORES"), WaitGroup("VALUES", 1), *SCORES[2:]),
            {("VALUES", "SCORES")},
        ),
        (written_by_threads(Run("ROUND"), FENCE, Run("VALUES")), {("VALUES", "ROUND")}),
        (turns(Run("ONE"), Run("OTHER"), WaitGroup("OTHER")), {("ONE", "OTHER")}),
        (turns(Run("ONE"), WaitGroup("ONE"), Run("OTHER")), {("OTHER", "ONE")}),
        (result_as_operand(Run("ONE"), Run("OTHER"), WaitGroup("OTHER")), {("ONE", "OTHER")}),
        (result_as_operand(Run("ONE"), WaitGroup("ONE"), Run("OTHER")), {("OTHER", "ONE")}),
    ],
)
def test_products_in_flight_keep_their_registers(
    method: Method, wrong: Program, between: set[tuple[str, ...]]
) -> None:
    assert races(method(wrong)) >= between


# -- of a spec -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chained() -> Program:
    spec, machine = read_spec(str(SPECS / "product_guest.yaml")), read_machine("h200")
    solution = solve(spec, machine)
    return synthesize(solution.problem.kernel, solution.schedule, solution.problem.machine)


def the(program: Program, action: Action) -> Site:
    return next(site for site in sites(program) if site.action == action)


def test_a_wait_is_made_for_it(chained: Program) -> None:
    """It stands before the next product, however early that could be issued."""
    (role,) = (role for role in chained.roles if Run("PC[0]") in [s.action for s in role.steps])
    listed = [step for step in role.loop if step.action in (Run("AB[0]"), WaitGroup("PC[0]"))]
    order = sorted(listed, key=lambda step: step.shift)
    assert [type(step.action) for step in order] == [Run, WaitGroup]
    assert order[0].shift == order[1].shift


@pytest.mark.medium
@pytest.mark.parametrize("method", METHODS)
def test_without_that_wait_it_is_refused(method: Method, chained: Program) -> None:
    assert method(chained).proven
    found = method(the(chained, WaitGroup("PC[0]")).without())
    assert ("PC[0]", "AB[0]") in {finding.subject[:2] for finding in found.findings}
