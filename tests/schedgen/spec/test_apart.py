"""Sums whose parts may stay apart in the threads that share a row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from schedgen.driver.binding import kernels_of
from schedgen.expressions import parse
from schedgen.kernel import Kernel
from schedgen.machine import price
from schedgen.machine_file import read_machine
from schedgen.spec.apart import linear
from schedgen.spec.reader import read_spec
from tests.codegen.examples import SPECS


def kernel(spec: str, target: str = "h200", **settings: str) -> Kernel:
    return kernels_of(read_spec(spec), read_machine(target), settings)[0]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("l@1", True),
        ("l@1 * alpha", True),
        ("alpha * -l@1 / 2", True),
        ("l@1 + 1", False),
        ("l@1 * l@1", False),
        ("2 / l@1", False),
        ("exp2(l@1)", False),
        ("alpha", False),
    ],
)
def test_linear(text: str, found: bool) -> None:
    """Only then the total of the parts is carried on by carrying on the parts."""
    assert linear(parse(text), "l") == found


def test_softmax() -> None:
    """The sum of exponentials; what divides by it adds the parts up."""
    found = kernel("attention_fwd")
    apart = {o.name: (o.work.apart, o.work.combined) for o in found.operations if o.base != "LK"}
    assert apart["SUM[0]"] == (1, 0)
    assert apart["INV[1]"] == (0, 1)
    assert sum(one + more for one, more in apart.values()) == 4
    assert apart["MAX[0]"] == (0, 0)  # every thread needs the maximum at once


def text_with(old: str, new: str) -> str:
    text = (SPECS / "sum_of_rows.yaml").read_text("utf-8")
    assert old in text
    return text.replace(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("carry: l@1", "carry: 'l@1 + 1'"),
        ("initial: 0", "initial: 1"),
        ("op: sum", "op: max"),
    ],
)
def test_only_where_it_is_carried_on(old: str, new: str, tmp_path: Path) -> None:
    path = tmp_path / "sum_of_rows.yaml"
    path.write_text(text_with(old, new), "utf-8")
    works = [operation.work for operation in kernel(str(path)).operations]
    assert sum(work.apart for work in works) == sum(work.combined for work in works) == (not old)


def test_somebody_in_the_loop_adds_up_a_copy(tmp_path: Path) -> None:
    path = tmp_path / "sum_of_rows.yaml"
    path.write_text(text_with("X: X@1 * 0.5", "X: X@1 * 0.5 + l"), "utf-8")
    works = {o.base: o.work for o in kernel(str(path)).operations}
    assert [name for name, work in works.items() if work.apart] == ["SUM"]
    assert sorted(work.combined for work in works.values())[-3:] == [0, 1, 1]


@pytest.mark.parametrize("name", ["SUM[0]", "INV[0]"])
def test_price(name: str) -> None:
    """What the threads of a row tell each other is paid once for a tile, by what reads the sum."""
    machine = read_machine("h200")
    one = kernel("attention_fwd").operation[name]
    other = replace(one, work=replace(one.work, apart=0, combined=0))
    takes, took = (price(o, machine).latency for o in (one, other))
    sign = -1 if one.work.apart else 1
    overhead = machine.constant["sum_overhead"]
    assert takes.low - took.low == pytest.approx(sign * float(overhead.low), abs=1)
    assert takes.high - took.high == pytest.approx(sign * float(overhead.high), abs=1)
