"""Counts of how random specs ended, as tables and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fuzzing.run import Ending
from report import table

Row = dict[str, Any]


def failures(rows: Sequence[Row]) -> list[Row]:
    """The rows of specs that ended neither right nor refused."""
    return [row for row in rows if Ending(row["ending"]).failure]


def known(row: Row, entries: Sequence[Row]) -> bool:
    """Whether an entry lists this kind of failure; its reason may be the beginning of the row's."""
    return any(
        (row["ending"], row["stage"]) == (entry["ending"], entry["stage"])
        and row["reason"].startswith(entry["reason"])
        for entry in entries
    )


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Everything that a report says."""
    kinds = Counter((r["ending"], r["stage"], r["reason"]) for r in failures(rows))
    return {
        "specs": len(rows),
        "proven": sum(r["proven"] for r in rows),
        "emulated": sum(r["emulated"] for r in rows),
        "rows": [{"outcome": e.value, "specs": n} for e in Ending if (n := _count(rows, e))],
        "families": families(rows),
        "refusals": refusals(rows),
        "failures": [
            {"outcome": ending, "stage": stage, "reason": reason, "specs": n}
            for (ending, stage, reason), n in kinds.most_common()
        ],
    }


def families(rows: Sequence[Row]) -> list[Row]:
    """By family and target: how many there are, are proven, emulated and right."""
    found: list[Row] = []
    for family, target in sorted({(r["family"], r["target"]) for r in rows}):
        mine = [r for r in rows if (r["family"], r["target"]) == (family, target)]
        found.append({
            "family": family, "target": target, "specs": len(mine),
            "proven": sum(r["proven"] for r in mine), "emulated": sum(r["emulated"] for r in mine),
            "right": _count(mine, Ending.RIGHT),
        })  # fmt: skip
    return found


def refusals(rows: Sequence[Row]) -> list[Row]:
    """By stage and rule."""
    refused = [r for r in rows if r["ending"] in (Ending.REFUSED, Ending.NO_FIX)]
    counts = Counter((r["stage"], r["reason"], r["ending"] == Ending.REFUSED) for r in refused)
    return [
        {"stage": stage, "reason": reason, "fix": fix, "specs": n}
        for (stage, reason, fix), n in counts.most_common()
    ]


def tables(rows: Sequence[Row]) -> str:
    """All of it as Markdown."""
    found = summary(rows)
    specs, proven, emulated = (found[key] for key in ("specs", "proven", "emulated"))
    head = f"{specs} specs, {proven} proven, {emulated} emulated ({emulated / max(specs, 1):.0%})"
    parts = [
        table(found[key]) for key in ("rows", "families", "refusals", "failures") if found[key]
    ]
    return "\n\n".join([head, *parts])


def _count(rows: Sequence[Row], ending: Ending) -> int:
    return sum(row["ending"] == ending for row in rows)
