"""Gradients of attention to documents on a GPU: a mask by numbers of documents, by lists of blocks.

    python benchmarks/document_gradients.py --build FOLDER [--all]     # without a GPU
    python benchmarks/document_gradients.py [--kernels FOLDER] [--only full|causal]
                                            [--heads-k N ...] [--without NAME ...] [--save]

The documents are those of `variant_speed`, 8 in 16384 tokens, seen from both sides and causally.
Ours is ``attention(..., mask="doc[row] == doc[column]")``, whose backward pass lists the blocks
that its two kernels take each time; with ``--all`` kernels that compute all blocks are made as
well (``blocks=False``). Peers are flash-attn-4, for which documents are packed sequences, with and
without ``deterministic``, and torch's compiled flex_attention. Times are those of the backward pass
alone, by autograd, milliseconds: launched ahead with an overwritten L2 cache (``ms``), and as users
call it (``eager ms``). TFLOP/s count five products of what masks leave. Errors and ``same bits``
are as in `packed_gradients`. ``--kernels`` takes what ``--build`` made, where nothing is solved,
``--only`` and ``--heads-k`` some of the cases, ``--without`` leaves a peer out. ``--save`` keeps
results in ``results/document_gradients.json``, beside what that has of other cases of the same day
and machine.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from packed_gradients import MANIFEST, SMS, TARGET, Case, Gradients, compared, operands_of
from packed_gradients import candidates as of_packed
from report import RESULTS, environment, kept, lines
from torch import Tensor
from variant_speed import DOCUMENT, DOCUMENT_MASK, HEAD_DIM, lengths_of_documents

from schedgen.benchmarks.timing import OURS

ALL, FLEX = f"{OURS}, all blocks", "flex"
HEADS = ((16, 16), (16, 4))
Row = dict[str, Any]


def cases() -> list[Case]:
    long = lengths_of_documents()
    return [
        Case("documents", long, heads, heads_k, HEAD_DIM, causal)
        for causal in (False, True)
        for heads, heads_k in HEADS
    ]


def asked_of(causal: bool, blocks: bool) -> Any:
    """What distinguishes the kernels."""
    from schedgen.kernels.variants.calling import asked

    return replace(asked(DOCUMENT_MASK, None, causal, None, DOCUMENT), blocks=blocks)


def needed(causal: bool, blocks: bool) -> Iterator[tuple[Any, tuple[tuple[str, str], ...]]]:
    """What distinguishes the kernels of both passes, and parameters of their specs."""
    from schedgen.kernels.variants.backward import KEYS, QUERIES
    from schedgen.kernels.variants.calling import Asked
    from schedgen.kernels.variants.gradients import DELTA

    wanted, settings = asked_of(causal, blocks), (("head_dim", str(HEAD_DIM)), ("dtype", "bf16"))
    for base in (wanted.base, KEYS, QUERIES):
        yield replace(wanted, base=base), settings
    yield Asked(None, None, False, False, (), DELTA), (("dtype", "bf16"),)


def build(folder: Path, *, everything: bool) -> None:
    """Makes kernels for H200, and what is compiled of them."""
    os.environ["SCHEDGEN_CACHE_DIR"] = str(folder)
    from schedgen.kernels import cache
    from schedgen.kernels.variants import listing
    from schedgen.kernels.variants.calling import kernel_of, turned

    folder.mkdir(parents=True, exist_ok=True)
    made: dict[str, str] = {}
    for blocks in (True, *([False] if everything else [])):
        for causal in (False, True):
            for wanted, settings in needed(causal, blocks):
                function = kernel_of(wanted, TARGET, settings)
                cache.compiled(function.path, function.facts, SMS)
                made[f"{wanted} {settings}"] = str(function.path.relative_to(folder))
                print(function.path, flush=True)
                (folder / MANIFEST).write_text(json.dumps(made, indent=1), encoding="utf-8")
            wanted = asked_of(causal, blocks=True)
            for one in (wanted, turned(wanted)):  # found by their texts on the GPU's machine
                lists = listing.kernel_of(one, listing.whole_of(one, DOCUMENT), "sm_90a")
                cache.compiled(lists.path, lists.facts, SMS)


def take(folder: Path) -> None:
    """Kernels that `build` made, so that nothing is solved here."""
    from schedgen.kernels.variants.calling import keep

    made = json.loads((folder / MANIFEST).read_text("utf-8"))
    for causal in (False, True):
        for blocks in (True, False):
            for wanted, settings in needed(causal, blocks):
                if (path := made.get(f"{wanted} {settings}")) is not None:
                    keep(wanted, TARGET, settings, folder / path)


def candidates(
    case: Case, leaves: list[Tensor], starts: Tensor, dout: Tensor, *, everything: bool
) -> dict[str, Callable[[], Callable[[], Gradients]]]:
    """What computes the forward pass, and returns what computes the backward pass."""
    from schedgen.kernels import attention

    lengths = torch.tensor(case.lengths, device="cuda")
    doc = torch.arange(len(case.lengths), device="cuda").repeat_interleave(lengths)

    def derived(out: Tensor) -> Callable[[], Gradients]:
        return lambda: torch.autograd.grad(out, leaves, dout, retain_graph=True)

    def ours(**more: Any) -> Callable[[], Gradients]:
        batch = (x[None] for x in leaves)
        named: dict[str, Any] = {"mask": DOCUMENT_MASK, "causal": case.causal, "doc": doc}
        return derived(attention(*batch, **named, **more)[0])

    found = {OURS: ours} | ({ALL: lambda: ours(blocks=False)} if everything else {})
    packed = of_packed(case, leaves, starts, dout)
    found |= {name: make for name, make in packed.items() if name != OURS}
    return found | {FLEX: lambda: derived(_flex(case, leaves, doc))}


def _flex(case: Case, leaves: list[Tensor], doc: Tensor) -> Tensor:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def kept(b: Tensor, h: Tensor, row: Tensor, column: Tensor) -> Tensor:
        del b, h
        same = doc[row] == doc[column]
        return same & (column <= row) if case.causal else same

    total = len(doc)
    mask = create_block_mask(kept, None, None, total, total, device="cuda", _compile=True)
    q, k, v = (x[None].transpose(1, 2) for x in leaves)
    compiled: Any = torch.compile(flex_attention, dynamic=False)
    shared = case.heads != case.heads_k
    return compiled(q, k, v, block_mask=mask, enable_gqa=shared).transpose(1, 2)[0]


def rows_of(case: Case, without: Sequence[str], *, everything: bool) -> Iterator[Row]:
    leaves, starts, dout, wanted = operands_of(case)
    problem: Row = {"heads": case.heads, "heads_k": case.heads_k, "causal": case.causal}
    made = candidates(case, leaves, starts, dout, everything=everything)
    chosen = {name: make for name, make in made.items() if name not in without}
    yield from compared(case, problem, chosen, wanted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="make kernels, without a GPU")
    parser.add_argument("--kernels", type=Path, metavar="FOLDER", help="take those that were made")
    parser.add_argument("--all", action="store_true", help="also without lists of blocks")
    parser.add_argument("--only", choices=["full", "causal"], default="")
    parser.add_argument("--heads-k", type=int, nargs="+", default=[k for _, k in HEADS])
    parser.add_argument("--without", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    if options.build is not None:
        build(options.build, everything=options.all)
        return
    if options.kernels is not None:
        take(options.kernels)
    chosen = (case for case in cases() if case.heads_k in options.heads_k)
    for case in (one for one in chosen if options.only in ("", ("full", "causal")[one.causal])):
        rows: list[Row] = []
        for row in rows_of(case, options.without, everything=options.all):
            rows.append(row)
            print(json.dumps(row), flush=True)
        torch.cuda.empty_cache()
        if options.save:
            save(rows)


def save(rows: list[Row]) -> None:
    """Keeps the rows of one case, and those of others that were measured in the same way."""
    path = RESULTS / "document_gradients.json"
    here, case = environment(), ("heads_k", "causal")
    old = kept(path.stem, here)
    others = [row for row in old if any(row[key] != rows[0][key] for key in case)]
    path.write_text(lines(here, others + rows), encoding="utf-8")


if __name__ == "__main__":
    main()
