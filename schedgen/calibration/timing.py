"""Cycles of launches on the GPU that is there, by the clock of the SMs that work.

Launches that follow each other are given to the GPU while it waits, so that the host is never late.
Where all of an SM is taken, its clock is counted on SMs that are left free: those of one GPC share
a clock.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from schedgen.benchmarks.timing import captured
from schedgen.calibration.clocks import Clocks
from schedgen.calibration.experiments import Manner
from schedgen.kernels.errors import DeviceError, LaunchError

Run = Callable[[], object]

_WARM_UP = 2
_COUNTED = 0.8
"""For which part of a run the clock is counted."""
_FREE = 2
"""SMs on which it is counted, where the others have no room."""
_AHEAD, _EACH = 400_000, 100_000
"""Cycles for which the GPU waits until launches are there; for each that is called by itself."""
_L2_BYTES = 1 << 28
"""What is overwritten, so that L2 has nothing of what was there."""
_TRIES = 5
"""Runs until what goes on beside them does so to their end."""


class Timed:
    """A run of an experiment: ``launches`` of a kernel, timed while the clock is counted. They are
    ``queued`` if the GPU waits until the host has launched all of them.

    Raises:
        DeviceError: the GPU has no SMs left to count its clock on.
        LaunchError: ``beside``, what is to go on meanwhile, ends too early.
    """

    def __init__(
        self,
        launch: Run,
        launches: int,
        manner: Manner,
        clocks: Clocks,
        *,
        queued: bool = False,
        beside: Run | None = None,
    ) -> None:
        self._clocks, self._beside = clocks, beside
        self._waits = queued or beside is not None
        self._blocks = _blocks(queued, manner, clocks.sms)
        self._run = _several(launch, launches, manner.graph)
        self._ahead = _AHEAD if manner.graph or launches == 1 else _EACH * launches
        self._flush = (
            torch.empty(_L2_BYTES, dtype=torch.uint8, device=clocks.device) if manner.cold else None
        )
        self._other = torch.cuda.Stream(clocks.device) if beside is not None else None
        for _ in range(_WARM_UP):
            self._run()
        if beside is not None:
            beside()
        torch.cuda.synchronize()
        self._milliseconds = self._elapsed(count=False)[0]

    def once(self) -> tuple[float, float]:
        """Cycles of a run, and the clock in MHz."""
        milliseconds, mhz = self._elapsed(count=True)
        return milliseconds * mhz * 1e3, mhz

    def _elapsed(self, *, count: bool) -> tuple[float, float]:
        """Milliseconds of a run, and the clock in MHz, 0 if it is not to be counted."""
        for _ in range(_TRIES):
            torch.cuda.synchronize()
            if self._flush is not None:
                self._flush.zero_()
            before, after, beside = _event(), _event(), self._begin()
            before.record()
            self._run()
            after.record()
            if count:
                # Only what waits for its launches is sure to be there after `before`.
                self._clocks.count(
                    _COUNTED * self._milliseconds, self._blocks, before if self._waits else None
                )
            torch.cuda.synchronize()
            if beside is None or after.elapsed_time(beside) > 0:
                break
        else:
            raise LaunchError(
                "what runs beside it ended first, in each of several runs; fix: fewer trips, or "
                "more of what runs beside it"
            )
        mhz = self._clocks.lowest() if count else 0.0
        return before.elapsed_time(after), mhz

    def _begin(self) -> torch.cuda.Event | None:
        """Lets the GPU wait where launches have to follow each other, and begins what is to go on
        beside them, whose end is returned.
        """
        end = None
        if self._beside is not None and self._other is not None:
            self._other.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._other):
                self._beside()
                end = _event()
                end.record()
        if self._waits:
            torch.cuda._sleep(self._ahead)  # pyright: ignore[reportPrivateUsage]
        return end


def _blocks(queued: bool, manner: Manner, sms: int) -> int | None:
    """On how many SMs the clock is counted; None: on all of them, beside a kernel that was there
    first and leaves room for one warp.
    """
    if manner.beside:
        return _FREE
    if manner.sms is None or manner.sms == 1:
        return sms // 2 if queued else None
    if manner.sms + _FREE > sms:
        raise DeviceError(
            f"the GPU has {sms} SMs; an experiment on {manner.sms} needs {_FREE} more, to count "
            "its clock on; fix: a smaller number at sms, and sizes for it"
        )
    return _FREE


def _several(launch: Run, launches: int, graph: bool) -> Run:
    if graph:
        return captured(launch, launches)[0]

    def run() -> None:
        for _ in range(launches):
            launch()

    return run


def _event() -> torch.cuda.Event:
    return torch.cuda.Event(enable_timing=True)
