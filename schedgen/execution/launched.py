"""What a whole launch takes: what surrounds the main loops, and what all SMs share.

A model of one SM says what its program takes for output tiles. Around that are the launch, what a
first tile takes longer than others, what tiles take beside their programs, and the end, when the
last SM is done; and all SMs share L2 and memory. A machine model has a constant for each of these
where somebody measured it. What it lacks counts for nothing.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

from schedgen.execution.contended import Manner, cycles_of_tiles
from schedgen.kernel import LOADS, Kernel
from schedgen.machine import Machine
from schedgen.program.model import Program
from schedgen.program.operations import Engine

LAUNCH = "launch"
"""Constant: cycles from the end of a launch to the end of the next one, which does nothing."""
FIRST_TILE = "first_tile"
"""Constant: cycles that a launch takes more until its main loop has what it loads first."""
NEXT_TILE = "next_tile"
"""Constant: cycles that an output tile that comes after another one takes more than its program."""
TAIL = "tail"
"""Constant: cycles that a launch on all SMs takes longer than on one that has as much to do; where
some of them work, it is a part of that.
"""
L2_RATE, MEMORY_RATE = "l2_rate", "memory_rate"
"""Constants: bytes in a cycle that all SMs together get from L2, and from memory."""
FAR, BUSY = "load_far", "load_busy"
"""Constants: cycles that a load takes longer if L2 does not have it, and while other SMs load as
fast as they can."""
L2_BYTES = "l2_bytes"
"""Constant: bytes of tensors that L2 keeps from one launch to the next."""

SHARED = (LAUNCH, FIRST_TILE, NEXT_TILE, TAIL, L2_RATE, MEMORY_RATE, L2_BYTES)
"""Those that do not change what a program takes on an SM that has all for itself."""

LOADED = 48
"""Bytes that an SM loads in a cycle while all of them do, where a model has no `L2_RATE`: products
on an H200 were at 37 (output tiles of 128 x 256) to 63 (64 x 128), by the cycles of
`schedgen.kernels.tiling.MEASURED`."""

_FEW, _MORE = 12, 24
"""Iterations of a tile after which a program is in its steady state, and those that are counted."""


@dataclass(frozen=True, slots=True)
class Work:
    """What a launch has to do: ``tiles`` output tiles of ``trips`` iterations, which ``sms`` SMs
    take in turn; ``bytes`` of tensors, of which L2 has nothing if it is ``cold``.
    """

    tiles: int
    trips: int
    sms: int
    bytes: float = 0.0
    cold: bool = False

    @property
    def turns(self) -> int:
        """Output tiles of the SM that has most."""
        return -(-self.tiles // self.sms)

    @property
    def active(self) -> int:
        """SMs that have any."""
        return min(self.tiles, self.sms)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Cycles on one SM that has all for itself: of an ``iteration``, and of the ``first`` output
    tile and each ``next`` one beside its iterations.
    """

    iteration: float
    first: float
    next: float


def alone(
    program: Program,
    machine: Machine,
    manner: Manner,
    without: Collection[str] = (),
    loads: Literal["near", "far", "busy"] = "near",
) -> Tiles:
    """What a program takes on one SM; its ``loads`` come from L2, from memory, or while all other
    SMs load, too. ``without``: see `schedgen.execution.contended.cycles_per_iteration`.

    Raises SchedgenError for a program that comes to a stop.
    """
    later = constant(machine, {"near": "", "far": FAR, "busy": BUSY}[loads])
    program = _later(program, round(later))
    counted = ((_FEW,), (_FEW + _MORE,), (_FEW, _FEW), (_FEW, _FEW, _FEW))
    one, longer, two, three = (
        cycles_of_tiles(program, machine, manner, trips, without=without) for trips in counted
    )
    iteration = (longer - one) / _MORE
    around = _FEW * iteration
    return Tiles(iteration, one - around, min(two - one, three - two) - around)


def _later(program: Program, cycles: int) -> Program:
    """The program with loads that take so many cycles more."""
    changed = tuple(
        replace(o, latency=(o.latency[0] + cycles, o.latency[1] + cycles))
        if o.engine is Engine.COPY_IN
        else o
        for o in program.operations
    )
    return replace(program, operations=changed) if cycles else program


def launched(tiles: Tiles, kernel: Kernel, machine: Machine, work: Work) -> float:
    """Cycles of a launch that follows its like.

    Iterations take no less than their loads, which the SMs that work get from L2 at the same time,
    and all no less than the tensors from memory, where L2 does not have them. Where teams of warps
    take output tiles in turn, what is around the iterations of one goes on under those of another.
    """
    loaded = sum(o.work.bytes for o in kernel.body if o.kind in LOADS)
    rate = constant(machine, L2_RATE, LOADED * work.sms)
    loop = work.trips * max(tiles.iteration, loaded * work.active / rate)
    first = loop + tiles.first + (constant(machine, FIRST_TILE) if loaded else 0.0)
    later = loop + tiles.next + constant(machine, NEXT_TILE)
    teams = max((number for _, number in kernel.teams), default=1)
    if teams > 1:
        later = max(loop, later / teams)
    loops = first + (work.turns - 1) * max(later, 0.0)
    if work.cold or work.bytes > constant(machine, L2_BYTES, inf):
        loops = max(loops, work.bytes / constant(machine, MEMORY_RATE, inf))
    last = constant(machine, TAIL) * (work.active - 1) / max(work.sms - 1, 1)
    return constant(machine, LAUNCH) + loops + last


def constant(machine: Machine, name: str, otherwise: float = 0.0) -> float:
    """The middle of a constant, or ``otherwise`` if the model has none."""
    found = machine.constant.get(name)
    return otherwise if found is None else float(found.low + found.high) / 2
