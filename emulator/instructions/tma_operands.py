"""Operands of bulk copies: places in shared and global memory, tensor maps, destinations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.launch.tensor_map import TensorMap, TensorMapError
from schedgen.emulator.launch.tensor_map_bits import SIGNIFICANT, SIZE, decode
from schedgen.emulator.layouts.descriptors import CHUNK
from schedgen.emulator.layouts.tiles import Block as Part
from schedgen.emulator.machine.addresses import SHARED_WINDOW
from schedgen.emulator.machine.block import RANK_SHIFT, Block
from schedgen.emulator.machine.lanes import EmulationError, error
from schedgen.emulator.machine.machine import Machine
from schedgen.emulator.machine.mbarrier import Mbarrier
from schedgen.emulator.machine.memory import Flat
from schedgen.emulator.order.tracker import Cells, Space
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

# Python 3.11 takes as long to find a member in its enumeration as for several calls.
_SHARED, _GLOBAL = Space.SHARED, Space.GLOBAL

_OFFSET = (1 << RANK_SHIFT) - 1


def lanes_of(warp: Warp) -> list[int]:
    """Numbers of the lanes that execute: bulk copies are issued by single threads."""
    return list(range(32)) if warp.full else np.flatnonzero(warp.active).tolist()


def place(warp: Warp, address: int, where: Instruction, *, remote: bool) -> tuple[Block, int]:
    """CTA and byte offset of an address in shared memory, generic or not.

    Args:
        warp: which executes.
        address: of its lane.
        where: the instruction.
        remote: whether it may be in another CTA of the cluster.

    Raises:
        EmulationError: it is not in shared memory, or in another CTA although that is not allowed.
    """
    if address >> 32:
        if address >> 32 != SHARED_WINDOW >> 32:
            raise error(where, f"the generic address {address:#x} is not in shared memory")
        address &= 0xFFFFFFFF
    block = warp.block
    rank = address >> RANK_SHIFT
    if remote:
        return block.cluster.locate(address, where)
    if rank not in (0, block.rank):
        raise error(
            where,
            f"address {address:#x} is in the CTA of rank {rank}, this one has rank {block.rank}; "
            ".shared::cta means the memory of the executing CTA",
        )
    return block, address & _OFFSET


def check_range(block: Block, offset: int, size: int, align: int, where: Instruction) -> None:
    """A copy of ``size`` bytes must be aligned and inside of the shared memory of a CTA.

    Raises:
        EmulationError: otherwise.
    """
    if offset % align:
        raise error(where, f"shared-memory address {offset:#x} is not a multiple of {align} bytes")
    if offset + size > block.shared.size:
        raise error(
            where,
            f"{size} bytes at shared offset {offset:#x} end beyond {block.shared.name}, which has "
            f"{block.shared.size:#x} bytes",
        )


def check_source(warp: Warp, block: Block, where: Instruction) -> None:
    """When a copy reads shared memory, its CTA should still be there.

    Only a warning: the ISA does not say whether shared memory outlives the CTA for the copies that
    it has issued, and CuTe DSL's Hopper attention exits without a wait for its last store.
    """
    if block.finished:
        warp.machine.warn(
            f"PTX line {where.line}: {where.name} may read shared memory of {block.title} after "
            "the CTA has exited; put cp.async.bulk.wait_group.read 0 before the exit"
        )


def chunks_of(block: Block) -> NDArray[np.void]:
    """Shared memory in units of 16 bytes."""
    return block.shared.views[CHUNK]


def shared_cells(block: Block, offset: int, size: int) -> Cells:
    """``size`` adjacent bytes, for the race checker."""
    return Cells(_SHARED, block.number, slice(offset, offset + size))


def global_part(warp: Warp, part: Part, where: Instruction) -> tuple[NDArray[np.uint8], Cells]:
    """A view of the strided bytes of a tensor, and what the race checker calls them.

    Raises:
        EmulationError: some are in no registered tensor.
    """
    region = global_range(warp, part.address, part.end - part.address, where)
    view: NDArray[np.uint8] = np.ndarray(
        part.shape, np.uint8, region.bytes, part.address - region.origin, part.strides
    )
    return view, Cells(_GLOBAL, -1, part.rows(), part.shape[-1])


def global_range(warp: Warp, address: int, size: int, where: Instruction) -> Flat:
    """The registered tensor that contains ``size`` bytes from a global address on.

    Raises:
        EmulationError: there is none.
    """
    region = warp.machine.memory.region(address, where)
    beyond = address + size - (region.origin + region.size)
    if beyond > 0:
        raise error(
            where,
            f"{size} bytes from global address {address:#x} on end {beyond} bytes behind "
            f"{region.name}; check the shape and strides that were passed",
        )
    return region


@dataclass(frozen=True, slots=True)
class MapOperand:
    """A tensor map as it was when a copy was issued."""

    tensor: TensorMap
    memory: Flat
    offset: int
    data: bytes

    def check_begin(self, machine: Machine, where: Instruction) -> None:
        """A map through which is loaded has to begin in a tensor, whatever is loaded.

        An H200 reports an illegal access else. Stores need not: quack and FlashAttention-4 store
        sequences of different lengths through maps that begin far before their tensors, and say
        that loads cannot (quack's copy_utils.py).

        Raises:
            EmulationError: it does not.
        """
        try:
            machine.memory.region(self.tensor.address, where)
        except EmulationError:
            problem = f"the tensor map begins at {self.tensor.address:#x}, where no tensor is"
            raise error(where, problem) from None

    def check_unchanged(self, machine: Machine, where: Instruction) -> None:
        """A map must not change while a copy that uses it is under way (X12, T13).

        Raises:
            EmulationError: it did.
        """
        now = self.memory.bytes[self.offset : self.offset + SIGNIFICANT].tobytes()
        if now != self.data:
            machine.broken(
                where,
                "T13",
                "the tensor map was rewritten while this copy was under way; wait for the copy "
                "first",
            )


def tensor_map(warp: Warp, address: int, where: Instruction) -> MapOperand:
    """The tensor map at a generic address.

    Raises:
        EmulationError: there is none, or it is not understood.
    """
    if address % 64:
        raise error(where, f"tensor map at {address:#x}, which is not a multiple of 64 bytes")
    memory = global_range(warp, address, SIZE, where)
    offset = address - memory.origin
    data = memory.bytes[offset : offset + SIGNIFICANT].tobytes()
    try:
        found = _decoded(data)
    except TensorMapError as problem:
        raise error(where, f"tensor map at {address:#x}: {problem}") from None
    return MapOperand(found, memory, offset, data)


@lru_cache(maxsize=256)
def _decoded(data: bytes) -> TensorMap:
    return decode(data)


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a copy writes, and the mbarrier on which it reports that."""

    block: Block
    offset: int
    signal: Block
    barrier: int
    """Byte offset of the mbarrier in ``signal``."""

    def mbarrier(self, where: Instruction) -> Mbarrier:
        """The mbarrier, while both CTAs are there.

        Raises:
            EmulationError: it is not live (B2), or a CTA has exited (N9).
        """
        self.signal.cluster.peer(self.block.rank, where)
        self.signal.cluster.peer(self.signal.rank, where)
        return self.signal.mbarrier(self.barrier, where)


def destinations(
    warp: Warp,
    target: tuple[Block, int],
    barrier: tuple[Block, int],
    mask: int | None,
    group: int,
    where: Instruction,
) -> list[Destination]:
    """The CTAs that a copy writes to, by rules T3 and T4.

    Args:
        warp: which executes.
        target: CTA and offset of the destination operand.
        barrier: of the mbarrier operand.
        mask: of the ranks with ``.multicast::cluster``, else None.
        group: what follows ``.cta_group::``.
        where: the instruction.

    Raises:
        EmulationError: a rule is broken.
    """
    block, offset = target
    owner, place_ = barrier
    if mask is None:
        allowed = {block.rank} if group == 1 else {block.rank, block.rank ^ 1}
        if owner.rank not in allowed:
            raise error(
                where,
                f"the mbarrier is in the CTA of rank {owner.rank}, the destination in that of rank "
                f"{block.rank}; with cta_group::{group} it must be in the same CTA"
                + (" or its peer (rule T4)" if group == 2 else " (rule T3)"),
            )
        return [Destination(block, offset, owner, place_)]
    cluster = warp.block.cluster
    if not mask or mask >> cluster.size:
        raise error(where, f"CTA mask {mask:#x} for a cluster of {cluster.size} CTAs")
    found: list[Destination] = []
    for rank in range(cluster.size):
        if mask >> rank & 1:
            signal = rank if group == 1 else (rank & ~1) | (owner.rank & 1)
            found.append(
                Destination(cluster.peer(rank, where), offset, cluster.peer(signal, where), place_)
            )
    return found


def signed(lanes: Any, lane: int) -> int:
    """A coordinate: 32 bits of a lane with their sign."""
    value = int(lanes[lane]) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value
