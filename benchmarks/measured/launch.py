"""What a call costs on the host, and small shapes as users call them.

The host's share is that of calls one after the other whose kernels are short; the time of an eager
call is from its beginning to the end of its kernel, with nothing queued before it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from statistics import median

import torch
from torch import Tensor
from torch.nn import functional

from schedgen.benchmarks.timing import OURS, Row, Run, eagerly, imported, in_graphs, in_turns, warm
from schedgen.kernels import library, operators
from schedgen.kernels.attention_op import attention
from schedgen.kernels.by_spec import kernel
from schedgen.kernels.gemm_op import gemm, symmetric_gemm
from schedgen.kernels.launcher import architecture

_ROUNDS = 15
_CALLS = 200
"""Of a round: their launches fit the queue of a GPU."""
PRODUCTS = [(1024, 1024, 1024), (2048, 2048, 2048), (512, 4096, 4096), (128, 4096, 4096)]
"""m, n, k."""
SYMMETRIC = [(512, 512), (1024, 1024), (2048, 2048)]
"""m = n, k."""
ATTENTION = [(1, 512, 8, 128, False), (4, 1024, 16, 128, True)]
"""Batch, sequence, heads, head_dim, causal."""


def host_microseconds(candidates: dict[str, Run]) -> dict[str, float]:
    """Of a call of each candidate, the median of rounds in a random order."""
    found: dict[str, list[float]] = {name: [] for name in candidates}
    order = list(candidates.items())
    random = Random(0)
    for _, run in order:
        for _ in range(5):
            run()
    for _ in range(_ROUNDS):
        random.shuffle(order)
        for name, run in order:
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(_CALLS):
                run()
            found[name].append((time.perf_counter() - begin) / _CALLS * 1e6)
    torch.cuda.synchronize()
    return {name: median(times) for name, times in found.items()}


def host_rows() -> Iterator[Row]:
    """A row for each function of `schedgen.kernels`, and for peers that do the same."""
    found = host_microseconds(_calls() | _peers())
    for name, microseconds in found.items():
        yield {"call": name, "us on the host": round(microseconds, 1)}
    for name, microseconds in host_microseconds(_in_python()).items():
        yield {
            "call": f"{name}, without what is compiled",
            "us on the host": round(microseconds, 1),
        }


def _random(*shape: int) -> Tensor:
    return torch.randn(*shape, device="cuda").to(torch.bfloat16)


def _calls() -> dict[str, Run]:
    q, a, out = _random(1, 64, 2, 128), _random(128, 128), _random(128, 128)
    left, right, result = _random(1, 128, 128), _random(1, 128, 128), _random(1, 128, 128)
    arch = architecture(torch.device("cuda", 0))
    file = library.load(library.path_of("gemm", arch, {"dtype": "bf16"}))
    function = kernel("gemm", dtype="bf16")
    zero = torch.zeros_like(result)
    return {
        "attention": lambda: attention(q, q, q),
        "gemm": lambda: gemm(a, a.mT),
        "gemm, with an addend": lambda: gemm(a, a.mT, out, alpha=0.5),
        "gemm, out=": lambda: gemm(a, a.mT, out=out),
        "symmetric_gemm": lambda: symmetric_gemm(a),
        "load(file)": lambda: file(left, right, zero, result, 1.0, 0.0),
        "kernel(spec)": lambda: function(left, right, zero, 1.0, 0.0),
    }


def _peers() -> dict[str, Run]:
    q, a, out = _random(1, 64, 2, 128), _random(128, 128), _random(128, 128)
    turned = q.transpose(1, 2)
    found: dict[str, Run] = {
        "torch SDPA": lambda: functional.scaled_dot_product_attention(turned, turned, turned),
        "torch.mm": lambda: torch.mm(a, a.mT),
        "torch.mm, out=": lambda: torch.mm(a, a.mT, out=out),
    }
    for name, (module, function) in {
        "quack gemm": ("quack.gemm_interface", "gemm"),
        "flash-attn-4": ("flash_attn.cute.interface", "flash_attn_func"),
    }.items():
        run = imported(module, function)
        if run is not None:
            found[name] = (
                partial(run, a, a.mT, tuned=False) if "gemm" in name else partial(run, q, q, q)
            )
    return found


def _in_python() -> dict[str, Run]:
    """Calls through Python, as they are where there is no compiler."""
    compute = operators.defined("attention_fwd"), operators.defined("gemm")
    assert compute[0] is not None
    assert compute[1] is not None
    q, a = _random(1, 64, 2, 128), _random(128, 128)
    return {
        "attention": partial(compute[0].in_python, q, q, q, 0.1, False),
        "gemm": partial(compute[1].in_python, a, a.mT, None, 1.0, 1.0),
    }


def eager_rows() -> Iterator[Row]:
    """Shapes whose kernels take no longer than a call did, called eagerly and in CUDA graphs."""
    for m, n, k in PRODUCTS:
        a, b = _random(m, k), _random(n, k)
        runs: dict[str, Run] = {
            OURS: partial(_product, gemm, a, b),
            "torch": partial(_product, torch.mm, a, b),
        }
        quack = imported("quack.gemm_interface", "gemm")
        if quack is not None:
            runs["quack"] = partial(quack, a, b.mT, tuned=False)
        yield from _eager({"function": "gemm", "shape": f"{m} x {n} x {k}"}, runs, 2.0 * m * n * k)
    for n, k in SYMMETRIC:
        a = _random(n, k)
        runs = {OURS: partial(symmetric_gemm, a), "torch": partial(_product, torch.mm, a, a)}
        quack = imported("quack.gemm_interface", "gemm_symmetric")
        if quack is not None:
            runs["quack"] = partial(_product, quack, a, a)
        problem: Row = {"function": "symmetric_gemm", "shape": f"{n} x {k}"}
        yield from _eager(problem, runs, 2.0 * n * n * k)
    for batch, seq, heads, head_dim, causal in ATTENTION:
        q, k_, v = (_random(batch, seq, heads, head_dim) for _ in range(3))
        runs = {
            OURS: partial(attention, q, k_, v, causal=causal),
            "torch": partial(_sdpa, q, k_, v, causal),
        }
        flash = imported("flash_attn.cute.interface", "flash_attn_func")
        if flash is not None:
            runs["FA4"] = partial(flash, q, k_, v, causal=causal)
        shape = f"{batch} x {seq} x {heads} x {head_dim}" + (", causal" if causal else "")
        flops = 4.0 * batch * heads * seq**2 * head_dim / (2 if causal else 1)
        yield from _eager({"function": "attention", "shape": shape}, runs, flops)


def _product(multiply: Callable[[Tensor, Tensor], Tensor], a: Tensor, b: Tensor) -> Tensor:
    return multiply(a, b.mT)


def _sdpa(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> Tensor:
    left, right, values = (x.transpose(1, 2) for x in (q, k, v))
    return functional.scaled_dot_product_attention(left, right, values, is_causal=causal)


def _eager(problem: Row, runs: dict[str, Run], flops: float) -> Iterator[Row]:
    for name, run in list(runs.items()):
        try:
            for _ in range(3):
                run()
        except Exception:  # a peer that cannot do this is no failure of the benchmark
            if name == OURS:
                raise
            del runs[name]
    warm(runs[OURS])
    ahead, eager = in_turns(runs), eagerly(runs)
    graphs = in_graphs(runs, ahead)
    for name in runs:
        row: Row = {**problem, "provider": name}
        for how, milliseconds in (
            ("eager", {n: t.milliseconds for n, t in eager.items()}),
            ("on the GPU", {n: t.milliseconds for n, t in ahead.items()}),
            ("graph", graphs),
        ):
            if name not in milliseconds:
                row |= {f"{how} us": "", f"{how} TFLOP/s": "", f"{how}, of best peer": ""}
                continue
            best = min(t for other, t in milliseconds.items() if other != OURS)
            row |= {
                f"{how} us": round(milliseconds[name] * 1e3, 1),
                f"{how} TFLOP/s": round(flops / milliseconds[name] / 1e9, 1),
                f"{how}, of best peer": round(best / milliseconds[name], 2) if name == OURS else "",
            }
        yield row
