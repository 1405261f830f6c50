"""`grouped_gemm` without a GPU, as `test_gemm_op` has it for products."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from schedgen.errors import SchedgenError
from schedgen.kernels import grouped_gemm
from schedgen.kernels.errors import ArgumentValueError, DeviceError
from schedgen.kernels.regenerate import TARGETS, shipped
from schedgen.kernels.tiling import Product, best
from tests.kernels import refusals
from tests.kernels.test_gemm_op import random

TARGET_OF = {arch: target for target, arch in TARGETS.items()}
SIZES = ((3, 5, 8), (0, 16, 0, 0), (1, 0, 7, 2), (0, 0))


def ends_of(sizes: Sequence[int]) -> Tensor:
    return torch.tensor(sizes).cumsum(0).int()


def of_groups(found: Tensor, a: Tensor, b: Tensor, ends: Tensor) -> bool:
    """Whether rows of all groups are those of the products, computed in float64."""
    begin = 0
    for end, right in zip(map(int, ends), b.double(), strict=True):
        wanted = a[begin:end].double() @ right
        if not torch.allclose(found[begin:end].double(), wanted, rtol=2**-7, atol=1e-2):
            return False
        begin = end
    return found.shape == (len(a), b.shape[2])


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("transposed", [False, True])
def test_groups(launches: list[str], sizes: tuple[int, ...], transposed: bool) -> None:
    a, b = random(sum(sizes) + 2, 24), random(len(sizes), 24, 40, seed=1)
    b = b.mT.contiguous().mT if transposed else b
    ends = ends_of(sizes)
    found = grouped_gemm(a, b, ends)
    assert of_groups(found, a, b, ends)
    assert found.is_contiguous()
    out = torch.full_like(found, math.nan)
    assert grouped_gemm(a, b, ends, out=out) is out
    assert of_groups(out, a, b, ends)
    assert out[int(ends[-1]) :].isnan().all()
    assert all(name.startswith("gemm_grouped_sm_90a_bf16") for name in launches)
    assert all(("_kn" in name) != transposed for name in launches)


def test_torch_agrees(launches: list[str]) -> None:
    """Of the function whose conventions these are."""
    a, b = random(16, 24), random(3, 24, 40, seed=1).mT.contiguous().mT
    ends = ends_of((5, 0, 11))
    wanted = torch._grouped_mm(a, b, ends)  # pyright: ignore
    assert torch.allclose(grouped_gemm(a, b, ends).float(), wanted.float(), rtol=2**-6, atol=1e-2)


def test_other_layouts_are_copied(launches: list[str]) -> None:
    """Columns that are no multiple of 16 bytes, and every other element."""
    ends = ends_of((4, 3))
    for a, b in (
        (random(7, 5), random(2, 5, 3)),
        (random(7, 48)[:, ::2], random(2, 48, 16)[:, ::2]),
        (random(7, 24), random(2, 48, 16)[:, ::2, ::2]),
    ):
        assert of_groups(grouped_gemm(a, b, ends), a, b, ends)
    offsets = torch.tensor([0, 4, 7], dtype=torch.int32)[1:]  # begins at 4 bytes
    assert of_groups(grouped_gemm(a, b, offsets), a, b, ends)


@pytest.mark.parametrize("columns", [40, 41])
def test_result_in_place(launches: list[str], columns: int) -> None:
    a, b, ends = random(9, 24), random(2, 24, 16), ends_of((4, 5))
    out = torch.zeros(9, columns, dtype=a.dtype)[:, 3:19]
    assert grouped_gemm(a, b, ends, out=out) is out
    assert of_groups(out, a, b, ends)


def test_empty(launches: list[str]) -> None:
    none = torch.zeros(2, dtype=torch.int32)
    assert grouped_gemm(random(0, 8), random(2, 8, 4), none).shape == (0, 4)
    assert grouped_gemm(random(3, 8), random(2, 8, 0), none).shape == (3, 0)
    assert grouped_gemm(random(3, 8), random(0, 8, 4), none[:0]).shape == (3, 4)
    assert torch.equal(grouped_gemm(random(3, 0), random(2, 0, 4), none), torch.zeros(3, 4))
    assert launches == []


A, B, ENDS = random(8, 16), random(2, 16, 4), ends_of((3, 5))
REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("fp32", lambda: grouped_gemm(A.float(), B, ENDS), TypeError, "a"),
    ("fp16", lambda: grouped_gemm(A.half(), B.half(), ENDS), TypeError, "a"),
    ("mixed", lambda: grouped_gemm(A, B.half(), ENDS), TypeError, "b"),
    ("batches", lambda: grouped_gemm(A[None], B, ENDS), ValueError, "a"),
    ("four", lambda: grouped_gemm(A, B[None], ENDS), ValueError, "b"),
    ("k", lambda: grouped_gemm(A, B.mT, ENDS), ValueError, "b"),
    ("long", lambda: grouped_gemm(A, B, ENDS.long()), TypeError, "offsets"),
    ("with a first 0", lambda: grouped_gemm(A, B, ends_of((0, 3, 5))), ValueError, "offsets"),
    ("out", lambda: grouped_gemm(A, B, ENDS, out=random(8, 5)), ValueError, "out"),
    ("a matrix, rows", lambda: grouped_gemm(A, A, ENDS), ValueError, "b"),
    ("a matrix, batches", lambda: grouped_gemm(A[None], A, ENDS), ValueError, "a"),
    ("ends", lambda: grouped_gemm(A.mT, A, ENDS[None]), ValueError, "offsets"),
    (
        "out of groups",
        lambda: grouped_gemm(A.mT, A, ENDS, out=random(3, 16, 16)),
        ValueError,
        "out",
    ),
    ("out's type", lambda: grouped_gemm(A, B, ENDS, out=torch.zeros(8, 4)), TypeError, "out"),
]


@pytest.mark.parametrize(("_what", "call", "kind", "name"), REFUSED)
def test_refused(_what: str, call: Callable[[], Any], kind: type[Exception], name: str) -> None:
    refusals.check(call, kind, name)


def test_result_apart_from_operands(launches: list[str]) -> None:
    a, b = random(16, 16), random(2, 16, 16, seed=1)
    for out, name in ((a, "a"), (b[0], "b")):
        with pytest.raises(ArgumentValueError, match=f"out: it overlaps {name}"):
            grouped_gemm(a, b, ends_of((8, 8)), out=out)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu() -> None:
    with pytest.raises(DeviceError, match="there is no GPU here"):
        grouped_gemm(A, B, ENDS)


def test_opcheck(launches: list[str]) -> None:
    torch.library.opcheck(torch.ops.schedgen.grouped_gemm.default, (A, B, ENDS))
    out = torch.zeros(8, 4, dtype=A.dtype)
    torch.library.opcheck(torch.ops.schedgen.grouped_gemm_out.default, (A, B, ENDS, out))


def test_shapes_without_data() -> None:
    with FakeTensorMode():
        a = torch.empty(5, 8, device="cuda", dtype=torch.bfloat16)
        b = torch.empty(3, 8, 6, device="cuda", dtype=torch.bfloat16)
        ends = torch.empty(3, device="cuda", dtype=torch.int32)
        found = grouped_gemm(a, b, ends)
        assert (found.shape, found.dtype, found.device) == ((5, 6), a.dtype, a.device)
        assert grouped_gemm(a, b, ends, out=found) is found


def test_compiles_in_one_graph(launches: list[str]) -> None:
    def layer(x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
        return grouped_gemm(x.relu(), weights.mT, ends).sum(-1)

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (8, 12):
        arguments = random(rows, 16), random(2, 24, 16, seed=1), ends_of((3, rows - 3))
        assert torch.equal(compiled(*arguments), layer(*arguments))


def test_no_gradients_through_what_is_overwritten(launches: list[str]) -> None:
    a = A.clone().requires_grad_()
    with pytest.raises(SchedgenError, match="out= and gradients"):
        grouped_gemm(a, B, ENDS, out=random(8, 4))


def test_tiles_that_are_chosen_are_shipped() -> None:
    """Narrow ones where wide ones would leave SMs without work."""
    known = {(kernel.spec, kernel.target, frozenset(kernel.settings)) for kernel in shipped()}
    for arch, sms in (("sm_90a", 132), ("sm_100a", 148)):
        for layout in ("nk", "kn"):
            one = Product(arch, "bf16", b_layout=layout, grouped=True)
            for groups, rows, n in ((128, 512, 2048), (8, 100, 768), (1, 1, 128)):
                tile = best(one, (groups, rows, n, 2048), sms)
                settings = frozenset(one.settings(tile).items())
                assert (one.spec, TARGET_OF[arch], settings) in known
    narrow = best(Product("sm_90a", "bf16", grouped=True), (8, 100, 768, 2048), 132)
    assert narrow.columns == 128
