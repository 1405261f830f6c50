"""What surrounds the steps of a program: there as it should be, and missed where it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen.benchmarks.mutants.operators_frame import frame_mutants
from schedgen.benchmarks.mutants.sites import with_role
from schedgen.findings import Claim
from schedgen.program.model import (
    PRODUCTS,
    Allocate,
    AwaitKernel,
    Barrier,
    Budget,
    Fence,
    FenceKind,
    Finish,
    Free,
    Initialize,
    Meet,
    Program,
    Publish,
    ReleaseKernel,
)
from schedgen.program.operations import Engine
from schedgen.program.warpgroups import Warpgroups
from schedgen.proof.frame import frame_findings
from schedgen.proof.prove import Refuted, prove
from schedgen.synchronize.frame import framed, tensor_columns
from tests.codegen.examples import GEMM, solved

CASES: dict[str, tuple[str, str, dict[str, str]]] = {
    "products in tensor memory": ("gemm", "b200", GEMM),
    "products in registers": ("gemm", "h200", {"tile_m": "64", "consumers": "1"}),
    "registers move": ("attention_fwd", "b200", {"head_dim": "64"}),
    "no products": ("gemm_sum", "h200", {}),
}


def program(case: str) -> Program:
    spec, target, settings = CASES[case]
    return solved(spec, target, **settings)[0].program


@pytest.fixture(params=CASES)
def whole(request: pytest.FixtureRequest) -> Program:
    return program(request.param)


def texts(changed: Program) -> list[str]:
    return [finding.text for finding in frame_findings(changed)]


def test_what_synthesis_makes_is_complete(whole: Program) -> None:
    assert texts(whole) == []
    assert framed(whole) == whole


def test_each_mistake_is_found(whole: Program) -> None:
    found = [*frame_mutants(whole)]
    assert len(found) > 10
    for what, changed, _ in found:
        assert changed != whole, what
        assert texts(changed), what


@pytest.mark.slow
def test_mistakes_are_no_accident(whole: Program) -> None:
    """Findings have one claim, and the program is refuted by every method for it."""
    what, changed, _ = next(frame_mutants(whole))
    with pytest.raises(Refuted, match=r"is initialized never \(framed\)") as caught:
        prove(changed, quick=True)
    assert all(v.findings for v in caught.value.proof.verdicts), what
    assert caught.value.proof.methods_agree
    assert not caught.value.proof.holds(Claim.FRAME)


def test_setup_and_teardown() -> None:
    """Of a program with products in tensor memory, step by step."""
    made = program("products in tensor memory")
    columns = tensor_columns(made)
    assert made.setup == (
        *(Initialize(barrier.name, barrier.arrivals) for barrier in made.barriers),
        Initialize(PRODUCTS, 1),
        *(Allocate(columns), Publish(), Meet(), AwaitKernel(), ReleaseKernel()),
    )
    assert made.teardown == (Meet(), Fence(FenceKind.TMEM_AFTER), Free(columns))
    before = Fence(FenceKind.TMEM_BEFORE)
    assert made.role["mma"].leave == (Finish(Engine.TENSOR), before)
    assert made.role["store"].leave == (Finish(Engine.COPY_OUT),)
    loaded, stored = Fence(FenceKind.TMEM_LOADED), Fence(FenceKind.TMEM_STORED)
    assert made.role["epilogue0"].leave == (loaded, stored, before)


def test_registers() -> None:
    """A warpgroup changes them together, and all together have no more than there is."""
    made = program("registers move")
    warps = Warpgroups(made.roles)
    assert warps.moves
    assert all(role.enter == (Budget(warps.registers(role)),) for role in made.roles)
    apart = with_role(made, replace(made.role["load"], enter=(Budget(40),)))
    assert any("share a warpgroup and change its registers apart" in text for text in texts(apart))
    groups = -(-sum(role.all_warps for role in made.roles) // 4)
    less = replace(made.capacities, registers_per_thread_sum=8 * 12 * groups + 4)
    few = texts(replace(made, capacities=less))
    assert any(f"of each thread of one, of {8 * 12 * groups}" in text for text in few)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"setup": ()}, "is initialized never"),
        ({"setup": ()}, "before the kernel that wrote it has ended"),
        ({"setup": ()}, "tensor memory is allocated 0 times"),
        ({"teardown": ()}, "tensor memory is freed before all roles are done"),
        ({"barriers": ()}, "is initialized, and no barrier"),
    ],
)
def test_words(change: dict[str, tuple[()]], words: str) -> None:
    made = program("products in tensor memory")
    assert any(words in text for text in texts(replace(made, **change)))


def test_one_barrier_twice() -> None:
    made = program("no products")
    twice = replace(made, setup=(made.setup[0], *made.setup))
    assert texts(twice) == [f"barrier '{made.barriers[0].name}' is initialized 2 times"]
    more = replace(made, barriers=(*made.barriers, Barrier("x", "mbarrier", 1, 1, 0)))
    assert texts(more) == ["barrier 'x' is initialized never"]


def test_what_a_role_does_not_use() -> None:
    made = program("no products")
    role = replace(made.role["load"], leave=(Finish(Engine.COPY_OUT),))
    assert texts(with_role(made, role)) == ["load: finishes copy out, which it does not use"]
