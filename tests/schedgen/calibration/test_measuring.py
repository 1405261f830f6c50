"""Records of a calibration on disk."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from schedgen.calibration import measuring
from schedgen.calibration.experiments import Manner, read_experiments
from schedgen.calibration.measuring import Measured, Record, as_json, read_record
from schedgen.calibration.preparing import Prepared
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


def test_kernels_with_one_iteration() -> None:
    """Of which a long run cannot have more; others are measured all the same."""
    one = Prepared("dropout", "dropout.py", ({}, {}), (1, 1), 0, Manner())
    loaded = None  # it is not even loaded
    with pytest.raises(SchedgenError, match="it has one iteration"):
        measuring._measure(one, None, loaded, 1)  # pyright: ignore


@pytest.mark.parametrize(
    ("files", "about"),
    [(("calibration", "barriers"), "iterations"), (("launches",), "launches")],
)
def test_records_are_of_the_shipped_experiments(files: tuple[str, ...], about: str) -> None:
    """What was added later is in a record of its own, of an H100, beside some of the others."""
    first, *later = (read_record((KEPT / f"{f}.json").read_text("utf-8"), f) for f in files)
    measured = set(first.measured).union(*(record.measured for record in later))
    assert measured == {one.name for one in read_experiments(about=about)}
    assert {record.device for record in later} <= {"NVIDIA H100 80GB HBM3"}
    _sound(first)


def _sound(record: Record) -> None:
    assert not record.failed
    assert all(m.low <= m.cycles <= m.high for m in record.measured.values())
    assert record.device == "NVIDIA H200"
