"""Cases as files: the spec with a comment about it, and beside it the problem and its outcome."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from fuzzing.run import Outcome
from fuzzing.sketch import Case, text_of

INDEX = "cases.json"


def write_case(folder: Path, case: Case, outcome: Outcome) -> Path:
    """Writes ``FOLDER/NAME.yaml`` and its entry in ``FOLDER/cases.json``; the path of the spec."""
    folder.mkdir(parents=True, exist_ok=True)
    text = text_of(case.data)
    mark = hashlib.sha256(text.encode()).hexdigest()[:6]
    name = f"{outcome.ending.value.replace(' ', '_')}_{case.target}_{mark}"
    sizes = " ".join(f"{extent}={size}" for extent, size in case.extents.items())
    lines = [f"{outcome.ending} at {outcome.stage}: {outcome.reason}", f"{case.target}: {sizes}"]
    detail = outcome.detail.splitlines()
    lines += [line[:110] for line in (detail[-2:] if outcome.ending == "traceback" else detail[:3])]
    head = "".join(f"# {line}".rstrip() + "\n" for line in lines)
    path = folder / f"{name}.yaml"
    path.write_text(head + text, encoding="utf-8")
    index = folder / INDEX
    known: dict[str, Any] = json.loads(index.read_text("utf-8")) if index.exists() else {}
    known[name] = {
        "target": case.target, "extents": case.extents, "inputs": case.inputs,
        "family": case.family, "ending": outcome.ending.value, "stage": outcome.stage,
        "reason": outcome.reason,
    }  # fmt: skip
    index.write_text(json.dumps(dict(sorted(known.items())), indent=1) + "\n", encoding="utf-8")
    return path


def read_case(path: Path) -> Case:
    """A case that `write_case` wrote, or whose entry was written by hand."""
    entry = json.loads((path.parent / INDEX).read_text("utf-8"))[path.stem]
    return Case(
        -1, entry["target"], plain(path.read_text("utf-8")), entry["extents"], entry["inputs"],
        entry["family"],
    )  # fmt: skip


def plain(text: str) -> dict[str, Any]:
    """The content of a spec file as Python data that can be written again."""
    from io import StringIO

    from ruamel.yaml import YAML

    return YAML(typ="safe").load(StringIO(text))
