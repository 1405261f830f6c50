"""A GPU that is not there: streams on which work takes as long as it says, events, and clocks."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
import torch

from schedgen.calibration import timing

MHZ = 1500.0
SLEEP = 1e-6
"""Milliseconds of a cycle for which the GPU is told to wait."""


@dataclass(eq=False)
class FakeStream:
    """Milliseconds at which all that was launched on it is over."""

    gpu: FakeGpu
    time: float = 0.0

    def wait_event(self, event: FakeEvent) -> None:
        self.time = max(self.time, event.time)

    def wait_stream(self, other: FakeStream) -> None:
        self.time = max(self.time, other.time)


@dataclass(eq=False)
class FakeEvent:
    gpu: FakeGpu
    time: float = -1.0

    def record(self) -> None:
        self.time = self.gpu.current.time

    def elapsed_time(self, other: FakeEvent) -> float:
        return other.time - self.time


@dataclass
class FakeGpu:
    """``late``: milliseconds that the host takes for a launch, with which the GPU idles unless it
    waits for all of them.
    """

    late: float = 0.005
    sms: int = 132
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    host: float = 0.0
    counts: list[tuple[float, int | None, float]] = field(
        default_factory=list[tuple[float, int | None, float]]
    )
    capturing: list[float] | None = None

    def __post_init__(self) -> None:
        self.default = self.current = FakeStream(self)
        self.other: list[FakeStream] = []

    def stream(self, *arguments: object) -> FakeStream:
        del arguments
        self.other.append(FakeStream(self))
        return self.other[-1]

    @contextmanager
    def on(self, stream: FakeStream) -> Generator[None]:
        before, self.current = self.current, stream
        yield
        self.current = before

    def synchronize(self) -> None:
        """All streams are idle, and the host as far as they are."""
        now = max([self.host, *(s.time for s in (self.default, *self.other))])
        self.host = now
        for stream in (self.default, *self.other):
            stream.time = now

    def sleep(self, cycles: int) -> None:
        self.current.time += cycles * SLEEP

    def kernel(self, milliseconds: float) -> Callable[[], None]:
        def launch() -> None:
            if self.capturing is not None:
                self.capturing.append(milliseconds)
                return
            self.host += self.late
            self.current.time = max(self.current.time, self.host) + milliseconds

        return launch

    def captured(self, run: Callable[[], None], count: int) -> tuple[Callable[[], None], None]:
        self.capturing = []
        for _ in range(count):
            run()
        total, self.capturing = sum(self.capturing), None
        return self.kernel(total), None

    # -- schedgen.calibration.clocks.Clocks --------------------------------------------------------

    def count(
        self, milliseconds: float, blocks: int | None = None, after: FakeEvent | None = None
    ) -> None:
        self.counts.append((milliseconds, blocks, -1.0 if after is None else after.time))

    def lowest(self) -> float:
        return MHZ


def installed(monkeypatch: pytest.MonkeyPatch, gpu: FakeGpu) -> FakeGpu:
    """``gpu`` in the place of torch's."""
    monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: FakeEvent(gpu))  # pyright: ignore
    monkeypatch.setattr(torch.cuda, "Stream", gpu.stream)
    monkeypatch.setattr(torch.cuda, "stream", gpu.on)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda *_: gpu.current)  # pyright: ignore
    monkeypatch.setattr(torch.cuda, "synchronize", gpu.synchronize)
    monkeypatch.setattr(torch.cuda, "_sleep", gpu.sleep)
    monkeypatch.setattr(timing, "captured", gpu.captured)
    return gpu
