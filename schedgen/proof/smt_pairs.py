"""Which accesses to ask about from tile to tile: those that are next to each other.

What lies between two accesses orders them, if both are asked about with it. So of the accesses to
one slot only neighbours in the intended order are left; where a guard or an initial value leaves
instances out, the next but one are left, too. Steps that the threads of one role execute once per
tile, one after the other, need no question.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from schedgen.kernel import Space
from schedgen.program.model import FenceKind, Program
from schedgen.program.operations import Engine
from schedgen.proof.smt_accesses import Touch, conflicts, same_slot, slots_of


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Two conflicting accesses, and how many tiles later the second one is asked about."""

    one: Touch
    other: Touch
    apart: tuple[int, ...]


def tile_pairs(program: Program) -> list[Pair]:
    """The pairs to ask about; both accesses count the slots of their allocation by tiles."""
    found = [
        Pair(one, other, _apart(one, other, slots_of(program, one)))
        for one, other in conflicts(program)
        if one.access.version.per_tile and other.access.version.per_tile
    ]
    after: dict[int, dict[int, Pair]] = defaultdict(dict)
    for pair in found:
        after[id(pair.one)][id(pair.other)] = pair
    left = [
        Pair(
            pair.one,
            pair.other,
            tuple(k for k in pair.apart if not _between(program, after, pair, k)),
        )
        for pair in found
    ]
    return [pair for pair in left if pair.apart]


def _apart(one: Touch, other: Touch, slots: int) -> tuple[int, ...]:
    """The nearest tiles in which two accesses meet in a slot, the first one being the earlier."""
    a, b = one.access.version, other.access.version
    if a.scale != b.scale:
        return ()
    fits = [k for k in range(1, 2 * slots + 1) if same_slot(one, other, k, slots)]
    later = fits[:1] if not other.looped and other.plain else fits[:2]
    return (0, *later) if same_slot(one, other, 0, slots) and _in_order(one, other) else (*later,)


def _in_order(one: Touch, other: Touch) -> bool:
    """Whether ``one`` comes first in a tile; two accesses of many iterations are asked in cells."""
    if one.section != other.section:
        return one.section < other.section
    guards = one.step.guard.kind, other.step.guard.kind
    once = one.section != 1 or guards == ("first", "last")
    return once and one.access.order < other.access.order


def _between(program: Program, after: dict[int, dict[int, Pair]], pair: Pair, apart: int) -> bool:
    """Whether the order of two accesses follows from other questions, or from their role alone."""
    one, other = pair.one, pair.other
    if not (_once(one) and _once(other)):
        return False
    threads = one.engine is other.engine is Engine.THREADS and one.role is other.role
    if threads and not fences_after(program, one, other) and (apart or one.number < other.number):
        return True
    needed = set(fences_after(program, one, other))
    for first in after[id(one)].values():
        then = after[id(first.other)].get(id(other))
        if then is None or not _once(first.other):
            continue
        meet = any(apart - k in then.apart for k in first.apart)
        if meet and needed <= set(fences_after(program, one, first.other)):
            return True
    return False


def _once(touch: Touch) -> bool:
    """Whether it happens once in every tile, outside of the loop."""
    return touch.section != 1 and touch.plain


def fences_after(program: Program, one: Touch, other: Touch) -> tuple[FenceKind, ...]:
    """The fences that the role of the earlier access, by its threads, needs after it."""
    space = program.allocation[one.access.allocation].space
    if one.engine.asynchronous:
        return ()
    if space is Space.SMEM and other.engine.asynchronous:
        return (FenceKind.ASYNC_PROXY,)
    if space is Space.TMEM:
        done = FenceKind.TMEM_STORED if one.access.write else FenceKind.TMEM_LOADED
        own = one.role is other.role and other.engine is Engine.THREADS
        return (done,) if own else (done, FenceKind.TMEM_BEFORE)
    if _registers(program, one, other) and one.role is other.role:
        return (FenceKind.REGISTERS,)
    return ()


def fence_before(program: Program, one: Touch, other: Touch) -> FenceKind | None:
    """The fence that the role of the later access needs before it."""
    if program.allocation[one.access.allocation].space is Space.TMEM:
        return FenceKind.TMEM_AFTER
    if _registers(program, one, other) and one.role is not other.role:
        return FenceKind.REGISTERS  # by the same threads, which a proof looks at as two roles
    return None


def needs_wait(program: Program, one: Touch, other: Touch) -> bool:
    """Whether the order of the queue is not enough for two products of a warpgroup: registers of
    the earlier one are its own until it was waited for, unless both accumulate in them.
    """
    if program.allocation[one.access.allocation].space is not Space.REGISTERS:
        return False
    if not (one.engine is other.engine is Engine.WGMMA):
        return False
    both = {one.access.buffer} == {other.access.buffer} and one.accumulates and other.accumulates
    return not both


def _registers(program: Program, one: Touch, other: Touch) -> bool:
    """Whether a product uses registers that threads touched."""
    space = program.allocation[one.access.allocation].space
    engines = one.engine, other.engine
    return space is Space.REGISTERS and engines == (Engine.THREADS, Engine.WGMMA)
