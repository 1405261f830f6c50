"""Arrays of registers, and addresses in tensor memory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from schedgen.codegen.emit import emit
from schedgen.codegen.errors import EmitError
from schedgen.codegen.fragment import ROW, WGMMA, Fragment
from schedgen.codegen.plan import Plan
from schedgen.codegen.printing import expression
from schedgen.codegen.registers import Registers, initial_value
from schedgen.codegen.source import Source
from schedgen.driver.emulating import compiled
from schedgen.kernel import Space
from tests.codegen.examples import SPECS, plan_of, solved

ATTENTION = SPECS / "gated_attention.yaml"


def declared(registers: Registers, role: str) -> dict[str, str]:
    source = Source()
    registers.declare(source, role)
    return dict(line.split(" = cute.make_rmem_tensor") for line in source.lines)


def test_fragments() -> None:
    """64 rows over 128 threads: half of a row's elements, both values of rows."""
    found = declared(Registers(plan_of(ATTENTION, "h200"), WGMMA), "softmax")
    assert found["r_S"] == "(64, Float32)"
    assert found["r_rP"] == "(64, BFloat16)"
    assert found["r_O"] == "(32, Float32)"
    assert found["r_m"] == found["r_alpha"] == "(2, Float32)"


def test_rows() -> None:
    found = declared(Registers(plan_of(ATTENTION, "b200"), ROW), "softmax")
    assert found["r_rS"] == "(128, Float32)"
    assert found["r_m"] == "(1, Float32)"
    assert "r_O" not in found  # in tensor memory


def test_roles_have_their_own() -> None:
    assert declared(Registers(plan_of(ATTENTION, "b200"), ROW), "load") == {}


def test_initial_values() -> None:
    source = Source()
    Registers(plan_of(ATTENTION, "h200"), WGMMA).initialize(source, "softmax")
    assert sorted(source.lines) == ["r_O.fill(0.0)", "r_l.fill(0.0)", "r_m.fill(-Float32.inf)"]
    assert [initial_value(v) for v in ("inf", "3", "0.5")] == ["Float32.inf", "3.0", "0.5"]


def test_parts_of_arrays() -> None:
    plan = plan_of("attention_fwd", "b200", head_dim="64")
    registers = Registers(plan, ROW)
    part = plan.part(plan.operation("EXP[0,1]"), "rS")
    assert expression(registers.tensor(part)) == "part_of(r_rS_0, 96, 32)"
    whole = plan.part(plan.operation("SUB[0]"), "rS")
    assert expression(registers.tensor(whole)) == "r_rS_0"


def test_other_numbers_of_rows() -> None:
    """A program for 64 rows on an architecture where four warps have 128."""
    plan = plan_of(ATTENTION, "h200")
    with pytest.raises(EmitError, match="four warps work on 128 rows, not 64"):
        Registers(plan, ROW).declare(Source(), "softmax")


def test_rings_of_registers() -> None:
    plan = plan_of(ATTENTION, "h200")
    allocations = tuple(
        replace(s, slots=2) if s.name == "S" else s for s in plan.program.allocations
    )
    assert any(s.slots == 2 and s.space is Space.REGISTERS for s in allocations)
    changed = Plan(replace(plan.program, allocations=allocations), plan.kernel)
    with pytest.raises(EmitError, match="a ring of 2 slots in registers"):
        Registers(changed, WGMMA).declare(Source(), "softmax")


def test_blocks_of_rows() -> None:
    """A role that multiplies for both halves of a tile has an accumulator for each."""
    plan = plan_of("gemm_epilogue", "h200", tile_n="128")
    roles = [name for name, runs in plan.runs.items() if any(o.base == "MMA" for o in runs)]
    assert len(roles) == 1
    registers = Registers(plan, WGMMA)
    assert declared(registers, roles[0]) == {"r_acc_0": "(64, Float32)", "r_acc_1": "(64, Float32)"}
    parts = [plan.part(plan.operation(f"EPI[1,{band}]"), "acc") for band in range(2)]
    assert [expression(registers.tensor(part)) for part in parts] == [
        "part_of(r_acc_0, 32, 32)",
        "part_of(r_acc_1, 32, 32)",
    ]


@pytest.mark.medium
@pytest.mark.parametrize(("target", "fragment", "count"), [("h200", WGMMA, 16), ("b200", ROW, 32)])
def test_numbers_of_columns(target: str, fragment: Fragment, count: int) -> None:
    """One for each element that a thread would have of so many columns."""
    spec = SPECS / "columns_in_registers.yaml"
    assert declared(Registers(plan_of(spec, target), fragment), "threads") == {
        "r_rW": f"({count}, Float32)"
    }
    proven, kernel = solved(spec, target)
    with compiled(emit(proven, kernel), kernel, proven.program.arch) as made:
        outcome = made.run({"m": 200, "k": 72})
    assert outcome.correct
    assert outcome.clean


def test_numbers_of_columns_go_to_registers_only(tmp_path: Path) -> None:
    text = (SPECS / "columns_in_registers.yaml").read_text("utf-8")
    path = tmp_path / "columns.yaml"
    path.write_text(text.replace("rW: {space: registers", "rW: {space: smem"), "utf-8")
    with pytest.raises(EmitError, match="elsewhere than to registers") as found:
        emit(*solved(path, "h200"))
    assert found.value.rule == "numbers-of-columns"
