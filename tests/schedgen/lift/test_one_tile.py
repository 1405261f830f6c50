"""A kernel with one tile per block: proven as it is, refuted with a mistake in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Immediate, Instruction, Kernel, Module
from schedgen.lift.examine import NOT_LIFTED, PROVEN, REFUTED, Examined, examine
from schedgen.program.model import Arrive
from tests.schedgen.lift.one_tile import EMPTY, PTX, A


@pytest.fixture(scope="module")
def module() -> Module:
    return parse(PTX)


def kernel_of(module: Module) -> Kernel:
    (code,) = module.kernels.values()
    return code


def mutant(module: Module, name: str, which: int) -> Examined:
    """Without the instruction; a wait ends at once."""
    code = kernel_of(module)
    at = [at for at, one in enumerate(code.body) if one.name.startswith(name)][which]
    one = code.body[at]
    gone = Instruction("nop", (), (), one.line)
    if "try_wait" in name:
        gone = Instruction("mov", ("pred",), (one.operands[0], Immediate(1)), one.line)
    body = (*code.body[:at], gone, *code.body[at + 1 :])
    return with_body(module, body)


def with_body(module: Module, body: tuple[Instruction, ...]) -> Examined:
    code = replace(kernel_of(module), body=body)
    return examine(replace(module, kernels={code.name: code}), code, ("graph",))


@pytest.mark.medium
def test_it_is_proven_by_all_methods(module: Module) -> None:
    found = examine(module, kernel_of(module))
    assert found.status == PROVEN, (found.reason, found.findings)
    (lifted,) = found.programs
    names = {store.name for store in lifted.program.allocations}
    assert {f"shared[{A}]", f"shared[{A}] again", f"shared[{A}] for two uses"} <= names
    assert lifted.once


def test_the_last_stage_is_released_in_the_program_alone(module: Module) -> None:
    (lifted,) = examine(module, kernel_of(module), ("graph",)).programs
    barrier = f"mbarrier {EMPTY}"
    released = [
        step.guard.high
        for role in lifted.program.roles
        for step in role.loop
        if isinstance(step.action, Arrive) and step.action.barrier == barrier
    ]
    assert released == [0]
    steps = lifted.steps["warps0"]
    kernel = [step.guard.high for step in steps.loop if step.sign.shape[:1] == ("arrive",)]
    assert kernel == [1]


WRONG = (
    *(("mbarrier.try_wait", which) for which in range(3)),
    *(("mbarrier.arrive", which) for which in range(2)),
    *(("wgmma.wait_group", which) for which in range(2)),
    *(("bar.sync", which) for which in (1, 2)),
    ("fence.proxy.async", 0),
)


@pytest.mark.medium
@pytest.mark.parametrize(("name", "which"), WRONG)
def test_a_mistake_is_refuted(module: Module, name: str, which: int) -> None:
    found = mutant(module, name, which)
    assert found.status == REFUTED, (name, which, found.reason)
    assert any(place.ptx for finding in found.findings for place in finding.places)


def test_the_epilogue_is_ordered_with_loads_of_its_memory(module: Module) -> None:
    """Products are awaited, but other warps may still read."""
    found = mutant(module, "bar.sync", 1)
    assert "for two uses" in found.findings[0].text


def test_what_only_another_tile_would_show_refutes_nothing(module: Module) -> None:
    """The block ends while a bulk store reads; the program goes on, the kernel does not."""
    found = mutant(module, "cp.async.bulk.wait_group", 0)
    assert found.status == NOT_LIFTED
    assert "goes on behind the only tile" in found.reason
