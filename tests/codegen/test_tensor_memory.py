"""Columns of tensor memory: how many are allocated, where operands begin."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen.codegen.errors import EmitError
from schedgen.codegen.library import COMMON
from schedgen.codegen.plan import Plan
from schedgen.codegen.printing import expression
from schedgen.codegen.running import Iteration
from schedgen.codegen.tensor_memory import TensorMemory
from schedgen.kernel import Space
from schedgen.program.model import Program
from schedgen.synchronize.frame import framed
from tests.codegen.dsl import library, value
from tests.codegen.examples import GEMM, plan_of

PLAN = plan_of("gemm", "b200", **GEMM)
ATTENTION = plan_of("attention_fwd", "b200", head_dim="64")


def resized(columns: int) -> Program:
    allocations = tuple(
        replace(s, size=columns, address=0) if s.space is Space.TMEM else s
        for s in PLAN.program.allocations
    )
    return replace(PLAN.program, allocations=allocations)


@pytest.mark.parametrize(("needed", "wanted"), [(8, 32), (32, 32), (33, 64), (320, 512)])
def test_columns(needed: int, wanted: int) -> None:
    """A power of two, at least 32."""
    assert TensorMemory(Plan(framed(resized(needed)), PLAN.kernel)).columns == wanted


def test_none() -> None:
    assert TensorMemory(plan_of("gemm", "h200", tile_m="64", consumers="1")).columns == 0


def test_roles() -> None:
    memory = TensorMemory(PLAN)
    assert memory.used_by("mma")
    assert not memory.used_by("load")


def address(memory: TensorMemory, operation: str, operand: str, first: int) -> int:
    """A column, where ``tmem`` is 0, in iteration and tile ``first``."""
    found = memory.at(memory.plan.operation(operation), operand, Iteration(""))
    return value(expression(found), library(COMMON) | {"tmem": 0, "first": first, "t": first})


def test_slots_of_an_accumulator() -> None:
    """Each slot has its own columns, and slices are parts of them."""
    memory = TensorMemory(PLAN)
    allocation = next(s for s in PLAN.program.allocations if s.space is Space.TMEM)
    width = allocation.size // allocation.slots
    assert allocation.slots > 1
    for tile in range(2 * allocation.slots):
        first = address(memory, "EPI[0,0]", "acc", tile)
        assert first == allocation.address + width * (tile % allocation.slots)
        assert address(memory, "EPI[1,0]", "acc", tile) == first + 16
        assert address(memory, "MMA[0]", "d", tile) == first


def test_tenants_lie_in_their_hosts() -> None:
    """P begins inside of a score tile, or has columns of its own; never those of the output."""
    memory = TensorMemory(ATTENTION)
    scores = {address(memory, f"QK[{n}]", "d", 0) for n in (0, 1)}
    outputs = {address(memory, f"PV[{n},0]", "d", 0) for n in (0, 1)}
    assert len(scores | outputs) == 4
    for tile in (0, 1):
        parts = [address(memory, f"PV[{tile},{part}]", "a", 0) for part in (0, 1)]
        assert parts[1] - parts[0] == 48  # 96 columns of bf16
        assert all(address(memory, f"STP[{tile},{n}]", "to", 0) == parts[n] for n in (0, 1))
        assert not any(output <= parts[0] < output + 64 for output in outputs)


def test_initial_values() -> None:
    memory = TensorMemory(PLAN)
    assert memory.initial(PLAN.operation("MMA[0]"), "d") == 1
    assert memory.initial(PLAN.operation("EPI[0,0]"), "acc") == 0


def test_other_numbers_of_rows() -> None:
    regions = tuple(
        replace(r, shape=(64, r.shape[1])) if r.base == "acc" else r for r in PLAN.kernel.regions
    )
    pieces = tuple(
        replace(p, row1=64) if PLAN.kernel.region[p.region].base == "acc" else p
        for p in PLAN.kernel.pieces
    )
    kernel = replace(PLAN.kernel, regions=regions, pieces=pieces)
    with pytest.raises(EmitError, match=r"'d' has 64 rows, tensor memory 128"):
        TensorMemory(Plan(PLAN.program, kernel)).at(kernel.operation["MMA[0]"], "d", None)
