"""The grid of a launch: makes clusters resident, their CTAs, memories and warps."""

from __future__ import annotations

from schedgen.emulator.machine.block import Block, Cluster
from schedgen.emulator.machine.lanes import LANES
from schedgen.emulator.machine.machine import Machine, block_number, cluster_number
from schedgen.emulator.machine.memory import Flat
from schedgen.emulator.machine.program import Program
from schedgen.emulator.machine.warp import Warp


class Grid:
    """The clusters and warps of a launch.

    Attributes:
        machine: what they share.
        program: what the warps execute.
        ready: warps that can run.
        resident: clusters that have been started and not ended, with their warps.
        started: clusters so far.
    """

    def __init__(self, machine: Machine, program: Program) -> None:
        self.machine = machine
        self.program = program
        self.ready: list[Warp] = []
        self.resident: dict[Cluster, list[Warp]] = {}
        self.started = 0

    def queue(self, warp: Warp) -> None:
        """Lets a warp run when it is chosen."""
        if not warp.queued:
            warp.queued = True
            self.ready.append(warp)

    def start(self) -> bool:
        """Starts the next cluster, if there is one and enough processors are free."""
        machine = self.machine
        shape = machine.shape
        size = shape.cluster_size
        if (len(self.resident) + 1) * size > max(machine.processors, size):
            return False
        first = machine.cancel()
        if first is None:
            return False
        number = cluster_number(shape.grid, shape.cluster, block_number(shape.grid, first))
        everyone: list[Warp] = []
        cluster = Cluster(machine, number, shape.cluster, everyone)
        self.started += 1
        self.resident[cluster] = everyone
        width, height, _ = shape.cluster
        members: list[list[Warp]] = [[] for _ in range(size)]
        for rank, warps in enumerate(members):
            x, y, z = first
            index = (x + rank % width, y + rank // width % height, z + rank // (width * height))
            number = block_number(shape.grid, index)
            cluster.blocks.append(Block(cluster, number, rank, index, warps))
        for block, warps in zip(cluster.blocks, members, strict=True):
            self._fill(block, warps)
            everyone += warps
        return True

    def _fill(self, block: Block, warps: list[Warp]) -> None:
        """Makes the warps of a CTA."""
        shape = self.machine.shape
        for rank in range(shape.warps):
            warp = Warp(block, warps, rank, self.program)
            if shape.local:
                warp.local = Flat.private(LANES * shape.local, f"local memory of {warp.title}")
            warps.append(warp)
            self.queue(warp)
