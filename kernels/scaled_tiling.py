"""Output tiles of products with factors: which there are kernels for, and which a shape takes.

As in `tiling`, the rule weighs waves of output tiles with cycles of an iteration in the machine
model, and with what surrounds main loops.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache

from schedgen.driver import lock_file
from schedgen.kernels.errors import DeviceError
from schedgen.kernels.tile_sizes import Tile
from schedgen.kernels.tiling import LARGE, Shape

ROWS, LONG, BLOCKS = "gemm_fp8", "gemm_fp8_blocks", "gemm_blockscaled"
"""Specs of products with factors of rows, of blocks of `WIDE` numbers, and of 8 bits of blocks."""
WIDE = 128
Settings = tuple[tuple[str, str], ...]

_WHOLE, _HALF = Tile(depth=128), Tile(columns=128, depth=128)
_TWO, _TALL = Tile(columns=128, depth=2 * WIDE), Tile(rows=192, columns=128, depth=WIDE)
_IN_TURN = tuple(Tile(columns=columns, depth=128, teams=2) for columns in (192, 160, 128))
TILES: Mapping[str, Mapping[str, tuple[Tile, ...]]] = {
    ROWS: {"sm_90a": (_WHOLE, _HALF, *_IN_TURN), "sm_100a": (_WHOLE, _HALF)},
    LONG: {"sm_90a": (_TWO, _TALL), "sm_100a": (_HALF,)},
    BLOCKS: {"sm_100a": (_WHOLE, _HALF)},
}
"""Sizes of output tiles that there are kernels for; the first is the specs' own. Their depth is in
elements of operands."""

AROUND = 2
"""How many iterations filling the pipeline and an epilogue cost about: an estimate, of which only
the choice of a tile depends where nobody has measured."""
TOGETHER = {
    "sm_90a": {
        ROWS: dict.fromkeys(TILES[ROWS]["sm_90a"], 1.12),
        LONG: {_TWO: 1.36, _TALL: 1.3},
    }
}
"""Cycles of an iteration over those of the model where all SMs work. This and what follows are
numbers with which estimates are nearest to what all these tiles took on an H200 in ten shapes (by a
script that is not in the repository; the times are in the tests of this rule)."""
FEWEST, COLUMN = 800, 11
"""Cycles for filling the pipeline and the epilogue: at least, and for each column of a tile."""
TURN = 600
"""What is left of them behind another tile that is computed in turn."""
STORED = 7
"""Bytes of results that an SM stores in a cycle at most where tiles are computed in turn."""
BYTES, FEWER = 1650, 0.5
"""Bytes of operands larger than `LARGE` that come from memory in a cycle where all SMs work. With
fewer SMs in a wave that falls with this power of their share."""


def settings(spec: str, arch: str, tile: Tile) -> dict[str, str]:
    """Parameters of ``spec`` for such tiles, where they differ from the spec's own."""
    own = TILES[spec][arch][0]
    found: dict[str, str] = {}
    if tile.rows != own.rows:  # a warpgroup of Hopper has 64 rows
        found |= {"tile_m": str(tile.rows), "consumers": str(tile.rows // 64)}
    if tile.columns != own.columns:
        found["tile_n"] = str(tile.columns)
    if tile.depth != own.depth:  # each step has factors of its own
        found["steps"] = str(tile.depth // WIDE)
    if tile.teams != own.teams:
        found["teams"] = str(tile.teams)
    return found


def best(spec: str, arch: str, kind: Settings, shape: Shape, sms: int) -> Tile:
    """The size of output tiles that should be the fastest for ``shape``.

    Args:
        spec: of the product.
        arch: architecture, such as ``sm_90a``.
        kind: settings of its kernels, beside those of tiles.
        shape: batch, m, n, k; k in elements of operands.
        sms: SMs of the GPU, each of which computes one output tile at a time.

    Raises:
        DeviceError: there is no such kernel for that architecture.
    """
    tiles = TILES[spec].get(arch, ())
    known = [tile for tile in tiles if math.isfinite(_of_tile(spec, arch, kind, tile))]
    if not known:
        what = "factors of blocks are Blackwell's" if spec == BLOCKS else "there is none"
        raise DeviceError(f"there is no kernel of {spec} for {arch}: {what}")
    return min(known, key=lambda tile: cycles(spec, arch, kind, shape, sms, tile))


def cycles(spec: str, arch: str, kind: Settings, shape: Shape, sms: int, tile: Tile) -> float:
    """That a product should take in output tiles of one size, infinite if there is no such kernel;
    arguments are those of `best`.
    """
    batch, m, n, k = shape
    count = batch * -(-m // tile.rows) * -(-n // tile.columns)
    waves, iterations = -(-count // sms), -(-k // tile.depth)
    each = _of_tile(spec, arch, kind, tile)
    ratios = TOGETHER.get(arch)
    if ratios is None:  # nobody has measured
        return waves * (iterations + AROUND) * each
    around = FEWEST + COLUMN * tile.columns
    left = around if tile.teams == 1 else TURN
    found = waves * iterations * each * ratios[spec][tile] + around + (waves - 1) * left
    if tile.teams > 1:
        found = max(found, waves * 2 * tile.rows * tile.columns / STORED)
    operands = batch * k * (m + n)
    if operands <= LARGE:
        return found
    return max(found, operands / (BYTES * (count / (waves * sms)) ** FEWER))


def _of_tile(spec: str, arch: str, kind: Settings, tile: Tile) -> float:
    """Cycles of an iteration; infinite if there is no such kernel."""
    return iteration(spec, arch, (*kind, *settings(spec, arch, tile).items()))


@cache
def iteration(spec: str, arch: str, chosen: Settings) -> float:
    """Cycles of an iteration of a kernel in the model; infinite if there is no such kernel."""
    found = lock_file.locked(spec, arch, dict(chosen))
    return math.inf if found is None else found.schedule.ii_cycles
