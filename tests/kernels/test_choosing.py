"""Which kernel a product takes, against times of many on an H200."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from schedgen.kernels import choosing, gemm, symmetric_gemm
from schedgen.kernels.choosing import choice
from schedgen.kernels.split import Split
from schedgen.kernels.tiling import Product, Shape, Tile
from tests.kernels.test_gemm_op import OUTS, close, random

SMS = 132
GEMM = Product("sm_90a", "bf16")
FEW = "gemm_transposed_sm_90a_bf16_tile_m64_consumers1_tile_n16_tile_k128.py"

MEASURED: dict[tuple[int, int, int], dict[str, float]] = {
    (16, 12288, 4096): {
        **{"128x128x64": 45.1, "64x16x128 transposed": 27.8, "64x16x256 transposed": 28.0},
        **{"64x32x256 transposed": 29.1, "128x16x128 transposed": 30.8},
    },
    (16, 4096, 4096): {
        **{"64x64x128": 14.0, "64x16x128 transposed": 7.7, "64x16x256 transposed": 7.9},
        **{"64x32x256 transposed": 9.6, "128x16x128 transposed": 10.4},
    },
    (16, 22016, 4096): {
        **{"128x256x64": 75.8, "64x16x128 transposed": 47.4, "64x16x256 transposed": 47.4},
        **{"64x32x256 transposed": 49.1, "128x16x128 transposed": 47.0},
    },
    (16, 4096, 11008): {
        **{"64x64x128": 37.1, "64x16x128 transposed": 24.1, "64x16x256 transposed": 24.5},
        **{"64x32x256 transposed": 27.7, "128x16x128 transposed": 28.3},
    },
    (64, 12288, 4096): {
        **{"128x128x64": 43.0, "128x64x128 transposed": 31.0, "128x64x64 transposed": 31.5},
        **{"64x32x256 transposed": 37.9, "128x32x128 transposed": 37.2},
    },
    (64, 4096, 4096): {
        **{"64x64x128": 9.0, "128x64x128 transposed": 14.9, "128x64x64 transposed": 13.2},
        **{"64x32x256 transposed": 11.3, "128x32x128 transposed": 12.5},
    },
    (64, 22016, 4096): {
        **{"128x256x64": 62.9, "128x64x128 transposed": 51.6, "128x64x64 transposed": 51.1},
        **{"64x32x256 transposed": 69.3, "128x32x128 transposed": 61.9},
    },
    (64, 4096, 11008): {
        **{"64x64x128": 26.7, "128x64x128 transposed": 41.0, "128x64x64 transposed": 35.2},
        **{"64x32x256 transposed": 31.8, "128x32x128 transposed": 33.1},
    },
    (128, 12288, 4096): {
        **{"128x128x64": 32.7, "128x160x64": 37.3, "128x176x64": 38.5, "128x224x64": 39.0},
        **{"128x32x128": 36.9, "128x64x64": 33.2, "128x96x64": 28.5, "64x32x256": 50.6},
    },
    (128, 4096, 4096): {
        **{"64x128x64 in 2": 13.4, "128x160x64": 26.0, "128x176x64": 28.9, "128x224x64": 35.5},
        **{"128x32x128": 11.9, "128x64x64": 12.6, "128x96x64": 16.6, "64x32x256": 16.6},
    },
    (128, 22016, 4096): {
        **{"128x256x64": 61.1, "128x160x64": 72.0, "128x176x64": 51.4, "128x224x64": 55.3},
        **{"128x32x128": 71.3, "128x64x64": 56.9, "128x96x64": 53.9, "64x32x256": 93.7},
    },
    (128, 4096, 11008): {
        **{"64x128x64 in 2": 31.1, "128x160x64": 65.0, "128x176x64": 71.6, "128x224x64": 89.6},
        **{"128x32x128": 31.9, "128x64x64": 33.7, "128x96x64": 41.0, "64x32x256": 44.4},
    },
    (512, 12288, 4096): {
        **{"128x192x64": 72.1, "128x160x64": 92.8, "128x176x64": 105.1, "128x224x64": 86.2},
        **{"128x96x64": 75.7, "128x192x64 in turn": 71.8, "128x128x64 in turn": 70.9},
    },
    (512, 4096, 4096): {
        **{"128x128x64": 24.3, "128x160x64": 27.9, "128x176x64": 30.8, "128x224x64": 36.9},
        **{"128x96x64": 34.3},
    },
    (512, 22016, 4096): {
        **{"128x256x64": 153.1, "128x160x64": 163.2, "128x176x64": 148.0, "128x224x64": 137.0},
        **{"128x96x64": 137.9},
    },
    (512, 4096, 11008): {
        **{"128x128x64": 62.9, "128x160x64": 74.0, "128x176x64": 82.0, "128x224x64": 101.7},
        **{"128x96x64": 92.3},
    },
}
"""m, n, k -> microseconds in a CUDA graph on an H200, of kernels by how they were made. What stands
there as transposed multiplied the other way around and did not transpose its result; "128x128x64 in
turn" was measured beside "128x192x64 in turn" in another run, and is given by their ratio."""


@pytest.mark.parametrize("shape", MEASURED, ids=str)
def test_choice_is_the_best_that_was_measured(shape: tuple[int, int, int]) -> None:
    """But for 3 %."""
    times = MEASURED[shape]
    assert times[str(choice(GEMM, (1, *shape), SMS))] <= 1.03 * min(times.values())


@pytest.mark.parametrize("shape", MEASURED, ids=str)
def test_what_is_never_transposed(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    others = (replace(GEMM, b_layout="kn"), replace(GEMM, activated=True))
    for product in (*others, replace(GEMM, arch="sm_100a")):
        assert not choice(product, (1, m, n, k), SMS).product.transposed
    assert not choice(replace(GEMM, symmetric=True), (1, m, m, k), SMS).product.transposed
    assert not choice(GEMM, (1, *shape), SMS, addend=True).product.transposed


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 16), (7, 16), (16, 16), (17, 32), (32, 32), (33, 64), (64, 64)]
)
def test_tiles_are_as_narrow_as_results_have_rows(rows: int, columns: int) -> None:
    found = choice(GEMM, (1, rows, 12288, 4096), SMS)
    assert found.product.transposed
    assert isinstance(found.how, Tile)
    assert found.how.columns == columns


def test_more_rows_are_not_transposed() -> None:
    for rows in (65, 96, 128, 1024):
        assert not choice(GEMM, (1, rows, 12288, 4096), SMS).product.transposed


@pytest.mark.parametrize("shape", [(1, 16, 256, 65536), (1, 64, 256, 65536)])
def test_a_long_k_is_rather_split(shape: Shape) -> None:
    assert isinstance(choice(GEMM, shape, SMS).how, Split)


LAYOUTS: list[Callable[[Tensor], Tensor]] = [
    lambda x: x,
    lambda x: x.mT.contiguous().mT,
    lambda x: torch.cat([x, x], dim=-1)[..., : x.shape[-1]],
]
"""Of left operands: row-major, column-major (copied), and with a stride."""


@pytest.mark.parametrize("rows", [1, 7, 16, 17, 33])
@pytest.mark.parametrize("columns", [130, 264])
@pytest.mark.parametrize("lay", LAYOUTS)
def test_few_rows(
    launches: list[str], rows: int, columns: int, lay: Callable[[Tensor], Tensor]
) -> None:
    a, weight = lay(random(rows, 72)), random(columns, 72, seed=1)
    assert close(gemm(a, weight.mT), a, weight.mT)
    assert close(gemm(a, weight.mT, alpha=0.5), a * 0.5, weight.mT)
    assert all(name.startswith("gemm_transposed_sm_90a_bf16_tile") for name in launches)
    assert len(launches) == 2


@pytest.mark.parametrize("make", OUTS)
def test_result_in_place(launches: list[str], make: Callable[[], Tensor]) -> None:
    """Each batch has operands of its own: 16 rows."""
    a, weight, out = random(2, 16, 8), random(2, 24, 8, seed=1), make()
    assert gemm(a, weight.mT, out=out) is out
    assert close(out, a, weight.mT)
    assert launches == [FEW]


def test_batches(launches: list[str]) -> None:
    a, weight = random(3, 1, 5, 16), random(3, 2, 24, 16, seed=1)
    assert close(gemm(a, weight.mT), a, weight.mT)
    a = random(2, 4, 16)  # rows of all batches form one matrix
    assert close(gemm(a, weight[0, 1].mT), a, weight[0, 1].mT)
    assert launches == [FEW, FEW]


def test_only_without_an_addend(launches: list[str]) -> None:
    a, weight, c = random(16, 16), random(16, 16, seed=1), random(16, 16, seed=2)
    assert close(gemm(a, weight.mT, c, alpha=2.0), a * 2.0, weight.mT, c.double())
    assert close(gemm(a, weight.mT, bias=c[0]), a, weight.mT, c[0].double())
    gemm(a, weight.mT, activation="gelu")
    symmetric_gemm(a)
    symmetric_gemm(a, c=c + c.mT)
    gemm(a, weight)
    assert len(launches) == 6
    assert not any("transposed" in name for name in launches)
    assert close(gemm(a, weight.mT, c.fill_(math.nan), beta=0.0), a, weight.mT)
    assert launches[-1] == FEW


def test_types_and_shapes_have_kernels_of_their_own(launches: list[str]) -> None:
    a, weight = random(16, 16).half(), random(16, 16, seed=1).half()
    assert torch.allclose(gemm(a, weight.mT).double(), a.double() @ weight.double().mT, atol=0.05)
    assert launches == [FEW.replace("bf16", "fp16")]
    found = choosing.kernel(a.device, a.dtype, False, "nk", (1, 16, 16, 16))
    assert isinstance(found, choosing.TransposedProduct)
