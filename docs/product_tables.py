"""Tables of products on a GPU, of 8-bit operands and of experts, from what benchmarks kept in
`benchmarks/results`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
_OURS = "schedgen"
_BF16 = f"{_OURS} bf16"
_WAYS = {
    "us in a graph": ("graph ms", "of best peer in a graph"),
    "us queued": ("ms", "of best peer"),
    "us eagerly": ("eager ms", "of best peer eagerly"),
}
"""How candidates are called: the columns of times, and of shares of the best peer."""
_HUNDREDTH = 0.0095
_SUMS = ("mean", "least", "slower")
Rows = dict[str, Mapping[str, Any]]
"""What was measured of a problem, by candidate."""


def parts() -> dict[str, Callable[[], str]]:
    """Generated parts by name; those whose results are there."""
    found: dict[str, Callable[[], str]] = {}
    if (RESULTS / "low_precision.json").exists():
        for part in ("rows", "whole", "blocks"):
            found[f"low-precision-{part}"] = lambda part=part: low_precision(part)
        found["low-precision-means"] = lambda: means("low_precision")
    if (RESULTS / "experts.json").exists():
        found["experts"] = lambda: experts("experts", "mixtral")
        found["experts-gradients"] = lambda: experts("gradients")
        found["experts-means"] = lambda: means("experts")
    if (RESULTS / "scaled_attention.json").exists():
        found["scaled-attention"] = scaled_attention
        found["scaled-attention-means"] = lambda: means("scaled_attention")
    if (RESULTS / "epilogues.json").exists():
        found["epilogues"] = lambda: epilogues("rotary", "dropout", "quantized")
        found["epilogues-cross-entropy"] = lambda: epilogues("cross_entropy", names=["vocabulary"])
        found["epilogues-mixed"] = lambda: epilogues("mixed", names=["weights"])
        found["epilogues-means"] = lambda: means("epilogues")
    if (RESULTS / "styles.json").exists():
        found["styles"] = lambda: styles("styles")
    if (RESULTS / "styles_straight.json").exists():
        found["styles-straight"] = lambda: styles("styles_straight")
    if (RESULTS / "styles_loose.json").exists():
        found["styles-loose"] = lambda: styles("styles_loose")
    return found


def low_precision(part: str) -> str:
    """A line for each shape of a part: `scaled_gemm` beside every peer, and `gemm` in bf16."""
    problems, where = _problems("low_precision", ("m", "n", "k"), part)
    peers = _peers(problems.values())
    head = ["m", "n", "k", *_head(peers), "bf16 TFLOP/s", *_errors(peers)]
    lines = [head, ["---"] * len(head)]
    for problem, rows in problems.items():
        bf16 = rows.get(_BF16, {}).get("TFLOP/s", "")
        lines.append([*problem, *_cells(rows, peers), str(bf16), *_of_errors(rows, peers)])
    return _table(lines, where, "low_precision")


def experts(*of: str) -> str:
    """A line for each product and distribution of rows: `grouped_gemm` beside every peer."""
    return _beside("experts", ("groups", "rows", "rows of experts", "n", "k"), *of)


def scaled_attention() -> str:
    """A line for each shape with and without a causal mask: 8 bits beside 16."""
    return _beside("scaled_attention", ("part", "batch", "seq", "heads", "heads_k", "head_dim"))


def epilogues(*of: str, names: Sequence[str] = ()) -> str:
    """A line for each layer of some parts, beside every peer."""
    return _beside("epilogues", ("part", "tokens", *names), *of)


def styles(name: str) -> str:
    """Cycles of an iteration in two ways to write a kernel, where they differ by a hundredth."""
    found = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    rows = [row for row in found["rows"] if abs(row["share"] - 1) >= _HUNDREDTH]
    head = list(dict.fromkeys(title for row in rows for title in row))
    lines = [head, ["---"] * len(head)]
    lines += ([str(row.get(title, "")) for title in head] for row in rows)
    return _table(lines, found["environment"], name)


def _beside(name: str, names: Sequence[str], *of: str) -> str:
    """A line for each problem that ``names`` tell from others: ours beside every peer."""
    problems, where = _problems(name, names, *of)
    peers = _peers(problems.values())
    head = [*names, *_head(peers), *_errors(peers)]
    lines = [head, ["---"] * len(head)]
    for problem, rows in problems.items():
        lines.append([*problem, *_cells(rows, peers), *_of_errors(rows, peers)])
    return _table(lines, where, name)


def means(name: str) -> str:
    """Geometric means of the time of the best peer over ours, by part and way to call."""
    found = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    ways = [way.removeprefix("us ") for way in _WAYS]
    head = ["", "shapes", *(f"{way}: {what}" for way in ways for what in _SUMS)]
    lines = [head, ["---"] * len(head)]
    ours = [row for row in found["rows"] if row.get("candidate") == _OURS]
    for part in dict.fromkeys(row["part"] for row in ours):
        rows = [row for row in ours if row["part"] == part]
        cells = [part, str(len(rows))]
        for _, share in _WAYS.values():
            shares = [row[share] for row in rows if share in row]
            cells += [f"{geometric_mean(shares):.2f}", f"{min(shares):.2f}"] if shares else ["", ""]
            cells.append(str(sum(one < 1 for one in shares)))
        lines.append(cells)
    return _table(lines, found["environment"], name)


def _problems(
    name: str, keys: Sequence[str], *of: str
) -> tuple[dict[tuple[str, ...], Rows], Mapping[str, str]]:
    """What was measured of each problem, of some parts or all, and where."""
    found = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    problems: dict[tuple[str, ...], Rows] = {}
    for row in found["rows"]:
        if "ms" in row and (not of or row["part"] in of):
            problems.setdefault(tuple(str(row[key]) for key in keys), {})[row["candidate"]] = row
    return problems, found["environment"]


def _peers(problems: Any) -> list[str]:
    """All candidates that are not ours, in the order in which they were seen."""
    names = dict.fromkeys(name for rows in problems for name in rows)
    return [name for name in names if not name.startswith(_OURS)]


def _head(peers: Sequence[str]) -> list[str]:
    found: list[str] = []
    for way in _WAYS:
        found += [way, *(f"of {peer}" for peer in peers)]
    return [*found, "TFLOP/s"]


def _cells(rows: Rows, peers: Sequence[str]) -> list[str]:
    """Times of ours in each way, each followed by those of peers over it."""
    ours, found = rows[_OURS], list[str]()
    for way, _ in _WAYS.values():
        found.append(f"{1e3 * ours[way]:.1f}" if way in ours else "")
        for peer in peers:
            theirs = rows.get(peer, {}).get(way)
            found.append(f"{theirs / ours[way]:.2f}" if theirs and way in ours else "")
    return [*found, str(ours["TFLOP/s"])]


def _errors(peers: Sequence[str]) -> list[str]:
    return ["error", *(f"{peer}'s" for peer in peers)]


def _of_errors(rows: Rows, peers: Sequence[str]) -> list[str]:
    return [rows.get(name, {}).get("error", "") for name in (_OURS, *peers)]


def _table(lines: Sequence[Sequence[str]], where: Mapping[str, str], name: str) -> str:
    packages = {"torch": "torch", "quack-kernels": "quack", "sgl-deep-gemm": "DeepGEMM"}
    versions = ", ".join(f"{name} {where[key]}" for key, name in packages.items() if key in where)
    source = f"*{where['date']}, {where['gpu']}, {versions}; `benchmarks/results/{name}.json`*"
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + f"\n\n{source}"
