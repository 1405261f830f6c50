"""Kernels of others under `schedgen race`: programs as they are, executed and checked.

    python benchmarks/race_table.py [FOLDER] [NAME ...] [--save]

FOLDER is a checkout of https://github.com/NVIDIA/cutlass; without it, its examples are left out.
The rest needs quack-kernels, flash-attn-4 and triton (docs/race.md). NAMEs are beginnings of what
to run; with them and --save, other rows stay as they were. One process per row.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from report import RESULTS, keep, table

SECONDS = 600
"""After which a program is ended, and its row says so."""
PROGRAMS = Path(__file__).parent / "race_programs"
EXAMPLES = "examples/python/CuTeDSL"
QUACK = (
    *("gemm", "gemm_add", "gemm_symmetric", "gemm_gated", "rmsnorm", "rmsnorm_backward"),
    *("softmax", "softmax_backward", "cross_entropy", "topk"),
)
ATTENTION = (
    *("", "causal", "window", "gqa", "causal gqa", "varlen", "dim=128", "backward"),
    *("backward causal", "backward gqa"),
)
TRITON = (
    *("add", "softmax", "matmul", "matmul_persistent", "matmul_described", "matmul_split"),
    *("attention", "attention_causal", "norm"),
)
BOTH = ("sm_90a", "sm_100a")
_ONCE = "--warmup_iterations 0 --iterations 1"
_TUTORIAL = "cute/blackwell/tutorial"
_BLACKWELL = "cute/blackwell/kernel"
_HOPPER = "cute/hopper/kernel"
CUTLASS = {
    f"{_HOPPER}/dense_gemm/dense_gemm.py": f"--mnkl 256,256,128,1 {_ONCE}",
    f"{_HOPPER}/dense_gemm/dense_gemm_persistent.py": f"--mnkl 256,256,128,1 {_ONCE}",
    f"{_HOPPER}/dense_gemm/dense_gemm_fp8_2xacc.py": f"--mnkl 256,256,256,1 {_ONCE}",
    f"{_HOPPER}/dense_gemm/dense_gemm_fp8_gelu_persistent.py": f"--mnkl 256,256,256,1 {_ONCE}",
    f"{_HOPPER}/attention/fmha.py": (
        f"--q_shape 1,128,2,64 --k_shape 1,128,2,64 {_ONCE}"
    ),
    f"{_HOPPER}/cta_norm/cta_norm.py": f"--M 16 --N 1024 {_ONCE}",
    f"{_HOPPER}/grouped_gemm/grouped_gemm.py": (
        f"--num_groups 2 --problem_sizes_mnkl (128,128,128,1),(128,128,64,1) {_ONCE}"
    ),
    f"{_BLACKWELL}/dense_gemm/dense_gemm.py": f"--mnkl 256,256,128,1 {_ONCE}",
    f"{_BLACKWELL}/dense_gemm/dense_gemm_persistent.py": f"--mnkl 256,256,128,1 {_ONCE}",
    f"{_BLACKWELL}/dense_gemm/dense_gemm_software_pipeline.py": f"--mnkl 256,256,128,1 {_ONCE}",
    f"{_BLACKWELL}/attention/fmha/fmha.py": (
        f"--q_shape 1,256,2,64 --k_shape 1,256,2,64 {_ONCE}"
    ),
    f"{_BLACKWELL}/rmsnorm/rmsnorm.py": f"--M 16 --N 1024 {_ONCE}",
} | {
    f"{_TUTORIAL}/tutorial_gemm/fp16_gemm_{name}.py": "--mnk 256,256,128"
    for name in ("0", "1", "2", "3", "3_1", "4", "5", "6")
} | {f"{_TUTORIAL}/tutorial_tma/tma_v{name}.py": "" for name in "012"}  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A row: its name, the architecture, and the program with its arguments."""

    name: str
    arch: str
    program: tuple[str, ...]
    folder: Path | None = None


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
        for path, words in CUTLASS.items():
            arch = "sm_90a" if path.startswith("cute/hopper") else "sm_100a"
            name = f"cutlass {path.removeprefix('cute/').removesuffix('.py')}"
            program = str(folder / EXAMPLES / path), *words.split()
            found.append(Case(name, arch, program, folder / EXAMPLES))
    return found


def row_of(case: Case) -> dict[str, object]:
    """Runs the command in a process of its own."""
    row: dict[str, object] = {"kernel": case.name, "arch": case.arch}
    command = [sys.executable, "-m", "schedgen.cli", "race", f"--arch={case.arch}", "--json"]
    begin = perf_counter()
    try:
        done = subprocess.run(
            [*command, *case.program], capture_output=True, text=True, check=False,
            timeout=SECONDS, cwd=case.folder,
        )  # fmt: skip
        report = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        return row | {"executed": False, "why": f"more than {SECONDS} s", "findings": ""}
    except ValueError:
        why = (done.stderr.strip().splitlines() or ["nothing"])[-1]
        return row | {"executed": False, "why": why[:300], "findings": ""}
    launches = report["launches"]
    found = [one for one in report["findings"] if one["severity"] == "error"]
    ended = bool(launches) and all(one["ended"] for one in launches)
    last = (report["error"].splitlines() or [""])[-1]
    return row | {
        "executed": ended,
        "correct": ended and report["status"] == 0,
        "findings": len(found),
        "launches": len(launches),
        "warp instructions": sum(one["warp_instructions"] for one in launches),
        "seconds": round(perf_counter() - begin, 1),
        "why": "; ".join([*(f"{one['rule']}: {one['title']}" for one in found), last])[:400],
    }


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("-")]
    folder = Path(words.pop(0)) if words and (Path(words[0]) / EXAMPLES).is_dir() else None
    chosen = [one for one in cases(folder) if not words or one.name.startswith(tuple(words))]
    made: dict[tuple[object, object], dict[str, object]] = {}
    path = RESULTS / "race.json"
    if words and path.exists():
        kept = json.loads(path.read_text("utf-8"))["rows"]
        made = {(row["kernel"], row["arch"]): row for row in kept}
    for case in chosen:
        row = row_of(case)
        made[case.name, case.arch] = row
        print(*row.values(), flush=True)
        keep("race", list(made.values()))
    print(table(list(made.values())))


if __name__ == "__main__":
    main()
