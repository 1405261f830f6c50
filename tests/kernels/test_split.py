"""When k is split among output tiles, and what then runs."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from schedgen.driver import lock_file
from schedgen.kernels import gemm, split, symmetric_gemm, tiling
from schedgen.kernels.regenerate import TARGETS, shipped
from schedgen.kernels.tiling import Product
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec
from tests.kernels.test_gemm_op import close, random

SMS = 132
SUM = "gemm_sum_sm_90a_bf16.py"
TRIANGLES = ["gemm_parts_sm_90a_bf16_symmetric", "gemm_sum_sm_90a_bf16_symmetric"]


GEMM = Product("sm_90a", "bf16")
GEMM_KN, SYMMETRIC = replace(GEMM, b_layout="kn"), replace(GEMM, symmetric=True)
SYMMETRIC_KN = replace(SYMMETRIC, b_layout="kn")


def of(product: Product, *shape: int) -> split.Split | None:
    batch, m, n, k = shape
    return split.split(product, (batch, m, n, k), SMS)


@pytest.mark.parametrize("n", [512, 1024, 2048, 4096, 8192])
def test_square_products_are_not_split(n: int) -> None:
    for one in (GEMM, GEMM_KN, SYMMETRIC, SYMMETRIC_KN):
        assert of(one, 1, n, n, n) is None


def test_one_wave_of_parts() -> None:
    """At 1024 there are 36 tiles of 128 x 128: three parts of each leave 24 of 132 SMs idle."""
    found = of(SYMMETRIC, 1, 1024, 1024, 16384)
    assert found == split.Split(tiling.Tile(columns=128), 3)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("one", [GEMM, GEMM_KN, SYMMETRIC])
def test_each_part_has_iterations(one: Product, arch: str) -> None:
    for k in (1024, 4096, 8192, 65536):
        found = of(replace(one, arch=arch), 1, 256, 256, k)
        assert found is None or found.parts * 2 * found.tile.depth <= k
    assert of(replace(one, arch=arch), 1, 256, 256, 65536) is not None


def test_full_machines_are_not_split() -> None:
    assert of(SYMMETRIC, 16, 2048, 2048, 7168) is None
    assert of(GEMM, 1, 4096, 4096, 65536) is None


def test_where_memory_is_the_limit() -> None:
    """64 rows: 134 MB of operands take as long however they are divided."""
    assert of(GEMM, 1, 64, 4096, 16384) is None


def test_products_of_row_major_operands_have_no_kernels_if_symmetric() -> None:
    assert of(SYMMETRIC_KN, 1, 256, 256, 65536) is None


def test_size_of_the_tiles_that_are_added_up() -> None:
    spec = read_spec("gemm_sum")
    for symmetric, target in product(("false", "true"), TARGETS):
        settings = {"symmetric": symmetric}
        parameters = dict(bind(spec.source, spec.file, target, settings)[0].parameters)
        rows, columns = (int(parameters[side]) for side in ("tile_m", "tile_n"))
        assert split.SUMMED[TARGETS[target]] == tiling.Tile(rows, columns)


def test_memory_of_parts() -> None:
    found = of(SYMMETRIC, 1, 1536, 1536, 1 << 19)
    assert found is not None
    assert found.parts * 1536 * 1536 * 4 <= split.MOST_BYTES


def test_every_size_has_a_kernel() -> None:
    names = {kernel.name for kernel in shipped()}
    assert sum("gemm_parts_" in name for name in names) == 26
    assert sum("_sum_" in name for name in names) == 8
    assert names == {one.name for one in lock_file.every()}


@pytest.mark.parametrize("columns", [24, 25, 128])
def test_split_product(launches: list[str], columns: int) -> None:
    a, b, c = random(40, 8192), random(8192, columns, seed=1), random(columns, seed=2)
    assert close(gemm(a, b), a, b)
    assert close(gemm(a, b, c, alpha=0.5, beta=2.0), a * 0.5, b, 2.0 * c.double())
    assert [name.partition("_tile")[0] for name in launches[:2]] == [_parts(b), SUM]
    assert len(launches) == 4


def _parts(b: Tensor) -> str:
    """Rows of 24 or 128 columns can be read as they lie; 25 are transposed first."""
    return "gemm_parts_sm_90a_bf16" + ("" if b.shape[1] % 8 else "_kn")


def test_parts_are_float32(launches: list[str]) -> None:
    """Whatever torch makes by default: the kernel writes float32."""
    torch.set_default_dtype(torch.bfloat16)
    try:
        a, b = random(40, 8192), random(8192, 24, seed=1)
        assert close(gemm(a, b), a, b)
    finally:
        torch.set_default_dtype(torch.float32)
    assert len(launches) == 2


def test_split_symmetric_product_of_columns(launches: list[str]) -> None:
    """X^T X of a tall X: one copy serves both operands."""
    x = random(8192, 72)
    found = symmetric_gemm(x.mT)
    assert close(found, x.mT, x)
    assert [name.partition("_tile")[0].removesuffix(".py") for name in launches] == TRIANGLES


def test_one_right_operand_for_a_batch(launches: list[str]) -> None:
    a = random(3, 40, 64)
    b = torch.eye(40, 64, dtype=torch.bfloat16).mT
    a[:] = torch.eye(40, 64, dtype=torch.bfloat16)
    assert close(symmetric_gemm(a, b), a, b)
    assert len(launches) == 1


def test_split_symmetric_product(launches: list[str]) -> None:
    a, c = random(2, 72, 8192), random(2, 72, 72, seed=1)
    c = c + c.mT
    found = symmetric_gemm(a, c=c, alpha=0.25, beta=0.5)
    assert close(found, a * 0.25, a.mT, 0.5 * c.double())
    assert torch.equal(found, found.mT)
    assert [name.partition("_tile")[0].removesuffix(".py") for name in launches] == TRIANGLES
