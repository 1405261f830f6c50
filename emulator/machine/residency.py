"""Makes clusters resident: their CTAs, memories and warps."""

from __future__ import annotations

from schedgen.emulator.machine.barriers import BARRIERS, ClusterBarrier, NamedBarrier
from schedgen.emulator.machine.block import Block, Cluster
from schedgen.emulator.machine.lanes import LANES
from schedgen.emulator.machine.machine import Machine, block_number, cluster_number
from schedgen.emulator.machine.memory import Flat
from schedgen.emulator.machine.registers import Registers
from schedgen.emulator.machine.tensor import TensorMemory
from schedgen.emulator.machine.warp import Warp


def start(machine: Machine) -> bool:
    """Starts the next cluster, if there is one and enough processors are free."""
    shape = machine.shape
    size = shape.cluster_size
    if (len(machine.resident) + 1) * size > max(machine.processors, size):
        return False
    first = machine.cancel()
    if first is None:
        return False
    number = cluster_number(shape.grid, shape.cluster, block_number(shape.grid, first))
    cluster = Cluster(machine, number, shape.cluster)
    cluster.barrier = ClusterBarrier(cluster)
    machine.started += 1
    machine.resident.append(cluster)
    width, height, _ = shape.cluster
    for rank in range(size):
        x, y, z = first
        index = (x + rank % width, y + rank // width % height, z + rank // (width * height))
        cluster.blocks.append(_block(cluster, rank, index))
    for block in cluster.blocks:
        _warps(machine, block)
    return True


def _block(cluster: Cluster, rank: int, index: tuple[int, int, int]) -> Block:
    shape = cluster.machine.shape
    block = Block(cluster, block_number(shape.grid, index), rank, index, shape.shared)
    block.barriers = [NamedBarrier(block, at) for at in range(BARRIERS)]
    block.tensor = TensorMemory(block)
    return block


def _warps(machine: Machine, block: Block) -> None:
    shape = machine.shape
    for rank in range(shape.warps):
        warp = Warp(block, rank, block.number * shape.warps + rank, machine.program)
        if shape.local:
            warp.local = Flat.private(LANES * shape.local, f"local memory of {warp.title}")
        block.warps.append(warp)
        machine.queue(warp)
    block.registers = Registers(block, shape.registers, known=shape.known_registers)
