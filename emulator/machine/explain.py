"""Texts for what ends a launch early: an error in a step, a deadlock, a kernel that never ends."""

from __future__ import annotations

from schedgen.emulator.machine.conditions import Meeting
from schedgen.emulator.machine.elementwise import Elementwise
from schedgen.emulator.machine.joined import Joined
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.program import Stretch
from schedgen.emulator.machine.residency import Grid
from schedgen.emulator.machine.warp import Group, Warp, lanes_text
from schedgen.emulator.ptx.tree import Instruction

_SHOWN = 40
"""Groups of warps that the explanation of a deadlock lists."""


def located(problem: Exception, warp: Warp, stretch: Stretch | None, step: object) -> Exception:
    """The error that a step has raised, with the place at which it happened."""
    instruction = _failed(warp, stretch, step)
    where = f"executed by lanes {lanes_text(warp.active)} of {warp.title}"
    source = f"{_source(instruction)}" if instruction is not None else ""
    if isinstance(problem, EmulationError):
        return EmulationError(f"{problem}\n  {where}{source}")
    line = f"PTX line {instruction.line}: {instruction.name}: " if instruction is not None else ""
    return EmulationError(
        f"{line}the emulator failed: {type(problem).__name__}: {problem}\n  {where}{source}"
    )


def deadlock(grid: Grid, waiting: list[Warp]) -> str:
    """Who waits for what, warps with the same reason together."""
    reasons: dict[tuple[int, str], list[str]] = {}
    for warp in waiting:
        for group in warp.groups:
            lanes = "" if (group.mask == warp.alive).all() else f" (lanes {lanes_text(group.mask)})"
            reasons.setdefault((_at(group), _reason(group)), []).append(warp.title + lanes)
    body = grid.program.kernel.body
    lines = ["deadlock: no warp can go on and no asynchronous operation is under way"]
    for (at, reason), who in list(reasons.items())[:_SHOWN]:
        instruction = body[at]
        lines.append(f"  {_several(who)} at PTX line {instruction.line}: {instruction.name}")
        if source := _source(instruction):
            lines.append(f"   {source}")
        lines.append(f"    waits for {reason}")
    if len(reasons) > _SHOWN:
        lines.append(f"  … and {len(reasons) - _SHOWN} more")
    machine = grid.machine
    if machine.operations.waiting:
        lines.append(f"  {machine.operations.waiting} operations wait for others that never came")
    if machine.unstarted:
        lines.append(
            f"  further CTAs of the grid have not started: {machine.processors} CTAs fit at a time"
        )
    return "\n".join(lines)


def hottest(grid: Grid, what: str, bound: str) -> str:
    """Where a kernel that does not end spends its time; ``bound`` is what it went beyond."""
    body = grid.program.kernel.body
    stretches = sorted(
        (s for s in grid.program.stretches if s is not None and s.times),
        key=lambda s: s.times * (s.end - s.start),
        reverse=True,
    )
    lines = [
        f"the kernel {what}; it may loop forever (allow more with `{bound}`). "
        f"{grid.machine.executed} warp instructions; most often executed:"
    ]
    for stretch in stretches[:5]:
        first, last = body[stretch.start], body[stretch.end - 1]
        lines.append(
            f"  {stretch.times} × PTX lines {first.line}–{last.line}, ending in {last.name}"
            f"{_source(last)}"
        )
    return "\n".join(lines)


def _failed(warp: Warp, stretch: Stretch | None, step: object) -> Instruction | None:
    body = warp.program.kernel.body
    if stretch is None:
        return None
    if step is stretch.control:
        return body[stretch.end - 1]
    if isinstance(step, Joined):
        step = step.failed
    # The same function may stand for several instructions only if they are the same object.
    for index, candidate in enumerate(stretch.steps):
        if candidate is step or (isinstance(candidate, Elementwise) and candidate.run is step):
            return body[stretch.start + index]
    return body[stretch.start]


def _at(group: Group) -> int:
    """The instruction that a group waits in; behind it, if it will not be executed again."""
    again = group.condition is None or group.condition.again
    return group.pc if again else group.pc - 1


def _reason(group: Group) -> str:
    if group.condition is None:
        return "lanes of its warp that come earlier in the control flow"
    if isinstance(group.condition, Meeting):
        return f"lanes {lanes_text(group.condition.needed & ~group.mask)} of its warp"
    return group.condition.explain()


def _source(instruction: Instruction) -> str:
    place = instruction.location
    if place is None or not place.line:  # line 0: the compiler made it
        return ""
    return f" ({place.file}:{place.line})"


def _several(who: list[str]) -> str:
    if len(who) <= 4:
        return ", ".join(who)
    return f"{', '.join(who[:3])} and {len(who) - 3} more"
