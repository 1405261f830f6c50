"""What a way to write kernels does on a GPU: iterations of shipped ones, written so and not so.

    python benchmarks/styles.py --prepare FOLDER [--style WORD] [NAME ...]   # without a GPU
    python benchmarks/styles.py --run FOLDER [--rounds N] [--save]

``--style`` is a word of `schedgen.codegen.style`, by default ``prompt``: waits without a hint of
how long they may take; ``straight`` moves tiles of 32 bits in the order of registers. Names are
beginnings of those that `schedgen calibrate --only kernels` gives; all shipped kernels for Hopper
without them, of data types of the same speed one. Cycles are those of an iteration, of one output
tile, as calibration measures them, in a run for each way in each round; the table has the least of
each. On some GPUs clocks are read too high, which changes both alike: `gemm tile_n=128` takes 512.
``--save`` writes ``results/styles.json``, of another word ``results/styles_WORD.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from report import RESULTS, environment, lines

from schedgen.calibration.experiments import Experiment
from schedgen.calibration.measuring import measure
from schedgen.calibration.preparing import MANIFEST, prepare, prepared
from schedgen.calibration.shipped import shipped_experiments
from schedgen.codegen.emit import emit
from schedgen.codegen.style import Style
from schedgen.driver.emitting import LINTERS
from schedgen.driver.lock_file import locked
from schedgen.driver.locked import program_of
from schedgen.proof.prove import proven_before

TARGET, ARCH = "h200", "sm_90a"
WITHOUT, PROMPT = "without", "prompt"
Row = dict[str, Any]


def main() -> int:
    options = _options()
    if options.prepare is not None:
        return _prepare(options.prepare, options.style, options.names)
    rows = _measured(options.run, options.rounds)
    for row in rows:
        print(json.dumps(row), flush=True)
    if options.save:
        word = next(one for one in rows[0] if one not in ("kernel", WITHOUT, "share"))
        name = "styles.json" if word == PROMPT else f"styles_{word}.json"
        (RESULTS / name).write_text(lines(environment(), rows), encoding="utf-8")
    return 0


def _prepare(folder: Path, word: str, names: list[str]) -> int:
    """Two folders of generated files with one list of them."""
    every = shipped_experiments(TARGET)
    chosen = [one for one in every if not names or one.name.startswith(tuple(names))]
    prepare(chosen, TARGET, folder / WITHOUT, print)
    files = {one.name: one.file for one in prepared(folder / WITHOUT).kernels}
    (folder / word).mkdir(exist_ok=True)
    listed = (folder / WITHOUT / MANIFEST).read_text("utf-8")
    (folder / word / MANIFEST).write_text(listed, encoding="utf-8")
    for one in chosen:
        for way in (WITHOUT, word):
            text = _written(one, {word: way == word})
            (folder / way / files[one.name]).write_text(text, encoding="utf-8")
    print(f"{len(chosen)} kernels in {folder}")
    return 0


def _written(one: Experiment, words: dict[str, bool]) -> str:
    """The program of a shipped kernel, in the style of its lock but for ``words``."""
    found = locked(one.spec, ARCH, one.settings)
    assert found is not None
    program, kernel = program_of(found)
    style = replace(Style.of(found.kernel.style), **words)
    return LINTERS + emit(proven_before(program, found.kernel.program), kernel, style=style)


def _measured(folder: Path, rounds: int) -> list[Row]:
    ways = sorted(path.name for path in folder.iterdir())
    found: dict[str, dict[str, float]] = {}
    for _ in range(rounds):
        for way in ways:
            record = measure(prepared(folder / way), folder / way)
            for name, one in record.measured.items():
                least = found.setdefault(name, {})
                least[way] = min(one.cycles, least.get(way, one.cycles))
    word = next(way for way in ways if way != WITHOUT)
    return [
        {"kernel": name, WITHOUT: round(of[WITHOUT], 1), word: round(of[word], 1)}
        | {"share": round(of[word] / of[WITHOUT], 3)}
        for name, of in found.items()
        if of.keys() == {*ways}
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prepare", type=Path, metavar="FOLDER", help="emit, without a GPU")
    parser.add_argument("--run", type=Path, metavar="FOLDER", help="measure what was prepared")
    parser.add_argument("--style", default=PROMPT, metavar="WORD")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--save", action="store_true", help="keep rows in benchmarks/results")
    parser.add_argument("names", nargs="*", help="beginnings of names")
    options = parser.parse_args()
    if (options.prepare is None) == (options.run is None):
        parser.error("one of --prepare and --run")
    return options


if __name__ == "__main__":
    sys.exit(main())
