"""Barriers by what the source calls them."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.emulator.ptx.tree import Location
from schedgen.emulator.race.names import Name, name_of

SOURCE = """\
def init(bars, count):
    for i in range(count):
        cute.arch.mbarrier_init(bars + i, 32)  # init


def made(storage):
    ring = pipeline.PipelineTmaAsync.create(barrier_storage=storage.ring.data_ptr())  # made
    return ring


def kernel(storage, number):
    full = storage.full_bars.data_ptr()
    bare = 5
    cute.arch.mbarrier_init(full + number, 32)  # plain
    init(storage.empty_bars.data_ptr(), 2)  # helper
    init(count=2, bars=full)  # keywords
    self.mainloop = pipeline.PipelineTmaAsync.create(  # pipeline
        barrier_storage=full,
    )
    order: Order = pipeline.PipelineOrder.create(barrier_storage=full)  # order
    outer = made(storage)  # outer
    sync(barrier=full)  # keyword
    cute.arch.mbarrier_init(bare, 1)  # constant
    result = load(  # load
        init(full, 1)
    )
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "kernel.py"
    path.write_text(SOURCE, "utf-8")
    return str(path)


def line(mark: str) -> int:
    return next(n for n, text in enumerate(SOURCE.splitlines(), 1) if text.endswith(f"# {mark}"))


@pytest.mark.parametrize(
    ("marks", "name"),
    [
        (("plain",), Name("storage.full_bars")),
        (("init", "helper"), Name("storage.empty_bars")),
        (("init", "keywords"), Name("storage.full_bars")),
        (("init",), Name("bars")),
        (("pipeline",), Name("self.mainloop", halves=True)),
        (("order",), Name("order")),
        (("made", "outer"), Name("outer", halves=True)),
        (("made",), Name("ring", halves=True)),
        (("keyword",), Name("storage.full_bars")),
        (("constant",), Name("bare")),
        ((), None),
    ],
)
def test_names(file: str, marks: tuple[str, ...], name: Name | None) -> None:
    assert name_of([Location(file, line(mark)) for mark in marks]) == name


def test_what_is_no_source(tmp_path: Path) -> None:
    assert name_of([Location(str(tmp_path / "none.py"), 3)]) is None
    path = tmp_path / "kernel.cu"
    path.write_text("__global__ void kernel() {\n  init(&bar, 1);\n}\n", "utf-8")
    assert name_of([Location(str(path), 2)]) is None
