"""Bank conflicts of shared memory in the shipped kernels, counted by the emulator; needs no GPU.

    python benchmarks/banks.py [--save] [BEGINNING ...]

A kernel of each spec and architecture, at ragged extents: passes of shared memory that its `ld`,
`st`, `ldmatrix` and `stmatrix` take, passes without conflicts, and the kind of instruction that
loses the most. ``BEGINNING`` picks kernels by how their names begin; then nothing is saved.
"""

from __future__ import annotations

import sys
from typing import Any

from report import keep, table

from schedgen.driver import lock_file
from schedgen.driver.emulating import compiled
from schedgen.driver.inputs import shapes
from schedgen.driver.locked import program_of
from schedgen.kernels.library import named
from schedgen.kernels.regenerate import TARGETS, Shipped, shipped


def row(one: Shipped) -> dict[str, Any]:
    """What one kernel takes."""
    locked = lock_file.named(one.name)
    assert locked is not None
    (_, kernel), text = program_of(locked), named(one.name).read_text("utf-8")
    with compiled(text, kernel, TARGETS[one.target], sms=1, races=False, banks=True) as made:
        made.run(shapes(kernel)["ragged"])
    assert made.banks is not None
    taken, least = made.banks.passes
    worst = next((at for at in made.banks.accesses if at.taken > at.least), None)
    return {
        "kernel": one.name.removesuffix(".py"),
        "passes": taken,
        "without conflicts": least,
        "times": f"{taken / least:.2f}" if least else "",
        "most by": "" if worst is None else f"{worst.instruction} ({worst.ways:.2f})",
    }


def main() -> None:
    words = tuple(word for word in sys.argv[1:] if not word.startswith("--"))
    first: dict[tuple[str, str], Shipped] = {}
    for one in shipped():
        first.setdefault((one.spec, one.target), one)
    chosen = [one for one in first.values() if one.name.startswith(words or ("",))]
    rows: list[dict[str, Any]] = []
    for one in chosen:
        rows.append(row(one))
        print(table(rows[-1:]).splitlines()[-1], flush=True)
    if not words:
        keep("banks", rows)
    print()
    print(table(rows))


if __name__ == "__main__":
    main()
