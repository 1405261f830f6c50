"""Left operands whose rows lie along m: files, what has no emitter, and what they compute."""

from __future__ import annotations

import pytest

from schedgen.codegen.emit import emit
from schedgen.codegen.errors import EmitError
from schedgen.driver.emitting import emission
from schedgen.driver.emulating import compiled
from schedgen.driver.proved import QUICK, prove_solution
from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.spec.reader import parse_spec, read_spec
from tests.codegen.examples import ARCHITECTURES, GEMM, solved, text_of

SMALL = {
    "h200": {"tile_n": "64", "widest_slice": "32"},
    "b200": GEMM | {"tile_k": "32"},
}
LAYOUTS = {"a_layout": "km", "b_layout": "kn"}
EXTENTS = {"batch": 2, "m": 136, "n": 72, "k": 104}
"""A band and a tile more than one, and a last iteration that is not full."""


def test_bands_are_columns_of_the_tile() -> None:
    """Of a left operand [k, m], each band has the columns of its rows of the result."""
    _, kernel = solved("gemm", "h200", **LAYOUTS, **SMALL["h200"])
    assert kernel.region["sA"].shape == (64, 128)
    bands = [
        (p.row0, p.row1, p.byte0 // 2, p.byte1 // 2) for p in kernel.pieces if p.region == "sA"
    ]
    assert bands == [(0, 64, 0, 64), (0, 64, 64, 128)]
    product = kernel.operation["MMA[1]"]
    assert (product.transpose_a, product.work.m, product.work.k) == (True, 64, 64)


@pytest.mark.medium
def test_text_for_hopper() -> None:
    text = text_of("gemm", "h200", **LAYOUTS, **SMALL["h200"])
    assert "OperandMajorMode.MN, OperandMajorMode.MN" in text
    assert "transposed(cute.local_tile(sA, (64, 64, 8), (0, instance, 0)))" in text
    along_k = text_of("gemm", "h200", b_layout="kn", **SMALL["h200"])
    assert "OperandMajorMode.K, OperandMajorMode.MN" in along_k
    assert "partition_A(cute.local_tile(sA, (64, 64, 8), (instance, 0, 0)))" in along_k


@pytest.mark.medium
def test_text_for_blackwell() -> None:
    text = text_of("gemm", "b200", **LAYOUTS, **SMALL["b200"])
    assert 'product_along_m(BFloat16, 32, "MN")' in text
    assert "left_operand(mma_MMA_0, transposed(sA))" in text
    along_k = text_of("gemm", "b200", b_layout="kn", **SMALL["b200"])
    assert "product_along_m" not in along_k


def refused(target: str, **settings: str) -> str:
    """What is wrong with the product of operands of 8 bits."""
    text = read_spec("gemm").source.text.replace("[bf16, fp16]", "[bf16, fp16, e4m3]")
    solution = solve(parse_spec(text), read_machine(target), settings=settings)
    with pytest.raises(EmitError) as caught:
        emit(prove_solution(solution).proven, solution.problem.kernel)
    return str(caught.value)


@pytest.mark.medium
def test_operands_of_8_bits_lie_along_k_on_hopper() -> None:
    bytes_ = SMALL["h200"] | {"dtype": "e4m3", "tile_k": "128"}
    found = refused("h200", a_layout="km", **bytes_)
    assert "wgmma reads operands of 8 bits along k" in found
    assert "the rows of 'sA' lie along the result's rows" in found
    assert "load a left operand of [m, k], and multiply without 'transpose_a'" in found
    found = refused("h200", b_layout="kn", **bytes_)
    assert "load a right operand of [n, k], and multiply with 'transpose_b: true'" in found


def test_depth_is_that_of_rows() -> None:
    found = refused("b200", **LAYOUTS, **SMALL["b200"] | {"tile_k": "24"})
    assert "tcgen05 adds up products of 16 elements, and 24 are no multiple" in found
    assert "make the rows of 'sA' a multiple of 16" in found


@pytest.mark.slow
@pytest.mark.parametrize("b_layout", ["nk", "kn"])
@pytest.mark.parametrize("target", SMALL)
def test_in_the_emulator(target: str, b_layout: str) -> None:
    settings = {"a_layout": "km", "b_layout": b_layout, **SMALL[target]}
    one = emission(read_spec("gemm"), read_machine(target), settings, methods=QUICK)
    with compiled(one.plain, one.solution.problem.kernel, ARCHITECTURES[target]) as made:
        outcome = made.run(EXTENTS)
    assert outcome.correct
    assert outcome.clean, outcome.report.errors


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {"tile_m": "64", "consumers": "1", "tile_n": "64", "tile_k": "128"},
        {"tile_m": "256", "consumers": "4", "tile_n": "64"},
        {"tile_n": "128", "teams": "2"},
    ],
)
def test_other_bands(settings: dict[str, str]) -> None:
    """One warpgroup, four, and two that take tiles in turn."""
    one = emission(read_spec("gemm"), read_machine("h200"), LAYOUTS | settings, methods=QUICK)
    with compiled(one.plain, one.solution.problem.kernel, "sm_90a") as made:
        outcome = made.run(EXTENTS | {"batch": 1, "m": 264})
    assert outcome.correct
    assert outcome.clean, outcome.report.errors
