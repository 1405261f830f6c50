"""Gradients of attention on a GPU, beside flash-attn-4, FlashAttention-2 and cuDNN of torch.

    schedgen build attention_bwd --target h200       # without a GPU: compiles the kernels ahead
    python benchmarks/backward.py [--only NAME ...] [--seconds S]
                                  [--save | --short | --files FILE.py ...]

Times are those of the backward pass alone, milliseconds: launched ahead and with an overwritten L2
cache (`ms`), as users call it (`eager ms`), and in CUDA graphs. TFLOP/s count five products, as is
usual, of which causal masks leave half. Ours and flash-attn-4 are asked with and without an order
of sums ("schedgen, any order"); "schedgen, two walks" is ours without sums over CTAs, seven
products, whose calls are not planned. Shares of the best peer are within
these classes: of flash-attn-4 with ``deterministic=True``, and of the faster one of flash-attn-4
and cuDNN. ``same bits`` says of how many of 20 runs the gradients were those of the first one.
Errors are relative, by the norm, of the first head of k and the heads of q that share it, against
float64. Prints a JSON line for each candidate; ``--save`` writes benchmarks/results/backward.json
after each case. ``--short`` has few queries or output tiles instead, where two walks may take less
time than turns (`schedgen.kernels.one_walk.IN_ORDER_FROM`). ``--means``
prints the means of what was saved. ``--files`` are generated
files of `attention_bwd` to be compared, which are candidates of the cases that they are for.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import torch
from report import RESULTS, environment, lines, require_gpu, table
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from schedgen.benchmarks.timing import (
    OURS,
    eagerly,
    error,
    imported,
    in_graphs,
    in_turns,
    warm,
)
from schedgen.codegen.facts import read_facts

ANY_ORDER = f"{OURS}, any order"
TWO_WALKS = f"{OURS}, two walks"
PEERS = {
    OURS: ("FA4 deterministic",),
    TWO_WALKS: ("FA4 deterministic",),
    ANY_ORDER: ("FA4", "cuDNN"),
}
"""Candidates that are ours, and those with the same claim about bits."""
RUNS = 20
ROUNDS = 12
Row = dict[str, Any]
Gradients = tuple[Tensor, Tensor, Tensor]
Run = Callable[[], Gradients]


@dataclass(frozen=True)
class Case:
    """What is derived."""

    batch: int
    seq: int
    heads: int
    heads_k: int
    head_dim: int
    causal: bool
    dtype: str = "bf16"

    @property
    def name(self) -> str:
        heads = f"{self.heads}" if self.heads == self.heads_k else f"{self.heads}/{self.heads_k}"
        mask = "causal" if self.causal else "full"
        fp16 = "-fp16" if self.dtype == "fp16" else ""
        return f"{self.batch}x{self.seq}x{heads}x{self.head_dim}-{mask}{fp16}"

    @property
    def flops(self) -> float:
        whole = 10.0 * self.batch * self.heads * self.seq**2 * self.head_dim
        return whole / 2 if self.causal else whole


SHAPES = (
    (4, 4096, 16, 16, 128),
    (1, 16384, 16, 16, 128),
    (4, 4096, 32, 32, 64),
    (2, 8192, 64, 8, 128),
)
CASES = [
    *(Case(*shape, causal) for shape in SHAPES for causal in (False, True)),
    *(Case(*SHAPES[0], causal, "fp16") for causal in (False, True)),
]
FEW = (
    *((32, 512, 16, 16, 128), (8, 1024, 16, 16, 128), (4, 2048, 16, 16, 128)),
    *((2, 3072, 16, 16, 128), (1, 2048, 8, 8, 128), (1, 4096, 8, 8, 128)),
)
SHORT = [Case(*shape, False) for shape in FEW]
TYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass(frozen=True)
class Inputs:
    """Operands of a case, and the gradient of its result."""

    case: Case
    q: Tensor
    k: Tensor
    v: Tensor
    dout: Tensor


def inputs(case: Case) -> Inputs:
    torch.manual_seed(0)

    def random(heads: int) -> Tensor:
        shape = (case.batch, case.seq, heads, case.head_dim)
        return torch.randn(*shape, device="cuda").to(TYPES[case.dtype])

    return Inputs(case, *map(random, (case.heads, case.heads_k, case.heads_k, case.heads)))


# -- candidates ------------------------------------------------------------------------------------


def candidates(given: Inputs, files: Sequence[Path]) -> dict[str, Callable[[], Run]]:
    """What computes the forward pass, and returns what computes the backward pass."""
    return {
        **{path.stem: partial(of_file, given, path) for path in files if _is_for(path, given.case)},
        OURS: lambda: ours(given, deterministic=True),
        TWO_WALKS: lambda: two_walks(given),
        ANY_ORDER: lambda: ours(given, deterministic=False),
        "cuDNN": lambda: cudnn(given),
        "FA2": lambda: flash_2(given),
        "FA4": lambda: flash_4(given, deterministic=False),
        "FA4 deterministic": lambda: flash_4(given, deterministic=True),
    }


def ours(given: Inputs, *, deterministic: bool) -> Run:
    from schedgen.kernels import attention, attention_backward

    q, k, v, causal = given.q, given.k, given.v, given.case.causal
    out, lse = attention(q, k, v, causal=causal, return_lse=True)
    return lambda: attention_backward(
        given.dout, q, k, v, out, lse, causal=causal, deterministic=deterministic
    )


def two_walks(given: Inputs) -> Run:
    """Ours without sums over CTAs: seven products."""
    from schedgen.kernels import attention
    from schedgen.kernels.attention_backward import without_turns

    q, k, v, causal = given.q, given.k, given.v, given.case.causal
    out, lse = attention(q, k, v, causal=causal, return_lse=True)
    return lambda: without_turns(given.dout, q, k, v, out, lse, causal=causal)


def _is_for(path: Path, case: Case) -> bool:
    settings = dict(read_facts(path).settings)
    wanted = {
        "head_dim": str(case.head_dim),
        "dtype": case.dtype,
        "causal": str(case.causal).lower(),
    }
    return wanted.items() <= settings.items()


def of_file(given: Inputs, path: Path) -> Run:
    """Ours with the five products of a generated file."""
    from schedgen.kernels import attention, following, launcher, layouts, library
    from schedgen.kernels.attention_backward import DELTA

    case, device = given.case, given.q.device
    out, lse = attention(given.q, given.k, given.v, causal=case.causal, return_lse=True)
    run = launcher.launcher(path, device)
    sums = library.launcher(device, DELTA, dtype=case.dtype)
    delta, lse2 = (layouts.room(lse, lse.shape) for _ in range(2))
    dq, dk, dv = (torch.empty_like(given.q) for _ in range(3))  # of each head of q
    extents = {"batch": case.batch, "seq_q": case.seq, "heads": case.heads, "seq_k": case.seq}
    scale = case.head_dim**-0.5
    operands = (given.q, given.k, given.v, given.dout)

    def backward() -> Gradients:
        sums.launch((given.dout, out, lse, delta, lse2))
        total, words, counted = following.with_sum(run.facts, extents, dq.shape, dq)
        tensors = (*operands, lse2, delta, dk, dv, total, *words.values())
        run.launch(tensors, (scale * math.log2(math.e),))
        following.rounded(total, dq, counted, scale)
        group = (*given.k.shape[:3], -1, case.head_dim)
        if case.heads == case.heads_k:
            return dq, dk, dv
        return dq, dk.view(group).sum(3), dv.view(group).sum(3)

    return backward


def cudnn(given: Inputs) -> Run:
    """By autograd: torch's operator takes no call without a bias from Python. What autograd runs
    belongs to the stream of the forward pass, so this is not captured in a graph.
    """
    leaves = [x.detach().requires_grad_() for x in (given.q, given.k, given.v)]
    q, k, v = (x.transpose(1, 2) for x in leaves)
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        out = functional.scaled_dot_product_attention(
            q, k, v, is_causal=given.case.causal, enable_gqa=True
        )
    dout = given.dout.transpose(1, 2)
    return lambda: torch.autograd.grad(out, leaves, dout, retain_graph=True)  # type: ignore


def flash_2(given: Inputs) -> Run:
    """By torch's operators, so that they can be captured; k and v of all heads of q, as torch's
    own function does it where heads are shared.
    """
    group = given.case.heads // given.case.heads_k
    q, dout = given.q.transpose(1, 2), given.dout.transpose(1, 2)
    k, v = (x.repeat_interleave(group, 2).transpose(1, 2) for x in (given.k, given.v))
    forward: Any = torch.ops.aten._scaled_dot_product_flash_attention.default
    backward: Any = torch.ops.aten._scaled_dot_product_flash_attention_backward.default
    causal = given.case.causal
    out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = forward(q, k, v, 0.0, causal)

    def run() -> Gradients:
        dq, dk, dv = backward(
            dout, q, k, v, out, lse, cum_q, cum_k, max_q, max_k, 0.0, causal, seed, offset
        )
        if group > 1:
            dk, dv = (x.unflatten(1, (-1, group)).sum(2) for x in (dk, dv))
        return dq.transpose(1, 2), dk.transpose(1, 2), dv.transpose(1, 2)

    return run


def flash_4(given: Inputs, *, deterministic: bool) -> Run:
    interface = "flash_attn.cute.interface"
    forward, backward = (imported(interface, f"_flash_attn_{n}") for n in ("fwd", "bwd"))
    if forward is None or backward is None:
        raise ModuleNotFoundError("flash-attn-4 is not installed")
    q, k, v, causal = given.q, given.k, given.v, given.case.causal
    out, lse, *_ = forward(q, k, v, causal=causal, return_lse=True)

    def run() -> Gradients:
        found = backward(q, k, v, out, given.dout, lse, causal=causal, deterministic=deterministic)
        return tuple(found[:3])  # type: ignore[return-value]

    return run


# -- what is asked of each -------------------------------------------------------------------------


def reference(given: Inputs) -> Gradients:
    """Of the first head of k, and the heads of q that share it, in the first batch, by float64: a
    head of q after the other, as memory is short.
    """
    case = given.case
    k, v = (x[0, :, 0].double() for x in (given.k, given.v))
    dk, dv, dqs = torch.zeros_like(k), torch.zeros_like(v), list[Tensor]()
    scale = 1 / math.sqrt(case.head_dim)
    for head in range(case.heads // case.heads_k):
        q, dout = given.q[0, :, head].double(), given.dout[0, :, head].double()
        p = q @ k.mT * scale
        if case.causal:
            p.masked_fill_(torch.ones_like(p, dtype=torch.bool).triu_(1), -math.inf)
        p = p.softmax(-1)
        dv += p.mT @ dout
        dp = dout @ v.mT
        dp -= (dp * p).sum(-1, keepdim=True)
        p *= dp
        del dp
        dqs.append(p @ k * scale)
        dk += p.mT @ q * scale
        del p
    return torch.stack(dqs, 1), dk, dv


def errors(found: Gradients, wanted: Gradients, case: Case) -> dict[str, str]:
    dq, dk, dv = found
    shown = dq[0, :, : case.heads // case.heads_k], dk[0, :, 0], dv[0, :, 0]
    names = ("error of dq", "error of dk", "error of dv")
    return {n: f"{error(x, y):.2e}" for n, x, y in zip(names, shown, wanted, strict=True)}


def same_bits(run: Callable[[], Gradients]) -> str:
    """Of how many runs the results are those of the first one."""
    first = [x.clone() for x in run()]
    same = sum(all(map(torch.equal, run(), first)) for _ in range(RUNS))
    return f"{same}/{RUNS}"


def rows_of(case: Case, files: Sequence[Path]) -> Iterator[Row]:
    given = inputs(case)
    problem: Row = {"case": case.name, "batch": case.batch, "seq": case.seq, "heads": case.heads}
    problem |= {"heads_k": case.heads_k, "head_dim": case.head_dim, "causal": case.causal}
    problem["dtype"] = case.dtype
    wanted = reference(given)
    runs: dict[str, Run] = {}
    told: dict[str, Row] = {}
    for name, make in candidates(given, files).items():
        try:
            run = make()
            told[name] = {**errors(run(), wanted, case), "same bits": same_bits(run)}
            runs[name] = run
        except Exception as refusal:  # a peer that cannot do this is no failure of the benchmark
            if name in PEERS:
                raise
            yield {**problem, "provider": name, "note": f"{type(refusal).__name__}: {refusal}"[:90]}
    del wanted
    warm(runs[OURS])
    timed = in_turns(runs, ROUNDS)
    called = {name: one.milliseconds for name, one in eagerly(runs, ROUNDS).items()}
    graphs = in_graphs(runs, timed)
    milliseconds = {name: one.milliseconds for name, one in timed.items()}
    for name, one in timed.items():
        row: Row = {**problem, "provider": name, "ms": round(one.milliseconds, 4)}
        row["TFLOP/s"] = round(case.flops / one.milliseconds / 1e9, 1)
        row["of best peer"] = of_best_peer(name, milliseconds)
        row["eager ms"] = round(called[name], 4)
        if name in graphs:
            row["graph ms"] = round(graphs[name], 4)
            row["of best peer in a graph"] = of_best_peer(name, graphs)
        yield {**row, **told[name], "MHz": round(one.clock)}


def of_best_peer(name: str, milliseconds: Mapping[str, float]) -> float | str:
    """The time of the fastest of its `PEERS` in units of that of ``name``; "" if there is none."""
    peers = [milliseconds[peer] for peer in PEERS.get(name, ()) if peer in milliseconds]
    return round(min(peers) / milliseconds[name], 3) if peers else ""


def means(rows: Sequence[Row]) -> str:
    """Geometric mean, least and most of the times of flash-attn-4 of the same kind over ours."""
    found: list[Row] = []
    for name, peer in ((OURS, "FA4 deterministic"), (ANY_ORDER, "FA4")):
        for way in ("graph ms", "eager ms"):
            times = {(r["case"], r["provider"]): r[way] for r in rows if way in r}
            cases = dict.fromkeys(case for case, _ in times)
            shares = [times[case, peer] / times[case, name] for case in cases]
            row: Row = {"": name, "of": peer, "in": way, "cases": len(shares)}
            row["mean"] = round(geometric_mean(shares), 3)
            found.append(row | {"least": round(min(shares), 3), "most": round(max(shares), 3)})
    return table(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of cases")
    parser.add_argument("--seconds", type=float, default=170.0, help="no case begins after that")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--files", nargs="*", type=Path, default=[], help="to be compared")
    what.add_argument("--save", action="store_true")
    what.add_argument("--short", action="store_true", help="few queries, or few output tiles")
    what.add_argument("--means", action="store_true", help="of what was saved, without a GPU")
    options = parser.parse_args()
    if options.means:
        print(means(json.loads((RESULTS / "backward.json").read_text("utf-8"))["rows"]))
        return
    require_gpu()
    begin, rows = time.monotonic(), list[Row]()
    for case in SHORT if options.short else CASES:
        if options.only and not any(part in case.name for part in options.only):
            continue
        if time.monotonic() - begin > options.seconds:
            print(f"no time left for {case.name}", flush=True)
            continue
        for row in rows_of(case, options.files):
            rows.append(row)
            print(json.dumps(row), flush=True)
        torch.cuda.empty_cache()
        if options.save:
            (RESULTS / "backward.json").write_text(lines(environment(), rows), encoding="utf-8")


if __name__ == "__main__":
    main()
