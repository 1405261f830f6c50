"""What to try next: neighbours of a winner."""

from __future__ import annotations

from schedgen.errors import SchedgenError
from schedgen.tuning.preparing import Wanted, retried
from schedgen.tuning.records import AxisTried, Record
from schedgen.tuning.space import Axis, near, schedules

MOST = 4
"""Rounds of refinement, at most: each halves the steps of tiles."""


def refined(record: Record, winner: str, count: int, seconds: float) -> Wanted | None:
    """What is to be prepared after ``record``: the numbers of ``winner`` and those next to them,
    with steps of the round before and half as large; other schedules of the same tiles; and
    ``winner`` itself. None if there have been `MOST` rounds, or nothing is left to vary.

    Raises SchedgenError: no candidate is called ``winner``.
    """
    manifest = record.prepared
    best = next((one for one in manifest.candidates if one.name == winner), None)
    if best is None:
        names = ", ".join(one.name for one in manifest.candidates)
        raise SchedgenError(f"'{winner}' is no candidate; fix: one of {names}")
    axes = [_around(axis, best.settings, manifest.round + 1) for axis in manifest.axes]
    known = {axis.name for axis in axes}
    axes += [axis for axis in schedules() if axis.name not in known]
    if manifest.round >= MOST or all(len(axis.values) == 1 for axis in axes):
        return None
    tried = [one for one in retried(manifest) if one != best.settings]
    return Wanted(
        manifest.spec,
        manifest.target,
        manifest.base,
        axes,
        manifest.shapes,
        count,
        seconds,
        manifest.seed,
        manifest.round + 1,
        tried,
        [best.settings],
    )


def _around(axis: AxisTried, settings: dict[str, str], round_: int) -> Axis:
    """An axis of the next round, around a winner with ``settings``."""
    now = settings.get(axis.name, axis.usual or axis.values[0])
    if not (axis.numeric and now.isdigit()):
        return Axis(axis.name, (now,), usual=axis.usual)
    number = int(now)
    close = dict.fromkeys((number, *near(number, round_ - 1), *near(number, round_)))
    return Axis(axis.name, tuple(map(str, close)), True, axis.usual)
