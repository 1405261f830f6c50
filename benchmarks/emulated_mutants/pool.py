"""Many processes that judge mutants until there are none left, or no time."""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, process_time
from typing import Any

from emulate_capture_file import Entry, read
from emulated_mutants.run import Campaign

Row = dict[str, Any]
Judge = Callable[[Campaign, int], Row]
"""What to do with a mutant, by its number; the row about it."""
_CROWD = 2
"""Mutants per process below which nobody joins in: opening a capture takes as long as some."""


@dataclass(frozen=True)
class Task:
    """Numbers of mutants of one capture that are to be judged."""

    entry: Entry
    numbers: Sequence[int]


def judge(
    folder: Path, tasks: Sequence[Task], rows: Path, judge: Judge, jobs: int, seconds: float
) -> None:
    """Appends a row per mutant to a file of JSON lines, in no order, with its processor time.

    Args:
        folder: of captures.
        jobs: processes; each works on one capture at a time.
        seconds: after which no process begins another mutant.
    """
    context = multiprocessing.get_context("fork")
    shared = _Shared(
        context.Lock(), context.Array("i", len(tasks), lock=False),
        context.Array("i", len(tasks), lock=False),
    )  # fmt: skip
    until = monotonic() + seconds
    rows.parent.mkdir(parents=True, exist_ok=True)
    arguments = (folder, tasks, rows, judge, shared, until)
    workers = [context.Process(target=_work, args=arguments, daemon=True) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    if failed := [worker.exitcode for worker in workers if worker.exitcode]:
        raise SystemExit(f"{len(failed)} of {jobs} processes failed")


@dataclass(frozen=True)
class _Shared:
    """Of each task, how many mutants were taken, and how many processes work on it."""

    lock: Any
    taken: Any
    workers: Any


def _work(
    folder: Path, tasks: Sequence[Task], rows: Path, judge: Judge, shared: _Shared, until: float
) -> None:
    # One write per row to a file that is open for appending: rows of processes do not mix.
    file = os.open(rows, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while monotonic() < until:
        with shared.lock:
            at = _choose(tasks, shared)
            if at is None:
                return
            shared.workers[at] += 1
        task = tasks[at]
        campaign = Campaign(read(folder, task.entry.name))
        while monotonic() < until:
            with shared.lock:
                place: int = shared.taken[at]
                shared.taken[at] += 1
            if place >= len(task.numbers):
                break
            begin = process_time()
            row = judge(campaign, task.numbers[place])
            row |= {"seconds": round(process_time() - begin, 2)}
            os.write(file, (json.dumps(row) + "\n").encode())
        with shared.lock:
            shared.workers[at] -= 1
    os.close(file)
    sys.stdout.flush()


def _choose(tasks: Sequence[Task], shared: _Shared) -> int | None:
    """The task of the lowest rank that has most left for one more process."""
    best: tuple[float, float, int] | None = None
    for at, task in enumerate(tasks):
        left = len(task.numbers) - shared.taken[at]
        busy = shared.workers[at]
        if left <= 0 or (busy and left < _CROWD * (busy + 1)):
            continue
        share = left * max(task.entry.seconds, 0.1) / (busy + 1)
        key = (-task.entry.rank, share, at)
        best = max(best or key, key)
    return None if best is None else best[2]
