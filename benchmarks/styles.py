"""What a way to write kernels does on a GPU: iterations of shipped ones, written so and not so.

    python benchmarks/styles.py --prepare FOLDER [--style WORD] [NAME ...]   # without a GPU
    python benchmarks/styles.py --run FOLDER [--rounds N] [--save]

``--style`` is a word of `schedgen.codegen.style`, by default ``prompt``: waits without a hint of
how long they may take; ``straight`` moves tiles of 32 bits in the order of registers; with ``+``
between them several words are one way, as in ``threes+seldom``. Names are
beginnings of those that `schedgen calibrate --only kernels` gives; all shipped kernels for Hopper
without them, of data types of the same speed one. Cycles are those of an iteration, of one output
tile, as calibration measures them, in a run for each way in each round; the table has the least of
each. On some GPUs clocks are read too high, which changes both alike: `gemm tile_n=128` takes 512.
``--save`` writes ``results/styles.json``, of another word ``results/styles_WORD.json``.

    python benchmarks/styles.py --predict [--style WORD] [--save]            # without a GPU

says of the kernels in that file what machine code says of both ways (`schedgen.cycles`), and if
`schedgen emit`, which goes by that, takes the way that was measured to be faster.
"""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from report import RESULTS, environment, lines

from schedgen.calibration.experiments import Experiment
from schedgen.calibration.measuring import measure
from schedgen.calibration.preparing import MANIFEST, prepare, prepared
from schedgen.calibration.shipped import shipped_experiments
from schedgen.codegen.emit import emit
from schedgen.codegen.report import compile_report
from schedgen.codegen.style import Style
from schedgen.cycles.predict import cycles
from schedgen.driver.emitting import LINTERS
from schedgen.driver.lock_file import locked
from schedgen.driver.locked import program_of
from schedgen.execution.issuing import issued
from schedgen.machine_constants import middles
from schedgen.machine_file import read_machine
from schedgen.proof.prove import proven_before

TARGET, ARCH = "h200", "sm_90a"
WITHOUT, PROMPT = "without", "prompt"
ALIKE = 1.01
"""Two measurements of one kernel differ by up to a percent."""
Row = dict[str, Any]


def main() -> int:
    options = _options()
    if options.predict:
        return _predict(options.style, options.names, options.save)
    if options.prepare is not None:
        return _prepare(options.prepare, options.style, options.names)
    rows = _measured(options.run, options.rounds)
    for row in rows:
        print(json.dumps(row), flush=True)
    if options.save:
        word = next(one for one in rows[0] if one not in ("kernel", WITHOUT, "share"))
        _file(word).write_text(lines(environment(), rows), encoding="utf-8")
    return 0


def _file(word: str) -> Path:
    return RESULTS / ("styles.json" if word == PROMPT else f"styles_{word}.json")


def _predict(word: str, names: list[str], save: bool) -> int:
    """Adds to the rows of a file what machine code says."""
    kept = json.loads(_file(word).read_text("utf-8"))
    every = {one.name: one for one in shipped_experiments(TARGET)}
    rows = [
        row for row in kept["rows"]
        if row["kernel"] in every and (not names or row["kernel"].startswith(tuple(names)))
    ]  # fmt: skip
    ways = [dict.fromkeys(word.split("+"), on) for on in (False, True)]
    jobs = [(every[row["kernel"]], way) for row in rows for way in ways]
    with ProcessPoolExecutor() as pool:
        found = pool.map(_by_code, jobs)
        for row in rows:
            without, written = next(found), next(found)
            row |= {f"{WITHOUT}, by machine code": without, f"{word}, by machine code": written}
            print(json.dumps(row), flush=True)
    right = sum(_agrees(row, word) for row in rows)
    print(
        f"{right} of {len(rows)} are written in the way that was measured to be faster, or as fast"
    )
    if save:
        _file(word).write_text(lines(kept["environment"], kept["rows"]), encoding="utf-8")
    return 0


def _by_code(job: tuple[Experiment, dict[str, bool]]) -> int:
    """Cycles of an iteration of a kernel in a style."""
    one, words = job
    found = locked(one.spec, ARCH, one.settings)
    assert found is not None
    program, kernel = program_of(found)
    machine = middles(read_machine(TARGET))
    with TemporaryDirectory(prefix="schedgen-") as folder:
        path = Path(folder) / f"{one.spec}.py"
        path.write_text(_written(one, words), encoding="utf-8")
        cubin = compile_report(path, Path(folder) / "compiled").built.cubin
        return round(cycles(issued(program, kernel, machine), cubin, machine).iteration)


def _agrees(row: Row, word: str) -> bool:
    """Whether the way with fewer predicted cycles is not measurably slower than the other one."""
    ways = (WITHOUT, word)
    taken = min(ways, key=lambda way: row[f"{way}, by machine code"])
    return row[taken] <= ALIKE * min(row[way] for way in ways)


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
            text = _written(one, dict.fromkeys(word.split("+"), way == word))
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
    parser.add_argument("--predict", action="store_true", help="by machine code, without a GPU")
    parser.add_argument("--style", default=PROMPT, metavar="WORD")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--save", action="store_true", help="keep rows in benchmarks/results")
    parser.add_argument("names", nargs="*", help="beginnings of names")
    options = parser.parse_args()
    if [options.prepare is None, options.run is None, not options.predict].count(False) != 1:
        parser.error("one of --prepare, --run and --predict")
    return options


if __name__ == "__main__":
    sys.exit(main())
