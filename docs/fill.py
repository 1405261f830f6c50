"""Fills the generated parts of README and docs: result tables and the output of commands.

    python docs/fill.py          rewrites the files
    python docs/fill.py --check  says which of them are stale; exit status 1 if one is

A generated part stands between `<!-- begin NAME -->` and `<!-- end NAME -->`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import emulator_tables
import trace_tables

ROOT = Path(__file__).parent.parent
FILES = (
    "README.md",
    *(
        f"docs/{name}.md"
        for name in (
            "attention",
            "calibration",
            "conform",
            "emulator",
            "fuzz",
            "kernels",
            "proof",
            "results",
            "solver",
            "spec",
        )
    ),
)
PART = re.compile(r"<!-- begin ([\w-]+) -->\n.*?<!-- end \1 -->", re.DOTALL)


def results_table(name: str, columns: Sequence[str], only: str = "") -> str:
    """Columns of `benchmarks/results/NAME.json` as a Markdown table, with where it was measured.

    ``only`` picks the rows whose ``table`` it is, where a file holds several.
    """
    found = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))
    rows: list[Mapping[str, object]] = [r for r in found["rows"] if not only or r["table"] == only]
    lines = [columns, ["---"] * len(columns), *[[_cell(row[c]) for c in columns] for row in rows]]
    where = found["environment"]
    versions = ", ".join(f"{key} {where[key]}" for key in ("python", "ortools", "z3-solver"))
    source = (
        f"*{where['date']}, {where['cores']} cores, {versions}; `benchmarks/results/{name}.json`*"
    )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{source}"


def measured_table(name: str, columns: Sequence[str], only: str) -> str:
    """The rows of `results_table` whose cycles were measured on a GPU earlier than the rest."""
    rows = [row for row in _results(name)["rows"] if row["table"] == only]
    lines = [columns, ["---"] * len(columns), *[[_cell(row[c]) for c in columns] for row in rows]]
    source = f"*{rows[0]['device']}, {rows[0]['measured on']}; `benchmarks/results/{name}.json`*"
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{source}"


def _cell(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


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


def headline() -> str:
    """Speed over the best peer's: geometric mean, least and most, of each family of kernels."""
    lines = ["| | shapes | called eagerly | time on the GPU | in CUDA graphs | best peer of |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    families: dict[str, list[Mapping[str, Any]]] = {}
    peers: dict[str, dict[str, None]] = {}
    for name in ("attention", "gemm"):
        for row in _results(name)["rows"]:
            family = f"`{row['spec']}`" if "spec" in row else "attention"
            if row["provider"] == "schedgen":
                families.setdefault(family, []).append(row)
            else:
                peers.setdefault(family, {})[row["provider"]] = None
    for family, rows in families.items():
        shares = ("of best peer eagerly", "of best peer", "of best peer in a graph")
        cells = [_spread([row[share] for row in rows if row.get(share)]) for share in shares]
        lines.append(
            f"| {family} | {len(rows)} | {' | '.join(cells)} | {', '.join(peers[family])} |"
        )
    polar = [row["of gram-quack"] for row in _results("polar")["rows"]]
    lines.append(
        f"| `polar` | {len(polar)} | | | {_spread(polar)} | gram-newton-schulz with quack |"
    )
    sources = [(name, _results(name)["environment"]) for name in ("attention", "gemm", "polar")]
    source = ", ".join(f"`{name}.json` ({where['date']})" for name, where in sources)
    return "\n".join(lines) + f"\n\n*{sources[0][1]['gpu']}; in `benchmarks/results`: {source}*"


def _results(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))


def _spread(shares: Sequence[float]) -> str:
    if not shares:
        return ""
    return f"{geometric_mean(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})"


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


def fa4() -> str:
    """FlashAttention-4's barriers, ours, and how many there are of each."""
    columns = ("barrier", "kind", "slots", "tiles", "count", "producer -> consumer", "protects")
    parts = [
        f"{title}\n\n{results_table('fa4_barriers', columns, only)}"
        for title, only in (("FlashAttention-4, by hand:", "FA4"), ("Synthesized:", "ours"))
    ]
    found = json.loads((ROOT / "benchmarks/results/fa4_barriers.json").read_text("utf-8"))
    totals = next(row for row in found["rows"] if row["table"] == "totals")
    names = [name for name in totals if name != "table"]
    return "\n\n".join([*parts, results_table("fa4_barriers", names, "totals")])


def mutants() -> str:
    """What became of the mutants of all programs, by operator."""
    path = ROOT / "benchmarks/results/mutants.json"
    found = json.loads(path.read_text("utf-8"))
    ends = ("killed", "equivalent", "survived", "unproven")
    total: dict[str, dict[str, int]] = {}
    for row in found["rows"]:
        counts = total.setdefault(row["operator"], dict.fromkeys(ends, 0))
        for end in ends:
            counts[end] += row[end]
    everything = {end: sum(counts[end] for counts in total.values()) for end in ends}
    lines = [("operator", *ends), ("---",) * 5]
    for name, counts in {**total, "all": everything}.items():
        lines.append((name, *(str(counts[end]) for end in ends)))
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    where = found["environment"]
    judged = sum(everything.values()) + sum(row["unrelated"] for row in found["rows"])
    whole = judged == sum(row["mutants"] for row in found["rows"])
    which = "all mutants" if whole else "a sample of each operator and program"
    return f"{text}\n\n*{where['date']}; {which}; `{path.name}`*"


def conform() -> str:
    """Shipped kernels beside their programs, by spec and architecture."""
    path = ROOT / "benchmarks" / "results" / "conform.json"
    found = json.loads(path.read_text("utf-8"))
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in found["rows"]:
        groups.setdefault((row["kernel"].partition("_sm_")[0], row["arch"]), []).append(row)
    columns = ("spec", "arch", "kernels", "conform", "steps", "instructions", "most seconds")
    lines = [(*columns, "mutants", "refused"), ("---",) * 9]
    for (spec, arch), rows in groups.items():
        sums = (sum(row[key] for row in rows) for key in ("conforms", "steps", "compared"))
        most = max((row["seconds"] for row in rows if row["seconds"] is not None), default="")
        counts = (sum(row[key] for row in rows) for key in ("mutants", "refused"))
        lines.append(tuple(map(str, (spec, arch, len(rows), *sums, most, *counts))))
    where = found["environment"]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{text}\n\n*{where['date']}, {where['cores']} cores; `benchmarks/results/{path.name}`*"


def feedback() -> str:
    """Attempts at kernels: what the assembler leaves beside products in each."""
    path = ROOT / "benchmarks" / "results" / "feedback.json"
    found = json.loads(path.read_text("utf-8"))
    columns = ("kernel", "attempt", "problems", "planned", "lost", "instructions", "taken")
    lines = [columns, ("---",) * len(columns)]
    lines += [tuple(str(row[column]) for column in columns) for row in found["rows"]]
    where = found["environment"]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    compiler = f"nvidia-cutlass-dsl {where['nvidia-cutlass-dsl']}"
    return f"{text}\n\n*{where['date']}, {compiler}; `benchmarks/results/{path.name}`*"


def fuzz() -> str:
    """How random specs ended, by family, and why some were refused or failed."""
    found = json.loads((ROOT / "benchmarks" / "results" / "fuzz.json").read_text("utf-8"))
    share = found["emulated"] / found["specs"]
    head = (
        f"Of {found['specs']} specs {found['proven']} were proven and {found['emulated']} "
        f"({share:.0%}) executed."
    )
    parts = [head]
    for key in ("rows", "families", "refusals", "failures"):
        rows: list[Mapping[str, object]] = found[key]
        if rows:
            lines = [list(rows[0]), ["---"] * len(rows[0]), *[map(_cell, r.values()) for r in rows]]
            parts.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
    where = found["environment"]
    source = f"*{where['date']}, seed {found['seed']}; `benchmarks/results/fuzz.json`*"
    return "\n\n".join([*parts, source])


def on_gpu(name: str, problem: Sequence[str]) -> str:
    """TFLOP/s of a benchmark that ran on a GPU: a line per problem, a column per provider."""
    found = json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))
    rows = [row for row in found["rows"] if all(key in row for key in problem)]
    providers = list(dict.fromkeys(row["provider"] for row in rows))
    shares = ["of best peer", "of best peer eagerly", "of best peer in a graph"]
    shares = [share for share in shares if any(share in row for row in rows)]
    lines = [[*problem, *(f"{p} TFLOP/s" for p in providers), *shares, "error", "torch's"]]
    lines.append(["---"] * len(lines[0]))
    groups: dict[tuple[object, ...], dict[str, Mapping[str, object]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in problem), {})[row["provider"]] = row
    for key, group in groups.items():
        speeds = [group[p].get("TFLOP/s", "") if p in group else "" for p in providers]
        mine = group["schedgen"]
        other = next(r for r in group.values() if r is not mine and "error" in r)
        compared = [mine.get(share, "") for share in shares]
        cells = [*key, *speeds, *compared, mine["error"], other["error"]]
        lines.append([_cell(cell) for cell in cells])
    where = found["environment"]
    source = (
        f"*{where['date']}, {where['gpu']}, torch {where['torch']}, "
        f"nvidia-cutlass-dsl {where['nvidia-cutlass-dsl']}; `benchmarks/results/{name}.json`*"
    )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{source}"


def gpu_table(name: str, columns: Sequence[str], only: str = "") -> str:
    """Columns of a result that was measured on a GPU, with where that was."""
    text = results_table(name, columns, only)
    where = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text("utf-8"))["environment"]
    source = f"*{where['date']}, {where['gpu']}; `benchmarks/results/{name}.json`*"
    return text[: text.rindex("\n\n*")] + f"\n\n{source}"


def sanitize() -> str:
    """What each tool of compute-sanitizer says: a line per kernel."""
    found = json.loads((ROOT / "benchmarks/results/sanitize.json").read_text("utf-8"))
    tools = list(dict.fromkeys(row["tool"] for row in found["rows"]))
    said: dict[str, dict[str, str]] = {}
    for row in found["rows"]:
        said.setdefault(row["kernel"], {})[row["tool"]] = row["summary"]
    lines = [["kernel", *tools], ["---"] * (1 + len(tools))]
    lines += [[name, *(each[tool] for tool in tools)] for name, each in said.items()]
    where = found["environment"]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{text}\n\n*{where['date']}, {where['gpu']}; `benchmarks/results/sanitize.json`*"


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
    "predicted-constants": lambda: measured_table(
        "predicted", ("constant", "before", "measured", "unit", "by"), "constants"
    ),
    "predicted-experiments": lambda: measured_table(
        "predicted",
        ("experiment", "measured", "predicted", "off", "in turn", "in step"),
        "experiments",
    ),
    "predicted-kernels": lambda: measured_table(
        "predicted",
        ("kernel", "II", "measured", "predicted", "off", "in turn", "in step"),
        "kernels",
    ),
    "proof-growth": lambda: results_table(
        "proof_growth",
        ("copies of", "operations", "steps", "barriers", "graph s", "proven but for size"),
    ),
    "attention-h200": lambda: on_gpu(
        "attention", ("batch", "seq", "heads", "heads_k", "head_dim", "causal")
    ),
    "launch-host": lambda: gpu_table("launch", ("call", "us on the host"), only="host"),
    "launch-eager": lambda: gpu_table(
        "launch",
        (
            *("function", "shape", "provider", "eager us", "eager, of best peer"),
            *("on the GPU us", "on the GPU, of best peer", "graph us", "graph, of best peer"),
        ),
        only="eager",
    ),
    "gemm-h200": lambda: on_gpu("gemm", ("spec", "m=n", "k", "tile")),
    **emulator_tables.parts(),
    **trace_tables.parts(),
    "head-dims": lambda: results_table(
        "head_dims",
        (
            *("head_dim", "target", "causal", "tile", "II", "bound", "certificate"),
            *("K and V slots", "O over Q", "registers", "spilled", "conform", "correct", "clean"),
            "problem",
        ),
    ),
    "compiled": lambda: results_table(
        "compiled",
        ("kernel", "registers", "roles", "local bytes", "shared bytes", "tensor columns"),
    ),
    "cycles": lambda: gpu_table(
        "cycles",
        (
            *("problem", "provider", "model cycles/iteration", "elapsed cycles/iteration"),
            *("active cycles/iteration", "busiest unit %", "MHz"),
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
