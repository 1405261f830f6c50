"""What the assembler took from beside products: work that stands between a product and the wait for
it in the PTX, and not in the cubin.

A program has threads compute while a product of Hopper is in flight: between its ``commit_group``
and the first ``wait_group`` that covers it. The assembler may move that wait, or what stands
there; the result is the same, the tensor cores wait. Loops of both texts with products are put side
by side, and of each kind of work is counted what is outside of that window. The assembler leaves
arithmetic out (it fuses, and finds what is constant) and adds little of these kinds, so that what
is outside in the cubin beyond what is outside in the PTX has left the window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from schedgen.conform.actions import kind
from schedgen.conform.flow import Flow, innermost
from schedgen.conform.listing import PRODUCTS, Listing, Machine
from schedgen.conform.refusal import Refusal
from schedgen.emulator.ptx.tree import Immediate, Instruction, Kernel

CYCLES = {
    "special functions": 8,
    "shuffles": 4,
    "shared memory": 4,
    "maxima": 2,
    "conversions": 2,
    "arithmetic": 1,
}
"""Kinds of work, and cycles that the four warps of a warpgroup keep their unit busy with one
instruction each: 128 lanes by results per cycle of an SM (CUDA C++ Programming Guide, throughput of
arithmetic instructions, 9.0: 16, 32, 64, 64, 128), and by 128 bytes of shared memory per cycle."""
_SPECIAL = ("ex2", "lg2", "rcp", "rsqrt", "sqrt", "tanh", "sin", "cos")
_HALVES = ("bf16", "bf16x2", "f16", "f16x2")
_CUBIN = {
    "MUFU": "special functions",
    "SHFL": "shuffles",
    "LDS": "shared memory",
    "LDSM": "shared memory",
    "STS": "shared memory",
    "STSM": "shared memory",
    "FMNMX": "maxima",
    "F2FP": "conversions",
    "FADD": "arithmetic",
    "FMUL": "arithmetic",
    "FFMA": "arithmetic",
}
_MULTIPLY, _CLOSE, _WAIT = "multiply", "close", "wait"


@dataclass(frozen=True, slots=True)
class Event:
    """What matters of an instruction: a kind of work, or part of a group of products. ``leaves``:
    groups that a wait leaves unfinished.
    """

    kind: str
    leaves: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """A loop with products: where it begins, its instructions, and what matters of them."""

    where: str
    instructions: int
    events: tuple[Event, ...]

    @property
    def products(self) -> tuple[int, ...]:
        """Instructions that multiply in each group, in order."""
        found = [0]
        for event in self.events:
            if event.kind == _MULTIPLY:
                found[-1] += 1
            elif event.kind == _CLOSE:
                found.append(0)
        return (found[-1] + found[0], *found[1:-1]) if len(found) > 1 else tuple(found)


@dataclass(frozen=True, slots=True)
class Lost:
    """Work that is no longer beside a product.

    Attributes:
        product: its number in the turn, from 0.
        beside: instructions of each kind that are beside it in the PTX.
        lost: how many of them are not, in the cubin.
    """

    product: int
    beside: tuple[tuple[str, int], ...]
    lost: tuple[tuple[str, int], ...]

    @property
    def cycles(self) -> int:
        """Of the units that do what is lost."""
        return sum(CYCLES[name] * count for name, count in self.lost)

    @property
    def cycles_beside(self) -> int:
        """Of the units that do what was to be beside the product."""
        return sum(CYCLES[name] * count for name, count in self.beside)


@dataclass(frozen=True, slots=True)
class LoopOverlap:
    """A loop of the cubin beside the one of the PTX; ``instructions`` are those of the cubin."""

    ptx: str
    cubin: str
    instructions: int
    products: tuple[Lost, ...]

    @property
    def lost_cycles(self) -> int:
        return sum(one.cycles for one in self.products)

    @property
    def cycles(self) -> int:
        """Of work beside products in the PTX."""
        return sum(one.cycles_beside for one in self.products)


@dataclass(frozen=True, slots=True)
class Overlap:
    """All loops with products. ``unknown``: why they cannot be put side by side, then there are
    none.
    """

    loops: tuple[LoopOverlap, ...]
    unknown: str = ""

    @property
    def lost_cycles(self) -> int:
        return sum(loop.lost_cycles for loop in self.loops)

    @property
    def cycles(self) -> int:
        return sum(loop.cycles for loop in self.loops)

    @property
    def instructions(self) -> int:
        """Of all these loops in the cubin."""
        return sum(loop.instructions for loop in self.loops)

    @property
    def text(self) -> str:
        """For a person."""
        if self.unknown:
            return f"its loops are not compared: {self.unknown}"
        beside = "nothing is planned beside products"
        if self.cycles:
            lost = f"{self.lost_cycles} of {self.cycles}"
            beside = f"{lost} cycles of work beside products are lost"
        loops = "1 loop" if len(self.loops) == 1 else f"{len(self.loops)} loops"
        return f"{beside}; {self.instructions} instructions in {loops}"

    @property
    def data(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "planned_cycles": self.cycles,
            "lost_cycles": self.lost_cycles,
            "instructions": self.instructions,
            "not_compared": self.unknown,
            "loops": [
                {
                    "ptx": loop.ptx,
                    "cubin": loop.cubin,
                    "instructions": loop.instructions,
                    "products": [
                        {"product": p.product, "planned": dict(p.beside), "lost": dict(p.lost)}
                        for p in loop.products
                    ],
                }
                for loop in self.loops
            ],
        }


NOTHING = Overlap(())
"""No loop has products of Hopper."""


def overlap(kernel: Kernel, listing: str) -> Overlap:
    """Compares the loops of a kernel's PTX with those of its listing by nvdisasm."""
    try:
        wanted = list(_of_ptx(kernel))
    except Refusal as error:
        return Overlap((), f"the PTX is not followed: {error}")
    return compared_turns(wanted, list(_of_cubin(Listing(listing))))


def compared_turns(wanted: Sequence[Turn], found: Sequence[Turn]) -> Overlap:
    """Turns of the PTX and of the cubin, in the order of their texts."""
    if len(wanted) != len(found):
        return Overlap((), f"{len(wanted)} loops with products in the PTX, {len(found)} assembled")
    for one, other in zip(wanted, found, strict=True):
        if one.products != other.products:
            return Overlap(
                (), f"the loop at {other.where} multiplies in another order than at {one.where}"
            )
    return Overlap(
        tuple(
            LoopOverlap(one.where, other.where, other.instructions, tuple(_lost(one, other)))
            for one, other in zip(wanted, found, strict=True)
        )
    )


def _lost(wanted: Turn, found: Turn) -> Iterable[Lost]:
    """Of each group of products."""
    all_wanted, all_found = _work(wanted.events), _work(found.events)
    groups = zip(_windows(wanted.events), _windows(found.events), strict=True)
    for number, (planned, left) in enumerate(groups):
        lost: Counter[str] = Counter()
        for beside, still in zip(planned, left, strict=True):
            gone = (all_found - still) - (all_wanted - beside)
            lost += Counter({name: min(gone[name], beside[name]) for name in CYCLES})
        most = planned[0] if planned else Counter[str]()
        yield Lost(number, _listed(most, 1), _listed(lost, max(1, len(planned))))


def _listed(work: Counter[str], among: int) -> tuple[tuple[str, int], ...]:
    """The kinds of ``work`` that there are, for each of so many."""
    shares = ((name, round(work[name] / among)) for name in CYCLES)
    return tuple((name, count) for name, count in shares if count)


def _windows(events: Sequence[Event]) -> Iterable[list[Counter[str]]]:
    """For each group: work from each instruction that multiplies to the first wait that covers the
    group, at most of one turn.
    """
    starts = [n + 1 for n, event in enumerate(events) if event.kind == _CLOSE]
    if not starts:
        return
    # Groups in a turn that begins behind the last one, so that none is cut in two.
    turned = [*events[starts[-1] :], *events[: starts[-1]]]
    group: list[int] = []
    for at, event in enumerate(turned):
        if event.kind == _MULTIPLY:
            group.append(at)
        elif event.kind == _CLOSE:
            yield [_work(_until_covered([*turned[n + 1 :], *turned[:n]])) for n in group]
            group = []


def _until_covered(behind: Sequence[Event]) -> Iterable[Event]:
    """What comes behind an instruction that multiplies, up to the wait for its group."""
    later = -1
    for event in behind:
        if event.kind == _WAIT and event.leaves <= later:
            return
        later += event.kind == _CLOSE
        yield event


def _work(events: Iterable[Event]) -> Counter[str]:
    return Counter(event.kind for event in events if event.kind in CYCLES)


def _of_ptx(kernel: Kernel) -> Iterable[Turn]:
    """Raises Refusal for control flow that is not understood."""
    flow = Flow(kernel)
    body = kernel.body
    having = {
        a
        for a, block in flow.blocks.items()
        if any(kind(one) == "wgmma" for one in body[a : block.end])
    }
    for blocks in innermost(flow.loops, having):
        lines = [one for a in blocks for one in body[a : flow.blocks[a].end]]
        events = tuple(event for one in lines for event in _event(one))
        yield Turn(f"line {lines[0].line}", len(lines), events)


def _event(one: Instruction) -> Iterable[Event]:
    """What matters of an instruction of PTX, if anything does."""
    match kind(one):
        case "wgmma":
            yield Event(_MULTIPLY)
        case "close products":
            yield Event(_CLOSE)
        case "wait_group products":
            left = one.operands[-1]
            yield Event(_WAIT, int(left.value) if isinstance(left, Immediate) else 0)
        case "read" | "write":
            yield Event("shared memory")
        case _:
            found = _arithmetic(one)
            if found:
                yield Event(found)


def _arithmetic(one: Instruction) -> str:
    """The kind of work of an instruction that computes; empty if it is none of `CYCLES`."""
    modifiers = one.modifiers
    if one.opcode in _SPECIAL:
        return "special functions"
    if one.opcode == "shfl":
        return "shuffles"
    if one.opcode == "cvt":
        to_halves = modifiers[-1] == "f32" and any(m in _HALVES for m in modifiers)
        return "conversions" if to_halves else ""
    if "f32" not in modifiers:
        return ""
    if one.opcode in ("max", "min"):
        return "maxima"
    return "arithmetic" if one.opcode in ("add", "sub", "mul", "fma") else ""


def _of_cubin(listing: Listing) -> Iterable[Turn]:
    for body in listing.loops(lambda one: one.opcode in PRODUCTS):
        events = tuple(event for one in body for event in _machine_event(one))
        yield Turn(f"{body[0].address}", len(body), events)


def _machine_event(one: Machine) -> Iterable[Event]:
    """The same of an instruction of a cubin."""
    if one.opcode in PRODUCTS:
        if one.multiplies:
            yield Event(_MULTIPLY)
        if one.closes:
            yield Event(_CLOSE)
    elif one.name.startswith("WARPGROUP.DEPBAR"):
        yield Event(_WAIT, int(one.operands.split(",")[-1].strip(), 16))
    elif one.opcode in _CUBIN:
        yield Event(_CUBIN[one.opcode])
