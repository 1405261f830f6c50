"""400 operations: the page is there in 2 seconds, and pictures follow the pointer."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import pytest

from schedgen.schedule import Schedule, ScheduledEdge, ScheduledOperation
from schedgen.visualize.report.page import render
from schedgen.visualize.report.source import Source, read_source, settled
from tests.visualize.conftest import Opener
from tests.visualize.report.many import side_by_side
from tests.visualize.schedules import solved

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import CDPSession, Page

COPIES = 14

FRAMES = """async step => {
  for (let turn = 0; turn < 60; turn++) {
    if (step === "pan") viewport.pan((turn < 30 ? 1 : -1) * D.ii / 40);
    if (step === "scroll") scrollBy(0, 40);
    if (step === "point") point({op: D.ops[turn].id, shown: null});
    await new Promise(requestAnimationFrame);
  }
}"""
"""60 frames with a change before each."""

YARDSTICK = """() => {
  const rows = Array.from({length: 20000}, (_, row) => [row % 977, `${row}`]);
  rows.sort((one, other) => one[0] - other[0] || (one[1] < other[1] ? -1 : 1));
  return new Map(rows.map(([key, value]) => [value, key])).size;
}"""
YARDSTICK_MS = 10.0
"""What the yardstick takes on the machine that the limits were set on."""


@cache
def parallel() -> str:
    """14 kernels at once, with their program: 84 roles, 392 barriers."""
    source = read_source(solved("attention_fwd", "b200").to_json(), "attention")
    assert source.schedule is not None
    assert source.program is not None
    return render(side_by_side(source.schedule, source.program, COPIES))


@cache
def serial() -> str:
    """14 kernels one after the other on the same units and roles, without a program."""
    one = solved("attention_fwd", "b200")
    ops: list[ScheduledOperation] = []
    edges: list[ScheduledEdge] = []
    for number in range(COPIES):
        ops += [
            replace(op, id=f"{number}.{op.id}", start=_later(one, op.start, number))
            for op in one.body
        ]
        edges += [
            replace(edge, src=f"{number}.{edge.src}", dst=f"{number}.{edge.dst}")
            for edge in one.edges
        ]
    whole = replace(
        one,
        ops=tuple(ops),
        edges=tuple(edges),
        ii_cycles=COPIES * one.ii_cycles,
        units=tuple(replace(unit, busy=COPIES * unit.busy) for unit in one.units),
        critical_cycle=(),
        tile=replace(one.tile, trips=4, cycle=()),
    )
    return render(Source(settled(whole), None, missing="it was never synchronized"))


def _later(schedule: Schedule, start: int, number: int) -> int:
    turn, slot = divmod(start, schedule.ii_cycles)
    return (turn * COPIES + number) * schedule.ii_cycles + slot


@pytest.fixture(params=["parallel", "serial"])
def large(request: pytest.FixtureRequest, opened: Opener) -> Page:
    """A page of 420 operations in the main loop."""
    page = opened({"parallel": parallel, "serial": serial}[request.param]())
    assert page.evaluate("D.graph.nodes.length") == 420
    return page


@pytest.mark.slow
def test_it_is_drawn_within_two_seconds(large: Page) -> None:
    """From the start of navigation to the frame after the last section, the best of three, on a
    machine as fast as the one that the limit was set on.
    """
    session = _measured(large)
    times: list[float] = []
    for _ in range(3):
        slow = _slowness(session, large)
        large.reload()
        large.wait_for_selector("body[data-complete]")
        times.append(large.evaluate("new Promise(requestAnimationFrame)") / slow)
    print(f"complete after {[round(time) for time in times]} ms")
    assert min(times) < 2000


@pytest.mark.slow
@pytest.mark.parametrize("step", ["pan", "scroll", "point"])
def test_it_moves_smoothly(large: Page, step: str) -> None:
    """A frame takes the page's thread less than a sixtieth of a second (a twentieth to highlight
    what is pointed at), without a GPU. Processor time and in units of what the machine achieves at
    the moment, since other jobs may share its cores.
    """
    large.evaluate("document.querySelector('#timeline').scrollIntoView()")
    large.evaluate("viewport.zoom(3)")
    session = _measured(large)
    runs: list[float] = []
    for _ in range(3):
        slow = _slowness(session, large)
        work = _busy(session, large, lambda: large.evaluate(FRAMES, step)) / 60
        runs.append(work / slow)
    print(f"{step}: {min(runs):.1f} ms of work a frame")
    assert min(runs) < (50 if step == "point" else 17)


def _measured(page: Page) -> CDPSession:
    """A session that counts the processor time of the page's thread."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return session


def _slowness(session: CDPSession, page: Page) -> float:
    """How many times longer the yardstick takes than it should; 1 if it takes less."""
    took = min(_busy(session, page, lambda: page.evaluate(YARDSTICK)) for _ in range(3))
    print(f"yardstick {took:.1f} ms")
    return max(1.0, took / YARDSTICK_MS)


def _busy(session: CDPSession, page: Page, act: Callable[[], object]) -> float:
    """Milliseconds of processor time that the page's thread uses for tasks meanwhile."""
    before = _seconds(session)
    act()
    page.evaluate("new Promise(requestAnimationFrame)")
    return (_seconds(session) - before) * 1000


def _seconds(session: CDPSession) -> float:
    found = cast("list[dict[str, Any]]", session.send("Performance.getMetrics")["metrics"])
    return next(metric["value"] for metric in found if metric["name"] == "TaskDuration")
