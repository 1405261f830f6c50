"""What tcgen05 instructions have in common: groups of CTAs, tensor memory, its columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from schedgen.emulator.instructions.forms import Form
from schedgen.emulator.layouts.tensor_memory import COLUMNS
from schedgen.emulator.machine.block import Block
from schedgen.emulator.machine.conditions import Condition, Resource
from schedgen.emulator.machine.lanes import error
from schedgen.emulator.order.tracker import Cells, Space
from schedgen.emulator.ptx.tree import Instruction

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

_LANES = np.arange(128, dtype=np.int64) * COLUMNS
_FREE = np.int16(-1).tobytes()
FIRST = 100
"""The first architecture with tensor memory."""


def group_of(form: Form) -> int:
    """What follows ``.cta_group::``.

    Raises:
        EmulationError: it is missing, or the target has no tensor memory.
    """
    if form.environment.architecture < FIRST:
        raise form.error(f"tcgen05 needs sm_{FIRST}a, not {form.environment.target}")
    return 2 if form.choose("cta_group::1", "cta_group::2") == "cta_group::2" else 1


def blocks_of(warp: Warp, group: int, where: Instruction) -> list[Block]:
    """The executing CTA, or both of its pair in the order of their ranks (9.7.16.5.1).

    Raises:
        EmulationError: the peer has exited or does not exist (C15), or another cta_group was used
            before.
    """
    block = warp.block
    block.tensor.use(group, where)
    if group == 1:
        return [block]
    if block.cluster.size == 1:
        raise error(where, "cta_group::2 in a cluster of one CTA (rule C15)")
    peer = block.cluster.peer(block.rank ^ 1, where)
    return [block, peer] if block.rank < peer.rank else [peer, block]


def tensor_cells(block: Block, column: int, columns: int) -> Cells:
    """All lanes of some columns, for the race checker."""
    return Cells(Space.TENSOR, block.number, _LANES + column, columns)


class Claim:
    """Columns of an allocation that an operation uses, and whether they still belong to it."""

    __slots__ = ("_block", "_column", "_columns", "_owner", "_what")

    def __init__(
        self, block: Block, column: int, columns: int, what: str, where: Instruction
    ) -> None:
        owners = block.tensor.owner[column : column + columns]
        if column + columns > COLUMNS or not len(owners):
            raise error(
                where,
                f"{what} in columns {column} to {column + columns - 1} of tensor memory, which has "
                f"{COLUMNS}",
            )
        self._block = block
        self._column = column
        self._columns = columns
        self._what = what
        self._owner = owners.tobytes()
        # A free column is -1, whose bytes are found much faster than the least number.
        if _FREE in self._owner and int(owners.min()) < 0:
            block.cluster.machine.broken(
                where,
                "C12",
                f"{what} in column {column + int(owners.argmin())} of {block.title}'s tensor "
                "memory, which is not allocated",
            )

    def check(self, where: Instruction) -> None:
        """When the operation executes. The memory is there, whoever may use it.

        Raises:
            EmulationError: the columns were deallocated meanwhile.
        """
        owners = self._block.tensor.owner[self._column : self._column + self._columns]
        if owners.tobytes() != self._owner:
            self._block.cluster.machine.broken(
                where,
                "C14",
                f"{self._what} in columns {self._column} and up of {self._block.title}'s tensor "
                "memory, which was deallocated while this was under way; wait for it first",
            )


class _Pair(Resource):
    """Where two CTAs of a pair meet: the n-th time of one is the n-th time of the other."""

    def __init__(self) -> None:
        super().__init__()
        self.arrived = {0: 0, 1: 0}
        """By the last bit of the rank: how often it has come here."""

    def arrive(self, side: int) -> int:
        """One side comes. Returns its number."""
        self.arrived[side] += 1
        self.changed()
        return self.arrived[side]

    def until(self, side: int, number: int, what: str, block: Block) -> Condition | None:
        """Waits for the other side; None once it has come."""
        if self.arrived[side ^ 1] >= number:
            return None
        return Condition(
            self,
            lambda: self.arrived[side ^ 1] >= number,
            lambda: f"{what} number {number} in the peer of {block.title} (rules C12, C14)",
            tag=number,
        )


def meet(warp: Warp, what: str) -> tuple[int, Condition | None]:
    """Waits until the peer CTA has come to the same kind of instruction as often.

    Returns the number of the meeting, for the ``tag`` of further conditions, and what to wait for.
    """
    block = warp.block
    key = _Pair, block.cluster.number, what, block.rank >> 1
    pair_: _Pair = warp.machine.kept.setdefault(key, _Pair())
    side = block.rank & 1
    resumed = warp.resumed
    number = resumed.tag if resumed is not None else None
    if not isinstance(number, int):
        number = pair_.arrive(side)
    return number, pair_.until(side, number, what, block)
