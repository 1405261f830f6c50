"""Bulk copies that a warp issues one by one."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from schedgen.driver.binding import kernels_of
from schedgen.execution.contended import cycles_per_iteration
from schedgen.execution.issuing import COPY, ROW, STREAM, copies, issued
from schedgen.kernel import Kernel
from schedgen.machine import Constant, Machine
from schedgen.machine_file import read_machine
from schedgen.program.model import Arrive, Program, Run, Wait
from schedgen.program.operations import Engine, TileOperation
from schedgen.spec.reader import read_spec
from tests.schedgen.proof.small import EACH, barrier_of, loop, program


def model(each: float | None = None, **others: float) -> Machine:
    """h200 with copies that take a warp so long, or without a number for that; and with others of
    copies.
    """
    machine = read_machine("h200")
    kept = [c for c in machine.constants if c.name not in (COPY, ROW, STREAM)]
    numbers: dict[str, float | None] = {COPY: each, **others}
    for name, number in numbers.items():
        if number is not None:
            exact = Fraction(number)
            kept.append(Constant(name, exact, exact, "cycle", "", "estimate"))
    return replace(machine, constants=tuple(kept))


def kernel(spec: str, **settings: str) -> Kernel:
    return kernels_of(read_spec(spec), read_machine("h200"), settings)[0]


def of_loads(kernel: Kernel) -> dict[str, int]:
    return {o.base: copies(kernel, o) for o in kernel.body if o.kind == "load"}


@pytest.mark.parametrize(
    ("settings", "wanted"),
    [
        ({}, {"LA": 1, "LB": 1}),
        ({"tile_k": "128", "tile_n": "64"}, {"LA": 2, "LB": 2}),
        # Rows of B lie along n: those of 64 columns are one panel, however many there are.
        ({"tile_k": "128", "tile_n": "64", "b_layout": "kn"}, {"LA": 2, "LB": 1}),
    ],
)
def test_a_copy_for_each_panel(settings: dict[str, str], wanted: dict[str, int]) -> None:
    assert of_loads(kernel("gemm", **settings)) == wanted


def test_parts_of_a_tile_and_vectors() -> None:
    """A step's part of rows that are two panels wide is one copy, and so is a vector."""
    found = of_loads(kernel("gemm_fp8_blocks"))
    assert found == {"LA": 1, "LB": 1, "LFA": 1, "LFB": 1}
    assert of_loads(kernel("attention_bwd_kv", head_dim="64"))["LL"] == 1


@pytest.mark.parametrize(("page", "wanted"), [("16", 16), ("64", 4), ("256", 2)])
def test_a_copy_for_each_page(page: str, wanted: int) -> None:
    """Tiles of 128 keys, whose rows are two panels."""
    found = of_loads(kernel("attention_kvcache_parts", head_dim="128", page_size=page))
    assert {name: found[name] for name in ("LK", "LV")} == {"LK": wanted, "LV": wanted}


def test_a_model_that_lacks_it() -> None:
    what = loading()
    assert issued(what, kernel("gemm"), model()) is what


def test_copies_keep_their_warp() -> None:
    """Two copies of 70 cycles, in which the warp waits and arrives: 140 for an iteration."""
    tiled = kernel("gemm", tile_k="128", tile_n="64")
    machine = model(70)
    around = machine.cycles("wait") + machine.cycles("arrive")
    found = issued(loading(), tiled, machine)
    assert found.operation["LA"].hold == (140 - around,) * 2
    assert found.operation["MMA[0]"].hold == (20, 20)
    assert cycles_per_iteration(found, machine, "in turn") == pytest.approx(140)


def test_few_copies_change_nothing() -> None:
    """What a load keeps its role for by the rules, and its waits and arrivals, are more."""
    tiled = kernel("gemm", tile_k="128", tile_n="64")
    assert issued(loading(), tiled, model(30)) == loading()


def test_a_role_that_computes_as_well_waits_beside_its_copies() -> None:
    what = loading()
    both = replace(what.roles[0], loop=(*what.roles[0].loop, *loop(Run("MMA[0]"))))
    found = issued(
        replace(what, roles=(both,)), kernel("gemm", tile_k="128", tile_n="64"), model(70)
    )
    assert found.operation["LA"].hold == (140, 140)


@pytest.mark.parametrize(
    ("b_layout", "numbers", "wanted"),
    [
        # 64 rows along k of 256 bytes are 128 rows of panels, 16 KiB.
        ("nk", {ROW: 1.5}, 192),
        ("nk", {STREAM: 10}, 160),
        ("nk", {ROW: 1, STREAM: 10}, 160),
        # 128 rows of 128 bytes, if they lie along n.
        ("kn", {ROW: 2}, 256),
        # Less than what the rules say of the unit.
        ("nk", {ROW: 0.125}, 30),
    ],
)
def test_rows_and_bytes_that_follow_each_other(
    b_layout: str, numbers: dict[str, float], wanted: int
) -> None:
    tiled = kernel("gemm", tile_k="128", tile_n="64", b_layout=b_layout)
    found = issued(loading("LB"), tiled, model(**numbers))
    assert found.operation["LB"].units == (("TMA", wanted),)
    assert found.operation["LB"].hold == (30, 30)


def loading(name: str = "LA") -> Program:
    """A warp that only loads, and a role that computes; each waits for what it has told itself."""
    load = TileOperation(name, Engine.COPY_IN, (), (100, 100), (30, 30), 0, (("TMA", 30),))
    product = TileOperation("MMA[0]", Engine.THREADS, (), (20, 20), (20, 20), 0, (("FMA", 20),))
    roles = {
        "load": loop(Arrive("one", EACH, 1), Wait("one", EACH), Run(name)),
        "take": loop(Arrive("two", EACH, 1), Wait("two", EACH), Run("MMA[0]")),
    }
    return program(roles, (barrier_of("one"), barrier_of("two")), (load, product))
