"""A session for a person, and as data."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import asdict
from typing import Any

from schedgen.emulator.race.bank_text import bank_data, bank_lines
from schedgen.emulator.race.coverage import Coverage, Gap
from schedgen.emulator.race.findings import Found
from schedgen.emulator.race.places import Place
from schedgen.emulator.race.programs import Ended
from schedgen.emulator.race.schedules import ROUND_ROBIN
from schedgen.emulator.race.schedules import data_of as schedule_data
from schedgen.emulator.race.session import Session
from schedgen.emulator.race.timeline import Timeline
from schedgen.emulator.race.unsupported import Unsupported

_SHOWN = 3
"""Lines whose synchronization was not executed that are named without being asked."""


def lines_of(
    session: Session, ended: Ended, *, quiet: bool = False, unexecuted: bool = False
) -> Iterator[str]:
    """The report, line by line; ``quiet`` leaves out warnings, known findings and launches,
    ``unexecuted`` lists all synchronization that was not executed, or never had to wait."""
    news = [one for one in session.found if one.fingerprint not in session.known]
    for one in news:
        if not quiet or one.severity == "error":
            yield from finding_lines(one)
            yield ""
    if not quiet:
        yield from _launches(session)
    if session.banks is not None:
        yield from bank_lines(session.banks)
    if unexecuted or not quiet:
        yield from _coverage(session.coverage, unexecuted)
    if ended.error:
        yield from ended.error.splitlines()
    elif ended.status:
        yield f"the program ended with status {ended.status}"
    if ended.limited:
        yield f"the program was ended by --limit {ended.limited}"
    yield verdict(session)


def verdict(session: Session) -> str:
    """One line."""
    count = len(session.launches)
    if not count:
        return "no kernel was launched: nothing was checked"
    kernels = len({ran.kernel for ran in session.launches})
    known = sum(one.fingerprint in session.known for one in session.found)
    about = f"{_several(count, 'launch', 'launches')} of {_several(kernels, 'kernel')}"
    more = f", {_several(known, 'known finding')}" if known else ""
    wrong = len(session.errors)
    return f"{about}: {_several(wrong, 'finding') if wrong else 'clean'}{more}"


def data_of(session: Session, ended: Ended) -> dict[str, Any]:
    """The report as JSON has it."""
    return {
        "clean": not session.errors,
        "status": ended.status,
        "error": ended.error,
        "limited": ended.limited,
        "findings": [finding_data(one, session.known) for one in session.found],
        "synchronization": {
            "instructions": session.coverage.instructions,
            "unexecuted": [_gap_data(gap) for gap in session.coverage.unexecuted()],
            "never_waited": [_gap_data(gap) for gap in session.coverage.unblocked()],
        },
        **({} if session.banks is None else {"banks": bank_data(session.banks)}),
        "launches": [
            {
                "kernel": ran.kernel,
                "grid": list(ran.grid),
                "block": list(ran.block),
                "ended": ran.ended,
                "findings": [one.fingerprint for one in ran.found],
                "warp_instructions": ran.instructions,
                "seconds": round(ran.seconds, 2),
            }
            for ran in session.launches
        ],
    }


def finding_data(one: Found, known: Collection[str]) -> dict[str, Any]:
    """A finding as JSON has it."""
    return {
        "fingerprint": one.fingerprint,
        "known": one.fingerprint in known,
        "rule": one.rule,
        "severity": one.severity,
        "title": one.title,
        "kernel": one.kernel,
        "places": [place.data() for place in one.places],
        "needs": one.needs,
        "repair": one.repair,
        "barriers": [asdict(barrier) for barrier in one.barriers],
        "shows": list(one.shows),
        "shown": shown_in(one),
        "launch": one.launch,
        "how": one.how,
        "schedule": None if one.schedule is None else schedule_data(one.schedule),
        "schedules": one.schedules,
        "switch": one.switch,
        "times": one.times,
        "launches": one.launches,
        **({} if one.timeline is None else {"timeline": _timeline_data(one.timeline)}),
    }


def _timeline_data(timeline: Timeline) -> dict[str, Any]:
    return {
        "agents": list(timeline.agents),
        "schedule": timeline.schedule,
        "rows": [{**asdict(row), "place": row.place.data()} for row in timeline.rows],
        "sources": [None if one is None else asdict(one) for one in timeline.sources],
        "codes": [asdict(one) for one in timeline.codes],
    }


def finding_lines(one: Found) -> Iterator[str]:
    """A finding for a person, line by line."""
    yield f"{one.severity}[{one.rule}]: {one.title}"
    words = ("first", "then") if len(one.places) == 2 else ("at",)
    for word, place in zip(words, one.places, strict=False):
        yield f"  {word:<7}{place.name}{_who(place)}"
        if place.text:
            yield f"         {place.text}"
        if place.instruction:
            yield f"         PTX {place.ptx}: {place.instruction}"
        yield from (f"         called at {call.name}  {call.text}" for call in place.calls)
    more = one.needs.splitlines()
    if more and more[0] != one.title:
        yield f"  needs  {more[0]}"
    yield from (f"  {line}" for line in more[1:])
    if one.repair:
        yield f"  usual  {one.repair}"
    for barrier in one.barriers:
        named = f"{barrier.name}: " if barrier.name else ""
        yield f"  mbar   {named}initialized at {barrier.file}:{barrier.line}  {barrier.text}"
    if shows := shown_in(one):
        yield f"  shows  {shows}"
    if one.how and one.how != ROUND_ROBIN:
        yield f"  if     {one.how.removeprefix('shows if ')}"
    if one.switch is not None:
        yield f"  switch {one.switch}: the verdict depends on it"
    where = f"{_several(one.launches, 'launch', 'launches')} of {one.kernel}"
    alike = f", {one.members} pairs of PTX lines" if one.members > 1 else ""
    yield f"  seen   {_several(one.times, 'time')} in {where}{alike}; id {one.fingerprint}"


def shown_in(one: Found) -> str:
    """Under which schedules a finding shows, in words; empty if there was one schedule."""
    if one.schedules < 2 or not one.shows:
        return ""
    if len(one.shows) == one.schedules:
        return f"under all {one.schedules} schedules, round-robin among them"
    return f"under {len(one.shows)} of {one.schedules} schedules: {'; '.join(one.shows)}"


def unsupported_lines(
    found: Collection[Unsupported], kernels: int, ended: Ended | None
) -> Iterator[str]:
    """What cannot be executed, line by line; ``ended``: how the program did that was run for it."""
    for one in found:
        yield f"{one.place.name}: {one.instruction} ({_several(one.times, 'time')} in {one.kernel})"
        yield f"  PTX {one.place.ptx}: {one.place.instruction}"
        yield f"  {one.why}"
    if ended is not None and ended.status:
        last = (ended.error.splitlines() or [f"status {ended.status}"])[-1]
        yield f"the program did not end well without results, there may be more kernels: {last}"
    about = _several(kernels, "kernel")
    yield (
        f"{about}: {_several(len(found), 'kind')} of instructions not supported"
        if found
        else (f"{about}: all instructions are supported")
    )


def _gap_data(gap: Gap) -> dict[str, Any]:
    return {
        "kernel": gap.kernel,
        "instruction": gap.instruction,
        "place": gap.place.data(),
        "ptx_lines": list(gap.lines),
        "of": gap.of,
        "launches": gap.launches,
    }


def _coverage(coverage: Coverage, every: bool) -> Iterator[str]:
    """Synchronization that was not executed, a line or two for each line of the source."""
    gaps = sorted(coverage.unexecuted(), key=lambda gap: not gap.whole)
    count = sum(len(gap.lines) for gap in gaps)
    if gaps:
        more = "" if every else " (all: --unexecuted)"
        yield (
            f"never executed, so not checked: {count} of "
            f"{_several(coverage.instructions, 'synchronization instruction')}{more}"
        )
    shown = gaps if every else [gap for gap in gaps if gap.whole][:_SHOWN]
    for gap in shown:
        yield from _gap_lines(gap, "never executed")
    if every and (idle := coverage.unblocked()):
        yield f"executed, but no warp ever had to wait in them: {_several(len(idle), 'wait')}"
        for gap in idle:
            yield from _gap_lines(gap, "never waited")


def _gap_lines(gap: Gap, what: str) -> Iterator[str]:
    part = "" if gap.whole else f"{len(gap.lines)} of the {gap.of} that it became "
    place = gap.place
    text = f"  {place.text}" if place.text else ""
    yield f"  {place.name}{text}"
    yield (
        f"    {gap.instruction}: {part}{what} in "
        f"{_several(gap.launches, 'launch', 'launches')} of {gap.kernel}"
    )
    yield from (f"    called at {call.name}  {call.text}" for call in place.calls)


def _who(place: Place) -> str:
    return f"  {place.who}" if place.who else ""


def _launches(session: Session) -> Iterator[str]:
    """A line for each kernel and grid."""
    rows: dict[tuple[str, tuple[int, ...], tuple[int, ...]], list[int | float]] = {}
    for ran in session.launches:
        row = rows.setdefault((ran.kernel, ran.grid, ran.block), [0, 0, 0.0, 0])
        row[0] += 1
        row[1] += ran.instructions
        row[2] += ran.seconds
        row[3] += not ran.ended
    for (kernel, grid, block), (times, instructions, seconds, broken) in rows.items():
        ended = f", {broken} did not end" if broken else ""
        yield (
            f"{kernel}: grid {'x'.join(map(str, grid))}, block {'x'.join(map(str, block))}, "
            f"{times} times, {instructions} warp instructions, {seconds:.1f} s{ended}"
        )


def _several(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"
