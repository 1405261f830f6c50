"""Extents whose elements lie in pages: what tensors of them stand for."""

from __future__ import annotations

from math import gcd
from pathlib import Path

import pytest

from schedgen.extents import beyond
from schedgen.kernel import Kernel, Space
from schedgen.ragged import dense, unpaged
from schedgen.spec.bind import bind
from schedgen.spec.reader import read_spec
from schedgen.tensors import Argument, Place, Ragged

PAGED = Path(__file__).parents[2] / "data" / "specs" / "paged.yaml"
ROWS = Ragged(
    "rows", "batch", lengths="lengths", table="table", most_pages="most_pages", pages="pages",
    page="page", page_size=16,
)  # fmt: skip


def bound(spec: str, **settings: str) -> Kernel:
    read = read_spec(spec)
    return bind(read.source, read.file, "h200", settings, accumulators=Space.REGISTERS)[0]


def test_tensors_in_pages_mean_numbers_with_rows() -> None:
    kernel = bound(str(PAGED))
    arguments = {argument.name: argument for argument in kernel.arguments}
    meant, passed = ("batch", "rows", "d"), ("pages", "page", "d")
    assert arguments["k"] == Argument("k", meant, "bf16", stored=passed)
    assert arguments["table"].passed == ("batch", "most_pages")
    assert kernel.ragged == (ROWS,)
    places = {place.extent: place for place in kernel.operation["LK"].places}
    assert places["rows"] == Place("rows", "rows", 64, step=64)
    assert places["batch"].along == "batch"


def test_pages_are_no_part_of_one_number() -> None:
    kernel = bound(str(PAGED))
    assert {a.name for a in dense(kernel).arguments} == {"q", "k", "v", "o"}
    plain = unpaged(kernel)
    assert plain.ragged == (Ragged("rows", "batch", lengths="lengths"),)
    assert all(a.passed == a.shape for a in plain.arguments)


def test_sizes_are_limited_to_what_tables_have_room_for() -> None:
    assert ROWS.room({"most_pages": 3}) == 48
    assert "the kernel is for 16" in beyond(bound(str(PAGED)), {"page": 32})


@pytest.mark.parametrize("page", ["0", "64"])
def test_caches_lie_in_pages_only_if_these_have_a_size(page: str) -> None:
    kernel = bound("attention_kvcache", page_size=page)
    names = {a.name for a in kernel.arguments}
    assert ("block_table" in names) == ("k_pages" in names) == (page != "0")
    assert bool(kernel.ragged[0].table) == (page != "0")


@pytest.mark.slow
@pytest.mark.parametrize("page", [16, 32, 48, 64, 80, 128, 144, 256, 272])
@pytest.mark.parametrize("head_dim", [64, 96, 128, 160, 192, 224, 256])
@pytest.mark.parametrize("target", ["h200", "b200"])
def test_pages_and_iterations_have_common_rows(page: int, head_dim: int, target: str) -> None:
    read = read_spec("attention_kvcache")
    given = {"page_size": str(page), "head_dim": str(head_dim)}
    where = Space.REGISTERS if target == "h200" else Space.TMEM
    for more in ({}, {"alibi": "true"}):
        kernel = bind(read.source, read.file, target, given | more, accumulators=where)[0]
        keys = int(dict(kernel.parameters)["keys"])
        assert gcd(keys, page) % 16 == 0, (keys, page)
        assert keys >= 32
