"""The II of schedules beside the cycles per iteration of their programs, and where those differ.

    python benchmarks/pace.py [--save]

A schedule lets a role go on once it has issued an operation (`hold`), its result is there later
(`latency`). In the program an arrival stands behind the operation whose result it hands on, and the
role waits there until that is complete. ``no waits for own results`` is the pace of the program if
it did not: each operation of threads completes when its role goes on. ``waited for`` are the
operations for which that makes a difference. Cycles are those of the machine model.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from report import keep, table
from variants import variants

from schedgen.driver.solution import solve
from schedgen.errors import SchedgenError
from schedgen.machine_file import read_machine
from schedgen.program.model import Program
from schedgen.program.operations import Engine, TileOperation
from schedgen.spec.reader import read_spec
from schedgen.synchronize.pace import pace
from schedgen.synchronize.synthesize import synthesize

NAME = "pace"


def unwaited(operation: TileOperation) -> TileOperation:
    """The operation, complete as soon as its role goes on."""
    if operation.engine is not Engine.THREADS:
        return operation
    low, high = (
        min(hold, latency) for hold, latency in zip(operation.hold, operation.latency, strict=True)
    )
    return replace(operation, latency=(low, high))


def without_waits(program: Program, names: set[str]) -> Program:
    """The program with the operations in ``names`` complete as soon as their roles go on."""
    changed = tuple(unwaited(o) if o.name in names else o for o in program.operations)
    return replace(program, operations=changed)


def waited_for(program: Program) -> list[str]:
    """Operations whose completion sets the pace: least sets that are found by leaving one out."""
    names = {o.name for o in program.operations if unwaited(o) != o}
    best = pace(without_waits(program, names)).cycles
    for name in sorted(names):
        if pace(without_waits(program, names - {name})).cycles == best:
            names.remove(name)
    return sorted(names) if pace(program).cycles > best else []


def rows() -> Iterator[dict[str, Any]]:
    """A row for each shipped spec on each of its targets."""
    for label, name, target, settings in variants():
        try:
            found = solve(read_spec(name), read_machine(target), settings=settings)
        except SchedgenError as error:
            print(f"{label} on {target}: {error}", file=sys.stderr)
            continue
        program = synthesize(found.problem.kernel, found.schedule, found.problem.machine)
        names = {operation.name for operation in program.operations}
        yield {
            "spec": label,
            "target": target,
            "II": found.schedule.ii_cycles,
            "high": pace(program).cycles,
            "low": pace(program, "low").cycles,
            "no waits for own results": pace(without_waits(program, names)).cycles,
            "waited for": " ".join(waited_for(program)),
        }


def main() -> None:
    found = list(rows())
    print(table(found))
    keep(NAME, found)


if __name__ == "__main__":
    main()
