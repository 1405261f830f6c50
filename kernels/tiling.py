"""Which of the generated kernels of a product to take for a shape: how large its output tiles are.

Large tiles read less for each product, small ones leave fewer SMs without work in the last wave.
The rule weighs both with what generated files say of themselves, cycles of an iteration in the
machine model, and how far those are from measured ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, lru_cache

from schedgen.codegen.facts import file_name, read_facts
from schedgen.kernels.errors import DeviceError
from schedgen.kernels.library import FOLDER


@dataclass(frozen=True, slots=True)
class Tile:
    """``rows`` x ``columns`` of an output, to which an iteration adds products ``depth`` long."""

    rows: int = 128
    columns: int = 256
    depth: int = 64

    @property
    def settings(self) -> dict[str, str]:
        """Parameters of the specs of products, where they differ from the specs' own."""
        found: dict[str, str] = {}
        if self.rows != 128:  # a warpgroup of Hopper has 64 rows
            found |= {"tile_m": str(self.rows), "consumers": str(self.rows // 64)}
        if self.columns != 256:
            found["tile_n"] = str(self.columns)
        if self.depth != 64:
            found["tile_k"] = str(self.depth)
        return found

    def __str__(self) -> str:
        return f"{self.rows}x{self.columns}x{self.depth}"


TILES = {
    "sm_90a": (
        *(Tile(), Tile(columns=192), Tile(columns=128), Tile(rows=64, columns=128)),
        *(Tile(rows=64, columns=64, depth=128), Tile(rows=64, columns=32, depth=256)),
    ),
    "sm_100a": (Tile(), Tile(columns=128)),
}
"""Sizes of output tiles that there are kernels for; the first is the specs' own."""
FILL = 160
"""How much longer filling the pipeline and the epilogue make products, as if k were that much
larger: 15 to 138 in Hopper's schedules (`schedgen solve`, line `tile`), and the first load comes
from far."""
FEWEST, COLUMN = 1000, 8
"""Cycles for the same at least, an estimate: however small a tile is, its first load comes from far
and its results, more or fewer columns, have to go through an epilogue."""
BYTES = 2400
"""Bytes of operands that come from memory in a cycle: 4.8 TB/s, of an H200; Blackwell has more."""
MEASURED = {
    "sm_90a": {
        False: {
            Tile(): 1.3,
            Tile(columns=192): 1.31,
            Tile(columns=128): 1.38,
            Tile(rows=64, columns=128): 1.52,
            Tile(rows=64, columns=64, depth=128): 3.06,
            Tile(rows=64, columns=32, depth=256): 3.25,
        },
        True: {
            Tile(): 1.35,
            Tile(columns=192): 1.39,
            Tile(columns=128): 1.46,
            Tile(rows=64, columns=128): 1.89,
            Tile(rows=64, columns=64, depth=128): 3.09,
            Tile(rows=64, columns=32, depth=256): 3.05,
        },
    }
}
"""Cycles of an iteration over those of the model, with all that is around the main loop, where all
SMs work at once: of all output tiles, and of those of a triangle, which are stored twice
(`benchmarks/tiling.py`, H200). They are of kernels that read right operands as they lie; with 64 x
32 x 256 the model has 412 instead of 384 cycles for the others, so there they are 7 % too high.
Nobody has measured Blackwell: there the model's are taken."""
ALONE = {
    "sm_90a": {
        Tile(): 1.1,
        Tile(columns=192): 1.1,
        Tile(columns=128): 1.1,
        Tile(rows=64, columns=128): 1.1,
        Tile(rows=64, columns=64, depth=128): 1.4,
        Tile(rows=64, columns=32, depth=256): 1.8,
    }
}
"""The same where few SMs work (`benchmarks/iterations.py`, H200). Above that it is taken to grow
with the SMs that work, since what they share is the way to memory."""


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
    return {"dtype": dtype} | best(spec, arch, dtype, shape, sms, triangle).settings


@cache
def best(
    spec: str, arch: str, dtype: str, shape: tuple[int, int, int, int], sms: int, triangle: bool
) -> Tile:
    """The size of output tiles that `settings` stands for."""
    found: tuple[float, Tile] = (math.inf, Tile())
    for tile in TILES.get(arch, ()):
        needed = cycles(spec, arch, dtype, shape, sms, triangle, tile)
        found = min(found, (needed, tile), key=lambda f: f[0])
    if math.isinf(found[0]):
        raise DeviceError(f"there is no kernel of {spec} for {arch} and {dtype}")
    return found[1]


def cycles(
    spec: str,
    arch: str,
    dtype: str,
    shape: tuple[int, int, int, int],
    sms: int,
    triangle: bool,
    tile: Tile,
    parts: int = 1,
) -> float:
    """Cycles that a product should take in output tiles of one size, infinite if there is no such
    kernel; ``parts`` tiles share the iterations of each. Other arguments are those of `settings`.
    """
    batch, m, n, k = shape
    count = batch * parts * tiles(m, n, tile, triangle)
    each = _cycles(spec, arch, (("dtype", dtype), *tile.settings.items()))
    together = MEASURED.get(arch, {}).get(triangle, {}).get(tile, 1.0)
    each *= max(ALONE.get(arch, {}).get(tile, 1.0), together * min(count / sms, 1.0))
    fill = max(FILL / tile.depth * each, FEWEST + COLUMN * tile.columns)
    needed = -(-count // sms) * (-(-k // (tile.depth * parts)) * each + fill)
    operands = 2 * batch * k * (m if triangle else m + n)
    return max(needed, operands / BYTES)


@lru_cache(1024)
def tiles(m: int, n: int, tile: Tile, triangle: bool) -> int:
    """Output tiles of a matrix, or those of them that reach to the diagonal or below it."""
    rows, columns = -(-m // tile.rows), -(-n // tile.columns)
    if not triangle:
        return rows * columns
    return sum(min(((row + 1) * tile.rows - 1) // tile.columns + 1, columns) for row in range(rows))


@cache
def _cycles(spec: str, arch: str, chosen: tuple[tuple[str, str], ...]) -> float:
    """Of an iteration; infinite if there is no such kernel."""
    path = FOLDER / file_name(spec, arch, dict(chosen))
    return read_facts(path).cycles if path.exists() else math.inf
