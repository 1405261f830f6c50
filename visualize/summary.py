"""What `schedgen solve` prints for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from schedgen.schedule import Schedule, ScheduledBuffer

_NAMES = 12
"""Characters for names of roles and buffers; the column of roles grows with the longest one."""


def summary(
    schedule: Schedule,
    seconds: float,
    explanation: tuple[str, ...] = (),
    more: Sequence[str] = (),
) -> str:
    """The result in a screenful: II and certificate, roles, storage, units, tile loop, and
    ``more``.
    """
    lines = [
        f"{schedule.kernel} on {schedule.target} ({schedule.arch}), "
        f"latencies at their {schedule.latencies} end",
        *_pace(schedule, seconds),
        *_resources(schedule),
        *more,
        *(f"  note         {note}" for note in schedule.notes),
        *(f"  why          {sentence}" for sentence in explanation),
        "  All cycles are those of the machine model, not measured ones.",
    ]
    return "\n".join(lines)


def _pace(schedule: Schedule, seconds: float) -> Iterator[str]:
    certificate, tile = schedule.certificate, schedule.tile
    bound = f"not proven, lower bound {schedule.lower_bound_cycles}"
    proof = "proven optimal" if schedule.proven_optimal else bound
    agreed = f"; confirmed by {certificate.confirmed_by}" if certificate.confirmed_by else ""
    low, high = (schedule.cycle_ratios.get(end, 0) for end in ("low", "high"))
    yield f"  II           {schedule.ii_cycles} cycles per iteration, {proof}; {seconds:.2f} s"
    yield f"  certificate  {certificate.kind}: {certificate.text}{agreed}"
    yield f"  cycle ratio  {low:g} with low latencies, {high:g} with high ones"
    stages = f"{schedule.stages} stage{'s' if schedule.stages > 1 else ''}"
    yield f"  pipeline     {stages}, one iteration {schedule.length_cycles} cycles"
    if tile.period_cycles:
        share = tile.floor_cycles / tile.period_cycles
        yield (
            f"  tile         {tile.period_cycles} cycles for {tile.trips} iterations, "
            f"{share:.1%} of them main loop"
        )


def _resources(schedule: Schedule) -> Iterator[str]:
    if schedule.choices:
        picked = "; ".join(f"{name}: {value}" for name, value in schedule.choices.items())
        yield f"  choices      {picked}"
    yield "  units        " + ", ".join(f"{u.name} {u.utilization:.0%}" for u in schedule.units)
    yield "  roles"
    width = max([_NAMES, *(len(role.name) for role in schedule.roles)])
    for role in schedule.roles:
        warps = "1 warp " if role.warps == 1 else f"{role.warps} warps"
        operations = _short(" ".join(role.operations))
        yield f"    {role.name:{width}} {warps}  {role.registers:3} registers  {operations}"
    yield "  buffers"
    for buffer in schedule.buffers:
        if buffer.space != "registers":
            yield _buffer(buffer)


def _buffer(buffer: ScheduledBuffer) -> str:
    where = f"ring {buffer.ring}" if buffer.ring else ""
    if buffer.alias:
        where = f"in {buffer.alias}" + (f", version j + {buffer.skew}" if buffer.skew else "")
    size = f"{buffer.bytes:7} bytes x {buffer.depth}"
    name = f"{buffer.name:{_NAMES}}"
    return f"    {name} {buffer.space:5}{size}  at {buffer.address:6}  {where}".rstrip()


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."
