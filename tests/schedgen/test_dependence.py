"""Dependences: the edges of published graphs and kernels follow from their specs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import product

import pytest

from schedgen.dependence import DependenceGraph, Edge, EdgeClass, RingOption, derive
from schedgen.kernel import AliasOption, Space
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec

Arrow = tuple[str, str, int]
NOTHING: Mapping[str, RingOption | AliasOption] = {}


def graph_of(name: str, target: str, **parameters: str) -> DependenceGraph:
    spec = read_spec(name)
    return derive(bind(spec.source, spec.file, target, parameters)[0])


def arrows(edges: Iterable[Edge]) -> set[Arrow]:
    return {(edge.src, edge.dst, edge.distance) for edge in edges}


def anti_edges(
    graph: DependenceGraph, chosen: Mapping[str, RingOption | AliasOption] = NOTHING
) -> list[Edge]:
    """Anti edges under the smallest depths and ``chosen`` alternatives of storage decisions."""
    depths = {region.name: region.depth.low for region in graph.kernel.regions}
    assert all(len(c.options) == 1 or c.name in chosen for c in graph.choices)
    options = {c.name: c.options.index(chosen.get(c.name, c.options[0])) for c in graph.choices}
    return [e for e in graph.resolve(depths, options) if e.kind is EdgeClass.ANTI]


def in_space(graph: DependenceGraph, edge: Edge, space: Space) -> bool:
    """Whether the storage of ``edge`` is in ``space``; a tenant's is called ``P in S``."""
    return graph.kernel.region[edge.about[0]].space is space


def test_fa4_unit_is_the_published_graph() -> None:
    graph = graph_of("fa4_unit", "abstract", tmem_hazards="false")
    kinds = Counter(edge.kind for edge in graph.edges)
    assert len(graph.kernel.body) == 14
    assert (kinds[EdgeClass.FLOW], kinds[EdgeClass.CARRIED]) == (18, 6)
    anti = anti_edges(graph)
    assert Counter(e.distance for e in anti if in_space(graph, e, Space.SMEM)) == {4: 4}
    assert arrows(e for e in anti if in_space(graph, e, Space.SMEM)) == {
        *(("QK[0]", "LK", 4), ("QK[1]", "LK", 4)),
        *(("PV[0]", "LV", 4), ("PV[1]", "LV", 4)),
    }
    assert not [edge for edge in anti if edge.about[0][0] in "SP"]


@pytest.mark.parametrize("tile", [0, 1])
def test_fa4_unit_protects_tensor_memory(tile: int) -> None:
    graph = graph_of("fa4_unit", "abstract", tmem_hazards="true")
    published = graph_of("fa4_unit", "abstract", tmem_hazards="false")
    assert set(published.edges) < set(graph.edges)
    added = [edge for edge in anti_edges(graph) if edge.about[0][0] in "SP"]
    assert all(in_space(graph, edge, Space.TMEM) for edge in added)
    assert {arrow for arrow in arrows(added) if arrow[0].endswith(f"[{tile}]")} == {
        (f"PV[{tile}]", f"QK[{tile}]", 1),  # P over S: what the published graph leaves out
        (f"EXP[{tile}]", f"QK[{tile}]", 1),
        (f"MAX[{tile}]", f"QK[{tile}]", 1),
        (f"MAX[{tile}]", f"EXP[{tile}]", 0),
    }


@pytest.mark.parametrize(
    ("depth", "expected"),
    [
        (3, {("QK[1]", "LV", 1), ("PV[1,0]", "LK", 2), ("PV[1,1]", "LK", 2)}),
        (6, {("QK[1]", "LK", 3), ("PV[1,0]", "LV", 3), ("PV[1,1]", "LV", 3)}),
    ],
)
def test_flash_attention_4_refills_its_ring(depth: int, expected: set[Arrow]) -> None:
    """Distances of FlashAttention-4's forward kernel: one ring for K and V, loaded in turn."""
    graph = graph_of("attention_fwd", "b200", p_storage="own", product_order="pv_first", kv_lag="0")
    found = arrows(anti_edges(graph, {"ring kv": RingOption(depth, (0, 0))}))
    refills = {arrow for arrow in found if arrow[1] in ("LK", "LV")}
    assert {arrow for arrow in refills if "[1" in arrow[0]} == expected
    assert len(refills) == 6  # the same from the other tile
    for tile, part in product(range(2), range(2)):
        assert (f"PV[{tile},{part}]", f"QK[{tile}]", 1) in found
        assert (f"LDS[{tile}]", f"QK[{tile}]", 1) in found


def test_cutlass_exchanges_the_score_buffers() -> None:
    """Distances of CUTLASS's Blackwell kernel: V is loaded an iteration after its K, P0 is in S1
    and P1 in S0.
    """
    graph = graph_of("attention_fwd", "b200", kv_lag="1", product_order="qk_first")
    places = [o for o in graph.choice["place of P[0]"].options if isinstance(o, AliasOption)]
    chosen = {
        "ring kv": RingOption(3, (0, 1)),
        "place of P[0]": AliasOption("S[1]", places[0].column, skew=0),
        "place of P[1]": AliasOption("S[0]", places[0].column, skew=1),
    }
    found = arrows(anti_edges(graph, chosen))
    assert {arrow for arrow in found if arrow[1] in ("LK", "LV")} == {
        *(("QK[0]", "LV", 0), ("QK[1]", "LV", 0)),
        *((f"PV[{tile},{part}]", "LK", 3) for tile, part in product(range(2), range(2))),
    }
    for part in range(2):
        assert ("LDS[1]", f"STP[0,{part}]", 0) in found
        assert ("LDS[0]", f"STP[1,{part}]", -1) in found
        assert (f"PV[0,{part}]", "QK[1]", 1) in found
        assert (f"PV[1,{part}]", "QK[0]", 2) in found
