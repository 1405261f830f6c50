"""Compiled kernels are what their programs say, and changed ones are not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from schedgen.benchmarks.mutants.kernels import mutants
from schedgen.conform.actions import ACCESSES, kind
from schedgen.program.model import Arrive, Initialize, Program, Step, Wait
from tests.schedgen.conform.conftest import Compiled

SMALL = "gemm_sm_90a_bf16_kn_tile_m64_consumers1_tile_n128"
OTHERS = (
    "gemm_sm_90a_bf16",
    "gemm_symmetric_sm_90a_bf16_tile_n128",
    "gemm_chain_sm_100a_bf16",
    "gemm_sm_100a_bf16",
    "attention_fwd_sm_90a_head_dim128_bf16_causal",
    "attention_fwd_sm_100a_head_dim64_bf16_causal",
)
Compile = Callable[[str], Compiled]


@pytest.fixture(scope="module")
def small(compiled: Compile) -> Compiled:
    return compiled(SMALL)


def _with_loop(
    program: Program, role: str, change: Callable[[tuple[Step, ...]], tuple[Step, ...]]
) -> Program:
    """The program with another loop of a role."""
    roles = tuple(
        replace(one, loop=change(one.loop)) if one.name == role else one for one in program.roles
    )
    return replace(program, roles=roles)


def test_it_is_its_program(small: Compiled) -> None:
    found = small.conforms()
    assert found.holds, [one.text for one in found.findings]
    assert {one.name for one in found.roles} >= {one.name for one in small.program.roles}
    assert all(one.instructions >= one.steps for one in found.roles)


@pytest.mark.medium
def test_mutants_are_refused(small: Compiled) -> None:
    """One of each operator, and each finding names an instruction or a step."""
    seen: set[str] = set()
    for mutant in mutants(small.code):
        if mutant.operator in seen:
            continue
        seen.add(mutant.operator)
        found = small.conforms(mutant.module(small.module))
        assert not found.holds, (mutant.operator, mutant.instruction.line)
        assert all(one.line or one.step for one in found.findings)
    assert len(seen) > 10


@pytest.mark.slow
@pytest.mark.parametrize("name", [SMALL, "gemm_epilogue_sm_100a_bf16"])
def test_each_access_of_several_is_needed(compiled: Compile, name: str) -> None:
    """What threads load from, and store to, shared and tensor memory: none of it can be lost."""
    kernel = compiled(name)
    places = [at for at, one in enumerate(kernel.code.body) if kind(one) in ACCESSES]
    assert len(places) > 4
    for at in places[:: max(len(places) // 12, 1)]:
        assert not kernel.conforms(kernel.changed(at, None)).holds, kernel.code.body[at].line


def test_another_number_is_another_program(small: Compiled) -> None:
    """A wait for the phase before the right one: slot and parity of all iterations differ."""

    def early(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        at = next(n for n, step in enumerate(steps) if isinstance(step.action, Wait))
        wait = steps[at].action
        assert isinstance(wait, Wait)
        other = replace(steps[at], action=replace(wait, number=wait.number.moved(1)))
        return (*steps[:at], other, *steps[at + 1 :])

    found = small.conforms(program=_with_loop(small.program, "load", early))
    (finding,) = (one for one in found.findings if one.role == "load")
    assert "wait" in finding.step
    assert "loop[0]" in finding.step
    assert "try_wait" in finding.instruction


def test_a_step_more_is_another_program(small: Compiled) -> None:
    def more(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        return (*steps, steps[0])

    found = small.conforms(program=_with_loop(small.program, "load", more))
    assert [one.role for one in found.findings] == ["load"]


def test_moved_steps_are_another_program(small: Compiled) -> None:
    """An arrival before the wait for the products that it is about."""
    (role,) = (one for one in small.program.roles if one.warps == 4)

    def moved(steps: tuple[Step, ...]) -> tuple[Step, ...]:
        at = next(n for n, step in enumerate(steps) if isinstance(step.action, Arrive))
        return (*steps[: at - 1], steps[at], steps[at - 1], *steps[at + 1 :])

    found = small.conforms(program=_with_loop(small.program, role.name, moved))
    (finding,) = found.findings
    assert "arrive" in finding.step
    assert "wgmma.wait_group" in finding.instruction


def test_other_arrivals_are_another_program(small: Compiled) -> None:
    first, *rest = small.program.setup
    assert isinstance(first, Initialize)
    setup = (replace(first, arrivals=first.arrivals + 1), *rest)
    found = small.conforms(program=replace(small.program, setup=setup))
    assert not found.holds
    assert any("initialize" in one.step for one in found.findings)


@pytest.mark.slow
@pytest.mark.parametrize("name", OTHERS)
def test_shipped_kernels(compiled: Compile, name: str) -> None:
    kernel = compiled(name)
    found = kernel.conforms()
    assert found.holds, [one.text for one in found.findings]
    every = list(mutants(kernel.code))
    for mutant in every[:: max(1, len(every) // 8)]:
        changed = kernel.conforms(mutant.module(kernel.module))
        assert not changed.holds, (mutant.operator, mutant.instruction.line)
