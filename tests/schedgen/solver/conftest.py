"""Random scheduling problems: all that the solver decides, in a few operations."""

from __future__ import annotations

import pytest
from hypothesis import assume
from hypothesis import strategies as st

from schedgen.dependence import derive
from schedgen.kernel import (
    OWN_STORAGE,
    AliasOption,
    Depth,
    Kernel,
    Kind,
    Operation,
    Order,
    Phase,
    Piece,
    Read,
    Region,
    Ring,
    Space,
    Work,
)
from schedgen.machine import Machine
from schedgen.machine_file import machine_from
from schedgen.solver.problem import Problem, ProblemError, build_problem
from schedgen.spec.source import parse_source
from schedgen.storage_rules import storage_mistakes

# Costs come straight from an operation's work: rows = latency, m = release, columns = hold, bytes =
# cycles on its unit. The tensor unit is a queue, MUFU keeps the order of a role; loads run ahead;
# hand-offs and waits cost cycles.
TOY = """
schedgen_machine: 1
name: toy
arch: none
summary: small numbers that exercise every rule
capacities:
  smem_bytes: {value: 1000000, source: made up, certainty: documented}
  tmem_columns: {value: 1000, source: made up, certainty: documented}
  registers_per_thread_sum: {value: 512, source: made up, certainty: documented}
  max_registers: {value: 248, source: made up, certainty: documented}
  warpgroups: {value: 16, source: made up, certainty: documented}
units:
  TENSOR: {kind: exclusive, order: queue}
  TMA: {kind: exclusive}
  MUFU: {kind: exclusive, order: role}
roles:
  copy: {warps: 1, registers: 8}
  tensor: {warps: 1, registers: 8}
  vector: {warps: 4, registers: 16}
constants:
  extra: {low: 0, high: 2, unit: cycle, source: made up, certainty: documented}
  wait: {value: 2, unit: cycle, source: made up, certainty: documented}
  arrive: {value: 1, unit: cycle, source: made up, certainty: documented}
  handoff: {value: 3, unit: cycle, source: made up, certainty: documented}
rules:
  - {name: load, kind: load, role: copy, hold: columns, units: {TMA: bytes},
     latency: rows + extra + 3, handoff: included, issue: asynchronous}
  - {name: mma, kind: mma, role: tensor, hold: columns, units: {TENSOR: bytes},
     latency: rows + bytes + extra, release: bytes + m, issue: asynchronous}
  - {name: map, kind: map, role: vector, units: {MUFU: bytes}, latency: rows + bytes + extra,
     issue: synchronous}
  - {name: copy, kind: copy, role: vector, hold: columns, release: columns, units: {},
     latency: rows + columns + extra, issue: asynchronous}
"""

SHAPE = (2, 4)


def _region(name: str, depth: Depth, options: tuple[AliasOption, ...], *, tenant: bool) -> Region:
    shape = (2, 2) if tenant else SHAPE
    return Region(name, name, Space.SMEM, shape, "e4m3", depth, options=options)


@st.composite
def _storage(draw: st.DrawFn) -> tuple[list[Region], list[Piece], list[Ring]]:
    """One or two regions, perhaps with tenants in their halves, and perhaps a shared ring."""
    depths = st.sampled_from([Depth(1, 1), Depth(2, 2), Depth(1, 3)])
    own = (OWN_STORAGE,)
    names = [f"R{n}" for n in range(draw(st.integers(1, 2)))]
    regions = [_region(name, draw(depths), own, tenant=False) for name in names]
    for half in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        skews = draw(st.sampled_from([(0,), (0, 1), (1,)]))
        host = draw(st.sampled_from(names))
        inside = tuple(AliasOption(host, half * 2, skew) for skew in skews)
        options = (*inside, *draw(st.sampled_from([(), own])))
        regions.append(_region(f"T{half}", Depth(1, 1), options, tenant=True))
    rings: list[Ring] = []
    if draw(st.sampled_from([False, False, True])):
        shared = [Region(n, n, Space.SMEM, SHAPE, "e4m3", Depth(1, 1), ring="K") for n in "KV"]
        regions.extend(shared)
        lags = draw(st.sampled_from([((0, 0),), ((0, 1),), ((0, 0), (0, 1))]))
        rings.append(Ring("K", ("K", "V"), draw(depths), lags))
    pieces: list[Piece] = []
    for region in regions:
        width, name = region.shape[1], region.name
        if draw(st.booleans()):
            pieces.append(Piece(name, name, 0, 2, 0, width))
        else:
            cuts = ((0, width // 2), (width // 2, width))
            pieces.extend(Piece(f"{name}.{n}", name, 0, 2, *cut) for n, cut in enumerate(cuts))
    return regions, pieces, rings


@st.composite
def _kernels(draw: st.DrawFn) -> Kernel:
    regions, pieces, rings = draw(_storage())
    names, count = [piece.name for piece in pieces], draw(st.integers(2, 6))
    places = st.integers(0, count - 1)
    writers = {name: {draw(places), *draw(st.sets(places, max_size=1))} for name in names}
    cycles = st.integers(0, 4)
    operations: list[Operation] = []
    for place in range(count):
        reads: dict[Read, None] = {}
        for name in draw(st.lists(st.sampled_from(names), max_size=3)):
            early = any(write < place for write in writers[name])
            reads[Read(name, draw(st.integers(0 if early else 1, 1)))] = None
        kind = draw(st.sampled_from([Kind.LOAD, Kind.MMA, Kind.MAP, Kind.MAP, Kind.COPY]))
        rows = draw(st.integers(1, 9))
        work = Work(rows=rows, m=min(rows, 2), columns=draw(cycles), bytes=draw(cycles))
        writes = tuple(name for name in names if place in writers[name])
        body = (f"op{place}", "", kind, Phase.BODY, tuple(reads), writes)
        operations.append(Operation(*body, work=work))
    orders: list[Order] = []
    if draw(st.sampled_from([False, False, True])):
        orders.append(Order("fixed", (("op0", 0), ("op1", draw(st.integers(0, 1))))))
    return Kernel(
        *("random", "toy", "", "", (), ()),
        regions=tuple(regions),
        pieces=tuple(pieces),
        rings=tuple(rings),
        operations=tuple(operations),
        orders=tuple(orders),
    )


@st.composite
def _problems(draw: st.DrawFn, machine: Machine) -> Problem:
    kernel = draw(_kernels())
    assume(not any(storage_mistakes(kernel)))
    try:
        return build_problem(
            kernel, machine, derive(kernel), draw(st.sampled_from(["low", "high"]))
        )
    except ProblemError:  # a ring filled by roles of different kinds
        assume(False)
        raise


@pytest.fixture(scope="session")
def toy_problems() -> st.SearchStrategy[Problem]:
    """Problems with queues, hand-offs, tenants, shared rings and roles that may be merged."""
    return _problems(machine_from(parse_source(TOY, "toy.yaml")))
