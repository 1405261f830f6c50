"""Speed of generated kernels beside their peers, on the GPU at hand.

Errors are distances from float64 in the norm. Cycles per iteration of the main loop, of one SM,
stand beside those that the machine model predicts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from datetime import date
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

from schedgen.benchmarks import polar
from schedgen.benchmarks.timing import (
    OURS,
    Row,
    Run,
    best_peer,
    eagerly,
    error,
    imported,
    in_graph,
    in_graphs,
    in_turns,
    warm,
)
from schedgen.codegen.facts import read_facts
from schedgen.kernels import choosing, keys, launcher, library, split, tiling
from schedgen.kernels.attention_op import attention
from schedgen.kernels.gemm_op import gemm, symmetric_gemm

_PEERS = ("flash-attn-4", "quack-kernels", "gram-newton-schulz")

ATTENTION = [
    *((8, 2048, 16, 16, 128, False), (4, 4096, 16, 16, 128, False)),
    *((2, 8192, 16, 16, 128, False), (1, 16384, 16, 16, 128, False)),
    *((8, 2048, 16, 16, 128, True), (4, 4096, 16, 16, 128, True)),
    *((2, 8192, 16, 16, 128, True), (1, 16384, 16, 16, 128, True)),
    *((2, 8192, 64, 8, 128, False), (2, 8192, 64, 8, 128, True)),
    *((16, 1024, 16, 16, 128, True), (4, 5000, 16, 16, 128, True)),
    *((4, 4096, 32, 32, 64, False), (4, 4096, 32, 32, 64, True)),
]
"""Batch, sequence, heads of queries, of keys, head_dim, causal."""
SQUARES = [(n, n, n) for n in (1024, 2048, 4096, 8192, 16384)]
"""m, n and k of products."""
WEIGHTS = [(12288, 4096), (4096, 4096), (22016, 4096), (4096, 11008)]
"""n and k of the products of a transformer with 7 B parameters: queries, keys and values; the
result of attention; gate and up; down."""
LAYERS = [(rows, *weight) for weight in WEIGHTS for rows in (16, 128, 512, 2048, 8192)]
"""The same for that many tokens at a time."""
SYMMETRIC = [(n, n, k) for n in (512, 1024, 2048, 4096, 8192) for k in (n, 4 * n)]
"""The same for symmetric results."""
CHAINS = [(1, 8192, 8192, 128), (8, 2048, 8192, 128)]
"""Batch, m, n and width of chained products."""


def _rows(
    problem: Row,
    candidates: dict[str, Run],
    flops: float,
    reference: Callable[[Any], float],
    work: tuple[Path, float],
    *,
    graphed: bool = False,
) -> Iterator[Row]:
    """A row for each candidate; ``work``: file and iterations of all SMs."""
    path, iterations = work
    errors: dict[str, float] = {}
    for name, run in list(candidates.items()):
        try:
            errors[name] = reference(run())
        except Exception as refusal:  # a peer that cannot do this is no failure of the benchmark
            if name == OURS:
                raise
            yield {**problem, "provider": name, "note": f"{type(refusal).__name__}: {refusal}"[:90]}
            del candidates[name]
    warm(candidates[OURS])
    timed = in_turns(candidates)
    called = {name: time.milliseconds for name, time in eagerly(candidates).items()}
    graphs = in_graphs(candidates, timed) if graphed else {}
    best = best_peer({name: time.milliseconds for name, time in timed.items()})
    sms = launcher.multiprocessors(_gpu())
    for name, time in timed.items():
        row: Row = {
            **problem,
            "provider": name,
            "ms": round(time.milliseconds, 4),
            "TFLOP/s": round(flops / time.milliseconds / 1e9, 1),
            "of best peer": "",
            "eager ms": round(called[name], 4),
            "of best peer eagerly": "",
            "error": f"{errors[name]:.2e}",
        }
        if name == OURS:
            row["of best peer"] = "" if math.isnan(best) else round(best / time.milliseconds, 3)
            others = best_peer(called)
            eager = "" if math.isnan(others) else round(others / called[name], 3)
            row["of best peer eagerly"] = eager
            cycles = time.milliseconds * 1e3 * time.clock * sms / iterations
            row |= {
                "cycles/iteration": round(cycles) if cycles else "",
                "model": read_facts(path).cycles,
                "MHz": round(time.clock) or "",
                "note": "",
            }
        yield row | in_graph(name, graphs)


def _random(*shape: int) -> Tensor:
    return torch.randn(*shape, device="cuda").to(torch.bfloat16)


def _file(spec: str, settings: dict[str, str]) -> Path:
    return library.path_of(spec, launcher.architecture(_gpu()), settings)


def _gpu() -> torch.device:
    return torch.device("cuda", 0)


# -- attention ------------------------------------------------------------------------------------


def attention_rows() -> Iterator[Row]:
    """Attention forward beside SDPA's cuDNN and flash backends and flash-attn-4, in bf16."""
    names = ("batch", "seq", "heads", "heads_k", "head_dim", "causal")
    for shape in ATTENTION:
        batch, seq, heads, heads_k, head_dim, causal = shape
        problem: Row = dict(zip(names, shape, strict=True))
        q, k, v = (_random(batch, seq, of, head_dim) for of in (heads, heads_k, heads_k))
        settings = {"head_dim": str(head_dim), "dtype": "bf16"}
        settings |= {"causal": "true"} if causal else {}
        settings |= keys.settings(_gpu(), head_dim, causal, seq, seq)
        made = dict(read_facts(_file("attention_fwd", settings)).settings)
        rows = int(made["tiles"]) * int(made["rows"])  # of queries, of a CTA
        iterations = batch * heads * keys.iterations(causal, seq, seq, int(made["keys"]), rows)
        found = _rows(
            problem,
            _attention_candidates(q, k, v, causal),
            (0.5 if causal else 1.0) * 4 * batch * heads * seq**2 * head_dim,
            partial(_attention_error, q, k, v, causal),
            (_file("attention_fwd", settings), iterations),
            graphed=True,
        )
        for row in found:
            yield row | ({"keys": int(made["keys"])} if row["provider"] == OURS else {})


def _attention_candidates(q: Tensor, k: Tensor, v: Tensor, causal: bool) -> dict[str, Run]:
    turned_q, turned_k, turned_v = (x.transpose(1, 2) for x in (q, k, v))

    def torchs(backend: SDPBackend) -> Tensor:
        with sdpa_kernel(backend):
            out = functional.scaled_dot_product_attention(
                *(turned_q, turned_k, turned_v), is_causal=causal, enable_gqa=q.shape != k.shape
            )
        return out.transpose(1, 2)

    candidates: dict[str, Run] = {
        OURS: lambda: attention(q, k, v, causal=causal),
        "cuDNN": lambda: torchs(SDPBackend.CUDNN_ATTENTION),
        "FA2": lambda: torchs(SDPBackend.FLASH_ATTENTION),
    }
    flash = imported("flash_attn.cute.interface", "flash_attn_func")
    if flash is not None:
        candidates["FA4"] = lambda: flash(q, k, v, causal=causal)
    return candidates


def _attention_error(q: Tensor, k: Tensor, v: Tensor, causal: bool, found: Any) -> float:
    """Of one head."""
    out: Tensor = found if isinstance(found, Tensor) else found[0]
    scores = q[0, :, 0].double() @ k[0, :, 0].double().mT / math.sqrt(q.shape[-1])
    if causal:
        seen = torch.ones(scores.shape, dtype=torch.bool, device=q.device).tril()
        scores.masked_fill_(~seen, -math.inf)
    return error(out[0, :, 0], scores.softmax(-1) @ v[0, :, 0].double())


# -- products -------------------------------------------------------------------------------------


def _product_rows(
    spec: str,
    shapes: Iterable[tuple[int, int, int]],
    candidates: Callable[[Tensor, Tensor, Tensor], dict[str, Run]],
) -> Iterator[Row]:
    triangle, gelu = spec == "gemm_symmetric", spec == "gemm_epilogue"
    for m, n, k in shapes:
        a, b, bias = _random(m, k), _random(n, k), _random(n)
        reference = a.double() @ (a if triangle else b).double().mT
        if gelu:
            reference = functional.gelu(reference + bias.double(), approximate="tanh")
        how, kernel = work(spec, m, n, k)
        yield from _rows(
            {"spec": spec, "m": m, "n": n, "k": k, "tile": how},
            candidates(a, b, bias),
            2.0 * m * n * k,
            partial(_product_error, reference),
            kernel,
            graphed=True,
        )


def chosen(spec: str, m: int, n: int, k: int, arch: str, sms: int) -> choosing.Choice:
    """The kernel of ``spec`` that is taken for a shape in bf16."""
    triangle, activated = spec == "gemm_symmetric", spec == "gemm_epilogue"
    product = tiling.Product(arch, "bf16", triangle, activated=activated)
    return choosing.choice(product, (1, m, n, k), sms)


def work(spec: str, m: int, n: int, k: int) -> tuple[str, tuple[Path, int]]:
    """Output tiles of that kernel, its file, and the iterations of all of them."""
    arch, sms = launcher.architecture(_gpu()), launcher.multiprocessors(_gpu())
    found = chosen(spec, m, n, k, arch, sms)
    tile, parts = found.how, 1
    if isinstance(tile, split.Split):
        tile, parts = tile.tile, tile.parts
    rows, columns = (n, m) if found.product.transposed else (m, n)
    tiles = tiling.tiles(rows, columns, tile, found.product.symmetric)
    iterations = tiles * parts * math.ceil(k / parts / tile.depth)
    return str(found), (_file(*found.kernel), iterations)


def _product_error(reference: Tensor, found: Tensor) -> float:
    return error(found.reshape(reference.shape), reference)


def gemm_rows() -> Iterator[Row]:
    """a @ b.mT beside torch.mm and quack."""

    def candidates(a: Tensor, b: Tensor, bias: Tensor) -> dict[str, Run]:
        del bias
        found: dict[str, Run] = {OURS: lambda: gemm(a, b.mT), "torch": lambda: a @ b.mT}
        quack = imported("quack.gemm_interface", "gemm")
        if quack is not None:
            found["quack"] = lambda: quack(a, b.mT, tuned=False)
        return found

    return _product_rows("gemm", [*SQUARES, *LAYERS], candidates)


def symmetric_rows() -> Iterator[Row]:
    """a @ a.mT beside torch.mm and quack; FLOP are counted as if all of it were computed."""

    def candidates(a: Tensor, b: Tensor, bias: Tensor) -> dict[str, Run]:
        del b, bias
        found: dict[str, Run] = {OURS: lambda: symmetric_gemm(a), "torch": lambda: a @ a.mT}
        quack = imported("quack.gemm_interface", "gemm_symmetric")
        if quack is not None:
            found["quack"] = lambda: quack(a, a.mT)
        return found

    return _product_rows("gemm_symmetric", SYMMETRIC, candidates)


def epilogue_rows() -> Iterator[Row]:
    """gelu(a @ b.mT + bias) beside torch."""

    def candidates(a: Tensor, b: Tensor, bias: Tensor) -> dict[str, Run]:
        def ours() -> Tensor:
            return gemm(a, b.mT, bias=bias, activation="gelu")

        def torchs() -> Tensor:
            return functional.gelu(functional.linear(a, b, bias), approximate="tanh")

        return {OURS: ours, "torch": torchs}

    return _product_rows("gemm_epilogue", SQUARES, candidates)


def chain_rows() -> Iterator[Row]:
    """(a @ b.mT) @ c with an inner extent of 128 beside torch."""
    path = _file("gemm_chain", {"dtype": "bf16"})
    run = library.load(path)
    for batch, m, n, width in CHAINS:
        a, b, c = _random(batch, m, 128), _random(batch, n, 128), _random(batch, n, width)
        out = torch.empty(batch, m, width, dtype=torch.bfloat16, device="cuda")

        def ours(a: Tensor = a, b: Tensor = b, c: Tensor = c, out: Tensor = out) -> Tensor:
            run(a, b, c, out)
            return out

        def torchs(a: Tensor = a, b: Tensor = b, c: Tensor = c) -> Tensor:
            return (a @ b.mT) @ c

        iterations = batch * math.ceil(m / 128) * math.ceil(width / 128) * math.ceil(n / 128)
        reference = (a.double() @ b.double().mT) @ c.double()
        yield from _rows(
            {"spec": "gemm_chain", "batch": batch, "m": m, "n": n, "width": width},
            {OURS: ours, "torch": torchs},
            2.0 * batch * m * n * (128 + width),
            partial(_product_error, reference),
            (path, iterations),
        )


def polar_rows(serial: bool = False, peers: Collection[str] = polar.PEERS) -> Iterator[Row]:
    """Polar factors beside torch and gram-newton-schulz with quack's kernels; arguments as of
    `polar.polar_rows`.
    """

    def times(runs: dict[str, Run]) -> dict[str, float]:
        return {name: time.milliseconds for name, time in in_turns(runs).items()}

    def called(runs: dict[str, Run]) -> dict[str, float]:
        return {name: time.milliseconds for name, time in eagerly(runs).items()}

    with torch.no_grad():
        yield from polar.polar_rows(times, called, serial, peers)


def where() -> dict[str, str]:
    """The day, the GPU, and versions of the peers that are installed."""
    found = {
        "date": date.today().isoformat(),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
    }
    for package in (*_PEERS, "nvidia-cutlass-dsl"):
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


SPECS: dict[str, Callable[[], Iterator[Row]]] = {
    "attention_fwd": attention_rows,
    "gemm": gemm_rows,
    "gemm_symmetric": symmetric_rows,
    "gemm_epilogue": epilogue_rows,
    "gemm_chain": chain_rows,
    "polar": polar_rows,
}
"""Benchmarks by spec, or by function where many kernels take part."""
