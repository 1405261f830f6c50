"""Which kernels are lifted from their PTX and proven for all trip counts, and why others are not.

    python benchmarks/lift.py [FOLDER] [NAME ...] [--save]

FOLDER is a checkout of https://github.com/NVIDIA/cutlass; without it, its examples are left out.
flash-attn-4 and quack have to be installed (docs/race.md). NAMEs are beginnings of what to lift;
with them and --save, other rows stay as they were. Nothing is executed. One process per row.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from race_table import EXAMPLES, Case, cases
from report import RESULTS, keep, table

NAME = "lift"
SECONDS = 900
"""After which a row is given up."""
OWN = (
    *("gemm_sm_90a_bf16", "gemm_sm_90a_bf16_tile_n192", "gemm_sm_90a_bf16_tile_n192_teams2"),
    *("attention_fwd_sm_90a_head_dim64_bf16", "attention_fwd_sm_90a_head_dim128_bf16"),
    "attention_fwd_sm_90a_head_dim128_bf16_causal",
    *("gemm_sm_100a_bf16", "attention_fwd_sm_100a_head_dim64_bf16"),
)
"""Shipped kernels."""
OTHERS = (
    *("cutlass hopper/kernel/dense_gemm", "cutlass hopper/kernel/attention"),
    *("cutlass hopper/kernel/grouped", "cutlass blackwell/kernel/dense_gemm/dense_gemm"),
    *("flash-attn-4 forward", "flash-attn-4 causal", "flash-attn-4 dim", "flash-attn-4 gqa"),
    *("flash-attn-4 window", "flash-attn-4 varlen", "quack gemm"),
)
"""Of the programs that `race_table` runs."""


def own(folder: Path, words: list[str]) -> Iterator[Case]:
    """Shipped kernels whose rows begin with one of ``words``, as files with their PTX."""
    from schedgen.codegen.report import compile_report
    from schedgen.kernels.library import named
    from schedgen.kernels.regenerate import shipped

    known = [one.name.removesuffix(".py") for one in shipped()]
    for name in (one for one in known if one in OWN):
        if words and not f"schedgen {name}".startswith(tuple(words)):
            continue
        here = folder / name
        here.mkdir()
        report = compile_report(named(f"{name}.py"), here)
        arch = "sm_90a" if "_sm_90a" in name else "sm_100a"
        yield Case(f"schedgen {name}", arch, (str(report.built.ptx),))


def rows_of(case: Case) -> Iterator[dict[str, object]]:
    """A row for each kernel that the program launches."""
    command = [sys.executable, "-m", "schedgen.cli", "lift", f"--arch={case.arch}", "--json"]
    begin = perf_counter()
    row: dict[str, object] = {"kernel": case.name, "arch": case.arch}
    done: subprocess.CompletedProcess[str] | None = None
    try:
        done = subprocess.run(
            [*command, *case.program], capture_output=True, text=True, check=False,
            timeout=SECONDS, cwd=case.folder,
        )  # fmt: skip
        report = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        yield row | _nothing(f"more than {SECONDS} s")
        return
    except ValueError:
        yield row | _nothing(_last(done))
        return
    for one in report:
        if len(report) > 1 and not one["programs"] and "convert" in one["kernel"]:
            continue  # of the example's own tensors
        yield row | _told(one, perf_counter() - begin)


def _last(done: subprocess.CompletedProcess[str] | None) -> str:
    lines = done.stderr.strip().splitlines() if done is not None else []
    return lines[-1][:200] if lines else "nothing was printed"


def _nothing(why: str) -> dict[str, object]:
    unknown = dict.fromkeys(("roles", "rings", "compared up to"), "")
    return {"result": "not lifted", **unknown, "why not": why, "seconds": ""}


def _told(one: dict[str, Any], seconds: float) -> dict[str, object]:
    places: list[dict[str, Any]] = one["places"]
    findings: list[dict[str, Any]] = one["findings"]
    why = one["reason"] or "; ".join(found["text"] for found in findings[:1])
    where = next((place for place in places if place["ptx"]), None)
    if where is not None:
        file = f"{Path(where['file']).name}:{where['line']}, " if where["file"] else ""
        why += f" ({file}{where['instruction']})"
    nothing: dict[str, Any] = {"roles": [], "barriers": [], "trip_counts_compared": ""}
    first: dict[str, Any] = one["programs"][0] if one["programs"] else nothing
    return {
        "result": one["status"],
        "roles": len(first["roles"]) or "",
        "rings": len(first["barriers"]) or "",
        "compared up to": first["trip_counts_compared"],
        "why not": why,
        "seconds": round(seconds, 1),
    }


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    folder = Path(words.pop(0)) if words and (Path(words[0]) / EXAMPLES).is_dir() else None
    rows: list[dict[str, object]] = []
    path = RESULTS / f"{NAME}.json"
    if words and path.exists():
        kept = json.loads(path.read_text("utf-8"))["rows"]
        rows = [row for row in kept if not str(row["kernel"]).startswith(tuple(words))]
    with TemporaryDirectory() as made:
        chosen = [*own(Path(made), words), *(c for c in cases(folder) if c.name.startswith(OTHERS))]
        for case in chosen:
            if words and not case.name.startswith(tuple(words)):
                continue
            for row in rows_of(case):
                rows.append(row)
                print(*row.values(), flush=True)
                keep(NAME, rows)
    print(table(rows))


if __name__ == "__main__":
    main()
