"""What names in formulas stand for, and where tiles lie in tensors."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen.codegen.errors import EmitError
from schedgen.codegen.operands import Shape, columns_of, operands_of, written
from schedgen.codegen.plan import Plan
from schedgen.codegen.transfers import Transfers
from schedgen.kernel import Kind
from tests.codegen.examples import SPECS, plan_of

PLAN = plan_of(SPECS / "biased_softmax.yaml", "b200")
CLASHING = plan_of(SPECS / "clashing_names.yaml", "b200")


def test_shapes() -> None:
    found = operands_of(PLAN, PLAN.operation("ADD"))
    assert {name: operand.shape for name, operand in found.items()} == {
        "logits": Shape.TILE,
        "sBias": Shape.COLUMNS,
    }
    assert operands_of(PLAN, PLAN.operation("SUMS"))["total"].shape is Shape.ROWS
    assert columns_of(PLAN.operation("ADD"), found) == 128


def test_names_of_one_part_share_a_parameter() -> None:
    """What a copy is from and to may be the same registers, after it has been left out."""
    found = operands_of(PLAN, PLAN.operation("EDGE"))
    assert {operand.parameter for operand in found.values()} == {"logits"}


def test_parameters_are_not_extents() -> None:
    """A buffer may have the name that an extent has in generated files."""
    extents = (*PLAN.extents, *PLAN.scalars)
    kernel = replace(
        PLAN.kernel,
        regions=tuple(
            replace(r, base="n") if r.base == "logits" else r for r in PLAN.kernel.regions
        ),
    )
    found = operands_of(Plan(PLAN.program, kernel), kernel.operation["EDGE"])
    assert not {operand.parameter for operand in found.values()} & set(extents)


def test_written() -> None:
    assert written(PLAN.operation("SUM")) == ("to", "total")
    assert written(PLAN.operation("OUT")) == ("sD",)
    assert written(PLAN.operation("EDGE")) == ("to",)


def test_tiles_of_other_widths() -> None:
    operation = PLAN.operation("OUT")
    operands = operands_of(PLAN, operation)
    part = replace(operands["sD"].part, column1=64)
    with pytest.raises(EmitError, match="OUT: its tiles have different numbers of columns"):
        columns_of(operation, operands | {"sD": replace(operands["sD"], part=part)})


def test_tensor_maps() -> None:
    """One for each tensor and tile, with distinct names; loads and stores differ."""
    transfers = Transfers(PLAN)
    names = [map_.name for map_ in transfers.distinct]
    assert sorted(names) == ["a", "b", "bias", "d", "s"]
    assert {name for name, map_ in transfers.maps.items() if map_.store} == {"STD", "STS"}
    moved = [o for o in PLAN.kernel.operations if o.kind in (Kind.LOAD, Kind.STORE)]
    assert set(transfers.maps) == {operation.name for operation in moved}
    assert transfers.maps["LBIAS"].tile == (128,)
    assert transfers.maps["LA"].tile == (128, 64)


@pytest.mark.medium
def test_maps_of_one_tensor() -> None:
    """The second tile of a tensor has a map of its own, whatever other tensors are called."""
    plan = plan_of("gemm_symmetric", "h200")
    names = [map_.name for map_ in Transfers(plan).distinct]
    assert len(set(names)) == len(names) > len(plan.kernel.arguments) - len(plan.scalars)
    arguments = tuple(replace(a, name="d_2") if a.name == "c" else a for a in plan.kernel.arguments)
    operations = tuple(
        replace(o, tensor="d_2") if o.tensor == "c" else o for o in plan.kernel.operations
    )
    kernel = replace(plan.kernel, arguments=arguments, operations=operations)
    names = [map_.name for map_ in Transfers(Plan(plan.program, kernel)).distinct]
    assert len(set(names)) == len(names)
    assert {"d", "d_2", "d_3"} <= set(names)
