"""Cycles per iteration of experiments on the GPU that is there.

Each kernel computes one output tile, so that one SM works and no power limit slows it down. It runs
with two numbers of iterations: the difference of the cycles of both is of iterations only. Cycles
are those of the clock that the SMs have meanwhile: on another SM a kernel counts cycles while the
kernel in question runs, again and again, because a clock that is asked for at another time is
another clock. (On an H200, 1980 MHz drop to 1790 as soon as one SM multiplies matrices.)
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch

from schedgen.calibration.preparing import Prepared
from schedgen.codegen.facts import read_facts
from schedgen.errors import SchedgenError
from schedgen.kernels.cache import toolchain
from schedgen.kernels.launcher import Launcher
from schedgen.kernels.recording import check_device, inputs

FORMAT = 1
_ROUNDS = 15
_WARM_UP = 2
_COUNTED = (300_000, 2_300_000)
"""Cycles that the other SM counts, in two kernels: the difference knows nothing of launches."""
_BATCH = 4.0
"""Milliseconds that a kernel is repeated for, longer than both countings take."""
_MOST = 400

Run = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """Cycles per iteration: the median over rounds, and the lower and the upper quartile."""

    cycles: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Record:
    """What was measured where: experiment -> cycles per iteration; ``mhz`` is the lowest clock."""

    device: str
    software: str
    date: str
    mhz: float
    measured: dict[str, Measured]


def measure(
    experiments: Sequence[Prepared],
    folder: Path,
    progress: Callable[[str], None] | None = None,
    rounds: int = _ROUNDS,
) -> Record:
    """Runs ``experiments``, whose kernels are in ``folder``.

    Raises:
        DeviceError: there is no GPU, or a kernel is for another one.
        CompileError, LaunchError: a kernel does not run.
    """
    device = check_device()
    found: dict[str, Measured] = {}
    clocks: list[float] = []
    for number, one in enumerate(experiments):
        if progress is not None:
            progress(f"measuring {number + 1} of {len(experiments)}: {one.name}")
        found[one.name], mhz = _measure(one, folder, device, rounds)
        clocks.append(mhz)
    return Record(
        torch.cuda.get_device_name(device),
        f"torch {torch.__version__}, {toolchain()}",
        date.today().isoformat(),
        round(min(clocks), 1) if clocks else 0.0,
        found,
    )


def _measure(
    one: Prepared, folder: Path, device: torch.device, rounds: int
) -> tuple[Measured, float]:
    """Cycles per iteration, and the clock in MHz."""
    path = folder / one.file
    facts, launcher = read_facts(path), Launcher(path, device)
    numbers = [1.0] * len(facts.scalars)
    batches: list[_Batch] = []
    for sizes in one.extents:
        tensors = list(inputs(facts, sizes, device).values())
        batches.append(_Batch(lambda tensors=tensors: launcher.launch(tensors, numbers)))
    times = [[batch.run() for batch in batches] for _ in range(_WARM_UP + rounds)][_WARM_UP:]
    more = one.trips[1] - one.trips[0]
    cycles = [(long[0] - short[0]) / more for short, long in times]
    low, _, high = quantiles(cycles, n=4)
    found = Measured(*(round(x, 2) for x in (median(cycles), low, high)))
    return found, median(long[1] for _, long in times)


class _Batch:
    """Launches of one kernel, beside which the clock is counted."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._beside = torch.cuda.Stream()
        for _ in range(3):
            run()
        torch.cuda.synchronize()
        before, after = _event(), _event()
        run()
        torch.cuda.synchronize()
        before.record()
        run()
        after.record()
        after.synchronize()
        self._count = min(_MOST, 1 + int(_BATCH / before.elapsed_time(after)))

    def run(self) -> tuple[float, float]:
        """Cycles of a launch, and the clock in MHz."""
        torch.cuda.synchronize()
        before, after = _event(), _event()
        counted = [_event() for _ in range(len(_COUNTED) + 1)]
        self._run()
        before.record()
        with torch.cuda.stream(self._beside):
            counted[0].record()
            for cycles, end in zip(_COUNTED, counted[1:], strict=True):
                torch.cuda._sleep(cycles)  # pyright: ignore[reportPrivateUsage]
                end.record()
        for _ in range(self._count):
            self._run()
        after.record()
        torch.cuda.synchronize()
        short, long = (a.elapsed_time(b) for a, b in pairwise(counted))
        mhz = (_COUNTED[1] - _COUNTED[0]) / (long - short) / 1e3
        return before.elapsed_time(after) / self._count * mhz * 1e3, mhz


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


def as_json(record: Record) -> str:
    """The text of a file that `read_record` reads."""
    data: dict[str, Any] = {"calibration_format": FORMAT}
    data |= {name: getattr(record, name) for name in ("device", "software", "date", "mhz")}
    data["measured"] = {
        name: [one.cycles, one.low, one.high] for name, one in record.measured.items()
    }
    return json.dumps(data, indent=1) + "\n"


def read_record(text: str, file: str) -> Record:
    """The record in ``text``. Raises SchedgenError: it is none."""
    try:
        data: dict[str, Any] = json.loads(text)
        if data["calibration_format"] != FORMAT:
            raise SchedgenError(
                f"{file}: calibration format {data['calibration_format']}, this schedgen reads "
                f"{FORMAT}; fix: measure again"
            )
        measured = {
            str(name): Measured(float(a), float(b), float(c))
            for name, (a, b, c) in data["measured"].items()
        }
        return Record(
            str(data["device"]),
            str(data["software"]),
            str(data["date"]),
            float(data["mhz"]),
            measured,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SchedgenError(
            f"{file}: this is no record of a calibration; fix: give what 'schedgen calibrate "
            "--keep FILE' wrote"
        ) from None
