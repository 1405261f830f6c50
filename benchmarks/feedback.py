"""What the assembler leaves beside products of Hopper, in each way to write a kernel.

    python benchmarks/feedback.py [--save] [BEGINNING ...]

For each kernel the best schedule that the compiler accepts is written in all ways that
`schedgen.driver.variations` has, not only up to the one that is taken, compiled and measured
(docs/conform.md, section 5). Needs CuTe DSL and nvdisasm, and no GPU. ``BEGINNING`` picks kernels
by how their names begin.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping

from report import keep, table

from schedgen.driver.attempts import Attempt, best, compiled
from schedgen.driver.emitting import Emission, emission, restyled, written
from schedgen.driver.proved import QUICK
from schedgen.driver.selecting import ROUNDS
from schedgen.driver.variations import STEP, Variation, otherwise, with_registers
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec
from schedgen.stored import Store

NAME, TARGET = "feedback", "h200"
_HEADS = [
    {"head_dim": head_dim} | causal
    for head_dim in ("64", "128")
    for causal in ({}, {"causal": "true"})
]
KERNELS: list[tuple[str, dict[str, str]]] = [
    *(("attention_fwd", one) for one in _HEADS),
    *(("attention_fwd", one | {"product_order": "auto"}) for one in _HEADS[2:]),
    ("gemm", {}),
    ("gemm_chain", {}),
]
"""Specs and settings; the order of products is left to the solver in some."""


def attempts(spec: str, settings: Mapping[str, str], store: Store) -> Iterator[Attempt]:
    """Schedules up to one that is acceptable, then that one in all other ways."""
    seen: set[str] = set()

    def tried(made: Emission, variation: Variation) -> Iterator[Attempt]:
        if made.plain not in seen:
            seen.add(made.plain)
            yield compiled(made, variation, store, conform=True)

    for number in range(ROUNDS):
        variation = Variation(number * STEP)
        machine = with_registers(read_machine(TARGET), variation.more_registers)
        made = emission(read_spec(spec), machine, settings, methods=QUICK, store=store)
        (attempt,) = tried(made, variation)
        yield attempt
        if attempt.usable:
            break
    else:
        return
    for other in otherwise(variation):
        again = made
        if other.early:
            again = written(made.solution, settings, methods=QUICK, early=True)
        yield from tried(restyled(again, other.style), other)


def rows(spec: str, settings: Mapping[str, str], store: Store) -> Iterator[dict[str, object]]:
    """A row for each attempt at a kernel."""
    made = list(attempts(spec, settings, store))
    taken = best(made)
    name = " ".join([spec, *(f"{key}={value}" for key, value in settings.items())])
    for number, attempt in enumerate(made):
        found = attempt.overlap
        known = found is not None and not found.unknown
        problems = ", ".join(kind for kind, _ in attempt.report.problems_by_kind)
        yield {
            "kernel": name,
            "attempt": attempt.variation.text,
            "problems": problems or ("other program" if attempt.differences else ""),
            "planned": found.cycles if found and known else "",
            "lost": found.lost_cycles if found and known else "",
            "loops": len(found.loops) if found and known else "",
            "instructions": found.instructions if found and known else "",
            "at once": "yes" if number == 0 and attempt.usable and attempt.keeps else "",
            "taken": "yes" if number == taken else "",
        }


def main() -> None:
    """Prints a table of all kernels, and keeps it if that is asked for."""
    beginnings = tuple(one for one in sys.argv[1:] if not one.startswith("--"))
    store, found = Store(), list[dict[str, object]]()
    for spec, settings in KERNELS:
        if not beginnings or spec.startswith(beginnings):
            found += rows(spec, settings, store)
            print(found[-1]["kernel"], file=sys.stderr, flush=True)
    print(table(found))
    keep(NAME, found)


if __name__ == "__main__":
    main()
