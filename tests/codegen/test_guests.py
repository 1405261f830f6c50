"""Buffers in the registers of others: they take none of their own, and results are right."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen.dependence import derive
from schedgen.driver.emulating import emulate
from schedgen.emulator.machine.policies import Adversarial
from schedgen.machine_file import read_machine
from schedgen.register_places import register_places
from schedgen.solver.problem import build_problem
from schedgen.solver.search import search
from schedgen.solver.verify import verify
from tests.codegen.examples import ARCHITECTURES, SPECS, solved, text_of

GUEST = SPECS / "register_guest.yaml"
EXTENTS = {"m": 200, "t": 328}


@pytest.mark.parametrize("target", ARCHITECTURES)
def test_no_registers_of_its_own(target: str) -> None:
    """The host has 64 registers for 128 rows, 32 for 64 rows; the guest half as many."""
    kept, own = (
        next(role for role in solved(GUEST, target, place=place)[0].program.roles if role.warps > 1)
        for place in ("own", "none")
    )
    assert own.registers == kept.registers + {"b200": 32, "h200": 16}[target]


@pytest.mark.parametrize("target", ARCHITECTURES)
def test_one_role_has_both(target: str) -> None:
    _, kernel = solved(GUEST, target, place="front")
    assert register_places(kernel, "rP") == register_places(kernel, "rT")


def test_the_checker_counts_it_as_the_solver_does() -> None:
    """With registers for the host and what is beside it, and none more."""
    proven, kernel = solved(GUEST, "h200", place="own")
    most = max(role.registers for role in proven.program.roles) + 24
    machine = replace(read_machine("h200"), registers_per_thread_sum=most)
    problem = build_problem(kernel, machine, derive(kernel), "high")
    result = search(problem)
    assert result is not None
    assert verify(problem, result.decisions) == ()
    _, larger = solved(GUEST, "h200", place="none")
    with_own = build_problem(larger, machine, derive(larger), "high")
    assert search(with_own) is None


@pytest.mark.slow
@pytest.mark.parametrize("target", ARCHITECTURES)
def test_emulated(target: str) -> None:
    """Right, and free of races."""
    _, kernel = solved(GUEST, target, place="own")
    text, arch = text_of(GUEST, target, place="own"), ARCHITECTURES[target]
    outcome = emulate(text, kernel, arch, extents=EXTENTS, policy=Adversarial(1))
    assert outcome.correct, outcome.errors
    assert outcome.clean, outcome.report.text
