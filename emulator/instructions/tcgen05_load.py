"""tcgen05.ld and tcgen05.st between tensor memory and registers (PTX ISA 9.7.16.8).

Both take effect when the scheduler says so: a load at the latest when an instruction touches one of
its registers, both at the latest in tcgen05.wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from schedgen.emulator.instructions.forms import Form
from schedgen.emulator.instructions.in_flight import flight, promise
from schedgen.emulator.instructions.operands import address, items, uniform
from schedgen.emulator.instructions.table import Environment, Execute, builds
from schedgen.emulator.instructions.tcgen05_operands import FIRST, Claim
from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.layouts.tensor_memory import COLUMNS, SHAPES, moved, moved_lanes
from schedgen.emulator.machine.lanes import LANES, Decoder, Lanes, error, gathered
from schedgen.emulator.machine.steps import WarpOperation
from schedgen.emulator.machine.switches import LaneInAddress
from schedgen.emulator.order.tracker import Cells, Queue, Space
from schedgen.emulator.ptx.tree import Immediate, Instruction, Operand, Register

if TYPE_CHECKING:
    from schedgen.emulator.machine.warp import Warp

# Python 3.11 takes as long to find a member in its enumeration as for several calls.
_TENSOR = Space.TENSOR
_TMEM_LOAD, _TMEM_STORE = Queue.TMEM_LOAD, Queue.TMEM_STORE
_OF_THE_WARP = LaneInAddress.OF_THE_WARP

_NUMBERS = tuple(f"x{1 << power}" for power in range(8))
_LOW = np.uint32(0xFFFF)


class _Access:
    """Shape of a load or store, as its modifiers say it.

    Attributes:
        columns: from ``taddr`` on, those of the second half included.
        lanes: that it touches.
        plain: whether registers are columns of the 32 lanes.
    """

    __slots__ = (
        "_tracked", "columns", "half", "lanes", "number", "packed", "plain", "registers", "shape",
    )  # fmt: skip

    def __init__(self, shape: str, number: int, packed: bool, half: int) -> None:
        self.shape = shape
        self.number = number
        self.packed = packed
        self.half = half
        self.registers = SHAPES[shape].registers * number
        self.lanes = SHAPES[shape].lanes
        self.plain = shape == "32x32b" and not packed
        self.columns = moved_lanes(shape, number, packed=packed)[1] + half
        self._tracked: dict[int, tuple[NDArray[np.int64], int]] = {}

    def cells(self) -> NDArray[np.int64]:
        return moved(self.shape, self.number, packed=self.packed, half=self.half)

    def tracked(self, start: int) -> tuple[NDArray[np.int64], int]:
        """The cells from one of them on, as the race checker has them."""
        found = self._tracked.get(start)
        if found is None:
            found = _tracked(self.shape, self.number, self.packed, self.half, start)
            self._tracked[start] = found
        return found


@lru_cache(maxsize=4096)
def _tracked(
    shape: str, number: int, packed: bool, half: int, start: int
) -> tuple[NDArray[np.int64], int]:
    """The same array for the same cells."""
    lanes, width = moved_lanes(shape, number, packed=packed, half=half)
    index = lanes + start
    index.flags.writeable = False
    return index, width


class _Place:
    """Where a warp accesses tensor memory: checked, for one ``taddr``."""

    __slots__ = ("_access", "_claim", "_column", "_lane", "_where", "tracked", "warp")

    def __init__(self, warp: Warp, access: _Access, taddr: int, where: Instruction) -> None:
        lane, column = taddr >> 16, taddr & 0xFFFF
        first = LANES * (warp.rank % 4)
        if lane < LANES and warp.machine.switches.lane_in_address is _OF_THE_WARP:
            lane += first
        if lane != first and (lane != first + 16 or access.lanes == LANES):
            allowed = (first,) if access.lanes == LANES else (first, first + 16)
            raise error(
                where,
                f"tensor-memory address {taddr:#010x} begins in lane {taddr >> 16}; {warp.title} "
                f"reaches lanes {first} to {first + LANES - 1} and .{access.shape} begins in lane "
                f"{' or '.join(map(str, allowed))} (rule C16)",
            )
        self.warp = warp
        self._access = access
        self._where = where
        self._lane = lane
        self._column = column
        self._claim = Claim(warp.block, column, access.columns, f".{access.shape}", where)
        start = lane * COLUMNS + column
        self.tracked = access.tracked(start) if warp.machine.tracking else None

    def report(self, handle: int, *, write: bool) -> None:
        """Tells the race checker."""
        if self.tracked is not None:
            index, width = self.tracked
            cells = Cells(_TENSOR, self.warp.block.number, index, width)
            self.warp.machine.tracker.access(handle, cells, write=write)

    def load(self) -> Lanes:
        """(registers, 32) words."""
        self._claim.check(self._where)
        access, memory = self._access, self.warp.block.tensor.cells
        lane, column = self._lane, self._column
        if access.plain:
            window = memory[lane : lane + LANES, column : column + access.number]
            return np.ascontiguousarray(window.T)
        cells = access.cells() + (lane * COLUMNS + column)
        found: Any = memory.reshape(-1)[cells]
        if access.packed:
            found = (found & _LOW) | memory.reshape(-1)[cells + 1] << np.uint32(16)
        return found

    def store(self, words: Lanes) -> None:
        """Puts (registers, 32) words."""
        self._claim.check(self._where)
        access, memory = self._access, self.warp.block.tensor.cells
        lane, column = self._lane, self._column
        if access.plain:
            memory[lane : lane + LANES, column : column + access.number] = words.T
            return
        cells = access.cells() + (lane * COLUMNS + column)
        if access.packed:
            memory.reshape(-1)[cells + 1] = words >> np.uint32(16)
            words = words & _LOW
        memory.reshape(-1)[cells] = words


class _Load(WarpOperation):
    """Owner of the registers of a tcgen05.ld."""

    __slots__ = ("_left", "_place", "_words")

    def __init__(self, place: _Place, where: Instruction, slots: list[int]) -> None:
        super().__init__(place.warp, "tcgen05.ld", where.line, _TMEM_LOAD)
        self._place = place
        self._words: Lanes | None = None
        self._left = {index for index, slot in enumerate(slots) if slot >= 0}

    def execute(self) -> None:
        self._words = self._place.load()
        self._place.report(self.handle, write=False)

    def lanes(self, index: int) -> Lanes:
        return self.several((index,))[0]

    def several(self, indices: Sequence[int]) -> Sequence[Lanes]:
        """Registers are touched: the load executes now if it has not (9.7.16.6.4.5)."""
        machine = self.warp.machine
        if self._words is None:
            machine.operations.run(machine.operations.pending.index(self))
        assert self._words is not None
        if not self._left.isdisjoint(indices):
            self._left.difference_update(indices)
            if not self._left and self.handle >= 0:
                machine.tracker.consumed(self.handle)
        return [self._words[index] for index in indices]


class _Store(WarpOperation):
    __slots__ = ("_place", "_words")

    def __init__(self, place: _Place, where: Instruction, words: Lanes) -> None:
        super().__init__(place.warp, "tcgen05.st", where.line, _TMEM_STORE)
        self._place = place
        self._words = words

    def execute(self) -> None:
        self._place.store(self._words)
        self._place.report(self.handle, write=True)


@builds("tcgen05.ld")
def _ld(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    if form.flag("red"):
        raise form.error(".red exists on sm_103 and sm_110 only")
    access = _access(form, "ld", "pack::16b", 2)
    taddr = address(form.operands[1], decoder, instruction)
    slots = [_slot(form, one) for one in items(form.operands[0])]
    _check_count(form, access, len(slots))

    def run(warp: Warp) -> None:
        at = uniform(warp, taddr(warp), "taddr", instruction, "C16")
        place = _Place(warp, access, at, instruction)
        load = _Load(place, instruction, slots)
        promise(warp, load, slots)
        flight(warp).loads.add(load)
        warp.machine.operations.issue(load)

    return run


@builds("tcgen05.st")
def _st(instruction: Instruction, decoder: Decoder, environment: Environment) -> Execute:
    form = Form(instruction, decoder, environment)
    access = _access(form, "st", "unpack::16b", 1)
    taddr = address(form.operands[0], decoder, instruction)
    sources = items(form.operands[-1])
    _check_count(form, access, len(sources))
    reads = [decoder.read(one, "b32", instruction) for one in sources]

    def run(warp: Warp) -> None:
        at = uniform(warp, taddr(warp), "taddr", instruction, "C16")
        place = _Place(warp, access, at, instruction)
        words = gathered([read(warp) for read in reads]).reshape(-1, LANES)
        store = _Store(place, instruction, words)
        flight(warp).stores.add(store)
        warp.machine.operations.issue(store)

    return run


def _access(form: Form, kind: str, pack: str, imm: int) -> _Access:
    """Shape and number. ``imm`` is the place of immHalfSplitoff among the operands."""
    if form.environment.architecture < FIRST:
        raise form.error(f"tcgen05 needs sm_{FIRST}a, not {form.environment.target}")
    for name in (kind, "sync", "aligned", "b32"):
        form.choose(name)
    shape = form.choose(*SHAPES)
    number = int(form.choose(*_NUMBERS)[1:])
    packed = form.flag(pack)
    half = 0
    split = shape == "16x32bx2"
    form.finish(3 if split else 2)
    if split:
        match form.operands[imm]:
            case Immediate(int(value)):
                half = value
            case _:
                raise form.error("immHalfSplitoff is an integer literal")
    access = _Access(shape, number, packed, half)
    try:
        access.cells()
    except LayoutError as problem:
        raise form.error(str(problem)) from None
    return access


def _slot(form: Form, operand: Operand) -> int:
    """Slot of a destination, -1 for ``_``."""
    if not isinstance(operand, Register):
        raise form.error(f"{operand} is no destination")
    if operand.name == "_":
        return -1
    if operand.name not in form.decoder.slot:
        raise form.error(f"register {operand.name} is not declared")
    return form.decoder.slot[operand.name]


def _check_count(form: Form, access: _Access, count: int) -> None:
    if count != access.registers:
        raise form.error(
            f"{count} registers; .{access.shape}.x{access.number} moves {access.registers}"
        )
