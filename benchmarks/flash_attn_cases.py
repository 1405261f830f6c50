"""`flash_attn_func` against float64 on a GPU, beside flash-attn-4 and an eager computation.

    python benchmarks/flash_attn_cases.py --build FOLDER      # without a GPU: all kernels for H200
    python benchmarks/flash_attn_cases.py --list
    SCHEDGEN_CACHE_DIR=FOLDER python benchmarks/flash_attn_cases.py --kernels FOLDER
                                          [--count N] [--seed S] [--peer-seconds S] [--save]

A seeded part of the grid causal x window x soft cap x sinks x slopes x grouped heads x head_dim x
lengths from 1 to 4096. A case fails if its error is more than twice the peer's, by the norm, or
three times at the worst place (`tests/kernels/gpu_cases.py`); the peer is flash-attn-4 where it is
installed, has the feature and time is left to compile it, else torch with operands and
probabilities in their data type, as in flash-attn's own tests. Rows that see nothing are 0 with
-inf. ``--build`` writes the generated files, a manifest and objects for 132 SMs, so that nothing is
solved or compiled on the GPU's machine. ``--save`` keeps all cases in
``results/flash_attn_cases.json``. Exit status 1 if a case fails.
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

SMS = 132
MANIFEST = "manifest.json"
LENGTHS = (
    1,
    2,
    7,
    63,
    64,
    65,
    100,
    128,
    129,
    200,
    255,
    384,
    500,
    777,
    1024,
    1500,
    2048,
    3000,
    4096,
)
HEADS = ((1, 1, 1), (2, 4, 4), (1, 8, 2), (2, 6, 1))
"""Batch, heads of q, heads of k."""
MOST_SCORES = 1 << 26
"""Scores of a case, which float64 and eager computations hold."""
Row = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """What a kernel is made for: a ``window``, ``causal`` or ``full``; dimensions of slopes."""

    mask: str
    softcap: bool = False
    slopes: int = 0
    sinks: bool = False
    head_dim: int = 64
    dtype: str = "bf16"


CONFIGS = (
    Config("full"),
    Config("causal"),
    Config("full", head_dim=128),
    Config("causal", head_dim=128, dtype="fp16"),
    Config("window"),
    Config("window", head_dim=128),
    Config("window", softcap=True, head_dim=128),
    Config("causal", softcap=True),
    Config("full", softcap=True, sinks=True, head_dim=128),
    Config("full", sinks=True),
    Config("causal", sinks=True, head_dim=128),
    Config("window", sinks=True),
    Config("causal", slopes=1),
    Config("full", slopes=1, head_dim=128),
    Config("window", slopes=2, sinks=True, head_dim=128),
    Config("causal", softcap=True, slopes=1, head_dim=128),
    Config("window", softcap=True, slopes=2, sinks=True),
    Config("window", head_dim=256),
    Config("window", softcap=True, sinks=True, head_dim=96, dtype="fp16"),
)


@dataclass(frozen=True)
class Case:
    """A call of `flash_attn_func`."""

    config: Config
    seed: int
    batch: int
    heads: int
    heads_k: int
    seq_q: int
    seq_k: int
    window: tuple[int, int]
    softcap: float

    @property
    def causal(self) -> bool:
        return self.config.mask == "causal"

    def tensors(self, device: str) -> dict[str, Tensor | None]:
        """Operands, slopes and sinks."""
        torch.manual_seed(self.seed)
        dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}[self.config.dtype]
        dim, shape = self.config.head_dim, (self.batch, self.heads)
        found: dict[str, Tensor | None] = {
            "q": torch.randn(self.batch, self.seq_q, self.heads, dim).to(device, dtype)
        }
        for name in "kv":
            operand = torch.randn(self.batch, self.seq_k, self.heads_k, dim)
            found[name] = operand.to(device, dtype)
        found["slopes"] = (
            torch.rand(shape[-self.config.slopes :]).to(device) * 0.3
            if self.config.slopes
            else None
        )
        found["sinks"] = torch.randn(self.heads).to(device, dtype) if self.config.sinks else None
        return found


def cases(count: int, seed: int) -> list[Case]:
    """The same for the same seed: all kinds of kernels equally often."""
    draw, found = random.Random(seed), []
    while len(found) < count:
        config = CONFIGS[len(found) % len(CONFIGS)]
        heads = draw.choice(HEADS)
        seq_q = draw.choice(LENGTHS)
        seq_k = seq_q if draw.random() < 0.5 else draw.choice(LENGTHS)
        if heads[0] * heads[1] * seq_q * seq_k > MOST_SCORES:
            heads = HEADS[0]
        window = draw.choice(((0, 0), (1, 5), (64, 0), (100, 30), (1000, -1), (-1, 17), (300, 300)))
        cap = draw.choice((5.0, 15.0, 50.0))
        found.append(
            Case(
                config, len(found), *heads, seq_q, seq_k,
                window if config.mask == "window" else (-1, -1), cap if config.softcap else 0.0,
            )
        )  # fmt: skip
    return found


# -- what they should be ---------------------------------------------------------------------------


def bias_of(case: Case, given: dict[str, Tensor | None]) -> Tensor:
    """What is added to scores, [batch or 1, heads or 1, rows, columns] in float64."""
    q = given["q"]
    assert q is not None
    row = torch.arange(case.seq_q, device=q.device)[:, None] + case.seq_k - case.seq_q
    column = torch.arange(case.seq_k, device=q.device)[None, :]
    left, right = case.window
    kept = torch.ones(case.seq_q, case.seq_k, dtype=torch.bool, device=q.device)
    if left >= 0:
        kept &= column >= row - left
    if case.causal or right >= 0:
        kept &= column <= row + (0 if case.causal else right)
    slopes, bias = given["slopes"], torch.zeros((), dtype=torch.float64, device=q.device)
    if slopes is not None:
        bias = -slopes.double()[..., None, None] * (row - column).abs()
        bias = bias if bias.dim() == 4 else bias[None]
    return bias.expand(*bias.shape[:-2], *kept.shape).masked_fill(~kept, -math.inf)


def computed(
    case: Case, given: dict[str, Tensor | None], bias: Tensor, kind: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Result and logarithms of sums: products in ``kind``, float64 or that of the operands; in the
    latter probabilities are rounded, too, before they are multiplied.
    """
    q, k, v = (given[name] for name in "qkv")
    assert q is not None
    assert k is not None
    assert v is not None
    groups = case.heads // case.heads_k
    k, v = (x.to(kind).repeat_interleave(groups, 2).transpose(1, 2) for x in (k, v))
    inner = torch.float64 if kind == torch.float64 else torch.float32
    scores = (q.to(kind).transpose(1, 2) @ k.mT).to(inner) / math.sqrt(q.shape[-1])
    if case.softcap:
        scores = case.softcap * torch.tanh(scores / case.softcap)
    scores = scores + bias.to(inner)
    sums = scores.logsumexp(-1, keepdim=True)
    sinks = given["sinks"]
    if sinks is not None:
        sums = torch.logaddexp(sums, sinks.to(inner)[:, None, None])
    shares = (scores - sums).exp().nan_to_num(0.0).to(kind)
    return (shares @ v).transpose(1, 2), sums[..., 0]


class Peer:
    """flash-attn-4, as long as time is left to compile its kernels."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self.refused: dict[str, str] = {}
        try:
            from flash_attn.cute.interface import flash_attn_func  # pyright: ignore
        except ImportError as error:
            self.function: Any = None
            self.refused["all"] = str(error)
        else:
            self.function = flash_attn_func

    def __call__(self, case: Case, given: dict[str, Tensor | None]) -> Tensor | None:
        """Its result; None where it has none."""
        config = json.dumps(asdict(case.config))
        if self.function is None or case.config.slopes or config in self.refused or self.left < 0:
            return None
        window = tuple(None if side < 0 else side for side in case.window)
        begin = time.monotonic()
        try:
            found = self.function(
                given["q"], given["k"], given["v"], causal=case.causal, window_size=window,
                softcap=case.softcap, learnable_sink=given["sinks"],
            )  # fmt: skip
            torch.cuda.synchronize()
        except Exception as error:  # whatever it says, it is not there to compare with
            self.refused[config] = f"{type(error).__name__}: {error}"[:200]
            return None
        finally:
            self.left -= time.monotonic() - begin
        return found[0] if isinstance(found, tuple) else found


# -- on the GPU ------------------------------------------------------------------------------------


def run(case: Case, peer: Peer) -> Row:
    """What came of a case."""
    from schedgen.kernels import flash_attn_func

    given = case.tensors("cuda")
    begin = time.monotonic()
    found, lse = flash_attn_func(
        given["q"], given["k"], given["v"],
        causal=case.causal, window_size=case.window, softcap=case.softcap,
        alibi_slopes=given["slopes"], sinks=given["sinks"], return_lse=True,
    )  # fmt: skip
    torch.cuda.synchronize()
    seconds = time.monotonic() - begin
    bias = bias_of(case, given)
    wanted, sums = computed(case, given, bias, torch.float64)
    theirs = peer(case, given)
    of = "flash-attn-4"
    if theirs is None or not bool(theirs.isfinite().all()):
        of, theirs = "eager", computed(case, given, bias, found.dtype)[0]
    ours, its = _error(found, wanted), _error(theirs, wanted)
    rounding = 2.0 ** (-8 if found.dtype is torch.bfloat16 else -11)
    scale = wanted.abs().max().item()
    right = ours[0] <= max(2 * its[0], rounding / 2)  # also false for NaN
    right &= ours[1] <= max(3 * its[1], rounding * scale)
    right &= torch.allclose(lse.double(), sums, rtol=1e-4, atol=1e-3)
    row: Row = {**asdict(case), "config": json.dumps(asdict(case.config)), "peer": of}
    row |= {"error": ours[0], "peer_error": its[0], "worst": ours[1], "peer_worst": its[1]}
    return row | {"failed": not right, "seconds": round(seconds, 3)}


def _error(found: Tensor, wanted: Tensor) -> tuple[float, float]:
    """Relative to the norm of what is wanted, and the largest."""
    apart = found.double() - wanted
    norm = wanted.square().sum().sqrt().item()
    return apart.square().sum().sqrt().item() / (norm or 1.0), apart.abs().max().item()


# -- kernels ---------------------------------------------------------------------------------------


def asked_of(config: Config) -> Any:
    """What `attention` is asked for with ``config``; None if a kernel is shipped."""
    from schedgen.kernels.flash_attn import variant_arguments
    from schedgen.kernels.variants.calling import asked

    q = torch.empty(2, 1, 4, config.head_dim)
    slopes = torch.empty((2, 4)[-config.slopes :]) if config.slopes else None
    window = (1, 1) if config.mask == "window" else (-1, -1)
    given = variant_arguments(q, config.mask == "causal", window, float(config.softcap), slopes)
    sinks = torch.empty(4) if config.sinks else None
    mask, score = given.pop("mask", None), given.pop("score", None)
    causal = given.pop("causal", False)
    if mask is score is sinks is None:
        return None
    return asked(mask, score, causal, sinks, given)


def settings_of(config: Config) -> tuple[tuple[str, str], ...]:
    """Parameters of the spec, as `attention` gives them."""
    return ("head_dim", str(config.head_dim)), ("dtype", config.dtype)


def build(folder: Path) -> None:
    """Makes all kernels for H200 and what is compiled of them; goes on where it was left."""
    os.environ["SCHEDGEN_CACHE_DIR"] = str(folder)
    from schedgen.kernels import cache
    from schedgen.kernels.library import file, shipped
    from schedgen.kernels.variants.calling import kernel_of

    folder.mkdir(parents=True, exist_ok=True)
    manifest: list[Row] = []
    for config in CONFIGS:
        wanted, begin = asked_of(config), time.monotonic()
        if wanted is not None:
            function = kernel_of(wanted, "h200", settings_of(config))
            cache.compiled(function.path, function.facts, SMS)
            path = function.path.relative_to(folder)
            manifest.append({"config": asdict(config), "path": str(path)})
            print(f"{time.monotonic() - begin:6.1f} s  {config}  {path}", flush=True)
        (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")
    names = {f"attention_fwd_sm_90a_head_dim{c.head_dim}_{c.dtype}" for c in CONFIGS}
    for one in shipped(["sm_90a"], sorted(names)):
        from schedgen.codegen.facts import read_facts

        cache.compiled(file(one), read_facts(file(one)), SMS)
        print(one.name, flush=True)


def take(folder: Path) -> None:
    """Kernels that `build` made, so that nothing is solved here."""
    from schedgen.kernels.variants.calling import keep

    for entry in json.loads((folder / MANIFEST).read_text("utf-8")):
        config = Config(**entry["config"])
        keep(asked_of(config), "h200", settings_of(config), folder / entry["path"])


def main() -> int:
    options = _options()
    if options.build:
        build(options.build.resolve())
        return 0
    if options.list:
        for config in CONFIGS:
            print("shipped" if asked_of(config) is None else "variant", config)
        return 0
    if options.kernels:
        take(options.kernels.resolve())
    peer, rows = Peer(options.peer_seconds), list[Row]()
    for case in cases(options.count, options.seed):
        rows.append(run(case, peer))
        if rows[-1]["failed"]:
            print("FAILED", json.dumps(rows[-1]), flush=True)
    failed = sum(row["failed"] for row in rows)
    peers = sum(row["peer"] != "eager" for row in rows)
    print(f"{len(rows)} cases, {failed} failed; {peers} beside flash-attn-4")
    for config, why in peer.refused.items():
        print("flash-attn-4:", config, why)
    if options.save:
        text = lines(environment(), rows)
        (RESULTS / "flash_attn_cases.json").write_text(text, encoding="utf-8")
    return int(failed > 0)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="flash_attn_func against float64")
    parser.add_argument("--build", type=Path)
    parser.add_argument("--kernels", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--count", type=int, default=285)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--peer-seconds", type=float, default=100.0)
    parser.add_argument("--save", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
