"""A page to try things on, and what to ask it."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from schedgen.visualize.report.page import html_report
from tests.visualize.schedules import solved

if TYPE_CHECKING:
    from playwright.sync_api import Page


@cache
def attention() -> str:
    return html_report(solved("attention_fwd", "b200").to_json(), "attention")


def span(page: Page) -> tuple[float, float]:
    """What the time axis shows, in cycles."""
    low, high = page.evaluate("[viewport.from, viewport.to]")
    return low, high


def place_of(page: Page, operation: str, shown: int) -> tuple[float, float]:
    """Where a slice is on its role's track, in pixels of the window, scrolled into view."""
    page.locator("#timeline canvas").scroll_into_view_if_needed()
    page.wait_for_timeout(100)
    page.wait_for_function("timelineChart.width > 0")  # painted, however busy the machine is
    x, y = page.evaluate(
        """([op, shown]) => {
            const slice = sliceOf.get(`${op} ${shown}`), box = timelineChart.canvas.getBoundingClientRect();
            return [box.x + timelineChart.x((slice.start + slice.holdEnd) / 2), box.y + middleOf(slice)];
        }""",  # noqa: E501
        [operation, shown],
    )
    return x, y


def picture(page: Page) -> str:
    """The pixels of the timeline, in view."""
    page.locator("#timeline canvas").scroll_into_view_if_needed()
    return page.evaluate("timelineChart.paint(), timelineChart.canvas.toDataURL()")


def lit(page: Page, mark: str) -> set[str]:
    """Operations that the reservation table marks ``on``, ``pred`` or ``succ``."""
    found = page.eval_on_selector_all(
        f"#period .cell.{mark}", "cells => cells.map(cell => cell.dataset.op)"
    )
    return set(found)


def neighbours(operation: str) -> tuple[set[str], set[str]]:
    """Operations before and after ``operation``; what is both is shown as before."""
    edges = solved("attention_fwd", "b200").edges
    before = {e.src for e in edges if e.dst == operation} - {operation}
    return before, {e.dst for e in edges if e.src == operation} - {operation} - before
