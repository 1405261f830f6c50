"""Products of 8-bit and 4-bit operands with factors: ``torch.ops.schedgen.scaled_gemm``.

Factors are float32 numbers of whole operands or of their rows, which the epilogue multiplies by; of
blocks of 128 along k, whose products are added up in registers; or 8-bit numbers of blocks of 16 or
32, which Blackwell's tensor cores read.
Arguments and layouts are those of ``torch._scaled_mm``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from schedgen.kernels import checks, layouts, library, scaled_tiling
from schedgen.kernels import gemm_arguments as arguments
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError
from schedgen.kernels.launcher import Launcher, architecture, multiprocessors
from schedgen.kernels.operators import Operator
from schedgen.kernels.scaled_tiling import BLOCKS, LONG, ROWS, WIDE

LONG_SETTINGS = {"factors_b": "blocks"}
"""How `LONG` is made: with a factor for each `WIDE` rows of B."""
NUMBERS = {torch.float8_e4m3fn: 1, torch.float4_e2m1fn_x2: 2}
"""Data types of operands, and how many numbers an element is."""
BLOCK = {
    (torch.float8_e4m3fn, torch.float8_e8m0fnu): 32,
    (torch.float4_e2m1fn_x2, torch.float8_e8m0fnu): 32,
    (torch.float4_e2m1fn_x2, torch.float8_e4m3fn): 16,
}
"""Data types of operands and of factors of their blocks, and numbers in a block: MXFP8, MXFP4 and
NVFP4."""
NAMES = {
    torch.float8_e4m3fn: "e4m3",
    torch.float4_e2m1fn_x2: "e2m1x2",
    torch.float8_e8m0fnu: "e8m0",
}
"""Data types as specs call them."""
_GROUP = 512
"""Bytes of factors for 128 rows and 4 blocks."""


def scaled_gemm(
    a: Tensor,
    b: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    *,
    alpha: float = 1.0,
    out: Tensor | None = None,
) -> Tensor:
    """alpha * (scale_a a) @ (scale_b b), accumulated in float32 and rounded once to bfloat16.

    Operands are read along k, so ``b`` is the transposed view of a row-major matrix as a rule,
    such as ``weight.mT``; others are copied. There is no backward pass.

    Args:
        a: (..., m, k), float8_e4m3fn; or float4_e2m1fn_x2, whose elements are two numbers each,
            with factors of blocks.
        b: (..., k, n), of the same type, with the same batch dimensions.
        scale_a: float32, of one element or (..., m, 1); or (..., m, k / 128), a number for each
            128 along k; or factors of blocks of 32 numbers along k (float8_e8m0fnu), or of 16
            numbers of 4 bits (float8_e4m3fn), in the layout of cuBLAS and ``torch._scaled_mm``:
            for each batch, 128 rows and 4 blocks 512 bytes, in any shape, contiguous. What fills
            up rows and blocks may be any number.
        scale_b: the same of b: of one element or (..., 1, n); (..., k / 128, n / 128), a number for
            each block of 128 x 128, best as `block_factors` has them; or of blocks of its columns.
        alpha: factor of the product.
        out: where the result is written; bfloat16, of the result's shape. It may share no memory
            with the other tensors.

    Returns:
        (..., m, n), bfloat16, contiguous; or ``out``.

    Raises:
        ArgumentValueError: a ValueError; shapes, devices or numbers that do not fit.
        ArgumentTypeError: a TypeError; a data type that does not fit.
        DeviceError: no kernel for this GPU, such as for factors of blocks on Hopper.
    """
    if out is None:
        return _scaled_gemm(a, b, scale_a, scale_b, alpha)
    arguments.refuse_gradients(a, b, scale_a, scale_b, out)
    _scaled_gemm_out(a, b, scale_a, scale_b, alpha, out)
    return out


def block_factors(scale_b: Tensor) -> Tensor:
    """Factors of blocks of a right operand as kernels read them, for `scaled_gemm`: along k, as
    ``torch._scaled_mm`` takes them.

    `scaled_gemm` copies others in each call; those of weights need that once.

    Args:
        scale_b: (..., k / 128, n / 128), float32, a number for each block of 128 x 128.

    Returns:
        The same, or a copy; numbers along k lie side by side.

    Raises:
        ArgumentValueError, ArgumentTypeError: a ValueError and a TypeError; other shapes or types.
    """
    if scale_b.dtype is not torch.float32:
        got = f"its dtype is {scale_b.dtype}"
        raise ArgumentTypeError("scale_b", got, "torch.float32", "scale_b.float()")
    if scale_b.dim() < 2:
        got = f"it has {scale_b.dim()} dimensions"
        raise ArgumentValueError("scale_b", got, "(..., k / 128, n / 128)", "reshape it")
    return layouts.accessible(scale_b.mT).mT


# -- arguments ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Of a product: ``batch``, ``m``, ``n``, ``k`` in elements; ``block``: numbers that share a
    factor, 0 if factors are of rows, `WIDE` if they are float32.
    """

    shape: torch.Size
    batch: int
    m: int
    n: int
    k: int
    block: int

    def groups(self, numbers: int) -> int:
        """Groups of 4 blocks along k."""
        return -(-self.k * numbers // (4 * self.block))


def _sizes(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, alpha: float) -> _Sizes:
    """Raises ArgumentValueError or ArgumentTypeError unless arguments fit together."""
    checks.number("alpha", alpha)
    block = _block(a, b, scale_a, scale_b)
    for name, tensor, shape in (("a", a, "(..., m, k)"), ("b", b, "(..., k, n)")):
        if tensor.dim() < 2:
            got = f"it has {tensor.dim()} dimensions"
            raise ArgumentValueError(name, got, shape, f"{name}.unsqueeze(...)")
    (*outer, m, k), (*other, k_b, n) = a.shape, b.shape
    if k_b != k:
        got, fix = f"its shape is {tuple(b.shape)}", "transpose an operand with .mT"
        raise ArgumentValueError("b", got, f"(..., {k}, n), as a is {tuple(a.shape)}", fix)
    if outer != other:
        got, fix = f"its shape is {tuple(b.shape)}", "expand an operand"
        raise ArgumentValueError("b", got, f"the batch dimensions of a, {tuple(outer)}", fix)
    found = _Sizes(torch.Size((*outer, m, n)), math.prod(outer), m, n, k, block)
    if not block and _wide(found, scale_a, scale_b):
        return replace(found, block=WIDE)
    for name, scale, count in (("scale_a", scale_a, m), ("scale_b", scale_b, n)):
        _check_scale(name, scale, count, found, NUMBERS[a.dtype])
    return found


def _wide(sizes: _Sizes, scale_a: Tensor, scale_b: Tensor) -> bool:
    """Whether float32 factors are of blocks of `WIDE` numbers along k, and of as many rows of b."""
    outer, blocks = sizes.shape[:-2], -(-sizes.k // WIDE)
    of_b = *outer, blocks, -(-sizes.n // WIDE)
    rows = scale_b.numel() == 1 or scale_b.shape == (*outer, 1, sizes.n)
    return scale_a.shape == (*outer, sizes.m, blocks) and scale_b.shape == of_b and not rows


def _block(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor) -> int:
    """Numbers that share a factor, by the data types."""
    if a.dtype not in NUMBERS:
        known = ", ".join(map(str, NUMBERS))
        raise ArgumentTypeError("a", f"its dtype is {a.dtype}", known, "quantize it")
    for name, tensor, first, like in (("b", b, "a", a), ("scale_b", scale_b, "scale_a", scale_a)):
        if tensor.dtype != like.dtype:
            got = f"its dtype is {tensor.dtype}"
            allowed = f"{like.dtype}, the dtype of {first}"
            raise ArgumentTypeError(name, got, allowed, f"quantize {name} like {first}")
    if scale_a.dtype is torch.float32 and NUMBERS[a.dtype] == 1:
        return 0
    block = BLOCK.get((a.dtype, scale_a.dtype))
    if block is None:
        known = [str(scale) for dtype, scale in BLOCK if dtype is a.dtype]
        known += ["torch.float32"] if NUMBERS[a.dtype] == 1 else []
        got, fix = f"its dtype is {scale_a.dtype}", "quantize a with such factors"
        raise ArgumentTypeError("scale_a", got, f"{', '.join(known)} beside {a.dtype}", fix)
    return block


def _check_scale(name: str, scale: Tensor, count: int, sizes: _Sizes, numbers: int) -> None:
    got = f"its shape is {tuple(scale.shape)}"
    if sizes.block:
        wanted = sizes.batch * -(-count // 128) * sizes.groups(numbers) * _GROUP
        if scale.numel() != wanted:
            allowed = f"{wanted} elements: {_GROUP} for 128 rows and 4 blocks"
            raise ArgumentValueError(name, got, allowed, "lay it out as torch._scaled_mm has it")
        return
    outer = sizes.shape[:-2]
    shape = (*outer, count, 1) if name == "scale_a" else (*outer, 1, count)
    if scale.numel() != 1 and scale.shape != shape:
        raise ArgumentValueError(name, got, f"{shape}, or one element", f"{name}.reshape{shape}")


# -- computation ----------------------------------------------------------------------------------


def _compute(
    device: torch.device,
    operands: tuple[Tensor, Tensor],
    scales: tuple[Tensor, Tensor],
    alpha: float,
    sizes: _Sizes,
    out: Tensor,
) -> None:
    """Writes the result into ``out``; all arguments fit together."""
    if not out.numel():
        return
    if not sizes.k:  # an empty sum
        out.zero_()
        return
    a, b = operands[0], operands[1].mT
    dtype, numbers = a.dtype, NUMBERS[a.dtype]
    outer = sizes.shape[:-2]
    if numbers > 1:
        a, b = a.view(torch.uint8), _bytes(b)
    rows, columns = (layouts.accessible(layouts.batches(one, outer)) for one in (a, b))
    target = layouts.merged(out, sizes.batch) if outer else out.unsqueeze(0)
    direct = target is not None and layouts.problem(target) is None
    if target is None or not direct:
        target = layouts.room(out, (sizes.batch, sizes.m, sizes.n))
    wide = sizes.block == WIDE
    whole = not sizes.block and all(scale.numel() == 1 for scale in scales)
    more = {"factor": NAMES[scales[0].dtype]} if sizes.block and not wide else {}
    more |= {"factors": "whole"} if whole else {}
    more |= LONG_SETTINGS if wide else {}
    spec = LONG if wide else BLOCKS if sizes.block else ROWS
    shape = sizes.batch, sizes.m, sizes.n, sizes.k
    run = _kernel(device, spec, dtype, tuple(more.items()), shape)
    if wide:
        run.launch((rows, columns, *_of_long_blocks(*scales, sizes, alpha), target), ())
    elif sizes.block:
        factors = (
            _of_blocks(scale, sizes, count, numbers)
            for scale, count in zip(scales, (sizes.m, sizes.n), strict=True)
        )
        run.launch((rows, columns, *factors, target), (alpha,))
    elif whole:
        factors = (
            layouts.accessible(scale.reshape(1).expand(sizes.batch).contiguous())
            for scale in scales
        )
        run.launch((rows, columns, *factors, target), (alpha,))
    else:
        first = scales[0] if alpha == 1 else scales[0] * alpha
        factors = (
            layouts.accessible(
                _spread(scale, (*outer, *shape)).reshape(sizes.batch, -1).contiguous()
            )
            for scale, shape in ((first, (sizes.m, 1)), (scales[1], (1, sizes.n)))
        )
        run.launch((rows, columns, *factors, target), ())
    if not direct:
        out.copy_(target.reshape(out.shape))


def _spread(scale: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Factors of rows; one of a whole operand may have any number of dimensions."""
    return (scale.reshape(()) if scale.numel() == 1 else scale).expand(shape)


def _bytes(b: Tensor) -> Tensor:
    """(..., n, k) of pairs of numbers as bytes."""
    return (b if b.stride(-1) == 1 else b.contiguous()).view(torch.uint8)


def _of_long_blocks(
    scale_a: Tensor, scale_b: Tensor, sizes: _Sizes, alpha: float
) -> tuple[Tensor, Tensor]:
    """Factors of A, (batch, k / `WIDE`, m), and of B, (batch, n / `WIDE`, k / `WIDE`)."""
    outer = sizes.shape[:-2]
    first = (scale_a if alpha == 1 else scale_a * alpha).mT
    both = (layouts.batches(scales, outer) for scales in (first, scale_b.mT))
    of_a, of_b = map(layouts.accessible, both)
    return of_a, of_b


def _of_blocks(scale: Tensor, sizes: _Sizes, count: int, numbers: int) -> Tensor:
    """Factors as kernels take them: batch, 128 rows each, 32 lanes for each 4 blocks, 16 bytes."""
    shape = (sizes.batch, -(-count // 128), 32 * sizes.groups(numbers), 16)
    return layouts.accessible(scale.contiguous().view(shape))


@lru_cache(1024)
def _kernel(
    device: torch.device,
    spec: str,
    dtype: torch.dtype,
    more: tuple[tuple[str, str], ...],
    shape: tuple[int, int, int, int],
) -> Launcher:
    """The kernel with ``more`` settings for a shape: batch, m, n, k. Raises DeviceError."""
    arch = architecture(device)
    kind = (("dtype", NAMES[dtype]), *more)
    tile = scaled_tiling.best(spec, arch, kind, shape, multiprocessors(device))
    return library.launcher(device, spec, **dict(kind), **scaled_tiling.settings(spec, arch, tile))


# -- the operator ---------------------------------------------------------------------------------


def _fake(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, alpha: float) -> Tensor:
    sizes = _sizes(a, b, scale_a, scale_b, alpha)
    return a.new_empty(sizes.shape, dtype=torch.bfloat16)


def _run(a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, alpha: float) -> Tensor:
    sizes = _sizes(a, b, scale_a, scale_b, alpha)
    device = checks.devices(a=a, b=b, scale_a=scale_a, scale_b=scale_b)
    out = a.new_empty(sizes.shape, dtype=torch.bfloat16)
    _compute(device, (a, b), (scale_a, scale_b), alpha, sizes, out)
    return out


def _fake_out(
    a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, alpha: float, out: Tensor
) -> None:
    sizes = _sizes(a, b, scale_a, scale_b, alpha)
    arguments.check_out(out, sizes.shape, torch.bfloat16)


def _run_out(
    a: Tensor, b: Tensor, scale_a: Tensor, scale_b: Tensor, alpha: float, out: Tensor
) -> None:
    _fake_out(a, b, scale_a, scale_b, alpha, out)
    device = checks.devices(a=a, b=b, scale_a=scale_a, scale_b=scale_b, out=out)
    if out.numel() and not out.is_meta:  # where calls are planned, each is looked at again
        arguments.check_apart(out, a=a, b=b, scale_a=scale_a, scale_b=scale_b)
    sizes = _sizes(a, b, scale_a, scale_b, alpha)
    _compute(device, (a, b), (scale_a, scale_b), alpha, sizes, out)


_TAKES = "Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, float alpha"
_UNITS = ("alpha",)  # is multiplied into factors, unless it is 1
_scaled_gemm = Operator(f"scaled_gemm({_TAKES}) -> Tensor", _run, _fake, units=_UNITS)
_scaled_gemm_out = Operator(
    f"scaled_gemm_out({_TAKES}, Tensor(a!) out) -> ()", _run_out, _fake_out, units=_UNITS
)
