"""What instructions of a Hopper GPU take: units, cycles of them, and when results are there.

A warp of each warpgroup is on each scheduler, so that one scheduler with a warp of every role
stands for all four. Rates are those of a scheduler, 32 lanes by results per cycle: 16 lanes of ALU
and of each half of the FMA pipe, 4 special functions (CUDA C++ Programming Guide, throughput of
arithmetic instructions, 9.0), and a fourth of the 128 bytes per cycle of shared memory, through
which shuffles go as well. Fixed latencies are in what the assembler says of stalls; others are
constants of the machine model, in its section of launches, with where they were measured.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from enum import StrEnum
from functools import cache

from schedgen.conform.listing import PRODUCTS
from schedgen.conform.listing import Machine as Instruction
from schedgen.errors import SchedgenError
from schedgen.machine import Machine

_PREFIX = "code_"
_WIDTH = re.compile(r"\.(64|128)\b")
_MATRICES = re.compile(r"\.(2|4)$")
_COLUMNS = re.compile(r"\.64x(\d+)x")
"""Of a product's result."""
_OF_REGISTERS = re.compile(r"\s*R\d+, R\d+")
"""Operands of a product whose left one is in registers."""


class Unit(StrEnum):
    """What an instruction keeps busy."""

    ALU = "ALU"
    FMA = "FMA"
    """Either half of the pipe for floating point."""
    HEAVY = "FMA, half"
    """The half that multiplies integers and converts."""
    SPECIAL = "MUFU"
    SHARED = "shared memory"
    BARRIER = "barriers"
    FENCE = "fences"


QUEUED = (Unit.SHARED, Unit.BARRIER, Unit.FENCE)
"""Units of the SM: instructions wait in a queue for them, and their warp goes on."""
FLOATING = (Unit.FMA, Unit.HEAVY)
FIXED = (Unit.ALU, *FLOATING)
"""Units whose instructions take as long as the assembler knows."""

_ALU = frozenset(
    (
        *("BMSK", "F2FP", "FMNMX", "FSEL", "FSETP", "HMNMX2", "HSETP2", "I2FP", "IABS", "IADD3"),
        *("IMNMX", "ISETP", "LEA", "LOP3", "MOV", "P2R", "PLOP3", "PRMT", "R2P", "SEL", "SGXT"),
        *("SHF", "VIADD", "VIMNMX", "VIMNMX3", "VOTE"),
    )
)
_FMA = frozenset(("FADD", "FFMA", "FMUL", "HFMA2", "HMUL2"))
_HEAVY = frozenset(("HADD2", "IMAD"))
_CONVERSIONS = frozenset(("F2F", "F2I", "I2F"))
_SHARED = frozenset(("LDS", "LDSM", "SHFL", "STS", "STSM"))
_HALF_RATE, _SPECIAL_RATE, _PASS = 2, 8, 4
"""Cycles of a scheduler for 32 lanes by 16 and by 4, and for 128 bytes of each of four warps."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Constants of a machine model, named with ``code_`` before; cycles if nothing else is said.

    Attributes:
        ask: from a question whether a phase is complete to the answer, if it is.
        fetch: by which each instruction of a long loop is longer, because some are not there yet.
        spread: of the queue of shared memory, what warps do not wait for that go on by themselves.
        branch: by which a branch that is taken is longer than its stall.
        shared, shuffle, special, constant: until what shared memory, a shuffle, a special function
            or constant memory gives is there, from when their unit begins.
        copy: until a bulk copy has read its operands.
        load: by which issuing a bulk copy is longer than its stall.
        arrive: of the unit for barriers, for each warp.
        fence: until a fence to the asynchronous proxy is over, and ``membar`` what is before it.
        handoff: from an arrival until a role that waits for it is told.
        product: between products that a warp issues, at least.
        queue: products that a scheduler takes before the first of them is complete.
        begin, end: from when a product is issued, at the earliest, until tensor cores begin it, and
            from when they are done until a warp that waits goes on.
        frozen: share of cycles for which a scheduler stands still while tensor cores work at their
            rate and its warps compute.
        close: behind an instruction that computes with registers of every lane, until when they do.
        special_beside: a special function while tensor cores work.
    """

    ask: float
    fetch: float
    spread: float
    branch: float
    shared: float
    shuffle: float
    special: float
    constant: float
    copy: float
    load: float
    arrive: float
    fence: float
    membar: float
    handoff: float
    product: float
    queue: float
    begin: float
    end: float
    frozen: float
    close: float
    special_beside: float


FENCE = "proxy_fence"
"""Constant: cycles of the unit for fences, for each warp."""


@cache
def prices(machine: Machine) -> Prices:
    """The prices of ``machine``. Raises SchedgenError: it has none of machine code."""
    names = {field.name: _PREFIX + field.name for field in fields(Prices)}
    missing = [name for name in (*names.values(), FENCE) if name not in machine.constant]
    if missing:
        raise SchedgenError(
            f"{machine.name} does not price machine code (no '{missing[0]}' in its section "
            "'launches'); fix: --target h200, which was measured, or a model with these constants"
        )
    return Prices(**{field: float(machine.value(name)) for field, name in names.items()})


@dataclass(frozen=True, slots=True)
class Priced:
    """An instruction that a warp executes: ``cycles`` of its ``unit``; ``each`` are those of one
    warp, of which a role may have several. ``latency``: until its scoreboards are free.
    """

    unit: Unit | None
    cycles: float
    stall: int
    latency: float
    read: float
    writes: int
    reads: int
    waits: tuple[int, ...]
    multiplies: bool = False
    registers: bool = False
    """It multiplies a left operand in registers."""
    columns: int = 0
    """Of a product's result."""
    asks: bool = False
    each: bool = False


def priced(one: Instruction, says: Prices, fence: float, *, last: bool = False) -> Priced:
    """``one`` of a loop's turn; ``last``: it goes back to the beginning."""
    assert one.control is not None
    unit, cycles, latency, each = _unit(one, says, fence)
    opcode = one.opcode
    if opcode == "SYNCS" and one.guarded and "ARRIVE" not in one.name:
        unit, latency = None, 0.0  # asked again where the first answer was no
    shape = _COLUMNS.search(one.name)
    stall = max(one.control.stall, 1)
    if last and opcode == "BRA":
        stall += round(says.branch)
    if opcode == "UTMALDG":
        stall += round(says.load)
    return Priced(
        unit,
        cycles,
        stall,
        latency,
        latency if opcode == "UTMALDG" else min(latency, _READ),
        one.control.writes,
        one.control.reads,
        one.control.waits,
        multiplies=opcode in PRODUCTS,  # what only closes a group goes the same way
        columns=int(shape[1]) if opcode in PRODUCTS and shape else 0,
        registers=opcode in PRODUCTS and bool(_OF_REGISTERS.match(one.operands)),
        asks="TRYWAIT" in one.name,
        each=each,
    )


_READ = 10
"""Cycles until operands were read, at most; of bulk copies it is longer."""
_FIXED = 6
"""Of instructions whose latency the assembler knows."""
_SYSTEM = 20
"""Until a number of a special or a uniform register is there."""


def _unit(one: Instruction, says: Prices, fence: float) -> tuple[Unit | None, float, float, bool]:
    """Unit, cycles of it, latency, and whether the cycles are those of one warp."""
    opcode = one.opcode
    if opcode in _SHARED:
        latency = says.shuffle if opcode == "SHFL" else says.shared
        return Unit.SHARED, _PASS * _passes(one), latency, False
    if opcode == "SYNCS":
        return Unit.BARRIER, says.arrive, says.ask, True
    if one.name.startswith("FENCE"):
        return Unit.FENCE, fence, says.fence, True
    if opcode == "MUFU" or opcode in _CONVERSIONS:
        return Unit.SPECIAL, _SPECIAL_RATE, says.special, False
    if opcode in _HEAVY or one.name.startswith("HFMA2.MMA"):
        return Unit.HEAVY, _HALF_RATE, _FIXED, False
    if opcode in _FMA:
        return Unit.FMA, _HALF_RATE, _FIXED, False
    if opcode in _ALU:
        return Unit.ALU, _HALF_RATE, _FIXED, False
    others = {"MEMBAR": says.membar, "UTMALDG": says.copy}
    others |= dict.fromkeys(("LDC", "ULDC"), says.constant)
    others |= dict.fromkeys(("R2UR", "S2R", "S2UR"), _SYSTEM)
    return None, 0.0, others.get(opcode, _FIXED), False


def _passes(one: Instruction) -> int:
    """Times 128 bytes that a warp moves, without bank conflicts."""
    if one.opcode in ("LDSM", "STSM"):
        matrices = _MATRICES.search(one.name)
        return int(matrices[1]) if matrices else 1
    width = _WIDTH.search(one.name)
    return int(width[1]) // 32 if width else 1
