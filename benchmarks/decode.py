"""Attention of few queries over many keys on a GPU: `attention_decode` beside its peers.

    python benchmarks/decode.py [--batch N ...] [--queries N ...] [--keys N] [--splits]
                                [--pages N ...] [--lengths] [--split] [--check] [--seconds S]
                                [--save]

Batches of 1, 16 and 128 with 8192 keys, 32 and 64 heads of queries on 8 of keys, head_dim 128, one
and four tokens. Peers are flash-attn-4, where it is installed, as it chooses itself, with packed
heads and with splits of its own choice where it takes that, and torch's
`scaled_dot_product_attention` as it chooses and with cuDNN. All run in one process and take turns:
as users call them (``eager ms``) and launched ahead (``ms``), both with a cold L2, and one after
the other in a CUDA graph. Each run reads keys of its own, among copies of more bytes than the L2
has, so that a graph finds none of them there.

A row has GB/s of what has to be read (q, k and v) and written, in a graph where there is one, and
its part of 4.8 TB/s, which an H200 has by its data sheet. Errors are against float64, of the first
sequences. ``--splits`` times other sizes of splits instead of peers. ``--check`` also asks that
results are the same bits in two runs, and in a batch and alone: exit status 1 if not. A case begins
only before ``--seconds`` are over. ``--save`` keeps all rows in ``results/decode.json``, after each
case. Nothing is solved; kernels are compiled on the first call.

With ``--pages``, caches in pages of so many keys are read by `flash_attn_with_kvcache`, 0 for
contiguous ones, and rows are kept in ``results/decode_caches.json``; with ``--lengths`` sequences
have between a 16th of the keys and all of them, and rows are kept in ``results/decode_mixed.json``.
Peers are flash-attn-4 with ``seqused_k`` and ``page_table`` where it takes them, FlashAttention-3
and FlashInfer where they are installed, torch over dense tensors of the longest length. ``--split``
adds `num_splits=2`, which splits keys over CTAs in any case.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import cycle, product
from typing import Any

import torch
from decode_caches import SPLIT, Caches, Problem
from report import RESULTS, environment, lines
from torch import Tensor
from torch.nn import functional

from schedgen.benchmarks import timing
from schedgen.kernels import attention_decode
from schedgen.kernels.attention_decode import split_keys
from schedgen.kernels.attention_op import OPERATOR as _attention

BANDWIDTH = 4.8e12
"""Bytes per second of an H200, by NVIDIA's data sheet."""
HEADS = ((32, 8), (64, 8))
HEAD_DIM = 128
COPIES = 1 << 28
"""Bytes of keys and values that runs go through before they come back to the first ones."""
CHECKED = 2
"""Sequences that are compared with float64."""
OTHERS = (f"{timing.OURS} attention", SPLIT)
"""Candidates that are no peers."""
SPLITS = (256, 512, 1024, 2048)
Case = tuple[int, int, int, int, int]
"""Batch, tokens, keys, heads of queries and of keys."""
Row = dict[str, Any]
Call = Callable[[Tensor, Tensor, Tensor], Any]


def main() -> int:
    options, begin, wrong = _options(), time.monotonic(), 0
    rows: list[Row] = []
    for case in problems(options):
        if time.monotonic() - begin > options.seconds:
            print(json.dumps({"left out": named(case)}), flush=True)
            continue
        try:
            found, checked = of_case(case, options)
        except Exception as error:  # a case more or less: the others still count
            found, checked = [{"failed": f"{type(error).__name__}: {error}"[:500]}], {}
        wrong += not all(checked.values())
        for row in found:
            rows.append({**named(case), **row, **checked})
            print(json.dumps(rows[-1]), flush=True)
        torch.cuda.empty_cache()
        if options.save:
            name = "decode_mixed.json" if options.lengths else "decode_caches.json"
            name = name if options.caches else "decode.json"
            (RESULTS / name).write_text(lines(environment(), rows), encoding="utf-8")
    return int(bool(wrong) or any("failed" in row for row in rows))


def problems(options: argparse.Namespace) -> list[Case | Problem]:
    """Caches are asked for by pages, or by lengths that differ."""
    found: list[Case | Problem] = []
    for batch, queries, heads in product(options.batch, options.queries, HEADS):
        case = (batch, queries, options.keys, *heads)
        if options.caches:
            found += [Problem(*case, page, options.lengths) for page in options.pages or [0]]
        else:
            found.append(case)
    return found


def of_case(case: Case | Problem, options: argparse.Namespace) -> tuple[list[Row], dict[str, bool]]:
    """Rows of a case, and what was checked beside them."""
    if isinstance(case, Problem):
        caches = Caches(case)
        return over_caches(caches, split=options.split), caches.same_bits() if options.check else {}
    found = measured(case, splits(case) if options.splits else peers(case))
    return found, same_bits(case) if options.check else {}


def named(case: Case | Problem) -> Row:
    if isinstance(case, Problem):
        return asdict(case)
    return dict(zip(("batch", "queries", "keys", "heads", "heads_k"), case, strict=True))


def operands(case: Case, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    batch, queries, keys, heads, heads_k = case
    make = torch.Generator("cuda").manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=make, device="cuda", dtype=torch.bfloat16)

    kv = (batch, keys, heads_k, HEAD_DIM)
    return normal(batch, queries, heads, HEAD_DIM), normal(*kv), normal(*kv)


def ours(split: int | None = None) -> Call:
    return lambda q, k, v: attention_decode(q, k, v, causal=True, split=split)


def splits(case: Case) -> dict[str, Call]:
    """Sizes of splits, with the one that is chosen first."""
    own = split_keys(case[2])
    return {timing.OURS: ours()} | {f"split {n}": ours(n) for n in SPLITS if n != own}


def peers(case: Case) -> dict[str, Call]:
    """Candidates by name; those that cannot be called are left out by `usable`."""
    scale = 1 / math.sqrt(HEAD_DIM)
    found: dict[str, Call] = {
        timing.OURS: ours(),
        "schedgen attention": lambda q, k, v: _attention(q, k, v, scale, True)[0],
    }
    fa4 = timing.imported("flash_attn.cute", "flash_attn_func")
    if fa4 is not None:
        found["flash-attn-4"] = lambda q, k, v: fa4(q, k, v, causal=True)
        found["flash-attn-4 packed"] = lambda q, k, v: fa4(q, k, v, causal=True, pack_gqa=True)
        found["flash-attn-4 splits"] = lambda q, k, v: fa4(q, k, v, causal=True, num_splits=0)
    # torch's causal masks begin at the first key, so several tokens need one that is made.
    queries, keys = case[1:3]
    seen = torch.ones(queries, keys, dtype=torch.bool, device="cuda").tril(keys - queries)
    mask = None if queries == 1 else seen

    def sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return functional.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, enable_gqa=True
        ).transpose(1, 2)

    def cudnn(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            return sdpa(q, k, v)

    return {**found, "torch sdpa": sdpa, "torch cudnn": cudnn}


def usable(candidates: dict[str, Call], given: tuple[Tensor, ...]) -> dict[str, Call]:
    """Those that run; why others do not is printed."""
    found: dict[str, Call] = {}
    for name, call in candidates.items():
        try:
            call(*given)
            torch.cuda.synchronize()
            found[name] = call
        except Exception as error:
            if name == timing.OURS:
                raise
            print(json.dumps({"not usable": name, "why": str(error)[:200]}), flush=True)
    return found


def measured(case: Case, candidates: dict[str, Call]) -> list[Row]:
    """A row for each candidate."""
    q, k, v = operands(case)
    copies = max(1, math.ceil(COPIES / (2 * k.nbytes)))
    given = [(q, k, v)] + [(q, k.clone(), v.clone()) for _ in range(copies - 1)]
    candidates = usable(candidates, given[0])
    errors = {name: off(call, case, given[0]) for name, call in candidates.items()}

    def turns(call: Call) -> timing.Run:
        following = cycle(given)
        return lambda: call(*next(following))

    runs = {name: turns(call) for name, call in candidates.items()}
    return timed(runs, errors, 2 * k.nbytes + 2 * q.nbytes)


def over_caches(caches: Caches, *, split: bool) -> list[Row]:
    """A row for each candidate."""
    given = caches.copies(max(1, math.ceil(COPIES / (2 * caches.k.nbytes))))
    candidates = usable(caches.candidates(split=split), given[0])
    wanted, errors = caches.reference(CHECKED), dict[str, float]()
    for name, call in candidates.items():
        result: Any = call(*given[0])
        found: Tensor = result if isinstance(result, Tensor) else result[0]
        errors[name] = timing.error(found[:CHECKED], wanted)

    def turns(call: Call) -> timing.Run:
        following = cycle(given)
        return lambda: call(*next(following))

    runs = {name: turns(call) for name, call in candidates.items()}
    return timed(runs, errors, caches.problem.moved)


def timed(runs: dict[str, timing.Run], errors: dict[str, float], moved: int) -> list[Row]:
    """A row for each candidate, of which ``moved`` bytes have to be read and written."""
    timing.warm(runs[timing.OURS])
    eager, ahead = timing.eagerly(runs), timing.in_turns(runs)
    graphs = timing.in_graphs(runs, ahead)
    rows: list[Row] = []
    for name in runs:
        row: Row = {"candidate": name, "eager ms": round(eager[name].milliseconds, 4)}
        row |= {"ms": round(ahead[name].milliseconds, 4), **in_graph(name, graphs)}
        seconds = graphs.get(name, ahead[name].milliseconds) / 1000
        row |= {
            "GB/s": round(moved / seconds / 1e9),
            "share": round(moved / seconds / BANDWIDTH, 3),
        }
        rows.append(row | {"error": float(f"{errors[name]:.3g}"), "MHz": ahead[name].clock})
    for key in ("eager ms", "ms"):
        others = {row["candidate"]: row[key] for row in rows}
        peer = timing.best_peer({n: t for n, t in others.items() if n not in OTHERS})
        rows[0][f"best peer / {key}"] = None if math.isnan(peer) else round(peer / rows[0][key], 3)
    return rows


def in_graph(name: str, graphs: dict[str, float]) -> timing.Row:
    """As of `timing`; other functions of ours are no peers."""
    return timing.in_graph(name, {n: t for n, t in graphs.items() if n == name or n not in OTHERS})


def off(call: Call, case: Case, given: tuple[Tensor, Tensor, Tensor]) -> float:
    """The distance from float64 of the first sequences."""
    result: Any = call(*given)
    found: Tensor = result if isinstance(result, Tensor) else result[0]
    q, k, v = (x[:CHECKED] for x in given)
    return timing.error(found[:CHECKED], reference(q, k, v))


def reference(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """In float64, one sequence after the other."""
    queries, keys, group = q.shape[1], k.shape[1], q.shape[2] // k.shape[2]
    seen = torch.ones(queries, keys, dtype=torch.bool, device=q.device).tril(keys - queries)
    found: list[Tensor] = []
    for one, *both in zip(q, k, v, strict=True):
        of_k, of_v = (x.double().repeat_interleave(group, 1) for x in both)
        scores = torch.einsum("qhd,khd->hqk", one.double(), of_k) / math.sqrt(q.shape[3])
        weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
        found.append(torch.einsum("hqk,khd->qhd", weights, of_v))
    return torch.stack(found)


def same_bits(case: Case) -> dict[str, bool]:
    """Whether results are the same bits in two runs, and of a sequence in a batch and alone."""
    q, k, v = operands(case, seed=1)
    found = ours()(q, k, v)
    again = torch.equal(found, ours()(q, k, v))
    last = slice(len(q) - 1, None)
    alone = ours()(q[last].clone(), k[last].clone(), v[last].clone())
    return {"same bits again": again, "same bits alone": torch.equal(found[last], alone)}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="attention of few queries over many keys")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16, 128])
    parser.add_argument("--queries", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--keys", type=int, default=8192)
    parser.add_argument("--splits", action="store_true")
    parser.add_argument("--pages", type=int, nargs="+", default=[])
    parser.add_argument("--lengths", action="store_true")
    parser.add_argument("--split", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--seconds", type=float, default=450)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    options.caches = bool(options.pages) or options.lengths
    return options


if __name__ == "__main__":
    sys.exit(main())
