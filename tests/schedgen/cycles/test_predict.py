"""Iterations of compiled kernels, beside those that were measured on an H200."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from schedgen.codegen.report import compile_report
from schedgen.conform.assembly import disassembler
from schedgen.conform.listing import Listing
from schedgen.cycles.matching import matched
from schedgen.cycles.predict import Cycles, cycles, of_code
from schedgen.cycles.report import data, lines
from schedgen.driver.lock_file import named as locked
from schedgen.driver.locked import program_of
from schedgen.errors import SchedgenError
from schedgen.execution.issuing import issued
from schedgen.kernel import Kernel
from schedgen.kernels.library import named
from schedgen.machine_constants import middles
from schedgen.machine_file import read_machine
from schedgen.program.model import Program
from tests.schedgen.cycles.listings import LOOP, listing

MACHINE = middles(read_machine("h200"))
MEASURED = Path("benchmarks/results/shipped.json")
needs_nvdisasm = pytest.mark.skipif(disassembler() is None, reason="no nvdisasm")


@cache
def derived(name: str) -> tuple[Program, Kernel]:
    found = locked(name)
    assert found is not None
    return program_of(found)


def program(name: str) -> Program:
    return issued(*derived(name), MACHINE)


def compiled(name: str, folder: Path) -> Cycles:
    cubin = compile_report(named(name), folder).built.cubin
    return cycles(program(name), cubin, MACHINE)


def test_a_loop_is_matched_with_the_role_that_does_the_same() -> None:
    sums = program("gemm_sum_sm_90a_bf16.py")
    found = matched(sums, Listing(listing(LOOP)).turns())
    role = next(role for role in sums.roles if role.warps == 4)
    kinds = [part.kind for _, part in found[role.name].steps]
    assert kinds == ["wait", "fence", "arrive"]
    assert found[role.name].share == 1


@pytest.mark.medium
def test_longer_code_takes_longer() -> None:
    sums = program("gemm_sum_sm_90a_bf16.py")
    times: list[float] = []
    for more in (100, 200):
        text = listing((*LOOP[:7], *[("FADD R8, R8, R8", 4)] * more, *LOOP[7:]))
        code = {
            name: one
            for name, one in matched(sums, Listing(text).turns()).items()
            if name != "load"  # its loop is not in this listing
        }
        times.append(of_code(sums, code, MACHINE).iteration)
    assert times[1] - times[0] == pytest.approx(400, rel=0.02)


def test_blackwell_is_refused() -> None:
    name = "gemm_sm_100a_bf16.py"
    with pytest.raises(SchedgenError, match="fix: a kernel for h200"):
        cycles(derived(name)[0], Path("x.cubin"), MACHINE)


@pytest.mark.medium
@needs_nvdisasm
def test_a_product_takes_its_ii(tmp_path: Path) -> None:
    found = compiled("gemm_sm_90a_bf16.py", tmp_path)
    assert found.iteration == pytest.approx(1024, rel=0.002)
    assert found.share == 1
    text = "\n".join(lines(found, program("gemm_sm_90a_bf16.py")))
    assert "1024 cycles" in text
    assert "waits for" in text
    roles = data(found, program("gemm_sm_90a_bf16.py"))["roles"]
    assert all(
        sum(role["cycles"].values()) == pytest.approx(1024, rel=0.02) for role in roles.values()
    )


@pytest.mark.slow
@needs_nvdisasm
@pytest.mark.parametrize(
    ("name", "experiment", "off"),
    [
        ("attention_fwd_sm_90a_head_dim128_bf16.py", "attention_fwd head_dim=128", 0.1),
        ("attention_bwd_q_sm_90a_head_dim128_bf16.py", "attention_bwd_q head_dim=128", 0.1),
        ("gemm_mixed_sm_90a_e4m3_tile_m64.py", "gemm_mixed weights=e4m3 tile_m=64", 0.1),
    ],
)
def test_as_measured(name: str, experiment: str, off: float, tmp_path: Path) -> None:
    measured = json.loads(MEASURED.read_text("utf-8"))["measured"][experiment][0]
    assert compiled(name, tmp_path).iteration == pytest.approx(measured, rel=off)
