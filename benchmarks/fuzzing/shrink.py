"""Makes a failing spec small: drops and simplifies parts as long as it fails in the same way."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fuzzing.pool import endings
from fuzzing.run import Outcome
from fuzzing.sketch import Case, Data

_MOST = 150
"""Specs that are tried for one failure."""
_SIMPLE = ("role", "when", "then", "carry", "polynomial", "label", "alias", "depth")


def shrunk(case: Case, seconds: float) -> tuple[Case, Outcome]:
    """A case that fails in the same way and has nothing more to drop, with its outcome."""
    _, outcome = next(endings(iter([case]), 1, seconds))
    if not outcome.ending.failure:
        return case, outcome
    tried: set[str] = set()
    best, again = case, True
    while again and len(tried) < _MOST:
        again = False
        for smaller in _smaller(best):
            key = str((smaller.data, smaller.extents, smaller.inputs))
            if key in tried or len(tried) >= _MOST:
                continue
            tried.add(key)
            _, found = next(endings(iter([smaller]), 1, seconds))
            if found.kind == outcome.kind:
                best, outcome, again = smaller, found, True
                break
    return best, outcome


def _smaller(case: Case) -> Iterator[Case]:
    """Cases that are a step simpler, the largest steps first."""
    if case.inputs != "normal":
        yield replace(case, inputs="normal")
    for data in _dropped(case.data):
        clean = tidy(data)
        extents = {e for a in clean.get("arguments", {}).values() for e in a["shape"]}
        scalars = {n for n, a in clean.get("arguments", {}).items() if not a["shape"]}
        kept = {n: size for n, size in case.extents.items() if n in extents | scalars}
        yield replace(case, data=clean, extents=kept)
    for extent, size in case.extents.items():
        for less in (8, 16, size // 2, size - size % 8):
            if 0 < less < size:
                yield replace(case, extents={**case.extents, extent: less})


def _dropped(data: Data) -> Iterator[Data]:
    for phase, operations in data["operations"].items():
        for place in reversed(range(len(operations))):
            made = copy.deepcopy(data)
            gone = made["operations"][phase].pop(place)
            yield _rewired(made, gone)
            if len(gone.get("to", ())) > 1 and isinstance(gone.get("to"), dict):
                for name in gone["to"]:
                    made = copy.deepcopy(data)
                    del made["operations"][phase][place]["to"][name]
                    yield made
    for section in ("rings", "dimensions"):
        for name in data.get(section, {}):
            made = copy.deepcopy(data)
            del made[section][name]
            yield _without_dimension(made, name) if section == "dimensions" else made
    yield from _simplified(data)


def _simplified(data: Data) -> Iterator[Data]:
    """Without options of operations and buffers; with plain formulas."""
    for phase, operations in data["operations"].items():
        for place, operation in enumerate(operations):
            for key in _SIMPLE:
                if key in operation:
                    made = copy.deepcopy(data)
                    del made["operations"][phase][place][key]
                    yield made
            if operation["kind"] == "map":
                yield from _plainer(data, phase, place)
    for name, buffer in data["buffers"].items():
        for key in ("alias", "depth", "split"):
            if key in buffer:
                made = copy.deepcopy(data)
                del made["buffers"][name][key]
                yield made


def _plainer(data: Data, phase: str, place: int) -> Iterator[Data]:
    """A formula becomes the name of a buffer in it, or that and a constant."""
    buffers = set(data["buffers"])
    for output, formula in data["operations"][phase][place]["to"].items():
        found = dict.fromkeys(re.findall(r"[A-Za-z_]\w*(?:@\d+)?", str(formula)))
        names = [n for n in found if n.partition("@")[0] in buffers]
        for simple in [*names, *(f"{n} * 0.5" for n in names), " + ".join(names)]:
            if simple and simple != formula and len(simple) < len(str(formula)):
                made = copy.deepcopy(data)
                made["operations"][phase][place]["to"][output] = simple
                yield made


def _rewired(data: Data, gone: dict[str, Any]) -> Data:
    """What an operation made out of something is read as that something."""
    to, source = gone.get("to"), gone.get("from")
    if isinstance(to, dict) and len(to) == 1:
        to, formula = next(iter(to.items()))
        names = [n for n in re.findall(r"[A-Za-z_]\w*", str(formula)) if n in data["buffers"]]
        source = names[0] if names else None
    if not isinstance(to, str) or source not in data["buffers"] or source == to:
        return data
    for operation in (o for part in data["operations"].values() for o in part):
        for key in ("a", "b", "from"):
            if operation.get(key) == to:
                operation[key] = source
        if isinstance(operation.get("to"), dict):
            operation["to"] = {
                name: re.sub(rf"\b{to}\b", source, str(formula))
                for name, formula in operation["to"].items()
            }
    return data


def _without_dimension(data: Data, name: str) -> Data:
    for entry in (*data["buffers"].values(), *(o for p in data["operations"].values() for o in p)):
        for key in ("per", "over"):
            if name in entry.get(key, []):
                entry[key] = [one for one in entry[key] if one != name]
                if not entry[key]:
                    del entry[key]
        if "split" in entry:
            entry["split"] = {side: dim for side, dim in entry["split"].items() if dim != name}
            if not entry["split"]:
                del entry["split"]
        if f"{{{name}}}" in str(entry.get("role", "")):
            del entry["role"]
    return data


def tidy(data: Data) -> Data:
    """Without what nothing uses any more: operations, buffers, arguments, rings, dimensions."""
    made = copy.deepcopy(data)
    while True:
        before = str(made)
        operations = [o for part in made["operations"].values() for o in part]
        used = {word for o in operations for word in re.findall(r"[A-Za-z_]\w*", str(o))}
        for section in ("buffers", "arguments"):
            made[section] = {n: b for n, b in made.get(section, {}).items() if n in used}
        dims = {
            d
            for b in (*made["buffers"].values(), *operations)
            for d in re.findall(r"[A-Za-z_]\w*", str(b))
        }
        made["dimensions"] = {n: d for n, d in made.get("dimensions", {}).items() if n in dims}
        rings = made.get("rings", {})
        for ring in rings.values():
            ring["buffers"] = [b for b in ring["buffers"] if b in made["buffers"]]
        made["rings"] = {n: r for n, r in rings.items() if r["buffers"]}
        reads = _reads(operations)
        for part in made["operations"].values():
            part[:] = [o for o in part if o["kind"] == "store" or _outputs(o) & reads]
        made["operations"] = {n: p for n, p in made["operations"].items() if p or n == "body"}
        if str(made) == before:
            break
    return {k: v for k, v in made.items() if v != {}}


def _outputs(operation: dict[str, Any]) -> set[str]:
    to = operation.get("to", operation.get("d"))
    return set(to) if isinstance(to, dict) else {str(to)}


def _reads(operations: list[dict[str, Any]]) -> set[str]:
    """Names that an operation reads which does not only change what it reads."""
    found: set[str] = set()
    for operation in operations:
        to = operation.get("to")
        values = list(to.values()) if isinstance(to, dict) else []
        for key in ("a", "b", "from", "carry", "when", "then"):
            values.append(operation.get(key, ""))
        names = {word for value in values for word in re.findall(r"[A-Za-z_]\w*", str(value))}
        found |= names - (_outputs(operation) if operation["kind"] != "mma" else set())
    return found
