"""CTAs and clusters: shared memory and what lives in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.machine.barriers import BARRIERS, ClusterBarrier, NamedBarrier
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.machine import POISON, Machine
from schedgen.emulator.machine.mbarrier import SIZE, Mbarrier
from schedgen.emulator.machine.memory import Flat, Offsets
from schedgen.emulator.machine.operations import Groups, InOrder
from schedgen.emulator.machine.participants import Participant
from schedgen.emulator.machine.registers import Registers
from schedgen.emulator.machine.spots import spot_of
from schedgen.emulator.machine.tensor import TensorMemory
from schedgen.emulator.order.tracker import Space
from schedgen.emulator.ptx.tree import Instruction

RANK_SHIFT = 24
"""Bits of a ``.shared`` address below the rank of its CTA in the cluster."""


class SharedMemory(Flat):
    """Shared memory of a CTA, with the mbarriers in it; all bytes are ``poison`` at the start."""

    def __init__(self, size: int, number: int, title: str, poison: int = POISON) -> None:
        data = np.full(-(-size // 16) * 16, poison, np.uint8)
        super().__init__(data, size, f"shared memory of {title}", Space.SHARED, cta=number)
        self.barriers: dict[int, Mbarrier] = {}
        self._guard: NDArray[np.bool_] = np.zeros(len(data) // SIZE + 1, np.bool_)
        self._low = size
        self._high = 0

    def plain(self, offsets: Offsets, size: int, where: Instruction) -> None:
        """Checks that ordinary accesses touch no live mbarrier (B2).

        Raises:
            EmulationError: one does.
        """
        if not self.barriers:
            return
        spot = spot_of(offsets)
        low, high = (spot.low, spot.high) if spot is not None else (offsets.min(), offsets.max())
        if low >= self._high or high + size <= self._low:
            return
        last = offsets + (size - 1)
        hit = self._guard[offsets // SIZE] | self._guard[last // SIZE]
        for middle in range(SIZE, size - 1, SIZE):
            hit |= self._guard[(offsets + middle) // SIZE]
        if hit.any():
            self._touched(int(offsets[hit][0]), size, where)

    def plain_range(self, start: int, size: int, where: Instruction) -> None:
        """As `plain`, for ``size`` consecutive bytes."""
        if self.barriers and self._guard[start // SIZE : (start + size - 1) // SIZE + 1].any():
            self._touched(start, size, where)

    def install(self, barrier: Mbarrier) -> None:
        """Makes an mbarrier live."""
        self.barriers[barrier.offset] = barrier
        self._guard[barrier.offset // SIZE] = True
        self._low = min(self._low, barrier.offset)
        self._high = max(self._high, barrier.offset + SIZE)

    def remove(self, offset: int) -> None:
        """Ends the life of an mbarrier."""
        del self.barriers[offset]
        self._guard[offset // SIZE] = False

    def _touched(self, offset: int, size: int, where: Instruction) -> None:
        near = min(self.barriers.values(), key=lambda barrier: abs(barrier.offset - offset))
        raise EmulationError(
            f"PTX line {where.line}: {where.name}: {size} bytes at shared offset {offset:#x} touch "
            f"the live {near.title}; invalidate it before its memory is used otherwise (rule B2)"
        )


class Block:
    """A CTA.

    ``number`` is unique in the launch, ``rank`` is %cluster_ctarank, ``index`` %ctaid. Warps know
    their CTA; it sees no more of them than barriers do (``warps``, which join it later).
    """

    def __init__(
        self,
        cluster: Cluster,
        number: int,
        rank: int,
        index: tuple[int, int, int],
        warps: Sequence[Participant],
    ) -> None:
        self.machine = machine = cluster.machine
        self.cluster = cluster
        self.number = number
        self.rank = rank
        self.index = index
        self.title = f"CTA {index}".replace(", ", ",")
        self.shared = SharedMemory(machine.shape.shared, number, self.title, machine.poison)
        self.base = np.uint32(rank << RANK_SHIFT)
        """Shared address of the first byte of this CTA's shared memory."""
        self.warps = warps
        self.barriers = [NamedBarrier(machine, at, self.title, warps) for at in range(BARRIERS)]
        self.tensor = TensorMemory(machine, self.title)
        self.registers = Registers(machine, self.title, warps)
        self.products = InOrder()
        """Operations of its tensor core (tcgen05 mma, cp, shift, commit)."""
        self.warpgroups: dict[int, Groups] = {}
        """wgmma groups of a warpgroup, by its number; see `wgmma_groups`."""

    @property
    def finished(self) -> bool:
        """Whether all of its threads have exited."""
        for warp in self.warps:  # noqa: SIM110 - this is called for each arrival
            if not warp.finished:
                return False
        return True

    def wgmma_groups(self, warpgroup: int) -> Groups:
        """The wgmma groups of a warpgroup."""
        return self.warpgroups.setdefault(warpgroup, Groups("wgmma"))

    def mbarrier(self, offset: int, where: Instruction) -> Mbarrier:
        """The live mbarrier at a byte offset of shared memory.

        Raises:
            EmulationError: there is none (B2), or the offset is not aligned (B1).
        """
        barrier = self.shared.barriers.get(offset)
        if barrier is None:
            known = ", ".join(f"{offset:#x}" for offset in sorted(self.shared.barriers))
            problem = (
                f"no mbarrier is initialized at shared offset {offset:#x} of {self.title} (rule B2)"
                if offset % SIZE == 0
                else f"shared offset {offset:#x} is not a multiple of {SIZE} (rule B1)"
            )
            raise EmulationError(
                f"PTX line {where.line}: {where.name}: {problem}; live ones: {known or 'none'}"
            )
        return barrier

    def ended(self) -> None:
        """All threads have exited.

        Raises:
            EmulationError: C14.
        """
        self.tensor.ended()


class Cluster:
    """CTAs that run at the same time and reach each other's shared memory; ``warps`` are of all."""

    def __init__(
        self,
        machine: Machine,
        number: int,
        shape: tuple[int, int, int],
        warps: Sequence[Participant],
    ) -> None:
        self.machine = machine
        self.number = number
        self.shape = shape
        self.size = shape[0] * shape[1] * shape[2]
        self.blocks: list[Block] = []
        self.barrier = ClusterBarrier(machine, warps)

    @property
    def finished(self) -> bool:
        """Whether all threads have exited."""
        return all(block.finished for block in self.blocks)

    def peer(self, rank: int, where: Instruction) -> Block:
        """The CTA of a rank, which must not have exited.

        Where that is only reported, execution goes on as if its memory were still there.

        Raises:
            EmulationError: there is no such CTA, or N9.
        """
        if not 0 <= rank < self.size:
            raise EmulationError(
                f"PTX line {where.line}: {where.name}: rank {rank} of a cluster of {self.size} CTAs"
            )
        block = self.blocks[rank]
        if block.finished:
            self.machine.broken(
                where,
                "N9",
                f"{block.title} (rank {rank} of the cluster) has exited, so its shared memory is "
                "gone; put a cluster barrier before the exit",
            )
        return block

    def locate(self, address: int, where: Instruction) -> tuple[Block, int]:
        """CTA and byte offset of a ``shared::cluster`` address."""
        return self.peer(address >> RANK_SHIFT, where), address & ((1 << RANK_SHIFT) - 1)
