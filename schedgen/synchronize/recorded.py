"""A synchronization as lines of text, one for each decision, and back: what a lock of kernels keeps
of it, so that nothing has to be derived again.

    LA c of 3 -> MMA[0] c uses sA        MMA[0] waits for the number c that LA gives, one of 3
    LS c of 3 -> MMA[0] c uses sS for E  the same, for what a later operation of its role uses
    fence.proxy.async of PUT[0]          right behind it, or before it, as that fence always is
    wgmma.fence of MMA[0], first         in the first iteration of a tile
    wait_group of MMA[0]
    role meeting of MMA[0]               all its warps right before it; then what that protects
      overwrites_after PUT[0] sC STD[0]
    roles meeting of MMA[0] MMA[1]       the warps of both roles, right before these
    4 slots of sA full                   more than its storage needs; a second one of that name is
    4 slots of sA full, 1                told by its number
    pace TENSOR: PV[0] 1 -> QK[1] 0, 1   QK[1] is issued after PV[0], an iteration behind its turn,
                                         in the turn after that: as `Paced` has it
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from schedgen.program.model import EVERY, FIRST, FenceKind, Guard
from schedgen.program.operations import Number
from schedgen.reasons import Reason, ReasonKind
from schedgen.synchronize.parts import (
    Among,
    Fenced,
    Handoff,
    Meeting,
    Paced,
    Signal,
    Synchronization,
)

_NUMBER = re.compile(r"(\d*)([ct])([+-]\d+)?")
_HANDOFF = re.compile(r"(\S+) (\S+) of (\d+) -> (\S+) (\S+) (uses|overwrites) (\S+)(?: for (\S+))?")
_WAIT_GROUP = re.compile(r"wait_group of (\S+)")
_FENCE = re.compile(r"(\S+) of (\S+?)(, first)?")
_AMONG: dict[str, Among] = {"role": "role", "roles": "roles", "warp": "warp"}
_MEETING = re.compile(rf"({'|'.join(_AMONG)}) meeting of (\S+?)((?: \S+?)*)(, first)?")
_PROTECTS = re.compile(r"  (\S+)((?: \S+)*)")
_PACE = re.compile(r"pace (\S+): (\S+) (\d+) -> (\S+) (\d+), (\d+)")
_SLOTS = re.compile(r"(\d+) slots of (.+?)(?:, (\d+))?")


def lines(made: Synchronization) -> Iterator[str]:
    """The decisions of ``made`` in their order."""
    for h in made.handoffs:
        what = "uses" if h.fills else "overwrites"
        signal = f"{h.signal.operation} {h.signal.number.text} of {h.signal.slots}"
        later = f" for {h.later}" if h.later else ""
        yield f"{signal} -> {h.target} {h.number.text} {what} {h.allocation}{later}"
    for fenced in made.fences:
        yield f"{fenced.kind.value} of {fenced.operation}{_first(fenced.guard)}"
    for operation in made.wait_groups:
        yield f"wait_group of {operation}"
    for meeting in made.meetings:
        yield f"{meeting.among} meeting of {' '.join(meeting.operations)}{_first(meeting.guard)}"
        for reason in meeting.protects:
            yield f"  {' '.join((reason.kind.value, *reason.subjects))}"
    for (name, number), slots in made.slots:
        yield f"{slots} slots of {name}" + (f", {number}" if number else "")
    for p in made.paces:
        yield f"pace {p.unit}: {p.before} {p.lag} -> {p.after} {p.after_lag}, {p.distance}"


def synchronization(text: Iterable[str]) -> Synchronization:
    """What `lines` wrote. Raises ValueError with a line that it cannot have written."""
    made = Synchronization()
    for line in text:
        made = _with(made, line)
    return made


def _with(made: Synchronization, line: str) -> Synchronization:
    if found := _HANDOFF.fullmatch(line):
        name, given, slots, target, number, what, allocation, later = found.groups()
        signal = Signal(name, _number(given), int(slots))
        uses = what == "uses"
        handoff = Handoff(signal, target, _number(number), allocation, uses, later or "")
        return replace(made, handoffs=(*made.handoffs, handoff))
    if found := _WAIT_GROUP.fullmatch(line):
        return replace(made, wait_groups=(*made.wait_groups, found[1]))
    if found := _MEETING.fullmatch(line):
        among, name, others, first = found.groups()
        guard = FIRST if first else EVERY
        meeting = Meeting(name, guard, (), _AMONG[among], tuple(others.split()))
        return replace(made, meetings=(*made.meetings, meeting))
    if made.meetings and (found := _PROTECTS.fullmatch(line)):
        *others, last = made.meetings
        reason = Reason(ReasonKind(found[1]), tuple(found[2].split()))
        last = replace(last, protects=(*last.protects, reason))
        return replace(made, meetings=(*others, last))
    if found := _SLOTS.fullmatch(line):
        more = (found[2], int(found[3] or 0)), int(found[1])
        return replace(made, slots=(*made.slots, more))
    if found := _PACE.fullmatch(line):
        unit, before, lag, after, after_lag, distance = found.groups()
        one = Paced(unit, before, int(lag), after, int(after_lag), int(distance))
        return replace(made, paces=(*made.paces, one))
    if found := _FENCE.fullmatch(line):
        fenced = Fenced(found[2], FenceKind(found[1]), FIRST if found[3] else EVERY)
        return replace(made, fences=(*made.fences, fenced))
    raise ValueError(f"'{line}' is no decision of a synchronization")


def _first(guard: Guard) -> str:
    if guard not in (EVERY, FIRST):
        raise ValueError(f"{guard} has no text")
    return ", first" if guard == FIRST else ""


def _number(text: str) -> Number:
    found = _NUMBER.fullmatch(text)
    if found is None:
        raise ValueError(f"'{text}' is no number of a barrier")
    return Number(int(found[1] or 1), int(found[3] or 0), found[2] == "t")
