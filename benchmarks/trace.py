"""What operations and waits of a kernel take on a GPU, beside what their schedule plans.

    python benchmarks/trace.py SCHEDULE RECORD [SCHEDULE RECORD ...] [--save]

SCHEDULE is a file of `schedgen solve -o`, RECORD one of `schedgen trace --keep` or of
`python -m schedgen.kernels.recording`, made on a GPU for a kernel of that schedule; here none is
needed. Prints what each iteration and each pass between two tiles consists of, and all rows that
`schedgen trace` prints; keeps both.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from report import keep, table

from schedgen.schedule import read_schedule
from schedgen.visualize.measured import Comparison, Row, compare
from schedgen.visualize.measured_share import Share
from schedgen.visualize.record import label, read_record


def shares(comparison: Comparison, about: Mapping[str, object]) -> list[dict[str, object]]:
    """A line for each role with a loop, and what is between two of its tiles."""

    def line(share: Share) -> dict[str, object]:
        what = "an iteration" if share.scope == "iteration" else "between loops"
        return {
            **about,
            "table": "shares",
            "role": share.role,
            "time": what,
            "planned": _whole(share.planned),
            "measured": _whole(share.total),
            "operations": _whole(share.operations),
            "waits": _whole(share.waits),
            "clocks": _whole(share.clocks),
            "rest": _whole(share.rest),
            "longest wait": f"{share.longest} {share.longest_cycles:.0f}" if share.longest else "",
        }

    return [line(share) for share in comparison.shares]


def events(comparison: Comparison, about: Mapping[str, object]) -> list[dict[str, object]]:
    """A line for each operation and wait, iteration and tile; the longest part of each wait."""

    def line(row: Row) -> dict[str, object]:
        names = {"operation": row.name, "period": f"one {row.name}"}
        name = names.get(row.kind) or (f"wait before {row.name}" if row.name else "wait at the end")
        longest = max(row.parts, key=lambda part: part.measured, default=None)
        return {
            **{key: about[key] for key in ("kernel", "block")},
            "table": "events",
            "role": row.role,
            "section": row.section,
            "event": name,
            "planned": _whole(row.planned),
            "measured": _whole(row.measured),
            "difference": _whole(row.difference),
            "low": _whole(row.low),
            "high": _whole(row.high),
            "count": row.count,
            "mostly": label(longest.kind, longest.name, longest.why) if longest else "",
        }

    return [line(row) for row in comparison.rows]


def _whole(cycles: float | None) -> object:
    return "" if cycles is None else round(cycles)


def problem(comparison: Comparison) -> dict[str, object]:
    """Which kernel, sizes, block, GPU and versions."""
    record = comparison.record
    extents = " ".join(f"{name}={size}" for name, size in record.extents.items())
    times = record.microseconds
    return {
        "kernel": record.kernel,
        "extents": extents,
        "block": record.block,
        "tiles": len(record.trips),
        "recorded": record.date,
        "device": record.device,
        "software": record.software,
        "us with events": times["with_events"],
        "us without": times.get("without", ""),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="SCHEDULE RECORD")
    parser.add_argument("--save", action="store_true", help="keep the results")
    files: list[Path] = parser.parse_args().files
    if len(files) % 2:
        parser.error(f"{files[-1]} has no record: give files in pairs, SCHEDULE RECORD")
    found: list[dict[str, object]] = []
    for schedule, record in zip(files[::2], files[1::2], strict=True):
        planned = read_schedule(schedule.read_text("utf-8"), str(schedule))
        comparison = compare(read_record(record.read_text("utf-8"), str(record)), planned)
        about = problem(comparison)
        print("\n" + ", ".join(f"{key} {value}" for key, value in about.items() if value != ""))
        for rows in (shares(comparison, about), events(comparison, about)):
            print("\n" + table([{k: r[k] for k in r if k not in (*about, "table")} for r in rows]))
            found += rows
    keep("trace", found)


if __name__ == "__main__":
    main()
