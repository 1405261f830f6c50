"""Who wins, and who is not told apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest

from schedgen.driver.lock_file import Lock
from schedgen.errors import SchedgenError
from schedgen.tuning.choosing import choose
from schedgen.tuning.records import AxisTried, Manifest, Prepared, Record, Times
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


def test_neighbours_of_the_winner_are_next() -> None:
    times = record({name: [1.0] * 3 for name in NAMES})
    axes = (
        AxisTried("tile_n", ("256", "128"), True, "256"),
        AxisTried("order", ("auto", "first"), False, "auto"),
        AxisTried("@registers", ("0", "16"), False, "0"),
    )
    first, second, third = times.prepared.candidates
    won = replace(second, settings={"tile_n": "128", "order": "first"})
    manifest = replace(times.prepared, axes=axes, candidates=(first, won, third), round=1)
    found = refined(replace(times, prepared=manifest), "c00", 8, 10.0)
    assert found is not None
    values = {axis.name: axis.values for axis in found.axes}
    assert values["tile_n"] == ("128", "112", "144", "120", "136")
    assert values["order"] == ("first",)
    assert values["@registers"] == ("0",)
    assert values["@latencies"] == ("high", "low")
    assert found.kept == [won.settings]
    assert won.settings not in found.tried
    assert {} in found.tried


def test_refinement_ends() -> None:
    times = record({name: [1.0] * 3 for name in NAMES})
    first = refined(times, "c00", 8, 10.0)
    assert first is not None
    assert [axis.name for axis in first.axes] == ["@latencies", "@registers", "@pace"]
    assert (first.round, first.kept) == (1, [{}])
    late = replace(times, prepared=replace(times.prepared, round=MOST))
    assert refined(late, "c00", 8, 10.0) is None
    with pytest.raises(SchedgenError, match="'c07' is no candidate; fix: one of c01, c00, c02"):
        refined(times, "c07", 8, 10.0)
