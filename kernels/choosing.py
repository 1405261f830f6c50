"""Which kernels compute a product: one in large tiles or small ones (`tiling`), one that is stored
transposed, or two that share k (`split`).

A result of few rows leaves most rows of a tile empty, and what it takes is the way of the right
operand through the SMs. The other way around, d^T = b^T a^T, that operand has the rows of tiles,
and tiles are as narrow as the result has rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
from torch import Tensor

from schedgen.kernels import checks, library, split, tiling
from schedgen.kernels.launcher import Launcher, architecture, multiprocessors
from schedgen.kernels.split import Split, SplitProduct
from schedgen.kernels.tiling import Product, Shape, Tile

TRANSPOSED = 1.1
"""Part of the estimate of other kernels up to which products are stored transposed: those are too
low where a large right operand comes from memory, more so than these (H200, 16 and 64 rows)."""

COPY = split.SUM
"""Cycles of a kernel that copies next to nothing, taken over from another small one."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The kernel of ``product`` with these output tiles, or how k is split among tiles."""

    product: Product
    how: Tile | Split

    def __str__(self) -> str:
        return f"{self.how} transposed" if self.product.transposed else str(self.how)

    @property
    def kernel(self) -> tuple[str, dict[str, str]]:
        """The spec and the settings of the kernel that multiplies."""
        if isinstance(self.how, Split):
            return tiling.PARTS, self.product.parts_settings(self.how.tile)
        return self.product.spec, self.product.settings(self.how)


@lru_cache(1024)
def choice(product: Product, shape: Shape, sms: int, *, addend: bool = False) -> Choice:
    """What should be the fastest for ``shape``: batch, m, n, k.

    Args:
        product: what is computed, as it is written: not transposed.
        sms: SMs of the GPU.
        addend: something is added to the product. No kernel that is stored transposed does that.

    Raises:
        DeviceError: there is no kernel of it for that architecture and data type.
    """
    found = split.split(product, shape, sms) or tiling.best(product, shape, sms, addend=addend)
    plain = product.b_layout == "nk" and not (product.symmetric or product.activated or addend)
    other = _transposed(product, shape, sms) if plain else None
    if other is None:
        return Choice(product, found)
    (needed, tile), transposed = other, replace(product, transposed=True)
    if needed > TRANSPOSED * _cycles(product, shape, sms, found):
        return Choice(product, found)
    return Choice(transposed, tile)


@lru_cache(1024)
def reads_along_m(product: Product, shape: Shape, sms: int, *, addend: bool = False) -> bool:
    """Whether ``product``, whose left operand lies along m, should be faster as it lies than with a
    copy of that along k, of which there are kernels for more output tiles. Arguments as of
    `choice`. Of kernels that were not measured along m the estimates are those along k.
    """
    if not tiling.sizes(product):
        return False
    copied = replace(product, a_layout="mk")
    as_it_lies, other = (choice(p, shape, sms, addend=addend) for p in (product, copied))
    copying = COPY + 4 * shape[0] * shape[1] * shape[3] / tiling.BYTES  # in and out, 2 bytes each
    needed = _cycles(product, shape, sms, as_it_lies.how)
    return needed <= copying + _cycles(other.product, shape, sms, other.how)


def _transposed(product: Product, shape: Shape, sms: int) -> tuple[float, Tile] | None:
    """Cycles and tiles of the best kernel that is stored transposed; None if the result has more
    rows than its tiles.
    """
    transposed = replace(product, transposed=True)
    fitting = [tile for tile in tiling.sizes(transposed) if shape[1] <= tile.columns]
    found = ((tiling.cycles(transposed, shape, sms, tile), tile) for tile in fitting)
    return min(found, key=lambda one: one[0], default=None)


def _cycles(product: Product, shape: Shape, sms: int, how: Tile | Split) -> float:
    """What `choice` compares with."""
    if isinstance(how, Tile):
        return tiling.cycles(product, shape, sms, how)
    return split.cycles(product, shape, sms, how)


def fused(
    device: torch.device,
    dtype: torch.dtype,
    shape: Shape,
    gate: str = "",
    scaled: bool = False,
    squares: bool = False,
    addend: bool = False,
    b_layout: str = "nk",
    grouped: bool = False,
    dropped: bool = False,
    gathered: bool = False,
) -> tuple[Tile, Launcher]:
    """The kernel of a product whose epilogue does more, or of groups, and its output tiles: it is
    never split or transposed, and only of groups there is one that reads b along n. The arguments
    are those of `tiling.Product` and `choice`.

    Raises:
        DeviceError: there is none for this GPU.
    """
    product = Product(
        architecture(device),
        checks.DTYPES[dtype],
        b_layout=b_layout,
        gate=gate,
        scaled=scaled,
        squares=squares,
        grouped=grouped,
        dropped=dropped,
        gathered=gathered,
    )
    tile = tiling.best(product, shape, multiprocessors(device), addend=addend)
    return tile, library.launcher(device, product.spec, **product.settings(tile))


def of_groups(device: torch.device, dtype: torch.dtype, shape: Shape) -> Launcher:
    """The kernel of products of groups along k: the batches of ``shape`` are the groups, and its k
    is that of one of them if all are as large.

    Raises:
        DeviceError: there is none for this GPU.
    """
    product = Product(architecture(device), checks.DTYPES[dtype], groups_along_k=True)
    tile = tiling.best(product, shape, multiprocessors(device))
    return library.launcher(device, product.spec, **product.settings(tile))


class TransposedProduct:
    """The kernel of a product that is stored transposed, loaded for one GPU."""

    def __init__(self, product: Product, device: torch.device, tile: Tile) -> None:
        self._kernel = library.launcher(device, product.spec, **product.settings(tile))

    @property
    def zeros(self) -> dict[torch.dtype, Tensor]:
        """See `launcher.Launcher`."""
        return self._kernel.zeros

    def launch(
        self, tensors: tuple[Tensor, Tensor, Tensor, Tensor], scalars: tuple[float, ...]
    ) -> None:
        """As of the launcher of a product: a, b, c, d; alpha, beta. Nothing is added."""
        a, b, _, d = tensors
        self._kernel.launch((b, a, d), scalars[:1])


def kernel(
    device: torch.device,
    dtype: torch.dtype,
    symmetric: bool,
    b_layout: str,
    shape: Shape,
    activated: bool = False,
    addend: bool = False,
    a_layout: str = "mk",
) -> Launcher | SplitProduct | TransposedProduct:
    """The kernel or kernels for a product; the arguments as of `tiling.Product` and `choice`.

    Raises:
        DeviceError: there is none for this GPU.
    """
    written = _written(device, dtype, symmetric, b_layout, activated, a_layout)
    found = choice(written, shape, multiprocessors(device), addend=addend)
    if isinstance(found.how, Split):
        return SplitProduct(found.product, device, found.how)
    if found.product.transposed:
        return TransposedProduct(found.product, device, found.how)
    settings = found.product.settings(found.how)
    return library.launcher(device, found.product.spec, **settings)


def along_m(
    device: torch.device,
    dtype: torch.dtype,
    symmetric: bool,
    b_layout: str,
    shape: Shape,
    activated: bool,
    addend: bool,
) -> bool:
    """`reads_along_m` for a GPU; the arguments are those of `kernel`."""
    written = _written(device, dtype, symmetric, b_layout, activated, "km")
    return reads_along_m(written, shape, multiprocessors(device), addend=addend)


def _written(
    device: torch.device,
    dtype: torch.dtype,
    symmetric: bool,
    b_layout: str,
    activated: bool,
    a_layout: str,
) -> Product:
    """A product as it is written: not transposed."""
    arch, name = architecture(device), checks.DTYPES[dtype]
    return Product(arch, name, symmetric, b_layout, activated, a_layout=a_layout)
