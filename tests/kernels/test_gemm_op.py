"""`gemm` and `symmetric_gemm` without a GPU: what they refuse, shapes, torch's checks, and what is
left to do when the kernel is computed by torch on the CPU.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional

from schedgen.errors import SchedgenError
from schedgen.kernels import gemm, library, symmetric_gemm
from schedgen.kernels.errors import ArgumentValueError, DeviceError
from tests.kernels import refusals

Shape = tuple[int, ...]
QUICKEST = "_tile_m64_consumers1_tile_n64_tile_k128.py"
"""What names of files end with whose iterations are the shortest: the ones for small products."""
NARROWEST = "gemm_transposed_sm_90a_bf16_tile_m64_consumers1_tile_n16_tile_k128.py"
"""The one for a few rows."""


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(torch.bfloat16)


def close(found: Tensor, a: Tensor, b: Tensor, addend: Tensor | float = 0.0) -> bool:
    wanted = a.double() @ b.double() + addend
    if found.shape != wanted.shape:
        return False
    return torch.allclose(found.double(), wanted, rtol=2**-7, atol=1e-2)  # a was rounded once more


SHAPES: list[tuple[Shape, Shape]] = [
    ((16, 32), (32, 24)),
    ((13, 7), (7, 5)),  # no row is a multiple of 16 bytes
    ((1, 8), (8, 1)),
    ((2, 3, 16, 8), (8, 16)),
    ((2, 16, 8), (2, 8, 24)),
    ((2, 1, 5, 8), (3, 8, 11)),
    ((4, 8), (2, 8, 16)),
]


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_product(launches: list[str], left: Shape, right: Shape, transposed: bool) -> None:
    a, b = random(*left), random(*right, seed=1)
    if transposed:
        a, b = a.mT.contiguous().mT, b.mT.contiguous().mT
    before = a.clone(), b.clone()
    found = gemm(a, b)
    assert close(found, a, b)
    assert found.is_contiguous()
    assert torch.equal(a, before[0])
    assert torch.equal(b, before[1])
    (name,) = launches
    assert re.fullmatch(rf"gemm_sm_90a_bf16(_kn)?{QUICKEST}|{NARROWEST}", name)


def operands_of(call: Callable[[], Any]) -> list[tuple[int, int]]:
    """Where the operands of each launch of ``call`` lie."""
    pointers: list[tuple[int, int]] = []
    inner = library.launcher

    def spying(device: torch.device, spec: str, **settings: str) -> Any:
        run = inner(device, spec, **settings)
        launch = run.launch

        def spy(tensors: Any, scalars: Any = ()) -> None:
            pointers.append((tensors[0].data_ptr(), tensors[1].data_ptr()))
            launch(tensors, scalars)

        run.launch = spy
        return run

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "launcher", spying)
        call()
    return pointers


@pytest.mark.parametrize("symmetric", [False, True])
def test_right_operands_are_read_as_they_are(launches: list[str], symmetric: bool) -> None:
    """Row by row, or as the transposed view of rows."""
    a = random(2, 16, 16)
    multiply = symmetric_gemm if symmetric else gemm
    found = operands_of(lambda: (multiply(a, a.mT), multiply(a, a)))
    assert [right for _, right in found] == [a.data_ptr()] * 2
    kind = "gemm_symmetric" if symmetric else "gemm"
    along_n = f"{kind}_sm_90a_bf16_kn{QUICKEST}"
    along_k = f"{kind}_sm_90a_bf16{QUICKEST}" if symmetric else NARROWEST
    assert launches == [along_k, along_n]


def test_left_operands_are_read_as_they_are(launches: list[str]) -> None:
    """Along m, in one piece and in parts of k: the gradient of a weight."""
    for rows, columns in ((512, 4096), (8192, 256)):
        x, y = random(rows, columns), random(rows, 512, seed=1)
        found: list[Tensor] = []
        pointers = operands_of(lambda x=x, y=y, found=found: found.append(gemm(x.mT, y)))
        assert pointers[0] == (x.data_ptr(), y.data_ptr())
        assert close(found[0], x.mT, y)
    assert [name.partition("_tile")[0] for name in launches[:1]] == ["gemm_sm_90a_bf16_km_kn"]
    assert launches[1].startswith("gemm_parts_sm_90a_bf16_km_kn")


def test_squares_of_columns_are_read_as_they_are(launches: list[str]) -> None:
    x = random(512, 2048)
    found: list[Tensor] = []
    pointers = operands_of(lambda: found.append(symmetric_gemm(x.mT)))
    assert close(found[0], x.mT, x)
    assert pointers == [(x.data_ptr(), x.data_ptr())]
    assert launches == ["gemm_symmetric_sm_90a_bf16_km_kn.py"]


def test_left_operands_without_a_kernel_are_copied(launches: list[str]) -> None:
    """Of fp16, and where the right one lies along k; the result is the same."""
    a, b = random(64, 72).mT, random(64, 80, seed=1)
    for left, right in ((a.half(), b.half()), (a, b.mT.contiguous().mT)):
        assert close(gemm(left, right), left, right)
    assert not any("_km" in name for name in launches)


@pytest.mark.parametrize("addend", [(2, 16, 24), (16, 24), (24,), (16, 1), (1, 1), ()])
def test_addend_broadcasts(launches: list[str], addend: Shape) -> None:
    a, b, c = random(2, 16, 8), random(8, 24, seed=1), random(*addend, seed=2)
    found = gemm(a, b, c, alpha=0.5, beta=2.0)
    assert close(found, a * 0.5, b, 2.0 * c.double().expand(2, 16, 24))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_activation(
    launches: list[str], left: Shape, right: Shape, transposed: bool, bias: bool
) -> None:
    a, b = random(*left), random(*right, seed=1)
    b = b.mT.contiguous().mT if transposed else b
    row = random(right[-1], seed=2) if bias else None
    sums = a.double() @ b.double() + (row.double() if row is not None else 0.0)
    wanted = functional.gelu(sums, approximate="tanh")
    found = gemm(a, b, bias=row, activation="gelu")
    assert torch.allclose(found.double(), wanted, rtol=2**-7, atol=1e-2)
    out = torch.full_like(found, math.nan)
    assert gemm(a, b, bias=row, activation="gelu", out=out) is out
    assert torch.equal(out, found)
    assert all(name.startswith("gemm_epilogue_sm_90a_bf16") for name in launches)


@pytest.mark.medium
def test_activation_has_tiles_for_shapes(launches: list[str]) -> None:
    """Those of products without one, read along k or along n."""
    for n, tile in ((64, QUICKEST), (1024, "_tile_m64_consumers1_tile_n128.py"), (4096, ".py")):
        a, b = (torch.zeros(n, n, dtype=torch.bfloat16) for _ in range(2))
        gemm(a, b, activation="gelu")
        gemm(a, b.mT, activation="gelu")
        wanted = [f"gemm_epilogue_sm_90a_bf16{kn}{tile}" for kn in ("_kn", "")]
        assert launches[-2:] == wanted


def test_bias_is_an_addend(launches: list[str]) -> None:
    a, b, bias = random(5, 16, 8), random(8, 24, seed=1), random(24, seed=2)
    assert torch.equal(gemm(a, b, bias=bias, alpha=0.5), gemm(a, b, bias, alpha=0.5))
    empty = gemm(random(5, 0), random(0, 24), bias=bias, activation="gelu")
    wanted = functional.gelu(bias.float(), approximate="tanh").bfloat16()
    assert torch.equal(empty, wanted.expand(5, 24))


def test_addend_is_not_read_if_its_factor_is_0(launches: list[str]) -> None:
    a, b = random(16, 8), random(8, 24, seed=1)
    assert torch.equal(gemm(a, b, torch.full_like(gemm(a, b), math.nan), beta=0.0), gemm(a, b))


def test_empty_sum(launches: list[str]) -> None:
    a, b, c = random(5, 0), random(0, 6), random(5, 6)
    assert torch.equal(gemm(a, b), torch.zeros_like(c))
    assert torch.equal(gemm(a, b, c, beta=2.0), 2 * c)
    assert torch.equal(gemm(a, b, c[0], beta=0.5), (0.5 * c[0].float()).to(c.dtype).expand(5, 6))
    assert launches == []


@pytest.mark.parametrize(
    ("left", "right"), [((0, 8), (8, 4)), ((3, 8), (8, 0)), ((0, 2, 8), (8, 4))]
)
def test_empty_result(launches: list[str], left: Shape, right: Shape) -> None:
    found = gemm(random(*left), random(*right))
    assert found.shape == (*left[:-1], right[-1])
    assert launches == []


OUTS: list[Callable[[], Tensor]] = [
    lambda: torch.full((2, 16, 24), math.nan, dtype=torch.bfloat16),
    lambda: torch.full((2, 24, 16), math.nan, dtype=torch.bfloat16).mT,
    lambda: torch.full((2, 16, 27), math.nan, dtype=torch.bfloat16)[..., 1:25],
    lambda: torch.full((16, 2, 24), math.nan, dtype=torch.bfloat16).transpose(0, 1),
]


@pytest.mark.parametrize("make", OUTS)
def test_result_in_place(launches: list[str], make: Callable[[], Tensor]) -> None:
    a, b, out = random(2, 16, 8), random(8, 24, seed=1), make()
    assert gemm(a, b, out=out) is out
    assert torch.equal(out, gemm(a, b))


def test_addend_may_be_the_result(launches: list[str]) -> None:
    a, b, c = random(16, 8), random(8, 24, seed=1), random(16, 24, seed=2)
    wanted = gemm(a, b, c, beta=0.5)
    assert torch.equal(gemm(a, b, c, beta=0.5, out=c), wanted)


def test_result_apart_from_operands(launches: list[str]) -> None:
    a, b = random(16, 16), random(16, 16, seed=1)
    for out, name in ((a, "a"), (b, "b"), (b.mT, "b")):
        with pytest.raises(ArgumentValueError, match=f"out: it overlaps {name}"):
            gemm(a, b, out=out)
    big = random(17, 16, seed=2)
    with pytest.raises(ArgumentValueError, match="out: it overlaps c"):
        gemm(a, b, big[1:], out=big[:-1])
    assert close(gemm(big[:8], b[:, :8], out=torch.empty(8, 8, dtype=a.dtype)), big[:8], b[:, :8])


@pytest.mark.parametrize("shape", [(16, 8), (13, 7), (2, 16, 24)])
def test_symmetric_product(launches: list[str], shape: Shape) -> None:
    a = random(*shape)
    c = random(*shape[:-1], shape[-2], seed=2)
    c = c + c.mT
    found = symmetric_gemm(a, c=c, alpha=0.5, beta=2.0)
    assert close(found, a * 0.5, a.mT, 2.0 * c.double())
    assert torch.equal(found, found.mT)
    assert close(symmetric_gemm(a, a.mT), a, a.mT)
    out = torch.empty_like(found)
    assert torch.equal(symmetric_gemm(a, c=c, alpha=0.5, beta=2.0, out=out), found)
    assert set(launches) == {f"gemm_symmetric_sm_90a_bf16{QUICKEST}"}


REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("fp32", lambda: gemm(torch.zeros(4, 8), random(8, 4)), TypeError, "a"),
    ("mixed", lambda: gemm(random(4, 8), random(8, 4).half()), TypeError, "b"),
    ("addend's type", lambda: gemm(random(4, 8), random(8, 4), torch.zeros(4)), TypeError, "c"),
    ("vector", lambda: gemm(random(8), random(8, 4)), ValueError, "a"),
    ("k", lambda: gemm(random(4, 8), random(4, 8)), ValueError, "b"),
    ("batches", lambda: gemm(random(2, 4, 8), random(3, 8, 4)), ValueError, "b"),
    ("addend", lambda: gemm(random(4, 8), random(8, 4), random(4, 5)), ValueError, "c"),
    ("larger addend", lambda: gemm(random(4, 8), random(8, 4), random(2, 4, 4)), ValueError, "c"),
    ("alpha", lambda: gemm(random(4, 8), random(8, 4), alpha=math.nan), ValueError, "alpha"),
    (
        "activation",
        lambda: gemm(random(4, 8), random(8, 4), activation="relu"),  # pyright: ignore
        ValueError,
        "activation",
    ),
    (
        "factor of an activated product",
        lambda: gemm(random(4, 8), random(8, 4), alpha=2.0, activation="gelu"),
        ValueError,
        "alpha",
    ),
    (
        "addend beside a bias",
        lambda: gemm(random(4, 8), random(8, 4), random(4), bias=random(4)),
        ValueError,
        "c",
    ),
    ("bias", lambda: gemm(random(4, 8), random(8, 4), bias=random(4, 4)), ValueError, "bias"),
    (
        "one bias for all columns",
        lambda: torch.ops.schedgen.gemm_gelu(random(4, 8), random(8, 4), random(1)),
        ValueError,
        "bias",
    ),
    ("square", lambda: symmetric_gemm(random(4, 8), random(8, 5)), ValueError, "b"),
    ("out", lambda: gemm(random(4, 8), random(8, 4), out=random(4, 5)), ValueError, "out"),
    (
        "out's type",
        lambda: gemm(random(4, 8), random(8, 4), out=torch.zeros(4, 4)),
        TypeError,
        "out",
    ),
]


@pytest.mark.parametrize(("_what", "call", "kind", "name"), REFUSED)
def test_refused(_what: str, call: Callable[[], Any], kind: type[Exception], name: str) -> None:
    refusals.check(call, kind, name)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu() -> None:
    with pytest.raises(DeviceError, match="there is no GPU here"):
        gemm(random(4, 8), random(8, 4))


@pytest.mark.medium
def test_opcheck(launches: list[str]) -> None:
    for a, b in (
        (random(5, 8), random(8, 6)),
        (random(2, 4, 8), random(8, 16)),
        (random(4, 0), random(0, 8)),
    ):
        c = random(b.shape[-1], seed=3)
        torch.library.opcheck(torch.ops.schedgen.gemm.default, (a, b, None, 0.5, 1.0))
        torch.library.opcheck(torch.ops.schedgen.gemm.default, (a, b, c, 0.5, 1.0))
        torch.library.opcheck(torch.ops.schedgen.gemm_gelu.default, (a, b, c))
        out = torch.zeros(*a.shape[:-1], b.shape[-1], dtype=a.dtype)
        torch.library.opcheck(torch.ops.schedgen.gemm_out.default, (a, b, c, 0.5, 1.0, out))
    square = (random(6, 8), random(8, 6), None, 1.0, 1.0)
    torch.library.opcheck(torch.ops.schedgen.symmetric_gemm.default, square)


def test_shapes_without_data() -> None:
    with FakeTensorMode():
        a = torch.empty(2, 5, 8, device="cuda", dtype=torch.float16)
        b = torch.empty(8, 3, device="cuda", dtype=torch.float16)
        found = gemm(a, b)
        assert (found.shape, found.dtype, found.device) == ((2, 5, 3), a.dtype, a.device)
        assert gemm(a, b, out=found) is found
        assert symmetric_gemm(a).shape == (2, 5, 5)


def test_compiles_in_one_graph(launches: list[str]) -> None:
    def layer(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        hidden = gemm(x.relu(), weight.mT, bias)
        gemm(hidden, weight, out=x)
        return symmetric_gemm(hidden).sum() + x.sum()

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (5, 16):
        arguments = random(rows, 8), random(24, 8, seed=1), random(24, seed=2)
        copies = [x.clone() for x in arguments]
        assert torch.equal(compiled(*arguments), layer(*copies))
        assert torch.equal(arguments[0], copies[0])


def test_gradients(launches: list[str]) -> None:
    a, b = random(4, 8).requires_grad_(), random(8, 16)
    assert gemm(a, b).requires_grad
    with pytest.raises(SchedgenError, match="out= and gradients"):
        gemm(a, b, out=random(4, 16))
    with torch.no_grad():
        gemm(a, b, out=random(4, 16))
