"""Drops copies within one memory space: source and destination become one region.

A copy stays where that would change what an operation reads: where both values are still needed
after one of them is overwritten, where the copy does not always happen, and where the pieces of
source and destination do not fit into each other. So does one between registers that threads have
in different orders (`schedgen.exchanges`).
"""

from __future__ import annotations

from dataclasses import replace

from schedgen.exchanges import left_in_registers
from schedgen.kernel import (
    OWN_STORAGE,
    AliasOption,
    Kernel,
    Kind,
    Operation,
    Order,
    Phase,
    Piece,
    Read,
    Region,
)
from schedgen.spec.same_values import Merge, same_values


def elide_copies(kernel: Kernel) -> Kernel:
    """Return ``kernel`` without the copies that move nothing."""
    merger = _Merger(kernel)
    for operation in kernel.operations:
        merger.try_copy(operation.name)
    return merger.kernel()


class _Merger:
    """Merges one pair of regions after the other."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._operations = {o.name: o for o in kernel.operations}
        self._place = {o.name: number for number, o in enumerate(kernel.operations)}
        self._regions = dict(kernel.region)
        self._pieces = dict(kernel.piece)
        self._parts: dict[str, list[Piece]] = {name: [] for name in self._regions}
        for piece in kernel.pieces:
            self._parts[piece.region].append(piece)
        self._users: dict[str, set[str]] = {name: set() for name in self._regions}
        for operation in kernel.operations:
            for name in (*operation.writes, *(read.piece for read in operation.reads)):
                self._users[self._pieces[name].region].add(operation.name)
        self._elided: list[tuple[str, str]] = []

    def try_copy(self, name: str) -> None:
        """Merge source and destination of the copy ``name``, if it is one and that is safe."""
        copy = self._operations.get(name)
        if copy is None or not _always_copies(copy):
            return
        source = self._regions[self._pieces[copy.reads[0].piece].region]
        to = self._regions[self._pieces[copy.writes[0]].region]
        if source is to or not self._alike(source, to):
            return
        kept, gone = source, to
        if len(self._parts[to.name]) > len(self._parts[source.name]):
            kept, gone = to, source
        parts = self._nest(gone, kept)
        if parts is None:
            return
        users = self._users[source.name] | self._users[to.name]
        ordered = [self._operations[user] for user in sorted(users, key=self._place.__getitem__)]
        merge = Merge(parts, {piece.name for piece in self._parts[kept.name]})
        copies = {o.name for o in ordered if _always_copies(o) and merge.moves_nothing(o)}
        if name in copies and same_values(ordered, copies, merge):
            self._merge(source, to, kept, gone, copies, merge)
            self._elided.append((name, f"{gone.name} is {kept.name}"))

    def kernel(self) -> Kernel:
        """Return what is left."""
        orders = (
            Order(o.name, tuple(entry for entry in o.sequence if entry[0] in self._operations))
            for o in self._kernel.orders
        )
        return replace(
            self._kernel,
            regions=tuple(self._regions.values()),
            pieces=tuple(p for p in self._kernel.pieces if p.region in self._regions),
            operations=tuple(self._operations.values()),
            orders=tuple(order for order in orders if len(order.sequence) > 1),
            elided=tuple(self._elided),
        )

    def _alike(self, source: Region, to: Region) -> bool:
        """Whether one region could take the place of both."""
        if source.ring is not None or to.ring is not None:
            return False
        if (source.space, source.shape, source.dtype) != (to.space, to.shape, to.dtype):
            return False
        left = left_in_registers(self._operations.values(), self._pieces, self._regions)
        if (source.name in left) != (to.name in left):
            return False
        starts = {region.initial for region in (source, to)} - {None}
        filled = self._writes(source, Phase.BEFORE) or self._writes(to, Phase.BEFORE)
        if len(starts) > 1 or (starts and filled):
            return False
        # What is filled once must not become a slot that every iteration fills.
        return self._writes(source, Phase.BODY) or not self._writes(to, Phase.BODY)

    def _writes(self, region: Region, phase: Phase) -> bool:
        return any(
            self._pieces[piece].region == region.name
            for user in self._users[region.name]
            if self._operations[user].phase is phase
            for piece in self._operations[user].writes
        )

    def _nest(self, gone: Region, kept: Region) -> dict[str, tuple[str, ...]] | None:
        """Return the kept pieces that make up each piece of ``gone``, if they do so exactly."""
        parts: dict[str, tuple[str, ...]] = {}
        for piece in self._parts[gone.name]:
            inside = [part for part in self._parts[kept.name] if part.overlaps(piece)]
            if any(part.overlaps(piece) != part.bytes for part in inside):
                return None
            parts[piece.name] = tuple(part.name for part in inside)
        return parts

    def _merge(
        self, source: Region, to: Region, kept: Region, gone: Region, copies: set[str], merge: Merge
    ) -> None:
        for user in self._users.pop(gone.name):
            self._operations[user] = _renamed(self._operations[user], merge)
            self._users[kept.name].add(user)
        for copy in copies:
            del self._operations[copy]
        self._users[kept.name] -= copies
        for piece in self._parts.pop(gone.name):
            del self._pieces[piece.name]
        del self._regions[gone.name]
        hosts = False
        for name, region in self._regions.items():
            moved = tuple(_moved(option, gone.name, kept.name) for option in region.options)
            options = tuple(option for option in moved if option.host != name)
            self._regions[name] = replace(region, options=options or (OWN_STORAGE,))
            hosts = hosts or (name != kept.name and any(o.host == kept.name for o in moved))
        lasting = to if to.per_tile and not source.per_tile else source
        merged = self._regions[kept.name]
        self._regions[kept.name] = replace(
            merged,
            initial=source.initial if source.initial is not None else to.initial,
            per_tile=source.per_tile or to.per_tile,
            depth=lasting.depth,
            hazards=source.hazards or to.hazards,
            options=(OWN_STORAGE,) if hosts else merged.options,
        )


def _always_copies(operation: Operation) -> bool:
    """Whether an operation is a copy of this iteration's value that happens in each iteration."""
    return (
        operation.kind is Kind.COPY
        and not operation.transposed
        and operation.when is None
        and not operation.boundary
        and all(read.distance == 0 for read in operation.reads)
    )


def _renamed(operation: Operation, merge: Merge) -> Operation:
    reads = (Read(p, read.distance) for read in operation.reads for p in merge.kept(read.piece))
    return replace(
        operation,
        reads=tuple(dict.fromkeys(reads)),
        writes=merge.all_kept(operation.writes),
        operands=tuple((name, merge.all_kept(pieces)) for name, pieces in operation.operands),
    )


def _moved(option: AliasOption, gone: str, kept: str) -> AliasOption:
    return replace(option, host=kept) if option.host == gone else option
