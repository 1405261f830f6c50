"""Products of 8-bit operands with factors on a GPU: `scaled_gemm` beside its peers.

    python benchmarks/low_precision.py [--only rows whole blocks] [--seconds S]
                                       [--check] [--save] [--kernels]

Squares, and the layers of DeepSeek-V3 with 64, 128 and 4096 tokens. Parts: ``rows``, a factor for
each row of both operands; ``whole``, one for each operand; ``blocks``, one for each 1 x 128 of the
left operand and for each 128 x 128 of the right one. Peers are ``torch._scaled_mm`` with the
same factors, which adds up in float32 now and then ("torch"), and does not ("torch fast",
``use_fast_accum``; not for blocks), quack's `gemm` with one factor, and DeepGEMM with factors of
blocks, where they are installed. Squares, and layers of 4096 tokens, have our `gemm` in bf16 beside
them, to compare with: it is no peer. Layouts are those that torch asks for, which nobody copies:
factors of blocks of the left operand lie along m, and of the right one along k.

Errors are distances in the norm from float64 products of what was quantized, in the first and last
`CHECKED` rows. ``--save`` keeps all rows in ``results/low_precision.json`` after each case,
``--check`` asks that results are right and the same bits twice: exit status 1 if not. A case begins
only before ``--seconds`` are over. Kernels are compiled on their first call; ``--kernels`` prints
the names of those that are needed, without a GPU, which
``schedgen build NAME ... --target h200`` compiles ahead.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from beside import Case, Problem, locked, parser, run
from torch import Tensor
from torch.nn import functional

from schedgen.benchmarks import shipped, timing
from schedgen.codegen.facts import file_name
from schedgen.kernels import gemm, library, scaled_gemm, tiling

PARTS = ("rows", "blocks", "whole")
SQUARES = [(n, n, n) for n in (1024, 2048, 4096, 8192)]
"""m, n and k."""
WEIGHTS = [(2112, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048)]
"""n and k of DeepSeek-V3's layers, those of DeepGEMM's own benchmarks."""
TOKENS = {"rows": (128, 4096), "blocks": (64, 128, 4096)}
"""Rows of the left operand in layers, by part."""
LONG = 4096
"""Tokens of the layers that `gemm` is timed with."""
WIDE = 128
"""Numbers along k, and rows of the right operand, of a block."""
CHECKED = 64
LARGEST = 448.0
"""The largest number of e4m3."""
ARCH = "sm_90a"
DEVICE = "cuda"


@dataclass(frozen=True)
class Quantized:
    """Numbers (rows, k) of 8 bits, with factors (rows / ``high``, k / ``wide``), those of the last
    block included.
    """

    data: Tensor
    factors: Tensor
    high: int
    wide: int

    def numbers(self, rows: Tensor | None = None) -> Tensor:
        """What they stand for, in float64; of some rows only."""
        rows = torch.arange(len(self.data), device=self.data.device) if rows is None else rows
        factors = self.factors[rows // self.high].double().repeat_interleave(self.wide, 1)
        return self.data[rows].double() * factors[:, : self.data.shape[1]]


def quantized(x: Tensor, high: int, wide: int) -> Quantized:
    """``x`` (rows, k) with a factor for each ``high`` x ``wide``: the largest number of a block is
    the largest that there is.
    """
    rows, k = x.shape
    padded = functional.pad(x.float(), (0, -k % wide, 0, -rows % high))
    blocks = padded.view(-(-rows // high), high, -(-k // wide), wide)
    factors = blocks.abs().amax((1, 3)) / LARGEST
    data = (blocks / factors[:, None, :, None]).view(padded.shape)[:rows, :k]
    return Quantized(data.contiguous().to(torch.float8_e4m3fn), factors, high, wide)


def problem(part: str, m: int, n: int, k: int, *, bf16: bool) -> Problem:
    """Of random operands; ``bf16``: with our `gemm` beside it."""
    make = torch.Generator(DEVICE).manual_seed(0)
    x, w = (torch.randn(rows, k, generator=make, device=DEVICE) for rows in (m, n))
    sizes = {
        "rows": ((1, k), (1, k)),
        "whole": ((m, k), (n, k)),
        "blocks": ((1, WIDE), (WIDE,) * 2),
    }
    a, b = (quantized(one, *size) for one, size in zip((x, w), sizes[part], strict=True))
    found = _of_blocks(a, b) if part == "blocks" else _of_rows(a, b, whole=part == "whole")
    if bf16:
        left, right = (one.numbers().bfloat16() for one in (a, b))
        found[f"{timing.OURS} bf16"] = lambda: gemm(left, right.mT)
    return Problem(found, partial(error, *reference(a, b)), 2.0 * m * n * k)


def _of_rows(a: Quantized, b: Quantized, *, whole: bool) -> dict[str, timing.Run]:
    """Candidates with a factor of each row or of a whole operand."""
    left, right = a.data, b.data.mT
    of_a, of_b = (a.factors.view(1), b.factors.view(1)) if whole else (a.factors, b.factors.mT)

    def torchs(fast: bool) -> Tensor:
        return torch._scaled_mm(
            left, right, of_a, of_b, out_dtype=torch.bfloat16, use_fast_accum=fast
        )

    found: dict[str, timing.Run] = {
        timing.OURS: lambda: scaled_gemm(left, right, of_a, of_b),
        "torch": lambda: torchs(False),
        "torch fast": lambda: torchs(True),
    }
    quack = timing.imported("quack.gemm_interface", "gemm") if whole else None
    if quack is not None:
        both = of_a * of_b
        found["quack"] = lambda: quack(
            left, right, alpha=both, out_dtype=torch.bfloat16, tuned=False
        )
    return found


def _of_blocks(a: Quantized, b: Quantized) -> dict[str, timing.Run]:
    """Candidates with factors of blocks; torch wants those of the left operand along m."""
    left, right = a.data, b.data.mT
    of_a, of_b = a.factors.mT.contiguous().mT, b.factors.mT
    found: dict[str, timing.Run] = {
        timing.OURS: lambda: scaled_gemm(left, right, of_a, of_b),
        "torch": lambda: torch._scaled_mm(left, right, of_a, of_b, out_dtype=torch.bfloat16),
    }
    deep = timing.imported("deep_gemm", "fp8_gemm_nt")
    if deep is not None:

        def deep_gemm() -> Tensor:
            out = torch.empty(len(left), len(b.data), dtype=torch.bfloat16, device=left.device)
            deep((left, of_a), (b.data, b.factors), out)
            return out

        found["DeepGEMM"] = deep_gemm
    return found


def reference(a: Quantized, b: Quantized) -> tuple[Tensor, Tensor]:
    """Numbers of the first and last rows, and those rows of the product in float64."""
    rows = torch.arange(len(a.data), device=a.data.device)
    rows = rows if len(rows) <= 2 * CHECKED else torch.cat([rows[:CHECKED], rows[-CHECKED:]])
    return rows, a.numbers(rows) @ b.numbers().mT


def error(rows: Tensor, wanted: Tensor, found: Any) -> float:
    return timing.error(found[rows], wanted)


def shapes(part: str) -> Iterator[tuple[int, int, int]]:
    """m, n and k of a part: squares, then layers."""
    yield from SQUARES
    for n, k in WEIGHTS:
        yield from ((m, n, k) for m in TOKENS.get(part, ()))


def with_bf16(m: int, n: int, k: int) -> bool:
    """Whether `gemm` is timed, too."""
    return m == n == k or m == LONG


def cases(parts: Sequence[str]) -> Iterator[Case]:
    for part in parts:
        for m, n, k in shapes(part):
            make = partial(problem, part, m, n, k, bf16=with_bf16(m, n, k))
            yield Case(part, {"m": m, "n": n, "k": k}, make)


def kernels(parts: Sequence[str]) -> list[str]:
    """Names of the kernels that these parts need on Hopper."""
    specs = ["gemm_fp8_blocks" if part == "blocks" else "gemm_fp8" for part in parts]
    found = locked(*specs, arch=ARCH)
    for part in parts:
        for shape in shapes(part):
            if with_bf16(*shape):
                found += _of_bf16(*shape)
    return list(dict.fromkeys(found))


def _of_bf16(m: int, n: int, k: int) -> list[str]:
    """Names of those that `gemm` takes for a shape: two, where k is split."""
    choice = shipped.chosen("gemm", m, n, k, ARCH, library.SMS[ARCH])
    needed = [choice.kernel]
    if needed[0][0] == tiling.PARTS:
        needed.append((tiling.SUM, choice.product.sum_settings))
    return [file_name(spec, ARCH, settings) for spec, settings in needed]


def main() -> int:
    options = _options()
    if options.kernels:
        print("\n".join(kernels(options.only)))
        return 0
    return run("low_precision", cases(options.only), options)


def _options() -> argparse.Namespace:
    return parser("products of 8-bit operands with factors", PARTS).parse_args()


if __name__ == "__main__":
    sys.exit(main())
