"""Programs as text: what a person reads to follow a kernel, 100 columns wide."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from textwrap import wrap

from schedgen.ordering.steps import describe
from schedgen.ordering.within import Within, within_roles
from schedgen.program.model import (
    Arrive,
    Barrier,
    Program,
    RoleProgram,
    Run,
    Step,
    When,
)
from schedgen.reasons import Reason
from schedgen.synchronize.pace import gains, pace


def program_text(program: Program) -> str:
    """Barriers with what they protect, then each role: before, loop, after."""
    parts = (_head, _pace, _barriers, _roles, _removals, _within)
    return "\n".join(line for part in parts for line in part(program))


def show_step(step: Step) -> str:
    """One step without its place: ``wait sA full[c-3]``."""
    match step.action:
        case Run(operation, barrier, number, size) if number is not None:
            return f"{operation} -> {barrier}[{number.text}] {size} bytes"
        case Arrive(barrier, number, count, size) if size:
            return f"expect {barrier}[{number.text}] x {count}, {size} bytes"
        case _:
            return describe(step)


def _head(program: Program) -> Iterator[str]:
    yield f"{program.kernel} on {program.target} ({program.arch}), II {program.ii_cycles} cycles"
    yield "c counts iterations over all tiles, t counts tiles; slot = number mod slots,"
    yield "phase = number div slots; a wait for a negative number passes on a fresh barrier"


def _pace(program: Program) -> Iterator[str]:
    """The pace with high latencies, the cycle that sets it, and what would help most."""
    now = pace(program)
    yield ""
    yield f"pace: {now.cycles:g} cycles per iteration with high latencies; set by"
    yield f"  {' > '.join(now.cycle)}"
    for gain in gains(program)[:_SHOWN]:
        yield f"  {gain.what}: {gain.cycles:g}"


def _barriers(program: Program) -> Iterator[str]:
    yield ""
    yield "barriers                       slots  arrivals   bytes"
    for barrier in program.barriers:
        yield (
            f"  {barrier.name:28} {barrier.slots:5} {barrier.arrivals:9} {barrier.bytes:7}"
            f"{_skipped(barrier)}"
        )
        for line in barrier.protects[:_SHOWN]:
            yield f"      {line}"
        if len(barrier.protects) > _SHOWN:
            yield f"      and {len(barrier.protects) - _SHOWN} more"


_SHOWN = 4


def _skipped(barrier: Barrier) -> str:
    if not barrier.skipped:
        return ""
    return f"  number {', '.join(map(str, barrier.skipped))} complete from the start"


def _roles(program: Program) -> Iterator[str]:
    for role in program.roles:
        warps = "1 warp" if role.warps == 1 else f"{role.warps} warps"
        if role.teams > 1:
            warps = f"{role.teams} teams of {warps} take tiles in turn"
        yield ""
        yield f"{role.name}: {warps}, {role.registers} registers a thread"
        yield from _section("for each tile", role.before)
        if role.loop:
            yield from _section(_turns(role), role.loop, loop=True)
        yield from _section("after the loop", role.after)


def _turns(role: RoleProgram) -> str:
    if not role.shifts:
        return "for each iteration i"
    return (
        f"for turns 0 to n - 1 + {role.shifts}, each step with its own iteration i where there "
        "is one"
    )


def _section(title: str, steps: tuple[Step, ...], *, loop: bool = False) -> Iterator[str]:
    if not steps:
        return
    yield f"  {title}"
    for step in steps:
        where = f"i=turn-{step.shift}" if step.shift else "i=turn" if loop else ""
        note = f"   # {step.why}" if step.why else ""
        yield f"    {where:9} {_guard(step):11} {show_step(step)}{note}".rstrip()


def _guard(step: Step) -> str:
    guard = step.guard
    if guard.kind is When.EVERY:
        low, high = (
            f"i>={guard.low}" if guard.low else "",
            f"i<n-{guard.high}" if guard.high else "",
        )
        return " ".join(filter(None, (low, high)))
    return f"{guard.kind}" + (f" n>={guard.low}" if guard.low else "")


def _removals(program: Program) -> Iterator[str]:
    if not program.removals:
        return
    yield ""
    yield "needs no barrier of its own"
    for removal in program.removals:
        yield f"  {removal.before} before {removal.after} ({removal.allocation})"
        yield f"      {' > '.join(removal.reason)}"


def _within(program: Program) -> Iterator[str]:
    """Hazards within one role, by what keeps them in order; not those of `_removals`."""
    told = {(removal.before, removal.after) for removal in program.removals}
    found = [one for one in within_roles(program) if not set(one.pairs) <= told]
    if found:
        yield ""
        yield "what keeps operations of one role in order"
    for role, ones in groupby(found, key=lambda one: one.role):
        yield f"  {role}"
        alike: dict[tuple[Reason, ...], list[Within]] = {}
        for one in ones:
            alike.setdefault(one.reasons, []).append(one)
        for each in alike.values():
            yield f"    {each[0].why}"
            pairs = ", ".join(one.what for one in each)
            yield from wrap(pairs, 100, initial_indent=" " * 8, subsequent_indent=" " * 8)
