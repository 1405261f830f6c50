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

from schedgen.kernels import checks, library, tiling
from schedgen.kernels.launcher import Launcher, architecture, multiprocessors
from schedgen.kernels.tiling import Tile

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
def split(
    spec: str, arch: str, dtype: str, shape: tuple[int, int, int, int], sms: int, triangle: bool
) -> Split | None:
    """How to split k, None if that is not worth it; arguments as of `tiling.settings`."""
    tile = tiling.best(spec, arch, dtype, shape, sms, triangle)
    if shape[0] * tiling.tiles(shape[1], shape[2], tile, triangle) > WAVES * sms:
        return None
    whole = tiling.cycles(spec, arch, dtype, shape, sms, triangle, tile)
    cycles, best = estimated(spec, arch, dtype, shape, sms, triangle)
    return best if cycles < WORTH * whole else None


def estimated(
    spec: str, arch: str, dtype: str, shape: tuple[int, int, int, int], sms: int, triangle: bool
) -> tuple[float, Split | None]:
    """The split that should be the fastest, with the cycles that it should take; None if there is
    none. Arguments as of `tiling.settings`.
    """
    found: tuple[float, Split | None] = (math.inf, None)
    for one in _candidates(arch, shape):
        if _memory(shape, one.parts) > MOST_BYTES:
            continue
        needed = tiling.cycles(
            f"{spec}_parts", arch, dtype, shape, sms, triangle, one.tile, one.parts
        )
        if math.isfinite(needed):
            needed += _sum(arch, shape, one.parts, sms, triangle)
            found = min(found, (needed, one), key=lambda f: f[0])
    return found


def _candidates(arch: str, shape: tuple[int, int, int, int]) -> Iterator[Split]:
    """Splits whose parts have two iterations or more, in the mean: the last ones may have fewer."""
    for tile in TILES.get(arch, ()):
        for parts in range(2, min(MOST, shape[3] // (2 * tile.depth)) + 1):
            yield Split(tile, parts)


def _memory(shape: tuple[int, int, int, int], parts: int) -> int:
    """Bytes of all parts."""
    batch, m, n, _ = shape
    return 4 * batch * parts * m * n


def _sum(
    arch: str, shape: tuple[int, int, int, int], parts: int, sms: int, triangle: bool
) -> float:
    """Cycles that adding up takes."""
    (batch, m, n, _), tile = shape, SUMMED[arch]
    count = batch * tiling.tiles(m, n, tile, triangle)
    in_turn = PART * parts * -(-count // sms)
    return SUM + max(in_turn, count * parts * tile.rows * tile.columns * 4 / BYTES)


class SplitProduct:
    """The two kernels of a split product, loaded for one GPU."""

    def __init__(
        self, spec: str, device: torch.device, dtype: torch.dtype, how: Split, *, triangle: bool
    ) -> None:
        name = checks.DTYPES[dtype]
        self.parts = how.parts
        self._products = library.launcher(device, f"{spec}_parts", dtype=name, **how.tile.settings)
        total = "gemm_symmetric_sum" if triangle else "gemm_sum"
        self._sum = library.launcher(device, total, dtype=name)

    @property
    def zeros(self) -> dict[torch.dtype, Tensor]:
        """See `Launcher`."""
        return self._sum.zeros

    def launch(
        self, tensors: tuple[Tensor, Tensor, Tensor, Tensor], scalars: tuple[float, float]
    ) -> None:
        """As of the launcher of a product in one piece: a, b, c, d; alpha, beta."""
        a, b, c, d = tensors
        batch, m, n = d.shape
        columns = -(-n // 4) * 4  # rows are multiples of 16 bytes
        shape = (batch, self.parts, m, columns)
        p = torch.empty(shape, device=d.device, dtype=torch.float32)[..., :n]
        self._products.launch((a, b, p))
        self._sum.launch((p, c, d), scalars)


def product(
    spec: str, device: torch.device, dtype: torch.dtype, shape: tuple[int, int, int, int]
) -> Launcher | SplitProduct:
    """The kernel or kernels for a product; ``shape`` is batch, m, n, k.

    Raises:
        DeviceError: there is none for this GPU.
    """
    triangle, name = "symmetric" in spec, checks.DTYPES[dtype]
    arch, sms = architecture(device), multiprocessors(device)
    how = split(spec, arch, name, shape, sms, triangle)
    if how is not None:
        return SplitProduct(spec, device, dtype, how, triangle=triangle)
    settings = tiling.settings(spec, arch, name, shape, sms, triangle)
    return library.launcher(device, spec, **settings)
