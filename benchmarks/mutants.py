"""Every mistake of every kind in every shipped program: do both methods find it?

    python benchmarks/mutants.py [--json] [--save] [--each N] [SPEC:TARGET ...]

A mutant is killed if the proof refuses it and an execution shows what goes wrong, equivalent if it
is proven and no execution goes wrong, survived if it is proven although an execution goes wrong.
Unproven ones are refused although no execution that was tried goes wrong: such a program is not
emitted. ``--each N`` takes at most N mutants of every operator. ``--json`` prints all that is not
killed, with reasons, instead of the table.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections import Counter
from dataclasses import asdict
from time import perf_counter
from typing import Any

from report import keep, table
from variants import variants

from schedgen.benchmarks.mutants.outcomes import Judgement, Outcome, judge
from schedgen.benchmarks.mutants.programs import OPERATORS, Mutant, mutants, sampled
from schedgen.driver.solution import solve
from schedgen.machine_file import read_machine
from schedgen.program.model import Program
from schedgen.spec.reader import read_spec
from schedgen.synchronize.synthesize import synthesize

Row = dict[str, object]

# The mutants at work. Processes are forked, so that they have them without copying.
_current: list[Mutant] = []


def shipped(label: str) -> Program:
    """The program of the optimal schedule of a shipped spec, ``SPEC[ VARIANT]:TARGET``."""
    known = {f"{found}:{on}": (spec, on, chosen) for found, spec, on, chosen in variants()}
    name, target, settings = known[label]
    solution = solve(read_spec(name), read_machine(target), settings=settings)
    problem = solution.problem
    return synthesize(problem.kernel, solution.schedule, problem.machine)


def _judged(place: int) -> tuple[int, Judgement]:
    return place, judge(_current[place])


def judged(program: Program, each: int | None) -> list[tuple[Mutant, Judgement]]:
    """All mutants of a program, or some of every operator, with what the methods say."""
    _current[:] = mutants(program) if each is None else sampled(program, each)
    context = multiprocessing.get_context("fork")
    with context.Pool(os.cpu_count()) as pool:
        found = dict(pool.imap_unordered(_judged, range(len(_current)), chunksize=4))
    return [(mutant, found[place]) for place, mutant in enumerate(_current)]


def rows_of(spec: str, program: Program, found: list[tuple[Mutant, Judgement]]) -> list[Row]:
    """One row per operator: how many there are, how many have which outcome, and all that is not
    killed.
    """
    there_are = Counter(mutant.operator.name for mutant in mutants(program))
    rows: list[Row] = []
    for operator in OPERATORS:
        mine = [(mutant, judgement) for mutant, judgement in found if mutant.operator is operator]
        if not mine:
            continue
        outcomes = Counter(judgement.outcome for _, judgement in mine)
        rows.append(
            {
                "spec": spec,
                "operator": operator.name,
                "numbers": operator.numbers,
                "mutants": there_are[operator.name],
                **{outcome.value: outcomes[outcome] for outcome in Outcome},
                "others": [
                    {"what": mutant.what, **asdict(judgement)}
                    for mutant, judgement in mine
                    if judgement.outcome is not Outcome.KILLED
                ],
            }
        )
    return rows


def summary(row: Row) -> Row:
    """A row without mutants that are equivalent for a reason: ``--json`` prints those."""
    others: Any = row["others"]
    return {**row, "others": [one for one in others if one["outcome"] != Outcome.EQUIVALENT.value]}


def counts(row: Row) -> str:
    """``12 / 3 / 0``, and what is not as it should be in words."""
    text = " / ".join(str(row[outcome]) for outcome in ("killed", "equivalent", "survived"))
    return text + "".join(f" ({row[o]} {o})" for o in ("unproven", "unrelated") if row[o])


def overview(rows: list[Row]) -> list[Row]:
    """Operators by specs: killed / equivalent / survived."""
    specs = list(dict.fromkeys(str(row["spec"]) for row in rows))
    cells = {(row["operator"], row["spec"]): counts(row) for row in rows}
    lines: list[Row] = []
    for operator in OPERATORS:
        line: Row = {"operator": operator.name, "like": operator.numbers}
        line.update({spec: cells.get((operator.name, spec), "") for spec in specs})
        lines.append(line)
    total: Row = {"operator": "all", "like": ""}
    for spec in specs:
        mine = [row for row in rows if row["spec"] == spec]
        sums: Row = {o.value: sum(int(str(row[o.value])) for row in mine) for o in Outcome}
        total[spec] = counts(sums)
    return [*lines, total]


def main(arguments: list[str]) -> None:
    names = [text for text in arguments if ":" in text]
    names = names or [f"{label}:{target}" for label, _, target, _ in variants()]
    each = int(arguments[arguments.index("--each") + 1]) if "--each" in arguments else None
    rows: list[Row] = []
    for name in names:
        begin = perf_counter()
        program = shipped(name)
        found = judged(program, each)
        rows += rows_of(name, program, found)
        seconds = perf_counter() - begin
        print(f"{name}: {len(found)} mutants, {seconds:.0f} s", file=sys.stderr, flush=True)
    print(json.dumps(rows, indent=1) if "--json" in arguments else table(overview(rows)))
    keep("mutants", [summary(row) for row in rows])
    if any(row["survived"] for row in rows):
        raise SystemExit("a mutant survived")


if __name__ == "__main__":
    main(sys.argv[1:])
