"""Taking the events of a role one by one, and saying what is wrong with one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np

from schedgen.conform.actions import ACCESSES
from schedgen.conform.cases import Case
from schedgen.conform.expected import Expected, Who
from schedgen.conform.footprints import Footprint, Footprints
from schedgen.conform.refusal import Refusal
from schedgen.conform.terms import Term
from schedgen.conform.trace import Event
from schedgen.conform.values import SHARED_ALIGNMENT, Array, Value
from schedgen.emulator.ptx.tree import Instruction
from schedgen.program.model import Arrive, Commit, FenceKind, RoleProgram, Run, Wait
from schedgen.program.operations import Engine

WAITS = {
    FenceKind.TMEM_LOADED: "tcgen05.wait::ld",
    FenceKind.TMEM_STORED: "tcgen05.wait::st",
}
FENCES = WAITS | {
    FenceKind.ASYNC_PROXY: "fence.proxy.async",
    FenceKind.REGISTERS: "wgmma.fence",
    FenceKind.TMEM_BEFORE: "tcgen05.fence::before_thread_sync",
    FenceKind.TMEM_AFTER: "tcgen05.fence::after_thread_sync",
}
"""Fences of a program, and the kinds of their instructions."""
TRACKED = {
    WAITS[FenceKind.TMEM_LOADED]: ("tmem read",),
    WAITS[FenceKind.TMEM_STORED]: ("tmem write",),
}
"""What these wait for."""
SOFT = ACCESSES | {*WAITS.values()}
"""Events that belong to the operations of threads between two other events."""
ROWS = "close rows"
CLOSE = {
    "close products": "wait_group products",
    "close copies": "wait_group copies read",
    ROWS: "wait_group rows",
}
"""Events that commit a group of operations, and those that wait for groups."""


class Mismatch(Refusal):
    """Kernel and program differ: ``step`` says where in the program, the instruction where in the
    kernel."""

    def __init__(self, message: str, step: str, instruction: Instruction | None) -> None:
        super().__init__(message, instruction)
        self.step = step


@dataclass
class Groups:
    """Groups of asynchronous operations of one engine that were committed, and the open one."""

    closed: list[set[tuple[str, int]]] = field(default_factory=list[set[tuple[str, int]]])
    open: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])

    def close(self) -> None:
        self.closed.append(self.open)
        self.open = set()


class Taker:
    """The events of one tile of a role, or of what stands around its tiles, in one case.

    ``warps``: first warp of the role, and how many.
    """

    def __init__(
        self,
        footprints: Footprints,
        role: RoleProgram | None,
        case: Case | None,
        events: Sequence[Event],
        warps: tuple[int, int],
    ) -> None:
        self.footprints, self.role, self.case = footprints, role, case
        self.events, self.at, self.warps = events, 0, warps
        self.groups = {kind: Groups() for kind in CLOSE}
        self.mapped: list[tuple[str, Instruction]] = []

    def differ(self, message: str, step: str, event: Event | None) -> NoReturn:
        """Raises Mismatch: a step, and the instruction that stands in its place."""
        where = ""
        if self.case is not None:
            turn = event.turn if event is not None else None
            where = f" ({', '.join(filter(None, (turn.text if turn else '', self.case.text)))})"
        raise Mismatch(message + where, step, event.action.instruction if event else None)

    # -- taking events -------------------------------------------------------------------------

    def skip_closed(self) -> None:
        """Groups that are committed, which may be empty."""
        while self.at < len(self.events) and self.events[self.at].action.kind in CLOSE:
            event = self.events[self.at]
            self.who(event, "all", "a group of operations")
            self.groups[event.action.kind].close()
            self.at += 1

    def take(self, kind: str, step: str) -> Event:
        """The next event, which has to be of a kind."""
        self.skip_closed()
        if self.at == len(self.events):
            self.differ(f"no instruction is left for it (wanted: {kind})", step, None)
        event = self.events[self.at]
        if event.action.kind != kind:
            self.differ(f"'{event.action.instruction.name}' stands in its place", step, event)
        self.at += 1
        self.mapped.append((step, event.action.instruction))
        return event

    def who(self, event: Event, who: Who, step: str, *, when: bool = False) -> None:
        """Whether the right threads do it, and on no condition but one that may be there."""
        if event.conditions and not when:
            self.differ("it hangs on a condition", step, event)
        if who == "one" and not event.elected:
            self.differ("all threads do it, not one", step, event)
        if who == "all" and event.elected:
            self.differ("one thread does it, not all", step, event)

    # -- values --------------------------------------------------------------------------------

    def known(self, event: Event, term: Term | None, step: str) -> Value:
        """What an operand is worth."""
        value = None if term is None else event.env.value(term)
        if value is None or value.modulus:
            self.differ("an operand cannot be worked out", step, event)
        return value

    def address(self, event: Event, term: Term | None, wanted: Array, step: str) -> None:
        """Whether an operand is at ``wanted`` bytes of shared memory."""
        value = self.known(event, term, step)
        if value.shared != SHARED_ALIGNMENT or value.tensor:
            self.differ("its address is none of shared memory", step, event)
        if not bool((value.array == wanted).all()):
            text = f"it is at byte {sample(value.array, wanted)}"
            self.differ(text, step, event)

    def value(self, event: Event, term: Term, wanted: Array, step: str) -> None:
        """Whether an operand is a number."""
        value = self.known(event, term, step)
        if not value.plain or not bool((value.array == wanted).all()):
            self.differ(f"its operand is {sample(value.array, wanted)}", step, event)

    # -- of the program ------------------------------------------------------------------------

    def engine(self, operation: str) -> Engine:
        """Who executes an operation."""
        return self.footprints.program.operation[operation].engine

    def barrier(self, action: Wait | Arrive | Commit, one: Expected) -> tuple[Array, Array]:
        """Where the mbarrier of a step lies, and the parity of its phase."""
        assert self.case is not None
        return self.footprints.barrier(action.barrier, action.number, self.case, one.iteration)

    def footprints_of(self, one: Expected, action: Run) -> list[Footprint]:
        """What an operation accesses in shared and tensor memory."""
        assert self.case is not None
        return self.footprints.of(action.operation, self.case, one.iteration)


def plain(condition: Term) -> tuple[Term, bool]:
    """A condition without its negations, and whether it has to hold."""
    holds = True
    while condition.op == "not":
        (condition,), holds = condition.parts, not holds
    return condition, holds


def sample(found: Array, wanted: Array) -> str:
    """The first value that differs."""
    a, b = np.broadcast_arrays(found, wanted)
    at = int(np.argmax((a != b).reshape(-1)))
    return f"{a.reshape(-1)[at]}, not {b.reshape(-1)[at]}"
