"""Known findings: a file that a project keeps, so that only news fail its builds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from schedgen.emulator.race.findings import Found
from schedgen.emulator.race.kept import entries
from schedgen.errors import SchedgenError

_FIX = "fix: write it with --update-baseline"


def text_of(found: Iterable[Found]) -> str:
    """Findings as the text of a baseline, a line each, in a stable order."""
    rows = sorted(
        (
            {
                "fingerprint": one.fingerprint,
                "rule": one.rule,
                "title": one.title.partition(":")[0],
                "places": [f"{Path(place.file).name}: {place.text}" for place in one.places],
            }
            for one in found
            if one.severity == "error"
        ),
        key=lambda row: str(row["fingerprint"]),
    )
    body = ",\n".join(f" {json.dumps(row, ensure_ascii=False)}" for row in rows)
    return f'{{"schedgen_race_baseline": 1, "known": [\n{body}\n]}}\n' if rows else _EMPTY


def read(path: Path) -> frozenset[str]:
    """Fingerprints of the findings that a baseline has.

    Raises:
        SchedgenError: there is no such file, or it is no baseline; names file, line or entry.
    """
    known = entries(path, "--baseline", "schedgen_race_baseline", "known", _FIX)
    return frozenset(_fingerprint(path, at, one) for at, one in enumerate(known))


def _fingerprint(path: Path, at: int, entry: Any) -> str:
    found = cast(dict[str, Any], entry).get("fingerprint") if isinstance(entry, dict) else None
    if not isinstance(found, str):
        raise SchedgenError(f"--baseline {path}: known[{at}] has no 'fingerprint'; {_FIX}")
    return found


_EMPTY = '{"schedgen_race_baseline": 1, "known": []}\n'
