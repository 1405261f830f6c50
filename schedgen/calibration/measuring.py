"""Cycles per iteration of experiments on the GPU that is there.

Each kernel computes one output tile, so that one SM works and no power limit slows it down. It runs
with two numbers of iterations: the difference of the cycles of both is of iterations only. What is
timed becomes cycles by the clock of that SM while it works, see `schedgen.calibration.clocks`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch

from schedgen.calibration.clocks import Clocks
from schedgen.calibration.preparing import Preparation, Prepared
from schedgen.codegen.facts import read_facts
from schedgen.errors import SchedgenError
from schedgen.kernels.cache import toolchain
from schedgen.kernels.launcher import Launcher
from schedgen.kernels.recording import check_device, inputs

FORMAT = 2
THEN = "calibrate --record FILE"
"""What reads a record."""
_ROUNDS = 25
_WARM_UP = 2
_COUNTED = 0.8
"""For which part of a launch the clock is counted."""

Run = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """Cycles per iteration: the median over rounds, and the lower and the upper quartile."""

    cycles: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Record:
    """What was measured where: experiment -> cycles per iteration; ``mhz`` is the lowest clock,
    ``model`` the text of the machine model by which the kernels were scheduled.
    """

    device: str
    software: str
    date: str
    mhz: float
    model: str
    measured: dict[str, Measured]


def measure(
    preparation: Preparation,
    folder: Path,
    progress: Callable[[str], None] | None = None,
    rounds: int = _ROUNDS,
) -> Record:
    """Runs the kernels that were prepared in ``folder``.

    Raises:
        DeviceError: there is no GPU, or a kernel is for another one.
        CompileError, LaunchError: a kernel does not run.
    """
    device = check_device(THEN)
    clocks = Clocks(device)
    found: dict[str, Measured] = {}
    lowest: list[float] = []
    kernels = preparation.kernels
    for number, one in enumerate(kernels):
        if progress is not None:
            progress(f"measuring {number + 1} of {len(kernels)}: {one.name}")
        found[one.name], mhz = _measure(one, folder, clocks, rounds)
        lowest.append(mhz)
    return Record(
        torch.cuda.get_device_name(device),
        f"torch {torch.__version__}, {toolchain()}",
        date.today().isoformat(),
        round(min(lowest, default=0.0), 1),
        preparation.model,
        found,
    )


def _measure(one: Prepared, folder: Path, clocks: Clocks, rounds: int) -> tuple[Measured, float]:
    """Cycles per iteration, and the clock in MHz."""
    path = folder / one.file
    facts, launcher = read_facts(path), Launcher(path, clocks.device)
    numbers = [1.0] * len(facts.scalars)
    timed: list[_Timed] = []
    for sizes in one.extents:
        tensors = list(inputs(facts, sizes, clocks.device).values())
        timed.append(_Timed(lambda tensors=tensors: launcher.launch(tensors, numbers), clocks))
    times = [[one.once() for one in timed] for _ in range(rounds)]
    more = one.trips[1] - one.trips[0]
    cycles = [(long[0] - short[0]) / more for short, long in times]
    low, _, high = quantiles(cycles, n=4)
    found = Measured(*(round(x, 2) for x in (median(cycles), low, high)))
    return found, median(long[1] for _, long in times)


class _Timed:
    """Launches of one kernel with sizes of tensors, beside which the clock is counted."""

    def __init__(self, run: Run, clocks: Clocks) -> None:
        self._run, self._clocks = run, clocks
        for _ in range(_WARM_UP):
            run()
        torch.cuda.synchronize()
        before, after = _event(), _event()
        before.record()
        run()
        after.record()
        after.synchronize()
        self._counted = _COUNTED * before.elapsed_time(after)

    def once(self) -> tuple[float, float]:
        """Cycles of a launch, and the clock in MHz."""
        before, after = _event(), _event()
        torch.cuda.synchronize()
        before.record()
        self._run()
        after.record()
        self._clocks.count(self._counted)
        torch.cuda.synchronize()
        mhz = self._clocks.lowest()
        return before.elapsed_time(after) * mhz * 1e3, mhz


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)


def as_json(record: Record) -> str:
    """The text of a file that `read_record` reads."""
    data: dict[str, Any] = {"calibration_format": FORMAT}
    data |= {name: getattr(record, name) for name in ("device", "software", "date", "mhz", "model")}
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
            str(data["model"]),
            measured,
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SchedgenError(
            f"{file}: this is no record of a calibration; fix: give what 'schedgen calibrate "
            "--keep FILE' wrote"
        ) from None
