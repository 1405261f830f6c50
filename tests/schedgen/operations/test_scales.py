"""Factors of blocks: where they lie, by the interpreter and by the reference, and what a product
with them is.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

from schedgen.driver.inputs import random_inputs, shapes, wanted
from schedgen.interpret.pieces import unpacked
from schedgen.interpret.sequential import run
from schedgen.kernel import Kernel
from schedgen.operations.scales import of_rows, scaled
from schedgen.reference.estimate import exact
from schedgen.reference.operands import halves, taking_turns, with_factors
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec
from schedgen.walking import counted, numbers_of_tiles

NVFP4 = {"dtype": "e2m1x2", "factor": "e4m3"}


def kernel(**settings: str) -> Kernel:
    spec = read_spec("gemm_blockscaled")
    return bind(spec.source, spec.file, "b200", settings)[0]


def test_where_factors_lie() -> None:
    """As the PTX ISA draws it: row 32 c + i and block j in lane i, byte 4 c + j."""
    tile = torch.arange(32 * 32).reshape(32, 32)
    found = of_rows(tile, 200)  # two groups of rows, four blocks
    for row, block in ((0, 0), (1, 3), (37, 2), (127, 1), (128, 0), (199, 3)):
        lane, column, group = row % 32, row % 128 // 32, row // 128
        assert found[row, block] == tile[lane, 16 * group + 4 * column + block]
    found = of_rows(tile, 100)  # one group of rows, eight blocks
    assert found[40, 5] == tile[8, 16 + 4 + 1]


@pytest.mark.parametrize(("rows", "blocks"), [(128, 4), (256, 8), (128, 16), (64, 8)])
def test_both_agree(rows: int, blocks: int) -> None:
    tall = -(-rows // 128)
    factors = torch.rand(32, 4 * tall * blocks)
    operand = torch.randn(rows, 32 * blocks)
    found = scaled(operand, factors)
    other = with_factors(exact(operand.double().numpy()), exact(factors.double().numpy()))
    assert np.allclose(found.double().numpy(), other.value)


def test_turns_of_groups() -> None:
    """Two parts of three groups: one of each, then the next ones."""
    tile = torch.arange(6).repeat_interleave(32)[:, None].expand(192, 16)
    found = taking_turns(exact(tile.double().numpy()), 2).value
    assert found[7, ::16].tolist() == [0, 3, 1, 4, 2, 5]


def test_numbers_of_4_bits() -> None:
    """OCP Microscaling Formats, table of E2M1; the lower half of a byte comes first."""
    values = [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    every = torch.arange(256, dtype=torch.uint8).reshape(1, 256)
    found = unpacked(every)
    assert found[0, : 2 * 8 : 2].tolist() == values
    assert found[0, 1::2].unique().tolist() == sorted({*values, *(-v for v in values)})
    assert np.array_equal(found.numpy(), halves(every.double().numpy()))


def test_how_many_factors() -> None:
    one = kernel(**NVFP4)  # 128 elements are 256 numbers, 64 of which have a group
    assert counted(one) == {
        "m_blocks": ("m", 128, 1),
        "n_blocks": ("n", 128, 1),
        "k_rows": ("k", 32, 32),
    }
    sizes = numbers_of_tiles(one, {"m": 129, "n": 600, "k": 33})
    assert sizes == {"m_blocks": 2, "n_blocks": 5, "k_rows": 64}


@pytest.mark.parametrize("settings", [{}, {"dtype": "e2m1x2"}, NVFP4], ids=str)
def test_the_interpreter_is_within_the_reference(settings: dict[str, str]) -> None:
    one = kernel(tile_n="128", **settings)
    for sizes in shapes(one).values():
        found = wanted(one, sizes, seed=1)
        assert all(result.differ == 0 for result in found.interpreted.values())


def test_what_it_computes() -> None:
    """By hand: numbers of 4 bits, with factors in the order of cuBLAS."""
    one = kernel(tile_n="128", **NVFP4)
    sizes = {"batch": 1, "m": 130, "n": 72, "k": 48}
    sizes |= numbers_of_tiles(one, sizes) | {"bytes": 16}
    inputs = random_inputs(one, sizes, 3)
    matrices: list[torch.Tensor] = []
    for name, rows in (("a", 130), ("b", 72)):
        data, factors = inputs[name], inputs[f"scale_{name}"]
        assert isinstance(data, torch.Tensor)
        assert isinstance(factors, torch.Tensor)
        numbers, scale = unpacked(data[0]).double(), factors.double()
        row, k = torch.meshgrid(torch.arange(rows), torch.arange(96), indexing="ij")
        block = k // 16
        lane, byte = row % 32, 4 * (row % 128 // 32) + block % 4
        matrices.append(numbers * scale[0, row // 128, 32 * (block // 4) + lane, byte])
    product = float(inputs["alpha"]) * matrices[0] @ matrices[1].mT
    assert torch.allclose(run(one, inputs, sizes)["d"][0].double(), product, rtol=2**-7, atol=1e-2)
