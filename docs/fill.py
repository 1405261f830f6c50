"""Fills the generated parts of README and docs: result tables and the output of commands.

    python docs/fill.py          rewrites the files
    python docs/fill.py --check  says which of them are stale; exit status 1 if one is

A generated part stands between `<!-- begin NAME -->` and `<!-- end NAME -->`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import attention_tables
import compiled_tables
import emulator_tables
import product_tables
import trace_tables
from result_tables import (
    choices,
    conform,
    fa4,
    feedback,
    flash_attn_cases,
    fuzz,
    gpu_table,
    headline,
    masks,
    measured_table,
    mutants,
    on_gpu,
    pingpong,
    polar_on_gpu,
    results_table,
    sanitize,
)

ROOT = Path(__file__).parent.parent
FILES = (
    "README.md",
    *(
        f"docs/{name}.md"
        for name in (
            "attention",
            "backward",
            "bugs",
            "calibration",
            "conform",
            "emulator",
            "fuzz",
            "kernels",
            "lift",
            "products",
            "proof",
            "race",
            "results",
            "solver",
            "spec",
            "tune",
            "variants",
        )
    ),
)
PART = re.compile(r"<!-- begin ([\w-]+) -->\n.*?<!-- end \1 -->", re.DOTALL)


def kinds() -> str:
    """A row for each kind of operation, in the words of its module."""
    from schedgen.operations import KINDS

    rows = [f"| `{kind.value}` | {entry.KEYS} | {entry.MEANING} |" for kind, entry in KINDS.items()]
    return "\n".join(["| kind | keys | meaning |", "|---|---|---|", *rows])


def command(*arguments: str) -> str:
    """What `schedgen ARGUMENTS` prints, as a code block, without the time it took."""
    run = subprocess.run(
        [sys.executable, "-m", "schedgen.cli", *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    text = re.sub(r"; (\w+ )?\d+\.\d\d s(, \w+ \d+\.\d\d s)*\n", "\n", run.stdout)
    return f"```\n$ schedgen {' '.join(arguments)}\n{text.rstrip()}\n```"


SHORT = (
    "II ",
    "certificate",
    "pipeline",
    "choices",
    "program",
    "proof",
    "program runs",
    "All cycles",
)
"""Lines of `schedgen solve` that README shows."""


def short(*arguments: str) -> str:
    """The lines of `schedgen solve ARGUMENTS` that say most."""
    lines = command("solve", *arguments).splitlines()
    kept = [line for line in lines[3:-1] if line.strip().startswith(SHORT)]
    return "\n".join([*lines[:3], *kept, lines[-1]])


def shown(*arguments: str) -> str:
    """The timeline of what `schedgen solve ARGUMENTS` finds."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/schedule.json"
        command("solve", *arguments, "-o", file)
        return command("show", file).replace(file, "schedule.json")


def program(*arguments: str) -> str:
    """The program of what `schedgen solve ARGUMENTS` finds."""
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/program.json"
        command("solve", *arguments, "--program", file)
        return command("show", "--program", file).replace(file, "program.json")


def steady(*arguments: str) -> str:
    """The steady state only."""
    head, _, _ = shown(*arguments).partition("\n\nprologue")
    return f"{head}\n```"


PARTS: dict[str, Callable[[], str]] = {
    "summary": lambda: command("solve", "attention_fwd", "--target", "b200"),
    "kinds": kinds,
    "short": lambda: short("attention_fwd", "--target", "b200"),
    "headline": headline,
    "timeline": lambda: steady("attention_fwd", "--target", "b200"),
    "hopper": lambda: shown("attention_fwd", "--target", "h200"),
    "maps": lambda: results_table(
        "attention_maps",
        ("map", "latencies", "published", "cycle ratio", "off", "II", "proven", "certificate"),
    ),
    "solve": lambda: results_table(
        "solve",
        (
            *("spec", "target", "operations", "II", "bound", "proven", "certificate"),
            *("command s", "search s", "peak MB"),
        ),
    ),
    "program": lambda: program("gemm_chain", "--target", "h200"),
    "proof": lambda: results_table(
        "proof",
        (
            *("spec", "target", "operations", "steps", "barriers", "mbarriers"),
            *("synthesis s", "graph s", "z3 s", "execution s", "proven"),
        ),
    ),
    "same": lambda: results_table(
        "same_kernels",
        (
            *("spec", "target", "kernels", "missing", "II", "storage", "roles", "barriers", "code"),
            *("certificate before", "certificate after"),
        ),
    ),
    "pace": lambda: results_table(
        "pace",
        (
            *("spec", "target", "II", "high", "low"),
            *("no waits for own results", "waited for"),
        ),
    ),
    "power": lambda: results_table(
        "power",
        ("n", "k", "data", "kernel", "ms", "J", "W", "MHz", "M cycles of an SM", "least M cycles"),
    ),
    "predicted-constants": lambda: measured_table(
        "predicted", ("constant", "before", "measured", "unit", "by"), "constants"
    ),
    "predicted-experiments": lambda: measured_table(
        "predicted",
        ("experiment", "measured", "predicted", "off", "in turn", "in step"),
        "experiments",
    ),
    "predicted-waits": lambda: measured_table(
        "predicted",
        ("experiment", "measured", "predicted", "in turn", "in step", "with longer waits"),
        "waits",
    ),
    "predicted-streams": lambda: measured_table(
        "predicted",
        ("experiment", "measured", "predicted", "off", "in turn", "in step"),
        "streams",
    ),
    "predicted-code": lambda: measured_table(
        "predicted", ("experiment", "measured", "by machine code", "code off"), "code"
    ),
    "stall-reasons": lambda: measured_table(
        "stall_reasons",
        (
            *("kernel", "issued", "stalls", "units", "results", "together", "fetch"),
            *("products", "first of registers"),
        ),
        "stalls",
    ),
    "sampled": lambda: measured_table(
        "sampled", ("kernel", "instruction", "sampled", "predicted", "more", "mostly"), "sampled"
    ),
    "stretched": lambda: measured_table(
        "stretched",
        ("kernel", "instructions", "written", "taken", "stretched", "dispatch"),
        "stretched",
    ),
    "predicted-launches": lambda: measured_table(
        "predicted",
        ("experiment", "of", "measured", "predicted", "off", "in turn", "in step", "MHz"),
        "launches",
    ),
    "predicted-orders": lambda: measured_table(
        "predicted", ("chosen by", "products", "lost on average", "at most"), "orders"
    ),
    "predicted-kernels": lambda: measured_table(
        "predicted",
        (
            *("kernel", "II", "measured", "by machine code", "code off"),
            *("predicted", "off", "in turn", "in step"),
        ),
        "kernels",
    ),
    "proof-growth": lambda: results_table(
        "proof_growth",
        ("copies of", "operations", "steps", "barriers", "graph s", "proven but for size"),
    ),
    "attention-h200": lambda: on_gpu(
        "h200", ("batch", "seq", "heads", "heads_k", "head_dim", "causal"), "attention"
    ),
    "products-h200": lambda: on_gpu("h200", ("m", "n", "k", "tile"), "gemm"),
    "symmetric-h200": lambda: on_gpu("h200", ("n", "k", "tile"), "symmetric"),
    "pingpong": pingpong,
    "choices": choices,
    "attention-h100": lambda: on_gpu(
        "h100", ("batch", "seq", "heads", "heads_k", "head_dim", "causal"), "attention"
    ),
    "symmetric-h100": lambda: on_gpu("h100", ("n", "k", "tile"), "symmetric"),
    "polar-h200": polar_on_gpu,
    "tuned-attention": lambda: command(
        "tune", "--record", "benchmarks/results/tune_attention_fwd.json"
    ),
    "tuned-gemm": lambda: command("tune", "--record", "benchmarks/results/tune_gemm.json"),
    "launch-host": lambda: gpu_table("launch", ("call", "us on the host"), only="host"),
    "launch-eager": lambda: gpu_table(
        "launch",
        (
            *("function", "shape", "provider", "eager us", "eager, of best peer"),
            *("on the GPU us", "on the GPU, of best peer", "graph us", "graph, of best peer"),
        ),
        only="eager",
    ),
    "gemm-h200": lambda: on_gpu("gemm", ("spec", "m", "n", "k", "tile")),
    **emulator_tables.parts(),
    **product_tables.parts(),
    **trace_tables.parts(),
    "head-dims": lambda: results_table(
        "head_dims",
        (
            *("head_dim", "target", "causal", "tile", "II", "bound", "certificate"),
            *("K and V slots", "O over Q", "registers", "spilled", "conform", "correct", "clean"),
            "problem",
        ),
    ),
    "compiled": compiled_tables.compiled,
    "compiled-problems": compiled_tables.problems,
    "cycles": lambda: gpu_table(
        "cycles",
        (
            *("problem", "provider", "model cycles/iteration", "elapsed cycles/iteration"),
            *("active cycles/iteration", "busiest unit %", "issue slots %", "MUFU %"),
            *("warp instructions/iteration", "no instruction %", "MHz"),
        ),
    ),
    "polar": lambda: gpu_table(
        "polar",
        (
            *("batch", "n", "m", "schedgen", "schedgen serial", "of serial", "torch standard"),
            *("torch gram", "torch.compile standard", "gram-quack", "floor", "of gram-quack"),
            *("error", "defect"),
        ),
    ),
    "tiling": lambda: gpu_table(
        "tiling",
        (
            *("spec", "tile", "waves", "ms", "MHz", "cycles/iteration", "model"),
            "measured/model",
        ),
    ),
    "split-k": lambda: gpu_table(
        "split_k",
        (
            *("spec", "m=n", "k", "whole", "whole us", "split", "split us", "of whole", "taken"),
            *("torch us", "quack us", "of best peer"),
        ),
    ),
    "iterations": lambda: gpu_table(
        "iterations",
        (
            *("spec", "tile", "MHz", "cycles/iteration", "model", "measured/model"),
            "with copies",
        ),
    ),
    "stages": lambda: gpu_table("stages", ("m=n", "k", "slots", "ms", "of even", "error")),
    "muon-sharded": lambda: gpu_table(
        "muon_sharded",
        (
            *("width", "matrices", "elements", "parts", "type", "travels as", "ranks"),
            *("difference", "one GPU ms", "ms", "speed-up", "sent MB", "least MB"),
        ),
    ),
    "exp2-share": lambda: gpu_table(
        "exp2_share", ("kernel", "share", "TFLOP/s without", "TFLOP/s with", "ratio")
    ),
    "sanitize": sanitize,
    "fa4": fa4,
    "mutants": mutants,
    "conform": conform,
    "feedback": feedback,
    "fuzz": fuzz,
    "masks": masks,
    "flash-attn-cases": flash_attn_cases,
    "decode": attention_tables.decode,
    "kvcache-cases": attention_tables.kvcache_cases,
    "variant-speed": attention_tables.variant_speed,
    "packed-pages": attention_tables.packed_pages,
    "packed-pages-cases": attention_tables.packed_pages_cases,
    "decode-caches": attention_tables.decode_caches,
    "decode-mixed": attention_tables.decode_mixed,
    "backward": attention_tables.backward,
    "packed-gradients": attention_tables.packed_gradients,
    "document-gradients": attention_tables.document_gradients,
    "window-gradients": attention_tables.window_gradients,
    "block-lists": lambda: gpu_table(
        "block_lists",
        (
            *("case", "lists", "tiles", "blocks", "runs", "wrong"),
            *("kernel us in a graph", "torch us in a graph", "kernel us eager", "torch us eager"),
        ),
    ),
    "gated": attention_tables.gated,
    "gated-means": attention_tables.gated_means,
    "claims": lambda: gpu_table(
        "claims",
        ("spec", "shape", "claim", "eager_ms", "graph_ms", "eager_of_fixed", "graph_of_fixed"),
    ),
    "growth": lambda: results_table(
        "solve_growth",
        ("target", "tiles", "operations", "edges", "II", "bound", "proven", "seconds"),
    ),
}


def filled(text: str) -> str:
    """``text`` with every generated part made anew."""

    def part(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- begin {name} -->\n{PARTS[name]()}\n<!-- end {name} -->"

    return PART.sub(part, text)


def main() -> int:
    """Rewrites or checks all files."""
    stale: list[str] = []
    for name in FILES:
        path = ROOT / name
        text = path.read_text("utf-8")
        new = filled(text)
        if new != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(new, "utf-8")
    if "--check" in sys.argv:
        print("\n".join(f"{name} is stale: run python docs/fill.py" for name in stale), end="")
        return 1 if stale else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
