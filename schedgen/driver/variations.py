"""Ways to make a kernel of one spec again, for when the compiler undid what was planned.

None of them changes what is computed, and each is kept with the kernel: registers and where it
waits are in its program, which files and locks have the SHA-256 of, and locks say the latter;
how it is written is in the file and in its lock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from schedgen.codegen.style import PLAIN, Style

if TYPE_CHECKING:
    from schedgen.machine import Machine

STEP = 16
"""Registers per thread by which the next schedule leaves more beside its tiles."""


@dataclass(frozen=True, slots=True)
class Variation:
    """What differs from the first attempt at a kernel.

    Attributes:
        more_registers: that its schedule leaves beside tiles in each thread, more than the machine
            model says.
        more_narrow: the same for roles of single warps, which issue.
        early: wait_groups of products stand where the schedule has these complete, not behind the
            next product (`schedgen.synchronize.layout`).
        style: how the program is written.
    """

    more_registers: int = 0
    more_narrow: int = 0
    early: bool = False
    style: Style = PLAIN

    @property
    def text(self) -> str:
        """In words, behind "tried"."""
        parts: list[str] = []
        if self.more_registers:
            parts.append(f"{self.more_registers} more registers beside tiles")
        if self.more_narrow:
            parts.append(f"{self.more_narrow} more registers for single warps")
        if self.early:
            parts.append("waits where products are complete")
        if self.style.blocks:
            parts.append("blocks behind products")
        if self.style.shared:
            parts.append("equal roles in the same instructions")
        if self.style.peeled:
            parts.append("loops without masks")
        if self.style.prompt:
            parts.append("waits without a hint")
        if self.style.straight:
            parts.append("tiles in the order of registers")
        if self.style.loose:
            parts.append("waits that hold nothing back")
        if self.style.late:
            parts.append("addresses found behind the loop")
        if self.style.threes:
            parts.append("maxima of three numbers at a time")
        if self.style.seldom:
            parts.append("values of rows where one of a warp's changes")
        if self.style.o1:
            parts.append("the assembler at its first level")
        return ", ".join(parts) or "as it was planned"

    @property
    def data(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "more_registers": self.more_registers,
            "more_narrow": self.more_narrow,
            "early": self.early,
            "style": list(self.style.words),
        }


def otherwise(one: Variation) -> Iterator[Variation]:
    """The same schedule in other ways, in the order in which they are tried."""
    blocks = replace(one.style, blocks=True)
    yield replace(one, style=blocks)
    yield replace(one, early=True)
    yield replace(one, early=True, style=blocks)


def sharing(one: Variation) -> Variation:
    """The same with equal roles in the same instructions."""
    return replace(one, style=replace(one.style, shared=True))


HASTY = ("prompt",)
"""Words of a style that only what machine code takes can decide on. ``straight`` and
``loose`` are none of them: machine code does not say where accesses have bank conflicts, and not
well enough what exponentials take beside products."""


def hastened(one: Variation, word: str) -> Variation:
    """The same with a word of `HASTY`, or without it."""
    return replace(one, style=replace(one.style, **{word: not getattr(one.style, word)}))


def with_registers(machine: Machine, more: int, narrow: int = 0) -> Machine:
    """``machine`` with ``more`` registers per thread that warpgroups need beside their tiles, and
    ``narrow`` more for roles of single warps.
    """
    if not (more or narrow):
        return machine
    roles = tuple(
        replace(role, registers=role.registers + (narrow if role.issues_ahead else more))
        for role in machine.roles
    )
    return replace(machine, roles=roles)
