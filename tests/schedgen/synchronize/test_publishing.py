"""Products come before the fence of what threads have written, unless they need it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen.driver import lock_file
from schedgen.driver.locked import program_of
from schedgen.program.model import Arrive, Fence, FenceKind, Program, Run, Step
from schedgen.synchronize.publishing import fenced_behind_products
from tests.codegen.examples import SPECS, solved

FILE = "attention_bwd_sm_90a_head_dim64_bf16.py"
ASYNC, REGISTERS = FenceKind.ASYNC_PROXY, FenceKind.REGISTERS


@pytest.fixture(scope="module")
def gradients() -> Program:
    kernel = lock_file.named(FILE)
    assert kernel is not None
    return program_of(kernel)[0]


def described(steps: tuple[Step, ...]) -> list[str]:
    """Operations, fences and arrivals."""
    found: list[str] = []
    for step in steps:
        match step.action:
            case Run(operation):
                found.append(operation)
            case Fence(kind):
                found.append(kind.value)
            case Arrive(barrier):
                found.append(barrier.split(" ")[-1] if "meet" in barrier else "arrive")
            case _:
                pass
    return found


@pytest.mark.parametrize("band", [0, 1])
def test_a_product_of_registers_comes_first(gradients: Program, band: int) -> None:
    """P dO is under way while the fence waits for what was written for the other warpgroup."""
    role = next(r for r in gradients.roles if r.name == f"softmax0{band}")
    found = described(role.loop)
    at = found.index(f"TURN[0,{band}]")
    meeting = found[at + 4]
    assert found[at : at + 4] == [
        f"TURN[0,{band}]", REGISTERS.value, f"PDO[0,{band}]", ASYNC.value
    ]  # fmt: skip
    assert meeting.startswith("DSK")
    assert fenced_behind_products(role.loop, gradients) == role.loop


def test_what_a_product_reads_is_fenced_before(gradients: Program) -> None:
    """If P dO read the gradients of scores, they would have to be visible to it."""
    role = next(r for r in gradients.roles if r.name == "softmax00")
    written = gradients.operation["TURN[0,0]"].accesses
    shared = next(a for a in written if a.write)
    reads = replace(shared, write=False, spread=None)
    product = gradients.operation["PDO[0,0]"]
    changed = replace(product, accesses=(*product.accesses, reads))
    others = tuple(changed if o is product else o for o in gradients.operations)
    steps = list(role.loop)
    fence = next(n for n, s in enumerate(steps) if s.action == Fence(ASYNC))
    turn = next(n for n, s in enumerate(steps) if s.action == Run("TURN[0,0]"))
    steps.insert(turn + 1, steps.pop(fence))
    assert fenced_behind_products(steps, gradients) == role.loop
    found = fenced_behind_products(steps, replace(gradients, operations=others))
    assert found == tuple(steps)


def test_operands_that_threads_make() -> None:
    program = solved(SPECS / "relu_in_role.yaml", "h200")[0].program
    for role in program.roles:
        assert fenced_behind_products(role.loop, program) == role.loop
    found = described(next(r for r in program.roles if r.name == "one").loop)
    assert found.index(ASYNC.value) < found.index("MMA")
