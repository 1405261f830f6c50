"""Products with block scale factors on a GPU that is not there."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportPrivateUsage=false

from __future__ import annotations

import pytest
import torch

from schedgen.emulator.launch.targets import target
from schedgen.emulator.standin.scaled import unblocked
from schedgen.emulator.standin.torch_standin import stand_in

ROWS, COLUMNS, K = 160, 136, 96


def blocked(matrix: torch.Tensor) -> torch.Tensor:
    """Element by element, as cuBLAS's documentation has it."""
    down, across = -(-matrix.shape[0] // 128), -(-matrix.shape[1] // 4)
    found = torch.zeros(down * across * 512)
    for row in range(matrix.shape[0]):
        for column in range(matrix.shape[1]):
            tile = row // 128 * across + column // 4
            inside = row % 32 * 16 + row % 128 // 32 * 4 + column % 4
            found[tile * 512 + inside] = matrix[row, column]
    return found


def test_order_of_scale_factors() -> None:
    matrix = torch.arange(ROWS * 6.0).view(ROWS, 6)
    assert torch.equal(unblocked(blocked(matrix), ROWS, 6), matrix)


@pytest.mark.parametrize(("scale", "block"), [("float8_e4m3fn", 16), ("float8_e8m0fnu", 32)])
def test_fp4_and_fp8(scale: str, block: int) -> None:
    values = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    factors = [torch.randint(0, 3, (n, K // block)).float().exp2() for n in (ROWS, COLUMNS)]
    kind = getattr(torch, scale)
    for four in (True, False):
        codes = [torch.randint(0, 16, (n, K)) for n in (ROWS, COLUMNS)]
        plain = [
            values[one] * factor.repeat_interleave(block, 1)
            for one, factor in zip(codes, factors, strict=True)
        ]
        with stand_in(target("sm_100a", 4)):
            packed = [
                (one[:, ::2] + (one[:, 1::2] << 4)).to(torch.uint8).view(torch.float4_e2m1fn_x2)
                if four
                else values[one].to(torch.float8_e4m3fn)
                for one in codes
            ]
            a, b = (one.cuda() for one in packed)
            scales = [blocked(one).to(kind).cuda() for one in factors]
            found = torch.ops.aten._scaled_mm(a, b.t(), *scales, out_dtype=torch.float32).cpu()
        assert torch.equal(found, plain[0] @ plain[1].T)
