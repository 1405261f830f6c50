"""A session as SARIF 2.1.0, which code hosts show beside the lines of a change.

Source: OASIS, Static Analysis Results Interchange Format (SARIF) Version 2.1.0, section 3.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from schedgen import __version__
from schedgen.emulator.race.findings import Found
from schedgen.emulator.race.places import Place
from schedgen.emulator.race.session import Session
from schedgen.emulator.race.text import shown_in

_LEVELS = {"error": "error", "warning": "warning", "review": "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def log_of(session: Session, folder: Path) -> dict[str, Any]:
    """The findings of a session as a SARIF log; paths below `folder` are relative to it."""
    found = session.found
    rules = sorted({one.rule for one in found})
    results = [_result(one, rules.index(one.rule), session, folder) for one in found]
    driver = {
        "name": "schedgen race",
        "version": __version__,
        "rules": [_rule(rule, found) for rule in rules],
    }
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _rule(rule: str, found: tuple[Found, ...]) -> dict[str, Any]:
    first = next(one for one in found if one.rule == rule)
    text = first.title.partition(": ")[0] if first.places else first.title
    described: dict[str, Any] = {"id": rule, "shortDescription": {"text": text}}
    if first.repair:
        described["help"] = {"text": f"Usual repair: {first.repair}."}
    return described


def _result(one: Found, index: int, session: Session, folder: Path) -> dict[str, Any]:
    lines = [one.title, f"Needs: {one.needs}"]
    if one.repair:
        lines.append(f"Usual repair: {one.repair}")
    lines += [
        f"Barrier: {barrier.name or barrier.text}, initialized at {barrier.file}:{barrier.line}"
        for barrier in one.barriers
    ]
    if shown := shown_in(one):
        lines.append(f"Shows {shown}")
    if one.how:
        lines.append(f"{one.how[0].upper()}{one.how[1:]}")
    lines.append(f"Kernel: {one.kernel}")
    places = [_location(place, folder) for place in reversed(one.places) if place.file]
    around = [
        _location(call, folder)
        for place in reversed(one.places)
        for call in (Place(c.file, c.line, c.text, 0, "", "called here") for c in place.calls)
    ]
    barriers = (Place(b.file, b.line, b.text, 0, "", f"{b.name} is made") for b in one.barriers)
    related = [*places[1:], *around, *(_location(place, folder) for place in barriers)]
    made: dict[str, Any] = {
        "ruleId": one.rule,
        "ruleIndex": index,
        "level": _LEVELS[one.severity],
        "message": {"text": "\n".join(lines)},
        "locations": places[:1],
        "partialFingerprints": {"schedgenRace/v1": one.fingerprint},
        "occurrenceCount": one.times,
    }
    if related:
        made["relatedLocations"] = [{"id": at, **place} for at, place in enumerate(related, 1)]
    if one.fingerprint in session.known:
        made["suppressions"] = [{"kind": "external", "justification": "in the baseline"}]
    return made


def _location(place: Place, folder: Path) -> dict[str, Any]:
    path = Path(place.file)
    if path.is_relative_to(folder):
        path = path.relative_to(folder)
    artifact = {"uri": path.as_uri() if path.is_absolute() else path.as_posix()}
    region: dict[str, Any] = {"startLine": max(1, place.line)}
    if place.text:
        region["snippet"] = {"text": place.text}
    made: dict[str, Any] = {"physicalLocation": {"artifactLocation": artifact, "region": region}}
    if place.who:
        made["message"] = {"text": place.who}
    return made
