"""Merges signals to barriers whose phases nobody can confuse: slots and answers where needed.

A wait sees a parity bit, so a barrier must never be two phases off (`schedgen.ordering.phases`).
"""

from __future__ import annotations

from dataclasses import replace

from schedgen.findings import Finding
from schedgen.ordering.orders import Orders
from schedgen.ordering.phases import phase_findings
from schedgen.program.model import Program
from schedgen.synchronize.build import ProgramError
from schedgen.synchronize.layout import Layout
from schedgen.synchronize.merge import assign
from schedgen.synchronize.parts import Assignment, BarrierPlace, Handoff, Signal, Synchronization

# Slots that a barrier gets at most where its storage needs fewer.
_MOST_SLOTS = 4
_REPAIRS = 40


def phases_apart(layout: Layout, made: Synchronization) -> tuple[Program, Synchronization]:
    """The program of ``made`` with its signals merged; and ``made`` with what that took: answers,
    and slots that barriers have more than their storage needs.

    Raises ProgramError if no barrier keeps the phases apart.
    """
    phases = _Phases(layout, made)
    program = phases.apart()
    return program, replace(phases.made, slots=tuple(sorted(phases.more.items())))


class _Phases:
    def __init__(self, layout: Layout, made: Synchronization) -> None:
        self.layout, self.made = layout, made
        self.more: dict[BarrierPlace, int] = {}
        """Slots of the barriers that have more than their storage needs."""

    def apart(self) -> Program:
        """Merges signals, and mends what could confuse two phases then.

        A slot more lets a phase wait for its observer; where any number of phases could pass (tiles
        without iterations hold nobody up), the observer has to say that it has seen one, and a slot
        more only helps after that. So slots alone are tried first.
        """
        wider = self._widened()
        if wider is not None:
            return wider
        more = self.more
        added: list[Handoff] = []
        text = ""
        for _ in range(_REPAIRS):
            program, findings, assignment = self._phases(self.made, more)
            if not findings:
                return self._fewest(program, added, more)
            text = findings[0].text
            new: dict[Handoff, None] = {}
            wider = False
            for name in dict.fromkeys(finding.subject[0] for finding in findings):
                of = [h for h in self.made.handoffs if assignment.of[h.signal].barrier == name]
                slots = program.barrier[name].slots
                counts_tiles = any(handoff.signal.number.per_tile for handoff in of)
                answers = map(self._answer, of if counts_tiles or slots == _MOST_SLOTS else ())
                missing = [answer for answer in answers if answer not in self.made.handoffs]
                if missing:
                    new |= dict.fromkeys(missing)
                elif slots < _MOST_SLOTS:
                    more[assignment.place[name]] = slots + 1
                    wider = True
            if not new and not wider:
                break
            added.extend(new)
            self.made = self.made.joined(Synchronization(tuple(new)))
        raise ProgramError(
            f"no barrier keeps the phases apart: {text}\n  fix: give operations that take turns "
            "with a tile the same role, or its buffer more slots ('depth')"
        )

    def _widened(self) -> Program | None:
        """A program in which slots suffice to keep the phases apart, if there is one."""
        more: dict[BarrierPlace, int] = {}
        while True:
            program, findings, assignment = self._phases(self.made, more)
            if not findings:
                self.more = more
                return program
            slots = {name: program.barrier[name].slots for name in (f.subject[0] for f in findings)}
            wider = {assignment.place[n]: k + 1 for n, k in slots.items() if k < _MOST_SLOTS}
            if not wider:
                return None
            more |= wider

    def _phases(
        self, made: Synchronization, more: dict[BarrierPlace, int]
    ) -> tuple[Program, list[Finding], Assignment]:
        assignment = assign(self.layout, made, more)
        program = self.layout.lay_out(made, assignment)
        return program, list(phase_findings(Orders(program))), assignment

    def _fewest(
        self, program: Program, added: list[Handoff], more: dict[BarrierPlace, int]
    ) -> Program:
        """Drops the answers that turn out not to be needed."""
        for answer in added:
            fewer = self.made.without(answer)
            without, findings, _ = self._phases(fewer, more)
            if not findings:
                self.made, program = fewer, without
        return program

    def _answer(self, handoff: Handoff) -> Handoff:
        """The target tells the source that it has seen what it waited for."""
        signal = handoff.signal
        back = Signal(handoff.target, signal.number, signal.slots)
        wait = signal.number.moved(-signal.slots)
        return Handoff(back, signal.operation, wait, handoff.allocation, False)
