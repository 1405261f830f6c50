"""The search: as good as trying everything, monotone, repeatable, and its shortcuts are sound."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice, product
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from schedgen.bounds import Constraint, ImpossibleCycle
from schedgen.dependence import derive
from schedgen.driver.solution import solve
from schedgen.kernel import (
    OWN_STORAGE,
    AliasOption,
    Depth,
    Kernel,
    Kind,
    Operation,
    Phase,
    Piece,
    Read,
    Region,
    Ring,
    Space,
)
from schedgen.machine_file import read_machine
from schedgen.solver import search as module
from schedgen.solver.decisions import Decisions
from schedgen.solver.enumerate import enumerate_schedules
from schedgen.solver.problem import Problem, build_problem
from schedgen.solver.search import Result, search, smallest
from schedgen.solver.verify import verify
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec
from schedgen.storage_rules import storage_mistakes

ABSTRACT = read_machine("abstract")
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


# -- small problems whose optimum can be found by trying everything ------------------------------


@st.composite
def unit_problems(draw: st.DrawFn, *, decided: bool = False) -> Problem:
    """At most six operations on two units, each writing a tile of its own.

    Tiles have one to three slots; one may live in another; two may share a ring. ``decided``
    leaves nothing but start times open.
    """
    size, small, last = draw(st.integers(2, 6)), st.integers(1, 3), 3 if decided else 4
    depths = st.sampled_from([Depth(1, 1), Depth(2, 2), Depth(3, 3), Depth(1, 2)][:last])
    names = [f"T{n}" for n in range(size)]
    storage = draw(st.sampled_from(["own", "own", "tenant", "ring"]))
    regions = [Region(n, n, Space.SMEM, (1, 4), "e4m3", draw(depths)) for n in names]
    rings: tuple[Ring, ...] = ()
    if storage == "tenant":
        inside = tuple(AliasOption(names[0], 0, skew) for skew in (0, 1))
        options = inside[:1] if decided else draw(st.sampled_from([inside, (*inside, OWN_STORAGE)]))
        regions[1] = Region(names[1], "", Space.SMEM, (1, 4), "e4m3", Depth(1, 1), options=options)
    if storage == "ring":
        pair = [Region(n, n, Space.SMEM, (1, 4), "e4m3", Depth(1, 1), ring="R") for n in names[:2]]
        regions[:2] = pair
        rings = (Ring("R", (names[0], names[1]), draw(depths), ((0, 0), (0, 1))[: last - 2]),)
    operations: list[Operation] = []
    for place, name in enumerate(names):
        read = draw(st.lists(st.sampled_from(names), max_size=3, unique=True))
        reads = tuple(Read(n, draw(st.integers(0 if n < name else 1, 1))) for n in read)
        operations.append(
            Operation(
                *(f"op{place}", "", Kind.MAP, Phase.BODY, reads, (name,)),
                unit=draw(st.sampled_from("XXY")),
                cycles=draw(small),
                latency=draw(st.integers(1, 4)),
            )
        )
    kernel = Kernel(
        *("small", "abstract", "", "", (), ()),
        regions=tuple(regions),
        pieces=tuple(Piece(n, n, 0, 1, 0, 4) for n in names),
        rings=rings,
        operations=tuple(operations),
    )
    assume(not any(storage_mistakes(kernel)))
    return build_problem(kernel, ABSTRACT, derive(kernel))


def storages(problem: Problem) -> Iterator[list[Constraint]]:
    """The dependences under each combination of depths and storage."""
    regions = problem.kernel.regions
    for depth in product(*(range(r.depth.low, r.depth.high + 1) for r in regions)):
        depths = {region.name: slots for region, slots in zip(regions, depth, strict=True)}
        for picked in product(*(range(len(c.options)) for c in problem.graph.choices)):
            names = [choice.name for choice in problem.graph.choices]
            option = dict(zip(names, picked, strict=True))
            yield [
                Constraint(d.edge.src, d.edge.dst, d.delay, d.edge.resolved(depths).distance)
                for d in problem.dependences
                if d.edge.condition is None
                or option[d.edge.condition.choice] == d.edge.condition.option
            ]


def slot_maps(problem: Problem, ii: int) -> Iterator[dict[str, int]]:
    """Start times modulo ``ii`` at which no unit is used twice; the first operation is at 0."""
    names = problem.body

    def extend(
        slots: dict[str, int], taken: frozenset[tuple[str, int]]
    ) -> Iterator[dict[str, int]]:
        if len(slots) == len(names):
            yield slots
            return
        name = names[len(slots)]
        ((unit, cycles),) = problem.costs[name].units
        for slot in range(ii if slots else 1):
            cells = {(unit, (slot + cycle) % ii) for cycle in range(cycles)}
            if cycles <= ii and not cells & taken:
                yield from extend({**slots, name: slot}, taken | cells)

    return extend({}, frozenset())


def stages_exist(ii: int, slots: dict[str, int], constraints: list[Constraint]) -> bool:
    """Whether whole numbers of turns can be added to ``slots`` so that all constraints hold."""
    turns = dict.fromkeys(slots, 0)
    for _ in range(len(slots) + 1):
        before = dict(turns)
        for c in constraints:
            least = -((slots[c.dst] - slots[c.src] - c.delay + ii * c.distance) // ii)
            turns[c.dst] = max(turns[c.dst], turns[c.src] + least)
        if before == turns:
            return True
    return False


def possible(problem: Problem, ii: int) -> bool:
    """Whether a schedule exists at ``ii``, by trying everything."""
    decided = list(storages(problem))
    return any(
        stages_exist(ii, slots, constraints)
        for slots in slot_maps(problem, ii)
        for constraints in decided
    )


def found(problem: Problem) -> Result | None:
    """The search's answer; a dependence cycle that no II allows counts as none."""
    try:
        return search(problem)
    except ImpossibleCycle:
        return None


def compare_with_enumeration(problem: Problem) -> None:
    result = found(problem)
    if result is None:
        event("none")
        assert not any(possible(problem, ii) for ii in range(1, 7))
        return
    event("above the bound" if result.ii > result.bound.cycles else "at the bound")
    assert result.proven
    assert verify(problem, result.decisions) == ()
    assert result.ii == next(ii for ii in count(1) if possible(problem, ii))


@pytest.mark.medium
@settings(PATIENT, max_examples=30)
@given(unit_problems())
def test_search_equals_exhaustive_enumeration(problem: Problem) -> None:
    compare_with_enumeration(problem)


@pytest.mark.slow
@settings(PATIENT, max_examples=500)
@given(unit_problems())
def test_search_equals_exhaustive_enumeration_at_length(problem: Problem) -> None:
    compare_with_enumeration(problem)


@pytest.mark.medium
@settings(PATIENT, max_examples=30)
@given(unit_problems(decided=True), st.integers(0, 4))
def test_backtracking_agrees_with_the_search(problem: Problem, beyond: int) -> None:
    """It finds nothing below the optimum, and what it finds above is correct."""
    result = found(problem)
    assume(result is not None)
    assert result is not None
    if result.ii > 1:
        assert not list(enumerate_schedules(problem, result.ii - 1, 2))
    for made in islice(enumerate_schedules(problem, result.ii + beyond, 2), 20):
        assert verify(problem, made) == ()


# -- what the search relies on -------------------------------------------------------------------


def feasible(problem: Problem, ii: int, *, proof: bool = False) -> Decisions | None:
    """A schedule at ``ii``, whichever the solver finds first; ``proof`` is how it looks for it."""
    efforts = (module.Effort(60.0, proof),)
    status, decisions = module._feasible(problem, ii, module._Clock(0.0, None), efforts)
    assert status in ("feasible", "infeasible")
    return decisions


def compare_with_implied(problem: Problem) -> None:
    """Constraints for proofs exclude nothing: with them there is a schedule at the same IIs."""
    result = found(problem)
    assume(result is not None)
    assert result is not None
    for ii in range(max(result.bound.cycles, result.ii - 2), result.ii + 4):
        made = feasible(problem, ii, proof=True)
        assert (made is not None) == (ii >= result.ii)
        assert made is None or verify(problem, made) == ()


@pytest.mark.medium
@settings(PATIENT, max_examples=40)
@given(unit_problems())
def test_implied_constraints_exclude_nothing_on_units(problem: Problem) -> None:
    compare_with_implied(problem)


@pytest.mark.medium
@settings(PATIENT, max_examples=30)
@given(st.data())
def test_implied_constraints_exclude_nothing(
    toy_problems: st.SearchStrategy[Problem], data: st.DataObject
) -> None:
    compare_with_implied(data.draw(toy_problems))


@pytest.mark.medium
@pytest.mark.parametrize(("name", "target"), [("attention_fwd", "b200"), ("fa4_unit", "abstract")])
def test_implied_constraints_of_shipped_specs(name: str, target: str) -> None:
    solution = solve(read_spec(name), read_machine(target))
    ii = solution.schedule.ii_cycles
    for cycles in range(ii - 2, ii + 3):
        made = feasible(solution.problem, cycles, proof=True) is not None
        assert made == (cycles >= ii)


# -- looks and proofs ----------------------------------------------------------------------------

SOFT_CAP = Path(__file__).parents[2] / "data" / "specs" / "soft_cap.yaml"


@pytest.mark.slow
@pytest.mark.parametrize(("target", "ii"), [("b200", 3656), ("h200", 2386)])
def test_a_unit_that_is_nearly_full(target: str, ii: int) -> None:
    """Attention with a soft cap. It took 90 s and 9 s, when each II that was looked at had to be
    proven infeasible, one after the other and without implied constraints.
    """
    begin = process_time()
    schedule = solve(read_spec(str(SOFT_CAP)), read_machine(target)).schedule
    assert (schedule.ii_cycles, schedule.lower_bound_cycles) == (ii, ii)
    assert schedule.proven_optimal
    assert schedule.certificate.kind == "infeasible"
    assert process_time() - begin < 20  # 4 s on the machine that this was written on


def test_looks_that_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no look finds anything out, the result is the same: all is left to proofs."""
    spec, machine = read_spec("attention_fwd"), read_machine("b200")
    kernel = bind(spec.source, spec.file, "b200", {"exp2_polynomial": "1/4"})[0]
    problem = build_problem(kernel, machine, derive(kernel))
    plain = module._feasible

    def blind(problem: Problem, ii: int, clock: Any, efforts: Any, *_: Any) -> Any:
        if efforts is module.LOOK and ii < 2070:
            return "unknown", None
        return plain(problem, ii, clock, efforts)

    monkeypatch.setattr(module, "_feasible", blind)
    result = smallest(problem)
    assert result is not None
    assert (result.ii, result.lower_bound, result.proven) == (2064, 2064, True)


@pytest.mark.medium
def test_what_is_not_proven_is_not_called_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last proof ends without an answer: the bound is what was proven before."""
    spec, machine = read_spec("attention_fwd"), read_machine("b200")
    kernel = bind(spec.source, spec.file, "b200", {"exp2_polynomial": "1/4"})[0]
    problem = build_problem(kernel, machine, derive(kernel))
    plain = module._feasible

    def blind(problem: Problem, ii: int, clock: Any, efforts: Any, *_: Any) -> Any:
        status, decisions = plain(problem, ii, clock, efforts)
        return ("unknown", None) if status == "infeasible" else (status, decisions)

    monkeypatch.setattr(module, "_feasible", blind)
    result = smallest(problem)
    assert result is not None
    assert result.ii == 2064
    assert result.lower_bound == result.bound.cycles < result.ii
    assert not result.proven


@pytest.mark.medium
@settings(PATIENT, max_examples=30)
@given(st.data())
def test_what_fits_fits_a_cycle_later(
    toy_problems: st.SearchStrategy[Problem], data: st.DataObject
) -> None:
    problem = data.draw(toy_problems)
    result = found(problem)
    assume(result is not None)
    assert result is not None
    for ii in range(max(result.bound.cycles, result.ii - 2), result.ii + 5):
        assert (feasible(problem, ii) is not None) == (ii >= result.ii)


@pytest.mark.medium
@settings(PATIENT, max_examples=40)
@given(st.data(), st.integers(0, 30))
def test_tightened_schedules_are_schedules(
    toy_problems: st.SearchStrategy[Problem], data: st.DataObject, beyond: int
) -> None:
    problem = data.draw(toy_problems)
    try:
        low = module.arithmetic_bound(problem).cycles
    except ImpossibleCycle:
        assume(False)
        return
    loose = feasible(problem, low + beyond)
    assume(loose is not None)
    assert loose is not None
    assert verify(problem, loose) == ()
    ii = module._tightened(problem, loose)
    assert ii <= loose.ii
    assert verify(problem, module._retime(problem, loose, ii)) == ()


@pytest.mark.medium
@settings(PATIENT, max_examples=15)
@given(st.data())
def test_search_repeats_itself(
    toy_problems: st.SearchStrategy[Problem], data: st.DataObject
) -> None:
    problem = data.draw(toy_problems)
    one, other = found(problem), found(problem)
    assume(one is not None)
    assert one is not None
    assert other is not None
    assert (one.ii, one.decisions, one.objectives) == (other.ii, other.decisions, other.objectives)


def test_nothing_fits_into_one_slot_that_must_hold_two_values() -> None:
    """A reader of the version before last, in a single slot."""
    operations = (
        Operation("make", "", Kind.MAP, Phase.BODY, (), ("T",), unit="X", cycles=1, latency=1),
        Operation(
            "use", "", Kind.MAP, Phase.BODY, (Read("T"), Read("T", 2)), (), unit="Y", cycles=1
        ),
    )
    kernel = Kernel(
        *("two versions", "abstract", "", "", (), ()),
        regions=(Region("T", "T", Space.SMEM, (1, 4), "e4m3", Depth(1, 1)),),
        pieces=(Piece("T", "T", 0, 1, 0, 4),),
        rings=(),
        operations=operations,
    )
    with pytest.raises(ImpossibleCycle):
        smallest(build_problem(kernel, ABSTRACT, derive(kernel)))
