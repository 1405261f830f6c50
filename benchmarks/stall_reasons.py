"""What the warps of kernels' main loops wait for, from what Nsight Compute sampled.

    ncu --profile-from-start off --set none --section SourceCounters -o FILE \\
        python benchmarks/stall_reasons.py --run DIR NAME ...
    ncu -i FILE.ncu-rep --page source --csv > SOURCE
    python benchmarks/stall_reasons.py [--gpu GPU] [--date DATE] [--save] SOURCE NAME ...

``DIR`` is what `schedgen calibrate --only kernels --prepare DIR` wrote, names are those of its
experiments; ``SOURCE`` has them in this order. A loop are the instructions that are executed as
often as the product that is executed most often, or, without products, as most others. Of their
samples are shares: *issued* and *stalls* (a stall that the assembler wrote), *units* (dispatch,
mathematics, memory input, or another warp was issued), *results*, *together* (warps of a warpgroup
wait for each other), *fetch* (no instruction), and *products*, which wait without any of these
reasons; *first of registers* is the part of these of the first product with a left operand in
registers.
"""

from __future__ import annotations

import argparse
import csv
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from report import RESULTS, lines, table

NAME = "stall_reasons"
Row = dict[str, str]
KINDS = {
    "issued": ("selected",),
    "stalls": ("wait",),
    "units": ("dispatch", "math", "mio", "not_selected", "tex", "lg"),
    "results": ("long_sb", "short_sb", "membar", "imc"),
    "together": ("barrier",),
    "fetch": ("no_inst", "branch_resolving"),
}
PRODUCTS = ("HGMMA", "QGMMA")
CLOSE = 0.003
"""Share by which instructions of a loop may differ in how often they are executed."""


def main() -> None:
    options = _options()
    if options.run:
        _run(options.run, options.names)
        return
    kernels = list(kernels_of(options.source))
    if len(kernels) != len(options.names):
        raise SystemExit(f"{options.source} has {len(kernels)} kernels, named: {options.names}")
    where = {"table": "stalls", "device": options.gpu, "measured on": options.date}
    rows = [
        {**where, "kernel": name, **_shares(kernel)}
        for name, kernel in zip(options.names, kernels, strict=True)
    ]
    print(table(rows))
    if options.save:
        environment = {"gpu": options.gpu, "date": options.date}
        (RESULTS / f"{NAME}.json").write_text(lines(environment, rows), encoding="utf-8")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("source", type=Path, nargs="?")
    parser.add_argument("--run", type=Path)
    parser.add_argument("--gpu", default="", help="where it was sampled")
    parser.add_argument("--date", default=str(date.today()), help="when")
    parser.add_argument("--save", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.run and options.source:
        options.names.insert(0, str(options.source))
    return options


def _run(folder: Path, names: Sequence[str]) -> None:
    """Launches each kernel once, profiled, after a launch that is not."""
    import torch

    from schedgen.calibration import measuring
    from schedgen.calibration.clocks import Clocks
    from schedgen.calibration.preparing import prepared

    kernels = {kernel.name: kernel for kernel in prepared(folder).kernels}
    loaded = measuring._Loaded(folder, Clocks(torch.device("cuda")))  # pyright: ignore[reportPrivateUsage]
    for launch in [loaded.launch(kernels[name], 1) for name in names]:
        launch()
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
        launch()
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


def kernels_of(path: Path) -> Iterator[list[Row]]:
    """The instructions of each kernel of a file."""
    found: list[Row] | None = None
    head: list[str] = []
    with path.open(encoding="utf-8") as file:
        for line in csv.reader(file):
            if line and line[0] == "Kernel Name":
                if found is not None:
                    yield found
                found = []
            elif line and line[0] == "Address":
                head = line
            elif line and found is not None:
                found.append(dict(zip(head, line, strict=False)))
    if found is not None:
        yield found


def _shares(kernel: Sequence[Row]) -> dict[str, Any]:
    loop = loop_of(kernel)
    samples = sum(number(row, "# Samples") for row in loop)
    counts: Counter[str] = Counter()
    left, first = 0.0, 0.0
    for row in loop:
        of = Counter({k: sum(number(row, f"stall_{r}") for r in KINDS[k]) for k in KINDS})
        counts += of
        if opcode(row) in PRODUCTS:
            waits = max(number(row, "# Samples") - sum(of.values()), 0)
            left += waits
            first += waits if _first_of_registers(row, loop) else 0
    shares = {kind: f"{counts[kind] / samples:.0%}" for kind in KINDS}
    return {
        "instructions": len(loop),
        "samples": round(samples),
        **shares,
        "products": f"{left / samples:.0%}",
        "first of registers": f"{first / samples:.0%}",
    }


def loop_of(kernel: Sequence[Row]) -> list[Row]:
    """The instructions of its main loop."""
    often = [number(row, "Instructions Executed") for row in kernel]
    products = [n for row, n in zip(kernel, often, strict=True) if opcode(row) in PRODUCTS]
    top = max(often)
    most = (
        max(products) if products else Counter(n for n in often if n > top / 5).most_common(1)[0][0]
    )
    return [r for r, n in zip(kernel, often, strict=True) if abs(n - most) <= CLOSE * most]


def _first_of_registers(row: Row, loop: Sequence[Row]) -> bool:
    """Whether it multiplies a left operand in registers, and the product before it does not."""
    products = [one for one in loop if opcode(one) in PRODUCTS]
    before = products[products.index(row) - 1]
    return _of_registers(row) and (not _of_registers(before) or before is row)


def _of_registers(row: Row) -> bool:
    operands = row["Source"].split(",")
    return len(operands) > 1 and operands[1].strip().startswith("R") and "RZ" not in operands[1]


def opcode(row: Row) -> str:
    """The name of an instruction without guard and modifiers."""
    words = [word for word in row["Source"].split() if not word.startswith("@")]
    return words[0].partition(".")[0] if words else ""


def number(row: Row, column: str) -> float:
    """What a column says; 0 where that is no number."""
    try:
        return float(row.get(column) or 0)
    except ValueError:
        return 0.0


if __name__ == "__main__":
    main()
