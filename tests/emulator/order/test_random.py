"""Random pipelines are clean; without one synchronization event they are as the reference says."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from schedgen.emulator.machine.switches import Switches, TensorFences, Verdict
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.order.findings import Race
from tests.emulator.order.pipelines import blackwell, hopper
from tests.emulator.order.recorder import SYNCHRONIZATION, Event
from tests.emulator.order.reference import Reference

MAKERS = [blackwell, hopper]


def races(trace: list[Event], fences: TensorFences) -> set[tuple[str, int]]:
    """What the checker finds: memory and line of the later access."""
    checker = Checker(16, switches=Switches(consumption=Verdict.OFF, tensor_fences=fences))
    for line, event in enumerate(trace):
        method = getattr(checker, event.method)
        lined = event.method in ("generic", "issue", "arrive", "wait", "commit", "signal", "leave")
        arguments = {**event.arguments, **({"line": line} if lined else {})}
        if event.method in ("access", "track", "finish"):
            method(**arguments)
        else:
            method(event.warp, **arguments)
    assert all(isinstance(finding, Race) for finding in checker.findings), checker.report()
    return {(f.space, f.later.line) for f in checker.findings if isinstance(f, Race)}


def without(trace: list[Event], i: int) -> list[Event]:
    return trace[:i] + trace[i + 1 :]


def compare(make: Callable[[int], list[Event]], seed: int, sample: int) -> int:
    """Compares verdicts; returns in how many cases there was a race."""
    trace = make(seed)
    rng = random.Random(seed)
    fences = rng.choice(list(TensorFences))
    required = fences is TensorFences.REQUIRED
    assert not races(trace, fences)
    assert not Reference(trace, fences=required).races()
    events = [i for i, event in enumerate(trace) if event.method in SYNCHRONIZATION]
    racy = 0
    for i in rng.sample(events, min(sample, len(events))):
        mutant = without(trace, i)
        found = {space for space, _ in races(mutant, fences)}
        expected = {space for space, _ in Reference(mutant, fences=required).races()}
        assert found == expected, (seed, trace[i])
        racy += bool(found)
    return racy


@pytest.mark.medium
@pytest.mark.parametrize("make", MAKERS)
def test_mutants_of_random_pipelines(make: Callable[[int], list[Event]]) -> None:
    racy = [compare(make, seed, 6) for seed in range(8)]
    assert sum(racy) > 8


@pytest.mark.slow
@pytest.mark.parametrize("make", MAKERS)
def test_all_mutants_of_random_pipelines(make: Callable[[int], list[Event]]) -> None:
    for seed in range(100, 110):
        compare(make, seed, 1000)
