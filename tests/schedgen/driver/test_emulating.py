"""Generated kernels in the emulator: right and clean, and not so when something is taken out."""

from __future__ import annotations

from functools import lru_cache

import pytest

from schedgen.codegen.emit import emit
from schedgen.driver.emulating import Outcome, emulate
from schedgen.driver.inputs import default_extents
from schedgen.driver.proved import prove_solution
from schedgen.driver.solution import solve
from schedgen.errors import SchedgenError
from schedgen.kernel import Kernel
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec

SMALL = {"m": 64, "n": 40, "k": 72}
SETTINGS = {"tile_m": "64", "tile_n": "32", "slice_n": "32", "consumers": "1"}


@lru_cache
def gemm() -> tuple[str, Kernel]:
    """A small matrix product for Hopper."""
    solution = solve(read_spec("gemm"), read_machine("h200"), settings=SETTINGS)
    kernel = solution.problem.kernel
    return emit(prove_solution(solution).proven, kernel), kernel


def without(fragment: str) -> Outcome:
    """The product with the lines that have ``fragment`` taken out."""
    text, kernel = gemm()
    assert fragment in text
    lines = ["pass" if fragment in line else line for line in text.splitlines()]
    indented = [
        line if new != "pass" else line[: len(line) - len(line.lstrip())] + "pass"
        for line, new in zip(text.splitlines(), lines, strict=True)
    ]
    return emulate("\n".join(indented), kernel, "sm_90a", extents=SMALL)


def test_default_extents_are_ragged() -> None:
    _, kernel = gemm()
    assert default_extents(kernel, {"k": 64}) == {"batch": 1, "m": 72, "k": 64, "n": 40}


def test_unknown_extent() -> None:
    _, kernel = gemm()
    with pytest.raises(SchedgenError, match=r"'batches' is not an extent of gemm; .*batch"):
        default_extents(kernel, {"batches": 2})


@pytest.mark.medium
def test_right_and_clean() -> None:
    text, kernel = gemm()
    outcome = emulate(text, kernel, "sm_90a", extents=SMALL)
    assert outcome.correct
    assert outcome.clean
    assert outcome.report.statistics.instructions > 0


@pytest.mark.medium
def test_missing_proxy_fence_is_found() -> None:
    outcome = without("cute.arch.fence_proxy(")
    assert not outcome.clean
    assert "fence.proxy.async" in outcome.report.text


@pytest.mark.medium
def test_wrong_result_is_found() -> None:
    text, kernel = gemm()
    assert "alpha *" in text
    outcome = emulate(text.replace("alpha *", "1.25 * alpha *"), kernel, "sm_90a", extents=SMALL)
    assert not outcome.correct
    assert outcome.clean
