"""Accesses by threads beside the operations that do arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

from schedgen.conform.actions import ACCESSES, COPIED
from schedgen.conform.assign import Choice, Need, ways
from schedgen.conform.covered import missing
from schedgen.conform.expected import Expected
from schedgen.conform.footprints import WORD, Footprint, inside, within
from schedgen.conform.pieces import Found, own_waits
from schedgen.conform.runs import COLUMN_BITS
from schedgen.conform.taking import CLOSE, ROWS, SOFT, TRACKED, WAITS, Mismatch, Taker
from schedgen.conform.trace import Event
from schedgen.conform.values import SHARED_ALIGNMENT, Array, Value
from schedgen.emulator.ptx.tree import Instruction
from schedgen.kernel import Space
from schedgen.program.model import Fence, Run

_WAYS = 64
"""Ways to tell operations apart that are tried."""


class Gaps(Taker):
    """What comes between two events that are compared one by one."""

    def gap(
        self, wanted: list[Expected], behind: str, *, frame: bool = False, rows: bool = False
    ) -> None:
        """Accesses up to the next other event belong to operations of threads, in their order.

        ``rows``: the last of these copies rows, up to the end of their group.
        """
        footprints = [
            self.footprints_of(one, one.step.action) if isinstance(one.step.action, Run) else []
            for one in wanted
        ]
        found: list[Found] = []
        copied: Event | None = None
        while self.at < len(self.events):
            event = self.events[self.at]
            kind = event.action.kind
            if (frame and kind not in ACCESSES) or (kind not in SOFT and kind not in CLOSE):
                break
            if kind == ROWS and copied is not None:
                break  # which ends their group
            if kind in CLOSE:
                self.skip_closed()
                continue
            copied = event if kind == COPIED else copied
            choice: Choice | None = {}
            if kind == COPIED:  # by the gather, and by no other operation
                mine = [*([] for _ in footprints[1:]), *(footprints[-1:] if rows else ())]
                choice = self._choice(event, wanted, mine, behind)
            elif kind in ACCESSES:
                choice = self._choice(event, wanted, footprints, behind)
            if choice is not None:
                found.append(Found(event, choice))
            self.at += 1
        if copied is not None and not rows:
            self.differ("no gather copies rows there", behind, copied)
        self._belong(wanted, footprints, found, behind)

    def _choice(
        self, event: Event, wanted: list[Expected], footprints: list[list[Footprint]], behind: str
    ) -> Choice | None:
        """The operations that an access may belong to, by where it is: in the part of a slot that
        they access, else somewhere in the slot. None: it is the kernel's own.
        """
        value = self.known(event, event.action.address, behind)
        write = event.action.kind.endswith("write")
        tensor = event.action.kind.startswith("tmem")
        if not tensor and not write and self._system(value):
            return None
        at = value.array & COLUMN_BITS if tensor else value.array
        for lies in (within, inside):
            choice: dict[int, frozenset[Need]] = {}
            for number, group in enumerate(footprints):
                hit = frozenset(
                    (footprint.allocation, write)
                    for footprint in group
                    if footprint.write == write
                    and (footprint.space is Space.TMEM) == tensor
                    and lies(footprint, at)
                )
                if hit:
                    choice[number] = hit
            if choice:
                return choice
        return self._stray(event, wanted, behind)

    def _stray(self, event: Event, wanted: Sequence[Expected], behind: str) -> None:
        names = ", ".join(one.text for one in wanted) or f"nothing before {behind}"
        self.differ("it accesses what no operation there does", names, event)

    def _system(self, value: Value) -> bool:
        """The word with the address of tensor memory."""
        word = WORD * (self.footprints.plan.words + 1)
        return value.shared == SHARED_ALIGNMENT and bool((value.array == word).all())

    # -- operations ----------------------------------------------------------------------------

    def _belong(
        self,
        wanted: list[Expected],
        footprints: list[list[Footprint]],
        found: list[Found],
        behind: str,
    ) -> None:
        """Accesses belong to operations, each of which has what it needs, and all waits are there:
        in one way to tell operations apart, where there are several.
        """
        needs = [
            frozenset((p.allocation, p.write) for p in group if p.needed) for group in footprints
        ]
        failed: Mismatch | None = None
        for way in islice(ways([one.choice for one in found if one.choice], needs), _WAYS):
            runs = iter(way)
            told = [replace(one, run=next(runs)) if one.choice else one for one in found]
            try:
                for kind in WAITS.values():
                    self._waited(kind, wanted, told)
                self._covered(wanted, footprints, [one for one in told if one.choice], behind)
            except Mismatch as error:
                failed = failed or error
                continue
            accesses = [one for one in told if one.choice]
            self.mapped += [(wanted[o.run].text, o.event.action.instruction) for o in accesses]
            return
        if failed is not None:
            raise failed
        self._lacks(wanted, needs, found)

    def _covered(
        self,
        wanted: list[Expected],
        footprints: list[list[Footprint]],
        found: list[Found],
        behind: str,
    ) -> None:
        """All of what operations touch is touched: no access of several is lost."""
        for number, group in enumerate(footprints):
            mine = [one for one in found if one.run == number]
            for footprint in (footprint for footprint in group if footprint.needed):
                need = footprint.allocation, footprint.write
                there = [one for one in mine if need in one.choice[number]]
                what = "written" if footprint.write else "read"
                if lost := missing(footprint, [self._at(one.event, behind) for one in there]):
                    unit = "columns" if footprint.space is Space.TMEM else "bytes"
                    text = f"{lost} {unit} of '{footprint.allocation}' are not {what}"
                    self.differ(text, wanted[number].text, there[-1].event)

    def _at(self, event: Event, behind: str) -> tuple[Instruction, Array]:
        """An access, with the addresses of all threads."""
        value = self.known(event, event.action.address, behind)
        tensor = event.action.kind.startswith("tmem")
        return event.action.instruction, value.array & COLUMN_BITS if tensor else value.array

    def _lacks(
        self, wanted: list[Expected], needs: list[frozenset[Need]], found: list[Found]
    ) -> None:
        """Says what there is no way for, if accesses stay with an operation while they can."""
        at, met = 0, [set[Need]() for _ in needs]
        for one in (one for one in found if one.choice):
            later = [number for number in one.choice if number >= at]
            if not later:
                self._stray(one.event, wanted[at:], "the end")
            at = min(later)
            met[at] |= one.choice[at]
        for one, need, has in zip(wanted, needs, met, strict=True):
            for allocation, write in sorted(need - has):
                event = self.events[self.at] if self.at < len(self.events) else None
                what = "writes to" if write else "reads from"
                self.differ(f"no instruction {what} '{allocation}'", one.text, event)

    # -- waits for tensor memory ---------------------------------------------------------------

    def _waited(self, kind: str, wanted: list[Expected], found: list[Found]) -> None:
        """Waits for loads from, or stores to, tensor memory: where the program has them, behind
        all that operations before them do, and within operations behind each piece or behind none.
        """
        waits = [
            number
            for number, one in enumerate(wanted)
            if isinstance(one.step.action, Fence) and WAITS[one.step.action.kind] == kind
        ]
        own = own_waits(kind, found, self.differ)
        for number in waits:
            before = [at for at, one in enumerate(found) if 0 <= one.run < number]
            behind = [at for at, one in enumerate(found) if one.run > number]
            begin, end = max(before, default=-1), min(behind, default=len(found))
            here = [one.event for one in found[begin + 1 : end] if one.kind == kind]
            same = sum(
                not any(min(p, number) < found[at].run < max(p, number) for at in before + behind)
                for p in waits
            )
            inner = bool(before) and own.get(found[begin].run, False)
            inner = inner and found[begin].kind in TRACKED[kind]
            plain = [event for event in here if not event.conditions and not event.elected]
            if len(here) < same + inner or len(plain) < same:
                event = found[begin + 1].event if begin + 1 < len(found) else None
                event = event or (self.events[self.at] if self.at < len(self.events) else None)
                self.differ(f"'{kind}' is missing", wanted[number].text, event)
