"""Budgets of registers that selection of shipped kernels begins with."""

from __future__ import annotations

from itertools import combinations

import pytest

from schedgen.dependence import derive
from schedgen.driver import lock_file
from schedgen.driver.binding import kernels_of
from schedgen.driver.lock_file import Locked
from schedgen.driver.variations import with_registers
from schedgen.kernels import budgets
from schedgen.kernels.styles import fits
from schedgen.machine_file import read_machine
from schedgen.solver.problem import build_problem
from schedgen.solver.registers import role_registers
from schedgen.spec.reader import read_spec

LOCKED = [one for one in lock_file.every() if one.lock.target == budgets.TARGET]
FIRST = [one for one in LOCKED if one.kernel is one.schedule.kernels[0]]
SPECS = [
    spec if spec in budgets.BUDGETS else pytest.param(spec, marks=pytest.mark.slow)
    for spec in dict.fromkeys(one.lock.spec for one in LOCKED)
]


def begin_with(one: Locked) -> tuple[int, int]:
    return budgets.budget(one.lock.spec, one.lock.target, one.kernel.settings)


@pytest.mark.parametrize("spec", budgets.BUDGETS)
def test_each_entry_is_of_a_shipped_kernel(spec: str) -> None:
    every = [one.kernel.settings for one in LOCKED if one.lock.spec == spec]
    for entry in budgets.BUDGETS[spec]:
        assert any(fits(settings, entry.settings) for settings in every), entry
        assert entry.more_registers or entry.more_narrow
        assert entry.more_registers % 8 == entry.more_narrow % 8 == 0  # as warps take them


@pytest.mark.parametrize("spec", budgets.BUDGETS)
def test_no_kernel_has_two(spec: str) -> None:
    for one in (one for one in LOCKED if one.lock.spec == spec):
        for both in combinations(budgets.BUDGETS[spec], 2):
            assert not all(fits(one.kernel.settings, entry.settings) for entry in both), one.name


@pytest.mark.medium
@pytest.mark.parametrize("spec", SPECS)
def test_locks_are_of_the_first_attempt(spec: str) -> None:
    """Roles have what their operations need where the budget is left beside tiles, and no more: a
    lock that needed another attempt depends on the assembler that it was chosen with.
    """
    for one in (one for one in FIRST if one.lock.spec == spec):
        machine = with_registers(read_machine(budgets.TARGET), *begin_with(one))
        settings = {**one.kernel.settings, **one.schedule.choices}
        kernel = kernels_of(read_spec(spec), machine, settings)[0]
        problem = build_problem(kernel, machine, derive(kernel), one.schedule.latencies)
        roles, buffers = one.schedule.roles, one.schedule.buffers
        owner = {name: role for role, r in roles.items() for name in r.operations.split()}
        shared = {r.name: r.ring is not None or buffers[r.name].alias for r in kernel.regions}
        depth = {
            r.name: r.depth.low if shared[r.name] else buffers[r.name].depth for r in kernel.regions
        }
        needs = role_registers(problem, owner, depth)
        assert {name: role.registers for name, role in roles.items()} == needs, one.name


def test_others_begin_with_what_the_model_says() -> None:
    wide = {"head_dim": "192", "dtype": "bf16", "causal": "true"}
    assert budgets.budget("attention_fwd", "b200", wide) == (0, 32)
    assert budgets.budget("attention_fwd", "b200", {**wide, "head_dim_v": "128"}) == (0, 0)
    assert budgets.budget("attention_fwd", "h200", wide) == (0, 0)
    assert budgets.budget("gemm_mixed", "b200", {"weights": "i8"}) == (40, 0)
    assert budgets.budget("gemm_mixed", "b200", {"weights": "i8", "tile_m": "64"}) == (0, 0)
    assert budgets.budget("gemm", "b200", {}) == (0, 0)
