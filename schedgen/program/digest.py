"""What tells one program from another."""

from __future__ import annotations

import json
from dataclasses import asdict
from hashlib import sha256
from typing import Any, cast

from schedgen.program.model import Program

_TOLD = ("why", "protects", "removals", "handoff", "ii_cycles", "trips", "capacities")
"""What a program says about itself that no instruction comes from."""
_USUAL = {"teams": 1, "threads_of": ""}
"""Left out where they are so, so that programs without them are what they were before."""


def program_digest(program: Program) -> str:
    """SHA-256, in hexadecimal, of what instructions come from: steps, barriers, storage."""
    return sha256(json.dumps(_bare(asdict(program)), sort_keys=True).encode()).hexdigest()


def _usual(key: str, value: object) -> bool:
    return key in _USUAL and _USUAL[key] == value


def _bare(data: Any) -> Any:
    if isinstance(data, dict):
        items = cast("dict[str, Any]", data).items()
        return {k: _bare(v) for k, v in items if k not in _TOLD and not _usual(k, v)}
    if isinstance(data, list | tuple):
        return [_bare(one) for one in cast("list[Any]", data)]
    return data
