"""Tables of attention on a GPU (decode and caches, variants, gradients), and of products with more
in their epilogues, from what benchmarks kept in `benchmarks/results`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
_OURS, _ATTENTION = "schedgen", "schedgen attention"
_WALKS = tuple(f"{_OURS}, {way}" for way in ("two walks", "in turns", "any order"))


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


def decode_caches() -> str:
    """A line for each problem of full caches in pages: beside flash-attn-4, and torch without."""
    return _caches("decode_caches", (_OURS,))


def decode_mixed() -> str:
    """The same with lengths that differ, and with keys that are split in any case."""
    return _caches("decode_mixed", (_OURS, f"{_OURS} split"))


def _caches(name: str, ways: Sequence[str]) -> str:
    found = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    problems: dict[tuple[int, ...], dict[str, Mapping[str, Any]]] = {}
    for row in found["rows"]:
        problem = tuple(
            row[key] for key in ("page", "batch", "queries", "keys", "heads", "heads_k")
        )
        problems.setdefault(problem, {})[row["candidate"]] = row
    peers = ("flash-attn-4", "torch sdpa, dense")
    lines = [["page", "batch", "queries", "keys", "heads", "heads_k"]]
    for time in ("ms in a graph", "eager ms"):
        for title in (time, f"{time}, num_splits=2")[: len(ways)]:
            lines[0] += [title, "of flash-attn-4", "of torch without pages"]
            lines[0] += ["of 4.8 TB/s"] * (time != "eager ms")
    lines.append(["---"] * len(lines[0]))
    for problem, rows in sorted(problems.items()):
        cells = [*map(str, problem)]
        for key in ("graph ms", "eager ms"):
            for ours in (rows[way] for way in ways):
                cells += [str(ours[key])]
                cells += [f"{rows[peer][key] / ours[key]:.2f}" for peer in peers]
                cells += [str(ours["share"])] * (key == "graph ms")
        lines.append(cells)
    return _table(lines, found["environment"], name)


def backward() -> str:
    """A line for each problem and way of ours: gradients beside flash-attn-4, both ways,
    FlashAttention-2, and cuDNN where it was measured.
    """
    found = json.loads((RESULTS / "backward.json").read_text("utf-8"))
    problems: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in found["rows"]:
        if "ms" in row:
            problems.setdefault(row["case"], {})[row["provider"]] = row
    measured = {name for rows in problems.values() for name in rows}
    graphs, eager = ("FA4 deterministic", "FA4", "FA2"), ["FA4 deterministic", "FA4"]
    eager += ["cuDNN"] * ("cuDNN" in measured)  # no graph has it
    titles = {"FA4 deterministic": "FA4, deterministic"}
    lines = [["", "TFLOP/s", "ms in a graph", *(f"of {titles.get(n, n)}" for n in graphs)]]
    lines[0] += ["eager ms", *(f"of {titles.get(n, n)}" for n in eager)]
    lines[0] += ["same bits", *(titles.get(n, n) for n in eager), "error of dq, dk, dv", "FA4"]
    lines.append(["---"] * len(lines[0]))
    for problem, rows in problems.items():
        for name in (n for n in rows if n.startswith(_OURS)):
            ours = rows[name]
            cells = [problem + name.removeprefix(_OURS), str(ours["TFLOP/s"])]
            cells += _times("graph ms", rows, name, graphs) + _times("eager ms", rows, name, eager)
            cells += [rows[one]["same bits"] if one in rows else "" for one in (name, *eager)]
            for row in (ours, rows["FA4"]):
                cells.append(", ".join(row[f"error of {each}"] for each in ("dq", "dk", "dv")))
            lines.append(cells)
    return _table(lines, found["environment"], "backward")


def packed_gradients() -> str:
    """A line for each problem: gradients of packed sequences beside flash-attn-4, both ways."""
    told = ("case", "sequences", "tokens", "heads", "heads_k", "head_dim", "causal")
    return _gradients("packed_gradients", told)


def document_gradients() -> str:
    """A line for each problem: gradients of a mask of documents beside flash-attn-4, both ways."""
    return _gradients("document_gradients", ("heads", "heads_k", "causal"))


def window_gradients() -> str:
    """A line for each problem: gradients with a window beside flash-attn-4, both ways."""
    return _gradients("window_gradients", ("batch", "seq", "heads", "head_dim"))


def _gradients(file: str, told: Sequence[str]) -> str:
    """A line for what rows tell of a problem."""
    found = json.loads((RESULTS / f"{file}.json").read_text("utf-8"))
    problems: dict[tuple[object, ...], dict[str, Mapping[str, Any]]] = {}
    for row in found["rows"]:
        if "same bits" in row:
            problems.setdefault(tuple(row[name] for name in told), {})[row["provider"]] = row
    peers = {"FA4 deterministic": "FA4, deterministic", "FA4": "FA4"}
    lines = [[*told, "ms", *(f"of {title}" for title in peers.values()), "eager ms"]]
    lines[0] += [*(f"of {title}" for title in peers.values()), "same bits", *peers.values()]
    lines[0] += ["error of dq, dk, dv", "FA4"]
    lines.append(["---"] * len(lines[0]))
    for problem, rows in problems.items():
        for name in (n for n in rows if n in (_OURS, *_WALKS)):
            ours, first, *more = rows[name], *map(str, problem)
            cells = [first + name.removeprefix(_OURS), *more, str(ours.get("ms", ""))]
            cells += [f"{ours[f'of {peer}']:.2f}" if "ms" in ours else "" for peer in peers]
            cells.append(str(ours.get("eager ms", "")))
            for one in (f"of {peer}, eagerly" for peer in peers):
                cells.append(f"{ours[one]:.2f}" if one in ours else "")
            cells += [rows[one]["same bits"] for one in (name, *peers)]
            for row in (ours, rows["FA4"]):
                cells.append(", ".join(row[f"error of {each}"] for each in ("dq", "dk", "dv")))
            lines.append(cells)
    return _table(lines, found["environment"], file)


def _times(
    key: str, rows: Mapping[str, Mapping[str, Any]], ours: str, peers: Sequence[str]
) -> list[str]:
    """The time ``key`` of ``ours``, and those of ``peers`` in units of it, where there are any."""
    mine = rows[ours][key]
    return [str(mine), *(f"{rows[p][key] / mine:.2f}" if p in rows else "" for p in peers)]


_PEERS = ("torch.compile", "quack")


def _gated() -> tuple[Mapping[tuple[str, ...], Mapping[str, Mapping[str, Any]]], Any]:
    """Problem -> provider -> row, and where that was."""
    found = json.loads((RESULTS / "gated.json").read_text("utf-8"))
    problems: dict[tuple[str, ...], dict[str, Mapping[str, Any]]] = {}
    for row in found["rows"]:
        problem = tuple(str(row[key]) for key in ("kind", "tokens", "hidden", "inner"))
        problems.setdefault(problem, {})[row["provider"]] = row
    return problems, found["environment"]


def gated() -> str:
    """A line for each product with more in its epilogue, beside torch.compile and quack."""
    problems, where = _gated()
    of_peers = [f"of {peer}" for peer in _PEERS]
    lines = [["", "tokens", "hidden", "inner", "us in a graph", *of_peers, "eager us", *of_peers]]
    lines[0] += ["TFLOP/s", "error", *(f"{peer}'s" for peer in _PEERS)]
    lines.append(["---"] * len(lines[0]))
    for problem, rows in problems.items():
        cells = [*problem, *_times("graph us", rows, _OURS, _PEERS)]
        cells += _times("eager us", rows, _OURS, _PEERS)
        errors = [str(rows[one]["error"]) for one in (_OURS, *_PEERS)]
        lines.append([*cells, str(rows[_OURS]["TFLOP/s"]), *errors])
    return _table(lines, where, "gated")


def gated_means() -> str:
    """Geometric means of our speed over that of each peer, for each kind and all of them."""
    problems, where = _gated()
    ways = {"graph us": "in a graph", "us": "queued", "eager us": "eagerly"}
    lines = [["", "cases", *(f"{way}: of {p}" for way in ways.values() for p in _PEERS)]]
    lines.append(["---"] * len(lines[0]))
    kinds = dict.fromkeys(problem[0] for problem in problems)
    for name, some in [*((kind, {kind}) for kind in kinds), ("all", set(kinds))]:
        of = [rows for problem, rows in problems.items() if problem[0] in some]
        means = [
            geometric_mean([rows[peer][way] / rows[_OURS][way] for rows in of])
            for way in ways
            for peer in _PEERS
        ]
        lines.append([name, str(len(of)), *(f"{mean:.3f}" for mean in means)])
    return _table(lines, where, "gated")


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
    """A line for each problem and way of ours: beside flash-attn-4, its masks, flex_attention."""
    found = json.loads((RESULTS / "variant_speed.json").read_text("utf-8"))
    problems: dict[tuple[str, int, int], dict[str, Mapping[str, Any]]] = {}
    for row in found["rows"]:
        if "refused" not in row:
            problem = row["case"], row["heads"], row["heads_k"]
            problems.setdefault(problem, {})[row["candidate"]] = row
    beside = {"FA4": "of flash-attn-4", "FA4 mask": "of its mask", "flex": "of flex"}
    lines = [["", "heads", "heads_k", "ms in a graph", *beside.values()]]
    lines[0] += ["eager ms", *beside.values(), "TFLOP/s", "theirs", "error", "theirs"]
    lines.append(["---"] * len(lines[0]))
    for problem, rows in problems.items():
        for name in (n for n in rows if n.startswith(_OURS)):
            ours = rows[name]
            cells = [problem[0] + name.removeprefix(_OURS), *map(str, problem[1:])]
            for key in ("graph ms", "eager ms"):
                cells.append(str(ours[key]))
                times = (rows.get(peer, {}).get(key) for peer in beside)
                cells += [f"{time / ours[key]:.2f}" if time else "" for time in times]
            cells += [str(rows[peer]["TFLOP/s"]) for peer in (name, "FA4")]
            lines.append([*cells, *(f"{rows[peer]['error']:.1e}" for peer in (name, "FA4"))])
    return _table(lines, found["environment"], "variant_speed")


def packed_pages() -> str:
    """A line for each step of an engine and size of pages, beside flash-attn-4."""
    found = json.loads((RESULTS / "packed_pages.json").read_text("utf-8"))
    steps: dict[tuple[str, int], dict[str, Mapping[str, Any]]] = {}
    for row in (row for row in found["rows"] if row["part"] == "step"):
        steps.setdefault((row["step"], row["page"]), {})[row["candidate"]] = row
    lines = [["", "page", "ms in a graph", "of flash-attn-4", "eager ms", "of flash-attn-4"]]
    lines[0] += ["error", "theirs"]
    lines.append(["---"] * len(lines[0]))
    for (step, page), rows in steps.items():
        cells = [step, str(page)]
        for key in ("graph ms", "eager ms"):
            cells += [str(rows[_OURS][key]), f"{rows['FA4'][key] / rows[_OURS][key]:.2f}"]
        lines.append([*cells, *(f"{rows[name]['error']:.1e}" for name in (_OURS, "FA4"))])
    return _table(lines, found["environment"], "packed_pages")


def packed_pages_cases() -> str:
    """A line for each kind of kernel: how many calls were right, and errors beside torch's."""
    found = json.loads((RESULTS / "packed_pages.json").read_text("utf-8"))
    kinds: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for row in (row for row in found["rows"] if row["part"] == "case"):
        config = json.loads(row["config"])
        beside = [name for name in ("softcap", "slopes", "sinks") if config[name]]
        kind = str(row["page"]), config["mask"], ", ".join(beside), str(config["head_dim"])
        kinds.setdefault(kind, []).append(row)
    lines = [["page", "mask", "beside it", "head_dim", "cases", "failed", "largest error"]]
    lines[0].append("of torch's")
    lines.append(["---"] * len(lines[0]))
    for kind, rows in kinds.items():
        worst = max(row["error"] / (row["torch_error"] or 1.0) for row in rows)
        cells = [len(rows), sum(row["failed"] for row in rows)]
        largest = f"{max(row['error'] for row in rows):.1e}"
        lines.append([*kind, *map(str, cells), largest, f"{worst:.2f}"])
    return _table(lines, found["environment"], "packed_pages")


def _table(lines: Sequence[Sequence[str]], where: Mapping[str, str], name: str) -> str:
    source = f"*{where['date']}, {where['gpu']}; `benchmarks/results/{name}.json`*"
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{source}"
