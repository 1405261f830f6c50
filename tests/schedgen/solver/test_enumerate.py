"""Backtracking over all schedules, and the figures that benchmarks/fa4_unit.py prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache

import pytest

from schedgen.dependence import derive
from schedgen.machine_file import read_machine
from schedgen.solver.decisions import Decisions
from schedgen.solver.enumerate import enumerate_schedules
from schedgen.solver.problem import Problem, build_problem
from schedgen.solver.verify import verify
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec


@cache
def fa4(hazards: bool) -> Problem:
    """The FlashAttention-4 graph with unit latencies; without hazards it is the published one."""
    spec = read_spec("fa4_unit")
    kernel = bind(spec.source, spec.file, "abstract", {"tmem_hazards": str(hazards).lower()})[0]
    return build_problem(kernel, read_machine("abstract"), derive(kernel))


@cache
def schedules(hazards: bool, ii: int = 4, stages: int = 2) -> Sequence[Decisions]:
    return list(enumerate_schedules(fa4(hazards), ii, stages))


def overtaken(made: Decisions, reader: str) -> bool:
    """Whether QK of the next iteration starts before ``reader`` is through, for some tile."""
    start = made.start
    return any(start[f"QK[{i}]"] + made.ii < start[f"{reader}[{i}]"] + 1 for i in range(2))


@pytest.mark.medium
def test_published_graph_has_428_schedules_of_which_376_overwrite_p() -> None:
    found = schedules(hazards=False)
    assert len(found) == 428
    wrong = [made for made in found if overtaken(made, "PV")]
    assert len(wrong) == 376
    assert sum(overtaken(made, "EXP") for made in wrong) == 92
    assert sum(overtaken(made, "EXP") for made in found) == 92


@pytest.mark.medium
def test_the_checker_rejects_exactly_the_wrong_ones() -> None:
    """It is given the kernel with hazards and looks at no edges."""
    for made in schedules(hazards=False):
        complaints = verify(fa4(hazards=True), made)
        assert bool(complaints) == overtaken(made, "PV")
        assert all("writes S[" in text for text in complaints)


def test_with_tensor_memory_52_schedules_are_left_and_the_product_order_is_forced() -> None:
    found = schedules(hazards=True)
    assert len(found) == 52
    assert not any(overtaken(made, "PV") or verify(fa4(hazards=True), made) for made in found)
    products = ("PV[0]", "QK[0]", "PV[1]", "QK[1]")
    orders: Counter[tuple[str, ...]] = Counter()
    for made in found:
        turn = sorted(products, key=lambda name: made.start[name] % made.ii)
        first = turn.index("PV[0]")
        orders[(*turn[first:], *turn[:first])] += 1
    assert orders == {("PV[0]", "QK[0]", "PV[1]", "QK[1]"): 52}


def test_the_good_ones_are_among_the_published_ones() -> None:
    published = {tuple(sorted(made.start.items())) for made in schedules(hazards=False)}
    assert {tuple(sorted(made.start.items())) for made in schedules(hazards=True)} < published


@pytest.mark.medium
@pytest.mark.parametrize("hazards", [False, True])
def test_nothing_at_ii_3_or_in_one_stage(hazards: bool) -> None:
    for ii, stages in ((3, 1), (3, 2), (3, 3), (4, 1)):
        assert schedules(hazards, ii, stages) == []


def test_undecided_problems_are_refused() -> None:
    spec = read_spec("gemm")
    kernel = bind(spec.source, spec.file, "h200")[0]
    problem = build_problem(kernel, read_machine("h200"), derive(kernel))
    with pytest.raises(ValueError, match="leaves open: sA"):
        next(enumerate_schedules(problem, 1024, 1))
