"""`gemm_gated` without a GPU, as `test_gemm_op` has it for products: what is refused, shapes,
checks of torch, and what is left to do when the kernel is computed by torch on the CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from schedgen.errors import SchedgenError
from schedgen.kernels import gemm_gated, library
from schedgen.kernels.errors import ArgumentValueError, DeviceError
from schedgen.kernels.regenerate import shipped
from schedgen.kernels.tiling import GATES, Product, best, sizes
from tests.kernels import refusals
from tests.kernels.standin import activated
from tests.kernels.test_gemm_op import OUTS, SHAPES, Shape, random


def wanted(a: Tensor, b_gate: Tensor, b_up: Tensor, gate: str = "silu") -> Tensor:
    first, second = (a.double() @ b.double() for b in (b_gate, b_up))
    return activated(f"_{gate}", first) * second


def close(found: Tensor, *operands: Tensor, gate: str = "silu") -> bool:
    right = wanted(*operands, gate=gate)
    return found.shape == right.shape and torch.allclose(
        found.double(), right, rtol=2**-7, atol=1e-2
    )


@pytest.mark.parametrize(("left", "right"), SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("gate", GATES)
def test_gated(
    launches: list[str],
    left: Shape,
    right: Shape,
    transposed: bool,
    gate: Literal["silu", "gelu"],
) -> None:
    a, b_gate, b_up = random(*left), random(*right, seed=1), random(*right, seed=2)
    if transposed:
        a, b_gate, b_up = (x.mT.contiguous().mT for x in (a, b_gate, b_up))
    found = gemm_gated(a, b_gate, b_up, activation=gate)
    assert close(found, a, b_gate, b_up, gate=gate)
    assert found.is_contiguous()
    out = torch.full_like(found, math.nan)
    assert gemm_gated(a, b_gate, b_up, activation=gate, out=out) is out
    assert torch.equal(out, found)
    assert len(launches) == 2
    assert all(name.startswith("gemm_gated_sm_90a_bf16") for name in launches)
    assert all((f"_{gate}" in name) == (gate != "silu") for name in launches)


@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_factors_of_rows(launches: list[str], left: Shape, right: Shape) -> None:
    a, b_gate, b_up = random(*left), random(*right, seed=1), random(*right, seed=2)
    shape = gemm_gated(a, b_gate, b_up).shape
    r = torch.rand(shape[:-1])
    for gate in GATES:
        found = gemm_gated(a, b_gate, b_up, row_scale=r, activation=gate)  # type: ignore[arg-type]
        first, second = (r[..., None] * (a.double() @ b.double()) for b in (b_gate, b_up))
        right_one = activated(f"_{gate}", first) * second
        assert torch.allclose(found.double(), right_one, rtol=2**-7, atol=1e-2)
        assert "_scaled" in launches[-1]


def test_weights_of_one_matrix_are_read_as_they_are(
    launches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Halves, or every other row."""
    x, w = random(16, 64), random(96, 64, seed=1)
    read: list[list[int]] = []
    inner = library.launcher

    def spying(device: torch.device, spec: str, **settings: str) -> Any:
        run = inner(device, spec, **settings)
        launch = run.launch

        def spy(tensors: Any, scalars: Any = ()) -> None:
            read.append([t.data_ptr() - w.data_ptr() for t in tensors[1:3]])
            launch(tensors, scalars)

        run.launch = spy
        return run

    monkeypatch.setattr(library, "launcher", spying)
    for gate, up in ((w[:48], w[48:]), (w[0::2], w[1::2])):
        assert close(gemm_gated(x, gate.mT, up.mT), x, gate.mT, up.mT)
    assert read == [[0, 48 * 64 * 2], [0, 64 * 2]]


def test_other_operands_are_copied(launches: list[str]) -> None:
    """One of them, or both."""
    a, b_gate, b_up = random(16, 64), random(64, 32), random(32, 64, seed=1).mT
    assert close(gemm_gated(a, b_gate, b_up), a, b_gate, b_up)
    assert close(gemm_gated(a, b_gate, b_gate), a, b_gate, b_gate)


@pytest.mark.parametrize("make", OUTS)
def test_result_in_place(launches: list[str], make: Callable[[], Tensor]) -> None:
    operands = random(2, 16, 8), random(8, 24, seed=1), random(8, 24, seed=2)
    out = make()
    assert gemm_gated(*operands, out=out) is out
    assert torch.equal(out, gemm_gated(*operands))


def test_empty(launches: list[str]) -> None:
    assert torch.equal(gemm_gated(random(5, 0), random(0, 6), random(0, 6)), torch.zeros(5, 6))
    assert gemm_gated(random(0, 8), random(8, 4), random(8, 4)).shape == (0, 4)
    assert launches == []


A, B = random(4, 8), random(8, 4)
REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("fp32", lambda: gemm_gated(A.float(), B, B), TypeError, "a"),
    ("mixed", lambda: gemm_gated(A, B.half(), B), TypeError, "b_gate"),
    ("mixed, too", lambda: gemm_gated(A, B, B.half()), TypeError, "b_up"),
    ("vector", lambda: gemm_gated(A[0], B, B), ValueError, "a"),
    ("k", lambda: gemm_gated(A, A, A), ValueError, "b_gate"),
    ("columns", lambda: gemm_gated(A, B, B[:, :3]), ValueError, "b_up"),
    (
        "batches",
        lambda: gemm_gated(A.expand(2, 4, 8), *[B.expand(3, 8, 4)] * 2),
        ValueError,
        "b_gate",
    ),
    (
        "activation",
        lambda: gemm_gated(A, B, B, activation="tanh"),  # pyright: ignore
        ValueError,
        "activation",
    ),
    (
        "factors' type",
        lambda: gemm_gated(A, B, B, row_scale=torch.zeros(4).half()),
        TypeError,
        "row_scale",
    ),
    (
        "factors of columns",
        lambda: gemm_gated(A, B[:, :3], B[:, :3], row_scale=torch.zeros(3)),
        ValueError,
        "row_scale",
    ),
    ("out", lambda: gemm_gated(A, B, B, out=random(4, 5)), ValueError, "out"),
    ("out's type", lambda: gemm_gated(A, B, B, out=torch.zeros(4, 4)), TypeError, "out"),
]


@pytest.mark.parametrize(("_what", "call", "kind", "name"), REFUSED)
def test_refused(_what: str, call: Callable[[], Any], kind: type[Exception], name: str) -> None:
    refusals.check(call, kind, name)


def test_result_apart_from_operands(launches: list[str]) -> None:
    a, b, c = (random(16, 16, seed=n) for n in range(3))
    for out, name in ((a, "a"), (b, "b_gate"), (c.mT, "b_up")):
        with pytest.raises(ArgumentValueError, match=f"out: it overlaps {name}"):
            gemm_gated(a, b, c, out=out)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu() -> None:
    with pytest.raises(DeviceError, match="there is no GPU here"):
        gemm_gated(A, B, B)


@pytest.mark.parametrize("gate", GATES)
def test_opcheck(launches: list[str], gate: str) -> None:
    operator = getattr(torch.ops.schedgen, f"gemm_gated_{gate}").default
    into = getattr(torch.ops.schedgen, f"gemm_gated_{gate}_out").default
    for a, b in ((random(5, 8), random(8, 6)), (random(2, 4, 8), random(2, 8, 16))):
        r = torch.rand(a.shape[:-1])
        operands = a, b, b.flip(-1), r if a.dim() > 2 else None
        torch.library.opcheck(operator, operands)
        out = torch.zeros(*a.shape[:-1], b.shape[-1], dtype=a.dtype)
        torch.library.opcheck(into, (*operands, out))


def test_shapes_without_data() -> None:
    with FakeTensorMode():
        a = torch.empty(2, 5, 8, device="cuda", dtype=torch.float16)
        b = torch.empty(8, 3, device="cuda", dtype=torch.float16)
        found = gemm_gated(a, b, b)
        assert (found.shape, found.dtype, found.device) == ((2, 5, 3), a.dtype, a.device)
        assert gemm_gated(a, b, b, out=found) is found


def test_compiles_in_one_graph(launches: list[str]) -> None:
    def layer(x: Tensor, gate: Tensor, up: Tensor) -> Tensor:
        return gemm_gated(x.relu(), gate.mT, up.mT).sum(-1)

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (5, 16):
        arguments = random(rows, 8), random(24, 8, seed=1), random(24, 8, seed=2)
        assert torch.equal(compiled(*arguments), layer(*arguments))


def test_gradients(launches: list[str]) -> None:
    a = A.clone().requires_grad_()
    assert gemm_gated(a, B, B).requires_grad
    with pytest.raises(SchedgenError, match="out= and gradients"):
        gemm_gated(a, B, B, out=random(4, 4))


def test_tiles_that_are_chosen_are_shipped() -> None:
    """Columns of a tile, and of a shape, are those of both products."""
    names = {kernel.name for kernel in shipped()}
    one = Product("sm_90a", "bf16", gate="silu")
    assert one.settings(sizes(one)[0]) == {"dtype": "bf16"}
    assert [one.settings(tile)["tile_n"] for tile in sizes(one)[1:3]] == ["112", "96"]
    for rows in (16, 512, 2048, 8192):
        tile = best(one, (1, rows, 2 * 11008, 4096), 132)
        of = [f"{key}{value}" for key, value in one.settings(tile).items() if key != "dtype"]
        assert "_".join(["gemm_gated_sm_90a_bf16", *of]) + ".py" in names
        assert (tile.rows < 128) == (rows == 16)
