"""Makes clusters resident: their CTAs, memories and warps."""

from __future__ import annotations

from schedgen.emulator.machine.barriers import BARRIERS, ClusterBarrier, NamedBarrier
from schedgen.emulator.machine.block import Block, Cluster
from schedgen.emulator.machine.lanes import LANES
from schedgen.emulator.machine.machine import Machine
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
    cluster = Cluster(machine, machine.started, shape.cluster)
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
    number = index[0] + shape.grid[0] * (index[1] + shape.grid[1] * index[2])
    block = Block(cluster, number, rank, index, shape.shared)
    block.barriers = [NamedBarrier(block, at) for at in range(BARRIERS)]
    block.tensor = TensorMemory(block)
    return block


def _warps(machine: Machine, block: Block) -> None:
    shape = machine.shape
    each = -(-shape.threads // LANES)
    for rank in range(each):
        warp = Warp(block, rank, block.number * each + rank, machine.program)
        if shape.local:
            warp.local = Flat.private(LANES * shape.local, f"local memory of {warp.title}")
        block.warps.append(warp)
        machine.queue(warp)
    block.registers = Registers(block, shape.registers, known=shape.known_registers)
