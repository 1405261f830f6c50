"""Sums in global memory: tensors that a kernel adds to, which are its input and its result."""

from __future__ import annotations

from schedgen.kernel import Kernel, Kind, Operation


def adds(operation: Operation) -> bool:
    """Whether an operation adds its tile to a tensor (``reduce: add`` of a store)."""
    return operation.kind is Kind.STORE and operation.reduction == "add"


def summed(kernel: Kernel) -> frozenset[str]:
    """The arguments that the kernel adds to. They hold what is added to, so who calls it passes
    them, as its inputs.
    """
    return frozenset(o.tensor or "" for o in kernel.operations if adds(o))


def part_of_sums(kernel: Kernel, product: Operation) -> frozenset[str]:
    """Extents of output tiles along which what becomes of ``product`` is added up, and nothing else
    becomes of it: all tensors that it reaches are sums, and none of them has the extent.
    """
    if not any(map(adds, kernel.operations)):
        return frozenset()
    stores = [o for o in _reached(kernel, product) if o.kind is Kind.STORE]
    if not stores or not all(map(adds, stores)):
        return frozenset()
    own = {place.along for store in stores for place in store.places}
    return frozenset(axis.extent for axis in kernel.grid) - own


def _reached(kernel: Kernel, product: Operation) -> list[Operation]:
    """Operations that read what ``product`` writes, or what such ones write, in any iteration."""
    found: list[Operation] = []
    pieces = set(product.writes)
    while True:
        more = [
            o
            for o in kernel.operations
            if o not in found and any(read.piece in pieces for read in o.reads)
        ]
        if not more:
            return found
        found += more
        pieces.update(piece for operation in more for piece in operation.writes)
