"""The independent checker: solved schedules are clean, and it agrees with the solver's constraints
about mutants of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from schedgen.bounds import ImpossibleCycle
from schedgen.dependence import derive
from schedgen.machine import Cost
from schedgen.machine_file import read_machine
from schedgen.solver import problem as problem_module
from schedgen.solver.decisions import Decisions, busiest_role, order_constraints
from schedgen.solver.problem import Dependence, Problem, Synchronization, build_problem
from schedgen.solver.search import search, smallest
from schedgen.solver.verify import verify
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec
from tests.codegen.examples import SPECS
from tests.schedgen.shipped import targets

Solved = tuple[Problem, Decisions]
Wrong = Callable[[Any], Any]
Number = TypeVar("Number", int, str)
TARGETS = targets()


def problems(name: str, target: str, end: str) -> list[Problem]:
    spec, machine = read_spec(name), read_machine(target)
    kernels = bind(spec.source, spec.file, target, accumulators=machine.accumulators)
    return [build_problem(kernel, machine, derive(kernel), end) for kernel in kernels]


@cache
def solved(name: str, target: str) -> Solved:
    """A spec's first choice at the high latencies; best II, nothing else optimized."""
    problem = problems(name, target, "high")[0]
    found = smallest(problem)
    assert found is not None
    return problem, found.decisions


# -- what the solver finds ---------------------------------------------------------------------


def check(found: list[Problem]) -> None:
    for problem in found:
        result = search(problem)
        assert result is not None
        assert verify(problem, result.decisions) == ()


@pytest.mark.slow
@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize(("name", "target"), TARGETS)
def test_shipped_specs_verify(name: str, target: str, end: str) -> None:
    check(problems(name, target, end)[:1])


@pytest.mark.slow
@pytest.mark.parametrize("end", ["low", "high"])
@pytest.mark.parametrize(("name", "target"), TARGETS)
def test_every_choice_of_shipped_specs_verifies(name: str, target: str, end: str) -> None:
    check(problems(name, target, end)[1:])


# -- mutants, judged by the solver's own constraints ---------------------------------------------


def legal(problem: Problem, made: Decisions) -> bool:
    """Whether all constraints between operations hold, as derived from the dependence graph."""
    groups = combinations(problem.body_groups, 2)
    shared = [(a, b) for a, b in groups if made.role[a.name] == made.role[b.name]]
    clash = [
        rival
        for choice in problem.graph.choices
        for mine, rival in choice.excludes
        if made.option[choice.name] == mine and made.option[rival.choice] == rival.option
    ]
    return (
        all(problem.may_share_role(a, b) for a, b in shared)
        and not clash
        and busiest_role(problem, made) <= made.ii
        and all(
            made.start[c.dst] + made.ii * c.distance >= made.start[c.src] + c.delay
            for c in order_constraints(problem, made)
        )
    )


def regrouped(problem: Problem, role: Mapping[str, str], group: str, other: str) -> dict[str, str]:
    """``group`` joins the role of ``other``, or leaves its own if they share one."""
    mates: dict[str, set[str]] = {}
    for name, leader in role.items():
        if name != group:
            mates.setdefault(leader, set()).add(name)
    parts = [*mates.values(), {group}]
    if role[group] != role[other]:
        parts = [part | {group} if other in part else part - {group} for part in parts]
    order = [g.name for g in problem.body_groups]
    return {name: min(part, key=order.index) for part in parts for name in part}


def mutate(data: st.DataObject, problem: Problem, made: Decisions) -> Decisions:
    """``made`` with one start time, depth, storage decision or role changed."""
    draw, one = data.draw, st.sampled_from
    loose = [r for r in problem.kernel.regions if not r.depth.fixed]
    open_choices = [choice for choice in problem.graph.choices if len(choice.options) > 1]
    kinds = ["start"] * 3 + ["role"] + ["depth"] * bool(loose) + ["option"] * bool(open_choices)
    match draw(one(kinds)):
        case "depth":
            region = draw(one(loose))
            depth = draw(st.integers(region.depth.low, region.depth.high))
            return replace(made, depth={**made.depth, region.name: depth})
        case "option":
            choice = draw(one(open_choices))
            option = draw(st.integers(0, len(choice.options) - 1))
            return replace(made, option={**made.option, choice.name: option})
        case "role":
            groups = [group.name for group in problem.body_groups]
            role = regrouped(problem, made.role, draw(one(groups)), draw(one(groups)))
            return replace(made, role=role)
        case _:
            name, ii = draw(one(problem.body)), made.ii
            step = draw(one([1, 2, 3, ii // 2, ii - 1, ii, ii + 1, 3 * ii])) * draw(one([-1, 1]))
            return replace(made, start={**made.start, name: made.start[name] + step})


def agree(problem: Problem, made: Decisions) -> bool:
    """Whether the checker accepts, memory and registers aside; the constraints must agree."""
    capacity = (" of shared memory", " of tensor memory", " registers a thread", " warps in ")
    found = [text for text in verify(problem, made) if not any(word in text for word in capacity)]
    assert (not found) == legal(problem, made), found
    return not found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "target"), TARGETS)
def test_every_start_time_matters_or_has_slack(name: str, target: str) -> None:
    problem, made = solved(name, target)
    assert verify(problem, made) == ()
    opinions = [
        agree(problem, replace(made, start={**made.start, name: made.start[name] + step}))
        for name in problem.body
        for step in (-1, 1)
    ]
    assert False in opinions


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.data())
@pytest.mark.parametrize(("name", "target"), TARGETS)
def test_mutants_of_shipped_schedules(name: str, target: str, data: st.DataObject) -> None:
    problem, made = solved(name, target)
    for _ in range(data.draw(st.integers(1, 3))):
        made = mutate(data, problem, made)
    event("accepted" if agree(problem, made) else "rejected")


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_mutants_of_random_schedules(
    toy_problems: st.SearchStrategy[Problem], data: st.DataObject
) -> None:
    problem = data.draw(toy_problems)
    try:
        found = smallest(problem)
    except ImpossibleCycle:
        found = None
    assume(found is not None)
    assert found is not None
    made = found.decisions
    assert verify(problem, made) == ()
    for _ in range(5):
        made = mutate(data, problem, made)
        event("accepted" if agree(problem, made) else "rejected")


# -- mutants with a reason that a person can read ------------------------------------------------


def only(problem: Problem, made: Decisions, *words: str) -> None:
    """Some violation mentions all of ``words``."""
    found = verify(problem, made)
    assert any(all(word in text for word in words) for text in found), found


def test_a_pin_outside_of_the_main_loop_is_named() -> None:
    """The epilogues of two bands have names, and each works on the registers of one product."""
    problem, made = solved("gemm_parts", "h200")
    merged = {**made.role, "MMA[1]": made.role["MMA[0]"]}
    only(problem, replace(made, role=merged), "pinned as epilogue0 and as epilogue1")


def test_a_late_overwrite_is_named() -> None:
    problem, made = solved("fa4_unit", "abstract")
    start = {**made.start, "PV[1]": made.start["QK[1]"] + made.ii}
    words = ("QK[1]", "writes S[1]", "over P[1]", "PV[1]")
    only(problem, replace(made, start=start), *words)


def test_registers_of_a_product_are_named() -> None:
    """Those of its left operand, over which the next product writes: their order is not enough."""
    problem, made = solved(str(SPECS / "product_guest.yaml"), "h200")
    assert verify(problem, made) == ()
    # TENSOR is free again when the next product starts, and this one is not complete.
    last = made.start["AB[0]"] + made.ii - problem.costs["PC[0]"].cycles("TENSOR")
    start = {**made.start, "PC[0]": last}
    only(problem, replace(made, start=start), "AB[0]", "writes S[0]", "over rP[0]", "PC[0]")
    assert not legal(problem, replace(made, start=start))


def test_an_early_read_is_named() -> None:
    problem, made = solved("gemm_chain", "b200")
    start = {**made.start, "AB[0]": made.start["LB"] + 1}
    only(problem, replace(made, start=start), "AB[0]", "reads sB", "LB", "visible only at")


def test_a_ring_that_is_too_shallow_is_named() -> None:
    problem, made = solved("gemm", "h200")
    shallow = replace(made, depth={**made.depth, "sA": 1})
    only(problem, shallow, "LA of iteration", "writes sA", "over sA", "MMA")


def test_a_busy_unit_is_named() -> None:
    problem, made = solved("gemm", "h200")
    start = {**made.start, "MMA[0]": made.start["MMA[1]"]}
    only(problem, replace(made, start=start), "TENSOR is busy with MMA")


def test_roles_of_different_kinds_cannot_merge() -> None:
    problem, made = solved("gemm", "h200")
    merged = replace(made, role={**made.role, "MMA[0]": made.role["LA"]})
    only(problem, merged, "copy and a vector")


def without(mapping: Mapping[str, Number], name: str) -> dict[str, Number]:
    return {key: value for key, value in mapping.items() if key != name}


def test_incomplete_decisions() -> None:
    problem, made = solved("gemm", "h200")
    only(problem, replace(made, start=without(made.start, "LA")), "LA has no start time")
    only(problem, replace(made, role=without(made.role, "LA")), "LA has no role")
    only(problem, replace(made, role={**made.role, "LA": "nobody"}), "LA has no role")
    only(problem, replace(made, depth={**made.depth, "sA": 99}), "sA has 99 slots")
    only(problem, replace(made, depth=without(made.depth, "sA")), "sA has 0 slots")
    only(problem, replace(made, ii=0), "interval of 0")


def test_storage_that_is_not_decided() -> None:
    problem, made = solved("gemm_chain", "b200")
    option = {name: number for name, number in made.option.items() if name.startswith("place")}
    only(problem, replace(made, option=option), "nothing says how ring bc is filled")
    option = {**made.option, "place of P[0]": 99}
    only(problem, replace(made, option=option), "nothing says where P[0] is stored")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("smem_bytes", 2000, "bytes of shared memory, there are 2000"),
        ("tmem_columns", 100, "columns of tensor memory of 100"),
        ("max_registers", 8, "registers a thread"),
        ("registers_per_thread_sum", 8, "all roles together need"),
        ("warpgroups", 1, "warps in 1 warpgroups"),
    ],
)
def test_capacities(field: str, value: int, words: str) -> None:
    problem, made = solved("gemm_chain", "b200")
    small = replace(problem, machine=replace(problem.machine, **{field: value}))
    only(small, made, words)


# -- errors of the solver's problem ---------------------------------------------------------------


def solved_wrongly(
    spec: str, target: str, wrong: str, how: Wrong, patch: pytest.MonkeyPatch
) -> Solved:
    """A schedule of a problem that function ``wrong`` of the solver's problem builds as ``how``."""
    right = getattr(problem_module, wrong)

    def altered(*given: Any, **named: Any) -> Any:
        return how(right(*given, **named))

    with patch.context() as here:
        here.setattr(problem_module, wrong, altered)
        problem = problems(spec, target, "high")[0]
    found = smallest(problem)
    assert found is not None
    return problem, found.decisions


def short(dependence: Dependence) -> Dependence:
    return replace(dependence, delay=dependence.delay // 2)


def free_handoff(dependence: Dependence) -> Dependence:
    return replace(dependence, handoff=0)


def cheap(cost: Cost) -> Cost:
    halves = tuple((unit, cycles // 2) for unit, cycles in cost.units)
    return replace(cost, units=halves)


def silent(found: dict[str, Synchronization]) -> dict[str, Synchronization]:
    return {name: Synchronization((), ()) for name in found}


@pytest.mark.medium
@pytest.mark.parametrize(
    ("wrong", "how", "words"),
    [
        ("_dependence", short, "visible only at"),
        ("_dependence", free_handoff, "visible only at"),
        ("price", cheap, "TENSOR is busy with"),
        ("_synchronization", silent, "the role of"),
    ],
)
def test_errors_of_the_problem_are_found(
    wrong: str, how: Wrong, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was solved is wrong, and the schedule right for that."""
    problem, made = solved_wrongly("attention_fwd", "b200", wrong, how, monkeypatch)
    assert legal(problem, made)
    only(problem, made, words)
