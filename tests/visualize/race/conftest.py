"""The browser of the report's tests."""

from __future__ import annotations

from tests.visualize.report.conftest import browser, opened

__all__ = ["browser", "opened"]
