"""The torch functions with their shipped kernels, executed by the emulator: PTX on the CPU, with
the race checker. What the stand-in only supposes about bulk copies is seen here.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from importlib import import_module
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from schedgen.codegen.compiling import _module as imported
from schedgen.codegen.facts import Facts, file_name, read_facts
from schedgen.emulator.emulation import device
from schedgen.kernels import (
    attention,
    attention_decode,
    choosing,
    gemm,
    gemm_gated,
    gemm_op,
    gemm_rms,
    gemm_scaled,
    grouped_gemm,
    keys,
    layouts,
    library,
    quantized_gemm,
    scaled_gemm,
    symmetric_gemm,
)
from schedgen.kernels.regenerate import TARGETS
from tests.kernels.standin import CPU, install
from tests.kernels.test_attention_backward import derived, in_turns, near
from tests.kernels.test_attention_op import DIMS, operands, reference
from tests.kernels.test_gated_op import close as gated
from tests.kernels.test_gathered_op import numbers, taken
from tests.kernels.test_gemm_op import close, random
from tests.kernels.test_grouped_op import of_groups

pytestmark = pytest.mark.slow

SMS = 2


class Emulated:
    """Stands in for `Launcher`."""

    def __init__(self, name: str, arch: str) -> None:
        self.name, self.arch = name, arch
        self.zeros = {torch.bfloat16: torch.zeros(8, dtype=torch.bfloat16)}

    @property
    def facts(self) -> Facts:
        return read_facts(library.named(self.name))

    def launch(self, tensors: Sequence[Tensor], scalars: Sequence[float] = ()) -> None:
        cute: Any = import_module("cutlass.cute")
        runtime: Any = import_module("cutlass.cute.runtime")
        stream = import_module("cuda.bindings.driver").CUstream(0)
        assert all(layouts.problem(tensor) is None for tensor in tensors)
        views = [t.detach().as_strided(t.shape, (*layouts.strides(t), 1)) for t in tensors]
        path = library.named(self.name)
        counter = torch.zeros(int(read_facts(path).counted), dtype=torch.int32)
        views += [counter] if len(counter) else []
        with device(self.arch, sms=SMS):
            arguments: list[Any] = []
            for view in views:
                made = runtime.from_dlpack(view, assumed_align=16)
                arguments.append(made.mark_layout_dynamic(leading_dim=view.ndim - 1))
            function = cute.compile(imported(path).launch, *arguments, *scalars, SMS, stream)
            function(*arguments, *scalars, stream)
        assert not counter.any()  # for the next launch


@pytest.fixture(params=TARGETS.values(), autouse=True)
def arch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Generator[str]:
    """Kernels run in the emulator of this architecture, on tensors full of NaN."""
    install(monkeypatch)

    def launcher(device: torch.device, spec: str, **settings: str) -> Emulated:
        assert device == CPU
        return Emulated(file_name(spec, request.param, settings), request.param)

    monkeypatch.setattr(library, "launcher", launcher)
    for module in (keys, choosing):
        monkeypatch.setattr(module, "architecture", lambda device: request.param)  # pyright: ignore
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield request.param
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize(
    ("shape", "causal"),
    [
        ((1, 70, 150, 2, 1, 64), False),
        ((1, 150, 70, 1, 1, 64), True),
        ((1, 130, 131, 1, 1, 128), True),
        ((1, 70, 300, 1, 1, 128), False),  # Hopper: two iterations of 160 keys
        *((((1, 70, 150, 2, 1, *dims), dims[0] % 64 == 0)) for dims in DIMS),
    ],
)
def test_attention(arch: str, shape: tuple[int, ...], causal: bool) -> None:
    q, k, v = operands(*shape)
    out, lse = attention(q, k, v, causal=causal, return_lse=True)
    wanted, wanted_lse = reference(q, k, v, 1 / math.sqrt(shape[5]), causal)
    assert torch.allclose(out.double(), wanted, atol=2e-2)
    assert torch.allclose(lse.double(), wanted_lse, atol=1e-4)


@pytest.mark.parametrize(
    ("shape", "causal"),
    [
        ((1, 70, 150, 2, 1, 64), False),
        ((1, 150, 70, 1, 1, 64), True),
        ((1, 130, 131, 1, 1, 128), True),
        ((1, 70, 260, 1, 1, 128), False),  # Hopper: three tiles of keys add in turns
    ],
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients(
    monkeypatch: pytest.MonkeyPatch,
    arch: str,
    shape: tuple[int, ...],
    causal: bool,
    dtype: torch.dtype,
) -> None:
    """Through the kernel of the forward pass and those behind it."""
    in_turns(monkeypatch)
    q, k, v = (x.to(dtype).requires_grad_() for x in operands(*shape))
    out = attention(q, k, v, causal=causal)
    dout = torch.randn(out.shape).to(out.dtype)
    found = torch.autograd.grad(out, (q, k, v), dout)
    wanted = derived(q, k, v, 1 / math.sqrt(shape[5]), causal, dout, None)
    assert all(map(near, found, wanted))


@pytest.mark.parametrize(
    ("shape", "causal"),
    [
        ((1, 70, 150, 2, 1, 64), False),
        ((1, 150, 70, 1, 1, 64), True),
        ((1, 130, 131, 2, 1, 128), True),
        ((1, 260, 70, 1, 1, 128), False),
    ],
)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_in_any_order(
    arch: str, shape: tuple[int, ...], causal: bool, dtype: torch.dtype
) -> None:
    """Those of queries are sums of what tiles of keys add, where there is a kernel for that."""
    q, k, v = (x.to(dtype).requires_grad_() for x in operands(*shape))
    out = attention(q, k, v, causal=causal, deterministic=False)
    dout = torch.randn(out.shape).to(out.dtype)
    found = torch.autograd.grad(out, (q, k, v), dout)
    wanted = derived(q, k, v, 1 / math.sqrt(shape[5]), causal, dout, None)
    assert all(map(near, found, wanted))


@pytest.mark.parametrize(("m", "n", "k"), [(130, 264, 72), (13, 7, 5)])
def test_product(m: int, n: int, k: int) -> None:
    """Without an addend the kernel reads eight zeros, out of bounds, as a tensor of any shape."""
    a, b = random(m, k), random(k, n, seed=1)
    assert close(gemm(a, b), a, b)


@pytest.mark.parametrize(("m", "n"), [(1, 130), (33, 264)])
def test_product_of_few_rows(m: int, n: int) -> None:
    """Stored transposed on Hopper, also where rows are no multiples of 16 bytes."""
    a, weight = random(m, 72), random(n, 72, seed=1)
    assert close(gemm(a, weight.mT, alpha=0.5), a * 0.5, weight.mT)


@pytest.mark.parametrize("transposed", [False, True])
def test_activation(transposed: bool) -> None:
    """Without a bias, too, of which eight zeros are read."""
    a, b, bias = random(130, 72), random(72, 264, seed=1), random(264, seed=2)
    b = b.mT.contiguous().mT if transposed else b
    for row in (bias, None):
        found = gemm(a, b, bias=row, activation="gelu")
        sums = a.float() @ b.float() + (0.0 if row is None else row.float())
        wanted = functional.gelu(sums, approximate="tanh")
        assert torch.allclose(found.float(), wanted, rtol=2**-7, atol=1e-2)


@pytest.mark.parametrize(("gate", "m", "n"), [("silu", 130, 136), ("gelu", 13, 7), ("gelu", 1, 40)])
def test_gated(gate: str, m: int, n: int) -> None:
    """Halves of one matrix, and operands that have to be copied."""
    x, w = random(m, 72), random(2 * n, 72, seed=1)
    found = gemm_gated(x, w[:n].mT, w[n:].mT, activation=gate)  # type: ignore[arg-type]
    assert gated(found, x, w[:n].mT, w[n:].mT, gate=gate)


@pytest.mark.parametrize(("m", "n"), [(130, 264), (13, 7)])
@pytest.mark.parametrize("residual", [True, False])
def test_normalization_between_products(m: int, n: int, residual: bool) -> None:
    """Its statistics beside one product, its factors behind the next ones."""
    a, b, c = random(m, 72), random(72, n, seed=1), random(m, n, seed=2) if residual else None
    d, r = gemm_rms(a, b, c, beta=0.5, eps=1e-5)
    right = a.double() @ b.double() + (0.5 * c.double() if c is not None else 0.0)
    assert torch.allclose(d.double(), right, rtol=2**-7, atol=1e-2)
    factors = (right.square().mean(-1) + 1e-5).rsqrt()
    assert torch.allclose(r.double(), factors, rtol=1e-5, atol=1e-6)
    w = random(80, n, seed=3)
    wanted = r.double()[..., None] * (d.double() @ w.double().mT)
    assert torch.allclose(gemm_scaled(d, w.mT, r).double(), wanted, rtol=2**-7, atol=1e-2)
    gate, up = wanted[:, :40], wanted[:, 40:]
    found = gemm_gated(d, w[:40].mT, w[40:].mT, row_scale=r)
    assert torch.allclose(found.double(), functional.silu(gate) * up, rtol=2**-7, atol=1e-2)


@pytest.mark.parametrize("shape", [(130, 264, 72), (2, 13, 200, 40)])
def test_quantized_between_products(shape: tuple[int, ...]) -> None:
    """An 8-bit result with factors of blocks, and the product that takes them."""
    *outer, n, k = shape
    a, b = random(*outer, k), random(k, n, seed=1)
    d, factors = quantized_gemm(a, b)
    wanted = a.double() @ b.double()
    restored = d.double() * factors.double().repeat_interleave(128, -1)[..., :n]
    assert ((restored - wanted).abs() <= wanted.abs() / 16 + factors.max() / 256).all()
    w = random(48, n, seed=2).to(torch.float8_e4m3fn)
    rows, of_rows = d.reshape(-1, n), factors.reshape(-1, factors.shape[-1])
    scale = torch.ones(-(-n // 128), 1)
    found = scaled_gemm(rows, w.mT, of_rows, scale).double()
    assert torch.allclose(found, restored.reshape(-1, n) @ w.double().mT, rtol=2**-6, atol=0.1)


@pytest.mark.parametrize(
    ("sizes", "n", "transposed"),
    [
        ((130, 0, 1, 0, 0, 128, 5), 264, True),  # skewed, with empty groups
        ((70, 70, 70, 70), 136, False),
        ((0, 0, 300), 72, True),  # all in one
    ],
)
def test_groups(sizes: tuple[int, ...], n: int, transposed: bool) -> None:
    """Also where rows are left behind the last group."""
    a, b = random(sum(sizes) + 3, 72), random(len(sizes), 72, n, seed=1)
    b = b.mT.contiguous().mT if transposed else b
    ends = torch.tensor(sizes).cumsum(0).int()
    assert of_groups(grouped_gemm(a, b, ends), a, b, ends)


@pytest.mark.parametrize(
    ("sizes", "k", "n", "transposed"),
    [
        ((130, 0, 1, 0, 0, 128, 5), 72, 264, True),  # skewed, with empty groups
        ((70, 0, 70), 300, 136, False),  # more than two iterations, the last one of 44 columns
        ((0, 0, 3), 5, 8, True),  # less than 16 bytes of a row
    ],
)
def test_groups_of_rows_that_a_list_takes(
    sizes: tuple[int, ...], k: int, n: int, transposed: bool
) -> None:
    """Rows are taken several times or never, and numbers are no row's; NaN in rows that no group
    takes have no part in it.
    """
    a, b = random(7, k), random(len(sizes), k, n, seed=1)
    b = b.mT.contiguous().mT if transposed else b
    ends, rows = torch.tensor(sizes).cumsum(0).int(), numbers(sum(sizes) + 3)
    rows[sum(sizes) :] = 6  # behind the last group
    a[6] = math.nan
    found = grouped_gemm(a, b, ends, rows=rows)
    assert of_groups(found, taken(a, rows), b, ends)


@pytest.mark.parametrize("sizes", [(130, 0, 1, 0, 64, 5), (0, 0, 100)])
def test_groups_along_k(sizes: tuple[int, ...]) -> None:
    """The same of what is added up; NaN behind the last group have no part in it."""
    a, b = random(sum(sizes) + 3, 136), random(sum(sizes) + 3, 72, seed=1)
    a[sum(sizes) :], b[sum(sizes) :] = math.nan, math.nan
    ends = torch.tensor(sizes).cumsum(0).int()
    found = grouped_gemm(a.mT, b, ends)
    for group, end in enumerate(map(int, ends)):
        rows = slice(end - sizes[group], end)
        assert close(found[group], a[rows].mT, b[rows])


def test_gradients_of_groups() -> None:
    sizes, a, b = (70, 0, 9), random(79, 40), random(3, 72, 40, seed=1).mT
    ends = torch.tensor(sizes).cumsum(0).int()
    leaves = a.requires_grad_(), b.requires_grad_()
    outside = random(79, 72, seed=2)
    of_a, of_b = torch.autograd.grad(grouped_gemm(*leaves, ends), leaves, outside)
    assert of_groups(of_a, outside, b.detach().mT, ends)
    for group, end in enumerate(map(int, ends)):
        rows = slice(end - sizes[group], end)
        assert close(of_b[group], a.detach()[rows].mT, outside[rows])


@pytest.mark.parametrize(
    ("k", "symmetric"),
    [(72, False), (600, False), (72, True)],  # in one piece, and in parts
)
def test_left_operand_along_m(monkeypatch: pytest.MonkeyPatch, k: int, symmetric: bool) -> None:
    """Read as it lies, however small it is."""

    def always(*_: object) -> bool:
        return True

    monkeypatch.setattr(gemm_op, "_along_m", always)
    x = random(k, 136)
    y = x if symmetric else random(k, 264, seed=1)
    assert close(symmetric_gemm(x.mT) if symmetric else gemm(x.mT, y), x.mT, y)


def test_addend() -> None:
    a, b, c = random(2, 136, 64), random(64, 40, seed=1), random(40, seed=2)
    assert close(gemm(a, b, c, alpha=0.5, beta=2.0), a * 0.5, b, 2.0 * c.double())


def test_split_product() -> None:
    a, b, c = random(2, 136, 2200), random(2200, 40, seed=1), random(40, seed=2)
    found = gemm(a, b, c, alpha=0.5, beta=2.0)
    assert close(found, a * 0.5, b, 2.0 * c.double())


def test_split_symmetric_product() -> None:
    """What no tile has stored, above the diagonal, is never read."""
    a = random(150, 2200)
    found = symmetric_gemm(a)
    assert close(found, a, a.mT)
    assert torch.equal(found, found.mT)


def test_symmetric_product() -> None:
    a = random(264, 72)
    found = symmetric_gemm(a)
    assert close(found, a, a.mT)
    assert torch.equal(found, found.mT)


@pytest.mark.parametrize(
    ("shape", "causal", "split"),
    [
        ((2, 1, 300, 8, 2, 128), False, 128),
        ((1, 3, 290, 6, 2, 64), True, 128),
        ((1, 16, 260, 4, 1, 128), True, 256),  # several iterations of a split
        ((1, 5, 3, 2, 1, 64), True, None),  # rows that see no key
        ((1, 1, 200, 2, 1, 192, 128), False, 128),
        ((1, 2, 200, 3, 1, 192, 192), True, 128),
    ],
)
def test_decode(shape: tuple[int, ...], causal: bool, split: int | None) -> None:
    q, k, v = operands(*shape)  # type: ignore[arg-type]
    out, lse = attention_decode(q, k, v, causal=causal, split=split, return_lse=True)
    wanted, wanted_lse = reference(q, k, v, shape[5] ** -0.5, causal)
    assert torch.allclose(out.double(), wanted, atol=2e-2)
    assert torch.allclose(lse.double(), wanted_lse, atol=1e-3)


def test_decode_is_the_same_in_a_batch() -> None:
    q, k, v = operands(3, 1, 300, 4, 1, 64)
    found = attention_decode(q, k, v, split=128)
    alone = attention_decode(q[1:2].clone(), k[1:2].clone(), v[1:2].clone(), split=128)
    assert torch.equal(found[1:2], alone)
