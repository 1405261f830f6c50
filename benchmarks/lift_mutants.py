"""What becomes of kernels with a mistake when they are lifted: refuted, not lifted, or proven.

    python benchmarks/lift_mutants.py PROGRAM [ARGUMENT ...] [--save]

PROGRAM is a PTX file, or a script whose kernels are captured as by `schedgen lift`. Each operator
is applied to each instruction that it fits (`schedgen.benchmarks.mutants.kernels`); the graph
method alone is asked. *lines* are those of the PTX whose mutants are proven: somebody has to say
why.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from report import keep, table

from schedgen.benchmarks.mutants.kernels import Mutant, mutants
from schedgen.cli.race import Asked, module_of_file, program_of
from schedgen.emulator.ptx.tree import Kernel, Module
from schedgen.emulator.race.running import Options, captured
from schedgen.lift.examine import NOT_LIFTED, PROVEN, REFUTED, examine

NAME = "lift_mutants"
METHODS = ("graph",)


def kernels(program: str, arguments: tuple[str, ...]) -> Iterator[tuple[Module, Kernel]]:
    """Those of a PTX file, or that a script launches."""
    if program.endswith(".ptx"):
        module = module_of_file(Path(program))
        yield from ((module, kernel) for kernel in module.kernels.values())
        return
    launched, _ = captured(program_of(Asked(program, arguments)), Options("sm_90a"))
    for name, module in launched:
        if name in module.kernels:
            yield replace(module, kernels={name: module.kernels[name]}), module.kernels[name]


def rows_of(module: Module, kernel: Kernel) -> Iterator[dict[str, object]]:
    """A row for each operator, and one for all."""
    by_operator: dict[str, list[tuple[str, Mutant]]] = defaultdict(list)
    for mutant in mutants(kernel):
        status = examine(mutant.module(module), mutant.kernel, METHODS).status
        by_operator[mutant.operator].append((status, mutant))
        print(mutant.operator, mutant.instruction.line, status, file=sys.stderr, flush=True)
    for operator, found in by_operator.items():
        yield _row(operator, found)
    yield _row("all", [one for found in by_operator.values() for one in found])


def _row(operator: str, found: list[tuple[str, Mutant]]) -> dict[str, object]:
    counts = {s: sum(s == one for one, _ in found) for s in (REFUTED, NOT_LIFTED, PROVEN)}
    lines = sorted({m.instruction.line for status, m in found if status == PROVEN})
    return {"operator": operator, **counts, "lines": ", ".join(map(str, lines))}


def main() -> None:
    program, *arguments = (word for word in sys.argv[1:] if word != "--save")
    rows = [
        row
        for module, kernel in kernels(program, tuple(arguments))
        if examine(module, kernel, METHODS).status == PROVEN
        for row in rows_of(module, kernel)
    ]
    keep(NAME, rows)
    print(table(rows))


if __name__ == "__main__":
    main()
