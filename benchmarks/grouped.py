"""Output tiles of grouped products: how many there are, and how many a CTA has.

    python benchmarks/grouped.py

Counted, not measured: what `tiles: dense` is for (docs/adr/0027). Cycles are those of the model for
the iterations of the CTA that has the most tiles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from schedgen.driver import lock_file
from schedgen.kernels.library import SMS
from schedgen.kernels.tiling import Product, Tile

GROUPS, ROWS = 128, 8192 * 8
"""Experts, and rows of all of them: 8192 tokens of which each goes to 8."""
PRODUCTS = ((1536, 2048), (2048, 768))
"""n and k: both halves of an expert with 2048 x 768."""
TILE = Tile()


def balanced(groups: int = GROUPS, rows: int = ROWS) -> list[int]:
    """As many rows for each."""
    return [rows // groups] * groups


def skewed(groups: int = GROUPS, rows: int = ROWS) -> list[int]:
    """Expert number i has a share of 1 / i, the last ones have next to nothing."""
    weights = [1 / (number + 1) for number in range(groups)]
    found = [int(rows * weight / sum(weights)) for weight in weights]
    return [found[0] + rows - sum(found), *found[1:]]


def one_of_eight(groups: int = GROUPS, rows: int = ROWS) -> list[int]:
    """Every eighth expert has rows."""
    return [0 if number % 8 else rows * 8 // groups for number in range(groups)]


SIZES: dict[str, Callable[[int, int], list[int]]] = {
    "balanced": balanced,
    "skewed": skewed,
    "one of eight": one_of_eight,
}
"""Rows of each group, by what they are called, of groups and rows of all of them."""


def dense(sizes: Sequence[int], columns: int) -> int:
    """Output tiles of all groups."""
    return sum(-(-size // TILE.rows) for size in sizes) * columns


def most_of_a_cta(sizes: Sequence[int], columns: int, sms: int) -> int:
    """Tiles that are computed by the CTA with the most of them, where each group has as many
    numbers of tiles as all rows need, and CTA b takes b, b + sms, ...
    """
    rows = -(-sum(sizes) // TILE.rows)
    found: Counter[int] = Counter()
    for group, size in enumerate(sizes):
        first = group * rows * columns
        found.update((first + n) % sms for n in range(-(-size // TILE.rows) * columns))
    return max(found.values())


def table() -> Iterator[list[str | int]]:
    """Rows: architecture, sizes, n, k, numbers of tiles without and with `dense`, most tiles of a
    CTA without and with it, cycles of their iterations with it.
    """
    for arch, sms in SMS.items():
        product = Product(arch, "bf16", grouped=True)
        locked = lock_file.locked(product.spec, arch, product.settings(TILE))
        assert locked is not None
        for name, make in SIZES.items():
            sizes = make(GROUPS, ROWS)
            for n, k in PRODUCTS:
                columns = -(-n // TILE.columns)
                numbers = len(sizes) * -(-sum(sizes) // TILE.rows) * columns
                tiles = dense(sizes, columns)
                most = -(-tiles // sms)
                cycles = most * -(-k // TILE.depth) * locked.schedule.ii_cycles
                before = most_of_a_cta(sizes, columns, sms)
                yield [arch, name, n, k, numbers, tiles, before, most, int(cycles)]


def main() -> None:
    """Prints the table."""
    head = (
        "arch",
        "rows of experts",
        "n",
        "k",
        "numbers",
        "tiles",
        "most of a CTA",
        "dense",
        "cycles",
    )
    print("|", " | ".join(head), "|")
    print("|", " | ".join("---" for _ in head), "|")
    for row in table():
        print("|", " | ".join(map(str, row)), "|")


if __name__ == "__main__":
    main()
