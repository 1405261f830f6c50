"""Lower bounds: the maximum cycle ratio is exact, and says which cycle it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import networkx as nx
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from schedgen.bounds import Constraint, Cycle, ImpossibleCycle, Load, busiest, critical_cycle
from schedgen.reasons import Reason, ReasonKind

GRAPHS = Path(__file__).parents[1] / "data" / "attention_graphs.json"


def simple_cycles(constraints: Sequence[Constraint]) -> Iterator[Cycle]:
    """Every simple cycle; a node in the middle of each constraint keeps parallel ones apart."""
    graph: nx.DiGraph[str | int] = nx.DiGraph()
    for number, constraint in enumerate(constraints):
        graph.add_edge(constraint.src, number)
        graph.add_edge(number, constraint.dst)
    for nodes in nx.simple_cycles(graph):
        yield Cycle(tuple(constraints[node] for node in nodes if isinstance(node, int)))


def is_cycle(cycle: Cycle) -> bool:
    links = cycle.constraints
    return all(
        one.dst == other.src for one, other in zip(links, (*links[1:], links[0]), strict=True)
    )


def constraint_lists(*distances: int) -> st.SearchStrategy[list[Constraint]]:
    name = st.sampled_from("ABCDEF")
    one = st.builds(Constraint, name, name, st.integers(0, 9), st.sampled_from(distances))
    return st.lists(one, max_size=14)


@pytest.mark.medium
@settings(max_examples=400)
@given(constraint_lists(1, 0, 1, 0, 2, 3, -1))
def test_critical_cycle_is_the_best_of_all_simple_cycles(constraints: list[Constraint]) -> None:
    cycles = list(simple_cycles(constraints))
    assume(not any(cycle.delay == 0 and cycle.distance < 0 for cycle in cycles))
    if any(cycle.delay > 0 and cycle.distance <= 0 for cycle in cycles):
        event("impossible")
        with pytest.raises(ImpossibleCycle) as caught:
            critical_cycle(constraints)
        assert is_cycle(caught.value.cycle)
        assert caught.value.cycle.distance <= 0
        return
    found = critical_cycle(constraints)
    expected = max((c.ratio for c in cycles if c.delay > 0), default=None)
    event("acyclic" if expected is None else "cyclic")
    assert (found.ratio if found else None) == expected
    if found is not None:
        assert is_cycle(found)
        assert set(found.constraints) <= set(constraints)


@given(constraint_lists(1, 1, 2, 0), st.integers(1, 30))
def test_the_bound_is_what_start_times_allow(constraints: list[Constraint], ii: int) -> None:
    """Longest paths settle exactly where II is not below the bound."""
    assume(all(cycle.distance > 0 for cycle in simple_cycles(constraints)))
    found = critical_cycle(constraints)
    start = dict.fromkeys((name for c in constraints for name in (c.src, c.dst)), 0)
    before: dict[str, int] = {}
    for _ in range(len(start) + 1):
        before = dict(start)
        for c in constraints:
            start[c.dst] = max(start[c.dst], start[c.src] + c.delay - ii * c.distance)
    assert (before == start) == (found is None or found.bound <= ii)


def test_impossible_cycle_names_its_operations() -> None:
    constraints = [
        Constraint("A", "B", 3, 1),
        Constraint("B", "A", 2, -1),
        Constraint("A", "A", 9, 1),
    ]
    with pytest.raises(ImpossibleCycle, match="within one iteration") as caught:
        critical_cycle(constraints)
    assert {c.src for c in caught.value.cycle.constraints} == {"A", "B"}


def test_no_constraints_no_cycle() -> None:
    assert critical_cycle([]) is None
    assert critical_cycle([Constraint("A", "B", 5, 0), Constraint("A", "A", 0, 1)]) is None


def test_fractions_are_exact_and_bounds_round_up() -> None:
    constraints = [
        Constraint("A", "B", 5, 1),
        Constraint("B", "C", 5, 1),
        Constraint("C", "A", 0, 1),
    ]
    cycle = critical_cycle(constraints)
    assert cycle is not None
    assert cycle.ratio == Fraction(10, 3)
    assert cycle.bound == 4


def test_render() -> None:
    cycle = Cycle(
        (Constraint("A", "B", 5, 0), Constraint("B", "C", 2, -1), Constraint("C", "A", 3, 2))
    )
    assert cycle.render() == "A -(5)-> B -(2, -1)-> C -(3, +2)-> A = 10 cycles / 1 iteration"
    loop = Cycle((Constraint("A", "A", 7, 2),))
    assert loop.render() == "A -(7, +2)-> A = 7 cycles / 2 iterations"


@pytest.mark.parametrize("name", ["fa4_sm100_hd128", "cutlass_fmha_sm100_hd128"])
def test_published_attention_graphs(name: str) -> None:
    graph = json.loads(GRAPHS.read_text(encoding="utf-8"))["graphs"][name]
    cycle = critical_cycle([Constraint(*edge) for edge in graph["edges"]])
    assert cycle is not None
    assert cycle.ratio == graph["max_cycle_ratio"]


def test_busiest_takes_the_first_on_ties() -> None:
    x, y, z = (Reason(ReasonKind.UNIT, (name,)) for name in "XYZ")
    loads = [Load(x, 3, (("a", 3),)), Load(y, 5, (("b", 2), ("c", 3))), Load(z, 5, ())]
    assert busiest(loads) is loads[1]
    assert busiest([]) is None
    assert loads[1].render() == "Y is busy 5 cycles: b 2, c 3"
