"""Compiled kernels that are wrong on purpose: does the emulator notice?

    python benchmarks/emulate_mutants.py [--each=N] [--cutlass=FOLDER] [--save] [BEGINNING ...]

Every synchronization instruction of the PTX is removed, weakened or changed, one at a time
(`schedgen.emulator.mutate`), and the kernel runs with the race checker under adversarial schedules
until one shows a fault: a race, an error (undefined behaviour, or no end), a deadlock or another
result than that of the kernel itself. What no schedule shows at the first extents is tried at the
next ones; instructions that no extents execute are left out. What is never shown is examined by
`emulate_mutants_why`, and listed with the reason why it is equivalent, or without one.

The kernels are those of `schedgen.kernels.regenerate` and, with ``--cutlass``, the examples of
NVIDIA/cutlass in FOLDER. ``--each=N`` takes at most N mutants of every operator and kernel, spread
over the kernel; ``BEGINNING`` picks kernels by how their names begin. Rows are written as they are
found, and those of a kernel that has not changed are not computed again.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from emulate_mutants_run import ENDS, Found, Hunt, hunting
from emulate_mutants_why import ask, why
from report import RESULTS, keep, table

from schedgen.emulating import compiled, default_extents
from schedgen.kernel import Kernel
from schedgen.kernels.regenerate import FOLDER, TARGETS, shipped
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec

Row = dict[str, Any]
NAME = "emulate_mutants"
LONG = 1024
"""k of the examples: their rings have at most 12 slots of 64."""


def extents_of(kernel: Kernel) -> list[dict[str, int]]:
    """Several output tiles for one CTA, with fewer iterations each than rings have slots; then one
    tile with more. With many iterations in each of several tiles, waits for empty slots would
    order the tiles as well.
    """
    ragged = default_extents(kernel, {})
    steps = {p.extent: p.step for o in kernel.operations for p in o.places if p.step}
    fixed = {*steps, *(name for name, _ in kernel.parameters)}
    axes = {a.extent: a.block for a in kernel.grid if a.block > 1 and a.extent not in fixed}
    small = dict.fromkeys(axes, 8)
    first = next(iter(axes.items()), None)
    tiles = {first[0]: 2 * first[1] + 8} if first else {}
    short = {extent: 2 * step + 8 for extent, step in steps.items()}
    long = {extent: 7 * step + 8 for extent, step in steps.items()}
    return [{**ragged, **small, **short, **tiles}, {**ragged, **small, **long}]


def of_shipped(words: tuple[str, ...], each: int | None, known: dict[str, str]) -> Iterator[Row]:
    """Generated kernels, checked as strictly as `schedgen emulate` does."""
    for one in shipped():
        name, path = one.name.removesuffix(".py"), FOLDER / one.name
        if not path.exists() or (words and not name.startswith(words)):
            continue
        text = path.read_text("utf-8")
        digest = sha256(text.encode()).hexdigest()[:12]
        if known.get(name) == f"{digest} {each}":
            continue
        spec = read_spec(one.spec)
        kernel = bind(spec.source, spec.file, one.target, dict(one.settings))[0]
        arch = TARGETS[one.target]
        with hunting(each, ask) as hunt, compiled(text, kernel, arch, sms=1) as made:
            for extents in extents_of(kernel):
                assert made.run(extents).correct
        yield from rows_of(name, f"{digest} {each}", hunt)


def of_examples(
    folder: str, words: tuple[str, ...], each: int | None, known: dict[str, str]
) -> Iterator[Row]:
    """Examples of NVIDIA/cutlass, with the default switches."""
    from cutlass_drivers import NAMES, architecture, prepare

    from schedgen.emulator.emulation import device

    for name in NAMES:
        if known.get(name) == f"cutlass {LONG} {each}" or (words and not name.startswith(words)):
            continue
        arch = architecture(name)
        with hunting(each, ask) as hunt, device(arch, races="report", sms=2):
            prepared = prepare(Path(folder), name, LONG)
            prepared.run()
            prepared.check()
        yield from rows_of(name, f"cutlass {LONG} {each}", hunt)


def rows_of(name: str, version: str, hunt: Hunt) -> Iterator[Row]:
    """One row per operator."""
    groups: dict[str, list[Found]] = defaultdict(list)
    for found in hunt.all():
        groups[found.mutant.operator].append(found)
    for operator, group in sorted(groups.items()):
        ends = Counter(found.end for found in group)
        missed = [
            {"where": _where(found), **asdict(why(found, hunt))}
            for found in group
            if found.end == "undetected"
        ]
        messages = sorted({found.message for found in group if found.message})
        yield {
            "kernel": name, "version": version, "operator": operator, "mutants": len(group),
            **{end: ends[end] for end in ENDS},
            "equivalent": sum(bool(one["reason"]) for one in missed),
            "missed": missed, "messages": messages[:5],
        }  # fmt: skip


def _where(found: Found) -> str:
    place = found.mutant.instruction.location
    source = f" [{Path(place.file).name}:{place.line}]" if place else ""
    return f"line {found.mutant.instruction.line}: {found.mutant.instruction.name}{source}"


def main() -> None:
    options = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:] if "=" in word)
    words = tuple(word for word in sys.argv[1:] if not word.startswith("--"))
    each = int(options["each"]) if "each" in options else None
    path = RESULTS / f"{NAME}.json"
    rows: list[Row] = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    known = {row["kernel"]: row.get("version", "") for row in rows}
    new = (
        of_examples(options["cutlass"], words, each, known)
        if "cutlass" in options
        else of_shipped(words, each, known)
    )
    replaced: set[str] = set()
    for row in new:
        if row["kernel"] not in replaced:
            replaced.add(row["kernel"])
            rows = [one for one in rows if one["kernel"] != row["kernel"] and "version" in one]
        rows.append(row)
        _show(row)
        keep(NAME, rows)


def _show(row: Row) -> None:
    hidden = ("missed", "messages", "version")
    print(table([{k: v for k, v in row.items() if k not in hidden}]).splitlines()[-1])
    for missed in row["missed"]:
        print(f"  undetected: {missed['where']}: {missed['reason'] or 'NO REASON'}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
