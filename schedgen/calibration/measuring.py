"""Cycles per iteration, output tile or launch of experiments on the GPU that is there.

Most kernels compute one output tile, so that one SM works and no power limit slows it down. Each
runs in two ways, one of which has more to do: the difference of the cycles is of that only. What is
timed becomes cycles by the clock of an SM that works, see `schedgen.calibration.clocks`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import torch
from torch import Tensor

from schedgen.calibration.clocks import Clocks
from schedgen.calibration.preparing import Preparation, Prepared
from schedgen.calibration.timing import Run, Timed
from schedgen.codegen.compiling import CompileError
from schedgen.codegen.facts import Facts, read_facts
from schedgen.errors import SchedgenError
from schedgen.kernels import turns
from schedgen.kernels.cache import compiled, toolchain
from schedgen.kernels.launcher import Launcher
from schedgen.kernels.recording import check_device, inputs

FORMAT = 2
THEN = "calibrate --record FILE"
"""What reads a record."""
_ROUNDS = 25
_LEAST = 20.0
"""Cycles: no iteration takes as few."""
_COMPILERS = 16
"""At a time."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Cycles per iteration, output tile or launch: the median over rounds, and the lower and the
    upper quartile; ``mhz`` is the clock of the long run, 0 if a record does not have it.
    """

    cycles: float
    low: float
    high: float
    mhz: float = 0.0


@dataclass(frozen=True, slots=True)
class Record:
    """What was measured where, by experiment; ``mhz`` is the lowest clock, ``model`` the text of
    the machine model by which the kernels were scheduled. ``failed`` says why others did not run.
    """

    device: str
    software: str
    date: str
    mhz: float
    model: str
    measured: dict[str, Measured]
    failed: dict[str, str] = field(default_factory=dict[str, str])


def measure(
    preparation: Preparation,
    folder: Path,
    progress: Callable[[str], None] | None = None,
    rounds: int = _ROUNDS,
) -> Record:
    """Runs the kernels that were prepared in ``folder``; one that does not run stops no other.

    Raises:
        DeviceError: there is no GPU, or a kernel is for another one.
        SchedgenError, RuntimeError: none of the kernels runs.
    """
    device = check_device(THEN)
    clocks = Clocks(device)
    kernels = {one.name: one for one in preparation.kernels}
    if progress is not None:
        progress(f"compiling {len(kernels)} kernels")
    _compile(list(kernels.values()), folder, clocks.sms)
    loaded = _Loaded(folder, clocks)
    found: dict[str, Measured] = {}
    failed: dict[str, str] = {}
    for number, one in enumerate(kernels.values()):
        if progress is not None:
            progress(f"measuring {number + 1} of {len(kernels)}: {one.name}")
        try:
            beside = kernels[one.manner.beside] if one.manner.beside else None
            found[one.name] = _measure(one, beside, loaded, rounds)
            if found[one.name].cycles < _LEAST:
                del found[one.name]
                raise SchedgenError("its long run takes no longer: it skips these iterations")
        except (SchedgenError, RuntimeError) as error:  # also what torch raises
            failed[one.name] = str(error).splitlines()[0]
            if len(failed) == len(kernels):
                raise
    return Record(
        torch.cuda.get_device_name(device),
        f"torch {torch.__version__}, {toolchain()}",
        date.today().isoformat(),
        min((one.mhz for one in found.values()), default=0.0),
        preparation.model,
        found,
        failed,
    )


class _Loaded:
    """Kernels of experiments; each file is loaded once."""

    def __init__(self, folder: Path, clocks: Clocks) -> None:
        self.clocks = clocks
        self._folder = folder
        self._launchers: dict[str, Launcher] = {}

    def launch(self, one: Prepared, run: int) -> Run:
        """Launches its kernel with the tensors of its short run (0) or its long one (1)."""
        path, device = self._folder / one.file, self.clocks.device
        launcher = self._launchers.get(one.file) or Launcher(path, device, one.manner.sms)
        self._launchers[one.file] = launcher
        facts = launcher.facts
        said = one.manner.scalars
        numbers = [scalar.number(said.get(scalar.name, 1.0)) for scalar in facts.scalars]
        there = {extent for parameter in facts.tensors for extent in parameter.extents}
        sizes = {n: s for n, s in one.extents[run].items() if n in there}
        tensors = _tensors(facts, sizes, one.manner.within, device)
        for name, values in one.arrays[run].items():
            tensors[name].copy_(torch.tensor(values))
        given = list(tensors.values())

        def again() -> None:
            turns.begin(facts, tensors)
            launcher.launch(given, numbers)

        return again


def _tensors(
    facts: Facts, sizes: Mapping[str, int], within: Mapping[str, int], device: torch.device
) -> dict[str, Tensor]:
    """Of these sizes, as parts of those that have sizes ``within`` which they are."""
    if not within:
        return inputs(facts, sizes, device)
    tensors = inputs(facts, {**sizes, **within}, device)
    for parameter in facts.tensors:
        part = tuple(slice(sizes[extent]) for extent in parameter.extents)
        tensors[parameter.name] = tensors[parameter.name][part]
    return tensors


def _measure(one: Prepared, beside: Prepared | None, loaded: _Loaded, rounds: int) -> Measured:
    if not one.more:
        raise SchedgenError("its long run has no more to do: it has one iteration")
    other = None if beside is None else loaded.launch(beside, 1)
    timed = [
        Timed(
            loaded.launch(one, run),
            one.launches[run],
            one.manner,
            loaded.clocks,
            queued=max(one.launches) > 1,
            beside=other,
        )
        for run in (0, 1)
    ]
    times = [[run.once() for run in timed] for _ in range(rounds)]
    cycles = [(long[0] - short[0]) / one.more for short, long in times]
    low, _, high = quantiles(cycles, n=4)
    mhz = median(long[1] for _, long in times)
    return Measured(*(round(x, 2) for x in (median(cycles), low, high)), mhz=round(mhz, 1))


def _compile(kernels: Sequence[Prepared], folder: Path, sms: int) -> None:
    """Fills the cache, several at a time; what does not compile says so when it is launched."""

    def compile_one(wanted: tuple[str, int]) -> None:
        file, number = wanted
        with suppress(CompileError):
            compiled(folder / file, read_facts(folder / file), number)

    wanted = dict.fromkeys((one.file, one.manner.sms or sms) for one in kernels)
    with ThreadPoolExecutor(min(_COMPILERS, os.cpu_count() or 1)) as pool:
        list(pool.map(compile_one, wanted))


def as_json(record: Record) -> str:
    """The text of a file that `read_record` reads."""
    data: dict[str, Any] = {"calibration_format": FORMAT}
    data |= {name: getattr(record, name) for name in ("device", "software", "date", "mhz", "model")}
    data["measured"] = {
        name: [one.cycles, one.low, one.high, one.mhz] for name, one in record.measured.items()
    }
    data |= {"failed": record.failed} if record.failed else {}
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
            str(name): Measured(*map(float, numbers)) for name, numbers in data["measured"].items()
        }
        return Record(
            str(data["device"]),
            str(data["software"]),
            str(data["date"]),
            float(data["mhz"]),
            str(data["model"]),
            measured,
            {str(name): str(reason) for name, reason in data.get("failed", {}).items()},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise SchedgenError(
            f"{file}: this is no record of a calibration; fix: give what 'schedgen calibrate "
            "--keep FILE' wrote"
        ) from None
