"""What all paths through the PTX have in common: instructions that another one makes superfluous.

A synchronization instruction may go if on every path to it nothing is open that it would end, or if
on every path from it another one of the kind comes before anything that could tell the difference.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from schedgen.emulator.ptx.flow import Flow, Test, ends
from schedgen.emulator.ptx.tree import (
    Address,
    Instruction,
    Kernel,
    Negated,
    Operand,
    Pair,
    Register,
    Vector,
)


def _kind(one: Instruction) -> str:
    """What follows ``tcgen05.``, or nothing."""
    return one.modifiers[0] if one.opcode == "tcgen05" else ""


def _hands_over(one: Instruction) -> bool:
    """Whether other threads may learn by it how far this one is."""
    if one.opcode == "mbarrier":
        return one.modifiers[0] not in ("try_wait", "test_wait")
    if one.opcode == "fence":
        return one.modifiers[0] not in ("proxy", "mbarrier_init")
    return one.opcode in ("bar", "barrier", "membar", "atom", "red", "call") or (
        one.opcode == "st" and bool({"release", "relaxed", "volatile"} & set(one.modifiers))
    )


def _learns(one: Instruction) -> bool:
    """Whether the thread may learn by it how far others are."""
    return one.opcode in ("mbarrier", "bar", "barrier", "atom", "call", "fence", "membar") or (
        one.opcode == "ld" and bool({"acquire", "relaxed", "volatile"} & set(one.modifiers))
    )


def _tensor(one: Instruction) -> bool:
    """Whether it is about tensor memory, fences aside."""
    return bool(_kind(one)) and not _kind(one).startswith("fence::")


def _touches(one: Instruction) -> bool:
    """Whether it accesses tensor memory, or says when others did."""
    return _tensor(one) and _kind(one).split("_")[0] not in (
        "alloc", "dealloc", "relinquish", "wait::ld", "wait::st"
    )  # fmt: skip


def _generic(one: Instruction) -> bool:
    """Whether threads access memory themselves by it: what a proxy fence is about."""
    if one.opcode in ("st", "atom", "red", "stmatrix", "ldmatrix", "call"):
        return True
    return one.opcode == "ld" and not {"param", "const"} & set(one.modifiers)


@dataclass(frozen=True)
class _Rule:
    """``opens``: what the instruction is for, if it comes before. ``needs``: what may come after it
    only if the instruction is there."""

    opens: Test
    needs: Test


_RULES = {
    "M3 wait::ld removed": _Rule(
        lambda one: _kind(one) == "ld",
        # The order of registers is kept without a wait (rule C8).
        lambda one: (
            _kind(one) not in ("", "ld", "fence::after_thread_sync")
            or _hands_over(one)
            or ends(one)
        ),
    ),
    "M1 wait::st removed": _Rule(
        lambda one: _kind(one) == "st",
        lambda one: (
            _kind(one) not in ("", "st", "fence::after_thread_sync")
            or _hands_over(one)
            or ends(one)
        ),
    ),
    "fence::before removed": _Rule(
        lambda one: _touches(one) or _kind(one) == "fence::after_thread_sync",
        lambda one: _hands_over(one) or _kind(one) in ("commit", "dealloc") or ends(one),
    ),
    "fence::after removed": _Rule(
        # tcgen05.dealloc is synchronous: it needs no fence (rule C1).
        _learns, lambda one: _touches(one) or _kind(one) == "fence::before_thread_sync"
    ),
    "M2/M4 proxy fence removed": _Rule(
        _generic,
        lambda one: (
            _hands_over(one) or ends(one) or one.opcode in ("cp", "wgmma") or _tensor(one)
        ),
    ),
}  # fmt: skip


def superfluous(kernel: Kernel, operator: str, line: int) -> str:
    """Why an instruction may be removed, whatever is executed; empty if paths do not say so."""
    at = next(n for n, one in enumerate(kernel.body) if one.line == line)
    flow = Flow(kernel)
    if operator == "M5 fence.mbarrier_init removed":
        return _initializes_later(flow, at)
    if operator == "wgmma.fence removed":
        return _registers_at_rest(flow, at)
    rule = _RULES.get(operator)
    if rule is None:
        return ""
    same = kernel.body[at].name
    if _all(flow.following, kernel, at, same, rule.needs):
        return "on no path comes anything that needs it before the next of its kind"
    if _all(flow.preceding, kernel, at, same, rule.opens):
        return "on no path comes anything before it that it could wait for or order"
    return ""


def last(kernel: Kernel, line: int) -> bool:
    """Whether on every path from a line the kernel ends without an access that bulk stores before
    it could be in conflict with: they read shared and write global memory."""
    at = next(n for n, one in enumerate(kernel.body) if one.line == line)
    return _all(Flow(kernel).following, kernel, at, "", _conflicts)


def _conflicts(one: Instruction) -> bool:
    reads = one.opcode in ("ld", "ldmatrix") and "shared" in one.modifiers
    if one.opcode in ("cp", "wgmma", "mbarrier") or _touches(one):
        return True
    return _generic(one) and not reads


def _all(graph: list[list[int]], kernel: Kernel, at: int, same: str, wrong: Test) -> bool:
    """Whether all paths from a place end at an unconditional instruction with the same name, or
    nowhere, before they meet a wrong one."""
    seen: set[int] = set()
    open_ = list(graph[at])
    while open_:
        place = open_.pop()
        if place in seen or place == at:
            continue
        seen.add(place)
        one = kernel.body[place]
        if one.name == same and one.guard is None:
            continue
        if wrong(one) or one.opcode == "brx":
            return False
        open_ += graph[place]
    return True


# -- initialization --------------------------------------------------------------------------------


def _initializes_later(flow: Flow, at: int) -> str:
    """fence.mbarrier_init: another one by the same thread, and then a barrier that everybody meets
    at, come before anybody uses an mbarrier."""
    body = flow.body
    fence = body[at].name

    def again(one: Instruction) -> bool:
        return one.name == fence

    between, fences = flow.reached([at], again)
    fences -= {at}
    if not fences or any(_uses_mbarrier(body[n]) or ends(body[n]) for n in between):
        return ""
    behind, meetings = flow.reached(fences, _meets_all)
    if not meetings or any(_uses_mbarrier(body[n]) or ends(body[n]) for n in behind):
        return ""
    # Whoever uses one has come through one of these barriers, so that all threads came before it.
    without = flow.until(meetings)
    if any(_uses_mbarrier(body[n]) for n in without):
        return ""
    return "a later one covers the same inits, and a barrier of all threads comes before any use"


def _uses_mbarrier(one: Instruction) -> bool:
    """Whether it may use an mbarrier, by itself or when it completes."""
    if one.opcode == "mbarrier":
        return one.modifiers[0] != "init"
    return _kind(one) == "commit" or one.opcode in ("cp", "clusterlaunchcontrol", "call")


def _meets_all(one: Instruction) -> bool:
    """Whether all threads of the CTA, or of the cluster, meet there."""
    if one.opcode not in ("bar", "barrier"):
        return False
    if "cluster" in one.modifiers:
        return "wait" in one.modifiers
    return "sync" in one.modifiers and "warp" not in one.modifiers and len(one.operands) == 1


# -- registers of wgmma ----------------------------------------------------------------------------


def _registers_at_rest(flow: Flow, at: int) -> str:
    """wgmma.fence: since the one before, on no path, did anything but products of the same shape
    access the registers of the products that follow (PTX ISA 9.7.15.6)."""
    body = flow.body

    def fences(one: Instruction) -> bool:
        return one.name == body[at].name

    behind, _ = flow.reached([at], fences)
    products = [body[n] for n in behind if _multiplies(body[n])]
    if not products:
        return "no product follows before the next one"
    names = {one.name for one in products}
    registers = {name for one in products for name in _lists(one)}
    before, earlier = flow.reached([at], fences, back=True)
    if 0 in before or not earlier or len(names) > 1:
        return ""
    for n in before:
        one = body[n]
        same = _multiplies(one) and one.name in names
        if not same and registers & set(_registers(one.operands)):
            return ""
    return "on no path was a register of the products behind it accessed since the one before"


def _multiplies(one: Instruction) -> bool:
    return one.opcode == "wgmma" and one.modifiers[0] == "mma_async"


def _lists(one: Instruction) -> Iterator[str]:
    """The registers of D, and of A where that is in registers."""
    yield from _registers(tuple(o for o in one.operands if isinstance(o, Vector)))


def _registers(operands: Iterable[Operand]) -> Iterator[str]:
    for one in operands:
        match one:
            case Register(name):
                yield name
            case Vector(items):
                yield from _registers(items)
            case Pair(first, second):
                yield from _registers((first, second))
            case Negated(operand):
                yield from _registers((operand,))
            case Address(base, _, coordinates):
                yield from _registers(o for o in (base, *coordinates) if o is not None)
            case _:
                pass
