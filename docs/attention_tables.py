"""Tables of decode and of caches from what benchmarks kept in `benchmarks/results`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
_OURS, _ATTENTION = "schedgen", "schedgen attention"


def decode() -> str:
    """A line for each problem: `attention_decode`, and `attention`, beside the best peer."""
    found = json.loads((RESULTS / "decode.json").read_text("utf-8"))
    problems: dict[tuple[int, ...], dict[str, Mapping[str, Any]]] = {}
    for row in found["rows"]:
        problem = tuple(row[key] for key in ("batch", "queries", "keys", "heads", "heads_k"))
        problems.setdefault(problem, {})[row["candidate"]] = row
    lines = [["batch", "queries", "keys", "heads", "heads_k", "ms in a graph", "of best peer"]]
    lines[0] += ["best peer", "of 4.8 TB/s", "eager ms", "of best peer", "attention in a graph ms"]
    lines[0] += ["eager ms", "error", "peer's"]
    lines.append(["---"] * len(lines[0]))
    for problem, rows in problems.items():
        ours, plain = rows.pop(_OURS), rows.pop(_ATTENTION)
        best = min(rows.values(), key=lambda row: row["graph ms"])
        eager = min(row["eager ms"] for row in rows.values())
        cells = [ours["graph ms"], f"{best['graph ms'] / ours['graph ms']:.2f}", best["candidate"]]
        cells += [ours["share"], ours["eager ms"], f"{eager / ours['eager ms']:.2f}"]
        cells += [plain["graph ms"], plain["eager ms"], f"{ours['error']:.1e}"]
        lines.append([*map(str, problem), *map(str, cells), f"{best['error']:.1e}"])
    return _table(lines, found["environment"], "decode")


def kvcache_cases() -> str:
    """A line for each size of pages and mask of `flash_attn_with_kvcache`."""
    found = json.loads((RESULTS / "kvcache_cases.json").read_text("utf-8"))
    groups: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in found["rows"]:
        config = json.loads(row["config"])
        words = [name for name in ("softcap", "alibi", "sinks") if config[name]]
        page = str(config["page"] or "contiguous")
        groups.setdefault((page, config["mask"], ", ".join(words)), []).append(row)
    lines = [["page", "mask", "beside it", "cases", "failed", "new tokens", "largest error"]]
    lines[0].append("of torch's")
    lines.append(["---"] * len(lines[0]))
    for group, rows in sorted(groups.items(), key=lambda one: (len(one[0][0]), *one[0])):
        failed, written = (sum(bool(row[key]) for row in rows) for key in ("failed", "new"))
        most = max(row["error"] for row in rows)
        of_torch = max(row["error"] / row["torch_error"] for row in rows if row["torch_error"])
        cells = (len(rows), failed, written, f"{most:.1e}", f"{of_torch:.2f}")
        lines.append([*group, *map(str, cells)])
    return _table(lines, found["environment"], "kvcache_cases")


def variant_speed() -> str:
    """A line for each problem and way of ours, beside flash-attn-4 and flex_attention."""
    found = json.loads((RESULTS / "variant_speed.json").read_text("utf-8"))
    problems: dict[tuple[str, int, int], dict[str, Mapping[str, Any]]] = {}
    for row in found["rows"]:
        if "refused" not in row:
            problem = row["case"], row["heads"], row["heads_k"]
            problems.setdefault(problem, {})[row["candidate"]] = row
    lines = [["", "heads", "heads_k", "ms in a graph", "of flash-attn-4", "of flex", "eager ms"]]
    lines[0] += ["of flash-attn-4", "of flex", "TFLOP/s", "theirs", "error", "theirs"]
    lines.append(["---"] * len(lines[0]))
    for problem, rows in problems.items():
        for name in (n for n in rows if n.startswith(_OURS)):
            ours = rows[name]
            cells = [problem[0] + name.removeprefix(_OURS), *map(str, problem[1:])]
            for key in ("graph ms", "eager ms"):
                cells.append(str(ours[key]))
                cells += [f"{rows[peer][key] / ours[key]:.2f}" for peer in ("FA4", "flex")]
            cells += [str(rows[peer]["TFLOP/s"]) for peer in (name, "FA4")]
            lines.append([*cells, *(f"{rows[peer]['error']:.1e}" for peer in (name, "FA4"))])
    return _table(lines, found["environment"], "variant_speed")


def _table(lines: Sequence[Sequence[str]], where: Mapping[str, str], name: str) -> str:
    source = f"*{where['date']}, {where['gpu']}; `benchmarks/results/{name}.json`*"
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{source}"
