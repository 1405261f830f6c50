"""Gradients of attention with a window on a GPU: by two walks, and by one in turns.

    python benchmarks/window_gradients.py --build FOLDER     # without a GPU: makes the kernels
    python benchmarks/window_gradients.py [--kernels FOLDER] [--save]

A query sees 1024 keys and itself, of 16384 and of 4 x 4096, as ``attention(..., mask=...)`` says;
2048 columns in heads of 128 and of 64. Ours is what `attention` does, one kernel of five
products whose tiles take turns to add, and *two walks* two of seven. Peers are flash-attn-4
with its window, with and without ``deterministic``. Times are those of the backward pass alone, by
autograd, milliseconds: launched ahead with an overwritten L2 cache (`ms`), and as users call it
(`eager ms`). TFLOP/s count five products of what the window leaves. Errors are relative, by the
norm, of the first head, against float64; ``same bits`` says of how many of 20 runs. ``--kernels``
takes what ``--build`` made, where nothing can be solved;
``--save`` keeps results in ``results/window_gradients.json``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from packed_gradients import MANIFEST, SMS, TARGET, Gradients, compared
from report import RESULTS, environment, lines
from torch import Tensor

from schedgen.benchmarks.timing import OURS, imported

WINDOW = 1024
MASKS = ("column <= row and column >= row - window", "(column <= row) and column >= row - window")
"""One text twice: what is written in another way is planned by itself."""
TWO_WALKS = f"{OURS}, two walks"
Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    batch: int
    seq: int
    heads: int
    head_dim: int
    timed: bool = True

    @property
    def flops(self) -> float:
        seen = sum(min(row, WINDOW) + 1 for row in range(self.seq))
        return 10.0 * self.batch * self.heads * self.head_dim * seen


CASES = (Case(1, 16384, 16, 128), Case(4, 4096, 16, 128), Case(1, 16384, 32, 64))


# -- kernels ---------------------------------------------------------------------------------------


def needed(head_dim: int) -> Iterator[tuple[Any, tuple[tuple[str, str], ...]]]:
    """What distinguishes the kernels, and parameters of their specs."""
    from schedgen.kernels.variants.backward import KEYS, QUERIES, WHOLE
    from schedgen.kernels.variants.calling import Asked, asked
    from schedgen.kernels.variants.gradients import DELTA

    settings = (("head_dim", str(head_dim)), ("dtype", "bf16"))
    for mask in MASKS:
        wanted = asked(mask, None, False, None, {"window": WINDOW})
        for base in (wanted.base, KEYS, QUERIES):
            yield replace(wanted, base=base), settings
        yield replace(wanted, base=WHOLE), (*settings, ("ordered", "true"))
    yield Asked(None, None, False, False, (), DELTA), (("dtype", "bf16"),)


def build(folder: Path) -> None:
    """Makes the kernels for H200, and what is compiled of them."""
    os.environ["SCHEDGEN_CACHE_DIR"] = str(folder)
    from schedgen.codegen.facts import read_facts
    from schedgen.kernels import cache, library
    from schedgen.kernels.attention_backward import CONVERT
    from schedgen.kernels.variants.calling import kernel_of

    folder.mkdir(parents=True, exist_ok=True)
    made: dict[str, str] = {}
    for head_dim in sorted({case.head_dim for case in CASES}):
        for wanted, settings in needed(head_dim):
            function = kernel_of(wanted, TARGET, settings)
            cache.compiled(function.path, function.facts, SMS)
            made[f"{wanted} {settings}"] = str(function.path.relative_to(folder))
            print(function.path, flush=True)
            (folder / MANIFEST).write_text(json.dumps(made, indent=1), encoding="utf-8")
    for convert in library.shipped(["sm_90a"], [f"{CONVERT}_sm_90a_bf16"]):
        cache.compiled(library.file(convert), read_facts(library.file(convert)), SMS)


def take(folder: Path) -> None:
    """Kernels that `build` made, so that nothing is solved here."""
    from schedgen.kernels.variants.calling import keep

    made = json.loads((folder / MANIFEST).read_text("utf-8"))
    for head_dim in {case.head_dim for case in CASES}:
        for wanted, settings in needed(head_dim):
            keep(wanted, TARGET, settings, folder / made[f"{wanted} {settings}"])


# -- what is asked of each -------------------------------------------------------------------------


def candidates(
    leaves: list[Tensor], dout: Tensor
) -> dict[str, Callable[[], Callable[[], Gradients]]]:
    """What computes the forward pass, and returns what computes the backward pass."""
    from schedgen.kernels import attention, one_walk

    def derived(out: Tensor) -> Callable[[], Gradients]:
        def run() -> Gradients:
            found = torch.autograd.grad(out, leaves, dout, retain_graph=True)
            return tuple(x.flatten(0, 1) for x in found)

        return run

    def ours(mask: str) -> Callable[[], Gradients]:
        return derived(attention(*leaves, mask=mask, window=WINDOW))

    def two_walks() -> Callable[[], Gradients]:
        run, some = ours(MASKS[1]), one_walk.VARIANTS
        one_walk.VARIANTS = {}
        for _ in range(3):  # until it is planned
            run()
        one_walk.VARIANTS = some
        return run

    def peer(deterministic: bool) -> Callable[[], Gradients]:
        function = imported("flash_attn.cute", "flash_attn_func")
        if function is None:
            raise ModuleNotFoundError("flash-attn-4 is not installed")
        found = function(*leaves, causal=True, window_size=(WINDOW, 0), deterministic=deterministic)
        return derived(found[0] if isinstance(found, tuple) else found)

    return {
        OURS: lambda: ours(MASKS[0]),
        TWO_WALKS: two_walks,
        "FA4": lambda: peer(False),
        "FA4 deterministic": lambda: peer(True),
    }


def reference(operands: list[Tensor], dout: Tensor) -> Gradients:
    """By float64, of the first head, some rows at a time: (batch * seq, 1, head_dim)."""
    leaves = [x[:, :, 0].double().requires_grad_() for x in operands]
    q, k, v = leaves
    column = torch.arange(k.shape[1], device=q.device)
    for begin in range(0, q.shape[1], 4096):
        here = slice(begin, begin + 4096)
        row = torch.arange(q.shape[1], device=q.device)[here, None]
        seen = (column <= row) & (column >= row - WINDOW)
        scores = (q[:, here] @ k.mT / math.sqrt(q.shape[2])).masked_fill(~seen, -math.inf)
        (scores.softmax(-1) @ v * dout[:, here, 0].double()).sum().backward()
    return tuple(x.grad.flatten(0, 1)[:, None] for x in leaves if x.grad is not None)


def rows_of(case: Case) -> Iterator[Row]:
    torch.manual_seed(0)
    shape = (case.batch, case.seq, case.heads, case.head_dim)
    q, k, v, dout = (torch.randn(shape, device="cuda").bfloat16() for _ in range(4))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    problem: Row = {"batch": case.batch, "seq": case.seq, "heads": case.heads}
    problem |= {"head_dim": case.head_dim, "window": WINDOW}
    wanted = reference([x.detach() for x in leaves], dout)
    yield from compared(case, problem, candidates(leaves, dout), wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="make kernels, without a GPU")
    parser.add_argument("--kernels", type=Path, metavar="FOLDER", help="take those that were made")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    if options.build is not None:
        build(options.build.resolve())
        return
    if options.kernels is not None:
        take(options.kernels.resolve())
    rows: list[Row] = []
    for case in CASES:
        for row in rows_of(case):
            rows.append(row)
            print(json.dumps(row), flush=True)
    if options.save:
        path = RESULTS / "window_gradients.json"
        path.write_text(lines(environment(), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
