"""Products of 16-bit activations and weights of 8 or 4 bits: ``torch.ops.schedgen.mixed_gemm``.

Weights are read as they are, half of the bytes that bfloat16 has, or a quarter, and converted on
the way to the tensor cores, which multiply 16-bit numbers. Factors of columns are applied to the
result in float32; those of groups along k to the weights, which are then rounded to bfloat16.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from schedgen.kernels import checks, layouts, library, scaled_tiling
from schedgen.kernels import gemm_arguments as arguments
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.launcher import Launcher, architecture, multiprocessors
from schedgen.kernels.operators import Operator
from schedgen.layouts import PACKED

SPEC = "gemm_mixed"
WEIGHTS = {torch.float8_e4m3fn: "e4m3", torch.int8: "i8", torch.uint8: "i4x2"}
"""Data types of weights, as specs call them."""
FACTORS = ("channels", "groups")
"""Of columns of b, and of `GROUP` numbers along k of these."""
GROUP = 128
ROWS, COLUMNS = (128, 64, 16), 128
"""Rows of output tiles that there are kernels for, and their columns."""


def mixed_gemm(a: Tensor, b: Tensor, scale_b: Tensor, *, out: Tensor | None = None) -> Tensor:
    """a @ (scale_b b) for narrow weights b, accumulated in float32 and rounded once to bfloat16.

    Weights are read along k, so ``b`` is the transposed view of a row-major matrix as a rule, such
    as ``weight.mT``; others are copied. There is no backward pass.

    Args:
        a: (..., m, k), bfloat16.
        b: (..., k, n), float8_e4m3fn or int8, with the batch dimensions of a, or without any; or
            (..., k / 2, n), uint8: two whole numbers from -8 to 7 that are neighbours along k, in
            two's complement, the first one in the lower half.
        scale_b: float32, of one element or (..., 1, n), applied to the result; or
            (..., ceil(k / 128), n), a number for each 128 along k, which is multiplied into the
            weights before they are rounded to bfloat16. Batch dimensions as of b.
        out: where the result is written; bfloat16, of the result's shape. It may share no memory
            with the other tensors.

    Returns:
        (..., m, n), bfloat16, contiguous; or ``out``.

    Raises:
        ArgumentValueError: a ValueError; shapes or devices that do not fit.
        ArgumentTypeError: a TypeError; a data type that does not fit.
        DeviceError: no kernel for this GPU, or no toolchain.
    """
    if out is None:
        return _mixed_gemm(a, b, scale_b)
    arguments.refuse_gradients(a, b, scale_b, out)
    _mixed_gemm_out(a, b, scale_b, out)
    return out


# -- arguments ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Of a product: the result's ``shape``; batches of b, with ``m`` rows of a each; ``k`` numbers
    are ``elements`` of b.
    """

    shape: torch.Size
    batch: int
    m: int
    n: int
    k: int
    elements: int
    factors: str


def _sizes(a: Tensor, b: Tensor, scale_b: Tensor) -> _Sizes:
    """Raises ArgumentValueError or ArgumentTypeError unless arguments fit together."""
    for name, tensor, known, fix in (
        ("a", a, (torch.bfloat16,), "a.to(torch.bfloat16)"),
        ("b", b, tuple(WEIGHTS), "quantize it, or use gemm"),
        ("scale_b", scale_b, (torch.float32,), "scale_b.float()"),
    ):
        if tensor.dtype not in known:
            got = f"its dtype is {tensor.dtype}"
            raise ArgumentTypeError(name, got, ", ".join(map(str, known)), fix)
    for name, tensor, shape in (("a", a, "(..., m, k)"), ("b", b, "(..., k, n)")):
        if tensor.dim() < 2:
            got = f"it has {tensor.dim()} dimensions"
            raise ArgumentValueError(name, got, shape, f"{name}.unsqueeze(...)")
    (*outer, m, k), (*of_b, k_b, n) = a.shape, b.shape
    numbers = PACKED.get(WEIGHTS[b.dtype], 1)
    if numbers * k_b != k:
        got, fix = f"its shape is {tuple(b.shape)}", "transpose an operand with .mT"
        rows = k if numbers == 1 else f"{k} / {numbers}"
        raise ArgumentValueError("b", got, f"(..., {rows}, n), as a is {tuple(a.shape)}", fix)
    if of_b and of_b != outer:
        got, fix = f"its shape is {tuple(b.shape)}", "expand an operand"
        allowed = f"the batch dimensions of a, {tuple(outer)}, or none"
        raise ArgumentValueError("b", got, allowed, fix)
    batch = math.prod(of_b)
    rows = m if of_b else m * math.prod(outer)
    columns, groups = (*of_b, 1, n), (*of_b, -(-k // GROUP), n)
    by_column = scale_b.numel() == 1 or scale_b.shape == columns
    if not by_column and scale_b.shape != groups:
        got = f"its shape is {tuple(scale_b.shape)}"
        fix = f"scale_b.reshape{columns}"
        raise ArgumentValueError("scale_b", got, f"{columns}, {groups}, or one element", fix)
    factors = FACTORS[0] if by_column else FACTORS[1]
    return _Sizes(torch.Size((*outer, m, n)), batch, rows, n, k, k_b, factors)


# -- computation ----------------------------------------------------------------------------------


def _compute(
    device: torch.device, a: Tensor, b: Tensor, scale_b: Tensor, sizes: _Sizes, out: Tensor
) -> None:
    """Writes the result into ``out``; all arguments fit together."""
    if not out.numel():
        return
    if not sizes.k:  # an empty sum
        out.zero_()
        return
    rows = layouts.accessible(a.reshape(sizes.batch, sizes.m, sizes.k))
    weights = layouts.accessible(b.mT.reshape(sizes.batch, sizes.n, sizes.elements))
    weights = _whole_tiles(weights, sizes.k) if b.dtype is torch.uint8 else weights
    if sizes.factors == FACTORS[0]:
        spread = scale_b.reshape(()) if scale_b.numel() == 1 else scale_b
        spread = spread.expand(*b.shape[:-2], 1, sizes.n)
        factors = spread.reshape(sizes.batch, sizes.n).contiguous()
    else:
        factors = scale_b.reshape(sizes.batch, -1, sizes.n)
    target = layouts.merged(out, sizes.batch)
    direct = target is not None and layouts.problem(target) is None
    if target is None or not direct:
        target = layouts.room(out, (sizes.batch, sizes.m, sizes.n))
    shape = sizes.batch, sizes.m, sizes.n, sizes.k
    run = _kernel(device, WEIGHTS[b.dtype], sizes.factors, shape)
    run.launch((rows, weights, layouts.accessible(factors), target), ())
    if not direct:
        out.copy_(target.reshape(out.shape))


def _whole_tiles(pairs: Tensor, k: int) -> Tensor:
    """(batch, n, elements) of numbers of 4 bits, filled up with zeros to whole tiles of 128 numbers
    along k, which the kernel counts."""
    elements = -(-k // 128) * 64
    if pairs.shape[-1] == elements:
        return pairs
    whole = pairs.new_zeros((*pairs.shape[:-1], elements))
    whole.narrow(-1, 0, pairs.shape[-1]).copy_(pairs)
    return whole


def settings(weights: str, factors: str, rows: int) -> dict[str, str]:
    """Settings of a shipped kernel; ``rows`` of its output tiles."""
    more = {} if factors == FACTORS[0] else {"factors": factors}
    more |= {} if rows == ROWS[0] else {"tile_m": str(rows)}
    return {"weights": weights, **more}


@lru_cache(1024)
def _kernel(
    device: torch.device, weights: str, factors: str, shape: tuple[int, int, int, int]
) -> Launcher:
    """The kernel for a shape: batch, m, n, k. Raises DeviceError."""
    arch, sms = architecture(device), multiprocessors(device)
    cycles = {
        rows: scaled_tiling.iteration(SPEC, arch, tuple(settings(weights, factors, rows).items()))
        for rows in ROWS
    }

    def needed(rows: int) -> float:
        batch, m, n, k = shape
        tiles = batch * -(-m // rows) * -(-n // COLUMNS)
        return -(-tiles // sms) * (-(-k // GROUP) + scaled_tiling.AROUND) * cycles[rows]

    return library.launcher(device, SPEC, **settings(weights, factors, min(ROWS, key=needed)))


# -- the operator ---------------------------------------------------------------------------------


def _fake(a: Tensor, b: Tensor, scale_b: Tensor) -> Tensor:
    return a.new_empty(_sizes(a, b, scale_b).shape)


def _run(a: Tensor, b: Tensor, scale_b: Tensor) -> Tensor:
    sizes = _sizes(a, b, scale_b)
    device = checks.devices(a=a, b=b, scale_b=scale_b)
    out = a.new_empty(sizes.shape)
    _compute(device, a, b, scale_b, sizes, out)
    return out


def _fake_out(a: Tensor, b: Tensor, scale_b: Tensor, out: Tensor) -> None:
    arguments.check_out(out, _sizes(a, b, scale_b).shape, torch.bfloat16)


def _run_out(a: Tensor, b: Tensor, scale_b: Tensor, out: Tensor) -> None:
    _fake_out(a, b, scale_b, out)
    device = checks.devices(a=a, b=b, scale_b=scale_b, out=out)
    if out.numel() and not out.is_meta:  # where calls are planned, each is looked at again
        arguments.check_apart(out, a=a, b=b, scale_b=scale_b)
    _compute(device, a, b, scale_b, _sizes(a, b, scale_b), out)


_TAKES = "Tensor a, Tensor b, Tensor scale_b"
_mixed_gemm = Operator(f"mixed_gemm({_TAKES}) -> Tensor", _run, _fake)
_mixed_gemm_out = Operator(f"mixed_gemm_out({_TAKES}, Tensor(a!) out) -> ()", _run_out, _fake_out)
