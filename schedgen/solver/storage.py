"""Sizes and addresses of shared memory and tensor memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from schedgen.dependence import DependenceGraph, RingOption, home_choice, ring_choice
from schedgen.kernel import AliasOption, Kernel, Region, Ring, Space

if TYPE_CHECKING:
    from schedgen.solver.decisions import Decisions

# mbarriers, the tensor-memory address and scheduler words live in front of the tiles.
BARRIER_BYTES = 1024
# The 128-byte swizzle repeats every 1024 bytes, and an operand must start on a repeat.
TILE_ALIGNMENT = 1024
SMALL_ALIGNMENT = 128


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of shared memory and columns of tensor memory."""

    smem: int
    tmem: int


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a region is: ``address`` in bytes (shared memory) or columns (tensor memory); -1 for
    registers.

    ``alias`` names the host whose bytes it shares, or the ring whose slots it fills in turn with
    others.
    """

    region: str
    depth: int
    address: int
    slot: int
    alias: str | None = None
    skew: int = 0
    ring: str | None = None


def aligned_bytes(region: Region) -> int:
    """Bytes that one slot of ``region`` takes in shared memory, padding included."""
    alignment = TILE_ALIGNMENT if region.slot_bytes >= TILE_ALIGNMENT else SMALL_ALIGNMENT
    return -(-region.slot_bytes // alignment) * alignment


def ring_bytes(kernel: Kernel, ring: Ring) -> int:
    """Bytes of one slot of a shared ring: as much as its largest region needs, 0 outside shared
    memory.
    """
    regions = [kernel.region[name] for name in ring.regions]
    return max((aligned_bytes(r) for r in regions if r.space is Space.SMEM), default=0)


def ring_columns(kernel: Kernel, ring: Ring) -> int:
    """Tensor-memory columns of one slot of a shared ring, 0 outside tensor memory."""
    regions = [kernel.region[name] for name in ring.regions]
    return max((r.tmem_columns for r in regions if r.space is Space.TMEM), default=0)


def chosen_place(graph: DependenceGraph, region: Region, option: Mapping[str, int]) -> AliasOption:
    """The storage decided for ``region``."""
    number = option.get(home_choice(region), 0) if len(region.options) > 1 else 0
    return region.options[number]


def ring_depth(
    graph: DependenceGraph, ring: Ring, option: Mapping[str, int], tile_rings: Mapping[str, int]
) -> int:
    """Slots decided for ``ring``."""
    choice = graph.choice.get(ring_choice(ring))
    if choice is None:
        return tile_rings.get(ring.name, ring.depth.low)
    picked = choice.options[option[choice.name]]
    assert isinstance(picked, RingOption)
    return picked.depth


def placements_of(
    kernel: Kernel, graph: DependenceGraph, decisions: Decisions, tile_rings: Mapping[str, int]
) -> tuple[list[Placement], Memory]:
    """Addresses of all regions, large ones first, and what they take together.

    All storage lives as long as the kernel, so addresses in a row waste nothing but alignment.
    """
    smem, columns = BARRIER_BYTES, 0
    placements: dict[str, Placement] = {}
    for ring in kernel.rings:
        slot, wide = ring_bytes(kernel, ring), ring_columns(kernel, ring)
        depth = ring_depth(graph, ring, decisions.option, tile_rings)
        for name in ring.regions:
            address = smem if slot else columns if wide else -1
            size = slot or wide or kernel.region[name].registers
            placements[name] = Placement(name, depth, address, size, ring=ring.name)
        smem += slot * depth
        columns += wide * depth
    owners = [r for r in kernel.regions if r.name not in placements]
    for region in sorted(owners, key=lambda r: -aligned_bytes(r)):
        option, depth = chosen_place(graph, region, decisions.option), decisions.depth[region.name]
        if option.host is not None:
            continue
        if region.space is Space.SMEM:
            placements[region.name] = Placement(region.name, depth, smem, aligned_bytes(region))
            smem += aligned_bytes(region) * depth
        elif region.space is Space.TMEM:
            placements[region.name] = Placement(region.name, depth, columns, region.tmem_columns)
            columns += region.tmem_columns * depth
        else:
            placements[region.name] = Placement(region.name, depth, -1, region.registers)
    for region in owners:
        option = chosen_place(graph, region, decisions.option)
        if option.host is not None:
            placements[region.name] = _inside(placements[option.host], region, option)
    return [placements[region.name] for region in kernel.regions], Memory(smem, columns)


def _inside(host: Placement, tenant: Region, option: AliasOption) -> Placement:
    shift = option.column // 4 if tenant.space is Space.TMEM else option.column
    return Placement(
        tenant.name, host.depth, host.address + shift, host.slot, host.region, option.skew
    )


def memory_use(
    kernel: Kernel, graph: DependenceGraph, decisions: Decisions, tile_rings: Mapping[str, int]
) -> Memory:
    """What all storage takes together."""
    return placements_of(kernel, graph, decisions, tile_rings)[1]
