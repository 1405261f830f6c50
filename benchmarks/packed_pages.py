"""`flash_attn_varlen_func` over pages on a GPU: against float64, and beside flash-attn-4.

    python benchmarks/packed_pages.py --build FOLDER       # without a GPU: all kernels for H200
    SCHEDGEN_CACHE_DIR=FOLDER python benchmarks/packed_pages.py --kernels FOLDER
                                          [--count N] [--seed S] [--seconds T] [--save]

Cases are those of packed sequences of `flash_attn_cases.py` in pages of 16 to 256 keys
(`flash_attn_grid/pages.py`): a seeded part of causal x window x soft cap x slopes x sinks x grouped
heads x head_dim x lengths from 0 to 4096. Pages lie in no order, what belongs to nobody is NaN, and
the table has nonsense behind lengths. A case fails if its error is more than twice torch's with
operands and probabilities in their data type, by the norm, or three times at the worst place.

Times are of what an engine computes in a step, 32 heads of which 8 have keys, 128 columns, causal:
*chunks*, 512 tokens of prompts at the end of 4096 each, 8 at once; and *mixed*, four of them and 60
sequences with one token, 1024 to 8192 keys each. Milliseconds, eagerly with an overwritten L2 cache
and in CUDA graphs, and errors by the norm. ``--save`` keeps all in ``results/packed_pages.json``.
Exit status 1 if a case fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from flash_attn_grid.cases import Config
from flash_attn_grid.packed import PackedCase, computed_packed
from flash_attn_grid.pages import GROUPS, PAGED, PagedCase, paged_cases, settings_of
from kvcache_cases import MANIFEST, SMS, TARGET, take
from report import RESULTS, environment, lines
from torch import Tensor

from schedgen.benchmarks.timing import OURS, eagerly, error, imported, in_graphs, in_turns

SPEC = "attention_varlen_kvcache"
HEADS = (32, 8)
CHUNK, CONTEXT, CHUNKS = 512, 4096, 8
TOKENS, SHORTEST, LONGEST = 60, 1024, 8192
PAGES = (16, 64, 256)
Row = dict[str, Any]


@dataclass(frozen=True)
class Step:
    """What an engine computes at once: queries and keys of each sequence."""

    name: str
    sequences: tuple[tuple[int, int], ...]


def steps() -> tuple[Step, ...]:
    """The same each time."""
    draw = random.Random(0)
    chunk = (CHUNK, CONTEXT)
    tokens = tuple((1, draw.randint(SHORTEST, LONGEST)) for _ in range(TOKENS))
    return Step("chunks", (chunk,) * CHUNKS), Step("mixed", (chunk,) * (CHUNKS // 2) + tokens)


# -- kernels ---------------------------------------------------------------------------------------


def build(folder: Path) -> None:
    """Makes all kernels for H200 and what is compiled of them; goes on where it was left."""
    os.environ["SCHEDGEN_CACHE_DIR"] = str(folder)
    from schedgen.kernels import cache
    from schedgen.kernels.kv_cache_kernels import kernel_of

    folder.mkdir(parents=True, exist_ok=True)
    manifest: list[Row] = []
    for page, config, group in kinds():
        begin, settings = time.monotonic(), settings_of(page, config, group)
        function = kernel_of(SPEC, TARGET, settings)
        cache.compiled(function.path, function.facts, SMS)
        path = function.path.relative_to(folder)
        manifest.append({"spec": SPEC, "settings": settings, "path": str(path)})
        print(f"{time.monotonic() - begin:6.1f} s  {path}", flush=True)
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def kinds() -> Iterator[tuple[int, Config, int]]:
    """Pages, configurations and groups of heads that there is a kernel for: no groups where heads
    have numbers of their own.
    """
    for page, config in PAGED:
        for group in (1,) if config.slopes or config.sinks else GROUPS:
            yield page, config, group


# -- right -----------------------------------------------------------------------------------------


def checked(case: PagedCase) -> Row:
    """What came of a case."""
    from schedgen.kernels import flash_attn_varlen_func

    packed = case.packed
    given = packed.tensors("cuda")
    caches = case.caches(given)
    q, starts = given["q"], given["cu_q"]
    assert q is not None
    assert starts is not None
    found, lse = flash_attn_varlen_func(
        q, caches["k"], caches["v"], starts, None, *packed.longest,
        causal=packed.causal, window_size=packed.window, softcap=packed.softcap,
        alibi_slopes=given["slopes"], sinks=given["sinks"], block_table=caches["table"],
        seqused_k=caches["lengths"], return_lse=True,
    )  # fmt: skip
    torch.cuda.synchronize()
    wanted, sums = computed_packed(packed, given, torch.float64)
    eager, _ = computed_packed(packed, given, found.dtype)
    ours, its = error(found, wanted), error(eager, wanted)
    worst, theirs = ((one.double() - wanted).abs().max().item() for one in (found, eager))
    rounding = 2.0 ** (-8 if found.dtype is torch.bfloat16 else -11)
    right = ours <= max(2 * its, rounding / 2)  # also false for NaN
    right &= worst <= max(3 * theirs, rounding * wanted.abs().max().item())
    right &= torch.allclose(lse.double(), sums.double(), rtol=1e-4, atol=1e-3)
    row: Row = {"part": "case", "page": case.page, **asdict(packed)}
    row |= {"config": json.dumps(asdict(packed.config)), "error": ours, "torch_error": its}
    return row | {"worst": worst, "torch_worst": theirs, "failed": not right}


# -- fast ------------------------------------------------------------------------------------------


def timed(step: Step, page: int) -> list[Row]:
    """A row for each candidate."""
    from schedgen.kernels import flash_attn_varlen_func

    config = Config("causal", head_dim=128, packed=True)
    packed = PackedCase(config, 0, *HEADS, step.sequences, (-1, -1), 0.0)
    given = packed.tensors("cuda")
    caches = PagedCase(packed, page).caches(given)
    q, starts, operands = given["q"], given["cu_q"], (caches["k"], caches["v"])
    assert q is not None
    assert starts is not None
    longest_q, longest_k = packed.longest
    named: dict[str, Any] = {"seqused_k": caches["lengths"], "causal": True}
    table = caches["table"]
    candidates: dict[str, Any] = {
        OURS: lambda: flash_attn_varlen_func(
            q, *operands, starts, None, longest_q, longest_k, block_table=table, **named
        )
    }
    theirs = imported("flash_attn.cute.interface", "flash_attn_varlen_func")
    if theirs is not None:
        more = {"cu_seqlens_q": starts, "max_seqlen_q": longest_q, "page_table": table}
        candidates["FA4"] = lambda: theirs(q, *operands, **more, **named)
    rows: list[Row] = []
    head: Row = {"part": "step", "step": step.name, "page": page}
    wanted, _ = _some(packed, given)
    for name, run in list(candidates.items()):
        try:
            found: Any = run()
            torch.cuda.synchronize()
        except Exception as problem:  # whatever it says, it is not there to compare with
            del candidates[name]
            why = f"{type(problem).__name__}: {problem}"[:300]
            rows.append({**head, "candidate": name, "refused": why})
            continue
        result: Any = found if hasattr(found, "shape") else found[0]
        off = error(result[_tokens(packed)], wanted)
        rows.append({**head, "candidate": name, "error": off})
    queued = in_turns(candidates)
    eager, graphs = eagerly(candidates), in_graphs(candidates, queued)
    for row in rows:
        if (name := row["candidate"]) in candidates:
            row["graph ms"] = round(graphs.get(name, float("nan")), 4)
            row["eager ms"] = round(eager[name].milliseconds, 4)
    return rows


def _tokens(packed: PackedCase) -> Tensor:
    """The last query of each sequence, which are compared with float64."""
    queries = (count for count, _ in packed.sequences)
    return torch.tensor(list(accumulate(queries)), device="cuda") - 1


def _some(packed: PackedCase, given: dict[str, Tensor | None]) -> tuple[Tensor, Tensor]:
    """What the last query of each sequence sees, in float64."""
    config = Config("full", head_dim=packed.config.head_dim, packed=True)
    few = tuple((1, keys) for _, keys in packed.sequences)
    q = given["q"]
    assert q is not None
    last = PackedCase(config, 0, packed.heads, packed.heads_k, few, (-1, -1), 0.0)
    return computed_packed(last, {**given, "q": q[_tokens(packed)]}, torch.float64)


def main() -> int:
    parser = argparse.ArgumentParser(description="packed queries over pages")
    parser.add_argument("--build", type=Path)
    parser.add_argument("--kernels", type=Path)
    parser.add_argument("--count", type=int, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    if options.build:
        build(options.build.resolve())
        return 0
    if options.kernels:
        take(options.kernels.resolve())
    rows, begin = list[Row](), time.monotonic()

    def keep(more: list[Row]) -> None:
        rows.extend(more)
        if options.save:
            found = lines(environment(), rows)
            (RESULTS / "packed_pages.json").write_text(found, encoding="utf-8")

    for step in steps():
        for page in PAGES:
            keep(more := timed(step, page))
            print(*map(json.dumps, more), sep="\n", flush=True)
    for case in paged_cases(options.count, options.seed):
        if time.monotonic() - begin > options.seconds:
            break
        keep([row := checked(case)])
        if row["failed"]:
            print("FAILED", json.dumps(row), flush=True)
    cases = [row for row in rows if row["part"] == "case"]
    failed = sum(row["failed"] for row in cases)
    print(json.dumps({"cases": len(cases), "asked": options.count, "failed": failed}))
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
