"""`grouped_gemm` of rows that a list takes, without a GPU, as `test_grouped_op` has it for rows."""

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
from tests.kernels.test_grouped_op import ends_of, of_groups

TARGET_OF = {arch: target for target, arch in TARGETS.items()}
NOWHERE = (-1, 7, 2**31 - 1, -(2**31))
"""Numbers of no row where there are 7."""


def numbers(count: int, sources: int = 7) -> Tensor:
    """Rows that are taken more than once, some not at all, and some that are not there."""
    found = [(3 * n) % max(sources - 1, 1) for n in range(count)]
    for n in range(2, count, 3):
        found[n] = NOWHERE[n // 3 % len(NOWHERE)]
    return torch.tensor(found, dtype=torch.int32)


def taken(a: Tensor, rows: Tensor) -> Tensor:
    """Row by row, zeros for those that are not there."""
    found = [a[int(n)] if 0 <= int(n) < len(a) else torch.zeros_like(a[0]) for n in rows]
    return torch.stack(found) if found else a[:0]


@pytest.mark.parametrize("sizes", [(3, 5, 8), (0, 16, 0, 0), (1, 0, 7, 2), (0, 0)])
@pytest.mark.parametrize("transposed", [False, True])
def test_groups(launches: list[str], sizes: tuple[int, ...], transposed: bool) -> None:
    a, b = random(7, 24), random(len(sizes), 24, 40, seed=1)
    b = b.mT.contiguous().mT if transposed else b
    ends, rows = ends_of(sizes), numbers(sum(sizes) + 2)
    found = grouped_gemm(a, b, ends, rows=rows)
    assert of_groups(found, taken(a, rows), b, ends)
    assert found.is_contiguous()
    out = torch.full_like(found, math.nan)
    assert grouped_gemm(a, b, ends, rows=rows, out=out) is out
    assert of_groups(out, taken(a, rows), b, ends)
    assert out[int(ends[-1]) :].isnan().all()
    assert all(name.startswith("gemm_gathered_sm_90a_bf16") for name in launches)
    assert all(("_kn" in name) != transposed for name in launches)


def test_other_layouts_are_copied(launches: list[str]) -> None:
    """Columns that are no multiple of 16 bytes, every other element, and every other number."""
    ends, rows = ends_of((4, 3)), numbers(14)[::2]
    for a, b in (
        (random(7, 5), random(2, 5, 3)),
        (random(7, 48)[:, ::2], random(2, 48, 16)[:, ::2]),
        (random(7, 24), random(2, 48, 16)[:, ::2, ::2]),
    ):
        assert of_groups(grouped_gemm(a, b, ends, rows=rows), taken(a, rows), b, ends)


def test_result_in_place(launches: list[str]) -> None:
    a, b, ends, rows = random(7, 24), random(2, 24, 16), ends_of((4, 5)), numbers(9)
    for columns in (40, 41):
        out = torch.zeros(9, columns, dtype=a.dtype)[:, 3:19]
        assert grouped_gemm(a, b, ends, rows=rows, out=out) is out
        assert of_groups(out, taken(a, rows), b, ends)


def test_empty(launches: list[str]) -> None:
    none, rows = torch.zeros(2, dtype=torch.int32), numbers(3)
    assert grouped_gemm(random(7, 8), random(2, 8, 4), none, rows=rows[:0]).shape == (0, 4)
    assert grouped_gemm(random(7, 8), random(2, 8, 0), none, rows=rows).shape == (3, 0)
    assert grouped_gemm(random(7, 8), random(0, 8, 4), none[:0], rows=rows).shape == (3, 4)
    for a in (random(7, 0), random(0, 8)):  # sums of nothing, and no row that could be taken
        b = random(2, a.shape[1], 4)
        assert torch.equal(grouped_gemm(a, b, none, rows=rows), torch.zeros(3, 4))
    assert launches == []


A, B, ENDS, ROWS = random(7, 16), random(2, 16, 4), ends_of((3, 5)), numbers(8)
REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("fp32", lambda: grouped_gemm(A.float(), B, ENDS, rows=ROWS), TypeError, "a"),
    ("fp16", lambda: grouped_gemm(A.half(), B.half(), ENDS, rows=ROWS), TypeError, "a"),
    ("batches", lambda: grouped_gemm(A[None], B, ENDS, rows=ROWS), ValueError, "a"),
    ("along k", lambda: grouped_gemm(A.mT, A, ENDS, rows=ROWS), ValueError, "b"),
    ("k", lambda: grouped_gemm(A, B.mT, ENDS, rows=ROWS), ValueError, "b"),
    ("long ends", lambda: grouped_gemm(A, B, ENDS.long(), rows=ROWS), TypeError, "offsets"),
    ("first 0", lambda: grouped_gemm(A, B, ends_of((0, 3, 5)), rows=ROWS), ValueError, "offsets"),
    ("long rows", lambda: grouped_gemm(A, B, ENDS, rows=ROWS.long()), TypeError, "rows"),
    ("rows of rows", lambda: grouped_gemm(A, B, ENDS, rows=ROWS[None]), ValueError, "rows"),
    ("out", lambda: grouped_gemm(A, B, ENDS, rows=ROWS, out=random(7, 4)), ValueError, "out"),
]


@pytest.mark.parametrize(("_what", "call", "kind", "name"), REFUSED)
def test_refused(_what: str, call: Callable[[], Any], kind: type[Exception], name: str) -> None:
    refusals.check(call, kind, name)


def test_result_apart_from_operands(launches: list[str]) -> None:
    a, b = random(16, 16), random(2, 16, 16, seed=1)
    for out, name in ((a, "a"), (b[0], "b")):
        with pytest.raises(ArgumentValueError, match=f"out: it overlaps {name}"):
            grouped_gemm(a, b, ends_of((8, 8)), rows=numbers(16), out=out)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu() -> None:
    with pytest.raises(DeviceError, match="there is no GPU here"):
        grouped_gemm(A, B, ENDS, rows=ROWS)


def test_opcheck(launches: list[str]) -> None:
    leaves = A.clone().requires_grad_(), B.clone().requires_grad_()
    for a, b in ((A, B), leaves):
        torch.library.opcheck(torch.ops.schedgen.gathered_gemm.default, (a, b, ENDS, ROWS))
    out = torch.zeros(8, 4, dtype=A.dtype)
    given = (A, B, ENDS, ROWS, out)
    torch.library.opcheck(torch.ops.schedgen.gathered_gemm_out.default, given)


def test_shapes_without_data() -> None:
    with FakeTensorMode():
        a = torch.empty(5, 8, device="cuda", dtype=torch.bfloat16)
        b = torch.empty(3, 8, 6, device="cuda", dtype=torch.bfloat16)
        ends, rows = (torch.empty(n, device="cuda", dtype=torch.int32) for n in (3, 11))
        found = grouped_gemm(a, b, ends, rows=rows)
        assert (found.shape, found.dtype, found.device) == ((11, 6), a.dtype, a.device)
        assert grouped_gemm(a, b, ends, rows=rows, out=found) is found


def wanted(a: Tensor, b: Tensor, sizes: Sequence[int], rows: Tensor) -> Tensor:
    """By torch in the type of the operands, 0 behind the last group."""
    there = ((rows >= 0) & (rows < len(a)))[:, None]
    left = torch.where(there, a[torch.where(there[:, 0], rows, 0).long()], 0.0)
    begin, parts = 0, [left.new_zeros(0, b.shape[2])]
    for group, size in enumerate(sizes):
        parts.append(left[begin : begin + size] @ b[group])
        begin += size
    return torch.cat([*parts, left.new_zeros(len(rows) - begin, b.shape[2])])


@pytest.mark.parametrize("sizes", [(5, 0, 9), (0, 14, 0), (6, 4, 2)])
def test_gradients(launches: list[str], sizes: tuple[int, ...]) -> None:
    """Rows that are taken several times get sums, those that are not 0; so does nobody for numbers
    that are not there, and behind the last group.
    """
    rows, ends = numbers(14), ends_of(sizes)
    a, b, outside = random(7, 24), random(3, 24, 40, seed=1), random(14, 40, seed=2)
    leaves = a.clone().requires_grad_(), b.clone().requires_grad_()
    found = grouped_gemm(*leaves, ends, rows=rows)
    mine = torch.autograd.grad(found, leaves, outside)
    exact = a.double().requires_grad_(), b.double().requires_grad_()
    total = wanted(*exact, sizes, rows)
    for one, other in zip(mine, torch.autograd.grad(total, exact, outside.double()), strict=True):
        assert one.dtype is a.dtype
        assert torch.allclose(one.double(), other, rtol=2**-5, atol=5e-2)
    assert not mine[0][-1].any()  # in no group


def test_second_gradients(launches: list[str]) -> None:
    sizes, rows = (5, 0, 9), numbers(14)

    def twice(function: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> list[Tensor]:
        a, b = a.clone().requires_grad_(), b.clone().requires_grad_()
        first = torch.autograd.grad(function(a, b).square().sum(), (a, b), create_graph=True)
        total = first[0].float().sum() + first[1].float().sum()
        return list(torch.autograd.grad(total, (a, b)))

    a, b = random(7, 8) / 4, random(3, 8, 8, seed=1) / 4
    mine = twice(lambda a, b: grouped_gemm(a, b, ends_of(sizes), rows=rows).float(), a, b)
    exact = twice(lambda a, b: wanted(a, b, sizes, rows), a.double(), b.double())
    for one, other in zip(mine, exact, strict=True):
        assert torch.allclose(one.double(), other, rtol=2**-4, atol=0.1 * other.abs().max().item())


def test_compiles_in_one_graph(launches: list[str]) -> None:
    def layer(x: Tensor, weights: Tensor, ends: Tensor, rows: Tensor) -> Tensor:
        return grouped_gemm(x.relu(), weights.mT, ends, rows=rows).sum(-1)

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    for count in (8, 12):
        ends = ends_of((3, count - 3))
        arguments = random(7, 16), random(2, 24, 16, seed=1), ends, numbers(count)
        assert torch.equal(compiled(*arguments), layer(*arguments))


def test_no_gradients_through_what_is_overwritten(launches: list[str]) -> None:
    with pytest.raises(SchedgenError, match="out= and gradients"):
        grouped_gemm(A.clone().requires_grad_(), B, ENDS, rows=ROWS, out=random(8, 4))


def test_tiles_that_are_chosen_are_shipped() -> None:
    known = {(kernel.spec, kernel.target, frozenset(kernel.settings)) for kernel in shipped()}
    for arch, sms in (("sm_90a", 132), ("sm_100a", 148)):
        for layout in ("nk", "kn"):
            one = Product(arch, "bf16", b_layout=layout, gathered=True)
            for groups, rows, n in ((128, 512, 2048), (8, 100, 768), (1, 1, 128)):
                tile = best(one, (groups, rows, n, 2048), sms)
                settings = frozenset(one.settings(tile).items())
                assert (one.spec, TARGET_OF[arch], settings) in known
    narrow = best(Product("sm_90a", "bf16", gathered=True), (1, 100, 128, 2048), 132)
    assert narrow.columns == 128
