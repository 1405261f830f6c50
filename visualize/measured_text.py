"""A comparison of measured and planned cycles as a table, and as data for JSON."""

from __future__ import annotations

from dataclasses import asdict
from itertools import groupby
from typing import Any

from schedgen.visualize.measured import Comparison, Row
from schedgen.visualize.measured_share import Share
from schedgen.visualize.record import label

_NAME = 58


def comparison_text(comparison: Comparison) -> str:
    """Lines that end in a newline."""
    lines = [*_head(comparison), ""]
    columns = f"{'planned':>8} {'measured':>8} {'diff':>7} {'low':>7} {'high':>7} {'count':>6}"
    lines.append(f"{'cycles':{_NAME}} {columns}")
    for role, rows in groupby(comparison.rows, key=lambda row: row.role):
        lines += ["", role]
        for row in rows:
            lines += _row(row)
        lines += [f"  {_share(share)}" for share in comparison.shares if share.role == role]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def comparison_data(comparison: Comparison) -> dict[str, Any]:
    """For JSON: plain data, cycles as numbers."""
    record, schedule = comparison.record, comparison.schedule
    return {
        "kernel": record.kernel,
        "target": schedule.target,
        "arch": record.target,
        "spec_sha256": record.spec_sha256,
        "device": record.device,
        "software": record.software,
        "extents": dict(record.extents),
        "block": record.block,
        "tiles": len(record.trips),
        "trips": list(record.trips),
        "microseconds": dict(record.microseconds),
        "same_result": record.same_result,
        "clock_cycles": dict(record.overhead),
        "rows": [{**asdict(row), "difference": row.difference} for row in comparison.rows],
        "shares": [asdict(share) for share in comparison.shares],
    }


def _head(comparison: Comparison) -> list[str]:
    record, schedule = comparison.record, comparison.schedule
    extents = " ".join(f"{name}={size}" for name, size in record.extents.items())
    clocks = ", ".join(f"{role} {cycles:g}" for role, cycles in record.overhead.items())
    lines = [
        f"{record.kernel} on {schedule.target}, measured on {record.device}, block {record.block}, "
        f"{len(record.trips)} tiles",
        f"  {extents}",
        f"  planned: II {schedule.ii_cycles} cycles, latencies at their {schedule.latencies} end",
        f"  cycles of a clock, subtracted: {clocks}",
    ]
    times = record.microseconds
    if "without" in times:
        more = times["with_events"] / times["without"] - 1
        same = "the same bits" if record.same_result else "OTHER RESULTS"
        lines.append(
            f"  launch: {times['with_events']} us with events, {times['without']} us without "
            f"({more:+.1%}), {same}"
        )
    else:
        lines.append(f"  launch: {times['with_events']} us with events")
    return lines


def _row(row: Row) -> list[str]:
    if row.kind == "wait":
        name = f"wait before {row.name}" if row.name else "wait at the end of the tile"
    else:
        name = row.name if row.kind == "operation" else f"one {row.name}"
    planned = "" if row.planned is None else f"{row.planned:.0f}"
    difference = "" if row.difference is None else f"{row.difference:+.0f}"
    lines = [
        f"  {name:{_NAME - 2}} {planned:>8} {row.measured:8.0f} {difference:>7} "
        f"{row.low:7.0f} {row.high:7.0f} {row.count:6}"
    ]
    for part in row.parts:
        what = label(part.kind, part.name, part.why)
        lines.append(f"    {what:{_NAME - 4}} {'':8} {part.measured:8.0f} {'':23} {part.count:6}")
    return lines


def _share(share: Share) -> str:
    what = "an iteration" if share.scope == "iteration" else "between loops"
    planned = "" if share.planned is None else f" (planned {share.planned:.0f})"
    longest = f" ({share.longest} {share.longest_cycles:.0f})" if share.longest else ""
    return (
        f"{what}: {share.total:.0f}{planned} = operations {share.operations:.0f} + "
        f"waits {share.waits:.0f}{longest} + clocks {share.clocks:.0f} + rest {share.rest:.0f}"
    )
