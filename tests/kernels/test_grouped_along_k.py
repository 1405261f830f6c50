"""`grouped_gemm` of two matrices, and the gradients of products of groups."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from schedgen.kernels import grouped_gemm
from schedgen.kernels.regenerate import shipped
from tests.kernels.test_gemm_gradients import near
from tests.kernels.test_gemm_op import operands_of, random
from tests.kernels.test_grouped_op import SIZES, ends_of


def reference(a: Tensor, b: Tensor, ends: Tensor) -> Tensor:
    """In float64, with gradients: rows of groups, or a matrix for each."""
    spans = list(pairwise([0, *map(int, ends)]))
    if b.dim() == 2:
        return torch.stack([a[:, i:j] @ b[i:j] for i, j in spans])
    return torch.cat([a[i:j] @ b[g] for g, (i, j) in enumerate(spans)])


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("row_major", [False, True])
def test_groups(launches: list[str], sizes: tuple[int, ...], row_major: bool) -> None:
    """Rows behind the last group have no part in it, whatever they are."""
    rows, ends = sum(sizes) + 2, ends_of(sizes)
    a, b = random(rows, 24), random(rows, 40, seed=1)
    a[sum(sizes) :], b[sum(sizes) :] = math.nan, math.inf
    left = a.mT.contiguous() if row_major else a.mT
    found = grouped_gemm(left, b, ends)
    assert found.is_contiguous()
    assert torch.allclose(
        found.double(), reference(a.double().mT, b.double(), ends), rtol=2**-7, atol=1e-2
    )
    out = torch.full_like(found, math.nan)
    assert grouped_gemm(left, b, ends, out=out) is out
    assert torch.equal(out, found)
    assert launches == ["gemm_grouped_k_sm_90a_bf16_tile_n128.py"] * 2


def test_torch_agrees(launches: list[str]) -> None:
    a, b, ends = random(16, 24).mT, random(16, 40, seed=1), ends_of((5, 0, 11))
    wanted = torch._grouped_mm(a, b, ends)  # pyright: ignore
    assert torch.allclose(grouped_gemm(a, b, ends).float(), wanted.float(), rtol=2**-6, atol=1e-2)


def test_other_layouts_are_copied(launches: list[str]) -> None:
    """Columns that are no multiple of 16 bytes, in a, b and the result."""
    ends = ends_of((4, 3))
    for a, b in ((random(7, 5).mT, random(7, 3)), (random(7, 48)[:, ::2].mT, random(7, 16))):
        wanted = reference(a.double(), b.double(), ends)
        assert torch.allclose(grouped_gemm(a, b, ends).double(), wanted, rtol=2**-7, atol=1e-2)


def test_operands_are_read_as_they_are(launches: list[str]) -> None:
    a, b = random(16, 24), random(16, 40, seed=1)
    pointers = operands_of(lambda: grouped_gemm(a.mT, b, ends_of((5, 11))))
    assert pointers == [(a.data_ptr(), b.data_ptr())]


def test_empty(launches: list[str]) -> None:
    none = torch.zeros(2, dtype=torch.int32)
    assert torch.equal(grouped_gemm(random(3, 0), random(0, 4), none), torch.zeros(2, 3, 4))
    assert grouped_gemm(random(0, 8), random(8, 4), none).shape == (2, 0, 4)
    assert grouped_gemm(random(3, 8), random(8, 4), none[:0]).shape == (0, 3, 4)
    assert launches == []


OPERANDS: dict[str, Callable[[int], tuple[Tensor, Tensor]]] = {
    "rows": lambda rows: (random(rows, 24), random(3, 24, 40, seed=1)),
    "weights": lambda rows: (random(rows, 24), random(3, 40, 24, seed=1).mT),
    "along k": lambda rows: (random(rows, 24).mT, random(rows, 40, seed=1)),
}


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("of", OPERANDS)
def test_gradients(launches: list[str], of: str, create_graph: bool) -> None:
    """Those of rows behind the last group are 0; without rows, so are those of a matrix."""
    ends, size = ends_of((5, 0, 11)), 16
    a, b = OPERANDS[of](size + 3)
    mine = a.clone().requires_grad_(), b.clone().requires_grad_()
    exact = a.double().requires_grad_(), b.double().requires_grad_()
    found, wanted = grouped_gemm(*mine, ends), reference(*exact, ends)
    outside = random(*wanted.shape, seed=7)
    found = found if of == "along k" else found[:size]
    of_mine = torch.autograd.grad(found, mine, outside, create_graph=create_graph)
    of_exact = torch.autograd.grad(wanted, exact, outside.double())
    for one, other in zip(of_mine, of_exact, strict=True):
        assert one.dtype is a.dtype
        assert near(one, other)
    assert "gemm_grouped_k_sm_90a_bf16_tile_n128.py" in launches


def test_second_gradients(launches: list[str]) -> None:
    ends = ends_of((5, 0, 11))
    a, b = OPERANDS["rows"](16)

    def twice(function: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> list[Tensor]:
        a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
        first = torch.autograd.grad(function(a, b).square().sum(), (a, b), create_graph=True)
        total = first[0].float().sum() + first[1].float().sum()
        return list(torch.autograd.grad(total, (a, b)))

    mine = twice(lambda a, b: grouped_gemm(a, b, ends).float(), a, b)
    exact = twice(lambda a, b: reference(a, b, ends), a.double(), b.double())
    for one, other in zip(mine, exact, strict=True):
        assert near(one, other)


def test_compiles_with_gradients(launches: list[str]) -> None:
    def layer(x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
        return grouped_gemm(x.relu(), weights.mT, ends)

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x, weights, ends = random(16, 24), random(3, 40, 24, seed=1), ends_of((5, 0, 11))
    found: list[tuple[Tensor, ...]] = []
    for function in (compiled, layer):
        leaves = x.clone().requires_grad_(), weights.clone().requires_grad_()
        found.append(torch.autograd.grad(function(*leaves, ends).float().sum(), leaves))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)


def test_opcheck(launches: list[str]) -> None:
    a, b, ends = random(16, 24).mT, random(16, 40, seed=1), ends_of((5, 11))
    torch.library.opcheck(torch.ops.schedgen.grouped_gemm.default, (a, b, ends))


def test_shapes_without_data() -> None:
    with FakeTensorMode():
        a, b = (torch.empty(5, n, device="cuda", dtype=torch.bfloat16) for n in (8, 6))
        ends = torch.empty(3, device="cuda", dtype=torch.int32)
        found = grouped_gemm(a.mT, b, ends)
        assert (found.shape, found.dtype, found.device) == ((3, 8, 6), a.dtype, a.device)


def test_no_two_warpgroups_take_turns() -> None:
    names = {kernel.name for kernel in shipped() if kernel.spec == "gemm_grouped_k"}
    assert names == {
        "gemm_grouped_k_sm_90a_bf16.py",
        "gemm_grouped_k_sm_90a_bf16_tile_n128.py",
        "gemm_grouped_k_sm_100a_bf16.py",
    }
