"""Two products in flight: a wait_group comes behind the next product, where that costs nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.driver.found import Solution
from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.program.model import Program, RoleProgram, Run, WaitGroup
from schedgen.proof.graph import prove
from schedgen.spec.reader import read_spec
from schedgen.synchronize.layout import Layout
from schedgen.synchronize.pace import pace
from schedgen.synchronize.synthesize import synthesize

LATE = """
schedgen: 1
kernel: late
targets: [h200]
arguments:
  a: {{shape: [m, k], dtype: bf16}}
  b: {{shape: [n, k], dtype: bf16}}
  d: {{shape: [m, n], dtype: bf16}}
dimensions:
  band: {{count: 2}}
buffers:
  sA: {{space: smem, shape: [128, 64], dtype: bf16, split: {{rows: band}}, depth: {depth}}}
  sB: {{space: smem, shape: [128, 64], dtype: bf16, depth: {depth}}}
  acc: {{space: registers, shape: [128, 128], split: {{rows: band}}, lives: tile, initial: 0}}
  sD: {{space: smem, shape: [128, 128], dtype: bf16, split: {{rows: band}}, lives: tile}}
loops: {{trips: ceil(k / 64)}}
parameters:
  k: {{default: 1024}}
operations:
  body:
    - {{id: LA, kind: load, from: a, to: sA}}
    - {{id: LB, kind: load, from: b, to: sB}}
    - {{id: MMA, kind: mma, over: [band], a: sA, b: sB, transpose_b: true, d: acc,
       accumulate: true, role: "consumer{{band}}"}}
  after:
    - {{id: EPI, kind: map, over: [band], to: {{sD: acc}}}}
    - {{id: STD, kind: store, from: sD, to: d}}
"""


def solved(spec: str, **settings: str) -> Solution:
    return solve(read_spec(spec), read_machine("h200"), settings=settings)


def made(solution: Solution) -> Program:
    return synthesize(solution.problem.kernel, solution.schedule, solution.problem.machine)


def turns(role: RoleProgram, product: str) -> tuple[str, ...]:
    """What a turn of the loop has of ``product``: its issue, its wait_group, and of which
    iteration.
    """
    return tuple(
        f"{type(step.action).__name__} {step.shift}"
        for step in role.loop
        if isinstance(step.action, Run | WaitGroup) and step.action.operation == product
    )


ROLE = {"gemm": "epilogue0", "attention_fwd": "softmax0", "gemm_chain": "epilogue0"}


@pytest.mark.medium
@pytest.mark.parametrize(
    ("spec", "product", "wanted"),
    [
        ("gemm", "MMA[0]", ("Run 0", "WaitGroup 1")),
        ("attention_fwd", "QK[0]", ("Run 0", "WaitGroup 0")),  # a softmax follows
        ("attention_fwd", "PV[0,0]", ("Run 1", "WaitGroup 1")),  # what it made is rescaled
        ("gemm_chain", "AB[0]", ("Run 0", "WaitGroup 0")),  # its result is stored
        ("gemm_chain", "PC[0]", ("WaitGroup 1", "Run 0")),  # another product comes between
    ],
)
def test_what_nothing_needs_is_known_later(
    spec: str, product: str, wanted: tuple[str, ...]
) -> None:
    program = made(solved(spec))
    role = next(role for role in program.roles if role.name == ROLE[spec])
    assert turns(role, product) == wanted


@pytest.mark.medium
def test_right_before_what_needs_it() -> None:
    """A product is waited for when its operand is written over, not when it should be complete:
    exponentials and sums go on meanwhile.
    """
    program = made(solved("attention_fwd"))
    role = next(role for role in program.roles if role.name == "softmax0")
    names = [
        f"{type(step.action).__name__} {step.action.operation}"
        for step in role.loop
        if isinstance(step.action, Run | WaitGroup)
    ]
    at = names.index("WaitGroup PV[0,0]")
    assert names[at - 2 : at] == ["Run EXP[0,0]", "Run SUM[0]"]
    assert names[at + 1 :] == ["Run CVT[0,0]"]
    assert names[:2] == ["Run QK[0]", "Run CR[0]"]


@pytest.mark.parametrize("depth", ["1", "2", "3"])
def test_not_where_it_is_slower(depth: str, tmp_path: Path) -> None:
    """With one slot there is no next product to wait for, with two the loads wait too long."""
    path = tmp_path / "late.yaml"
    path.write_text(LATE.format(depth=depth), encoding="utf-8")
    solution = solved(str(path))
    program = made(solution)
    layout = Layout(solution.problem.kernel, solution.schedule, program, late=True)
    assert layout.late["MMA[1]"] == ("MMA[1]", solution.schedule.ii_cycles)
    role = next(r for r in program.roles if turns(r, "MMA[1]"))
    assert turns(role, "MMA[1]") == ("Run 0", "WaitGroup 1" if depth == "3" else "WaitGroup 0")
    assert prove(program).findings == ()


def test_the_tensor_cores_set_the_pace() -> None:
    """wgmma that adds to the result of the last one waits for the unit, not for its latency."""
    solution = solved("gemm", tile_m="64", consumers="1", tile_n="128")
    product = next(op for op in solution.schedule.ops if op.id == "MMA[0]")
    assert solution.schedule.ii_cycles == 2 * 64 * 128 * 64 // 4096 == 256
    assert product.latency > solution.schedule.ii_cycles
    assert pace(made(solution)).cycles == 256
