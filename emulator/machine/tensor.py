"""Tensor memory of a CTA (PTX ISA 9.7.16.1) and the allocation of its columns (9.7.16.7.1)."""

from __future__ import annotations

from collections import deque
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.machine.conditions import Condition, Resource
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.machine import Machine
from schedgen.emulator.ptx.tree import Instruction

ROWS = 128
COLUMNS = 512


class TensorMemory(Resource):
    """128 lanes × 512 columns of 32 bits.

    ``cells`` (128, 512) uint32; ``owner`` (512,) int16, number of the allocation that holds a
    column, or -1.

    Args:
        machine: the launch.
        title: how messages name the CTA.
    """

    def __init__(self, machine: Machine, title: str) -> None:
        super().__init__()
        self._machine = machine
        self._title = title
        self.owner: NDArray[np.int16] = np.full(COLUMNS, -1, np.int16)
        self._live: dict[int, tuple[int, Instruction]] = {}
        self._next = 0
        self._last = COLUMNS
        self._relinquished: int | None = None
        self._group: tuple[int, int] | None = None
        self.granted: deque[tuple[int, int]] = deque()
        """First columns and sizes of allocations whose warp has not returned from them."""

    @cached_property
    def cells(self) -> NDArray[np.uint32]:
        """The memory; made at the first use."""
        return np.full((ROWS, COLUMNS), 0x01010101 * self._machine.poison, np.uint32)

    def use(self, group: int, where: Instruction) -> None:
        """Notes the ``.cta_group`` of an instruction.

        Raises:
            EmulationError: C15: another one was used before.
        """
        if self._group is None:
            self._group = (group, where.line)
        elif self._group[0] != group:
            self._machine.broken(
                where,
                "C15",
                f"cta_group::{group}, but PTX line {self._group[1]} uses cta_group::"
                f"{self._group[0]}; all tcgen05 instructions of a kernel use one",
            )

    def fits(self, columns: int) -> bool:
        """Whether an allocation that is allowed would not have to wait."""
        return any(
            bool((self.owner[first : first + columns] < 0).all())
            for first in range(0, COLUMNS - columns + 1, columns)
        )

    def grant(self, columns: int, where: Instruction) -> None:
        """Allocates columns that fit for a warp that will `take` them.

        Raises:
            EmulationError: C12.
        """
        for first in range(0, COLUMNS - columns + 1, columns):
            if (self.owner[first : first + columns] < 0).all():
                self._occupy(first, columns, where)
                self.granted.append((first, columns))
                return

    def take(self, columns: int, where: Instruction) -> int:
        """The first of the columns that were granted.

        Raises:
            EmulationError: C12: the warp of the peer CTA asked for another number.
        """
        first, given = self.granted.popleft()
        if given != columns:
            raise self._broken(where, "C12", f"{columns} columns, the peer CTA allocates {given}")
        return first

    def check(self, columns: int, where: Instruction) -> None:
        """Whether so many columns may be asked for.

        Raises:
            EmulationError: C12.
        """
        if columns not in (32, 64, 128, 256, 512):
            raise self._broken(
                where, "C12", f"{columns} columns; allowed are powers of two in 32…512"
            )
        if self._relinquished is not None:
            self._machine.broken(
                where,
                "C12",
                f"allocation after relinquish_alloc_permit (PTX line {self._relinquished})",
            )
        if columns > self._last:
            self._machine.broken(
                where,
                "C12",
                f"{columns} columns after an allocation of {self._last}; the count must not grow",
            )

    def until(self, columns: int) -> Condition:
        """The condition that so many columns may be free."""
        return Condition(
            self,
            lambda: bool(self.granted) or self.fits(columns),
            lambda: (
                f"tcgen05.alloc of {columns} columns in {self._title}; allocated: "
                f"{self._allocated()}"
            ),
        )

    def held(self, first: int, columns: int, where: Instruction) -> None:
        """Checks that columns are an allocation.

        Raises:
            EmulationError: they are not one.
        """
        live = self._live.get(first)
        if live is None or live[0] != columns:
            raise self._broken(
                where,
                "C12",
                f"{columns} columns at column {first} are no allocation; allocated: "
                f"{self._allocated()}",
            )

    def free(self, first: int, columns: int, where: Instruction) -> None:
        """Frees an allocation.

        Raises:
            EmulationError: it is not one.
        """
        self.held(first, columns, where)
        del self._live[first]
        self.owner[first : first + columns] = -1
        self._machine.events += 1
        self.changed()

    def relinquish(self, where: Instruction) -> None:
        """Gives up the right to allocate."""
        self._relinquished = where.line

    def ended(self) -> None:
        """The CTA has ended.

        Raises:
            EmulationError: C14: something is still allocated.
        """
        for first, (columns, where) in self._live.items():
            problem = (
                f"{columns} columns at column {first} are not deallocated when {self._title} exits"
            )
            self._machine.broken(where, "C14", problem)

    def _occupy(self, first: int, columns: int, where: Instruction) -> None:
        self._live[first] = (columns, where)
        self._last = columns
        self.owner[first : first + columns] = self._next
        self._next += 1
        self._machine.events += 1
        self.changed()

    def _allocated(self) -> str:
        live = [
            f"{self._live[first][0]} columns at column {first} (PTX line "
            f"{self._live[first][1].line})"
            for first in sorted(self._live)
        ]
        return ", ".join(live) or "nothing"

    def _broken(self, where: Instruction, rule: str, problem: str) -> EmulationError:
        return EmulationError(f"PTX line {where.line}: {where.name}: {problem} (rule {rule})")
