"""A hand-written program with the kernel that it is for: the GEMM example with both operands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from schedgen.kernel import Kernel, Space
from schedgen.program.model import Arrive, Program, RoleProgram, Run, Step
from schedgen.program.operations import Access, Allocation, Engine, Number, TileOperation
from tests.schedgen.interpret.problems import kernel_of, random
from tests.schedgen.program.examples import gemm

DEPTH = 3
TEXT = """
schedgen: 1
kernel: product
targets: [b200]
parameters: {k: {default: 4096}}
arguments:
  a: {shape: [m, k], dtype: bf16}
  b: {shape: [n, k], dtype: bf16}
  d: {shape: [m, n], dtype: bf16}
buffers:
  sA: {space: smem, shape: [128, 64], dtype: bf16, depth: 3}
  sB: {space: smem, shape: [128, 64], dtype: bf16, depth: 3}
  acc: {space: tmem, shape: [128, 128], lives: tile, initial: 0}
  sD: {space: smem, shape: [128, 128], dtype: bf16, lives: tile}
loops: {trips: ceil(k / 64), persistent: true}
operations:
  body:
    - {id: LA, kind: load, from: a, to: sA}
    - {id: LB, kind: load, from: b, to: sB}
    - {id: MMA, kind: mma, a: sA, b: sB, transpose_b: true, d: acc, accumulate: true}
  after:
    - {id: EPI, kind: map, to: {sD: acc}}
    - {id: ST, kind: store, from: sD, to: d}
"""


def product_kernel() -> Kernel:
    return kernel_of(TEXT)


def product_inputs(trips: int) -> dict[str, torch.Tensor]:
    """Three output tiles, with a ragged edge in each direction."""
    k = max(64 * trips - 9, 0)
    return {"a": random(300, k, seed=1), "b": random(100, k, seed=2)}


def product_program() -> Program:
    """The example with a second operand, loaded into a ring of its own on the same barriers."""
    program = gemm(DEPTH)

    def operand(place: int, *, write: bool) -> Access:
        return Access("sB", Number(), (0, 128), (0, 128), write, (0, 0, place), "sB")

    load = TileOperation("LB", Engine.COPY_IN, (operand(0, write=True),), (600, 900), (20, 20))
    mma = program.operation["MMA"]
    mma = replace(mma, accesses=(*mma.accesses, operand(1, write=False)))
    role = program.role["load"]
    arrive = Step(Arrive("sA full", Number(), 1, 32768))
    more = Step(Run("LB", "sA full", Number(), 16384))
    role = replace(role, loop=(role.loop[0], arrive, role.loop[2], more))
    return replace(
        program,
        allocations=(
            *program.allocations,
            Allocation("sB", Space.SMEM, DEPTH, 128, 128, 100000, DEPTH * 16384),
        ),
        operations=(*(mma if o.name == "MMA" else o for o in program.operations), load),
        barriers=tuple(
            replace(b, bytes=32768) if b.name == "sA full" else b for b in program.barriers
        ),
        roles=(role, *program.roles[1:]),
    )


def without(program: Program, role: str, section: str, place: int) -> Program:
    """The program without one step."""
    changed = program.role[role]
    steps = getattr(changed, section)
    changed = replace(changed, **{section: steps[:place] + steps[place + 1 :]})
    return replace(program, roles=tuple(changed if r.name == role else r for r in program.roles))


def steps(program: Program, kind: type) -> Iterator[tuple[str, str, int]]:
    """Where steps of a kind stand: role, section and place."""
    for role in program.roles:
        for section in ("before", "loop", "after"):
            listed: tuple[Step, ...] = getattr(role, section)
            for place, step in enumerate(listed):
                if isinstance(step.action, kind):
                    yield role.name, section, place


def replaced(program: Program, role: RoleProgram) -> Program:
    """The program with another role of the same name."""
    return replace(program, roles=tuple(role if r.name == role.name else r for r in program.roles))
