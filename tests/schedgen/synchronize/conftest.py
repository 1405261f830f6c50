"""Random pipelines: loads, products and vector work, with a schedule that is known to be right."""

from __future__ import annotations

import pytest
from hypothesis import assume
from hypothesis import strategies as st

from schedgen.bounds import ImpossibleCycle
from schedgen.dependence import derive
from schedgen.kernel import Depth, Kernel, Kind, Operation, Phase, Piece, Read, Region, Space, Work
from schedgen.machine import Machine
from schedgen.machine_file import machine_from
from schedgen.program.model import Program
from schedgen.solver.assemble import assemble
from schedgen.solver.problem import ProblemError, build_problem
from schedgen.solver.search import refine, smallest
from schedgen.solver.tiles import schedule_tiles
from schedgen.spec.source import parse_source
from schedgen.storage_rules import storage_mistakes
from schedgen.synchronize.synthesize import synthesize

# rows = latency, columns = hold, bytes = cycles on the unit.
MACHINE = """
schedgen_machine: 1
name: pipes
arch: none
summary: one queue of products, bulk loads and warpgroups
capacities:
  smem_bytes: {value: 200000, source: made up, certainty: documented}
  tmem_columns: {value: 512, source: made up, certainty: documented}
  registers_per_thread_sum: {value: 512, source: made up, certainty: documented}
  max_registers: {value: 248, source: made up, certainty: documented}
  warpgroups: {value: 8, source: made up, certainty: documented}
units:
  TENSOR: {kind: exclusive, order: queue}
  TMA: {kind: exclusive}
roles:
  copy: {warps: 1, registers: 24}
  tensor: {warps: 1, registers: 24}
  vector: {warps: 4, registers: 32}
constants:
  wait: {value: 2, unit: cycle, source: made up, certainty: documented}
  arrive: {value: 1, unit: cycle, source: made up, certainty: documented}
  handoff: {value: 3, unit: cycle, source: made up, certainty: documented}
rules:
  - {name: load, kind: load, role: copy, hold: columns, units: {TMA: bytes},
     latency: rows + 20, handoff: included, issue: asynchronous}
  - {name: mma, kind: mma, role: tensor, hold: columns, units: {TENSOR: bytes},
     latency: rows + bytes, issue: asynchronous}
  - {name: map, kind: map, role: vector, units: {}, latency: rows + columns, issue: synchronous}
"""

SPACES = {
    Kind.LOAD: (Space.SMEM,),
    Kind.MMA: (Space.TMEM,),
    Kind.MAP: (Space.SMEM, Space.TMEM),
}


@st.composite
def _kernels(draw: st.DrawFn) -> Kernel:
    """A few operations in a row; each writes a tile of its own and reads some of those before."""
    count = draw(st.integers(2, 6))
    kinds = [Kind.LOAD, *(draw(st.sampled_from([*SPACES])) for _ in range(count - 1))]
    regions: list[Region] = []
    operations: list[Operation] = []
    for place, kind in enumerate(kinds):
        depth = draw(st.sampled_from([Depth(1, 1), Depth(2, 2), Depth(1, 3), Depth(3, 3)]))
        space = draw(st.sampled_from(SPACES[kind]))
        reads: dict[str, Read] = {}
        if kind is not Kind.LOAD:
            names = [r.name for r in regions]
            for name in draw(st.lists(st.sampled_from(names), min_size=1, max_size=3)):
                reads[name] = Read(name, draw(st.sampled_from([0, 0, 0, 1])))
        regions.append(Region(f"R{place}", f"R{place}", space, (128, 16), "f32", depth))
        work = Work(
            rows=draw(st.integers(1, 60)),
            columns=draw(st.integers(1, 9)),
            bytes=draw(st.integers(1, 30)),
        )
        operations.append(
            Operation(
                f"op{place}", "", kind, Phase.BODY, tuple(reads.values()), (f"R{place}",), work=work
            )
        )
    return Kernel(
        *("random", "pipes", "", "", (), ()),
        regions=tuple(regions),
        pieces=tuple(Piece(r.name, r.name, 0, 128, 0, 64) for r in regions),
        rings=(),
        operations=tuple(operations),
    )


@st.composite
def _programs(draw: st.DrawFn, machine: Machine) -> Program:
    kernel = draw(_kernels())
    assume(not any(storage_mistakes(kernel)))
    try:
        problem = build_problem(kernel, machine, derive(kernel))
        result = smallest(problem)
    except (ProblemError, ImpossibleCycle):
        result, problem = None, None
    assume(result is not None)
    assert result is not None
    assert problem is not None
    refine(problem, result)
    tiles = schedule_tiles(problem, result.decisions)
    assert tiles is not None
    schedule = assemble(problem, result, tiles)
    return synthesize(kernel, schedule, machine)


@pytest.fixture(scope="session")
def pipelines() -> st.SearchStrategy[Program]:
    """Programs of random pipelines."""
    return _programs(machine_from(parse_source(MACHINE, "pipes.yaml")))
