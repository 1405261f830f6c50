"""Storage that a kernel must not ask for: combinations whose hazards would have no meaning.

Each rule gives the buffer it is about, so that the spec reader can point at it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from schedgen.kernel import Kernel, Region, Ring, Space


@dataclass(frozen=True, slots=True)
class StorageMistake:
    """``buffer`` breaks ``rule``; ``key`` is the key of its entry in the spec that says so."""

    buffer: str
    key: str
    rule: str
    message: str
    fix: str


def storage_mistakes(kernel: Kernel) -> Iterator[StorageMistake]:
    """Everything wrong with where ``kernel`` stores its tiles."""
    written = {kernel.piece[p].region for o in kernel.body for p in o.writes}
    for region in kernel.regions:
        yield from _aliases(kernel, region, written)
        yield from _distances(kernel, region)
    for ring in kernel.rings:
        yield from _registers_in_turn(kernel, ring)
        yield from _overwritten(kernel, ring)
        inside = [name for name in ring.regions if name in written]
        if inside and len(inside) < len(ring.regions):
            other = next(name for name in ring.regions if name not in written)
            yield StorageMistake(
                kernel.region[other].base,
                "",
                "ring-partly-in-loop",
                f"the main loop fills some buffers of ring '{ring.name}' but not '{other}'",
                "give buffers that are filled outside of the main loop a ring of their own",
            )
    yield from _early_reads(kernel, written)


def _registers_in_turn(kernel: Kernel, ring: Ring) -> Iterator[StorageMistake]:
    """Slots are chosen when a kernel runs, and registers have no addresses."""
    held = [name for name in ring.regions if kernel.region[name].space is Space.REGISTERS]
    if held and ring.depth.high > 1:
        yield StorageMistake(
            kernel.region[held[0]].base,
            "",
            "ring-of-registers",
            f"ring '{ring.name}' has up to {ring.depth.high} slots for '{held[0]}', and registers "
            "cannot be chosen when a kernel runs",
            f"give '{ring.name}' a depth of 1, or take its buffers out of it",
        )


def _overwritten(kernel: Kernel, ring: Ring) -> Iterator[StorageMistake]:
    """What one tile fills around its main loop is read before its slot is filled again."""
    if any(not kernel.region[name].per_tile for name in ring.regions):
        return
    lost = _first_lost(kernel, ring, ring.depth.low)
    if lost is None:
        return
    operation, region = lost
    depths = range(ring.depth.low + 1, len(ring.regions) + 1)
    enough = next((n for n in depths if _first_lost(kernel, ring, n) is None), 0)
    slots = f"{ring.depth.low} slot{'s' if ring.depth.low > 1 else ''}"
    yield StorageMistake(
        kernel.region[region].base,
        "",
        "overwritten-in-ring",
        f"'{operation}' reads '{region}' when the {slots} of ring '{ring.name}' have been filled "
        "with others",
        f"give '{ring.name}' a depth of {enough}, or list who reads a buffer behind who fills it, "
        "over the same dimension first: neighbours over one dimension are one loop over it"
        if enough
        else "list who reads a buffer behind who fills it",
    )


def _first_lost(kernel: Kernel, ring: Ring, slots: int) -> tuple[str, str] | None:
    """The first operation, in sequential order, that reads a region whose slot has another one."""
    number = {name: n for n, name in enumerate(ring.regions)}
    holds: dict[int, str] = {}
    for operation in kernel.outer:
        for read in operation.reads:
            region = kernel.piece[read.piece].region
            if region in number and holds.get(number[region] % slots, region) != region:
                return operation.name, region
        for piece in operation.writes:
            region = kernel.piece[piece].region
            if region in number:
                holds[number[region] % slots] = region
    return None


def _aliases(kernel: Kernel, region: Region, written: set[str]) -> Iterator[StorageMistake]:
    hosts = [option.host for option in region.options if option.host is not None]
    for host in dict.fromkeys(hosts):
        if region.ring is not None or kernel.region[host].ring is not None:
            which = region.name if region.ring is not None else host
            yield StorageMistake(
                region.base,
                "alias",
                "alias-in-ring",
                f"'{which}' takes turns in a shared ring, so '{region.name}' cannot share with it",
                "alias a buffer that has storage of its own",
            )
        elif region.name not in written or host not in written:
            which = region.name if region.name not in written else host
            yield StorageMistake(
                region.base,
                "alias",
                "alias-outside-loop",
                f"the main loop never writes '{which}', so the bytes would not change hands in it",
                "alias two buffers that the main loop writes, or none",
            )


def _distances(kernel: Kernel, region: Region) -> Iterator[StorageMistake]:
    """An operation that reads its own value of d iterations ago needs d slots."""
    for operation in kernel.body:
        own = {piece for piece in operation.writes if kernel.piece[piece].region == region.name}
        distances = [read.distance for read in operation.reads if read.piece in own]
        most = max(distances, default=0)
        slots = 1 if region.per_tile else region.depth.low
        if most > slots:
            yield StorageMistake(
                region.base,
                "lives" if region.per_tile else "depth",
                "distance-exceeds-depth",
                f"'{operation.base}' reads '{region.base}@{most}', which it has overwritten "
                f"in the {slots} slot{'s' if slots > 1 else ''} there are",
                f"give '{region.base}' a depth of {most} or more and let it live for an iteration",
            )
            return


def _early_reads(kernel: Kernel, written: set[str]) -> Iterator[StorageMistake]:
    """A read before the write of the same iteration has to say which iteration it means."""
    done: set[str] = set()
    for operation in kernel.body:
        for read in operation.reads:
            region = kernel.piece[read.piece].region
            later = any(read.piece in o.writes for o in kernel.body)
            if read.distance == 0 and later and read.piece not in done and region in written:
                base = kernel.region[region].base
                yield StorageMistake(
                    base,
                    "",
                    "read-before-write",
                    f"'{operation.base}' reads '{base}' before this iteration has written it",
                    f"read '{base}@1'",
                )
                return
        done.update(operation.writes)
