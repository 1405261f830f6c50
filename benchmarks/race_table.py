"""Kernels of others under `schedgen race`: which run, are right, and what is found.

    python benchmarks/race_table.py [FOLDER] [NAME ...] [--save] [--missing [--failed]]
        [--reports=FOLDER]

FOLDER is a checkout of https://github.com/NVIDIA/cutlass; without it, its examples are left out.
The rest needs quack-kernels, flash-attn-4 and triton (docs/race.md). NAMEs are beginnings of what
to run; with --save, other rows stay as they were, and each row is kept as soon as it is there. With
--missing only rows are run that are not kept for the same arguments, so that a run that was
ended goes on; with --failed also those that did not end well. --reports keeps what the command
says of each row, as JSON. One process per row.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fcntl import LOCK_EX, flock
from pathlib import Path
from time import perf_counter

from race_examples import FOLDER as EXAMPLES
from race_examples import TOO_LARGE, examples
from report import RESULTS, keep, table

SECONDS = 900
"""After which a program is ended, and its row says so."""
PROGRAMS = Path(__file__).parent / "race_programs"
QUACK = (
    *("gemm", "gemm_add", "gemm_symmetric", "gemm_gated", "gemm_act", "gemm_rms"),
    *("gemm_norm_act", "layernorm", "rmsnorm", "rmsnorm_backward", "softmax", "softmax_backward"),
    *("cross_entropy", "topk"),
)
ATTENTION = (
    *("", "causal", "window", "gqa", "causal gqa", "varlen", "causal varlen", "dim=128"),
    *("backward", "backward causal", "backward window", "backward gqa", "backward varlen"),
)
TRITON = (
    *("add", "softmax", "matmul", "matmul_persistent", "matmul_described", "matmul_split"),
    *("attention", "attention_causal", "norm"),
)
BOTH = ("sm_90a", "sm_100a")


@dataclass(frozen=True)
class Case:
    """A row: its name, the architecture, and the program with its arguments."""

    name: str
    arch: str
    program: tuple[str, ...]
    folder: Path | None = None
    large: str = ""
    """Why it is not run, but counts as not executed."""


def cases(folder: Path | None) -> list[Case]:
    """All of them, those of CUTLASS if there is a checkout."""
    found = [
        Case(f"quack {name}", arch, (str(PROGRAMS / "quack_kernels.py"), name))
        for name in QUACK
        for arch in BOTH
    ]
    found += [
        Case(
            f"flash-attn-4 {words or 'forward'}", arch,
            (str(PROGRAMS / "flash_attention.py"), *words.split()),
        )
        for words in ATTENTION
        for arch in BOTH
    ]  # fmt: skip
    found += [
        Case(f"triton {name}", arch, (str(PROGRAMS / "triton_kernels.py"), name))
        for name in TRITON
        for arch in BOTH
    ]
    if folder is not None:
        for path, arch, words in examples(folder):
            program = str(folder / EXAMPLES / f"{path}.py"), *words.split()
            name = f"cutlass {path.removeprefix('cute/')}"
            large = TOO_LARGE.get(path, "")
            found.append(Case(name, arch, program, folder / EXAMPLES, large))
    return found


def row_of(case: Case, reports: Path | None) -> dict[str, object]:
    """Runs the command in a process of its own."""
    row: dict[str, object] = {
        "kernel": case.name, "arch": case.arch, "arguments": " ".join(case.program[1:]),
    }  # fmt: skip
    if case.large:
        return row | {
            "executed": False,
            "correct": False,
            "why": f"too large: {case.large}",
            "findings": 0,
        }
    command = [sys.executable, "-m", "schedgen.cli", "race", f"--arch={case.arch}", "--json"]
    begin = perf_counter()
    try:
        done = subprocess.run(
            [*command, *case.program], capture_output=True, text=True, check=False,
            timeout=SECONDS, cwd=case.folder,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return row | {
            "executed": False,
            "correct": False,
            "why": f"more than {SECONDS} s",
            "findings": 0,
        }
    if reports is not None:
        name = f"{case.name} {case.arch}".replace("/", "_").replace(" ", "-")
        (reports / f"{name}.json").write_text(done.stdout, encoding="utf-8")
        (reports / f"{name}.txt").write_text(done.stderr, encoding="utf-8")
    try:
        report = json.loads(done.stdout)
    except ValueError:
        why = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        return row | {"executed": False, "correct": False, "why": why[:300], "findings": 0}
    launches = report["launches"]
    found = [one for one in report["findings"] if one["severity"] == "error"]
    ended = bool(launches) and all(one["ended"] for one in launches)
    last = (report["error"].splitlines() or [""])[-1]
    return row | {
        "executed": ended,
        "correct": ended and report["status"] == 0,
        "findings": len(found),
        "rules": ", ".join(sorted({one["rule"] for one in found})),
        "launches": len(launches),
        "warp instructions": sum(one["warp_instructions"] for one in launches),
        "seconds": round(perf_counter() - begin, 1),
        "why": "; ".join([*(f"{one['rule']}: {one['title']}" for one in found), last])[:400],
    }


def kept() -> dict[tuple[object, object], dict[str, object]]:
    """The rows of the file of results, by name and architecture."""
    path = RESULTS / "race.json"
    rows: list[dict[str, object]] = []
    if path.exists():
        rows = json.loads(path.read_text("utf-8"))["rows"]
    return {(row["kernel"], row["arch"]): row for row in rows}


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    folder = Path(words.pop(0)) if words and (Path(words[0]) / EXAMPLES).is_dir() else None
    options = dict(word.split("=", 1) for word in sys.argv[1:] if "=" in word)
    reports = Path(options["--reports"]) if "--reports" in options else None
    every = cases(folder)
    order = {(one.name, one.arch): at for at, one in enumerate(every)}
    for case in every:
        before = kept().get((case.name, case.arch), {})
        same = before.get("arguments") == " ".join(case.program[1:])
        ended = before.get("correct", False)
        left = "--missing" in sys.argv and same and (ended or "--failed" not in sys.argv)
        if left or (words and not case.name.startswith(tuple(words))):
            continue
        row = row_of(case, reports)
        print(*row.values(), flush=True)
        with _alone():
            made = kept() | {(case.name, case.arch): row}
            keep("race", sorted(made.values(), key=lambda row: order.get(_key(row), len(order))))
    print(table(list(kept().values())))


@contextmanager
def _alone() -> Generator[None]:
    """While this command, run several times at once for different rows, writes the file."""
    with (PROGRAMS / "flash_attention.py").open("rb") as lock:
        flock(lock, LOCK_EX)
        yield


def _key(row: Mapping[str, object]) -> tuple[str, str]:
    return str(row["kernel"]), str(row["arch"])


if __name__ == "__main__":
    main()
