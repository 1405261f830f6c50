"""Who owns which bytes when, while a program is executed: its accesses say it of every buffer."""

from __future__ import annotations

from collections.abc import Iterator

from schedgen.kernel import Space
from schedgen.program.model import Program
from schedgen.program.operations import Access, TileOperation
from schedgen.program.sequence import Instance
from schedgen.visualize.occupancy import Occupancy

_Key = tuple[str, str, int]


class Storage:
    """Collects accesses: each version of each piece of a buffer lives from the start of the first
    one to the end of the last one.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.times: dict[_Key, tuple[int, int]] = {}
        self.first: dict[_Key, tuple[Access, int]] = {}

    def touch(
        self,
        operation: TileOperation,
        instance: Instance,
        iteration: int,
        times: tuple[int, int, int],
    ) -> None:
        """``operation`` begins, has read its operands and has its result at ``times``."""
        begin, used, result = times
        for access in operation.accesses:
            if instance.iteration < access.initial:
                continue  # it uses the initial value, which is no storage
            key = access.buffer, access.allocation, instance.number(access.version)
            start, end = self.times.get(key, (begin, begin))
            last = result if access.write else used
            self.times[key] = min(start, begin), max(end, last)
            self.first.setdefault(key, (access, iteration))

    def occupancies(self) -> Iterator[Occupancy]:
        """One for each version of each piece, in order of first use."""
        for key, (start, end) in self.times.items():
            access, iteration = self.first[key]
            allocation = self.program.allocation[access.allocation]
            slot = key[2] % allocation.slots
            address, size = self._place(access, slot)
            yield Occupancy(
                access.buffer,
                allocation.space.value,
                access.allocation if access.order[0] else "",
                slot,
                iteration,
                start,
                end,
                address,
                size,
            )

    def _place(self, access: Access, slot: int) -> tuple[int, int]:
        """Address and size: bytes, columns of tensor memory; registers have no address."""
        allocation = self.program.allocation[access.allocation]
        (row0, row1), (byte0, byte1) = access.rows, access.bytes
        begin = allocation.address + slot * (allocation.size // allocation.slots)
        if allocation.space is Space.SMEM and 0 < byte1 - byte0 < allocation.row_bytes:
            # Some columns of each row: what lies between them is counted, too.
            return begin + row0 * allocation.row_bytes, (row1 - row0) * allocation.row_bytes
        if allocation.space is Space.SMEM:
            return begin + row0 * allocation.row_bytes + byte0, (row1 - row0) * (byte1 - byte0)
        if allocation.space is Space.TMEM:
            return begin + byte0 // 4, -(-(byte1 - byte0) // 4)
        return -1, max(1, -(-(row1 - row0) * (byte1 - byte0) // 512))
