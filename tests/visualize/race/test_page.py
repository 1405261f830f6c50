"""The page of `schedgen race`: its structure, and in a real browser where there is one."""

from __future__ import annotations

import html.parser
import re
from pathlib import Path
from typing import Any

import pytest

from schedgen.emulator.race.programs import Ended
from schedgen.emulator.race.text import data_of
from schedgen.visualize.race.page import html_page
from tests.emulator.race.test_timeline import handed_over
from tests.visualize.conftest import Opener

_VOID = {"meta", "br"}


class _Reader(html.parser.HTMLParser):
    """Checks that elements are closed in their order; collects attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src"):
                self.links.append(value or "")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("script", "style"):
            self.text += data


@pytest.fixture
def data(tmp_path: Path) -> dict[str, Any]:
    session, ended = handed_over(tmp_path)
    return data_of(session, ended)


def read(page: str) -> _Reader:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def test_structure(data: dict[str, Any]) -> None:
    page = html_page(data, "kernel.ptx <&>")
    reader = read(page)
    assert len(set(reader.ids)) == len(reader.ids)
    assert all(link.startswith("#") and link[1:] in reader.ids for link in reader.links)
    assert not re.search(r"https?://", page)
    for text in (
        "kernel.ptx <&>", "Needs", "Usual repair", "first access", "second access",
        "storage.full[0]", "In the order of the schedule: round-robin.", "st.shared.b32",
    ):  # fmt: skip
        assert text in reader.text
    assert page == html_page(data, "kernel.ptx <&>")


def test_nothing_from_outside_is_markup(data: dict[str, Any]) -> None:
    evil = "</script><b onclick='x'>&"
    for one in data["findings"]:
        one["title"] = one["needs"] = one["repair"] = one["kernel"] = evil
        for place in one["places"]:
            place["text"] = place["source"] = place["file"] = place["instruction"] = evil
        for row in one["timeline"]["rows"]:
            row["what"] = row["barrier"] = evil
    data["error"] = evil
    page = html_page(data, evil)
    read(page)
    assert "<b onclick" not in page


def test_without_findings() -> None:
    nothing: dict[str, Any] = {
        "findings": [], "launches": [], "error": "", "limited": "",
        "synchronization": {"instructions": 0, "unexecuted": [], "never_waited": []},
    }  # fmt: skip
    reader = read(html_page(nothing, "a.py"))
    assert "0 launches of 0 kernels: no finding" in reader.text


def test_known_findings_are_left_out(data: dict[str, Any]) -> None:
    for one in data["findings"]:
        one["known"] = True
    assert "known one" in html_page(data, "a.py")
    assert "first access" not in read(html_page(data, "a.py")).text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_opens_at_the_first_finding(opened: Opener, data: dict[str, Any], scheme: str) -> None:
    data["findings"] = [data["findings"][0], *({**one} for one in data["findings"])]
    page = opened(html_page(data, "kernel.ptx"), scheme)
    assert page.locator("#f1").get_attribute("open") is not None
    assert page.locator("#f2").get_attribute("open") is None
    assert page.locator('#nav a[aria-current="true"]').inner_text().startswith("1 ")
    page.keyboard.press("j")
    assert page.locator("#f2").get_attribute("open") is not None
    assert page.evaluate("document.activeElement.closest('.finding').id") == "f2"
    ink, paper = page.evaluate(
        """() => { const style = getComputedStyle(document.body);
             return [style.color, style.backgroundColor].map(text =>
               text.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0)); }"""
    )
    assert (ink < paper) == (scheme == "light")
    assert abs(ink - paper) > 400


def test_a_barrier_shows_where_it_is_used(opened: Opener, data: dict[str, Any]) -> None:
    page = opened(html_page(data, "kernel.ptx"))
    button = page.locator("#f1 button.barrier", has_text="storage.full[0]").first
    button.focus()
    page.keyboard.press("Enter")
    lit = page.locator("#f1 tr.on")
    assert lit.count() >= 2
    assert f"storage.full[0]: {lit.count()} steps" in page.locator("#say").inner_text()
    assert button.get_attribute("aria-pressed") == "true"
    page.keyboard.press("Escape")
    assert page.locator("tr.on").count() == 0


def test_ended_badly(data: dict[str, Any]) -> None:
    assert Ended(1, "Traceback <x>").status
    data["error"] = "Traceback <x>"
    assert "Traceback <x>" in read(html_page(data, "a.py")).text
