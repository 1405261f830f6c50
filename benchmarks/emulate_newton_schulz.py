"""The Blackwell kernels of Newton-Schulz in the emulator, at square shapes up to 768.

    python benchmarks/emulate_newton_schulz.py [--save] [BEGINNING ...]

These are the products of `polar`: every kernel for sm_100a that `schedgen.kernels.regenerate` lists
for the four specs of products. Each shape runs round-robin and under adversarial schedules, on 4
CTAs, and is compared with the interpreted spec; the race checker looks at all of it. Rows are
written as they are found, and a row whose kernel has not changed is not computed again.
``BEGINNING`` picks kernels by how their names begin.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from time import process_time
from typing import Any

from report import RESULTS, keep, table

from schedgen.driver.emulating import Compiled, compiled
from schedgen.emulator.machine.policies import Adversarial, Policy, RoundRobin
from schedgen.errors import SchedgenError
from schedgen.kernels.library import named
from schedgen.kernels.regenerate import TARGETS, Shipped, shipped
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec

NAME = "emulate_newton_schulz"
TARGET = "b200"
SIZES = (64, 136, 256, 520, 768)
"""m = n = k: a part of an output tile, ragged ends, whole tiles, several tiles for each CTA."""
SEEDS = (0, 1)
CTAS = 4
Row = dict[str, Any]


def rows_of(kernel: Shipped, known: dict[tuple[str, int, str], Row]) -> Iterator[Row]:
    """One row per size; those that are ``known`` as they are."""
    text = named(kernel.name).read_text("utf-8")
    name, digest = kernel.name.removesuffix(".py"), sha256(text.encode()).hexdigest()[:12]
    found = [known.get((name, size, digest)) for size in SIZES]
    if all(found):
        yield from (row for row in found if row)
        return
    source = read_spec(kernel.spec)
    bound = bind(source.source, source.file, kernel.target, dict(kernel.settings))[0]
    with compiled(text, bound, TARGETS[kernel.target], sms=CTAS) as made:
        for size, row in zip(SIZES, found, strict=True):
            first: Row = {"kernel": name, "file": digest, "n": size}
            yield row or first | judged(made, size)


def judged(made: Compiled, size: int) -> Row:
    """What all schedules of one size show; a run that does not end well is a finding, too."""
    begin = process_time()
    policies: list[tuple[str, Policy]] = [("round-robin", RoundRobin())]
    policies += [(f"seed {seed}", Adversarial(seed)) for seed in SEEDS]
    worst, right, findings, instructions, notes = 0.0, 0, 0, 0, ""
    for name, policy in policies:
        try:
            outcome = made.run(dict.fromkeys(("m", "n", "k"), size), policy)
        except SchedgenError as error:
            findings += 1
            notes = notes or f"{name}: {error}"
            continue
        right += outcome.correct
        findings += len(outcome.report.errors)
        instructions += outcome.report.statistics.instructions
        worst = max(worst, *(result.ratio for result in outcome.results.values()))
        if not (outcome.correct and outcome.clean):
            notes = notes or f"{name}: {outcome.report.text or outcome.errors}"
    return {
        "schedules": len(policies),
        "correct": right,
        "error of allowed": round(worst, 4),
        "findings": findings,
        "warp instructions": instructions,
        "CPU seconds": round(process_time() - begin, 1),
        "notes": notes,
    }


def main() -> None:
    beginnings = tuple(word for word in sys.argv[1:] if not word.startswith("--"))
    path = RESULTS / f"{NAME}.json"
    old: list[Row] = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    known = {(row["kernel"], row["n"], row["file"]): row for row in old}
    rows: list[Row] = []
    for kernel in shipped():
        if kernel.spec not in ("gemm", "gemm_symmetric") or kernel.target != TARGET:
            continue
        if beginnings and not kernel.name.startswith(beginnings):
            rows += [row for row in old if f"{row['kernel']}.py" == kernel.name]
            continue
        for row in rows_of(kernel, known):
            rows.append(row)
            done = {(one["kernel"], one["n"]) for one in rows}
            keep(NAME, rows + [one for one in old if (one["kernel"], one["n"]) not in done])
            print(row["kernel"], row["n"], row["notes"][:2000], file=sys.stderr, flush=True)
    print(table([{k: v for k, v in row.items() if k not in ("file", "notes")} for row in rows]))
    keep(NAME, rows)
    wrong = [row for row in rows if row["correct"] < row["schedules"] or row["findings"]]
    print(f"{len(rows)} shapes, {len(wrong)} with faults")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
