"""Folders of kernels that are ready to be measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from schedgen.calibration.experiments import Experiment, Manner, read_experiments
from schedgen.calibration.preparing import MANIFEST, RefusedExperiments, prepare, prepared
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


@pytest.mark.medium
def test_refused_experiments_have_their_names_and_do_not_stop_others(tmp_path: Path) -> None:
    large = Experiment("too large", "products", {"depth": "1024"})
    with pytest.raises(RefusedExperiments) as found:
        prepare([large, ONE], "h200", tmp_path)
    assert str(found.value).startswith("1 of 2 experiments is refused\nexperiment 'too large': ")
    assert "[smem-capacity]" in str(found.value)
    assert (found.value.names, found.value.status) == (("too large",), 1)
    assert prepared(tmp_path) == found.value.made
    assert [kernel.name for kernel in found.value.made.kernels] == [ONE.name]


def test_what_is_to_run_beside_an_experiment_is_prepared_too(tmp_path: Path) -> None:
    beside = replace(ONE, name="beside", manner=Manner(beside="sum"))
    with pytest.raises(SchedgenError, match="'sum', which is to run beside it, is no experiment"):
        prepare([ONE, beside], "h200", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("one", read_experiments(), ids=lambda one: one.name)
def test_shipped_experiments_have_kernels_that_the_compiler_accepts(
    one: Experiment, tmp_path: Path
) -> None:
    together = [other for other in read_experiments() if other.name == one.manner.beside]
    kernels = prepare([*together, one], "h200", tmp_path).kernels
    assert [kernel.name for kernel in kernels] == [other.name for other in (*together, one)]
    for kernel in kernels:
        assert read_facts(tmp_path / kernel.file).target == "sm_90a"


def test_nothing_was_prepared(tmp_path: Path) -> None:
    with pytest.raises(SchedgenError, match=f"{MANIFEST}: No such file or directory; fix: make it"):
        prepared(tmp_path)


@pytest.mark.parametrize(
    "data", [{"format": 4}, [], {"format": 4, "model": "", "experiments": [1]}]
)
def test_no_list(tmp_path: Path, data: object) -> None:
    (tmp_path / MANIFEST).write_text(json.dumps(data))
    with pytest.raises(SchedgenError, match="it does not list experiments; fix: make it with"):
        prepared(tmp_path)


def test_an_older_list(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text('{"format": 1}')
    with pytest.raises(SchedgenError, match="format 1, this schedgen reads 4; fix: make it again"):
        prepared(tmp_path)
