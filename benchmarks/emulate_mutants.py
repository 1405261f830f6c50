"""Compiled kernels that are wrong on purpose: does the emulator notice?

    python benchmarks/emulate_mutants.py [SPEC:TARGET ...] [--cutlass=FOLDER:NAME ...]
                                         [--each=N] [--save]

Every synchronization instruction of the PTX is removed, weakened or changed, one at a time
(`schedgen.emulator.mutate`), and the kernel runs with the race checker under adversarial schedules
until one shows a fault: a race, an error (undefined behaviour, or no end), a deadlock or another
result than that of the kernel itself. What no schedule shows is listed: some of it is equivalent.
Instructions that the kernel does not execute at these sizes are left out.
``--each=N`` takes at most N mutants of every operator and kernel, spread over the kernel.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

from report import keep, table

from schedgen.emulator.emulation import Emulator
from schedgen.emulator.launch.capture import Launch
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.policies import Adversarial
from schedgen.emulator.mutate import Mutant, mutants
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Module

Row = dict[str, Any]
SEEDS = (0, 1, 2)
"""Asynchronous operations late, mixed and early."""
ENDS = ("race", "error", "deadlock", "wrong result", "undetected")
SETTINGS = {
    "gemm": {"tile_m": "64", "tile_n": "32", "slices": "1", "consumers": "1"},
}
EXTENTS = {
    "gemm": {"m": 136, "n": 72, "k": 200},
    "gemm_chain": {"m": 520},
    "attention_fwd": {"seq_q": 136, "seq_k": 264, "heads": 1},
}
"""Others have their default extents. Of the products an odd number of tiles in one CTA, and fewer
iterations per tile than the ring has slots: with more, its empty slots order the tiles as well."""
SPECS = ("gemm:h200", "attention_fwd:h200", "gemm_chain:h200")


@dataclass
class Campaign:
    """The mutants of one launch. ``found`` has each with its end, the seed and a message."""

    launch: Launch
    emulator: Emulator
    chosen: list[Mutant]
    module: Module
    initial: list[bytes]
    right: list[bytes]
    limit: int

    def judge(self, mutant: Mutant) -> tuple[str, int, str]:
        """How a mutant ends, under which seed, and the first line of what is said about it."""
        for seed in SEEDS:
            _write(self.launch, self.initial)
            run = Emulator(
                Adversarial(seed), "report", self.emulator.switches, self.limit, mutant.module
            )
            try:
                run.run(self.launch)
            except EmulationError as error:
                text = str(error)
                kind = "deadlock" if "deadlock" in text else "error"
                races = [line for line in text.splitlines() if line.startswith("error: ")]
                return ("race", seed, races[0]) if races else (kind, seed, text.splitlines()[0])
            if run.reports[0].findings:
                return "race", seed, run.reports[0].text.splitlines()[0]
            if _read(self.launch) != self.right:
                return "wrong result", seed, ""
        return "undetected", -1, ""


_current: list[Campaign] = []


def _judged(place: int) -> tuple[int, tuple[str, int, str]]:
    return place, _current[0].judge(_current[0].chosen[place])


def _read(launch: Launch) -> list[bytes]:
    return [ctypes.string_at(one.start, one.size) for one in launch.allocations]


def _write(launch: Launch, content: list[bytes]) -> None:
    for one, data in zip(launch.allocations, content, strict=True):
        ctypes.memmove(one.start, data, one.size)


def sampled(found: list[Mutant], each: int | None) -> list[Mutant]:
    """At most ``each`` mutants of every operator, evenly spread."""
    if each is None:
        return found
    groups: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in found:
        groups[mutant.operator].append(mutant)
    return [
        mutant
        for group in groups.values()
        for mutant in group[:: max(1, -(-len(group) // each))][:each]
    ]


@contextmanager
def mutating(name: str, each: int | None, rows: list[Row]) -> Generator[None]:
    """Inside, every launch is also run with all its mutants, which become ``rows``."""
    original: Callable[[Emulator, Launch], None] = Emulator.run

    def run(self: Emulator, launch: Launch) -> None:
        if self.rewrite is not None or self.limit != Emulator().limit:
            original(self, launch)
            return
        initial = _read(launch)
        original(self, launch)
        right = _read(launch)
        report = self.reports[-1]
        assert not report.findings, report.text
        module = parse(launch.ptx)
        # Spinning costs the adversarial schedules more turns than round-robin.
        limit = 10 * report.statistics.instructions
        all_ = list(mutants(module.kernels[launch.kernel]))
        lines = report.statistics.lines
        reached = [mutant for mutant in all_ if lines.get(mutant.instruction.line)]
        print(f"{name}: {len(all_) - len(reached)} of {len(all_)} mutants are of instructions that")
        print("these sizes do not execute")
        chosen = sampled(reached, each)
        _current[:] = [Campaign(launch, self, chosen, module, initial, right, limit)]
        # Nothing may be found in the kernel itself, or the mutants would tell nothing.
        assert _current[0].judge(_itself(module, launch))[0] == "undetected"
        with multiprocessing.get_context("fork").Pool(min(2, os.cpu_count() or 1)) as pool:
            found = dict(pool.imap_unordered(_judged, range(len(chosen)), chunksize=2))
        _write(launch, right)
        rows.extend(_rows(name, chosen, found))

    with patch.object(Emulator, "run", run):
        yield


def _itself(module: Module, launch: Launch) -> Mutant:
    kernel = module.kernels[launch.kernel]
    return Mutant("none", kernel.body[0], kernel)


def _rows(name: str, chosen: list[Mutant], found: dict[int, tuple[str, int, str]]) -> Iterator[Row]:
    """One row per operator."""
    groups: dict[str, list[int]] = defaultdict(list)
    for place, mutant in enumerate(chosen):
        groups[mutant.operator].append(place)
    for operator, places in sorted(groups.items()):
        ends = Counter(found[place][0] for place in places)
        missed = [_where(chosen[p]) for p in places if found[p][0] == "undetected"]
        messages = sorted({found[p][2] for p in places if found[p][2]})
        yield {
            "kernel": name, "operator": operator, "mutants": len(places),
            **{end: ends[end] for end in ENDS}, "missed": missed, "messages": messages[:5],
        }  # fmt: skip


def _where(mutant: Mutant) -> str:
    place = mutant.instruction.location
    source = f" [{Path(place.file).name}:{place.line}]" if place else ""
    return f"line {mutant.instruction.line}: {mutant.instruction.name}{source}"


def of_spec(spec: str, target: str, each: int | None) -> list[Row]:
    """A generated kernel, checked as strictly as the ISA text."""
    from schedgen.codegen.emit import emit
    from schedgen.emulating import emulate
    from schedgen.machine_file import read_machine
    from schedgen.proved import prove_solution
    from schedgen.solution import solve
    from schedgen.spec.reader import read_spec

    solution = solve(read_spec(spec), read_machine(target), settings=SETTINGS.get(spec, {}))
    kernel, proven = solution.problem.kernel, prove_solution(solution).proven
    rows: list[Row] = []
    with mutating(f"{spec} {target}", each, rows):
        arch = proven.program.arch
        outcome = emulate(emit(proven, kernel), kernel, arch, extents=EXTENTS.get(spec))
    assert outcome.correct, outcome.errors
    return rows


def of_example(folder: str, name: str, each: int | None) -> list[Row]:
    """An example of NVIDIA/cutlass, with the default switches."""
    from cutlass_drivers import architecture, prepare

    from schedgen.emulator.emulation import device

    rows: list[Row] = []
    with mutating(name, each, rows), device(architecture(name), races="report", sms=2):
        prepared = prepare(Path(folder), name)
        prepared.run()
        prepared.check()
    return rows


def main() -> None:
    words = sys.argv[1:]
    each = next((int(w.partition("=")[2]) for w in words if w.startswith("--each=")), None)
    examples = [w.partition("=")[2] for w in words if w.startswith("--cutlass=")]
    specs = [w for w in words if not w.startswith("--")] or (() if examples else SPECS)
    rows: list[Row] = []
    for spec, _, target in (word.partition(":") for word in specs):
        rows += of_spec(spec, target, each)
        _show(rows)
        keep("emulate_mutants", rows)
    for folder, _, name in (word.rpartition(":") for word in examples):
        rows += of_example(folder, name, each)
        _show(rows)
        keep("emulate_mutants", rows)


def _show(rows: list[Row]) -> None:
    hidden = ("missed", "messages")
    print(table([{k: v for k, v in row.items() if k not in hidden} for row in rows]))
    for row in rows:
        for missed in row["missed"]:
            print(f"undetected: {row['kernel']}: {row['operator']}: {missed}")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
