"""Every generated kernel, race-checked under 20 adversarial schedules, at ragged and tiny shapes.

    python benchmarks/emulate_kernels.py [--save] [--emit=TARGET:ARCH:FOLDER] [BEGINNING ...]

The kernels are those that `schedgen.kernels.regenerate` lists, the shapes those of
`schedgen.driver.inputs.shapes`. Rows are written as they are found, and a row whose kernel has not
changed is not computed again. ``--emit`` adds the same specs for another machine: files that are
not in FOLDER are generated first. ``BEGINNING`` picks kernels by how their names begin.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any

from report import RESULTS, keep

from schedgen.codegen.facts import file_name
from schedgen.driver.emulating import Compiled, compiled
from schedgen.driver.inputs import shapes
from schedgen.emulator.machine.policies import Adversarial
from schedgen.errors import SchedgenError
from schedgen.kernels import library
from schedgen.kernels.regenerate import TARGETS, shipped
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec

SCHEDULES = 20
NAME = "emulate_kernels"
Row = dict[str, Any]
Case = tuple[str, str, str, dict[str, str], str]
"""Spec, machine, architecture, settings, text of the file."""


def cases(words: list[str]) -> Iterator[Case]:
    """The shipped kernels, and those of ``--emit``."""
    for kernel in shipped():
        arch, settings = TARGETS[kernel.target], dict(kernel.settings)
        text = library.named(kernel.name).read_text("utf-8")
        yield kernel.spec, kernel.target, arch, settings, text
    for word in words:
        target, arch, folder = word.removeprefix("--emit=").split(":")
        if target in TARGETS:
            continue
        for spec, settings in dict.fromkeys((k.spec, k.settings) for k in shipped()):
            text = emitted(spec, target, dict(settings), Path(folder), arch)
            yield spec, target, arch, dict(settings), text


def emitted(spec: str, target: str, settings: dict[str, str], folder: Path, arch: str) -> str:
    """The file in ``folder``, generated if it is not there."""
    path = folder / file_name(spec, arch, settings)
    if not path.exists():
        from schedgen.driver.emitting import emission
        from schedgen.machine_file import read_machine

        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(emission(read_spec(spec), read_machine(target), settings).text, "utf-8")
    return path.read_text("utf-8")


def rows_of(case: Case, known: dict[tuple[str, str, str], Row]) -> Iterator[Row]:
    """One row per shape."""
    spec, target, arch, settings, text = case
    name = file_name(spec, arch, settings).removesuffix(".py")
    digest = sha256(text.encode()).hexdigest()[:12]
    source = read_spec(spec)
    kernel = bind(source.source, source.file, target, settings)[0]
    todo = shapes(kernel)
    for shape in list(todo):
        row = known.get((name, shape, digest))
        if row is not None and row["schedules"] == SCHEDULES:
            yield row
            del todo[shape]
    if not todo:
        return
    with compiled(text, kernel, arch, sms=1) as made:
        for shape, extents in todo.items():
            first: Row = {"kernel": name, "arch": arch, "file": digest, "shape": shape}
            yield first | judged(made, extents)


def judged(made: Compiled, extents: dict[str, int]) -> Row:
    """What all schedules of one shape show."""
    begin = perf_counter()
    right = clean = instructions = 0
    worst, notes = 0.0, ""
    for seed in range(SCHEDULES):
        try:
            outcome = made.run(extents, Adversarial(seed))
        except SchedgenError as error:
            notes = notes or f"seed {seed}: {error}"
            continue
        right += outcome.correct
        clean += outcome.clean
        instructions += outcome.report.statistics.instructions
        worst = max(worst, *(result.ratio for result in outcome.results.values()))
        if not (outcome.correct and outcome.clean):
            notes = notes or f"seed {seed}: {outcome.report.text or outcome.errors}"
    return {
        "extents": " ".join(f"{name}={size}" for name, size in extents.items()),
        "schedules": SCHEDULES,
        "correct": right,
        "clean": clean,
        "error of allowed": round(worst, 3),
        "warp instructions": instructions,
        "seconds": round(perf_counter() - begin, 1),
        "notes": notes,
    }


def main() -> None:
    words = sys.argv[1:]
    path = RESULTS / f"{NAME}.json"
    old: list[Row] = json.loads(path.read_text("utf-8"))["rows"] if path.exists() else []
    known = {(row["kernel"], row["shape"], row["file"]): row for row in old}
    beginnings = tuple(word for word in words if not word.startswith("--"))
    rows: list[Row] = []
    for case in cases([word for word in words if word.startswith("--emit=")]):
        name = file_name(case[0], case[2], case[3]).removesuffix(".py")
        if beginnings and not name.startswith(beginnings):
            rows += [row for row in old if row["kernel"] == name]
            continue
        for row in rows_of(case, known):
            rows.append(row)
            if known.get((row["kernel"], row["shape"], row["file"])) is row:
                continue
            print(*(row[key] for key in ("kernel", "shape", "correct", "clean", "seconds")))
            print(end=row["notes"][:2000], flush=True)
            done = {(one["kernel"], one["shape"]) for one in rows}
            keep(NAME, rows + [one for one in old if (one["kernel"], one["shape"]) not in done])
    keep(NAME, rows)
    wrong = [row for row in rows if min(row["correct"], row["clean"]) < row["schedules"]]
    runs = sum(row["schedules"] for row in rows)
    print(f"{len(rows)} shapes, {runs} runs, {len(wrong)} shapes with faults")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
