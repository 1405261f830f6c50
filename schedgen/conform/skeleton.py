"""What is left of the code of a role: the instructions that synchronize or access memory, with
their operands as terms, in conditions and loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from schedgen.conform.terms import Term
from schedgen.emulator.ptx.tree import Instruction


@dataclass(frozen=True, slots=True)
class Action:
    """An instruction that synchronizes or accesses memory.

    ``kind`` is one of `schedgen.conform.actions`; ``address`` is where its mbarrier, or what it
    reads or writes, lies; ``values`` are other operands, which depend on the kind.
    """

    kind: str
    instruction: Instruction
    address: Term | None = None
    values: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Branch:
    """``yes`` where the condition holds, else ``no``."""

    condition: Term
    yes: Items
    no: Items
    instruction: Instruction


@dataclass(frozen=True, slots=True)
class Exit:
    """Leaves the loop where the condition holds."""

    condition: Term
    instruction: Instruction


@dataclass(frozen=True, slots=True)
class Carried:
    """A register that turns of a loop hand on: its value before the first turn, and after each."""

    register: str
    entry: Term
    update: Term


@dataclass(frozen=True, slots=True)
class Loop:
    """``number`` counts its turns from 0; ``carried`` has the terms that stand for registers at the
    beginning of a turn.
    """

    number: Term
    carried: Mapping[Term, Carried]
    body: Items
    instruction: Instruction


Item = Action | Branch | Exit | Loop
Items = tuple[Item, ...]


def outer_loops(items: Items) -> list[Loop]:
    """Loops that are in no other one."""
    found: list[Loop] = []
    for item in items:
        if isinstance(item, Loop):
            found.append(item)
        elif isinstance(item, Branch):
            found += outer_loops(item.yes) + outer_loops(item.no)
    return found


def all_loops(items: Items) -> Iterator[Loop]:
    """All loops, outer ones first."""
    for item in items:
        if isinstance(item, Branch):
            yield from all_loops(item.yes)
            yield from all_loops(item.no)
        elif isinstance(item, Loop):
            yield item
            yield from all_loops(item.body)
