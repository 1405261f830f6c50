"""Which of the generated kernels of a product to take for a shape: how large its output tiles are.

Large tiles read less for each product, small ones leave fewer SMs without work in the last wave.
The rule weighs both with what generated files say of themselves, cycles of an iteration in the
machine model, and how far those are from measured ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from schedgen.driver import lock_file
from schedgen.kernels.errors import DeviceError
from schedgen.kernels.tile_sizes import (
    ALONG_M,
    DROPPED,
    FUSED,
    GATED,
    GATHERED,
    GROUPED,
    GROUPED_K,
    IN_TURN,
    MORE,
    TILES,
    TRANSPOSED,
    Tile,
)


@dataclass(frozen=True, slots=True)
class Product:
    """What its kernels are chosen by beside the shape.

    Attributes:
        arch: architecture, such as ``sm_90a``.
        dtype: of a, b, c and d, such as ``bf16``.
        symmetric: only tiles on and below the diagonal are computed.
        b_layout: extents of b in memory, outermost first: ``nk`` or ``kn``.
        activated: a bias is added and an activation applied to each element of the result.
        transposed: the kernel multiplies the other way around and stores its result transposed.
        gate: activation of the first of two products with the same left operand, which is
            multiplied by the second one; '' if there is one product. Both lie beside each other in
            an output tile, and its columns, like n of a shape, are those of both.
        scaled: rows of the product, or of both, are multiplied by factors first.
        squares: sums of squares of the rows of each output tile are stored as well.
        grouped: rows of groups, whose sizes are data, are multiplied by a matrix each. The batches
            of a shape are the groups, and its rows those of one of them if all are as large.
        a_layout: extents of a in memory: ``mk`` or ``km``.
        groups_along_k: instead of ``grouped``, groups of rows of both operands, each with a result
            of its own: a lies along m, b along n, and k of a shape is that of a group.
        dropped: elements of the product are dropped before something is added.
        gathered: instead of ``grouped``, rows of groups that a list takes from the left operand.
    """

    arch: str
    dtype: str
    symmetric: bool = False
    b_layout: str = "nk"
    activated: bool = False
    transposed: bool = False
    gate: str = ""
    scaled: bool = False
    squares: bool = False
    grouped: bool = False
    a_layout: str = "mk"
    groups_along_k: bool = False
    dropped: bool = False
    gathered: bool = False

    @property
    def spec(self) -> str:
        """The spec of its kernels."""
        if self.gate:
            return "gemm_gated"
        if self.gathered:
            return "gemm_gathered"
        if self.grouped or self.groups_along_k:
            return "gemm_grouped_k" if self.groups_along_k else "gemm_grouped"
        if self.scaled or self.squares:
            return "gemm_rms" if self.squares else "gemm_scaled"
        if self.activated or self.dropped:
            return "gemm_dropout" if self.dropped else "gemm_epilogue"
        if self.transposed:
            return "gemm_transposed"
        return "gemm_symmetric" if self.symmetric else "gemm"

    def settings(self, tile: Tile) -> dict[str, str]:
        """Of the kernel that computes it in such tiles."""
        found = {"dtype": self.dtype, **self._layout, **tile.settings}
        if not self.gate:
            return found
        if "tile_n" in found:  # what is stored has the columns of one product
            found["tile_n"] = str(tile.columns // 2)
        if self.gate != GATES[0]:
            found["activation"] = self.gate
        return found | {"scaled": "true"} if self.scaled else found

    def parts_settings(self, tile: Tile) -> dict[str, str]:
        """Of the kernel (of gemm_parts) that computes parts of k in such tiles."""
        return {"dtype": self.dtype, **self._layout, **self._triangle, **tile.settings}

    @property
    def sum_settings(self) -> dict[str, str]:
        """Of the kernel (of gemm_sum) that adds up these parts."""
        return {"dtype": self.dtype, **self._triangle}

    @property
    def _layout(self) -> dict[str, str]:
        of_a = {} if self.a_layout == "mk" else {"a_layout": self.a_layout}
        return of_a if self.b_layout == "nk" else {**of_a, "b_layout": self.b_layout}

    @property
    def _triangle(self) -> dict[str, str]:
        return {"symmetric": "true"} if self.symmetric else {}


Shape = tuple[int, int, int, int]
"""batch, m, n, k"""

GATES = ("silu", "gelu")
"""Activations of gates that there are kernels for; the first is the spec's own."""

PARTS, SUM = "gemm_parts", "gemm_sum"
"""Specs of products that are split along k."""

FILL = 160
"""How much longer filling the pipeline and the epilogue make products, as if k were that much
larger: 15 to 138 in Hopper's schedules (`schedgen solve`, line `tile`), and the first load comes
from far."""
FEWEST, COLUMN = 1000, 8
"""Cycles for the same at least, an estimate: however small a tile is, its first load comes from far
and its results, more or fewer columns, have to go through an epilogue."""
BYTES, PEAK = 1900, 2400
"""Bytes of operands that come from memory in a cycle where all SMs work: 3.8 TB/s, the most that
products of few rows have seen on an H200, of the 4.8 TB/s that it has. Symmetric products, which
none of these numbers was fitted to, are held against what it has."""
HIDDEN = 0.2
"""What is left of filling and epilogue behind other tiles where they are computed in turn, fitted
as `MEASURED`."""
ADDED = {Tile(): 2000}
"""Cycles that each of these output tiles takes longer than others do where something is added to
the product: its four slices share two slots of shared memory. Fitted to the same times."""
FEWER = 0.125
"""With fewer SMs in a wave that falls with this power of their share: to 92 % with half of them."""
PORT, LARGE = 64, 16 << 20
"""Bytes that an SM takes in a cycle at most where operands are larger than so many bytes, and come
from memory: what tiles of 64 x 64 x 128 and 128 x 64 x 64 did (H200, 64 and 128 rows)."""
OUTSIDE = 0.45
"""How much longer products take whose tiles had all their rows outside of the result. On an H200,
with 16 and 64 rows, 22 to 56 % where 50 to 87 % are outside. Stored transposed they do not."""
UNSURE = 1.01
"""By so much tiles have to be better that were timed with few shapes only (`MORE`)."""
MEASURED = {
    "sm_90a": {
        False: {
            Tile(): 1.29,
            Tile(columns=192): 1.3,
            Tile(columns=128): 1.3,
            Tile(columns=192, teams=2): 1.34,
            Tile(columns=128, teams=2): 1.32,
            Tile(rows=64, columns=128): 1.52,
            Tile(rows=64, columns=64, depth=128): 3.06,
            Tile(rows=64, columns=32, depth=256): 3.25,
        },
        True: {
            Tile(): 1.38,
            Tile(columns=192): 1.38,
            Tile(columns=128): 1.39,
            Tile(columns=192, teams=2): 1.38,
            Tile(columns=128, teams=2): 1.39,
            Tile(rows=64, columns=128): 1.89,
            Tile(rows=64, columns=64, depth=128): 3.09,
            Tile(rows=64, columns=32, depth=256): 3.05,
        },
    }
}
"""Cycles of an iteration over those of the model, with all that is around the main loop, where all
SMs work at once: of all output tiles, and of those of a triangle, which are stored twice. For tiles
of 128 rows they are the ones with which the rule loses least of what `benchmarks/choices.py`
measured (H200, in graphs and one by one); those of 64 rows are measured (`benchmarks/tiling.py`,
H200) with kernels that read right operands as they lie; with 64 x 32 x 256 the model has 412
instead of 384 cycles for the others, so there they are 7 % too high. For products with an
activation, a gate, factors or sums of squares, which have other epilogues, they are taken over, not
measured. Nobody has measured Blackwell: there the model's are taken."""
OF_GROUPS = {128: 1.2}
"""How much longer tiles of so many columns take where rows of groups are multiplied, each group by
a matrix of its own: 1.05 to 1.34 times as long as tiles of 192 columns in turn, for the shapes of
`benchmarks/experts.py` (H100, each tile timed by a script that is not in the repository)."""
OF_GATES = {Tile(columns=192): 0.98, Tile(columns=192, teams=2): 0.96}
"""How much less these take than tiles of 256 columns where a gate is multiplied, whose epilogue has
exponentials: so the rule loses 0.1 % of the times of five tiles in its tests (H200, 256 to 8192
rows, in graphs, by hand), and 0.8 % at most."""
ESTIMATED = {
    "sm_90a": {
        False: {
            Tile(columns=96): 1.38,
            Tile(columns=176): 1.38,
            Tile(columns=224): 1.33,
            Tile(columns=32, depth=128): 1.5,
        },
        True: {},
    }
}
"""The same of tiles that were timed with a few shapes of 128 and 512 rows only (H200, by hand; the
times are in the tests of this rule), 128 x 176 also with 8192 x 12288 x 4096, where it was 3 %
slower than 128 x 256. The narrowest took 1.87 there; the estimates that it is compared with are as
much too low, since all of these read a large right operand once."""
STORED_TRANSPOSED = {
    "sm_90a": {
        Tile(rows=64, columns=16, depth=128): 3.3,
        Tile(rows=64, columns=32, depth=256): 3.5,
        Tile(columns=64, depth=128): 1.7,
    }
}
"""The same of products that are stored transposed, from kernels that did not transpose (H200, 16
and 64 rows). The last of them has always waited for memory."""
ALONE = {
    "sm_90a": {
        Tile(): 1.1,
        Tile(columns=192): 1.1,
        Tile(columns=128): 1.1,
        Tile(rows=64, columns=128): 1.1,
        Tile(rows=64, columns=64, depth=128): 1.4,
        Tile(rows=64, columns=32, depth=256): 1.8,
        Tile(rows=64, columns=16, depth=128): 1.9,
        **dict.fromkeys([Tile(columns=64, depth=128), Tile(columns=32, depth=128)], 1.7),
        **dict.fromkeys([Tile(columns=96), Tile(columns=176), Tile(columns=224)], 1.1),
    }
}
"""The same where few SMs work (`benchmarks/iterations.py`, H200; the last three lines are estimates
from the times that the two above are from). Above that it is taken to grow with the SMs that work,
since what they share is the way to memory."""


def sizes(product: Product) -> tuple[Tile, ...]:
    """Of the output tiles that there are kernels of ``product`` for."""
    if product.groups_along_k:
        return GROUPED_K.get(product.arch, ()) if product.dtype == "bf16" else ()
    if product.a_layout == "km":
        fits = product.dtype == "bf16" and product.b_layout == "kn" and not product.activated
        return ALONG_M[product.symmetric].get(product.arch, ()) if fits else ()
    if product.transposed:
        return TRANSPOSED.get(product.arch, ())
    if product.grouped or product.gathered:
        of_all = GATHERED if product.gathered else GROUPED
        layouts = of_all.get(product.arch, {}) if product.dtype == "bf16" else {}
        return layouts.get(product.b_layout, ())
    if product.dropped:
        return DROPPED.get(product.arch, ())
    if product.gate or product.scaled or product.squares:
        return (GATED if product.gate else FUSED).get(product.arch, ())
    along_k = product.b_layout == "nk" and not product.symmetric
    more = MORE.get(product.arch, ()) if along_k else ()
    in_turn = () if product.activated else IN_TURN.get(product.arch, ())
    return (*TILES.get(product.arch, ()), *more, *in_turn)


@cache
def best(product: Product, shape: Shape, sms: int, *, addend: bool = False) -> Tile:
    """The size of output tiles that should be the fastest for ``shape``.

    Args:
        product: what is computed.
        shape: batch, m, n, k.
        sms: SMs of the GPU, each of which computes one output tile at a time.
        addend: something is added to the product.

    Raises:
        DeviceError: there is no kernel of it for that architecture and data type.
    """
    found: tuple[float, Tile] = (math.inf, Tile())
    for tile in sizes(product):
        needed = cycles(product, shape, sms, tile, addend=addend)
        needed *= UNSURE if tile in MORE.get(product.arch, ()) else 1.0
        found = min(found, (needed, tile), key=lambda f: f[0])
    if math.isinf(found[0]):
        raise DeviceError(
            f"there is no kernel of {product.spec} for {product.arch} and {product.dtype}"
        )
    return found[1]


def cycles(
    product: Product, shape: Shape, sms: int, tile: Tile, parts: int = 1, *, addend: bool = False
) -> float:
    """Cycles that a product should take in output tiles of one size, infinite if there is no such
    kernel; ``parts`` tiles share the iterations of each. Other arguments are those of `best`.
    """
    batch, m, n, k = shape
    rows, columns = (n, m) if product.transposed else (m, n)
    count = batch * parts * tiles(rows, columns, tile, product.symmetric)
    spec = product.spec if parts == 1 else PARTS
    chosen = product.settings(tile) if parts == 1 else product.parts_settings(tile)
    each = _cycles(spec, product.arch, tuple(chosen.items()))
    waves = -(-count // sms)
    together = _together(product, tile) * min(count / sms, 1.0)
    each *= max(ALONE.get(product.arch, {}).get(replace(tile, teams=1), 1.0), together)
    more = ADDED.get(tile, 0) if addend else 0
    if product.symmetric:
        return max(_waves(waves, tile, k, parts, each, more), 2 * batch * m * k / PEAK)
    operands = 2 * batch * k * (m + n)
    if operands > LARGE:
        each = max(each, 2 * (tile.rows + tile.columns) * tile.depth / PORT)
    share = count / (waves * sms)
    found = max(_waves(waves, tile, k, parts, each, more), operands / (BYTES * share**FEWER))
    if product.transposed:
        return found
    return found * (1 + OUTSIDE * (1 - m / (-(-m // tile.rows) * tile.rows)))


def _waves(count: int, tile: Tile, k: int, parts: int, each: float, more: float) -> float:
    """Cycles of ``count`` output tiles of a CTA, or of its parts of them, with ``each`` for an
    iteration and ``more`` around each loop.
    """
    around = max(FILL / tile.depth * each, FEWEST + COLUMN * tile.columns) + more
    left = 1 if tile.teams == 1 else HIDDEN
    return count * -(-k // (tile.depth * parts)) * each + around * (1 + left * (count - 1))


def _together(product: Product, tile: Tile) -> float:
    """See `MEASURED`."""
    arch = product.arch
    if product.transposed:
        return STORED_TRANSPOSED.get(arch, {}).get(tile, 1.0)
    known = MEASURED.get(arch, {}).get(product.symmetric, {})
    if product.grouped and tile in known:
        return known[tile] * OF_GROUPS.get(tile.columns, 1.0)
    found = known.get(tile) or ESTIMATED.get(arch, {}).get(product.symmetric, {}).get(tile, 1.0)
    return found * OF_GATES.get(tile, 1.0) if product.gate and known else found


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
    found = lock_file.locked(spec, arch, dict(chosen))
    return math.inf if found is None else found.schedule.ii_cycles
