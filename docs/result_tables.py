"""Tables of documents from what benchmarks kept in `benchmarks/results`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

ROOT = Path(__file__).parent.parent


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
    dates = ", ".join(dict.fromkeys(row["measured on"] for row in rows))
    source = f"*{rows[0]['device']}, {dates}; `benchmarks/results/{name}.json`*"
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{source}"


def _cell(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def headline() -> str:
    """Speed over the best peer's: geometric mean, least and most, of each family of kernels."""
    lines = ["| | shapes | called eagerly | time on the GPU | in CUDA graphs | best peer of |"]
    lines.append("| --- | --- | --- | --- | --- | --- |")
    families: dict[str, list[Mapping[str, Any]]] = {}
    peers: dict[str, dict[str, None]] = {}
    for name in ("h200", "gemm"):
        for row in _results(name)["rows"]:
            family = f"`{row['spec']}`" if "spec" in row else row["family"]
            family = "`polar`" if family == "polar" else family
            if row["provider"] == "schedgen":
                families.setdefault(family, []).append(row)
            else:
                peers.setdefault(family, {})[row["provider"]] = None
    for family, rows in families.items():
        shares = ("of best peer eagerly", "of best peer", "of best peer in a graph")
        cells = [_spread([row[share] for row in rows if row.get(share)]) for share in shares]
        if family == "`polar`":
            cells[1] = ""  # it is measured as a graph
        lines.append(
            f"| {family} | {len(rows)} | {' | '.join(cells)} | {', '.join(peers[family])} |"
        )
    found = {name: _results(name) for name in ("h200", "gemm")}
    source = ", ".join(f"`{n}.json` ({_dates(one, one['rows'])})" for n, one in found.items())
    gpu = found["h200"]["environment"]["gpu"]
    return "\n".join(lines) + f"\n\n*{gpu}; in `benchmarks/results`: {source}*"


def _dates(found: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """When rows of a file were measured: days of their own, or that of the file."""
    days = {str(row.get("date", found["environment"]["date"])) for row in rows}
    return " and ".join(sorted(days))


def _results(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "benchmarks" / "results" / f"{name}.json").read_text("utf-8"))


def _spread(shares: Sequence[float]) -> str:
    if not shares:
        return ""
    return f"{geometric_mean(shares):.2f} ({min(shares):.2f} to {max(shares):.2f})"


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


def on_gpu(name: str, problem: Sequence[str], only: str = "") -> str:
    """TFLOP/s of a benchmark that ran on a GPU: a line per problem, a column per provider.

    ``only`` picks a family, where a file holds several. *of tensor rate* is ours over what the
    tensor cores do at the clock that was seen, where that is known.
    """
    found = _results(name)
    rows = [row for row in found["rows"] if all(key in row for key in problem)]
    rows = [row for row in rows if not only or row["family"] == only]
    providers = list(dict.fromkeys(row["provider"] for row in rows))
    shares = ["of best peer", "of best peer eagerly", "of best peer in a graph"]
    shares = [share for share in shares if any(share in row for row in rows)]
    columns = [*problem, *(f"{p} TFLOP/s" for p in providers), *shares]
    columns += ["cycles/iteration", "predicted", "of tensor rate"]
    lines = [[*columns, "error", "torch's"]]
    lines.append(["---"] * len(lines[0]))
    groups: dict[tuple[object, ...], dict[str, Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in problem), {})[row["provider"]] = row
    for key, group in groups.items():
        speeds = [group[p].get("TFLOP/s", "") if p in group else "" for p in providers]
        mine = group["schedgen"]
        other = next(r for r in group.values() if r is not mine and "error" in r)
        compared = [mine.get(share, "") for share in shares]
        cycles = mine.get("cycles/iteration", ""), _predicted(mine), _of_tensor_rate(mine)
        cells = [*key, *speeds, *compared, *cycles, mine["error"], other["error"]]
        lines.append([_cell(cell) for cell in cells])
    where = found["environment"]
    source = (
        f"*{_dates(found, rows)}, {where['gpu']}, torch {where['torch']}, "
        f"nvidia-cutlass-dsl {where['nvidia-cutlass-dsl']}; `benchmarks/results/{name}.json`*"
    )
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{source}"


_SMS = 132
_DENSE = 4096
"""FLOP of products of 16-bit numbers in a cycle of an SM (`product_flops` of the model of h200)."""


def _predicted(row: Mapping[str, Any]) -> object:
    """Cycles of an iteration of the main loop alone that the model predicts."""
    rows = _results("predicted")["rows"]
    known = {
        frozenset(one["kernel"].split()): one["predicted"]
        for one in rows
        if one["table"] == "kernels"
    }
    return known.get(_kernel(row), "")


def _kernel(row: Mapping[str, Any]) -> frozenset[str]:
    """The kernel of a row, in the words of `benchmarks/predicted.py`; another one than today's has
    none.
    """
    from schedgen.benchmarks.shipped import chosen
    from schedgen.kernels import keys
    from schedgen.kernels.library import SMS

    spec: str
    settings: Mapping[str, str]
    if "head_dim" in row:
        today = keys.keys("sm_90a", row["head_dim"], row["causal"], row["seq"], row["seq"])
        number = row.get("keys", today)
        more = {"causal": "true"} if row["causal"] else {}
        more |= {"keys": str(number)} if number != keys.OWN else {}
        spec, settings = "attention_fwd", {"head_dim": str(row["head_dim"]), **more}
    else:
        sizes = (row[extent] for extent in "mnk")
        found = chosen(row["spec"], *sizes, "sm_90a", SMS["sm_90a"])
        spec, settings = found.kernel
        if str(found) != row["tile"]:
            return frozenset()
    return frozenset({spec, *(f"{n}={v}" for n, v in settings.items() if n != "dtype")})


def _of_tensor_rate(row: Mapping[str, Any]) -> str:
    """Products of 16-bit numbers that are done, of those at the rate of the model of h200."""
    from schedgen.kernels.library import SMS
    from schedgen.machine_file import read_machine

    if not row.get("MHz"):
        return ""
    dense = float(read_machine("h200").constant["product_flops"].low)  # FLOP in a cycle of an SM
    done = row["TFLOP/s"] * (0.5 if row.get("spec") == "gemm_symmetric" else 1)
    return f"{done * 1e6 / (SMS['sm_90a'] * dense * row['MHz']):.2f}"


def pingpong() -> str:
    """Tiles that warpgroups share or compute in turn beside quack's best, a line per product."""
    found = _results("pingpong")
    products: dict[tuple[str, str, str], dict[str, float]] = {}
    best: dict[tuple[str, str, str], tuple[float, str]] = {}
    for row in found["rows"]:
        product = row["spec"], row["shape"].replace("x", " x "), _cell(row["added"])
        products.setdefault(product, {})[row["kernel"]] = row["of quack"]
        if row["kernel"].startswith("quack"):
            known = best.setdefault(product, (row["ms"], row["kernel"]))
            best[product] = min(known, (row["ms"], row["kernel"]))
    ours = list(dict.fromkeys(k for one in products.values() for k in one if k[0].isdigit()))
    lines = [
        ["spec", "batch x m x n x k", "addend", *sorted(ours, reverse=True), "best of quack", "ms"]
    ]
    lines.append(["---"] * len(lines[0]))
    for product, shares in products.items():
        ms, name = best[product]
        cells = [str(shares[k]) for k in sorted(ours, reverse=True)]
        lines.append([*product, *cells, name.removeprefix("quack "), str(ms)])
    where = found["environment"]
    source = f"*{where['date']}, {where['gpu']}, CUDA graphs; `benchmarks/results/pingpong.json`*"
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{source}"


def choices() -> str:
    """Products in all tiles: shares of the best tile's speed in graphs, a line per product."""
    found = _results("choices")
    products: dict[tuple[str, ...], dict[str, float]] = {}
    for row in found["rows"]:
        shape = row["shape"].replace("x", " x ")
        products.setdefault((row["spec"], row["b"], shape, row["addend"]), {})[row["tile"]] = row[
            "graph us"
        ]
    tiles = list(dict.fromkeys(row["tile"] for row in found["rows"]))
    lines = [["spec", "b", "batch x m x n x k", "addend", *tiles, "best us"]]
    lines.append(["---"] * len(lines[0]))
    for product, times in products.items():
        best = min(times.values())
        shares = (f"{best / times[tile]:.2f}" if tile in times else "" for tile in tiles)
        lines.append([*product, *shares, f"{best:.1f}"])
    where = found["environment"]
    source = f"*{where['date']}, {where['gpu']}, CUDA graphs; `benchmarks/results/choices.json`, "
    source += f"{where['note']}*" if "note" in where else "`python benchmarks/choices.py`*"
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{source}"


def polar_on_gpu() -> str:
    """`polar` of `benchmarks/h200.py`: a line per shape."""
    found = _results("h200")
    groups: dict[tuple[int, ...], dict[str, Mapping[str, Any]]] = {}
    for row in found["rows"]:
        if row["family"] == "polar":
            shape = row["batch"], row["n"], row["m"]
            groups.setdefault(shape, {})[row["provider"]] = row
    times = ("eager ms", "graph ms")
    columns = ["batch", "n", "m", *(f"{p} {t}" for p in ("schedgen", "gram-quack") for t in times)]
    shares = ("of best peer eagerly", "of best peer in a graph")
    lines = [[*columns, "floor ms", *shares, "error", "defect"]]
    lines.append(["---"] * len(lines[0]))
    for shape, group in groups.items():
        mine, theirs = group["schedgen"], group.get("gram-quack", {})
        cells = [*shape, *(row.get(time, "") for row in (mine, theirs) for time in times)]
        cells += [mine["floor ms"], *(mine[share] for share in shares)]
        lines.append([_cell(cell) for cell in (*cells, mine["error"], mine["defect"])])
    where = found["environment"]
    rows = [row for group in groups.values() for row in group.values()]
    source = f"*{_dates(found, rows)}, {where['gpu']}; `benchmarks/results/h200.json`*"
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{source}"


def gpu_table(name: str, columns: Sequence[str], only: str = "") -> str:
    """Columns of a result that was measured on a GPU, with where that was."""
    text = results_table(name, columns, only)
    where = json.loads((ROOT / f"benchmarks/results/{name}.json").read_text("utf-8"))["environment"]
    source = f"*{where['date']}, {where['gpu']}; `benchmarks/results/{name}.json`*"
    return text[: text.rindex("\n\n*")] + f"\n\n{source}"


def masks() -> str:
    """Random masks of attention: how many of their kernels were right, of each architecture."""
    found = _results("masks")
    words = ("right", "wrong", "refused")
    lines = [["architecture", "masks", *words, "largest error", "of sums", "rows that see nothing"]]
    lines.append(["---"] * len(lines[0]))
    for arch in dict.fromkeys(row["arch"] for row in found["rows"]):
        rows = [row for row in found["rows"] if row["arch"] == arch]
        counts = [sum(row["outcome"] == word for row in rows) for word in words]
        ran = [row for row in rows if row["outcome"] != "refused"]
        worst = [max(row[key] for row in ran) for key in ("result_off", "lse_off")]
        blind = sum(row["blind_rows"] for row in ran)
        lines.append([_cell(cell) for cell in (arch, len(rows), *counts, *worst, blind)])
    where = found["environment"]
    source = f"*{where['date']}, python {where['python']}; `benchmarks/results/masks.json`*"
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{source}"


def flash_attn_cases() -> str:
    """flash-attn's functions on a GPU: a line for each mask and what else is asked for."""
    found = _results("flash_attn_cases")
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in found["rows"]:
        config = json.loads(row["config"])
        kinds = ("softcap", "slopes", "sinks", "packed")
        more = ", ".join(name for name in kinds if config.get(name))
        groups.setdefault((config["mask"], more), []).append(row)
    lines = [
        ["mask", "beside it", "cases", "failed", "peer flash-attn-4", "largest error", "of peer's"]
    ]
    lines.append(["---"] * len(lines[0]))
    for (mask, more), rows in sorted(groups.items()):
        shares = [row["error"] / row["peer_error"] for row in rows if row["peer_error"]]
        counts = (len(rows), sum(row["failed"] for row in rows))
        beside = sum(row["peer"] == "flash-attn-4" for row in rows)
        worst = f"{max(row['error'] for row in rows):.1e}", f"{max(shares):.2f}"
        lines.append([mask, more, *map(str, (*counts, beside)), *worst])
    where = found["environment"]
    source = f"*{where['date']}, {where['gpu']}; `benchmarks/results/flash_attn_cases.json`*"
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{source}"


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
