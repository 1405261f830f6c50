"""What all paths through the PTX have in common: instructions that another one makes superfluous.

A synchronization instruction may go if on every path to it nothing is open that it would end, or if
on every path from it another one of the kind comes before anything that could tell the difference.
Paths are those of the control flow graph, whether or not a launch takes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from schedgen.emulator.ptx.tree import Instruction, Kernel

Test = Callable[[Instruction], bool]


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


def _ends(one: Instruction) -> bool:
    return one.opcode in ("ret", "exit", "trap", "brx")


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
            or _ends(one)
        ),
    ),
    "M1 wait::st removed": _Rule(
        lambda one: _kind(one) == "st",
        lambda one: (
            _kind(one) not in ("", "st", "fence::after_thread_sync")
            or _hands_over(one)
            or _ends(one)
        ),
    ),
    "fence::before removed": _Rule(
        lambda one: _touches(one) or _kind(one) == "fence::after_thread_sync",
        lambda one: _hands_over(one) or _kind(one) in ("commit", "dealloc") or _ends(one),
    ),
    "fence::after removed": _Rule(
        # tcgen05.dealloc is synchronous: it needs no fence (rule C1).
        _learns, lambda one: _touches(one) or _kind(one) == "fence::before_thread_sync"
    ),
    "M2/M4 proxy fence removed": _Rule(
        _generic,
        lambda one: (
            _hands_over(one) or _ends(one) or one.opcode in ("cp", "wgmma") or _tensor(one)
        ),
    ),
}  # fmt: skip


def superfluous(kernel: Kernel, operator: str, line: int) -> str:
    """Why an instruction may be removed, whatever is executed; empty if paths do not say so."""
    rule = _RULES.get(operator)
    if rule is None:
        return ""
    at = next(n for n, one in enumerate(kernel.body) if one.line == line)
    same = kernel.body[at].name
    following = [list(_following(kernel, n)) for n in range(len(kernel.body))]
    if _all(following, kernel, at, same, rule.needs):
        return "on no path comes anything that needs it before the next of its kind"
    preceding: list[list[int]] = [[] for _ in kernel.body]
    for n, targets in enumerate(following):
        for to in targets:
            preceding[to].append(n)
    if _all(preceding, kernel, at, same, rule.opens):
        return "on no path comes anything before it that it could wait for or order"
    return ""


def last(kernel: Kernel, line: int) -> bool:
    """Whether on every path from a line the kernel ends without an access that bulk stores before
    it could be in conflict with: they read shared and write global memory."""
    at = next(n for n, one in enumerate(kernel.body) if one.line == line)
    following = [list(_following(kernel, n)) for n in range(len(kernel.body))]
    return _all(following, kernel, at, "", _conflicts)


def _conflicts(one: Instruction) -> bool:
    reads = one.opcode in ("ld", "ldmatrix") and "shared" in one.modifiers
    if one.opcode in ("cp", "wgmma", "mbarrier") or _touches(one):
        return True
    return _generic(one) and not reads


def _following(kernel: Kernel, at: int) -> Iterator[int]:
    one = kernel.body[at]
    if one.opcode == "bra":
        yield kernel.labels[getattr(one.operands[0], "name", "")]
    goes_on = one.guard is not None or (one.opcode != "bra" and not _ends(one))
    if goes_on and at + 1 < len(kernel.body):
        yield at + 1


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
