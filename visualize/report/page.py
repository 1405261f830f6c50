"""Puts data, template, style and scripts into one text that needs nothing else."""

from __future__ import annotations

import json
from html import escape
from importlib.resources import files
from typing import Any

from schedgen.visualize.report.model import model
from schedgen.visualize.report.source import Source, read_source

SCRIPTS = (
    "core.js",
    "viewport.js",
    "why.js",
    "period.js",
    "timeline.js",
    "slices.js",
    "memory.js",
    "graph.js",
    "tables.js",
    "inspector.js",
    "main.js",
)
"""In the order in which the page runs them; all of them share one scope."""


def html_report(text: str, file: str = "<text>", *, explain: bool = False) -> str:
    """The page about the schedule or program whose file has ``text``.

    ``explain`` asks Z3 why II - 1 is impossible where arithmetic does not say it, which takes up to
    half a minute. Raises SchedgenError or ScheduleError for anything that is no such file.
    """
    return render(read_source(text, file, explain=explain))


def render(source: Source) -> str:
    """The page about ``source``."""
    data = model(source)
    title = f"{data['kernel']} on {data['target']}: II {data['ii']}"
    parts = {
        "title": escape(title),
        "style": _asset("report.css"),
        "data": embedded(data),
        "script": "\n".join(_asset(name) for name in SCRIPTS),
    }
    page = _asset("report.html")
    for name, part in parts.items():
        head, mark, tail = page.partition(f"<!--{name}-->")
        assert mark, f"the template has no place for {name}"
        page = head + part + tail
    return page


def embedded(data: dict[str, Any]) -> str:
    """``data`` as JSON that can stand in a script element: nothing in it ends that element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _asset(name: str) -> str:
    return (files("schedgen.visualize.report") / "assets" / name).read_text(encoding="utf-8")
