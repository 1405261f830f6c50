"""Forks and joins, on the CPU: in order there, and what streams of a GPU would be asked for."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NoReturn

import pytest
import torch
from torch import Tensor

from schedgen.kernels import polar
from schedgen.kernels.newton_schulz import backends, streams
from schedgen.kernels.newton_schulz.backends import GeneratedProducts, TorchProducts
from tests.kernels.newton_schulz.test_polar import GAUSSIAN, error

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


class Refusal(Exception):
    """What a call raises here."""


class Result(torch.Tensor):
    """Knows which streams its memory is kept for."""

    events: list[str]

    def record_stream(self, s: Any) -> None:
        self.events.append(f"result kept for {s.name}")


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Streams that note in one list what is asked of them; "here" is the current one."""
    events: list[str] = []

    class Stream:
        def __init__(self, device: torch.device, name: str = "beside") -> None:
            assert device == GPU
            self.name, self.cuda_stream = name, id(events)

        def wait_stream(self, other: Stream) -> None:
            events.append(f"{self.name} waits for {other.name}")

    @contextmanager
    def entered(stream: Stream) -> Generator[None]:
        events.append(f"enter {stream.name}")
        yield
        events.append(f"leave {stream.name}")

    here = Stream(GPU, "here")
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", entered)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: here)  # pyright: ignore
    streams._beside.cache_clear()
    yield events
    streams._beside.cache_clear()  # no other test gets a stream that is none


def note(events: list[str], name: str) -> Tensor:
    events.append(name)
    result = torch.ones(2).as_subclass(Result)
    result.events = events
    return result


def refuse(events: list[str], name: str) -> NoReturn:
    events.append(name)
    raise Refusal(name)


def test_on_a_cpu_in_order() -> None:
    events: list[str] = []
    one, two = streams.together(CPU, lambda: events.append("first"), partial(note, events, "2nd"))
    assert events == ["first", "2nd"]
    assert one is None
    assert torch.equal(two, torch.ones(2))


@pytest.mark.parametrize(("first", "second"), [(refuse, note), (note, refuse)])
def test_on_a_cpu_exceptions_pass(first: Any, second: Any) -> None:
    events: list[str] = []
    with pytest.raises(Refusal):
        streams.together(CPU, partial(first, events, "first"), partial(second, events, "second"))
    assert events == (["first"] if first is refuse else ["first", "second"])


def test_fork_and_join(log: list[str]) -> None:
    one, two = streams.together(GPU, lambda: (note(log, "first"), 3), partial(note, log, "second"))
    assert one[1] == 3
    assert torch.equal(two, torch.ones(2))
    assert log == [
        *("beside waits for here", "first", "enter beside", "second", "leave beside"),
        *("here waits for beside", "result kept for here"),
    ]


def test_joined_if_the_first_call_raises(log: list[str]) -> None:
    with pytest.raises(Refusal, match="first"):
        streams.together(GPU, partial(refuse, log, "first"), partial(note, log, "second"))
    assert log == ["beside waits for here", "first", "here waits for beside"]


def test_joined_if_the_second_call_raises(log: list[str]) -> None:
    with pytest.raises(Refusal, match="second"):
        streams.together(GPU, partial(note, log, "first"), partial(refuse, log, "second"))
    assert log[-1] == "here waits for beside"


def test_each_stream_has_one_of_its_own(log: list[str]) -> None:
    del log
    assert streams._beside(GPU, 1) is streams._beside(GPU, 1)
    assert streams._beside(GPU, 1) is not streams._beside(GPU, 2)


def test_in_order_is_of_one_thread_and_ends() -> None:
    seen: list[bool] = []
    with streams.in_order(), streams.in_order():
        assert not streams.allowed()
        thread = threading.Thread(target=lambda: seen.append(streams.allowed()))
        thread.start()
        thread.join()
    assert seen == [True]
    with pytest.raises(Refusal), streams.in_order():
        raise Refusal
    assert streams.allowed()


def test_which_products_fork(monkeypatch: pytest.MonkeyPatch) -> None:
    forks: list[torch.device] = []

    def together(device: torch.device, first: Any, second: Any) -> tuple[Any, Tensor]:
        forks.append(device)
        return first(), second()

    monkeypatch.setattr(backends.streams, "together", together)
    for products in (GeneratedProducts(), GeneratedProducts(beside=False), TorchProducts()):
        found = products.together(torch.ones(1, 4, 4), lambda: 1, lambda: torch.ones(1))
        assert found == (1, torch.ones(1))
    assert forks == [CPU]


def test_polar_forks_where_q_and_r_go_on(
    launches: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of five iterations that start again at 2, these are 0, 2 and 3: the others end with Q X."""
    forks: list[int] = []

    def together(device: torch.device, first: Any, second: Any) -> tuple[Any, Tensor]:
        assert device == CPU
        before = len(launches)
        following, factor = first(), second()
        forks.append(len(launches) - before)
        return following, factor

    monkeypatch.setattr(backends.streams, "together", together)
    x = torch.randn(2, 64, 200)
    found = polar(x, restarts=(2,), backend="generated")
    assert forks == [3, 3, 4]  # R Z, Z R Z and Z of the next; Q Z unless Q was I
    with streams.in_order():
        assert torch.equal(polar(x, restarts=(2,), backend="generated"), found)
    assert len(forks) == 3
    assert error(polar(x, restarts=(2,), backend="torch"), found.double()) < GAUSSIAN


def test_large_batches_do_not_fork(launches: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """One matrix does, however large it is."""
    forks: list[int] = []

    def together(device: torch.device, first: Any, second: Any) -> tuple[Any, Tensor]:
        forks.append(len(launches))
        return first(), second()

    monkeypatch.setattr(backends.streams, "together", together)
    x = torch.randn(2, 64, 200)
    expected = polar(x, restarts=(2,), backend="generated")
    assert len(forks) == 3
    monkeypatch.setattr(backends, "_BESIDE", 2 * 64 * 64 * 2 - 1)
    assert torch.equal(polar(x, restarts=(2,), backend="generated"), expected)
    assert len(forks) == 3
    polar(x[0], restarts=(2,), backend="generated")
    assert len(forks) == 6
