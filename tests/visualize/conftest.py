"""A real browser for the report: Chromium without a window, driven by Playwright.

Tests that need it are skipped, with the reason, where there is none: `apt-get install chromium` and
`pip install playwright`. SCHEDGEN_CHROMIUM names another executable. Screenshots are kept in the
folder that SCHEDGEN_SCREENSHOTS names, or else in pytest's temporary one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """The browser, started once."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    found = [os.environ.get("SCHEDGEN_CHROMIUM"), *map(shutil.which, _NAMES)]
    path = next((name for name in found if name), None)
    if path is None:
        pytest.skip("no Chromium: apt-get install chromium, or name one in SCHEDGEN_CHROMIUM")
    with playwright.sync_playwright() as driver:
        # Containers have no user namespaces, which Chromium's sandbox needs.
        started = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder for screenshots."""
    named = os.environ.get("SCHEDGEN_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


Opener = Callable[..., "Page"]


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opener]:
    """Opens a page from a file, and fails if it complains or asks for anything else."""
    complaints: list[str] = []
    contexts: list[BrowserContext] = []

    def open_page(html: str, scheme: str = "light", width: int = 1680, height: int = 1050) -> Page:
        file = tmp_path / f"report{len(contexts)}.html"
        file.write_text(html, encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if scheme == "dark" else "light",
            reduced_motion="reduce",
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: complaints.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("request", lambda asked: _only(asked.url, file.as_uri(), complaints))
        page.goto(file.as_uri())
        page.wait_for_selector("body[data-complete]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def _only(url: str, allowed: str, complaints: list[str]) -> None:
    if url.partition("#")[0] != allowed:
        complaints.append(f"request: {url}")
