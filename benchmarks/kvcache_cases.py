"""`flash_attn_with_kvcache` against float64 on a GPU, beside torch.

    python benchmarks/kvcache_cases.py --build FOLDER      # without a GPU: all kernels for H200
    SCHEDGEN_CACHE_DIR=FOLDER python benchmarks/kvcache_cases.py --kernels FOLDER
                                          [--count N] [--seed S] [--seconds T] [--save]

A seeded part of the grid pages (none, 16, 64, 256) x causal x window x soft cap x slopes x sinks x
grouped heads x head_dim x lengths from 0 to 4096 x queries x new tokens; where the queries of a
sequence fit into a tile and there is nothing but a causal mask, its keys are split (``splits`` in a
row), with lengths up to 20000. A case fails if its error
is more than twice torch's, by the norm, or three times at the worst place; torch computes with
operands and probabilities in their data type, as in flash-attn's own tests. Memory of caches behind
the lengths is NaN, tables list nonsense there, and new tokens have to be in the caches afterwards.
Rows that see nothing are 0 with -inf. ``--build`` writes the generated files, a manifest and
objects for 132 SMs, so that nothing is solved or compiled on the GPU's machine. A line of JSON for
each case that fails, one for all; ``--save`` keeps all cases in ``results/kvcache_cases.json``.
``--seconds`` ends early. Exit status 1 if a case fails.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from report import RESULTS, environment, lines
from torch import Tensor

from schedgen.kernels.attention_decode import HEAD_DIMS
from schedgen.kernels.attention_decode_kvcache import COMBINE, PARTS
from schedgen.kernels.flash_attn_kvcache import SPEC

ROWS = 64
"""Rows of a tile of decode."""
SMS = 132
MANIFEST = "manifest.json"
TARGET = "h200"
LONG = (5000, 20000)
"""Lengths of some cases of few queries, beside all others."""
LENGTHS = (0, 1, 2, 15, 16, 17, 63, 64, 100, 129, 255, 256, 500, 777, 1024, 2000, 3333, 4096)
QUERIES = (1, 1, 2, 5, 16, 64, 129, 300)
NEW = (0, 0, 1, 3, 20)
HEADS = ((1, 1, 1), (3, 4, 4), (2, 8, 2), (4, 6, 1), (2, 32, 8))
"""Batch, heads of q, heads of k."""
MOST_SCORES = 1 << 26
"""Scores of a case, which float64 and eager computations hold."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """What a kernel is made for; ``page`` 0: contiguous caches."""

    page: int
    mask: str = "full"
    softcap: bool = False
    alibi: bool = False
    sinks: bool = False
    head_dim: int = 128
    dtype: str = "bf16"

    @property
    def settings(self) -> tuple[tuple[str, str], ...]:
        """Parameters of the spec, as `flash_attn_with_kvcache` gives them."""
        found = {"head_dim": str(self.head_dim), "dtype": self.dtype}
        flags = {"causal": self.mask == "causal", "window": self.mask == "window"}
        flags |= {"soft_cap": self.softcap, "alibi": self.alibi, "sinks": self.sinks}
        found |= {name: "true" for name, value in flags.items() if value}
        return tuple((found | ({"page_size": str(self.page)} if self.page else {})).items())

    @property
    def kernels(self) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
        """Specs and parameters of all that may be called."""
        found = [(SPEC, self.settings)]
        plain = self.mask != "window" and not (self.softcap or self.alibi or self.sinks)
        if plain and (self.head_dim, self.head_dim) in HEAD_DIMS:
            found += [(PARTS, self.settings), (COMBINE, (("dtype", self.dtype),))]
            # A single row needs no mask, and has the kernel of a full one.
            unmasked = tuple(pair for pair in self.settings if pair[0] != "causal")
            found += [] if unmasked == self.settings else [(PARTS, unmasked)]
        return found


CONFIGS = (
    *(Config(page, mask) for page in (0, 16, 64, 256) for mask in ("full", "causal")),
    *(Config(page, "causal", head_dim=64, dtype="fp16") for page in (0, 16)),
    Config(16, "window"),
    Config(0, "window", softcap=True),
    Config(64, "causal", alibi=True),
    Config(256, "full", sinks=True, head_dim=64),
    Config(32, "causal", head_dim=256),
)


@dataclass(frozen=True)
class Case:
    """A call of `flash_attn_with_kvcache`."""

    config: Config
    seed: int
    batch: int
    heads: int
    heads_k: int
    seq_q: int
    new: int
    lengths: tuple[int, ...]
    window: tuple[int, int]
    softcap: float

    @property
    def totals(self) -> list[int]:
        """Keys of each batch, new ones included."""
        return [size + self.new for size in self.lengths]

    @property
    def room(self) -> int:
        """Keys that each batch has room for."""
        step = max(self.config.page, 16)
        return -(-max(*self.totals, 1) // step) * step


def cases(count: int, seed: int) -> list[Case]:
    """The same for the same seed: all kinds of kernels equally often."""
    draw, found = random.Random(seed), list[Case]()
    while len(found) < count:
        config = CONFIGS[len(found) % len(CONFIGS)]
        batch, heads, heads_k = draw.choice(HEADS)
        seq_q = draw.choice(QUERIES)
        if config.mask == "causal" and seq_q == 1 and len(config.kernels) == 1:
            seq_q = 2  # a single row has the kernel without a mask
        few = len(config.kernels) > 1 and seq_q * heads // heads_k <= ROWS
        lengths = tuple(draw.choice(LENGTHS + LONG * few) for _ in range(batch))
        if batch * heads * seq_q * max(lengths) > MOST_SCORES:
            seq_q = 2
        window = draw.choice(((0, 0), (1, 5), (64, 0), (100, 30), (1000, -1), (-1, 17)))
        found.append(
            Case(
                config, len(found), batch, heads, heads_k, seq_q, draw.choice(NEW), lengths,
                window if config.mask == "window" else (-1, -1),
                draw.choice((5.0, 15.0, 50.0)) if config.softcap else 0.0,
            )
        )  # fmt: skip
    return found


# -- tensors ---------------------------------------------------------------------------------------


class Tensors:
    """What a case is called with, on ``device``."""

    def __init__(self, case: Case, device: str) -> None:
        torch.manual_seed(case.seed)
        self.case = case
        dim, config = case.config.head_dim, case.config
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[config.dtype]
        self.q = torch.randn(case.batch, case.seq_q, case.heads, dim).to(device, dtype)
        whole = [torch.randn(case.batch, case.room, case.heads_k, dim).to(dtype) for _ in "kv"]
        for one in whole:
            for number, size in enumerate(case.lengths):
                one[number, size:] = torch.nan
        new = [torch.randn(case.batch, case.new, case.heads_k, dim).to(dtype) for _ in "kv"]
        self.new: list[Tensor | None] = [one.to(device) if case.new else None for one in new]
        self.table: Tensor | None = None
        if config.page:
            whole = self._paged(whole)
            assert self.table is not None
            self.table = self.table.to(device)
        self.caches = [one.to(device) for one in whole]
        self.lengths = torch.tensor(case.lengths, dtype=torch.int32, device=device)
        self.slopes = (torch.rand(case.heads) * 0.3).to(device) if config.alibi else None
        self.sinks = torch.randn(case.heads).to(device, dtype) if config.sinks else None

    def _paged(self, whole: list[Tensor]) -> list[Tensor]:
        """The same in pages in no order, of which some belong to nobody."""
        case, page = self.case, self.case.config.page
        each = case.room // page
        order = torch.randperm(case.batch * each + 3)[: case.batch * each]
        self.table = order.view(case.batch, each).int()
        found: list[Tensor] = []
        for one in whole:
            pages = one.new_full((case.batch * each + 3, page, *one.shape[2:]), torch.nan)
            pages[order] = one.view(-1, page, *one.shape[2:])
            found.append(pages)
        for number, size in enumerate(case.totals):
            self.table[number, -(-size // page) :] = -7
        return found

    def rows(self, cache: Tensor, number: int) -> Tensor:
        """Keys or values of a batch, with those of new tokens."""
        size = self.case.totals[number]
        if self.table is None:
            return cache[number, :size]
        pages = self.table[number, : -(-size // self.case.config.page)].long()
        return cache[pages].flatten(0, 1)[:size]


def computed(given: Tensors, kind: torch.dtype) -> tuple[Tensor, Tensor]:
    """Result and logarithms of sums: products in ``kind``, float64 or that of the operands; in the
    latter probabilities are rounded, too, before they are multiplied.
    """
    case = given.case
    inner = torch.float64 if kind == torch.float64 else torch.float32
    results: list[Tensor] = []
    logs: list[Tensor] = []
    for number, size in enumerate(case.totals):
        groups = case.heads // case.heads_k
        k, v = (
            given.rows(cache, number).to(kind).repeat_interleave(groups, 1).transpose(0, 1)
            for cache in given.caches
        )
        scores = (given.q[number].to(kind).transpose(0, 1) @ k.mT).to(inner)
        scores = scores / math.sqrt(case.config.head_dim)
        if case.softcap:
            scores = case.softcap * torch.tanh(scores / case.softcap)
        scores = scores + _bias(given, size).to(inner)
        sums = scores.logsumexp(-1, keepdim=True)
        if given.sinks is not None:
            sums = torch.logaddexp(sums, given.sinks.to(inner)[:, None, None])
        shares = (scores - sums).exp().nan_to_num(0.0).to(kind)
        results.append((shares @ v).transpose(0, 1))
        logs.append(sums[..., 0])
    return torch.stack(results), torch.stack(logs)


def _bias(given: Tensors, size: int) -> Tensor:
    """What is added to the scores of a batch, [heads or 1, queries, keys] in float64."""
    case, device = given.case, given.q.device
    row = torch.arange(case.seq_q, device=device)[:, None] + size - case.seq_q
    column = torch.arange(size, device=device)[None, :]
    left, right = case.window
    right = 0 if case.config.mask == "causal" else right
    kept = torch.ones(case.seq_q, size, dtype=torch.bool, device=device)
    if left >= 0:
        kept &= column >= row - left
    if right >= 0:
        kept &= column <= row + right
    bias = torch.zeros(1, case.seq_q, size, dtype=torch.float64, device=device)
    if given.slopes is not None:
        bias = -given.slopes.double()[:, None, None] * (row - column).abs()
    return bias.masked_fill(~kept, -math.inf)


# -- on the GPU ------------------------------------------------------------------------------------


def run(case: Case, device: str = "cuda") -> Row:
    """What came of a case."""
    from schedgen.kernels import flash_attn_with_kvcache

    given = Tensors(case, device)
    config = case.config
    begin = time.monotonic()
    found, lse = flash_attn_with_kvcache(
        given.q, *given.caches, *given.new,
        cache_seqlens=given.lengths, block_table=given.table, causal=config.mask == "causal",
        window_size=case.window, softcap=case.softcap, alibi_slopes=given.slopes,
        sinks=given.sinks, return_softmax_lse=True,
    )  # fmt: skip
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = time.monotonic() - begin
    written = True
    for cache, new in zip(given.caches, given.new, strict=True):
        for number, size in enumerate(case.lengths):
            if new is not None:
                written &= torch.equal(given.rows(cache, number)[size:], new[number])
    wanted, sums = computed(given, torch.float64)
    eager, _ = computed(given, found.dtype)
    ours, its = _error(found, wanted), _error(eager, wanted)
    rounding = 2.0 ** (-8 if found.dtype is torch.bfloat16 else -11)
    scale = wanted.abs().max().item()
    right = written and ours[0] <= max(2 * its[0], rounding / 2)  # also false for NaN
    right &= ours[1] <= max(3 * its[1], rounding * scale)
    right &= torch.allclose(lse.double(), sums, rtol=1e-4, atol=1e-3)
    row: Row = {**asdict(case), "config": json.dumps(asdict(config)), "written": written}
    row |= {"error": ours[0], "torch_error": its[0], "worst": ours[1], "torch_worst": its[1]}
    few = len(config.kernels) > 1 and case.seq_q * case.heads // case.heads_k <= ROWS
    return row | {"failed": not right, "seconds": round(seconds, 3), "splits": few}


def _error(found: Tensor, wanted: Tensor) -> tuple[float, float]:
    """Relative to the norm of what is wanted, and the largest."""
    apart = found.double() - wanted
    norm = wanted.square().sum().sqrt().item()
    return apart.square().sum().sqrt().item() / (norm or 1.0), apart.abs().max().item()


# -- kernels ---------------------------------------------------------------------------------------


def build(folder: Path) -> None:
    """Makes all kernels for H200 and what is compiled of them; goes on where it was left."""
    os.environ["SCHEDGEN_CACHE_DIR"] = str(folder)
    from schedgen.kernels import cache
    from schedgen.kernels.kv_cache_kernels import kernel_of

    folder.mkdir(parents=True, exist_ok=True)
    manifest: list[Row] = []
    for spec, settings in dict.fromkeys(one for config in CONFIGS for one in config.kernels):
        begin = time.monotonic()
        function = kernel_of(spec, TARGET, settings)
        cache.compiled(function.path, function.facts, SMS)
        path = function.path.relative_to(folder)
        manifest.append({"spec": spec, "settings": settings, "path": str(path)})
        print(f"{time.monotonic() - begin:6.1f} s  {path}", flush=True)
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def take(folder: Path) -> None:
    """Kernels that `build` made, so that nothing is solved here."""
    from schedgen.kernels.kv_cache_kernels import keep
    from schedgen.kernels.of_spec import function_of

    for entry in json.loads((folder / MANIFEST).read_text("utf-8")):
        settings = tuple((name, value) for name, value in entry["settings"])
        keep(entry["spec"], TARGET, settings, function_of(folder / entry["path"]))


def main() -> int:
    options = _options()
    if options.build:
        build(options.build.resolve())
        return 0
    if options.kernels:
        take(options.kernels.resolve())
    rows, begin = list[Row](), time.monotonic()
    for case in cases(options.count, options.seed):
        if time.monotonic() - begin > options.seconds:
            break
        rows.append(run(case))
        if options.save:  # what there is, should the rest not come to an end
            text = lines(environment(), rows)
            (RESULTS / "kvcache_cases.json").write_text(text, encoding="utf-8")
        if rows[-1]["failed"]:
            print("FAILED", json.dumps(rows[-1]), flush=True)
    failed = sum(row["failed"] for row in rows)
    print(json.dumps({"cases": len(rows), "asked": options.count, "failed": failed}))
    return int(failed > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="flash_attn_with_kvcache against float64")
    parser.add_argument("--build", type=Path)
    parser.add_argument("--kernels", type=Path)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=400.0)
    parser.add_argument("--save", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
