"""Shipped kernels as experiments."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.calibration.experiments import Experiment
from schedgen.calibration.measuring import Record, as_json, read_record
from schedgen.calibration.predicting import of_program
from schedgen.calibration.preparing import prepare, prepared
from schedgen.calibration.shipped import of_lock, program_of_lock, shipped_experiments
from schedgen.calibration.sizing import increase, sized
from schedgen.driver.lock_file import Locked, every
from schedgen.errors import SchedgenError
from schedgen.kernels import library
from schedgen.machine_file import read_machine

H200 = read_machine("h200")
SOME = (
    "gemm tile_n=128",  # a loop over k
    "attention_fwd head_dim=128",
    "attention_parts head_dim=64",  # as many iterations as a scalar says
    "attention_kvcache_parts head_dim=128 page_size=16",  # lengths and pages
    "gemm_grouped tile_n=128",  # groups of one ragged extent, tiles numbered densely
    "gemm_fp8_blocks dtype=e4m3 factors_b=blocks",  # an extent that counts iterations
    "gemm_parts tile_n=128",  # k in parts
)


@pytest.fixture(scope="module")
def shipped() -> dict[str, Experiment]:
    return {one.name: one for one in shipped_experiments("h200", SOME)}


def test_all_but_other_types_of_the_same_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which kernels there are; sizes are for those of `shipped`."""

    def unsized(name: str, one: Locked) -> Experiment:
        return Experiment(name, one.lock.spec, one.kernel.settings, shipped=True)

    monkeypatch.setattr("schedgen.calibration.shipped._experiment", unsized)
    found = shipped_experiments("h200")
    names = [one.name for one in found]
    assert len(set(names)) == len(names)
    there = [one.kernel.settings for one in every() if one.lock.target == "h200"]
    assert len(found) == sum(one.get("dtype") != "fp16" for one in there)
    with pytest.raises(SchedgenError, match="no kernels are shipped for mine; fix: --target"):
        shipped_experiments("mine")


def test_a_kernel_of_another_name() -> None:
    with pytest.raises(SchedgenError, match=r"--kernel 'gemm tile_n=12'.*did you mean 'gemm tile"):
        shipped_experiments("h200", ["gemm", "gemm tile_n=12"])


@pytest.mark.parametrize("name", SOME)
def test_one_output_tile_and_more_iterations(name: str, shipped: dict[str, Experiment]) -> None:
    one = shipped[name]
    kernel = of_lock(one, H200)[2]
    short, long = sized(one, kernel)
    assert short.work.tiles == long.work.tiles == 1
    assert long.work.bytes < 2**25
    assert increase(one, short, long) == one.launches[0] * (long.work.trips - short.work.trips) > 0


@pytest.mark.medium
def test_what_is_measured_is_the_shipped_file(
    shipped: dict[str, Experiment], tmp_path: Path
) -> None:
    pages = shipped[SOME[3]]
    (kernel,) = prepare([pages], "h200", tmp_path).kernels
    assert prepared(tmp_path).kernels == (kernel,)
    name = of_lock(pages, H200)[0]
    assert (tmp_path / kernel.file).read_bytes() == library.named(name).read_bytes()
    lengths, table = kernel.arrays[1]["cache_seqlens"], kernel.arrays[1]["block_table"][0]
    assert lengths == [kernel.extents[1]["seq_k"]]
    assert len(set(table)) == len(table) == lengths[0] // 16
    assert set(kernel.manner.scalars) == {"most_splits", "split_steps"}


@pytest.mark.parametrize(
    ("name", "within"),
    [
        ("gemm", {}),
        ("gemm b_layout=kn", {"n": 4096}),
        ("gemm a_layout=km b_layout=kn", {"m": 4096, "n": 4096}),
        ("attention_fwd head_dim=64", {}),  # head_dim is a parameter of it
        ("attention_kvcache_combine", {}),  # rows of parts are no rows of what is walked
    ],
)
def test_operands_that_lie_along_columns_are_parts_of_wide_matrices(
    name: str, within: dict[str, int]
) -> None:
    (one,) = shipped_experiments("h200", [name])
    assert one.manner.within == within


def test_predictions_are_of_the_proven_program(shipped: dict[str, Experiment]) -> None:
    found = of_program(*program_of_lock(shipped[SOME[0]], H200), H200)
    assert (found.in_turn, found.in_step) == pytest.approx((512, 512))


def test_what_is_not_shipped() -> None:
    with pytest.raises(SchedgenError, match="no gemm with these settings is shipped for h200"):
        of_lock(Experiment("mine", "gemm", {"tile_n": "8"}, shipped=True), H200)


def test_records_of_others_are_read(shipped: dict[str, Experiment]) -> None:
    record = Record("a GPU", "software", "2026-11-25", 0.0, "", {}, {SOME[0]: "why"})
    assert read_record(as_json(record), "record.json") == record
