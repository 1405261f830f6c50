"""State spaces: from the addresses in registers to bytes of a memory.

- ``.shared::cta`` and ``.shared::cluster`` addresses carry the rank of the CTA in the cluster in
  bits 24 and up, as CUTLASS expects (``Sm100MmaPeerBitMask`` in
  ``include/cute/arch/copy_sm100_tma.hpp`` clears bit 24 to reach the even CTA). A ``.shared::cta``
  access must be to the CTA's own rank.
- Generic addresses of shared and local memory, of parameters and constants lie in windows that no
  host pointer is in; their low 32 bits are the address in the space, so that registers of 32 bits
  can hold it, as LLVM's ``nvptx-short-ptr`` has them.
- Global addresses are host addresses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.machine.block import RANK_SHIFT
from schedgen.emulator.machine.lanes import EmulationError, Lanes
from schedgen.emulator.machine.memory import Flat, Offsets
from schedgen.emulator.machine.spots import offsets_of, spot_of
from schedgen.emulator.machine.warp import Warp
from schedgen.emulator.ptx.tree import Instruction

RESERVED = 1024
"""Bytes at the start of shared memory that belong to the system on sm_90 and later."""
SHARED_WINDOW = 1 << 62
LOCAL_WINDOW = (1 << 62) | (1 << 61)
PARAMETER_WINDOW = (1 << 62) | (1 << 60)
CONSTANT_WINDOW = (1 << 62) | (1 << 61) | (1 << 60)
_WINDOWS = 0x7 << 60
_LOW = np.uint64(0xFFFFFFFF)
_OFFSET = (1 << RANK_SHIFT) - 1

Part = tuple[Flat, Offsets, NDArray[np.bool_] | None]
"""A memory, offsets in it, and which of the given lanes they are of (None: all)."""
Resolve = Callable[[Warp, Lanes, Instruction], list[Part]]


def resolver(space: str) -> Resolve:
    """The function that finds the bytes of addresses of a state space (``""``: generic)."""
    return _RESOLVERS[space]


def spaces(modifiers: tuple[str, ...]) -> str:
    """The state space among the modifiers of an instruction, ``""`` when it is generic."""
    return next((m for m in modifiers if m in _RESOLVERS), "")


def _shared(warp: Warp, addresses: Lanes, where: Instruction) -> list[Part]:
    block = warp.block
    offsets = offsets_of(addresses, int(block.base))
    if block.cluster.size > 1 and (offsets >> RANK_SHIFT).any():
        bad = next(a for a in addresses.tolist() if a >> RANK_SHIFT != block.rank)
        raise EmulationError(
            f"PTX line {where.line}: {where.name}: address {bad:#x} is in the shared memory of the "
            f"CTA of rank {bad >> RANK_SHIFT}, this one has rank {block.rank}; use .shared::cluster"
        )
    return [(block.shared, offsets, None)]


def _cluster(warp: Warp, addresses: Lanes, where: Instruction) -> list[Part]:
    base = int(warp.block.base)
    wide = offsets_of(addresses, base)
    if (spot := spot_of(wide)) is not None and spot.low >= 0 and spot.high <= _OFFSET:
        return [(warp.block.cluster.peer(warp.block.rank, where).shared, wide, None)]
    wide = addresses.astype(np.int64)
    ranks = wide >> RANK_SHIFT
    found = set(ranks.tolist())
    parts: list[Part] = []
    for rank in sorted(found):
        block = warp.block.cluster.peer(rank, where)
        if len(found) == 1:
            return [(block.shared, wide & _OFFSET, None)]
        lanes = ranks == rank
        parts.append((block.shared, wide[lanes] & _OFFSET, lanes))
    return parts


def _global(warp: Warp, addresses: Lanes, where: Instruction) -> list[Part]:
    memory = warp.machine.memory
    values = addresses.tolist()
    low = min(values)
    region = memory.region(low, where)
    offsets = (addresses - np.uint64(region.origin)).view(np.int64)
    if max(values) < region.origin + region.size:
        return [(region, offsets, None)]
    parts: list[Part] = []
    left = np.ones(len(values), np.bool_)
    while left.any():
        region = memory.region(int(addresses[left].min()), where)
        inside = left & (addresses < np.uint64(region.origin + region.size))
        parts.append(
            (region, (addresses[inside] - np.uint64(region.origin)).view(np.int64), inside)
        )
        left = left & ~inside
    return parts


def _windowed(window: int) -> Resolve:
    """A space of which each memory is registered at its generic addresses."""
    above = np.uint64(window)

    def resolve(warp: Warp, addresses: Lanes, where: Instruction) -> list[Part]:
        return _global(warp, (addresses.astype(np.uint64) & _LOW) | above, where)

    return resolve


def _local(warp: Warp, addresses: Lanes, where: Instruction) -> list[Part]:
    local = warp.local
    if local is None:
        raise EmulationError(
            f"PTX line {where.line}: {where.name}: the kernel declares no .local variable"
        )
    offsets = addresses.astype(np.int64)
    each = local.size // 32
    if offsets.max() >= each:
        raise EmulationError(
            f"PTX line {where.line}: {where.name}: offset {int(offsets.max())} of local memory, "
            f"which has {each} bytes per thread"
        )
    lanes = np.arange(32, dtype=np.int64) * each
    return [(local, offsets + (lanes if warp.full else lanes[warp.active]), None)]


def _generic(warp: Warp, addresses: Lanes, where: Instruction) -> list[Part]:
    wide = addresses.astype(np.uint64)
    windows = wide & np.uint64(_WINDOWS)
    found = set(windows.tolist())
    if not found & {SHARED_WINDOW, LOCAL_WINDOW}:
        return _global(warp, wide, where)
    if found == {SHARED_WINDOW}:
        return _cluster(warp, wide.astype(np.uint32), where)
    if found == {LOCAL_WINDOW}:
        return _local(warp, wide.astype(np.uint32), where)
    parts: list[Part] = []
    for window in found:
        lanes = windows == window
        if window == LOCAL_WINDOW:
            raise EmulationError(
                f"PTX line {where.line}: {where.name}: some lanes access local memory and others "
                "do not"
            )
        resolve: Any = _cluster if window == SHARED_WINDOW else _global
        part = wide[lanes].astype(np.uint32) if window == SHARED_WINDOW else wide[lanes]
        for flat, offsets, some in resolve(warp, part, where):
            mine = lanes.copy()
            if some is not None:
                mine[lanes] = some
            parts.append((flat, offsets, mine))
    return parts


_RESOLVERS: dict[str, Resolve] = {
    "": _generic,
    "shared": _shared,
    "shared::cta": _shared,
    "shared::cluster": _cluster,
    "global": _global,
    "const": _windowed(CONSTANT_WINDOW),
    "param": _windowed(PARAMETER_WINDOW),
    "param::entry": _windowed(PARAMETER_WINDOW),
    "local": _local,
    "param::func": _local,
}
