"""Timelines for papers: well-formed, complete, on one scale, and made of the schedule alone."""

import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from schedgen.schedule import Schedule
from schedgen.visualize.palette import colours, paler
from schedgen.visualize.svg import svg
from schedgen.visualize.unrolled import unroll
from tests.visualize.schedules import SHIPPED, solved

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*schedules: Schedule) -> ElementTree.Element:
    return ElementTree.fromstring(svg(*(unroll(s, cut=True) for s in schedules)))


def bars(root: ElementTree.Element) -> list[ElementTree.Element]:
    return [e for e in root.iter(f"{SVG}rect") if e.get("class", "").startswith("bar")]


@pytest.mark.parametrize("which", SHIPPED, ids="-".join)
def test_every_operation_with_an_exclusive_unit_is_drawn(which: tuple[str, str]) -> None:
    schedule = solved(*which)
    found = {bar.findtext(f"{SVG}title", "").partition(",")[0] for bar in bars(drawn(schedule))}
    exclusive = {unit.name for unit in schedule.units if unit.kind == "exclusive"}
    wanted = {op.id.partition(",")[0] for op in schedule.ops if op.unit in exclusive or op.hold}
    assert found == wanted


@pytest.mark.parametrize("which", SHIPPED, ids="-".join)
def test_nothing_reaches_over_the_edge(which: tuple[str, str]) -> None:
    root = drawn(solved(*which))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))
    for bar in bars(root):
        assert float(bar.get("x", -1)) >= 0
        assert float(bar.get("x", 0)) + float(bar.get("width", 0)) <= width
        assert float(bar.get("y", 0)) + float(bar.get("height", 0)) <= height


def test_bars_of_a_row_do_not_overlap() -> None:
    rows: dict[str, list[tuple[float, float]]] = {}
    for bar in bars(drawn(solved("attention_fwd", "b200"))):
        x = float(bar.get("x", 0))
        rows.setdefault(bar.get("y", ""), []).append((x, x + float(bar.get("width", 0))))
    for found in rows.values():
        found.sort()
        for (_, end), (start, _) in pairwise(found):
            assert end <= start + 0.85  # rounding, and bars that are widened to be seen


def test_a_period_of_the_steady_state_is_complete() -> None:
    """The first panel shows each unit as busy as the schedule says."""
    schedule = solved("attention_fwd", "b200")
    panels = svg(unroll(schedule, cut=True)).split("One tile")[0]
    widths = re.findall(r'width="([\d.]+)" height="17"[^>]*><title>([^:]*): TENSOR from', panels)
    cycles = sum(float(width) for width, _ in widths) * schedule.ii_cycles / (1000 - 108 - 14)
    busy = next(unit.busy for unit in schedule.units if unit.name == "TENSOR")
    assert abs(cycles - busy) < 2


def test_one_start_time_changes_the_picture() -> None:
    schedule = solved("fa4_unit", "abstract")
    op = schedule.ops[2]
    moved = replace(op, start=op.start + 1, slot=(op.slot + 1) % 4)
    ops = tuple(moved if o is op else o for o in schedule.ops)
    before, after = drawn(schedule), drawn(replace(schedule, ops=ops))
    places = [
        {(b.get("x"), b.findtext(f"{SVG}title")) for b in bars(root)} for root in (before, after)
    ]
    changed = {text.partition(",")[0] for _, text in places[0] ^ places[1] if text}
    assert changed == {op.id}


def test_two_schedules_share_a_scale() -> None:
    short, long = solved("attention_fwd", "h200"), solved("attention_fwd", "b200")
    first = svg(unroll(short, cut=True), unroll(long, cut=True), names=("h.json", "b.json"))
    assert "A: h.json: attention_fwd on h200" in first
    assert "B: b.json: attention_fwd on b200" in first
    qk = [
        float(w) for w in re.findall(r'width="([\d.]+)"[^>]*><title>QK\[\d\], [^:]*: TENSOR', first)
    ]
    assert max(qk) == pytest.approx(512 / 2064 * (1000 - 108 - 14), abs=0.1)


def test_names_are_escaped() -> None:
    schedule = replace(solved("fa4_unit", "abstract"), kernel='<a & "b">')
    assert drawn(schedule).findtext(f"{SVG}text", "").startswith('<a & "b"> on abstract')


def test_an_operation_has_one_colour_on_all_machines() -> None:
    maps = [
        colours((s.name, s.kind) for s in unroll(solved("gemm_chain", target)).slices)
        for target in ("b200", "h200")
    ]
    both = maps[0].keys() & maps[1].keys()
    assert len(both) > 4
    assert {maps[0][name] == maps[1][name] for name in both} == {True}


def test_labels_are_legible_on_all_colours() -> None:
    """Black on every tint has the contrast that WCAG asks of small text, 7:1."""
    for colour in colours((str(n), "map") for n in range(12)).values():
        for tint in (colour, paler(colour)):
            parts = [int(tint[at : at + 2], 16) / 255 for at in (1, 3, 5)]
            linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
            light = sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
            assert (light + 0.05) / 0.0556 >= 7  # text is #111
