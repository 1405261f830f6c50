"""The generated tables of emulator.md, for `fill`."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "benchmarks" / "results"
ENDS = (
    *("mutants", "not executed", "race", "error", "deadlock", "wrong result", "undetected"),
    "equivalent",
)
EXAMPLES = ("kernel", "arch", "schedule", "correct", "findings", "advice", "warp instructions")
SPEED = ("kernel", "arch", "extents", "race checker", "correct", "warp instructions")
GROWTH = ("kernel", "arch", "m=n", "k", "correct", "warp instructions", "asynchronous operations")
RACE = ("kernel", "arch", "executed", "correct", "findings", "rules", "launches")
LIFT = ("kernel", "arch", "result", "roles", "rings", "compared up to", "why not", "seconds")
MUTANTS = ("operator", "refuted", "not lifted", "proven", "lines")
Row = dict[str, Any]


def parts() -> dict[str, Callable[[], str]]:
    """Name -> what makes the part."""
    return {
        "emulator-examples": lambda: table("cutlass_examples", (*EXAMPLES, "seconds")),
        "emulator-race": race,
        "race-mutants": race_mutants,
        "bugs": bugs,
        "lift": lambda: table("lift", LIFT),
        "lift-mutants": lambda: table("lift_mutants", MUTANTS),
        "emulator-speed": lambda: table(
            "emulate", (*SPEED, "CPU seconds", "instructions/s", "later launches/s")
        ),
        "emulator-beside": lambda: table(
            "emulate_beside",
            (
                *("kernel", "arch", "first: there", "first: here", "first: times"),
                *("later: there", "later: here", "later: times"),
            ),
        ),
        "emulator-growth": lambda: table(
            "emulate_growth", (*GROWTH, "CPU seconds", "per 1024 more of k")
        ),
        "emulator-kernels": kernels,
        "emulator-newton-schulz": newton_schulz,
        "emulator-hardware": hardware,
        "emulator-mutants": mutants,
        "emulator-undetected": undetected,
    }


def read(name: str) -> tuple[list[Row], str]:
    """Rows of a file of results, and where they are from."""
    found = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))
    return found["rows"], f"*{found['environment']['date']}; `benchmarks/results/{name}.json`*"


def shown(rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table; the first row is its head."""
    lines = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def table(name: str, columns: Sequence[str]) -> str:
    """Some columns of a file of results."""
    rows, where = read(name)
    lines = [[_cell(row.get(column, "")) for column in columns] for row in rows]
    return f"{shown([columns, *lines])}\n\n{where}"


def _cell(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def race() -> str:
    """Kernels of others under `schedgen race`: how many of which project, then each."""
    rows, _ = read("race")
    lines: list[Sequence[object]] = [("project", "rows", "executed", "correct", "with findings")]
    for project in sorted({row["kernel"].split()[0] for row in rows}):
        own = [row for row in rows if row["kernel"].split()[0] == project]
        counts = (sum(bool(row.get(key)) for row in own) for key in RACE[2:5])
        lines.append((project, len(own), *counts))
    return f"{shown(lines)}\n\n{table('race', (*RACE, 'warp instructions', 'seconds'))}"


def kernels() -> str:
    """Generated kernels under adversarial schedules: a line per kernel."""
    rows, where = read("emulate_kernels")
    lines: list[Sequence[object]] = [
        ("kernel", "shapes", "runs", "correct", "clean", "largest error of allowed")
    ]
    for name in dict.fromkeys(row["kernel"] for row in rows):
        own = [row for row in rows if row["kernel"] == name]
        lines.append((
            f"`{name}`", ", ".join(row["shape"] for row in own),
            *(sum(row[key] for row in own) for key in ("schedules", "correct", "clean")),
            max(row["error of allowed"] for row in own),
        ))  # fmt: skip
    return f"{shown(lines)}\n\n{where}"


def newton_schulz() -> str:
    """The Blackwell kernels of Newton-Schulz at square shapes: a line per kernel."""
    rows, where = read("emulate_newton_schulz")
    lines: list[Sequence[object]] = [
        ("kernel", "m = n = k", "runs", "correct", "largest error of allowed", "findings",
         "CPU seconds")
    ]  # fmt: skip
    for name in dict.fromkeys(row["kernel"] for row in rows):
        own = [row for row in rows if row["kernel"] == name]
        seconds = sum(row["CPU seconds"] for row in own)
        lines.append((
            f"`{name}`", ", ".join(str(row["n"]) for row in own),
            *(sum(row[key] for row in own) for key in ("schedules", "correct")),
            max(row["error of allowed"] for row in own),
            sum(row["findings"] for row in own), round(seconds, 1),
        ))  # fmt: skip
    return f"{shown(lines)}\n\n{where}"


def hardware() -> str:
    """The emulator beside the GPU: a line per kernel with what is not bit by bit the same."""
    rows, where = read("emulate_hardware")
    there = rows[0]["hardware"]
    exact = [row for row in rows if row["allowed"] == "bits" and row["equal"]]
    micro = [row["kernel"] for row in exact if row["of"] != "generated kernel"]
    whole = [row["kernel"] for row in exact if row["of"] == "generated kernel"]
    lines: list[Sequence[object]] = [
        ("kernel", "elements", "other bits", "allowed", "largest of it", "equal")
    ]
    for row in rows:
        if row not in exact:
            name, elements, differ = row["kernel"], row["elements"], row["different bits"]
            words = row["allowed"].replace("|", "\\|")
            equal = "yes" if row["equal"] else "no"
            lines.append((f"`{name}`", elements, differ, words, row["largest"], equal))
    return (
        f"Bit by bit the same: {len(micro)} micro-kernels ({', '.join(sorted(micro))}) and "
        f"{len(whole)} generated ones ({', '.join(sorted(whole))}).\n\n{shown(lines)}\n\n"
        f"{where[:-1]}; {there['gpu']}, driver {there['driver']}, torch {there['torch']}, "
        f"CuTe DSL {there['nvidia-cutlass-dsl']}*"
    )


def mutants() -> str:
    """What became of the mutants of compiled kernels: by operator, and by family of kernels."""
    rows, where = read("emulate_mutants")
    names = list(dict.fromkeys(row["kernel"] for row in rows))
    sizes = Counter(map(_family, names))
    tables: list[str] = []
    for key in ("operator", "kernel"):
        total: dict[str, dict[str, int]] = {}
        for row in rows:
            group = row[key] if key == "operator" else _family(row[key])
            for name in (group, "all"):
                counts = total.setdefault(name, dict.fromkeys(ENDS, 0))
                for end in ENDS:
                    counts[end] += row.get(end, 0)
        total["all"] = total.pop("all")
        lines = [
            (f"{name} ({sizes[name]} kernels)" if sizes[name] > 1 else name)
            for name in total
        ]  # fmt: skip
        body = [
            (name, *counts.values(), _rate(counts))
            for name, counts in zip(lines, total.values(), strict=True)
        ]
        tables.append(shown([(key, *ENDS, "found of not equivalent"), *body]))
    every = {row["kernel"]: row.get("of kernel", 0) for row in rows}
    judged = sum(row["mutants"] for row in rows)
    share = "all" if judged == sum(every.values()) else f"{judged} of {sum(every.values())}"
    return "\n\n".join([*tables, f"{where[:-1]}; {share} mutants of {len(every)} kernels*"])


def _family(kernel: str) -> str:
    """A generated kernel without its types, head dimensions and tiles."""
    found = re.match(r".+?_sm_\d+a(?=_|$)", kernel)
    return found.group() if found else kernel


def _rate(counts: dict[str, int]) -> str:
    wrong = counts["mutants"] - counts["not executed"] - counts["equivalent"]
    found = counts["mutants"] - counts["not executed"] - counts["undetected"]
    return f"{100 * found / wrong:.1f} %" if wrong else ""


def bugs() -> str:
    """How often small kernels with bugs of the field are wrong on a GPU, a row for each."""
    rows, where = read("bugs")
    gpu = json.loads((RESULTS / "bugs.json").read_text("utf-8"))["environment"]["gpu"]
    columns = [(held, kind) for held in (False, True) for kind in ("as reported", "mended")]
    lines: list[list[object]] = []
    for name in dict.fromkeys(row["kernel"] for row in rows):
        cells: list[object] = [name]
        for held, kind in columns:
            key = (name, held, kind)
            found = [r for r in rows if (r["kernel"], r["held back"], r["variant"]) == key]
            cells.append(found[0]["error"] or found[0]["wrong"] if found else "")
        lines.append(cells)
    head = ["kernel", *(f"{kind}{', held back' if held else ''}" for held, kind in columns)]
    launches = max(int(row["launches"] or 0) for row in rows)
    return f"{shown([head, *lines])}\n\n*Wrong of {launches} launches; {gpu}, {where[1:]}"


def race_mutants() -> str:
    """Mutants of others' kernels under `schedgen race`: a line per kernel, how the detected ones
    were, and why the others are equivalent."""
    rows, where = read("race_mutants")
    lines: list[Sequence[object]] = [
        ("kernel", "mutants", "judged", "not executed", "detected", "of them by default schedules",
         "equivalent", "not examined yet", "missed", "CPU seconds")
    ]  # fmt: skip
    for row in rows:
        keys = ("mutants", "judged", "not executed", "detected", "by default schedules")
        counts = (row[key] for key in (*keys, "equivalent", "not examined"))
        name = f"`{row['kernel']}`" + (f" ({row['of']})" if "of" in row else "")
        lines.append((name, *counts, len(row["missed"]), round(row["seconds"])))
    rules, reasons = Counter[str](), Counter[str]()
    for row in rows:
        rules.update(row["rules"])
        reasons.update(row["reasons"])
    by = ", ".join(f"{rule} {count}" for rule, count in rules.most_common())
    why: list[Sequence[object]] = [("why equivalent", "mutants"), *reasons.most_common()]
    missed = [(f"`{row['kernel']}`", one) for row in rows for one in row["missed"]]
    rest = [shown([("kernel", "missed"), *missed])] if missed else []
    return "\n\n".join([shown(lines), f"Detected by: {by}.", shown(why), *rest, where])


def undetected() -> str:
    """The undetected mutants: how many have which reason, then those without one, one by one."""
    rows, where = read("emulate_mutants")
    reasons: Counter[str] = Counter()
    example: dict[str, str] = {}
    rest: list[Sequence[object]] = [("kernel", "operator", "where", "examined")]
    for row in rows:
        for reason, found in row["reasons"].items():
            reasons[reason] += found["mutants"]
            text = f"`{row['kernel']}`: {row['operator']}, {found['such as']}"
            example.setdefault(reason, text)
        for one in row["missed"]:
            examined = "yes" if one["examined"] else "no"
            rest.append((f"`{row['kernel']}`", row["operator"], one["where"], examined))
    lines: list[Sequence[object]] = [("why", "mutants", "such as")]
    for reason, count in sorted(reasons.items(), key=lambda item: -item[1]):
        lines.append((reason, count, example[reason]))
    without = f"Without a reason: {len(rest) - 1}."
    tables = [shown(lines), without, *([shown(rest)] if len(rest) > 1 else []), where]
    return "\n\n".join(tables)
