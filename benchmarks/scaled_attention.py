"""Attention of 8-bit operands on a GPU: `scaled_attention` beside our `attention` in bf16.

    python benchmarks/scaled_attention.py [--only full causal] [--seconds S] [--check] [--save]
                                          [--kernels] [--also NAME=VALUE ...]

Operands are normal numbers, quantized to float8_e4m3fn with a factor for each head. V lies as
Hopper reads it (`attention_values`); "with a copy" each call makes it so. What
ours is compared with ("best peer") is `attention` in bf16, of the same numbers: nobody else's FP8
attention for Hopper is among the packages that this project installs.

Errors are distances in the norm from float64 attention of what was quantized, in the first and last
`CHECKED` rows of the first and last head. ``--save`` keeps all rows in
``results/scaled_attention.json`` after each case, ``--check`` asks that results are right and the
same bits twice: exit status 1 if not. A case begins only before ``--seconds`` are over. Kernels are
compiled on their first call; ``--kernels`` prints the names of those that are needed, without a
GPU, which ``schedgen build NAME ... --target h200`` compiles ahead. ``--also keys=192`` times the
kernel of the spec with that setting, too; it is solved and compiled on the first call.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from beside import Case, Problem, Row, locked, parser, run
from torch import Tensor

from schedgen.benchmarks import timing
from schedgen.codegen.facts import file_name
from schedgen.kernels import attention, attention_values, kernel, keys, scaled_attention
from schedgen.kernels.attention_scaled_op import SPEC

PARTS = ("full", "causal")
SHAPES = [
    *((8, 2048, 16, 16, 128), (4, 4096, 16, 16, 128)),
    *((2, 8192, 16, 16, 128), (1, 16384, 16, 16, 128)),
    *((2, 8192, 64, 8, 128), (4, 4096, 32, 32, 64)),
]
NAMES = ("batch", "seq", "heads", "heads_k", "head_dim")
CHECKED = 64
LARGEST = 448.0
"""The largest number of e4m3."""
ARCH = "sm_90a"
DEVICE = "cuda"


def quantized(x: Tensor) -> tuple[Tensor, Tensor]:
    """``x`` (batch, seq, heads, head_dim) in 8 bits, and factors (batch, heads): the largest number
    of a head is the largest that there is.
    """
    factors = x.float().abs().amax((1, 3)) / LARGEST
    return (x.float() / factors[:, None, :, None]).to(torch.float8_e4m3fn), factors


def numbers(data: Tensor, factors: Tensor) -> Tensor:
    """What they stand for, in float64."""
    return data.double() * factors.double()[:, None, :, None]


def problem(
    batch: int,
    seq: int,
    heads: int,
    heads_k: int,
    dim: int,
    *,
    causal: bool,
    also: Sequence[str] = (),
) -> Problem:
    """Of random operands; ``also``: other settings of the spec."""
    make = torch.Generator(DEVICE).manual_seed(0)
    shapes = [(batch, seq, count, dim) for count in (heads, heads_k, heads_k)]
    every = [quantized(torch.randn(s, generator=make, device=DEVICE)) for s in shapes]
    (q, _), (k, _), (v, _) = every
    factors = [factor for _, factor in every]
    values = attention_values(v)
    wide = [numbers(*one).bfloat16() for one in every]
    found: dict[str, timing.Run] = {
        timing.OURS: lambda: scaled_attention(q, k, values, *factors, causal=causal, prepared=True),
        f"{timing.OURS} with a copy": lambda: scaled_attention(q, k, v, *factors, causal=causal),
        "bf16": lambda: attention(*wide, causal=causal),
    }
    for setting in also:
        found[f"{timing.OURS} {setting}"] = other(setting, (q, k, values), factors, causal=causal)
    at, wanted = reference(every, causal=causal)
    flops = 4.0 * batch * heads * seq * seq * dim / (2 if causal else 1)
    return Problem(found, partial(error, at, wanted), flops)


def other(
    setting: str, operands: Sequence[Tensor], factors: Sequence[Tensor], *, causal: bool
) -> timing.Run:
    """The kernel of the spec with one setting, ``NAME=VALUE``, called with the same numbers."""
    q, k, v = operands
    name, _, value = setting.partition("=")
    made = kernel(SPEC, head_dim=q.shape[3], causal=causal, **{name: value})
    of_q = factors[0]
    of_k, of_v = (f.repeat_interleave(q.shape[2] // f.shape[1], 1) for f in factors[1:])
    scale = math.log2(math.e) / math.sqrt(q.shape[3])
    return lambda: made(q, k, v, of_q, of_k, of_v, scale)[0]


def reference(every: Sequence[tuple[Tensor, Tensor]], *, causal: bool) -> tuple[Tensor, Tensor]:
    """Numbers of the first and last rows, and (head, row, head_dim) of the first and last head of
    the first and last batch in float64.
    """
    q, k, v = (one[0] for one in every)
    seq, dim = q.shape[1], q.shape[3]
    rows = torch.arange(seq, device=q.device)
    rows = rows if seq <= 2 * CHECKED else torch.cat([rows[:CHECKED], rows[-CHECKED:]])
    found: list[Tensor] = []
    for at in (0, -1):
        one, keys_of, values = (
            x[at, :, at].double() * factor[at, at].double()
            for x, factor in zip((q, k, v), (f for _, f in every), strict=True)
        )
        scores = one[rows] @ keys_of.T / math.sqrt(dim)
        if causal:
            later = torch.arange(seq, device=q.device) > rows[:, None]
            scores = scores.masked_fill(later, -math.inf)
        found.append(scores.softmax(-1) @ values)
    return rows, torch.stack(found)


def error(rows: Tensor, wanted: Tensor, found: Any) -> float:
    return timing.error(torch.stack([found[at, rows, at] for at in (0, -1)]), wanted)


def cases(parts: Sequence[str], also: Sequence[str] = ()) -> Iterator[Case]:
    for part in parts:
        for shape in SHAPES:
            named: Row = dict(zip(NAMES, shape, strict=True))
            make = partial(problem, *shape, causal=part == "causal", also=also)
            yield Case(part, named, make)


def kernels(parts: Sequence[str]) -> list[str]:
    """Names of the kernels that these parts need on Hopper."""
    found = locked(SPEC, arch=ARCH)
    for part in parts:
        for _, seq, _, _, dim in SHAPES:
            causal = part == "causal"
            settings = {"head_dim": str(dim), "dtype": "bf16"}
            settings |= {"causal": "true"} if causal else {}
            own = keys.keys(ARCH, dim, causal, seq, seq)
            settings |= {} if own == keys.OWN else {"keys": str(own)}
            found.append(file_name("attention_fwd", ARCH, settings))
    return list(dict.fromkeys(found))


def main() -> int:
    options = _options()
    if options.kernels:
        print("\n".join(kernels(options.only)))
        return 0
    return run("scaled_attention", cases(options.only, options.also), options)


def _options() -> argparse.Namespace:
    made = parser("attention of 8-bit operands with factors of heads", PARTS)
    made.add_argument("--also", nargs="+", default=[], metavar="NAME=VALUE", help="settings, too")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(main())
