"""Products with more around them on a GPU, beside torch.compile and torch.

    python benchmarks/epilogues.py [--only rotary dropout quantized cross_entropy mixed]
                                   [--seconds S] [--check] [--save] [--kernels]

Layers with 4096 columns: ``rotary`` are queries of 32 heads of 128 columns, turned by an angle of
each token (`gemm_rotary`), ``dropout`` a layer a tenth of whose results are dropped before a
residual is added (`gemm_dropout`), ``quantized`` one whose results are rounded to float8_e4m3fn
with a factor for each 128 columns of a row (`quantized_gemm`), ``cross_entropy`` the sum of losses
over a vocabulary, without gradients (`linear_cross_entropy`), ``mixed`` products of bfloat16 and
weights of 8 or 4 bits with a factor for each 128 along k (`mixed_gemm`). Peers compute the same:
torch ("torch"), torch.compile of that, and torch's products with weights of 4 bits; of ``mixed``,
torch's product of weights in bfloat16, too ("torch bf16"), which reads two to four times as many
bytes. quack 0.6.5 has a cross entropy without logits, which cannot be imported with the version of
CuTe DSL that everything else here is for.

Errors are distances in the norm from float64, in the first `CHECKED` rows. ``--save`` keeps all
rows in ``results/epilogues.json`` after each case, ``--check`` asks that results are right and the
same bits twice: exit status 1 if not. A case begins only before ``--seconds`` are over. Kernels are
compiled on their first call; ``--kernels`` prints the names of those that are needed, without a
GPU, which ``schedgen build NAME ... --target h200`` compiles ahead.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from beside import Case, Problem, Row, locked, parser, run
from torch import Tensor
from torch.nn import functional

from schedgen.benchmarks import timing
from schedgen.kernels import (
    gemm_dropout,
    gemm_rotary,
    linear_cross_entropy,
    mixed_gemm,
    quantized_gemm,
)

PARTS = ("rotary", "dropout", "quantized", "cross_entropy", "mixed")
SPECS = {
    "rotary": ("gemm_rotary",),
    "dropout": ("gemm_dropout",),
    "quantized": ("gemm_quantized",),
    "cross_entropy": ("gemm_lse",),
    "mixed": ("gemm_mixed",),
}
HIDDEN, HEADS, HEAD_DIM = 4096, 32, 128
TOKENS = (512, 2048, 8192)
FEW = (16, 128, 1024)
"""Tokens of products with narrow weights, for which reading these is what takes time."""
INNER = 14336
VOCABULARIES = (32000, 128256)
WEIGHTS = ("e4m3", "i8", "i4x2")
WIDE = 128
DROPPED, SEED = 0.1, 7
CHECKED = 128
LARGEST, LEAST = 448.0, 1e-4
"""Of e4m3, and of the magnitudes that factors are made of."""
ARCH, DEVICE = "sm_90a", "cuda"


def normal(seed: int, *shape: int) -> Tensor:
    """In bfloat16."""
    make = torch.Generator(DEVICE).manual_seed(seed)
    return torch.randn(shape, generator=make, device=DEVICE, dtype=torch.bfloat16)


def weight(rows: int, columns: int) -> Tensor:
    return normal(1, rows, columns) / columns**0.5


# -- rotary ---------------------------------------------------------------------------------------


def turned(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """(m, heads, head_dim), the first half of each head beside its second half."""
    first, second = x.unflatten(-1, (-1, HEAD_DIM)).chunk(2, -1)
    cosine, sine = cosine[:, None], sine[:, None]
    both = (cosine * first - sine * second, cosine * second + sine * first)
    return torch.cat(both, -1)


def rotary(tokens: int) -> Problem:
    x, w = normal(0, tokens, HIDDEN), weight(HEADS * HEAD_DIM, HIDDEN)
    steps = torch.arange(HEAD_DIM // 2, device=DEVICE)
    angles = torch.arange(tokens, device=DEVICE)[:, None] / 10000 ** (steps * 2 / HEAD_DIM)
    cosine, sine = angles.cos(), angles.sin()

    def layer(x: Tensor, w: Tensor) -> Tensor:
        return turned(functional.linear(x, w), cosine, sine).bfloat16()

    compiled = torch.compile(layer, dynamic=False)
    found: dict[str, timing.Run] = {
        timing.OURS: lambda: gemm_rotary(x, w.mT, cosine, sine),
        "torch.compile": lambda: compiled(x, w),
        "torch": lambda: layer(x, w),
    }
    wide = x[:CHECKED].double() @ w.double().mT
    wanted = turned(wide, cosine[:CHECKED].double(), sine[:CHECKED].double())
    return Problem(found, partial(_rows, wanted), 2.0 * tokens * w.numel())


def _rows(wanted: Tensor, found: Tensor) -> float:
    return timing.error(found[: len(wanted)], wanted)


# -- dropout --------------------------------------------------------------------------------------


def dropped(tokens: int) -> Problem:
    x, w, residual = normal(0, tokens, HIDDEN), weight(HIDDEN, HIDDEN), normal(3, tokens, HIDDEN)

    def layer(x: Tensor, w: Tensor) -> Tensor:
        return residual + functional.dropout(functional.linear(x, w), DROPPED)

    compiled = torch.compile(layer, dynamic=False)
    found: dict[str, timing.Run] = {
        timing.OURS: lambda: gemm_dropout(x, w.mT, DROPPED, SEED, residual=residual),
        "torch.compile": lambda: compiled(x, w),
        "torch": lambda: layer(x, w),
    }
    least = residual[:CHECKED].double()
    most = least + x[:CHECKED].double() @ w.double().mT / (1 - DROPPED)

    def error(found: Tensor) -> float:
        """Of what the nearer of both would be, as everybody drops other elements."""
        found = found[:CHECKED].double()
        nearer = torch.where((found - least).abs() < (found - most).abs(), least, most)
        return timing.error(found, nearer)

    return Problem(found, error, 2.0 * tokens * w.numel())


# -- quantized ------------------------------------------------------------------------------------


def quantized(tokens: int) -> Problem:
    x, w = normal(0, tokens, HIDDEN), weight(INNER, HIDDEN)

    def layer(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        blocks = functional.linear(x, w).float().unflatten(-1, (-1, WIDE))
        factors = blocks.abs().amax(-1).clamp(min=LEAST) / LARGEST
        return (blocks / factors[..., None]).to(torch.float8_e4m3fn).flatten(-2), factors

    compiled = torch.compile(layer, dynamic=False)
    found: dict[str, timing.Run] = {
        timing.OURS: lambda: quantized_gemm(x, w.mT),
        "torch.compile": lambda: compiled(x, w),
        "torch": lambda: layer(x, w),
    }
    wanted = x[:CHECKED].double() @ w.double().mT

    def error(found: tuple[Tensor, Tensor]) -> float:
        """Of the numbers that they stand for; half a step of e4m3 is 2^-4 of a number at most."""
        d, factors = (one[:CHECKED].double() for one in found)
        return timing.error((d.unflatten(-1, (-1, WIDE)) * factors[..., None]).flatten(-2), wanted)

    return Problem(found, error, 2.0 * tokens * w.numel())


# -- cross entropy --------------------------------------------------------------------------------


def cross_entropy(tokens: int, vocabulary: int) -> Problem:
    x, w = normal(0, tokens, HIDDEN), weight(vocabulary, HIDDEN)
    make = torch.Generator(DEVICE).manual_seed(2)
    target = torch.randint(vocabulary, (tokens,), generator=make, device=DEVICE)

    def layer(x: Tensor, w: Tensor) -> Tensor:
        return functional.cross_entropy(functional.linear(x, w).float(), target, reduction="sum")

    compiled = torch.compile(layer, dynamic=False)
    found: dict[str, timing.Run] = {
        timing.OURS: lambda: linear_cross_entropy(x, w.mT, target).sum(),
        "torch.compile": lambda: compiled(x, w),
        "torch": lambda: layer(x, w),
    }
    losses = [
        functional.cross_entropy(part.double() @ w.double().mT, of, reduction="sum")
        for part, of in zip(x.split(512), target.split(512), strict=True)
    ]
    wanted = torch.stack(losses).sum()
    return Problem(found, partial(_whole, wanted), 2.0 * tokens * w.numel())


def _whole(wanted: Tensor, found: Tensor) -> float:
    return timing.error(found, wanted)


# -- mixed ----------------------------------------------------------------------------------------


def narrow(w: Tensor, kind: str) -> tuple[Tensor, Tensor, Tensor]:
    """Of (n, k): numbers (k, n) or pairs of them as `mixed_gemm` takes them, factors of 128 along
    k, and what they stand for, (n, k) in float32.
    """
    most = {"e4m3": LARGEST, "i8": 127.0, "i4x2": 7.0}[kind]
    blocks = w.float().unflatten(-1, (-1, WIDE))
    factors = blocks.abs().amax(-1) / most
    scaled = (blocks / factors[..., None]).flatten(-2)
    if kind == "e4m3":
        found = scaled.to(torch.float8_e4m3fn)
        whole = found.float()
    else:
        whole = scaled.round()
        found = whole.to(torch.int8)
    if kind == "i4x2":
        low, high = (found[:, at::2].to(torch.int16) & 15 for at in (0, 1))
        found = (low | high << 4).to(torch.uint8)
    stands = whole.unflatten(-1, (-1, WIDE)) * factors[..., None]
    return found.mT, factors.mT.contiguous(), stands.flatten(-2)


def mixed(tokens: int, kind: str) -> Problem:
    x = normal(0, tokens, HIDDEN)
    w, factors, stands = narrow(weight(INNER, HIDDEN), kind)
    wide = stands.bfloat16()
    found: dict[str, timing.Run] = {
        timing.OURS: lambda: mixed_gemm(x, w, factors),
        "torch bf16": lambda: x @ wide.mT,
    }
    if kind != "i4x2":

        def layer(x: Tensor, w: Tensor, factors: Tensor) -> Tensor:
            made = w.mT.float().unflatten(-1, (-1, WIDE)) * factors.mT[..., None]
            return x @ made.flatten(-2).bfloat16().mT

        compiled = torch.compile(layer, dynamic=False)
        found["torch.compile"] = lambda: compiled(x, w, factors)
    else:
        packed, both = of_torch(w.mT, factors)
        found["torch int4"] = lambda: torch.ops.aten._weight_int4pack_mm(x, packed, WIDE, both)
    wanted = x[:CHECKED].double() @ stands.double().mT
    return Problem(found, partial(_rows, wanted), 2.0 * tokens * INNER * HIDDEN)


def of_torch(pairs: Tensor, factors: Tensor) -> tuple[Tensor, Tensor]:
    """Weights of 4 bits (n, k / 2), and factors (k / 128, n), as torch's product has them: the
    first number of a pair in the upper half, from 0 to 15, and factors beside zeros.
    """
    swapped = (pairs >> 4 | pairs << 4) ^ 0x88
    packed = torch.ops.aten._convert_weight_to_int4pack(swapped.contiguous(), 8)
    return packed, torch.stack([factors, torch.zeros_like(factors)], -1).bfloat16()


# -- the command ----------------------------------------------------------------------------------


LAYERS: Mapping[str, Callable[[int], Problem]] = {
    "rotary": rotary,
    "dropout": dropped,
    "quantized": quantized,
}


def cases(parts: Sequence[str]) -> Iterator[Case]:
    for part in parts:
        sizes: list[tuple[Any, Row]] = []
        if part in LAYERS:
            make = LAYERS[part]
            sizes = [(partial(make, tokens), {"tokens": tokens}) for tokens in TOKENS]
        elif part == "cross_entropy":
            for tokens in TOKENS[1:]:
                for size in VOCABULARIES:
                    named = {"tokens": tokens, "vocabulary": size}
                    sizes.append((partial(cross_entropy, tokens, size), named))
        else:
            for kind in WEIGHTS:
                for tokens in FEW:
                    named = {"tokens": tokens, "weights": kind}
                    sizes.append((partial(mixed, tokens, kind), named))
        for make, named in sizes:
            yield Case(part, named, make)


def kernels(parts: Sequence[str]) -> list[str]:
    """Names of the kernels that these parts may need on Hopper."""
    return locked(*(spec for part in parts for spec in SPECS[part]), arch=ARCH)


def main() -> int:
    options = _options()
    if options.kernels:
        print("\n".join(kernels(options.only)))
        return 0
    with torch.no_grad():
        return run("epilogues", cases(options.only), options)


def _options() -> argparse.Namespace:
    return parser("products with more around them", PARTS).parse_args()


if __name__ == "__main__":
    sys.exit(main())
