"""Products of experts on a GPU: `grouped_gemm` beside torch's and quack's.

    python benchmarks/experts.py [--only experts mixtral] [--tuned] [--seconds S] [--check] [--save]
                                 [--kernels]

Parts: ``experts``, both halves of 128 experts of 2048 x 768, and 8192 tokens of which each goes to
8, with as many rows for each expert, a share of 1 / i for expert i, and all of them for every
eighth (the sizes that `grouped.py` counts tiles of); ``mixtral``, both halves of 8 experts of
4096 x 14336 with 8192 rows; ``gradients``, those of the weights of ``experts``, dy^T x of the rows
of each; ``gathered``, the first halves of ``experts`` and of ``mixtral``, with the rows taken from
8192 and 4096 tokens through a list. Weights are (groups, n, k), passed as ``weights.mT``. Peers are
``torch._grouped_mm`` and quack's `gemm` with ``cu_seqlens_m``, with its default setting or, with
``--tuned``, the one that it finds best, which takes long; not for gradients. Of gathered rows torch
has ``a[rows]`` before, quack ``A_idx``. In bf16.

Errors are distances in the norm from float64, in the first rows and the last one of each group, or
the first rows of each gradient.
``--save`` keeps all rows in ``results/experts.json`` after each case, ``--check`` asks that results
are right and the same bits twice: exit status 1 if not. A case begins only before ``--seconds`` are
over. Kernels are compiled on their first call; ``--kernels`` prints the names of those that are
needed, without a GPU, which ``schedgen build NAME ... --target h200`` compiles ahead.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import grouped
import torch
from beside import Case, Problem, locked, parser, run
from torch import Tensor

from schedgen.benchmarks import timing
from schedgen.kernels import grouped_gemm

PARTS = {
    "experts": (grouped.GROUPS, grouped.ROWS, grouped.PRODUCTS, tuple(grouped.SIZES)),
    "mixtral": (8, 8192, ((14336, 4096), (4096, 14336)), ("balanced", "skewed")),
    "gradients": (grouped.GROUPS, grouped.ROWS, grouped.PRODUCTS, tuple(grouped.SIZES)),
    "gathered": (grouped.GROUPS, grouped.ROWS, grouped.PRODUCTS[:1], ("balanced", "skewed")),
    "gathered, mixtral": (8, 8192, ((14336, 4096),), ("balanced", "skewed")),
}
"""Groups, rows of all of them, n and k of products, and how rows are distributed."""
TOKENS = {"gathered": 8192, "gathered, mixtral": 4096}
"""Rows that those of all groups are taken from."""
CHECKED = 8
"""Rows of each group that are compared with float64, and the last one."""
DEVICE = "cuda"


def problem(sizes: Sequence[int], n: int, k: int, tuned: bool) -> Problem:
    """Of random operands."""
    make = torch.Generator(DEVICE).manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=make, device=DEVICE, dtype=torch.bfloat16)

    a, weights = normal(sum(sizes), k), normal(len(sizes), n, k)
    ends = torch.tensor(list(accumulate(sizes)), dtype=torch.int32, device=DEVICE)
    found = candidates(a, weights.mT, ends, tuned)
    rows = torch.tensor(sampled(sizes), device=DEVICE)
    wanted = reference(a, weights.mT, ends, rows)
    return Problem(found, partial(error, rows, wanted), 2.0 * len(a) * n * k)


def gradients(sizes: Sequence[int], n: int, k: int) -> Problem:
    """The gradients of the matrices, of random operands."""
    make = torch.Generator(DEVICE).manual_seed(0)
    dy, x = (
        torch.randn(sum(sizes), columns, generator=make, device=DEVICE, dtype=torch.bfloat16)
        for columns in (n, k)
    )
    ends = torch.tensor(list(accumulate(sizes)), dtype=torch.int32, device=DEVICE)
    found: dict[str, timing.Run] = {
        timing.OURS: lambda: grouped_gemm(dy.mT, x, ends),
        "torch": lambda: torch._grouped_mm(dy.mT, x, offs=ends),
    }
    rows = zip(dy[:, :CHECKED].split(list(sizes)), x.split(list(sizes)), strict=True)
    wanted = torch.stack([left.mT.double() @ right.double() for left, right in rows])

    def apart(found: Any) -> float:
        return timing.error(found[:, :CHECKED], wanted)

    return Problem(found, apart, 2.0 * len(dy) * n * k)


def gathered(sizes: Sequence[int], n: int, k: int, tokens: int, tuned: bool) -> Problem:
    """Of rows that a list takes from random ones: those of each token by different experts."""
    make = torch.Generator(DEVICE).manual_seed(0)
    x, weights = (
        torch.randn(*shape, generator=make, device=DEVICE, dtype=torch.bfloat16)
        for shape in ((tokens, k), (len(sizes), n, k))
    )
    ends = torch.tensor(list(accumulate(sizes)), dtype=torch.int32, device=DEVICE)
    each = [
        torch.randperm(tokens, generator=make, device=DEVICE) for _ in range(sum(sizes) // tokens)
    ]
    taken = torch.cat(each).int()
    b = weights.mT
    found: dict[str, timing.Run] = {
        timing.OURS: lambda: grouped_gemm(x, b, ends, rows=taken),
        "torch": lambda: torch._grouped_mm(x[taken], b, offs=ends),
    }
    quack = timing.imported("quack.gemm_interface", "gemm")
    if quack is not None:
        bounds = torch.cat([ends.new_zeros(1), ends])
        found["quack"] = lambda: quack(x, b, cu_seqlens_m=bounds, A_idx=taken, tuned=tuned)
    checked = torch.tensor(sampled(sizes), device=DEVICE)
    wanted = reference(x[taken], b, ends, checked)
    return Problem(found, partial(error, checked, wanted), 2.0 * len(taken) * n * k)


def candidates(a: Tensor, b: Tensor, ends: Tensor, tuned: bool) -> dict[str, timing.Run]:
    """``ends``: where the rows of each group end."""
    found: dict[str, timing.Run] = {
        timing.OURS: lambda: grouped_gemm(a, b, ends),
        "torch": lambda: torch._grouped_mm(a, b, offs=ends),
    }
    quack = timing.imported("quack.gemm_interface", "gemm")
    if quack is not None:
        bounds = torch.cat([ends.new_zeros(1), ends])
        found["quack"] = lambda: quack(a, b, cu_seqlens_m=bounds, tuned=tuned)
    return found


def sampled(sizes: Sequence[int]) -> list[int]:
    """Numbers of the rows that are compared."""
    found: list[int] = []
    for end, size in zip(accumulate(sizes), sizes, strict=True):
        found += range(end - size, min(end - size + CHECKED, end))
        if size > CHECKED:
            found.append(end - 1)
    return found


def reference(a: Tensor, b: Tensor, ends: Tensor, rows: Tensor) -> Tensor:
    """These rows of the result in float64."""
    of = torch.searchsorted(ends, rows.int(), right=True)
    found = torch.empty(len(rows), b.shape[2], dtype=torch.float64, device=a.device)
    for group in of.unique().tolist():
        mine = of == group
        found[mine] = a[rows[mine]].double() @ b[group].double()
    return found


def error(rows: Tensor, wanted: Tensor, found: Any) -> float:
    return timing.error(found[rows], wanted)


def cases(parts: Sequence[str], tuned: bool) -> Iterator[Case]:
    for part in parts:
        groups, rows, products, ways = PARTS[part]
        for way in ways:
            sizes = grouped.SIZES[way](groups, rows)
            for n, k in products:
                named = {"groups": groups, "rows": rows, "rows of experts": way, "n": n, "k": k}
                make = partial(problem, sizes, n, k, tuned)
                if part == "gradients":
                    make = partial(gradients, sizes, n, k)
                elif part in TOKENS:
                    make = partial(gathered, sizes, n, k, TOKENS[part], tuned)
                yield Case(part, named, make)


def main() -> int:
    options = _options()
    if options.kernels:
        names = locked("gemm_grouped", "gemm_grouped_k", "gemm_gathered", arch="sm_90a")
        print("\n".join(name for name in names if "_kn" not in name))
        return 0
    return run("experts", cases(options.only, options.tuned), options)


def _options() -> argparse.Namespace:
    made = parser("products of experts", list(PARTS))
    made.add_argument("--tuned", action="store_true", help="let quack look for settings")
    return made.parse_args()


if __name__ == "__main__":
    sys.exit(main())
