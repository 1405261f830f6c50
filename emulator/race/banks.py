"""Bank conflicts: in how many passes the accesses of warps to shared memory are served.

Shared memory has 32 banks of 4 bytes, and a pass (NVIDIA's profilers call it a wavefront) takes one
word from each. Lanes that want one word share it; lanes that want several words of a bank wait for
each other. A request of more than 128 bytes is several: lanes with 8 bytes each are served half a
warp at a time, lanes with 16 bytes a quarter, and conflicts are only among those that are served
together; twice as many are in a load in which all lanes want the same as a neighbour of theirs.
Which words a request wants is known from its addresses, whatever executes it, so this is a count
and no estimate. It is what Nsight Compute counts on an H200 for all of 264 patterns
(`benchmarks/micro/banks.cu`). Bulk copies and products have other ways to shared memory and no
lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from schedgen.emulator.instructions.memory import access_of
from schedgen.emulator.instructions.operands import address
from schedgen.emulator.launched import Lines, module_of
from schedgen.emulator.machine.addresses import SHARED_WINDOW, spaces
from schedgen.emulator.machine.block import RANK_SHIFT
from schedgen.emulator.machine.lanes import LANES, Decoder, Read
from schedgen.emulator.machine.policies import RoundRobin
from schedgen.emulator.machine.program import Decoded
from schedgen.emulator.machine.warp import Warp
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.ptx.tree import Instruction
from schedgen.emulator.race.places import Place

if TYPE_CHECKING:
    from schedgen.emulator.emulation import Emulator
    from schedgen.emulator.launch.capture import Launch

BANKS, WORD = 32, 4
_ROW_BYTES, _ROWS = 16, 8
"""Of a matrix of ldmatrix and stmatrix: each lane has the address of a row."""
_MATRICES = {"x1": 1, "x2": 2, "x4": 4}
_OTHERS = frozenset({"async", "bulk"})
"""Stores to another CTA that report to its mbarrier, and fills of shared memory: not of lanes."""
_NEIGHBOURS = (1, 2)
"""Bits of the number of a lane; with others profilers show no difference."""
_OFFSET = (1 << RANK_SHIFT) - 1


class Passes(NamedTuple):
    """Passes of the port of shared memory, and how many there would be without bank conflicts."""

    taken: int
    least: int


@lru_cache(maxsize=1 << 14)
def passes(offsets: tuple[int, ...], size: int, load: bool = False) -> Passes:
    """What a request takes.

    Args:
        offsets: in bytes, of each lane; -1 for lanes that do not access shared memory.
        size: bytes of each lane, a power of two up to 16.
        load: whether it is an `ld`.
    """
    together = LANES if size <= WORD else LANES * WORD // size
    if load and size > WORD and any(_agree(offsets, bit) for bit in _NEIGHBOURS):
        together *= 2
    taken = least = 0
    for first in range(0, len(offsets), together):
        words = {
            (offset + more) // WORD
            for offset in offsets[first : first + together]
            if offset >= 0
            for more in range(0, size, WORD)
        }
        each = [0] * BANKS
        for word in words:
            each[word % BANKS] += 1
        taken += max(each)
        least += -(-len(words) // BANKS)
    return Passes(taken, least)


def _agree(offsets: tuple[int, ...], bit: int) -> bool:
    """Whether each lane wants what the lane wants whose number differs in one bit."""
    return all(
        one == offsets[lane ^ bit] or one < 0 or offsets[lane ^ bit] < 0
        for lane, one in enumerate(offsets)
    )


@dataclass(slots=True)
class _Count:
    """Of a line of PTX."""

    requests: int = 0
    taken: int = 0
    least: int = 0


@dataclass(frozen=True, slots=True)
class Accesses:
    """Accesses of one line of the source to shared memory, by one kind of instruction.

    Attributes:
        kernel: its name.
        place: the first instruction of them.
        instruction: its name.
        lines: of PTX, of all such instructions that the line became.
        requests: warp instructions that accessed shared memory, of all launches.
        taken, least: passes that they took, and would take without bank conflicts.
    """

    kernel: str
    place: Place
    instruction: str
    lines: tuple[int, ...]
    requests: int
    taken: int
    least: int

    @property
    def ways(self) -> float:
        """How many times as long as without bank conflicts they took."""
        return self.taken / self.least


@dataclass
class _Kernel:
    name: str
    lines: Lines
    counts: dict[int, _Count] = field(default_factory=dict[int, _Count])


class Banks:
    """Counts passes of all launches, executing each a second time: for `Emulator.after`."""

    def __init__(self) -> None:
        self._kernels: dict[tuple[str, int], _Kernel] = {}

    def __call__(self, emulator: Emulator, launch: Launch) -> None:
        """Executes a launch again, round-robin and from the same contents of memory, and counts."""
        key = launch.kernel, hash(launch.ptx)
        if key not in self._kernels:
            self._kernels[key] = _Kernel(launch.kernel, Lines(module_of(launch.ptx)))
        counts = self._kernels[key].counts
        decoded = Decoded()
        decoded.watch = lambda instruction, decoder: watching(instruction, decoder, counts)
        emulator.again(launch, RoundRobin(), Checker, decoded)

    @property
    def accesses(self) -> tuple[Accesses, ...]:
        """By line of the source, those first that lose the most passes."""
        every = (one for kernel in self._kernels.values() for one in _by_place(kernel))
        return tuple(sorted(every, key=lambda one: one.least - one.taken))

    @property
    def passes(self) -> Passes:
        """Of all accesses."""
        every = self.accesses
        return Passes(sum(one.taken for one in every), sum(one.least for one in every))


def _by_place(kernel: _Kernel) -> Iterator[Accesses]:
    names = {one.line: one.name for one in kernel.lines.module.kernels[kernel.name].body}
    groups: dict[tuple[object, ...], list[int]] = {}
    for line in sorted(kernel.counts):
        groups.setdefault((kernel.lines.stack(line) or line, names[line]), []).append(line)
    for (_, name), lines in groups.items():
        every = [kernel.counts[line] for line in lines]
        place = Place.at(kernel.lines, lines[0])
        yield Accesses(
            kernel.name,
            place,
            str(name),
            tuple(lines),
            sum(one.requests for one in every),
            sum(one.taken for one in every),
            sum(one.least for one in every),
        )


def watching(
    instruction: Instruction, decoder: Decoder, counts: dict[int, _Count]
) -> Callable[[Warp], None] | None:
    """What counts an instruction when a warp is about to execute it; None for others."""
    known = _form(instruction)
    if known is None:
        return None
    operand, size, lanes = known
    read = address(instruction.operands[operand], decoder, instruction)
    load = instruction.opcode == "ld"

    def look(warp: Warp) -> None:
        offsets = _offsets(warp, read, lanes)
        if max(offsets) < 0:
            return
        # Slots of a ring lie apart by whole rows of banks: their conflicts are the same.
        lowest = min(offset for offset in offsets if offset >= 0) // (BANKS * WORD) * BANKS * WORD
        count = counts.setdefault(instruction.line, _Count())
        found = passes(tuple(max(offset - lowest, -1) for offset in offsets), size, load)
        count.requests += 1
        count.taken += found.taken
        count.least += found.least

    return look


def _form(instruction: Instruction) -> tuple[int, int, int] | None:
    """The operand with the addresses, bytes of each lane, and how many lanes have an address."""
    opcode, modifiers = instruction.opcode, instruction.modifiers
    if opcode in ("ldmatrix", "stmatrix"):
        rows = _ROWS * (2 if "m16n16" in modifiers else 1)
        number = next(_MATRICES[one] for one in modifiers if one in _MATRICES)
        return (1 if opcode == "ldmatrix" else 0), _ROW_BYTES, rows * number
    if opcode not in ("ld", "st") or not _OTHERS.isdisjoint(modifiers):
        return None
    if spaces(modifiers) not in ("", "shared", "shared::cta", "shared::cluster"):
        return None
    access, _, _ = access_of(instruction)
    return (1 if opcode == "ld" else 0), access.width * access.count, LANES


def _offsets(warp: Warp, read: Read, lanes: int) -> tuple[int, ...]:
    """In the warp's own shared memory; -1 of lanes that do not execute, or access another one."""
    base = int(warp.block.base)
    found: list[int] = []
    active = warp.active.tolist()[:lanes]
    for value, executes in zip(read(warp).tolist()[:lanes], active, strict=True):
        generic = value >> 60 == SHARED_WINDOW >> 60
        offset = (value & 0xFFFFFFFF if generic else value) - base
        found.append(offset if executes and 0 <= offset <= _OFFSET else -1)
    return tuple(found)
