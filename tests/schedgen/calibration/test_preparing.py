"""Folders of kernels that are ready to be measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from schedgen.calibration.experiments import Experiment
from schedgen.calibration.preparing import MANIFEST, prepare, prepared
from schedgen.codegen.facts import read_facts
from schedgen.errors import SchedgenError
from schedgen.machine_file import machine_text

ONE = Experiment("sums", "rows", {"reduction": "sum", "columns": "64"}, trips=(32, 96))


def test_what_is_prepared_is_found(tmp_path: Path) -> None:
    made = prepare([ONE], "h200", tmp_path)
    assert prepared(tmp_path) == made
    assert made.model == machine_text("h200")
    (kernel,) = made.kernels
    assert [sizes["steps"] for sizes in kernel.extents] == [32, 96]
    assert dict(read_facts(tmp_path / kernel.file).settings)["reduction"] == "sum"


def test_nothing_was_prepared(tmp_path: Path) -> None:
    with pytest.raises(SchedgenError, match=f"{MANIFEST}: No such file or directory; fix: make it"):
        prepared(tmp_path)


@pytest.mark.parametrize(
    "data", [{"format": 2}, [], {"format": 2, "model": "", "experiments": [1]}]
)
def test_no_list(tmp_path: Path, data: object) -> None:
    (tmp_path / MANIFEST).write_text(json.dumps(data))
    with pytest.raises(SchedgenError, match="it does not list experiments; fix: make it with"):
        prepared(tmp_path)


def test_an_older_list(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"format": 1}')
    with pytest.raises(SchedgenError, match="format 1, this schedgen reads 2; fix: make it again"):
        prepared(tmp_path)
