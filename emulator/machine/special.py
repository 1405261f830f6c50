"""Special registers (PTX ISA chapter 10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from schedgen.emulator.machine.block import Block
from schedgen.emulator.machine.lanes import LANES, EmulationError, Lanes
from schedgen.emulator.machine.machine import Machine

_LANE = np.arange(LANES, dtype=np.uint32)
_BIT = np.uint32(1) << _LANE


class Place(Protocol):
    """Where a warp is: all that special registers depend on."""

    rank: int
    block: Block
    machine: Machine


def special(warp: Place, name: str) -> tuple[Lanes, bool]:
    """Lanes of a special register, and whether they stay the same.

    Raises:
        EmulationError: the register is not known.
    """
    base, _, axis = name.partition(".")
    if base in _VECTORS and axis in ("x", "y", "z"):
        value = _VECTORS[base](warp)["xyz".index(axis)]
        return np.full(LANES, value, np.uint32), True
    if base == "%tid" and axis in ("x", "y", "z"):
        return _thread(warp)["xyz".index(axis)], True
    if name in _SCALARS:
        return np.full(LANES, _SCALARS[name](warp), np.uint32), True
    if name in _MASKS:
        return _MASKS[name], True
    if name in _CLOCKS:
        kind = np.uint64 if name.endswith("64") or name == "%globaltimer" else np.uint32
        return np.full(LANES, _CLOCKS[name](warp), np.uint64).astype(kind), False
    raise EmulationError(
        f"special register {name} is not known, or no register of this name exists"
    )


def _thread(warp: Place) -> tuple[Lanes, Lanes, Lanes]:
    x, y, _ = warp.machine.shape.block
    linear = _LANE + np.uint32(LANES * warp.rank)
    return linear % np.uint32(x), linear // np.uint32(x) % np.uint32(y), linear // np.uint32(x * y)


def _cluster_index(warp: Place) -> tuple[int, ...]:
    shape = warp.block.cluster.shape
    return tuple(at // size for at, size in zip(warp.block.index, shape, strict=True))


def _cluster_rank(warp: Place) -> tuple[int, ...]:
    shape = warp.block.cluster.shape
    return tuple(at % size for at, size in zip(warp.block.index, shape, strict=True))


def _clusters(warp: Place) -> tuple[int, ...]:
    shape = warp.block.cluster.shape
    return tuple(all_ // size for all_, size in zip(warp.machine.shape.grid, shape, strict=True))


_VECTORS: dict[str, Callable[[Place], tuple[int, ...]]] = {
    "%ntid": lambda warp: warp.machine.shape.block,
    "%ctaid": lambda warp: warp.block.index,
    "%nctaid": lambda warp: warp.machine.shape.grid,
    "%cluster_ctaid": _cluster_rank,
    "%cluster_nctaid": lambda warp: warp.block.cluster.shape,
    "%clusterid": _cluster_index,
    "%nclusterid": _clusters,
}
_SCALARS: dict[str, Callable[[Place], int]] = {
    "%warpid": lambda warp: warp.rank,
    "%nwarpid": lambda _warp: 64,
    "%smid": lambda warp: warp.block.number % warp.machine.processors,
    "%nsmid": lambda warp: warp.machine.processors,
    "%gridid": lambda _warp: 1,
    "%cluster_ctarank": lambda warp: warp.block.rank,
    "%cluster_nctarank": lambda warp: warp.block.cluster.size,
    "%is_explicit_cluster": lambda warp: int(warp.machine.shape.explicit_cluster),
    "%dynamic_smem_size": lambda warp: warp.machine.shape.dynamic,
    "%total_smem_size": lambda warp: warp.machine.shape.shared,
    "%aggr_smem_size": lambda warp: warp.machine.shape.shared,
}
_MASKS: dict[str, Lanes] = {
    "%laneid": _LANE,
    "%lanemask_eq": _BIT,
    "%lanemask_lt": _BIT - np.uint32(1),
    "%lanemask_le": _BIT - np.uint32(1) | _BIT,
    "%lanemask_gt": ~(_BIT - np.uint32(1) | _BIT),
    "%lanemask_ge": ~(_BIT - np.uint32(1)),
}
_CLOCKS: dict[str, Callable[[Place], int]] = {
    "%clock": lambda warp: warp.machine.executed & 0xFFFFFFFF,
    "%clock_hi": lambda warp: warp.machine.executed >> 32,
    "%clock64": lambda warp: warp.machine.executed,
    "%globaltimer": lambda warp: warp.machine.executed,
    "%globaltimer_lo": lambda warp: warp.machine.executed & 0xFFFFFFFF,
    "%globaltimer_hi": lambda warp: warp.machine.executed >> 32,
}
"""Time is instructions executed so far; it passes for all warps at once."""
