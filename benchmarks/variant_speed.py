"""Variants of attention on a GPU beside flash-attn-4 and torch's compiled flex_attention.

    python benchmarks/variant_speed.py --build FOLDER [--only NAME ...] [--keys N]
                                                           # without a GPU: kernels for H200
    SCHEDGEN_CACHE_DIR=FOLDER python benchmarks/variant_speed.py --kernels FOLDER [--only NAME ...]
                                                           [--without PEER ...] [--seconds S]
                                                           [--save]

A window of 1024 keys in 16384, causal; 8 documents of different lengths in 16384, seen from both
sides and causally, by ``mask="doc[row] == doc[column]"``, with a list of blocks that is made before
and one that each call makes; and 32 packed sequences, causal, whose lengths are 128 to 8192,
log-uniform. head_dim 128, bfloat16, 16 heads, and 16 that share 4. flash-attn-4 has its window. It
gets documents as packed sequences, which is the fastest that it offers for them, and as a function
with lists of blocks that are made before (*FA4 mask*); we have packed sequences of them, too
(*documents packed*). flex_attention has the same masks as functions, with block masks made before.

Times are milliseconds, eager with an overwritten L2 cache, and in CUDA graphs. Errors are relative,
by the norm, of two heads against float64. Prints a JSON line for each candidate. ``--build`` writes
generated files, a manifest and objects for 132 SMs, so that nothing is solved on the GPU's machine;
with ``--keys`` those of documents take so many in an iteration instead of what their spec says.
``--save`` keeps rows in ``results/variant_speed.json``, with those of other cases that are there
from the same day and machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import report
import torch
from report import RESULTS, environment, lines
from torch import Tensor

from schedgen.benchmarks.timing import (
    OURS,
    best_peer,
    eagerly,
    error,
    imported,
    in_graphs,
    in_turns,
)

SMS = 132
MANIFEST = "variant_speed.json"
LENGTH, WINDOW, DOCUMENTS = 16384, 1024, 8
SEQUENCES, SHORTEST, LONGEST = 32, 128, 8192
HEAD_DIM = 128
HEADS = ((16, 16), (16, 4))
DOCUMENT_MASK = "doc[row] == doc[column]"
DOCUMENT = {"doc": torch.empty(1, dtype=torch.int64)}
"""The type of what the mask names."""
MASKED = "FA4 mask"
SETTINGS = (("head_dim", str(HEAD_DIM)), ("dtype", "bf16"))
Row = dict[str, Any]
Run = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """What is computed: sequences that see themselves only, causally or not, with a ``window``.

    ``packed``: (total, heads, head_dim) and where sequences begin, else one batch with a mask.
    """

    name: str
    lengths: tuple[int, ...]
    causal: bool
    window: int = 0
    packed: bool = False

    @property
    def total(self) -> int:
        return sum(self.lengths)


def lengths_of_documents() -> tuple[int, ...]:
    """Lengths of documents, in multiples of nothing."""
    draw = random.Random(0)
    cuts = sorted(draw.sample(range(256, LENGTH - 256), DOCUMENTS - 1))
    return tuple(b - a for a, b in zip([0, *cuts], [*cuts, LENGTH], strict=True))


def lengths_of_sequences() -> tuple[int, ...]:
    """A mix of lengths, log-uniform."""
    draw = random.Random(0)
    ends = math.log(SHORTEST), math.log(LONGEST)
    return tuple(round(math.exp(draw.uniform(*ends))) for _ in range(SEQUENCES))


CASES = (
    Case("window", (LENGTH,), True, window=WINDOW),
    Case("documents", lengths_of_documents(), False),
    Case("documents causal", lengths_of_documents(), True),
    Case("documents packed", lengths_of_documents(), False, packed=True),
    Case("documents causal packed", lengths_of_documents(), True, packed=True),
    Case("lengths", lengths_of_sequences(), True, packed=True),
)


# -- kernels ---------------------------------------------------------------------------------------


def asked_of(case: Case) -> Any:
    """What distinguishes our kernel."""
    from dataclasses import replace

    from schedgen.kernels.flash_attn import variant_arguments
    from schedgen.kernels.flash_attn_varlen import SPEC
    from schedgen.kernels.variants.calling import asked

    if case.packed:
        return asked(None, None, case.causal, None, {}, SPEC)
    if case.window:
        given = variant_arguments(torch.empty(1, 1, 1, 1), True, (WINDOW, 0), 0.0, None)
        return asked(given.pop("mask"), None, False, None, given)
    return replace(asked(DOCUMENT_MASK, None, case.causal, None, DOCUMENT), blocks=True)


def build(folder: Path, cases: Sequence[Case], keys: int) -> None:
    """Makes kernels for H200 and what is compiled of them; ``keys`` of an iteration of those that
    take blocks of a list, if it is not 0.
    """
    os.environ["SCHEDGEN_CACHE_DIR"] = str(folder)
    from schedgen.kernels import cache
    from schedgen.kernels.variants.calling import kernel_of
    from schedgen.kernels.variants.listing import kernel_of as kernel_of_lists
    from schedgen.kernels.variants.listing import whole_of

    folder.mkdir(parents=True, exist_ok=True)
    manifest: dict[str, str] = {}
    for case in cases:
        begin = time.monotonic()
        wanted = asked_of(case)
        more = (("keys", str(keys)),) if keys and wanted.blocks else ()
        function = kernel_of(wanted, "h200", (*SETTINGS, *more))
        cache.compiled(function.path, function.facts, SMS)
        manifest[case.name] = str(function.path.relative_to(folder))
        if wanted.blocks:  # of the mask alone, so that the same text finds it on the GPU's machine
            lists = kernel_of_lists(wanted, whole_of(wanted, DOCUMENT), function.facts.target)
            cache.compiled(lists.path, lists.facts, SMS)
        print(f"{time.monotonic() - begin:6.1f} s  {case.name}  {function.path}", flush=True)
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def take(folder: Path) -> None:
    """Kernels that `build` made, so that nothing is solved here."""
    from schedgen.kernels.variants.calling import keep

    manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
    for case in (case for case in CASES if case.name in manifest):
        keep(asked_of(case), "h200", SETTINGS, folder / manifest[case.name])


# -- candidates ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Inputs:
    """Operands (1, total, heads, head_dim), the document of each row, where documents begin."""

    q: Tensor
    k: Tensor
    v: Tensor
    doc: Tensor
    starts: Tensor

    @property
    def packed(self) -> tuple[Tensor, Tensor, Tensor]:
        """The same without a batch."""
        return self.q[0], self.k[0], self.v[0]


def inputs_of(case: Case, heads: int, heads_k: int) -> Inputs:
    """Normal numbers, the same each time."""
    torch.manual_seed(0)
    shapes = ((1, case.total, count, HEAD_DIM) for count in (heads, heads_k, heads_k))
    q, k, v = (torch.randn(shape, device="cuda").bfloat16() for shape in shapes)
    lengths = torch.tensor(case.lengths, device="cuda")
    doc = torch.arange(len(case.lengths), device="cuda").repeat_interleave(lengths)
    starts = torch.tensor([0, *accumulate(case.lengths)], dtype=torch.int32, device="cuda")
    return Inputs(q, k, v, doc, starts)


def ours(case: Case, given: Inputs) -> dict[str, Run]:
    """Our candidates."""
    from schedgen.kernels import attention, attention_blocks, flash_attn_func
    from schedgen.kernels import flash_attn_varlen_func as varlen

    operands, longest = (given.q, given.k, given.v), max(case.lengths)
    if case.packed:
        both = given.starts, given.starts, longest, longest
        return {OURS: lambda: varlen(*given.packed, *both, causal=case.causal)}
    if case.window:
        return {OURS: lambda: flash_attn_func(*operands, causal=True, window_size=(WINDOW, 0))}
    named: dict[str, Any] = {"mask": DOCUMENT_MASK, "causal": case.causal, "doc": given.doc}
    blocks = attention_blocks(*operands, **named)
    print(json.dumps({"case": case.name, "share of blocks": round(blocks.share, 4)}), flush=True)
    return {
        OURS: lambda: attention(*operands, blocks=blocks, **named),
        f"{OURS} with its list": lambda: attention(*operands, **named),
    }


def peers(case: Case, given: Inputs, without: Sequence[str]) -> dict[str, Run]:
    """flash-attn-4 and flex_attention, where they are installed and do not refuse."""
    found: dict[str, Run] = {}
    module, longest = "flash_attn.cute.interface", max(case.lengths)
    function, varlen = (imported(module, f"flash_attn{part}_func") for part in ("", "_varlen"))
    if function is not None and case.window:
        operands = given.q, given.k, given.v
        found["FA4"] = lambda: function(*operands, causal=True, window_size=(WINDOW, 0))
    if varlen is not None and not case.window:
        more = {"cu_seqlens_q": given.starts, "cu_seqlens_k": given.starts}
        more |= {"max_seqlen_q": longest, "max_seqlen_k": longest, "causal": case.causal}
        found["FA4"] = lambda: varlen(*given.packed, **more)
    if function is not None and not case.packed and not case.window and MASKED not in without:
        found[MASKED] = _masked(case, given, function)
    if "flex" not in without:
        found["flex"] = _flex(case, given)
    return {name: run for name, run in found.items() if name not in without}


def _masked(case: Case, given: Inputs, function: Any) -> Run:
    """flash-attn-4 with a mask as a function, and with lists of blocks."""
    from flash_attn.cute.compute_block_sparsity import compute_block_sparsity  # pyright: ignore
    from variant_mask import causal_document, document

    mask, doc, total = causal_document if case.causal else document, given.doc.int(), case.total
    lists: Any = compute_block_sparsity(128, 128, 1, 1, total, total, mask, [doc], doc.device)
    operands = given.q, given.k, given.v
    named: dict[str, Any] = {"mask_mod": mask, "aux_tensors": [doc], "block_sparse_tensors": lists}
    return lambda: function(*operands, **named)


def _flex(case: Case, given: Inputs) -> Run:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    doc, causal, window = given.doc, case.causal, case.window

    def kept(b: Tensor, h: Tensor, row: Tensor, column: Tensor) -> Tensor:
        del b, h
        seen = doc[row] == doc[column]
        if causal:
            seen = seen & (column <= row)
        return seen & (column >= row - window) if window else seen

    def in_window(b: Tensor, h: Tensor, row: Tensor, column: Tensor) -> Tensor:
        del b, h
        return (column <= row) & (column >= row - window)

    mask = in_window if window else kept
    total = case.total
    block_mask = create_block_mask(mask, None, None, total, total, device="cuda", _compile=True)
    compiled: Any = torch.compile(flex_attention, dynamic=False)
    q, k, v = (one.transpose(1, 2) for one in (given.q, given.k, given.v))
    shared = q.shape[1] != k.shape[1]
    return lambda: compiled(q, k, v, block_mask=block_mask, enable_gqa=shared).transpose(1, 2)


# -- running ---------------------------------------------------------------------------------------


def wanted_of(case: Case, given: Inputs, head: int) -> Tensor:
    """Of one head in float64, by parts of the rows."""
    group = given.q.shape[2] // given.k.shape[2]
    q = given.q[0, :, head].double()
    k, v = (one[0, :, head // group].double() for one in (given.k, given.v))
    column, found = torch.arange(case.total, device="cuda"), list[Tensor]()
    for first in range(0, case.total, 2048):
        row = column[first : first + 2048]
        seen = given.doc[row][:, None] == given.doc
        if case.causal:
            seen &= column <= row[:, None]
        if case.window:
            seen &= column >= row[:, None] - case.window
        scores = (q[row] @ k.mT / math.sqrt(HEAD_DIM)).masked_fill(~seen, -math.inf)
        found.append(scores.softmax(-1) @ v)
    return torch.cat(found)


def measured(case: Case, heads: int, heads_k: int, without: Sequence[str]) -> list[Row]:
    """A row for each candidate but peers ``without``."""
    given = inputs_of(case, heads, heads_k)
    candidates, refused = ours(case, given), list[Row]()
    for name, run in peers(case, given, without).items():
        try:
            run()
            torch.cuda.synchronize()
        except Exception as problem:  # whatever it says, it is not there to compare with
            refused.append(
                {"candidate": name, "refused": f"{type(problem).__name__}: {problem}"[:300]}
            )
        else:
            candidates[name] = run
    errors: dict[str, float] = {}
    for name, run in candidates.items():
        found: Any = run()
        found = (found[0] if isinstance(found, tuple) else found).reshape(given.q.shape)
        heads_seen = (0, heads - 1)
        parts = [error(found[0, :, head], wanted_of(case, given, head)) for head in heads_seen]
        errors[name] = max(parts)
    times, queued = eagerly(candidates), in_turns(candidates)
    graphs = in_graphs(candidates, queued)
    eager = {name: one.milliseconds for name, one in times.items()}
    flops = 4 * heads * HEAD_DIM * _pairs(case)
    rows: list[Row] = []
    head: Row = {"case": case.name, "heads": heads, "heads_k": heads_k}
    for name in candidates:
        row = {**head, "candidate": name, "eager ms": round(eager[name], 4)}
        row |= {"queued ms": round(queued[name].milliseconds, 4)}
        row |= {"graph ms": round(graphs[name], 4)} if name in graphs else {}
        row |= {"TFLOP/s": round(flops / queued[name].milliseconds / 1e9, 1)}
        if name == OURS:
            row["of best peer"] = round(_best(eager) / eager[name], 3)
            row["of best peer in a graph"] = round(_best(graphs) / graphs[name], 3)
            row["of flex"] = round(eager.get("flex", math.nan) / eager[name], 3)
            row["of its mask"] = round(graphs.get(MASKED, math.nan) / graphs[name], 3)
        rows.append(row | {"error": errors[name], "clock": times[name].clock})
    return rows + [head | one for one in refused]


def _best(milliseconds: dict[str, float]) -> float:
    """Of the fastest candidate that is not ours."""
    return best_peer({n: t for n, t in milliseconds.items() if not n.startswith(f"{OURS} ")})


def _pairs(case: Case) -> int:
    """Pairs of rows and keys that see each other."""
    if case.window:
        short = case.window + 1
        return short * (short + 1) // 2 + (case.total - short) * short
    return sum(n * (n + 1) // 2 if case.causal else n * n for n in case.lengths)


def save(rows: Sequence[Row]) -> None:
    """Keeps ``rows``, and those of other cases that are of the same day and machine."""
    path, here = RESULTS / "variant_speed.json", environment()
    new = {_key(row) for row in rows}
    old = [row for row in report.kept(path.stem, here) if _key(row) not in new]
    path.write_text(lines(here, [*rows, *old]), encoding="utf-8")


def _key(row: Row) -> tuple[str, int | None]:
    return row["case"], row.get("heads_k")


def main() -> int:
    parser = argparse.ArgumentParser(description="variants of attention beside their peers")
    parser.add_argument("--build", type=Path)
    parser.add_argument("--keys", type=int, default=0, help="of an iteration, for --build")
    parser.add_argument("--kernels", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--without", nargs="*", default=[], help="peers, such as flex")
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    cases = [case for case in CASES if not options.only or case.name in options.only]
    if options.build:
        build(options.build.resolve(), cases, options.keys)
        return 0
    if options.kernels:
        take(options.kernels.resolve())
    rows, begin = list[Row](), time.monotonic()
    for heads, heads_k in HEADS:
        for case in cases:
            if time.monotonic() - begin > options.seconds:
                print(json.dumps({"case": case.name, "heads_k": heads_k, "left out": "no time"}))
                continue
            for row in measured(case, heads, heads_k, options.without):
                rows.append(row)
                print(json.dumps(row), flush=True)
            if options.save:  # after each case: compiling peers may take longer than there is time
                save(rows)
            torch.cuda.empty_cache()
    return 0


if __name__ == "__main__":
    sys.exit(main())
