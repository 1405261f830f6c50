"""What `schedgen tune` prints."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from schedgen.tuning.basics import mean, shown
from schedgen.tuning.choosing import Choice, Choices, candidate
from schedgen.tuning.records import Manifest, Record
from schedgen.tuning.shapes import name_of

_REASONS = 8


def manifest_lines(manifest: Manifest, folder: Path) -> list[str]:
    """Candidates, and why there are not more."""
    lines = [
        f"{manifest.kernel} for {manifest.target} ({manifest.arch}), round {manifest.round}: "
        f"{len(manifest.candidates)} candidates in {folder}",
        *(f"  shape {name_of(shape)}" for shape in manifest.shapes),
        f"  {'':5}{'II':>6} {'program':>8} {'per tile':>9} {'model cycles':>13}  settings",
    ]
    for one in manifest.candidates:
        lines.append(
            f"  {one.name:5}{one.ii_cycles:6} {one.pace_cycles:8.0f} {one.tile_cycles:9} "
            f"{mean(one.estimates):13.0f}  {shown(one.settings)}"
        )
    reasons = Counter((one.stage, one.reason) for one in manifest.dropped)
    if reasons:
        lines.append(f"  dropped {len(manifest.dropped)} settings")
    lines += [f"  {n:5} {stage}: {reason}" for (stage, reason), n in reasons.most_common(_REASONS)]
    if len(reasons) > _REASONS:
        lines.append(f"  and for {len(reasons) - _REASONS} other reasons (--json, tuning.json)")
    if manifest.left:
        lines.append(f"  {manifest.left} settings are slower in the model, or time was over")
    return [*lines, f"measure where there is a GPU: schedgen tune --run {folder}"]


def manifest_data(manifest: Manifest, folder: Path) -> list[str]:
    """The same as JSON."""
    found = asdict(manifest)
    for one in found["candidates"]:
        del one["lock"]
    return [json.dumps({"folder": str(folder), **found}, indent=1)]


def record_lines(record: Record, choices: Choices) -> list[str]:
    """Times of all candidates with each shape, and the winners."""
    prepared = record.prepared
    how = "eager times" if choices.by == "eager" else "times in CUDA graphs"
    lines = [
        f"{prepared.kernel} on {record.device}, {record.date}: {record.rounds} rounds of "
        f"{len(record.times)} candidates; {how} decide"
    ]
    for number, (shape, choice) in enumerate(zip(prepared.shapes, choices.shapes, strict=True)):
        lines += [name_of(shape), *_table(record, choice, number)]
    lines += [f"  {name} failed: {reason}" for name, reason in record.failed.items()]
    return [*lines, _overall(record, choices.overall)]


def _table(record: Record, choice: Choice, shape: int) -> list[str]:
    lines = [f"    {'':5}{'eager ms':>10} {'graph ms':>10} {'quartiles':>22}  settings"]
    for name, spread in choice.spreads.items():
        times = record.times[name][shape]
        graph = f"{median(times.graph):10.4f}" if times.graph else f"{'':10}"
        mark = "*" if name == choice.winner else "=" if name in choice.tied else " "
        lines.append(
            f"  {mark} {name:5}{median(times.eager):10.4f} {graph} "
            f"{spread.low:10.4f} to {spread.high:8.4f}  "
            f"{shown(candidate(record, name).settings)}"
        )
    return lines


def _overall(record: Record, choice: Choice) -> str:
    one = candidate(record, choice.winner)
    tied = f"; not told from {', '.join(choice.tied)}" if choice.tied else ""
    before = shown(candidate(record, choice.before).settings)
    return (
        f"winner: {one.name}, {shown(one.settings)}; {choice.gain:.3f} times as fast as "
        f"{choice.before}, {before}{tied}"
    )


def record_data(record: Record, choices: Choices) -> list[str]:
    """The same as JSON."""
    prepared = record.prepared
    data = {
        "kernel": prepared.kernel,
        "device": record.device,
        "software": record.software,
        "date": record.date,
        "mhz": record.mhz,
        "rounds": record.rounds,
        "by": choices.by,
        "candidates": {one.name: one.settings for one in prepared.candidates},
        "failed": record.failed,
        "shapes": [
            {"shape": shape, **_choice_data(choice)}
            for shape, choice in zip(prepared.shapes, choices.shapes, strict=True)
        ],
        "overall": _choice_data(choices.overall),
    }
    return [json.dumps(data, indent=1)]


def _choice_data(choice: Choice) -> Mapping[str, Any]:
    return {
        "winner": choice.winner,
        "tied": choice.tied,
        "before": choice.before,
        "gain": choice.gain,
        "ms": {name: asdict(spread) for name, spread in choice.spreads.items()},
    }
