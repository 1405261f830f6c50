"""Records of a calibration on disk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from schedgen.calibration.experiments import read_experiments
from schedgen.calibration.measuring import Measured, Record, as_json, read_record
from schedgen.errors import SchedgenError

RECORD = Record(
    "a GPU", "torch", "2026-11-24", 1788.1, "name: x", {"one": Measured(3.5, 3, 4, 1788)}
)
KEPT = Path(__file__).parents[3] / "benchmarks/results"


def test_what_is_written_is_read() -> None:
    for record in (RECORD, replace(RECORD, failed={"two": "it does not run"})):
        assert read_record(as_json(record), "record.json") == record


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"calibration_format": 2}', "null"])
def test_no_record(text: str) -> None:
    with pytest.raises(
        SchedgenError, match=r"record.json: this is no record of a calibration; fix"
    ):
        read_record(text, "record.json")


def test_another_format() -> None:
    text = json.dumps(json.loads(as_json(RECORD)) | {"calibration_format": 1})
    with pytest.raises(SchedgenError, match="calibration format 1, this schedgen reads 2; fix"):
        read_record(text, "record.json")


@pytest.mark.parametrize(
    ("file", "about"), [("calibration", "iterations"), ("launches", "launches")]
)
def test_the_record_of_an_h200_is_of_the_shipped_experiments(file: str, about: str) -> None:
    record = read_record((KEPT / f"{file}.json").read_text("utf-8"), file)
    assert set(record.measured) == {one.name for one in read_experiments(about=about)}
    assert not record.failed
    assert all(m.low <= m.cycles <= m.high for m in record.measured.values())
    assert record.device == "NVIDIA H200"
