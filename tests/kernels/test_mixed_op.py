"""Products of 16-bit activations and 8-bit weights: arguments, layouts, tiles, and results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from schedgen.codegen.facts import file_name
from schedgen.driver import lock_file
from schedgen.driver.emulating import launched
from schedgen.errors import SchedgenError
from schedgen.kernels import checks, library, mixed_gemm, mixed_op
from schedgen.kernels.errors import ArgumentValueError
from tests.kernels import refusals
from tests.kernels.standin import CPU, StandIn, install

E4M3 = torch.float8_e4m3fn
ARCHITECTURES = ("sm_90a", "sm_100a")


class Emulated(StandIn):
    """Executes kernels, with the race checker."""

    def launch(self, tensors: Sequence[Tensor], scalars: Sequence[float] = ()) -> None:
        arch = "sm_100a" if "sm_100a" in self.name else "sm_90a"
        report = launched(library.named(self.name).read_text("utf-8"), arch, tensors, scalars)
        assert not report.errors, report.text


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were launched."""
    return install(monkeypatch)


def activations(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-4, 5, shape, generator=generator).bfloat16()


def weights(*shape: int, dtype: torch.dtype = E4M3, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(-8, 9, shape, generator=generator).to(dtype)


def quantized(*shape: int, dtype: torch.dtype, seed: int = 1) -> tuple[Tensor, Tensor]:
    """Weights (..., k, n) as the function takes them, and as numbers."""
    *outer, n, k = shape
    if dtype is not torch.uint8:
        b = weights(*outer, n, k, dtype=dtype, seed=seed).mT
        return b, b.double()
    numbers = torch.randint(-8, 8, shape, generator=torch.Generator().manual_seed(seed))
    pairs = (numbers[..., 0::2] & 15) | ((numbers[..., 1::2] & 15) << 4)
    return pairs.to(torch.uint8).mT, numbers.double().mT


def powers(*shape: int, seed: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2.0 ** torch.randint(-2, 3, shape, generator=generator)


def rounded(a: Tensor, b: Tensor) -> Tensor:
    """The product of a (..., m, k) and b (..., k, n), rounded once."""
    return (a.double() @ b.double()).to(torch.bfloat16)


def of_groups(scale: Tensor, k: int) -> Tensor:
    """Factors of groups (..., groups, n) for each of k numbers."""
    return scale.repeat_interleave(128, -2)[..., :k, :]


@pytest.mark.parametrize("dtype", list(mixed_op.WEIGHTS))
@pytest.mark.parametrize("outer", [(), (2,), (2, 3)])
@pytest.mark.parametrize(("m", "n", "k"), [(5, 16, 32), (130, 40, 24), (1, 7, 300)])
def test_results(
    calls: list[str], dtype: torch.dtype, outer: tuple[int, ...], m: int, n: int, k: int
) -> None:
    """Of weights with batches and without, with all factors that there may be."""
    a, one = activations(*outer, m, k), torch.tensor([0.5])
    for of_b in {outer, ()}:
        b, numbers = quantized(*of_b, n, k, dtype=dtype)
        columns, groups = powers(*of_b, 1, n), powers(*of_b, -(-k // 128), n)
        assert torch.equal(mixed_gemm(a, b, columns), rounded(a, numbers * columns))
        assert torch.equal(mixed_gemm(a, b, one), rounded(a, numbers / 2))
        found = mixed_gemm(a, b, groups)
        assert torch.equal(found, rounded(a, numbers * of_groups(groups, k)))
        assert ("groups" in calls[-1]) is (k > 128)  # one group is a factor of the column
    assert all(f"_{mixed_op.WEIGHTS[dtype]}" in name for name in calls)


def test_tiles(calls: list[str]) -> None:
    """Few rows get tiles of few rows; rows of all batches are one operand for one matrix."""
    for outer, m, tile in (((), 1, "_tile_m16"), ((4,), 4, "_tile_m16"), ((), 4096, "")):
        mixed_gemm(activations(*outer, m, 16), weights(4096, 16).mT, torch.ones(()))
        assert calls[-1] == f"gemm_mixed_sm_90a_e4m3{tile}.py"


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_shipped(arch: str) -> None:
    """All that calls may choose."""
    for of in mixed_op.WEIGHTS.values():
        for factors in mixed_op.FACTORS:
            for rows in mixed_op.ROWS:
                settings = mixed_op.settings(of, factors, rows)
                assert lock_file.locked(mixed_op.SPEC, arch, settings) is not None


def test_layouts(calls: list[str]) -> None:
    """Rows of any stride and address, and an operand that lies along n."""
    a, b = activations(5, 24)[:, 1:22], weights(40, 21).mT
    wanted = rounded(a, b)
    for left, right in ((a, b), (a, b.contiguous()), (a.mT.contiguous().mT, b)):
        assert torch.equal(mixed_gemm(left, right, torch.ones(1, 40)), wanted)
    assert len(calls) == 3


def test_into_a_tensor(calls: list[str]) -> None:
    """Also one that no bulk copy can reach."""
    a, b, one = activations(5, 32), weights(16, 32).mT, torch.ones(())
    wanted = rounded(a, b)
    for out in (torch.empty_like(wanted), torch.zeros(7, 19).bfloat16()[1:6, 1:17]):
        assert mixed_gemm(a, b, one, out=out) is out
        assert torch.equal(out, wanted)
    with pytest.raises(ArgumentValueError, match="it overlaps a"):
        mixed_gemm(a, b, one, out=a[:, :16])
    assert len(calls) == 2


def test_empty(calls: list[str]) -> None:
    one = torch.ones(())
    assert not mixed_gemm(activations(5, 0), weights(6, 0).mT, one).any()
    assert mixed_gemm(activations(0, 8), weights(6, 8).mT, one).shape == (0, 6)
    assert calls == []


A, B, ONE = activations(4, 256), weights(8, 256).mT, torch.ones(())
REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("8-bit activations", lambda: mixed_gemm(A.to(E4M3), B, ONE), TypeError, "a"),
    ("fp16", lambda: mixed_gemm(A.half(), B, ONE), TypeError, "a"),
    ("16-bit weights", lambda: mixed_gemm(A, B.bfloat16(), ONE), TypeError, "b"),
    ("half factors", lambda: mixed_gemm(A, B, ONE.half()), TypeError, "scale_b"),
    ("pairs", lambda: mixed_gemm(A, B.to(torch.uint8), ONE), ValueError, "b"),
    ("k", lambda: mixed_gemm(A, B.mT, ONE), ValueError, "b"),
    ("batches", lambda: mixed_gemm(A, B.expand(2, 256, 8), ONE), ValueError, "b"),
    ("vector", lambda: mixed_gemm(A[0], B, ONE), ValueError, "a"),
    ("factors", lambda: mixed_gemm(A, B, torch.ones(8)), ValueError, "scale_b"),
    ("groups", lambda: mixed_gemm(A, B, torch.ones(3, 8)), ValueError, "scale_b"),
    ("wider", lambda: mixed_gemm(A, B, ONE, out=torch.zeros(4, 9).bfloat16()), ValueError, "out"),
]


@pytest.mark.parametrize(("_what", "call", "kind", "name"), REFUSED)
def test_refused(_what: str, call: Callable[[], Any], kind: type[Exception], name: str) -> None:
    refusals.check(call, kind, name)


CHECKS = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
"""Those of opcheck that torch can do with numbers of 8 bits: it cannot compare schemas."""


@pytest.mark.parametrize("dtype", list(mixed_op.WEIGHTS))
def test_opcheck_and_shapes(calls: list[str], dtype: torch.dtype) -> None:
    b, _ = quantized(8, 256, dtype=dtype)
    torch.library.opcheck(torch.ops.schedgen.mixed_gemm.default, (A, b, ONE), test_utils=CHECKS)
    with FakeTensorMode():
        a = torch.empty(2, 5, 32, device="cuda", dtype=torch.bfloat16)
        w = torch.empty(7, 16 if dtype is torch.uint8 else 32, device="cuda", dtype=dtype)
        found = mixed_gemm(a, w.mT, torch.ones((), device="cuda"))
        assert (found.shape, found.dtype) == ((2, 5, 7), torch.bfloat16)


def test_compiled(calls: list[str]) -> None:
    def layer(a: Tensor, b: Tensor) -> Tensor:
        return mixed_gemm(a, b, ONE) + 1

    compiled: Any = torch.compile(layer, backend="eager", fullgraph=True)
    assert torch.equal(compiled(A, B), layer(A, B))


def test_no_gradients(calls: list[str]) -> None:
    a = A.clone().requires_grad_()
    with pytest.raises(SchedgenError, match="has no backward pass"):
        mixed_gemm(a, B, ONE).sum().backward()
    with pytest.raises(SchedgenError, match="out= and gradients"):
        mixed_gemm(a, B, ONE, out=torch.zeros(4, 8).bfloat16())


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("dtype", list(mixed_op.WEIGHTS))
@pytest.mark.parametrize(("m", "n", "k"), [(130, 136, 264), (5, 200, 136)])
def test_emulated(
    monkeypatch: pytest.MonkeyPatch, arch: str, dtype: torch.dtype, m: int, n: int, k: int
) -> None:
    """Bit by bit, in tiles of many rows and of few."""
    monkeypatch.setattr(checks, "devices", lambda **_: CPU)  # pyright: ignore
    monkeypatch.setattr(mixed_op, "architecture", lambda _: arch)  # pyright: ignore
    monkeypatch.setattr(mixed_op, "multiprocessors", lambda _: 2)  # pyright: ignore
    mixed_op._kernel.cache_clear()  # pyright: ignore[reportPrivateUsage]

    def launcher(device: torch.device, spec: str, **settings: str) -> Emulated:
        assert device == CPU
        return Emulated([], file_name(spec, arch, settings))

    monkeypatch.setattr(library, "launcher", launcher)
    a, (b, numbers) = activations(m, k), quantized(n, k, dtype=dtype)
    columns, groups = powers(1, n), powers(-(-k // 128), n)
    assert torch.equal(mixed_gemm(a, b, columns), rounded(a, numbers * columns))
    found = mixed_gemm(a, b, groups)
    assert torch.equal(found, rounded(a, numbers * of_groups(groups, k)))
