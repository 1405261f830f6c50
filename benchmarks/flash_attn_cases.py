"""`flash_attn_func` and `flash_attn_varlen_func` against float64 on a GPU, beside flash-attn-4 and
an eager computation.

    python benchmarks/flash_attn_cases.py --build FOLDER      # without a GPU: all kernels for H200
    python benchmarks/flash_attn_cases.py --list
    SCHEDGEN_CACHE_DIR=FOLDER python benchmarks/flash_attn_cases.py --kernels FOLDER
                                          [--count N] [--packed N] [--seed S] [--skip N]
                                          [--seconds S] [--peer-seconds S] [--save]

A seeded part of the grid causal x window x soft cap x sinks x slopes x grouped heads x head_dim x
lengths from 1 to 4096, and of calls with up to six packed sequences (``--packed`` of them). A case
fails if its error is more than twice the peer's, by the norm, or
three times at the worst place (`tests/kernels/gpu_cases.py`); the peer is flash-attn-4 where it is
installed, has the feature and time is left to compile it, else torch with operands and
probabilities in their data type, as in flash-attn's own tests. Rows that see nothing are 0 with
-inf. ``--build`` writes the generated files, a manifest and objects for 132 SMs, so that nothing is
solved or compiled on the GPU's machine. No case begins after ``--seconds``, and ``--skip`` goes on
behind those that were done; both kinds of calls take turns. ``--save`` keeps all cases in
``results/flash_attn_cases.json``, behind those that were skipped, if these are of the same day and
machine. Exit status 1 if a case fails.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from flash_attn_grid.cases import CONFIGS, Case, Config, bias_of, cases, computed
from flash_attn_grid.packed import PACKED, PackedCase, computed_packed, packed_cases
from report import RESULTS, environment, kept, lines
from torch import Tensor

SMS = 132
MANIFEST = "manifest.json"
Row = dict[str, Any]


class Peer:
    """flash-attn-4, as long as time is left to compile its kernels."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds
        self.refused: dict[str, str] = {}
        try:
            from flash_attn.cute.interface import (  # pyright: ignore
                flash_attn_func,
                flash_attn_varlen_func,
            )
        except ImportError as error:
            self.function: Any = None
            self.varlen: Any = None
            self.refused["all"] = str(error)
        else:
            self.function, self.varlen = flash_attn_func, flash_attn_varlen_func

    def __call__(self, case: Case | PackedCase, given: dict[str, Tensor | None]) -> Tensor | None:
        """Its result; None where it has none."""
        config = json.dumps(asdict(case.config))
        if self.function is None or case.config.slopes or config in self.refused or self.left < 0:
            return None
        window = tuple(None if side < 0 else side for side in case.window)
        function, more = self.function, dict[str, Any]()
        if isinstance(case, PackedCase):
            function = self.varlen
            more = {"cu_seqlens_q": given["cu_q"], "cu_seqlens_k": given["cu_k"]}
            more |= dict(zip(("max_seqlen_q", "max_seqlen_k"), case.longest, strict=True))
        begin = time.monotonic()
        try:
            found = function(
                given["q"], given["k"], given["v"], causal=case.causal, window_size=window,
                softcap=case.softcap, learnable_sink=given["sinks"], **more,
            )  # fmt: skip
            torch.cuda.synchronize()
        except Exception as error:  # whatever it says, it is not there to compare with
            self.refused[config] = f"{type(error).__name__}: {error}"[:200]
            return None
        finally:
            self.left -= time.monotonic() - begin
        return found[0] if isinstance(found, tuple) else found


# -- on the GPU ------------------------------------------------------------------------------------


def run(case: Case | PackedCase, peer: Peer) -> Row:
    """What came of a case."""
    from schedgen.kernels import flash_attn_func, flash_attn_varlen_func

    given = case.tensors("cuda")
    named: dict[str, Any] = {
        "causal": case.causal, "window_size": case.window, "softcap": case.softcap,
        "alibi_slopes": given["slopes"], "sinks": given["sinks"], "return_lse": True,
    }  # fmt: skip
    operands = given["q"], given["k"], given["v"]
    begin = time.monotonic()
    if isinstance(case, PackedCase):
        starts = given["cu_q"], given["cu_k"]
        found, lse = flash_attn_varlen_func(*operands, *starts, *case.longest, **named)
    else:
        found, lse = flash_attn_func(*operands, **named)
    torch.cuda.synchronize()
    seconds = time.monotonic() - begin
    wanted, sums = _computed(case, given, torch.float64)
    theirs = peer(case, given)
    of = "flash-attn-4"
    if theirs is None or not bool(theirs.isfinite().all()):
        of, theirs = "eager", _computed(case, given, found.dtype)[0]
    ours, its = _error(found, wanted), _error(theirs, wanted)
    rounding = 2.0 ** (-8 if found.dtype is torch.bfloat16 else -11)
    scale = wanted.abs().max().item()
    right = ours[0] <= max(2 * its[0], rounding / 2)  # also false for NaN
    right &= ours[1] <= max(3 * its[1], rounding * scale)
    right &= torch.allclose(lse.double(), sums.double(), rtol=1e-4, atol=1e-3)
    row: Row = {**asdict(case), "config": json.dumps(asdict(case.config)), "peer": of}
    row |= {"error": ours[0], "peer_error": its[0], "worst": ours[1], "peer_worst": its[1]}
    return row | {"failed": not right, "seconds": round(seconds, 3)}


def _computed(
    case: Case | PackedCase, given: dict[str, Tensor | None], kind: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Result and logarithms of sums, with products in ``kind``."""
    if isinstance(case, PackedCase):
        return computed_packed(case, given, kind)
    return computed(case, given, bias_of(case, given), kind)


def _error(found: Tensor, wanted: Tensor) -> tuple[float, float]:
    """Relative to the norm of what is wanted, and the largest."""
    apart = found.double() - wanted
    norm = wanted.square().sum().sqrt().item()
    return apart.square().sum().sqrt().item() / (norm or 1.0), apart.abs().max().item()


# -- kernels ---------------------------------------------------------------------------------------


def asked_of(config: Config) -> Any:
    """What `attention` is asked for with ``config``; None if a kernel is shipped."""
    from schedgen.kernels.flash_attn import variant_arguments
    from schedgen.kernels.flash_attn_varlen import SPEC
    from schedgen.kernels.variants.calling import asked

    q = torch.empty(2, 1, 4, config.head_dim)
    slopes = torch.empty((2, 4)[-config.slopes :]) if config.slopes else None
    window = (1, 1) if config.mask == "window" else (-1, -1)
    given = variant_arguments(q, config.mask == "causal", window, float(config.softcap), slopes)
    sinks = torch.empty(4) if config.sinks else None
    mask, score = given.pop("mask", None), given.pop("score", None)
    causal = given.pop("causal", False)
    if config.packed:
        return asked(mask, score, causal, sinks, given, SPEC)
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
    for config in (*CONFIGS, *PACKED):
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
        for config in (*CONFIGS, *PACKED):
            print("shipped" if asked_of(config) is None else "variant", config)
        return 0
    if options.kernels:
        take(options.kernels.resolve())
    peer, rows, begin = Peer(options.peer_seconds), list[Row](), time.monotonic()
    every = _mixed(cases(options.count, options.seed), packed_cases(options.packed, options.seed))
    for case in every[options.skip :]:
        if time.monotonic() - begin > options.seconds:
            break
        rows.append(run(case, peer))
        if rows[-1]["failed"]:
            print("FAILED", json.dumps(rows[-1]), flush=True)
        if len(rows) % _SOME == 0:
            _tell(rows, options.skip, len(every), begin)
            _save(rows, options)
    _tell(rows, options.skip, len(every), begin)
    for config, why in peer.refused.items():
        print("flash-attn-4:", config, why)
    _save(rows, options)
    return int(any(row["failed"] for row in rows))


_SOME = 25
"""Cases after which it says how far it is, and keeps what it has."""


def _mixed(one: Sequence[Case], other: Sequence[PackedCase]) -> list[Case | PackedCase]:
    """Both, evenly, so that the first ones are some of each."""
    placed = [
        ((n + 0.5) / len(cases), case) for cases in (one, other) for n, case in enumerate(cases)
    ]
    return [case for _, case in sorted(placed, key=lambda pair: pair[0])]


def _tell(rows: Sequence[Row], skipped: int, every: int, begin: float) -> None:
    failed = sum(row["failed"] for row in rows)
    peers = sum(row["peer"] != "eager" for row in rows)
    done = f"{len(rows)} cases behind {skipped}, of {every}, {failed} failed"
    print(f"{time.monotonic() - begin:.0f} s: {done}; {peers} beside flash-attn-4", flush=True)


def _save(rows: list[Row], options: argparse.Namespace) -> None:
    """Keeps them behind those that were skipped."""
    if not options.save:
        return
    path, here = RESULTS / "flash_attn_cases.json", environment()
    old = kept(path.stem, here)[: options.skip]
    if len(old) < options.skip:
        raise SystemExit(f"{path} has other results; fix: begin without --skip")
    path.write_text(lines(here, old + rows), encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="flash_attn_func against float64")
    parser.add_argument("--build", type=Path)
    parser.add_argument("--kernels", type=Path)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--count", type=int, default=285)
    parser.add_argument("--packed", type=int, default=90)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip", type=int, default=0, help="cases that were done")
    parser.add_argument("--seconds", type=float, default=3600.0)
    parser.add_argument("--peer-seconds", type=float, default=100.0)
    parser.add_argument("--save", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
