"""`scaled_gemm` without a GPU: on the CPU by torch, and in the emulator, exactly."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from schedgen.codegen.facts import file_name
from schedgen.driver.emulating import launched
from schedgen.errors import SchedgenError
from schedgen.kernels import checks, gemm, layouts, library, scaled_gemm, scaled_op, scaled_tiling
from schedgen.kernels.errors import ArgumentValueError, DeviceError
from schedgen.kernels.tile_sizes import Tile
from tests.kernels import refusals

E4M3, E8M0, E2M1 = torch.float8_e4m3fn, torch.float8_e8m0fnu, torch.float4_e2m1fn_x2
CPU = torch.device("cpu")
FORMATS = [(E4M3, E8M0), (E2M1, E8M0), (E2M1, E4M3)]
"""MXFP8, MXFP4, NVFP4."""


class Quantized:
    """Random numbers (batch, rows, k) in blocks with factors: small ones, so that sums are exact.

    ``numbers``: what they are in float64.
    """

    def __init__(self, dtype: torch.dtype, factor: torch.dtype, *shape: int, seed: int = 0) -> None:
        random = torch.Generator().manual_seed(seed)
        block = 16 if factor is E4M3 else 32
        *outer, rows, k = shape
        if dtype is E4M3:
            self.data = torch.randint(-4, 5, shape, generator=random).to(E4M3)
            values = self.data.double()
        else:
            codes = torch.randint(16, shape, generator=random)
            table = [0.0, 0.5, 1, 1.5, 2, 3, 4, 6]
            values = torch.tensor([*table, *(-x for x in table)]).double()[codes]
            pairs = (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)
            self.data = pairs.view(E2M1)
        blocks = -(-k // block)
        powers = 2.0 ** torch.randint(-2, 3, (*outer, rows, blocks), generator=random)
        self.numbers = values * powers.repeat_interleave(block, -1)[..., :k].double()
        self.scale = torch.stack(
            [blocked(one) for one in powers.reshape(-1, rows, blocks)]
        ).to(factor)  # fmt: skip


def blocked(scale: Tensor) -> Tensor:
    """Factors (rows, blocks) as cuBLAS has them: element (r, c) of 128 x 4 ones at byte
    16 (r % 32) + 4 (r // 32) + c.
    """
    rows, blocks = scale.shape
    down, across = -(-rows // 128), -(-blocks // 4)
    found = torch.ones(down, across, 512)
    for row in range(rows):
        for block in range(blocks):
            at = 16 * (row % 32) + 4 * (row % 128 // 32) + block % 4
            found[row // 128, block // 4, at] = scale[row, block]
    return found


class ByTorch:
    """Stands in for `Launcher`: only for factors of rows."""

    calls: ClassVar[list[str]] = []

    def __init__(self, name: str) -> None:
        self.name = name

    def launch(self, tensors: Sequence[Tensor], scalars: Sequence[float] = ()) -> None:
        self.calls.append(self.name)
        assert all(layouts.problem(tensor) is None for tensor in tensors)
        if "blockscaled" in self.name:
            return
        a, b, scale_a, scale_b, d = tensors
        if "whole" in self.name:
            factor = scale_a * scale_b * scalars[0]
            assert factor.shape == (len(a),)
            d.copy_(a.float() @ b.float().mT * factor[:, None, None])
            return
        if "blocks" in self.name:
            of_b = scale_b.repeat_interleave(128, -2)[..., : b.shape[-2], :]
            each = (s.repeat_interleave(128, -1)[..., : a.shape[-1]] for s in (scale_a.mT, of_b))
            a, b = (x.float() * factor for x, factor in zip((a, b), each, strict=True))
            d.copy_(a @ b.mT)
            return
        d.copy_(scale_a[..., None] * (a.float() @ b.float().mT) * scale_b[:, None])


class Emulated(ByTorch):
    """Executes kernels, with the race checker."""

    def launch(self, tensors: Sequence[Tensor], scalars: Sequence[float] = ()) -> None:
        arch = "sm_100a" if "sm_100a" in self.name else "sm_90a"
        report = launched(library.named(self.name).read_text("utf-8"), arch, tensors, scalars)
        assert not report.errors, report.text


def install(patch: pytest.MonkeyPatch, arch: str, kind: type[ByTorch]) -> None:
    patch.setattr(checks, "devices", lambda **_: CPU)  # pyright: ignore
    patch.setattr(scaled_op, "architecture", lambda _: arch)  # pyright: ignore
    patch.setattr(scaled_op, "multiprocessors", lambda _: 2)  # pyright: ignore
    scaled_op._kernel.cache_clear()  # pyright: ignore[reportPrivateUsage]

    def launcher(device: torch.device, spec: str, **settings: str) -> ByTorch:
        assert device == CPU
        return kind(file_name(spec, arch, settings))

    patch.setattr(library, "launcher", launcher)


@pytest.fixture
def torch_only(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the files that were launched."""
    monkeypatch.setattr(ByTorch, "calls", [])
    install(monkeypatch, "sm_90a", ByTorch)
    return ByTorch.calls


def small(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(seed)).to(E4M3)


def rounded(a: Tensor, b: Tensor) -> Tensor:
    """The product of a (..., m, k) and b (..., n, k), rounded once."""
    return (a.double() @ b.double().mT).to(torch.bfloat16)


ONE = torch.tensor(0.5)


@pytest.mark.parametrize("outer", [(), (2,), (2, 3)])
@pytest.mark.parametrize(("m", "n", "k"), [(5, 16, 32), (130, 40, 24), (1, 7, 5)])
def test_factors_of_rows(
    torch_only: list[str], outer: tuple[int, ...], m: int, n: int, k: int
) -> None:
    a, b = small(*outer, m, k), small(*outer, n, k, seed=1)
    rows, columns = 2.0 ** torch.randint(-2, 3, (*outer, m, 1)), torch.full((*outer, 1, n), 2.0)
    found = scaled_gemm(a, b.mT, rows, columns, alpha=0.5)
    assert torch.equal(found, rounded(a.double() * rows, b))
    assert all(name.startswith("gemm_fp8_sm_90a_e4m3") for name in torch_only)
    assert not any("whole" in name for name in torch_only)
    assert torch.equal(scaled_gemm(a, b.mT, rows, ONE), rounded(a.double() * rows / 2, b))


@pytest.mark.parametrize("outer", [(), (2,)])
def test_factors_of_operands(torch_only: list[str], outer: tuple[int, ...]) -> None:
    """One number each, of any shape, which the kernel reads itself."""
    a, b = small(*outer, 5, 32), small(*outer, 16, 32, seed=1)
    for one in (ONE, ONE.reshape(1, 1), torch.tensor([1.0, 0.5, 4.0])[1:2]):
        assert torch.equal(scaled_gemm(a, b.mT, one, ONE, alpha=2.0), rounded(a.double() / 2, b))
    assert torch_only == ["gemm_fp8_sm_90a_e4m3_whole_tile_n128.py"] * 3


def _wide(*shape: int, seed: int = 0) -> Tensor:
    return 2.0 ** torch.randint(-2, 3, shape, generator=torch.Generator().manual_seed(seed))


def _long_blocks(outer: tuple[int, ...], m: int, n: int, k: int) -> None:
    """Blocks of 128 along k, and of 128 rows of b."""
    a, b = small(*outer, m, k), small(*outer, n, k, seed=1)
    blocks = -(-k // 128)
    of_a, of_b = _wide(*outer, m, blocks), _wide(*outer, blocks, -(-n // 128), seed=1)
    found = scaled_gemm(a, b.mT, of_a, of_b, alpha=0.5)
    left = a.double() * of_a.repeat_interleave(128, -1)[..., :k] / 2
    right = of_b.repeat_interleave(128, -2)[..., :k, :].repeat_interleave(128, -1)[..., :n]
    assert torch.equal(found, rounded(left, b.double() * right.mT))
    assert torch.equal(scaled_gemm(a, b.mT, of_a, scaled_op.block_factors(of_b), alpha=0.5), found)


@pytest.mark.parametrize("outer", [(), (2,)])
@pytest.mark.parametrize(("m", "n", "k"), [(5, 130, 300), (130, 40, 136), (1, 7, 256)])
def test_long_blocks(torch_only: list[str], outer: tuple[int, ...], m: int, n: int, k: int) -> None:
    _long_blocks(outer, m, n, k)
    assert len(torch_only) == 2
    assert all(one.startswith("gemm_fp8_blocks_sm_90a_e4m3_blocks") for one in torch_only)


@pytest.mark.parametrize("outer", [(), (2,), (2, 3)])
def test_into_a_tensor(torch_only: list[str], outer: tuple[int, ...]) -> None:
    """Also one that no bulk copy can reach, and one whose batches do not follow each other."""
    a, b = small(*outer, 5, 32), small(*outer, 16, 32, seed=1)
    wanted = rounded(a.double() / 4, b)
    wider = torch.zeros(*outer, 7, 19).bfloat16()
    turned = torch.zeros(*outer, 16, 5).bfloat16()
    for out in (torch.empty_like(wanted), wider[..., 1:6, 1:17], turned.mT):
        assert scaled_gemm(a, b.mT, ONE, ONE, out=out) is out
        assert torch.equal(out, wanted)
    assert len(torch_only) == 3


def test_into_operands(torch_only: list[str]) -> None:
    memory = torch.zeros(4, 64, dtype=torch.uint8)
    a, out = memory.view(E4M3)[:, :32], memory.view(torch.bfloat16)[:, :4]
    with pytest.raises(ArgumentValueError, match="it overlaps a"):
        scaled_gemm(a, B, ONE, ONE, out=out)
    assert torch_only == []


@pytest.mark.parametrize("blocks", [False, True])
@pytest.mark.parametrize("into", [False, True])
def test_gemm_with_factors(torch_only: list[str], blocks: bool, into: bool) -> None:
    """The same as `scaled_gemm`, on the same kernel."""
    a, b = small(2, 5, 256), small(2, 136, 256, seed=1)
    shapes = ((2, 5, 2), (2, 2, 2)) if blocks else ((2, 5, 1), (2, 1, 136))
    of_a, of_b = (_wide(*shape, seed=n) for n, shape in enumerate(shapes))
    out = torch.empty(2, 5, 136).bfloat16() if into else None
    found = gemm(a, b.mT, alpha=0.5, scale_a=of_a, scale_b=of_b, out=out)
    assert torch.equal(found, scaled_gemm(a, b.mT, of_a, of_b, alpha=0.5))
    assert out is None or found is out
    assert len(torch_only) == 2
    assert len(set(torch_only)) == 1


def test_empty(torch_only: list[str]) -> None:
    assert not scaled_gemm(small(5, 0), small(0, 6), ONE, ONE).any()
    assert scaled_gemm(small(0, 8), small(8, 6), ONE, ONE).shape == (0, 6)
    out = torch.ones(5, 6).bfloat16()
    assert not scaled_gemm(small(5, 0), small(0, 6), ONE, ONE, out=out).any()
    assert torch_only == []


A, B = small(4, 32), small(4, 32, seed=1).mT
D, WIDER = torch.zeros(4, 4).bfloat16(), torch.zeros(4, 5).bfloat16()
MX = Quantized(E4M3, E8M0, 4, 32)
REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("bf16", lambda: scaled_gemm(A.bfloat16(), B, ONE, ONE), TypeError, "a"),
    ("mixed", lambda: scaled_gemm(A, B.to(torch.float8_e5m2), ONE, ONE), TypeError, "b"),
    ("k", lambda: scaled_gemm(A, A, ONE, ONE), ValueError, "b"),
    ("batches", lambda: scaled_gemm(A.expand(2, 4, 32), B, ONE, ONE), ValueError, "b"),
    ("vector", lambda: scaled_gemm(A[0], B, ONE, ONE), ValueError, "a"),
    ("alpha", lambda: scaled_gemm(A, B, ONE, ONE, alpha=float("inf")), ValueError, "alpha"),
    ("rows", lambda: scaled_gemm(A, B, torch.ones(4), ONE), ValueError, "scale_a"),
    ("columns", lambda: scaled_gemm(A, B, ONE, torch.ones(4, 1)), ValueError, "scale_b"),
    ("half", lambda: scaled_gemm(A, B, ONE.half(), ONE.half()), TypeError, "scale_a"),
    ("blocks and rows", lambda: scaled_gemm(A, B, MX.scale, ONE), TypeError, "scale_b"),
    ("one factor", lambda: gemm(A, B, scale_a=ONE), ValueError, "scale_b"),
    ("the other factor", lambda: gemm(A, B, scale_b=ONE), ValueError, "scale_a"),
    ("addend", lambda: gemm(A, B, D, scale_a=ONE, scale_b=ONE), ValueError, "c"),
    ("bias", lambda: gemm(A, B, bias=D[0], scale_a=ONE, scale_b=ONE), ValueError, "bias"),
    (
        "activation",
        lambda: gemm(A, B, activation="gelu", scale_a=ONE, scale_b=ONE),
        ValueError,
        "activation",
    ),
    (
        "factors of bf16",
        lambda: gemm(A.bfloat16(), B.bfloat16(), scale_a=ONE, scale_b=ONE),
        TypeError,
        "a",
    ),
    ("no factors", lambda: gemm(A, B), TypeError, "a"),
    ("half a result", lambda: scaled_gemm(A, B, ONE, ONE, out=D.half()), ValueError, "out"),
    ("a wider result", lambda: scaled_gemm(A, B, ONE, ONE, out=WIDER), ValueError, "out"),
    (
        "few blocks",
        lambda: scaled_gemm(A, B, MX.scale, MX.scale[..., :256]),
        ValueError,
        "scale_b",
    ),
    (
        "pairs with factors of rows",
        lambda: scaled_gemm(
            A.view(torch.uint8).view(E2M1), B.view(torch.uint8).view(E2M1), ONE, ONE
        ),
        TypeError,
        "scale_a",
    ),
]


@pytest.mark.parametrize(("_what", "call", "kind", "name"), REFUSED)
def test_refused(_what: str, call: Callable[[], Any], kind: type[Exception], name: str) -> None:
    refusals.check(call, kind, name)


def test_blocks_are_blackwells(torch_only: list[str]) -> None:
    with pytest.raises(DeviceError, match="factors of blocks are Blackwell's"):
        scaled_gemm(A, B, MX.scale, MX.scale)


CHECKS = ("test_autograd_registration", "test_faketensor", "test_aot_dispatch_dynamic")
"""Those of opcheck that torch can do with numbers of 8 bits: it cannot compare schemas."""


def test_opcheck_and_shapes(torch_only: list[str]) -> None:
    torch.library.opcheck(
        torch.ops.schedgen.scaled_gemm.default, (A, B, ONE, ONE, 1.0), test_utils=CHECKS
    )
    with FakeTensorMode():
        a, b = (torch.empty(2, 5, 32, device="cuda", dtype=E4M3) for _ in range(2))
        one = torch.ones((), device="cuda")
        found = scaled_gemm(a, b.mT, one, one)
        assert (found.shape, found.dtype) == ((2, 5, 5), torch.bfloat16)
        out = found.new_empty(2, 5, 5)
        assert gemm(a, b.mT, scale_a=one, scale_b=one, out=out) is out


def test_compiled(torch_only: list[str]) -> None:
    """`gemm` with factors and without are a call of an operator each."""

    def layer(a: Tensor, b: Tensor) -> Tensor:
        return gemm(a, b, scale_a=ONE, scale_b=ONE) + 1

    compiled: Any = torch.compile(layer, backend="eager", fullgraph=True)
    assert torch.equal(compiled(A, B), layer(A, B))


def test_no_gradients(torch_only: list[str]) -> None:
    scale = ONE.clone().requires_grad_()
    for call in (scaled_gemm(A, B, scale, ONE), gemm(A, B, scale_a=scale, scale_b=ONE)):
        with pytest.raises(SchedgenError, match="has no backward pass"):
            call.sum().backward()
    with pytest.raises(SchedgenError, match="out= and gradients"):
        gemm(A, B, scale_a=scale, scale_b=ONE, out=D.clone())


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_emulated_rows(monkeypatch: pytest.MonkeyPatch, arch: str) -> None:
    install(monkeypatch, arch, Emulated)
    a, b = small(130, 136), small(264, 136, seed=1)
    rows = 2.0 ** torch.randint(-2, 3, (130, 1))
    wanted = rounded(a.double() * rows / 2, b)
    assert torch.equal(scaled_gemm(a, b.mT, rows, ONE), wanted)
    out = torch.zeros(130, 272).bfloat16()[:, :264]
    assert torch.equal(gemm(a, b.mT, scale_a=rows, scale_b=ONE, out=out), wanted)
    many = torch.stack([a, a.flip(0)]), torch.stack([b, b.flip(0)])
    found = scaled_gemm(many[0], many[1].mT, ONE, ONE, alpha=2.0)  # a kernel for one number each
    assert torch.equal(found, rounded(many[0].double() / 2, many[1]))


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_emulated_long_blocks(monkeypatch: pytest.MonkeyPatch, arch: str) -> None:
    install(monkeypatch, arch, Emulated)
    _long_blocks((), 130, 136, 264)


def _always(patch: pytest.MonkeyPatch, tile: Tile) -> None:
    patch.setattr(scaled_tiling, "best", lambda *_: tile)  # pyright: ignore


@pytest.mark.slow
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("tile", scaled_tiling.TILES["gemm_fp8"]["sm_90a"][2:], ids=str)
def test_emulated_in_turn(monkeypatch: pytest.MonkeyPatch, tile: Tile, whole: bool) -> None:
    """Ends of tiles, and several of them for each team of a CTA, one more for the first."""
    install(monkeypatch, "sm_90a", Emulated)
    _always(monkeypatch, tile)
    a, b = small(260, 136), small(tile.columns + 72, 136, seed=1)
    rows = ONE if whole else _wide(260, 1)
    wanted = rounded(a.double() * rows / 2, b)
    assert torch.equal(scaled_gemm(a, b.mT, rows, ONE), wanted)


@pytest.mark.slow
@pytest.mark.parametrize("outer", [(), (2,)])
def test_emulated_long_blocks_of_three_warpgroups(
    monkeypatch: pytest.MonkeyPatch, outer: tuple[int, ...]
) -> None:
    install(monkeypatch, "sm_90a", Emulated)
    _always(monkeypatch, scaled_tiling.TILES["gemm_fp8_blocks"]["sm_90a"][1])
    _long_blocks(outer, 200, 136, 264)


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "factor"), FORMATS)
@pytest.mark.parametrize(("batch", "m", "n", "k"), [(1, 130, 264, 160), (2, 5, 136, 32)])
def test_emulated_blocks(
    monkeypatch: pytest.MonkeyPatch,
    dtype: torch.dtype,
    factor: torch.dtype,
    batch: int,
    m: int,
    n: int,
    k: int,
) -> None:
    """Bit by bit, in tiles of both widths, with ends of blocks, groups and tiles."""
    install(monkeypatch, "sm_100a", Emulated)
    a = Quantized(dtype, factor, batch, m, k)
    b = Quantized(dtype, factor, batch, n, k, seed=1)
    found = scaled_gemm(a.data, b.data.mT, a.scale, b.scale, alpha=0.5)
    assert torch.equal(found, rounded(a.numbers / 2, b.numbers))
