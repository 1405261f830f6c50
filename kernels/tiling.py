"""Which of the generated kernels of a product to take for a shape: how wide its output tiles are.

Wide tiles read less for each product, narrow ones leave fewer SMs without work in the last wave.
The rule weighs both with what generated files say of themselves, cycles of an iteration in the
machine model, and how far those are from measured ones.
"""

from __future__ import annotations

import math
from functools import cache

from schedgen.codegen.facts import file_name, read_facts
from schedgen.kernels.errors import DeviceError
from schedgen.kernels.library import FOLDER

WIDTHS = (256, 192, 128, 64)
"""Columns of output tiles that there may be kernels for; the first has no name in file names."""
ROWS, DEPTH = 128, 64
"""Rows of an output tile, and what an iteration of its main loop adds up."""
FILL = 2.5
"""Iterations that filling the pipeline and the epilogue are worth: 0.8 to 2.4 in the schedules of
all widths (`schedgen solve`, line `tile`), and the first load comes from far."""
MEASURED = {"sm_90a": {256: 1.42, 192: 1.32, 128: 1.22, 64: 1.39}}
"""Cycles of an iteration over those of the model, with all that is around the main loop, where all
SMs work at once (`benchmarks/tiling.py`, H200: means of its two products). Nobody has measured
Blackwell: there the model's are taken."""


@cache
def settings(
    spec: str, arch: str, dtype: str, shape: tuple[int, int, int, int], sms: int, triangle: bool
) -> dict[str, str]:
    """Settings of the kernel of ``spec`` that should be the fastest for ``shape``.

    Args:
        shape: batch, m, n, k.
        sms: SMs of the GPU, each of which computes one output tile at a time.
        triangle: only tiles on and below the diagonal are computed.

    Raises:
        DeviceError: there is no kernel of ``spec`` for ``arch`` and ``dtype``.
    """
    batch, m, n, k = shape
    best = (math.inf, {"dtype": dtype})
    for width in WIDTHS:
        chosen = {"dtype": dtype} | ({} if width == WIDTHS[0] else {"tile_n": str(width)})
        cycles = _cycles(spec, arch, tuple(chosen.items()))
        cycles *= MEASURED.get(arch, {}).get(width, 1.0)
        waves = -(-batch * tiles(m, n, width, triangle) // sms)
        needed = waves * (-(-k // DEPTH) + FILL) * cycles
        best = min(best, (needed, chosen), key=lambda b: b[0])
    if math.isinf(best[0]):
        raise DeviceError(f"there is no kernel of {spec} for {arch} and {dtype}")
    return best[1]


def tiles(m: int, n: int, width: int, triangle: bool) -> int:
    """Output tiles of a matrix, or those of them that reach to the diagonal or below it."""
    rows, columns = -(-m // ROWS), -(-n // width)
    if not triangle:
        return rows * columns
    return sum(min(((row + 1) * ROWS - 1) // width + 1, columns) for row in range(rows))


@cache
def _cycles(spec: str, arch: str, chosen: tuple[tuple[str, str], ...]) -> float:
    """Of an iteration; infinite if there is no such kernel."""
    path = FOLDER / file_name(spec, arch, dict(chosen))
    return read_facts(path).cycles if path.exists() else math.inf
