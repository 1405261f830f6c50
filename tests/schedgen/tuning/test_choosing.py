"""Who wins, and who is not told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest

from schedgen.driver.lock_file import Lock
from schedgen.errors import SchedgenError
from schedgen.tuning.choosing import choose
from schedgen.tuning.records import Manifest, Prepared, Record, Times
from schedgen.tuning.refining import MOST, refined

NAMES = ("c01", "c00", "c02")


def record(*shapes: Mapping[str, Sequence[float]], graph: bool = True) -> Record:
    """Times of candidates, in the model's order of `NAMES`, for some shapes."""
    lock = cast("Lock", None)  # not looked at
    candidates = tuple(Prepared(n, f"{n}.py", {}, 1, 1.0, 0, 0, (1.0,), lock) for n in NAMES)
    manifest = Manifest(
        "s", "s", "", "t", "", "", {}, (), tuple({"m": float(at)} for at in range(len(shapes))),
        0, 0, candidates, (), (), 0, (),
    )  # fmt: skip
    times = {
        name: tuple(
            Times(tuple(shape[name]), tuple(shape[name]) if graph else ()) for shape in shapes
        )
        for name in NAMES
    }
    return Record(manifest, "gpu", "torch", "2026-01-02", times=times)


def test_the_fastest_wins() -> None:
    found = choose(record({"c00": [2.0] * 5, "c01": [1.5] * 5, "c02": [1.0] * 5})).overall
    assert (found.winner, found.tied, found.before, found.gain) == ("c02", (), "c00", 2.0)


def test_what_is_within_noise_is_left_to_the_model() -> None:
    close = {"c00": [1.004] * 5, "c01": [1.003] * 5, "c02": [1.0] * 5}
    found = choose(record(close)).overall
    assert (found.winner, found.tied) == ("c01", ("c00", "c02"))
    # c02 is faster by its median, but not in a quarter of the rounds.
    restless = {"c00": [2.0] * 5, "c01": [1.1, 1.1, 1.1, 0.9, 0.9], "c02": [1.0] * 5}
    assert choose(record(restless)).overall.winner == "c01"


def test_rounds_are_compared_with_each_other() -> None:
    """A clock that drops for both of them does not make one as slow as the other."""
    drops = {"c00": [3.0] * 4, "c01": [1.02, 1.53, 2.04, 1.02], "c02": [1.0, 1.5, 2.0, 1.0]}
    assert choose(record(drops)).overall.winner == "c02"


def test_each_shape_has_a_winner_and_all_have_one() -> None:
    small = {"c00": [1.0] * 3, "c01": [2.0] * 3, "c02": [1.1] * 3}
    large = {"c00": [20.0] * 3, "c01": [10.0] * 3, "c02": [11.0] * 3}
    found = choose(record(small, large))
    assert [one.winner for one in found.shapes] == ["c00", "c01"]
    assert found.overall.winner == "c02"  # sqrt(12.1) is less than sqrt(20)


def test_too_little_was_measured() -> None:
    times = {name: [1.0, 1.0] for name in NAMES}
    with pytest.raises(SchedgenError, match="there are 2 rounds, and quartiles take 3; fix: "):
        choose(record(times))
    uncaptured = record({name: [1.0] * 3 for name in NAMES}, graph=False)
    assert choose(uncaptured).overall.winner == "c01"
    with pytest.raises(SchedgenError, match="no candidate was captured"):
        choose(uncaptured, "graphs")


def test_refinement_ends() -> None:
    times = record({name: [1.0] * 3 for name in NAMES})
    assert refined(times, "c00", 8, 10.0) is None  # no axis
    late = replace(times, prepared=replace(times.prepared, round=MOST))
    assert refined(late, "c00", 8, 10.0) is None
    with pytest.raises(SchedgenError, match="'c07' is no candidate; fix: one of c01, c00, c02"):
        refined(times, "c07", 8, 10.0)
