"""Every kind of mistake in every place: both methods find it, or it is none."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from schedgen.benchmarks.mutants.outcomes import Outcome, judge
from schedgen.benchmarks.mutants.programs import OPERATORS, Mutant, mutants, sampled
from schedgen.benchmarks.mutants.sites import sites
from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.program.model import Program
from schedgen.spec.reader import read_spec
from schedgen.synchronize.synthesize import synthesize
from tests.codegen.examples import SPECS
from tests.schedgen.program.examples import gemm

SOUND = {Outcome.KILLED, Outcome.EQUIVALENT}


@cache
def shipped(name: str, target: str, *pace: str) -> Program:
    problem = (solution := solve(read_spec(name), read_machine(target))).problem
    return synthesize(problem.kernel, solution.schedule, problem.machine, pace)


def check(mutant: Mutant, *allowed: Outcome) -> Outcome:
    judgement = judge(mutant)
    about = (mutant.operator.name, mutant.what, judgement)
    assert judgement.outcome in (*SOUND, *allowed), about
    assert (judgement.reason != "") == (judgement.outcome is Outcome.EQUIVALENT), about
    return judgement.outcome


def test_mutants_are_different() -> None:
    program = gemm(2)
    found = list(mutants(program))
    assert all(mutant.program != program for mutant in found)
    assert len({(mutant.operator.name, mutant.what) for mutant in found}) == len(found)
    every = {mutant.site.name for mutant in found if mutant.site is not None}
    assert every == {site.name for site in sites(program) if "MMA" not in site.name} - {
        "epilogue after 3: EPI",
        "store after 1: ST",
    }


def test_a_sample_has_every_operator() -> None:
    program = gemm(2)
    every = Counter(mutant.operator.name for mutant in mutants(program))
    some = Counter(mutant.operator.name for mutant in sampled(program, 2))
    assert some == {name: min(2, count) for name, count in every.items()}
    # Nothing on this machine is issued by warpgroups, and no tensor memory is stored to.
    missing = {"wgmma fence removed", "wait::st removed", "wait_group of one less"}
    missing |= {"signal behind wait", "meeting removed", "meeting of each warp"}  # there is none
    missing |= {"wait_group behind product", "meeting of one role"}
    missing |= {"pace removed"}  # nor is there an order of pace
    assert {operator.name for operator in OPERATORS} - set(every) == missing


@pytest.mark.medium
def test_all_of_a_small_program() -> None:
    outcomes = Counter(check(mutant) for mutant in mutants(gemm(2)))
    assert outcomes[Outcome.KILLED] > 150


REMOVALS = {operator.name for operator in OPERATORS if operator.name.endswith("removed")}


def test_nothing_of_a_small_program_can_be_left_out() -> None:
    for mutant in mutants(gemm(2)):
        if mutant.operator.name in REMOVALS:
            assert check(mutant) is Outcome.KILLED


def test_products_that_overtake_a_wait() -> None:
    """The next product has its results where the one that was to be waited for has an operand."""
    program = shipped(str(SPECS / "product_guest.yaml"), "h200")
    (operator,) = (one for one in OPERATORS if one.name == "wait_group behind product")
    found = {mutant.what: check(mutant) for mutant in mutants(program, [operator])}
    assert {what for what in found if "wait_group PC" in what}
    assert set(found.values()) == {Outcome.KILLED}, found


@pytest.mark.slow
def test_orders_of_pace() -> None:
    """Their barriers have to be right; that they are there is a matter of speed, and no more. What
    moves one changes nothing that the proof is about.
    """
    program = shipped("attention_fwd", "h200", "TENSOR")
    moves = ("wait one later", "wait behind use", "signal before use", "signal behind wait")
    equivalent = {"pace removed", *moves, "wait hoisted", "signal one earlier", "fence before wait"}
    names = ("wait removed", "arrive removed", "pace removed", "signal number", *moves)
    operators = [operator for operator in OPERATORS if operator.name in names]
    found = [mutant for mutant in mutants(program, operators) if "pace" in mutant.what]
    found += mutants(program, [o for o in operators if o.name == "pace removed"])
    assert {mutant.operator.name for mutant in found} == {*names}
    for mutant in found:
        wanted = Outcome.EQUIVALENT if mutant.operator.name in equivalent else Outcome.KILLED
        assert check(mutant) is wanted, mutant.what


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "target"),
    [("gemm", "b200"), ("attention_fwd", "h200")],
)
def test_some_of_shipped_programs(name: str, target: str) -> None:
    outcomes = Counter(
        check(mutant, Outcome.UNPROVEN) for mutant in sampled(shipped(name, target), 1)
    )
    assert outcomes[Outcome.KILLED] > 18


@pytest.mark.slow
@pytest.mark.parametrize("name", ["attention_fwd", "gemm_chain"])
def test_many_of_shipped_programs(name: str) -> None:
    for target in ("b200", "h200"):
        for mutant in sampled(shipped(name, target), 6):
            check(mutant, Outcome.UNPROVEN)
