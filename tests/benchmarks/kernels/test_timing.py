"""How candidates are timed, without a GPU."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import pytest
import torch

from schedgen.benchmarks import timing
from schedgen.benchmarks.timing import Run, Timed


def in_turns(candidates: dict[str, Run]) -> dict[str, Timed]:
    return {name: Timed(2.0 + n, 1000.0) for n, name in enumerate(candidates)}


def test_a_run_in_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph has about two milliseconds of runs, and from 2 to 20 of them."""
    counts: list[int] = []

    def captured(run: Run, count: int) -> tuple[Run, None]:
        counts.append(count)
        return run, None

    monkeypatch.setattr(timing, "captured", captured)
    monkeypatch.setattr(timing, "in_turns", in_turns)  # pyright: ignore
    times = {name: Timed(t, 1000.0) for name, t in (("a", 0.01), ("b", 0.5), ("c", 7.0))}
    found = timing.in_graphs(dict.fromkeys(times, lambda: None), times)
    assert counts == [20, 4, 2]
    assert found == {"a": 2 / 20, "b": 3 / 4, "c": 4 / 2}


def test_a_peer_that_cannot_be_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    def captured(run: Run, count: int) -> tuple[Run, None]:
        run()
        return run, None

    def refuse() -> None:
        raise RuntimeError("not while a graph is captured")

    monkeypatch.setattr(timing, "captured", captured)
    monkeypatch.setattr(timing, "in_turns", in_turns)  # pyright: ignore
    times = {name: Timed(1.0, 1000.0) for name in ("schedgen", "quack")}
    found = timing.in_graphs({"schedgen": lambda: None, "quack": refuse}, times)
    assert timing.in_graph("quack", found) == {}
    ours = timing.in_graph("schedgen", found)
    assert ours == {"graph ms": 1.0, "of best peer in a graph": ""}
    with pytest.raises(RuntimeError):
        timing.in_graphs({"schedgen": refuse}, times)


class Event:
    """A CUDA event on a clock that `clock` advances."""

    clock = 0.0

    def __init__(self, **options: bool) -> None:
        self.time = 0.0

    def record(self) -> None:
        self.time = Event.clock

    def elapsed_time(self, other: Event) -> float:
        return other.time - self.time


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "empty", lambda *shape, **options: torch.zeros(1))  # pyright: ignore
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: None)  # pyright: ignore
    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)


@pytest.mark.usefixtures("timed")
def test_candidates_take_turns_in_many_orders() -> None:
    order: list[str] = []
    timing.in_turns({name: partial(order.append, name) for name in "abc"})
    rounds = [tuple(order[n : n + 3]) for n in range(0, len(order), 3)]
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len(set(rounds)) == 6


@pytest.mark.usefixtures("timed")
def test_nothing_is_queued_before_an_eager_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU has nothing to do when it begins; elsewhere it waits until the call is queued."""
    events: list[str] = []
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: events.append("idle"))
    monkeypatch.setattr(torch.cuda, "_sleep", lambda cycles: events.append("busy"))  # pyright: ignore
    timing.eagerly({"a": lambda: events.append("a")}, 3)
    assert [before for before, a in pairwise(events) if a == "a"] == ["idle"] * events.count("a")
    events.clear()
    timing.in_turns({"a": lambda: events.append("a")}, 3)
    assert events.count("busy") == events.count("a")


@pytest.mark.usefixtures("timed")
@pytest.mark.parametrize(("milliseconds", "runs"), [(0.01, 245), (1.0, 45)])
def test_times_are_means_of_the_middle_half(milliseconds: float, runs: int) -> None:
    """Every eighth run is far off; the rest takes one time or another in turn."""
    calls: list[int] = []

    def run() -> None:
        calls.append(1)
        far = 100 if len(calls) % 8 == 0 else 0
        Event.clock += milliseconds * (far + 1 + (len(calls) // 2 % 2) / 10)

    found = timing.in_turns({"a": run})["a"].milliseconds
    assert found == pytest.approx(1.05 * milliseconds, rel=0.03)
    assert len(calls) == runs
