"""Screenshots of every shipped spec, in light and dark: kept, for people to look at."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from schedgen.spec.reader import read_spec, shipped_specs
from schedgen.visualize.report.page import html_report
from tests.visualize.conftest import Opener
from tests.visualize.schedules import solved

ALL = [(name, target) for name in shipped_specs() for target in read_spec(name).file.targets]


@cache
def page_of(spec: str, target: str) -> str:
    return html_report(solved(spec, target).to_json(), spec)


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("spec", "target"), ALL)
def test_screenshot(opened: Opener, screenshots: Path, spec: str, target: str, scheme: str) -> None:
    page = opened(page_of(spec, target), scheme)
    page.add_style_tag(content="section { content-visibility: visible !important }")
    tall = page.evaluate("document.documentElement.scrollHeight")
    # Pictures are painted when they come near the window, so that is made tall enough for all.
    page.set_viewport_size({"width": 1680, "height": min(tall, 12000)})
    page.wait_for_timeout(300)
    file = screenshots / f"{spec}.{target}.{scheme}.png"
    page.screenshot(path=file)
    assert file.stat().st_size > 50_000
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    over = page.evaluate(
        """[...document.querySelectorAll("#figures dd, .loads .name")]
           .filter(node => node.scrollWidth > node.clientWidth + 1).map(node => node.textContent)"""
    )
    assert over == [], "cut off"
