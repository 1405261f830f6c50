"""Products that share k among several output tiles where one tile for each place would leave SMs
without work (split-K): ``gemm_parts`` writes the products of parts of k in float32, ``gemm_sum``
adds them up. Sums are always of the same parts in the same order, so results are reproducible.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from schedgen.kernels import library, tiling
from schedgen.kernels.tiling import Product, Shape, Tile

TILES = {
    "sm_90a": (
        *(Tile(columns=128), Tile(rows=64, columns=128), Tile(rows=64, columns=64, depth=128)),
    ),
    "sm_100a": (Tile(columns=128),),
}
"""Sizes of output tiles that there are kernels for."""
SUMMED = {"sm_90a": Tile(rows=64, columns=32), "sm_100a": Tile(columns=32)}
"""Size of the tiles that the second kernel adds up."""
MOST = 32
"""Parts of k that are considered."""
SUM = 2500
"""Cycles of the second kernel, with next to nothing to add up. Like the next two numbers a fit to
times of 38 shapes on an H200, with those that `benchmarks/split_k.py` measures; for Blackwell they
are a guess."""
PART = 300
"""Cycles in which one of its blocks adds a part of a tile."""
BYTES = 3000
"""Bytes that all of them read in a cycle, at most."""
WAVES = 2
"""With more waves of tiles than these nothing is split: there is work for all SMs."""
MOST_BYTES = 1 << 28
"""Of memory that parts may take."""
WORTH = 0.95
"""Part of the cycles in one piece that a split must not exceed: it takes memory, too."""


@dataclass(frozen=True, slots=True)
class Split:
    """Output tiles of a size, of which ``parts`` share the iterations of each place."""

    tile: Tile
    parts: int

    def __str__(self) -> str:
        return f"{self.tile} in {self.parts}"


@lru_cache(1024)
def split(product: Product, shape: Shape, sms: int) -> Split | None:
    """How to split k, None if that is not worth it; arguments as of `tiling.best`. Products with an
    activation are never split: the kernel that adds parts up applies none.
    """
    if product.activated:
        return None
    tile = tiling.best(product, shape, sms)
    if shape[0] * tiling.tiles(shape[1], shape[2], tile, product.symmetric) > WAVES * sms:
        return None
    whole = tiling.cycles(product, shape, sms, tile)
    needed, best = estimated(product, shape, sms)
    return best if needed < WORTH * whole else None


def estimated(product: Product, shape: Shape, sms: int) -> tuple[float, Split | None]:
    """The split that should be the fastest, with the cycles that it should take; None if there is
    none. Arguments as of `tiling.best`.
    """
    found: tuple[float, Split | None] = (math.inf, None)
    for one in _candidates(product.arch, shape):
        if _memory(shape, one.parts) > MOST_BYTES:
            continue
        needed = cycles(product, shape, sms, one)
        if math.isfinite(needed):
            found = min(found, (needed, one), key=lambda f: f[0])
    return found


def cycles(product: Product, shape: Shape, sms: int, how: Split) -> float:
    """Cycles that both kernels should take; infinite if there are no such kernels."""
    needed = tiling.cycles(product, shape, sms, how.tile, how.parts)
    return needed + _sum(product, shape, how.parts, sms)


def _candidates(arch: str, shape: Shape) -> Iterator[Split]:
    """Splits whose parts have two iterations or more, in the mean: the last ones may have fewer."""
    for tile in TILES.get(arch, ()):
        for parts in range(2, min(MOST, shape[3] // (2 * tile.depth)) + 1):
            yield Split(tile, parts)


def _memory(shape: Shape, parts: int) -> int:
    """Bytes of all parts."""
    batch, m, n, _ = shape
    return 4 * batch * parts * m * n


def _sum(product: Product, shape: Shape, parts: int, sms: int) -> float:
    """Cycles that adding up takes."""
    (batch, m, n, _), tile = shape, SUMMED[product.arch]
    count = batch * tiling.tiles(m, n, tile, product.symmetric)
    in_turn = PART * parts * -(-count // sms)
    return SUM + max(in_turn, count * parts * tile.rows * tile.columns * 4 / BYTES)


class SplitProduct:
    """The two kernels of a split product, loaded for one GPU."""

    def __init__(self, product: Product, device: torch.device, how: Split) -> None:
        self.parts = how.parts
        settings = product.parts_settings(how.tile)
        self._products = library.launcher(device, tiling.PARTS, **settings)
        self._sum = library.launcher(device, tiling.SUM, **product.sum_settings)

    @property
    def zeros(self) -> dict[torch.dtype, Tensor]:
        """See `Launcher`."""
        return self._sum.zeros

    def launch(
        self, tensors: tuple[Tensor, Tensor, Tensor, Tensor], scalars: tuple[float, ...]
    ) -> None:
        """As of the launcher of a product in one piece: a, b, c, d; alpha, beta."""
        a, b, c, d = tensors
        batch, m, n = d.shape
        columns = -(-n // 4) * 4  # rows are multiples of 16 bytes
        shape = (batch, self.parts, m, columns)
        p = torch.empty(shape, device=d.device, dtype=torch.float32)[..., :n]
        self._products.launch((a, b, p))
        self._sum.launch((p, c, d), scalars)
