"""Level 1: a right program computes what its spec says in every interleaving, wrong ones show."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import pytest
import torch

from schedgen.interpret.concurrent import Interpreter, run_program
from schedgen.interpret.problem import InterpretationError
from schedgen.interpret.sequential import run
from schedgen.kernel import Space
from schedgen.program.model import (
    LAST,
    Arrive,
    Commit,
    Guard,
    Program,
    Run,
    Step,
    Wait,
    WaitGroup,
    When,
)
from schedgen.program.operations import Engine, Number
from tests.schedgen.interpret.pipeline import (
    DEPTH,
    TEXT,
    product_inputs,
    product_kernel,
    product_program,
    replaced,
    steps,
    without,
)
from tests.schedgen.interpret.problems import kernel_of

KERNEL = product_kernel()
PROGRAM = product_program()


def same(found: Mapping[str, torch.Tensor], wanted: Mapping[str, torch.Tensor]) -> bool:
    """Whether all bits agree, those of numbers that are none included."""
    return found.keys() == wanted.keys() and all(
        torch.equal(found[name].view(torch.uint8), wanted[name].view(torch.uint8))
        for name in wanted
    )


def outcomes(program: Program, trips: int = 4, runs: int = 100) -> Counter[str]:
    """How often a program was right, wrong, or stopped by an error."""
    inputs = product_inputs(trips)
    wanted = run(KERNEL, inputs)
    interpreter = Interpreter(program, KERNEL, inputs)
    found: Counter[str] = Counter()
    for seed in range(runs):
        try:
            found["right" if same(interpreter.run(seed), wanted) else "wrong"] += 1
        except InterpretationError:
            found["stopped"] += 1
    return found


@pytest.mark.medium
@pytest.mark.parametrize("trips", [0, 1, 2, DEPTH - 1, DEPTH, DEPTH + 1])
def test_every_interleaving_gives_the_same_bits(trips: int) -> None:
    assert outcomes(PROGRAM, trips, 1000) == {"right": 1000}


def test_same_seed_same_run() -> None:
    inputs = product_inputs(2)
    found = [run_program(PROGRAM, KERNEL, inputs, seed=7) for _ in range(2)]
    assert same(*found)


def test_empty_loop_stores_the_initial_value() -> None:
    found = run_program(PROGRAM, KERNEL, product_inputs(0))
    assert torch.equal(found["d"], torch.zeros(300, 100, dtype=torch.bfloat16))


# -- programs with one step missing ----------------------------------------------------------------


@pytest.mark.parametrize("where", list(steps(PROGRAM, Wait)), ids=str)
def test_missing_wait(where: tuple[str, str, int]) -> None:
    assert outcomes(without(PROGRAM, *where))["right"] < 100


@pytest.mark.parametrize("kind", [Arrive, Commit])
def test_missing_arrival(kind: type) -> None:
    for where in steps(PROGRAM, kind):
        assert outcomes(without(PROGRAM, *where), runs=10) == {"stopped": 10}


def test_missing_wait_group() -> None:
    (where,) = steps(PROGRAM, WaitGroup)
    assert outcomes(without(PROGRAM, *where))["wrong"] > 0


def test_deadlock_names_every_role_that_waits() -> None:
    (where, *_) = steps(PROGRAM, Commit)
    broken = without(PROGRAM, *where)
    message = (
        r"deadlock: role load, tile 0, iteration 3: waits for sA empty number 0 .*; role tensor, "
        r"tile 0, iteration 3: waits for sA full number 3 .*; role epilogue, tile 0, after the "
        r"loop: waits for acc full .*; role store, tile 0, after the loop: waits for sD full"
    )
    with pytest.raises(InterpretationError, match=message):
        run_program(broken, KERNEL, product_inputs(4))


# -- programs with one number wrong ----------------------------------------------------------------


def test_release_of_a_slot_that_is_still_read() -> None:
    """The load may go one slot too far: it waits for a release too early."""
    role = PROGRAM.role["load"]
    wait = Step(Wait("sA empty", Number(offset=-DEPTH - 1)))
    broken = replaced(PROGRAM, replace(role, loop=(wait, *role.loop[1:])))
    assert outcomes(broken)["right"] < 100


def test_commit_before_the_product() -> None:
    """A commit tracks what was issued before it, and not what comes after."""
    role = PROGRAM.role["tensor"]
    loop = list(role.loop)
    mma = next(n for n, step in enumerate(loop) if isinstance(step.action, Run))
    loop[mma], loop[mma + 1] = loop[mma + 1], loop[mma]
    found = outcomes(replaced(PROGRAM, replace(role, loop=tuple(loop))))
    assert found["right"] < 100


def test_too_many_arrivals() -> None:
    barriers = tuple(
        replace(b, arrivals=64) if b.name == "sD full" else b for b in PROGRAM.barriers
    )
    message = "more arrivals at sD full 0 than phase 0 takes"
    with pytest.raises(InterpretationError, match=message):
        run_program(replace(PROGRAM, barriers=barriers), KERNEL, product_inputs(1))


def test_wait_that_is_two_phases_behind() -> None:
    """Hardware sees whether a phase is odd: such a wait hangs although it has long been served."""
    first, second = (Arrive("sD empty", Number(offset=n, per_tile=True), 1) for n in (0, 1))
    role = PROGRAM.role["store"]
    broken = replaced(PROGRAM, replace(role, after=(*role.after[:-1], Step(first), Step(second))))
    messages: set[str] = set()
    for seed in range(20):
        with pytest.raises(InterpretationError) as caught:
            run_program(broken, KERNEL, product_inputs(1), seed)
        messages.add(str(caught.value))
    lapped = r".* waits for sD empty number 0 .*, phase 0, but sD empty 0 is in phase 2: .*"
    assert any(re.fullmatch(lapped, message) for message in messages), messages


# -- programs that do not fit ----------------------------------------------------------------------


def test_operation_that_no_role_runs() -> None:
    (where, *_) = steps(PROGRAM, Run)
    with pytest.raises(InterpretationError, match="no role runs LA of tile 0, iteration 0"):
        run_program(without(PROGRAM, *where), KERNEL, product_inputs(1))


def test_operation_that_runs_twice() -> None:
    role = PROGRAM.role["store"]
    broken = replaced(PROGRAM, replace(role, after=(*role.after, role.after[1])))
    with pytest.raises(InterpretationError, match=r"role store runs ST of tile 0, .* twice"):
        run_program(broken, KERNEL, product_inputs(1))


def test_unknown_barrier() -> None:
    role = PROGRAM.role["store"]
    broken = replaced(PROGRAM, replace(role, after=(Step(Wait("sD", Number())), *role.after)))
    with pytest.raises(InterpretationError, match="there is no barrier 'sD'"):
        run_program(broken, KERNEL, product_inputs(1))


def test_other_kernel() -> None:
    with pytest.raises(InterpretationError, match="operation 'MMA' is not one of kernel 'product'"):
        run_program(PROGRAM, kernel_of(TEXT.replace("MMA", "PRODUCT")), product_inputs(1))


def test_registers_of_two_roles() -> None:
    allocations = tuple(
        replace(s, space=Space.REGISTERS) if s.name == "acc" else s for s in PROGRAM.allocations
    )
    message = "roles tensor and epilogue share registers of 'acc'"
    with pytest.raises(InterpretationError, match=message):
        run_program(replace(PROGRAM, allocations=allocations), KERNEL, product_inputs(1))


# -- products of a warpgroup -----------------------------------------------------------------------


def warpgroup_program(*tail: Step) -> Program:
    """The roles ``tensor`` and ``epilogue`` as one, whose products are waited for by wait_groups.

    ``tail`` stands behind the product in the loop.
    """
    tensor, epilogue = PROGRAM.role["tensor"], PROGRAM.role["epilogue"]
    after = tuple(
        step
        for step in epilogue.after
        if not (isinstance(step.action, Wait | Arrive) and step.action.barrier.startswith("acc"))
    )
    loop = (Step(Wait("sA full", Number())), Step(Run("MMA")), *tail)
    role = replace(tensor, name="math", loop=loop, after=(Step(WaitGroup("MMA")), *after))
    mma = replace(PROGRAM.operation["MMA"], engine=Engine.WGMMA)
    return replace(
        PROGRAM,
        operations=tuple(mma if o.name == "MMA" else o for o in PROGRAM.operations),
        barriers=tuple(b for b in PROGRAM.barriers if not b.name.startswith("acc")),
        roles=(PROGRAM.role["load"], role, PROGRAM.role["store"]),
    )


def released(shift: int) -> tuple[Step, Step]:
    """Waits for the product when ``shift`` later ones were issued, and releases its slot."""
    return Step(WaitGroup("MMA"), shift), Step(Arrive("sA empty", Number(), 1), shift)


LAGGING = (
    Step(WaitGroup("MMA", 1)),
    Step(Arrive("sA empty", Number(offset=-1), 1), guard=Guard(low=1)),
    Step(WaitGroup("MMA"), guard=LAST),
    Step(Arrive("sA empty", Number(), 1), guard=Guard(When.LAST, 1)),
)
"""The same with one later product, by the lag of a wait_group."""


@pytest.mark.parametrize("tail", [released(0), released(1), released(2), LAGGING])
@pytest.mark.parametrize("trips", [0, 1, 4])
def test_wait_groups_of_a_warpgroup(tail: tuple[Step, ...], trips: int) -> None:
    assert outcomes(warpgroup_program(*tail), trips) == {"right": 100}


@pytest.mark.parametrize("tail", [released(1), LAGGING])
def test_missing_wait_group_in_the_loop(tail: tuple[Step, ...]) -> None:
    broken = warpgroup_program(*tail[1:])
    assert outcomes(broken)["right"] < 100


@pytest.mark.parametrize("awaited", [True, False])
def test_wait_group_behind_the_loop(awaited: bool) -> None:
    """With a slot for every iteration nothing in the loop waits for the products."""
    program = warpgroup_program()
    load = program.role["load"]
    program = replaced(program, replace(load, loop=load.loop[1:]))
    if not awaited:
        program = without(program, "math", "after", 0)
    inputs = {**product_inputs(DEPTH), "a": product_inputs(DEPTH)["a"][:100]}
    wanted = run(KERNEL, inputs)
    interpreter = Interpreter(program, KERNEL, inputs)
    right = [same(interpreter.run(seed), wanted) for seed in range(100)]
    assert all(right) == awaited
