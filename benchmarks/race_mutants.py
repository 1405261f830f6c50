"""Kernels of others with one mistake in them: does `schedgen race` notice?

    python benchmarks/race_mutants.py FOLDER --capture [--cutlass=CHECKOUT] [NAME ...]
    python benchmarks/race_mutants.py FOLDER [--seconds=S] [--each=N] [--first] [NAME ...] [--save]

The first command runs programs under the stand-in for the GPU and keeps their launches in FOLDER,
a file per kernel. The second one makes every mutant of these kernels and executes it
(`emulate_mutants` says how and when one counts as found; changed registers of setmaxnreg are left
out), first under the schedules of `schedgen race`, then under those of the campaign. What no
schedule shows is examined (`emulated_mutants.why`). Rows of mutants are in FOLDER/rows.jsonl, which
grows: what is there is not judged again. One mutant of each operator and line of the source comes
first, and with --first alone; --seconds ends it after so many, and ``--each=N`` takes N of every
operator. Saved rows of kernels that are not in FOLDER, or not named, stay as they are.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter
from typing import Any

from emulate_capture_file import Capture, Entry, Run, entries, read, write
from emulate_captures import recording, version
from emulate_mutants import UNCHANGED, chosen, judged, kind_of, known
from emulated_mutants.pool import Task, judge
from emulated_mutants.run import TARGETED, Campaign
from emulated_mutants.why import explained
from report import RESULTS, keep, table

from schedgen.emulator.machine.switches import Switches, Uninitialized

Row = dict[str, Any]
NAME = "race_mutants"
PROGRAMS = Path(__file__).parent / "race_programs"
_EXAMPLES = "examples/python/CuTeDSL"
_PERSISTENT = "cute/hopper/kernel/dense_gemm/dense_gemm_persistent.py"
_ONCE = ("--warmup_iterations", "0", "--iterations", "1")
_LEFT_OUT = "M13"
"""How many registers threads have orders nothing."""


@dataclass(frozen=True)
class Case:
    """A kernel: the architecture, and runs of a program (with arguments) that launch it."""

    arch: str
    program: str
    runs: tuple[tuple[str, ...], ...]


CASES = {
    "quack_gemm_sm_90a": Case("sm_90a", "mutated.py", (("quack",),)),
    "quack_gemm_sm_100a": Case("sm_100a", "mutated.py", (("quack",),)),
    "flash_attn_4_forward_sm_90a": Case("sm_90a", "mutated.py", (("flash-attn",),)),
    "flash_attn_4_forward_sm_100a": Case("sm_100a", "mutated.py", (("flash-attn",),)),
    "cutlass_hopper_dense_gemm_persistent": Case(
        "sm_90a", _PERSISTENT,
        tuple(
            ("--mnkl", sizes, *_ONCE)
            for sizes in ("512,256,128,1", "256,256,1024,1", "264,136,200,1")
        ),
    ),
}  # fmt: skip


def captured(name: str, checkout: Path | None) -> Capture:
    """The launches of a kernel, each of which is executed and has to be right and clean.

    Raises:
        SystemExit: a program failed.
    """
    from schedgen.emulator.race.programs import script
    from schedgen.emulator.race.running import Options, checked

    case = CASES[name]
    path = PROGRAMS / case.program
    if case.program.startswith("cute/"):
        assert checkout is not None
        sys.path.insert(0, str(checkout / _EXAMPLES))
        path = checkout / _EXAMPLES / case.program
    found: list[Run] = []
    with recording(found):
        for words in case.runs:
            _, ended = checked(script(str(path), words), Options(case.arch, "round-robin", sms=1))
            if ended.status:
                raise SystemExit(f"{name}: {path} {' '.join(words)} failed:\n{ended.error}")
    runs = _different(found)
    # Reads of what nobody wrote are no evidence here: whether they matter (S28) takes another run.
    switches = Switches(uninitialized=Uninitialized.WARNING)
    return Capture(name, version(runs), switches, tuple(runs))


def _different(found: Sequence[Run]) -> list[Run]:
    """One launch of each size: programs launch again to measure. All are of one kernel."""
    runs = list({(run.recording.grid, run.instructions): run for run in reversed(found)}.values())
    if len({version([run]) for run in runs}) > 1:
        raise SystemExit(f"several kernels: {[run.recording.kernel for run in runs]}")
    return runs[::-1]


def divided(campaign: Campaign, numbers: Iterable[int]) -> tuple[list[int], list[int]]:
    """Numbers of mutants: those that are the first of their operator on a line of the source, and
    the others."""
    seen: set[tuple[object, ...]] = set()
    first: list[int] = []
    rest: list[int] = []
    for number in numbers:
        mutant = campaign.mutants[number]
        if mutant.operator.startswith(_LEFT_OUT):
            continue
        place = mutant.instruction.location
        key = mutant.operator, place and (place.file, place.line)
        (rest if key in seen else first).append(number)
        seen.add(key)
    return first, rest


def summed(rows: Iterable[Row], found: Sequence[Entry], campaigns: dict[str, int]) -> list[Row]:
    """A row per kernel: how its mutants ended, by which rule, and why the rest is equivalent."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        if row["operator"] == UNCHANGED and row["end"] != "undetected":
            raise SystemExit(f"{row['kernel']} itself is not silent: {row}")
        if row["operator"] != UNCHANGED:
            groups[row["kernel"]].append(row)
    return [_sum(one, groups[one.name], campaigns[one.name]) for one in found if groups[one.name]]


def _sum(entry: Entry, rows: Sequence[Row], mutants: int) -> Row:
    open_ = [row for row in rows if row["end"] == "undetected"]
    caught = [row for row in rows if row["end"] not in ("undetected", "not executed")]
    missed = [row for row in open_ if row.get("reason") == ""]
    equivalent = [row for row in open_ if row.get("reason")]
    return {
        "kernel": entry.name, "version": entry.version, "mutants": mutants, "judged": len(rows),
        "not executed": sum(row["end"] == "not executed" for row in rows),
        "detected": len(caught),
        "by default schedules": sum(row["seed"] < TARGETED for row in caught),
        "rules": dict(Counter(row["rule"] or row["end"] for row in caught).most_common()),
        "operators": {
            operator: [len(own), sum(row in caught for row in own)]
            for operator in sorted({row["operator"] for row in rows})
            for own in [[row for row in rows if row["operator"] == operator]]
        },
        "equivalent": len(equivalent),
        "reasons": dict(Counter(kind_of(row["reason"]) for row in equivalent).most_common()),
        "not examined": len(open_) - len(missed) - len(equivalent),
        "missed": [
            f"{row['operator']}, line {row['line']}: {row['instruction']} ({row['source']})"
            for row in missed
        ],
        "seconds": round(sum(row["seconds"] for row in rows), 1),
    }  # fmt: skip


def main() -> None:
    options = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[1:] if "=" in word)
    folder, *names = [word for word in sys.argv[1:] if not word.startswith("--")]
    if "--capture" not in sys.argv:
        _campaign(Path(folder), names, options)
        return
    checkout = Path(options["cutlass"]) if "cutlass" in options else None
    there = [n for n, one in CASES.items() if checkout or not one.program.startswith("cute/")]
    if len(names) == 1:
        _keep(names[0], Path(folder), checkout)
        return
    for name in names or there:  # CuTe DSL keeps to one architecture in a process
        subprocess.run([sys.executable, *sys.argv, name], check=True)


def _keep(name: str, folder: Path, checkout: Path | None) -> None:
    begin = perf_counter()
    capture = captured(name, checkout)
    number = len(Campaign(capture).mutants)
    write(folder, capture, Entry(name, capture.version, number, 1.0, 0))
    counts = [run.instructions for run in capture.runs]
    print(f"{name}: {counts} warp instructions, {perf_counter() - begin:.1f} s", flush=True)


def _campaign(folder: Path, names: Sequence[str], options: dict[str, str]) -> None:
    found = entries(folder, names)
    file = folder / "rows.jsonl"
    until = monotonic() + float(options.get("seconds", "1e9"))
    each = int(options["each"]) if "each" in options else None
    wanted = {
        entry.name: divided(Campaign(read(folder, entry.name)), chosen(folder, entry, each))
        for entry in found
    }
    for part in range(1 if "--first" in sys.argv else 2):
        for entry in found:
            _judged(folder, file, entry, wanted[entry.name][part], until)
    numbers = {name: sum(map(len, parts)) - 1 for name, parts in wanted.items()}
    rows = summed(known([file], found).values(), found, numbers)
    shown = ("kernel", "mutants", "judged", "not executed", "detected", "equivalent", "seconds")
    print(table([{key: row[key] for key in shown} for row in rows]))
    for row in rows:
        for one in row["missed"]:
            print(f"{row['kernel']}: missed: {one}")
    keep(NAME, [*rows, *_kept({entry.name for entry in found})])


def _kept(names: Collection[str]) -> list[Row]:
    """Saved rows of other kernels than ``names``, each with the day on which it was made."""
    path = RESULTS / f"{NAME}.json"
    if not path.exists():
        return []
    saved: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    rows: list[Row] = saved["rows"]
    others = [row for row in rows if row["kernel"] not in names]
    return [{"of": saved["environment"]["date"], **row} for row in others]


def _judged(folder: Path, file: Path, entry: Entry, numbers: Sequence[int], until: float) -> None:
    """Judges mutants of a kernel, then looks for the reasons of those that nothing showed."""
    done = known([file], [entry])
    left = [n for n in numbers if (entry.name, entry.version, n) not in done]
    judge(folder, [Task(entry, left)], file, judged, 1, until - monotonic())
    rows = list(known([file], [entry]).values())
    open_ = [
        row["number"]
        for row in rows
        if row["end"] == "undetected" and "reason" not in row and row["operator"] != UNCHANGED
    ]
    why = explained({entry.name: rows})
    judge(folder, [Task(entry, open_)], file, why, 1, until - monotonic())


if __name__ == "__main__":
    main()
