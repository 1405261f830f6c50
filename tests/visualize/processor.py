"""Perfetto's trace processor, where there is one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

FROM = (
    "from slice join thread_track on slice.track_id = thread_track.id "
    "join thread using (utid) join process using (upid)"
)


def _binary() -> str | None:
    """trace_processor_shell, or the one of WebAssembly behind its interface."""
    given = os.environ.get("TRACE_PROCESSOR") or shutil.which("trace_processor_shell")
    if given is None and os.environ.get("PERFETTO_WASM") and shutil.which("node"):
        given = str(Path(__file__).with_name("trace_processor_shell.mjs"))
    return given


@contextmanager
def loaded_trace(text: str, folder: Path) -> Generator[Any]:
    """The trace ``text`` in a trace processor; skips the test if there is none."""
    processor: Any = pytest.importorskip("perfetto.trace_processor")
    binary = _binary()
    if binary is None:
        pytest.skip(
            "no trace processor: set TRACE_PROCESSOR to trace_processor_shell, or PERFETTO_WASM to "
            "the folder that .ci/trace-processor made, with node installed"
        )
    file = folder / "trace.json"
    file.write_text(text, encoding="utf-8")
    config = processor.TraceProcessorConfig(bin_path=binary)
    with processor.TraceProcessor(trace=str(file), config=config) as opened:
        yield opened


def rows(trace: Any, sql: str) -> list[dict[str, Any]]:
    """What a query finds."""
    return [dict(row.__dict__) for row in trace.query(sql)]


def problems(trace: Any) -> list[dict[str, Any]]:
    """What the parser dropped or could not read."""
    bad = "select name, value from stats where severity in ('error', 'data_loss') and value > 0"
    return rows(trace, bad)


def overlaps(trace: Any) -> int:
    """How many slices begin before another one of their track has ended."""
    late = (
        "select count(*) as n from (select ts, dur, lead(ts) over "
        "(partition by track_id order by ts) as next from slice) where ts + dur > next"
    )
    nested = rows(trace, "select count(*) as n from slice where depth > 0")[0]["n"]
    return nested + rows(trace, late)[0]["n"]
