"""Lists of blocks on a GPU: the kernel that is made of a mask beside operations of torch.

    python benchmarks/block_lists.py --build FOLDER      # without a GPU: kernels for H200
    SCHEDGEN_CACHE_DIR=FOLDER python benchmarks/block_lists.py [--only NAME ... | --save]

Tiles of 128 queries and 96 keys; documents are those of `variant_speed.py`, sorted or not, of one
sequence, of each batch, and with a reach of each head. For each mask it prints whether the kernel
makes the same list each time, and the one that torch makes, and microseconds of both: called
eagerly, queued, and in CUDA graphs. What a call converts before is not in them.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from report import RESULTS, environment, lines, require_gpu
from torch import Tensor
from variant_speed import LENGTH, SMS, lengths_of_documents

from schedgen.benchmarks.timing import eagerly, in_graphs, in_turns

ROWS, KEYS = 128, 96
HEADS, TIMES = 16, 50
OF_ALL = "doc[row] == doc[column]"
OF_EACH = "doc[batch, row] == doc[batch, column]"
Given = dict[str, Tensor]


@dataclass(frozen=True)
class Case:
    """A mask of documents.

    Attributes:
        batch: how many sequences there are, of ``repeated * LENGTH`` tokens.
        mixed: whether the tokens of documents are in any order.
    """

    name: str
    mask: str
    causal: bool = False
    batch: int = 1
    repeated: int = 1
    mixed: bool = False

    def given(self, device: str) -> Given:
        """The tensors that the mask names."""
        lengths = torch.tensor(lengths_of_documents() * self.repeated)
        doc = torch.arange(len(lengths)).repeat_interleave(lengths)
        if self.mixed:
            doc = doc[torch.randperm(len(doc), generator=torch.Generator().manual_seed(0))]
        if "batch" in self.mask:
            doc = torch.stack([doc.roll(997 * number) for number in range(self.batch)])
        reach = {"reach": 512 * (1 + torch.arange(HEADS))} if "reach" in self.mask else {}
        return {name: one.to(device) for name, one in {"doc": doc, **reach}.items()}


CASES = (
    Case("documents", OF_ALL),
    Case("documents causal", OF_ALL, causal=True),
    Case("documents mixed", OF_ALL, mixed=True),
    Case("documents of batches", OF_EACH, batch=8),
    Case("documents of heads", f"{OF_ALL} and row - column < reach[head]", causal=True),
    Case("documents long", OF_ALL, causal=True, repeated=8),
)


def asked_of(case: Case, given: Given) -> Any:
    from schedgen.kernels.variants.calling import asked, with_list

    return with_list(asked(case.mask, None, case.causal, None, given))


def build(folder: Path, cases: list[Case]) -> None:
    """Compiles the kernels for H200."""
    os.environ["SCHEDGEN_CACHE_DIR"] = str(folder)
    from schedgen.kernels import cache
    from schedgen.kernels.variants.listing import kernel_of, whole_of

    folder.mkdir(parents=True, exist_ok=True)
    for case in cases:
        given = case.given("cpu")
        wanted = asked_of(case, given)
        kernel = kernel_of(wanted, whole_of(wanted, given), "sm_90a")
        cache.compiled(kernel.path, kernel.facts, SMS)
        print(f"{case.name}  {kernel.path}", flush=True)


def measured(case: Case) -> dict[str, Any]:
    """A row."""
    from schedgen.kernels import keys
    from schedgen.kernels.variants.blocks import by_torch
    from schedgen.kernels.variants.calling import expressed, sizes_of
    from schedgen.kernels.variants.listing import kernel_of, whole_of

    given = case.given("cuda")
    wanted, tokens = asked_of(case, given), LENGTH * case.repeated
    q = k = torch.empty(case.batch, 1, HEADS, 1, device="cuda").expand(-1, tokens, -1, -1)
    passed = expressed(wanted, sizes_of(q, k), q, 1.0, None, given)
    kernel = kernel_of(wanted, whole_of(wanted, given), keys.architecture(q.device))
    settings = (("tiles", "1"), ("rows", str(ROWS)), ("keys", str(KEYS)))
    function: Any = SimpleNamespace(facts=SimpleNamespace(settings=settings))
    right = by_torch(function, wanted, q, k, given)
    found = [kernel((ROWS, KEYS), q, k, passed) for _ in range(TIMES)]
    wrong = sum(not _same(one, list(right.arrays.values())) for one in found)
    runs: dict[str, Callable[[], Any]] = {
        "kernel": lambda: kernel((ROWS, KEYS), q, k, passed),
        "torch": lambda: by_torch(function, wanted, q, k, given),
    }
    row: dict[str, Any] = {"case": case.name, "lists": right.counts[..., 0].numel()}
    row |= {"tiles": right.counts.shape[-1], "blocks": right.listed.shape[-1]}
    row |= {"share": round(right.share, 4), "runs": TIMES, "wrong": wrong}
    queued = in_turns(runs)
    times = {"eager": {n: one.milliseconds for n, one in eagerly(runs).items()}}
    times |= {"queued": {n: one.milliseconds for n, one in queued.items()}}
    times |= {"in a graph": in_graphs(runs, queued)}
    for how, of_each in times.items():
        row |= {f"{name} us {how}": round(1000 * took, 2) for name, took in of_each.items()}
    return row


def _same(found: Any, right: list[Tensor]) -> bool:
    """Whether lists are the same as far as they mean something."""
    *arrays, listed = found
    *others, wanted = right
    if not all(torch.equal(one, other) for one, other in zip(arrays, others, strict=True)):
        return False
    inside = torch.arange(wanted.shape[-1], device=wanted.device) < others[1][..., None]
    return torch.equal(listed[inside], wanted[inside])


def main() -> int:
    parser = argparse.ArgumentParser(description="lists of blocks by kernels and by torch")
    parser.add_argument("--build", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    if options.only and options.save:
        parser.error("--save keeps all cases; fix: leave --only out")
    cases = [case for case in CASES if not options.only or case.name in options.only]
    if options.build:
        build(options.build.resolve(), cases)
        return 0
    require_gpu()
    rows: list[dict[str, Any]] = []
    for case in cases:
        rows.append(measured(case))
        print(json.dumps(rows[-1]), flush=True)
    if options.save:
        found = lines(environment(), rows)
        (RESULTS / "block_lists.json").write_text(found, encoding="utf-8")
    return int(any(row["wrong"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
