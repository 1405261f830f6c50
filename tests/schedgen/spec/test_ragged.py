"""Extents whose sizes are data: what packed tensors stand for."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.kernel import Kernel, Space
from schedgen.ragged import dense, padded, segments
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec
from schedgen.tensors import Argument, GridAxis, Place, Ragged

GROUPED = Path(__file__).parents[2] / "data" / "specs" / "grouped.yaml"
STARTS = Ragged("m", "group", starts="offsets", bounds="bounds", packed="total")
LENGTHS = Ragged("m", "group", lengths="sizes")


@pytest.fixture(scope="module")
def kernel() -> Kernel:
    spec = read_spec(str(GROUPED))
    return bind(spec.source, spec.file, "h200", {}, accumulators=Space.REGISTERS)[0]


def test_packed_tensors_have_two_extents_for_one(kernel: Kernel) -> None:
    arguments = {argument.name: argument for argument in kernel.arguments}
    assert arguments["a"] == Argument("a", ("group", "m", "k"), "bf16", stored=("total", "k"))
    assert arguments["a"].passed == ("total", "k")
    assert arguments["b"].passed == arguments["b"].shape == ("group", "n", "k")
    assert kernel.ragged == (STARTS,)


def test_tiles_lie_in_a_number(kernel: Kernel) -> None:
    assert kernel.grid == (GridAxis("group", 1), GridAxis("m", 128), GridAxis("n", 64))
    places = {place.extent: place for place in kernel.operation["STD"].places}
    assert places["m"] == Place("m", "rows", 128, along="m", block=128)


def test_one_number_is_a_dense_kernel(kernel: Kernel) -> None:
    single = dense(kernel)
    assert not single.ragged
    assert [a.name for a in single.arguments] == ["a", "b", "d"]
    assert all(a.passed == a.shape for a in single.arguments)


@pytest.mark.parametrize(
    ("starts", "found"),
    [
        ((0, 4, 4, 10), [(0, 4), (4, 0), (4, 6)]),
        ((2, 3, 9, 9), [(2, 1), (3, 6), (9, 0)]),
        ((-7, 4, 2, 99), [(0, 4), (4, 0), (2, 8)]),  # contents that break what is asked of them
        ((50, -1, 11, 3), [(10, 0), (0, 10), (10, 0)]),
    ],
)
def test_what_starts_say_is_limited_to_what_there_is(
    starts: tuple[int, ...], found: list[tuple[int, int]]
) -> None:
    assert segments(STARTS, starts, {"total": 10, "m": 3}) == found


def test_what_lengths_say_is_limited_to_the_room() -> None:
    assert segments(LENGTHS, (3, -1, 12), {"m": 8}) == [(0, 3), (0, 0), (0, 8)]


def test_room_for_the_largest_is_padding() -> None:
    spec = read_spec("attention_varlen")
    kernel = bind(spec.source, spec.file, "h200", {}, accumulators=Space.REGISTERS)[0]
    found = {a.name: [one.extent for one in padded(kernel, a)] for a in kernel.arguments}
    assert {name for name, extents in found.items() if extents} == {"lse"}
    assert found["lse"] == ["seq_q"]
