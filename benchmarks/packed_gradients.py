"""Gradients of packed sequences on a GPU, beside flash-attn-4: `flash_attn_varlen_func`.

    python benchmarks/packed_gradients.py --build FOLDER     # without a GPU: makes the kernels
    python benchmarks/packed_gradients.py [--kernels FOLDER] [--save]

Sequences are those of `variant_speed` ("lengths"), a mix from short to long ones, and for errors a
few that are empty, of one token, and one more or less than a tile. Times are those of the backward
pass alone, by autograd, milliseconds: launched ahead with an overwritten L2 cache (`ms`), and as
users call it (`eager ms`). TFLOP/s count five products of what masks leave. flash-attn-4 is asked
with and without ``deterministic``; ours has the same bits each time, and ``same bits`` says of how
many of 20 runs. ``in turns`` and ``any order`` are one kernel of all gradients instead of the two
of ``two walks``, whatever ours takes, without autograd and so without eager times
(`schedgen.kernels.attention_varlen.in_one_walk`).
Errors are relative, by the norm, of the first head of k and the heads of q that share it, against
float64. ``--kernels`` takes what ``--build`` made, where nothing can be solved.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from backward import ROUNDS, RUNS
from report import RESULTS, environment, lines
from torch import Tensor
from variant_speed import lengths_of_sequences

from schedgen.benchmarks.timing import OURS, eagerly, error, imported, in_turns, warm

EDGES = (0, 1, 127, 128, 129, 1000, 64, 0, 3, 2048)
"""Lengths around those of tiles."""
TARGET, SMS, MANIFEST = "h200", 132, "kernels.json"
WALKS = TWO_WALKS, IN_TURNS, ANY_ORDER = tuple(
    f"{OURS}, {way}" for way in ("two walks", "in turns", "any order")
)
Row = dict[str, Any]
Gradients = tuple[Tensor, ...]


@dataclass(frozen=True)
class Case:
    """What is derived; short ones are not timed."""

    name: str
    lengths: tuple[int, ...]
    heads: int
    heads_k: int
    head_dim: int
    causal: bool
    timed: bool = True

    @property
    def flops(self) -> float:
        whole = 10.0 * self.heads * self.head_dim * sum(n * n for n in self.lengths)
        return whole / 2 if self.causal else whole

    @property
    def settings(self) -> dict[str, str]:
        """Parameters of the specs."""
        from schedgen.kernels.attention_arguments import dims

        return dims(self.head_dim, self.head_dim) | {"dtype": "bf16"}


def cases() -> list[Case]:
    long = lengths_of_sequences()
    ways = ((128, False), (128, True), (64, True))
    return [
        *(Case("edges", EDGES, 4, 2, dim, causal, timed=False) for dim, causal in ways),
        *(Case("lengths", long, 2048 // dim, 2048 // dim, dim, causal) for dim, causal in ways),
    ]


# -- kernels ---------------------------------------------------------------------------------------


def needed(case: Case) -> Iterator[tuple[Any, tuple[tuple[str, str], ...]]]:
    """What distinguishes the kernels of a case, and parameters of their specs."""
    from schedgen.kernels import attention_varlen
    from schedgen.kernels.variants.backward import PACKED_KEYS, PACKED_QUERIES
    from schedgen.kernels.variants.calling import Asked

    settings = tuple(case.settings.items())
    for ordered in ((), (("ordered", "true"),)):
        wanted = Asked(None, None, case.causal, False, (), attention_varlen.WHOLE)
        yield wanted, (*settings, *ordered)
    for base in (attention_varlen.SPEC, PACKED_KEYS, PACKED_QUERIES):
        yield Asked(None, None, case.causal, False, (), base), settings
    for base in (attention_varlen.DELTA, attention_varlen.CONVERT):
        yield Asked(None, None, False, False, (), base), (("dtype", "bf16"),)


def build(folder: Path) -> None:
    """Makes the kernels for H200, and what is compiled of them."""
    os.environ["SCHEDGEN_CACHE_DIR"] = str(folder)
    from schedgen.kernels import cache
    from schedgen.kernels.variants.calling import kernel_of

    folder.mkdir(parents=True, exist_ok=True)
    made: dict[str, str] = {}
    for case in cases():
        for wanted, settings in needed(case):
            key = f"{wanted} {settings}"
            if key not in made:
                function = kernel_of(wanted, TARGET, settings)
                cache.compiled(function.path, function.facts, SMS)
                made[key] = str(function.path.relative_to(folder))
                print(made[key], flush=True)
            (folder / MANIFEST).write_text(json.dumps(made, indent=1), encoding="utf-8")


def take(folder: Path) -> list[Case]:
    """Cases whose kernels `build` made."""
    from schedgen.kernels.variants.calling import keep

    made, found = json.loads((folder / MANIFEST).read_text("utf-8")), list[Case]()
    for case in cases():
        if all(f"{wanted} {settings}" in made for wanted, settings in needed(case)):
            for wanted, settings in needed(case):
                keep(wanted, TARGET, settings, folder / made[f"{wanted} {settings}"])
            found.append(case)
    return found


# -- what is asked of each -------------------------------------------------------------------------


def candidates(
    case: Case, leaves: list[Tensor], starts: Tensor, dout: Tensor
) -> dict[str, Callable[[], Callable[[], Gradients]]]:
    """What computes the forward pass, and returns what computes the backward pass."""
    from schedgen.kernels import flash_attn_varlen_func

    longest = max(case.lengths)

    def derived(function: Callable[..., Any], **more: Any) -> Callable[[], Gradients]:
        found = function(*leaves, causal=case.causal, **more)
        out = found[0] if isinstance(found, tuple) else found
        return lambda: torch.autograd.grad(out, leaves, dout, retain_graph=True)

    def ours() -> Callable[[], Gradients]:
        return derived(lambda *x, **more: flash_attn_varlen_func(
            *x, starts, starts, longest, longest, **more
        ))  # fmt: skip

    def peer(deterministic: bool) -> Callable[[], Gradients]:
        function = imported("flash_attn.cute", "flash_attn_varlen_func")
        if function is None:
            raise ModuleNotFoundError("flash-attn-4 is not installed")
        named = {"cu_seqlens_q": starts, "cu_seqlens_k": starts}
        named |= {"max_seqlen_q": longest, "max_seqlen_k": longest}
        return derived(function, **named, deterministic=deterministic)

    return {
        OURS: ours,
        "FA4": lambda: peer(False),
        "FA4 deterministic": lambda: peer(True),
    }


def by_walks(
    case: Case, leaves: list[Tensor], starts: Tensor, dout: Tensor
) -> dict[str, Callable[[], Callable[[], Gradients]]]:
    """The same by two kernels of ours, and by one, in turns and in any order."""
    from schedgen.kernels import attention_varlen

    scale, operands = case.head_dim**-0.5, [x.detach() for x in leaves]
    given = (*operands, starts, starts, max(case.lengths), scale, case.causal)

    def made(by: Callable[..., Gradients], **more: bool) -> Callable[[], Gradients]:
        results = attention_varlen.OPERATOR(*given)
        return lambda: by(dout, *operands, *results, starts, starts, causal=case.causal, **more)

    return {
        TWO_WALKS: lambda: made(attention_varlen.without_turns),
        IN_TURNS: lambda: made(attention_varlen.in_one_walk, ordered=True),
        ANY_ORDER: lambda: made(attention_varlen.in_one_walk, ordered=False),
    }


def reference(case: Case, operands: list[Tensor], dout: Tensor) -> Gradients:
    """By float64 of each sequence, of the first head of k and those of q that share it."""
    share = case.heads // case.heads_k
    q, k, v = (x.double() for x in (operands[0][:, :share], operands[1][:, :1], operands[2][:, :1]))
    given = dout[:, :share].double()
    results = [torch.zeros_like(x) for x in (q, k, v)]
    for end, size in zip(accumulate(case.lengths), case.lengths, strict=True):
        rows = slice(end - size, end)
        for head in range(share if size else 0):
            one, keys, values = (x[rows].requires_grad_() for x in (q[:, head], k[:, 0], v[:, 0]))
            scores = one @ keys.mT / math.sqrt(case.head_dim)
            if case.causal:
                scores = scores.masked_fill(torch.ones_like(scores).bool().triu(1), -math.inf)
            found = torch.autograd.grad(
                scores.softmax(-1) @ values, (one, keys, values), given[rows, head]
            )
            results[0][rows, head] += found[0]
            for result, part in zip(results[1:], found[1:], strict=True):
                result[rows, 0] += part
    return tuple(results)


def operands_of(case: Case) -> tuple[list[Tensor], Tensor, Tensor, Gradients]:
    """q, k and v, which want gradients, where sequences begin, dout, and what is right."""
    torch.manual_seed(0)
    total = sum(case.lengths)
    shapes = ((total, heads, case.head_dim) for heads in (case.heads, case.heads_k, case.heads_k))
    operands = [torch.randn(shape, device="cuda").bfloat16() for shape in shapes]
    dout = torch.randn_like(operands[0])
    starts = torch.tensor([0, *accumulate(case.lengths)], dtype=torch.int32, device="cuda")
    leaves = [x.detach().requires_grad_() for x in operands]
    wanted = reference(case, operands, dout)
    return leaves, starts, dout, wanted


def rows_of(case: Case) -> Iterator[Row]:
    leaves, starts, dout, wanted = operands_of(case)
    problem: Row = {"case": case.name, "sequences": len(case.lengths), "tokens": len(leaves[0])}
    problem |= {"heads": case.heads, "heads_k": case.heads_k, "head_dim": case.head_dim}
    problem["causal"] = case.causal
    given = (case, leaves, starts, dout)
    yield from compared(case, problem, candidates(*given) | by_walks(*given), wanted)


def compared(
    case: Case,
    problem: Row,
    made: Mapping[str, Callable[[], Callable[[], Gradients]]],
    wanted: Gradients,
) -> Iterator[Row]:
    """A row for each candidate: errors, same bits, and times where the case is timed."""
    runs, told = dict[str, Callable[[], Gradients]](), dict[str, Row]()
    for name, make in made.items():
        try:
            runs[name] = make()
            told[name] = {**errors(runs[name](), wanted), "same bits": same_bits(runs[name])}
        except Exception as refusal:  # a peer that cannot do this is no failure of the benchmark
            runs.pop(name, None)
            if name == OURS:
                raise
            yield {**problem, "provider": name, "note": f"{type(refusal).__name__}: {refusal}"[:90]}
    if not case.timed:
        yield from ({**problem, "provider": name, **row} for name, row in told.items())
        return
    warm(runs[OURS])
    timed, called = in_turns(runs, ROUNDS), eagerly(runs, ROUNDS)
    peers = [name for name in runs if name not in (OURS, *WALKS)]
    for name, one in timed.items():
        row: Row = {**problem, "provider": name, "ms": round(one.milliseconds, 4)}
        row["TFLOP/s"] = round(case.flops / one.milliseconds / 1e9, 1)
        if name not in WALKS:
            row["eager ms"] = round(called[name].milliseconds, 4)
        for peer in peers if name in (OURS, *WALKS) else ():
            row[f"of {peer}"] = round(timed[peer].milliseconds / one.milliseconds, 3)
        for peer in peers if name == OURS else ():
            row[f"of {peer}, eagerly"] = round(
                called[peer].milliseconds / called[name].milliseconds, 3
            )
        yield {**row, **told[name], "MHz": round(one.clock)}


def errors(found: Gradients, wanted: Gradients) -> Row:
    names = ("error of dq", "error of dk", "error of dv")
    shown = (x[:, : y.shape[1]] for x, y in zip(found, wanted, strict=True))
    return {n: f"{error(x, y):.2e}" for n, x, y in zip(names, shown, wanted, strict=True)}


def same_bits(run: Callable[[], Gradients]) -> str:
    first = [x.clone() for x in run()]
    return f"{sum(all(map(torch.equal, run(), first)) for _ in range(RUNS))}/{RUNS}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, metavar="FOLDER", help="make kernels, without a GPU")
    parser.add_argument("--kernels", type=Path, metavar="FOLDER", help="take those that were made")
    parser.add_argument("--save", action="store_true")
    options = parser.parse_args()
    if options.build is not None:
        build(options.build)
        return
    rows: list[Row] = []
    for case in cases() if options.kernels is None else take(options.kernels):
        for row in rows_of(case):
            rows.append(row)
            print(json.dumps(row), flush=True)
        torch.cuda.empty_cache()
        if options.save:
            text = lines(environment(), rows)
            (RESULTS / "packed_gradients.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
