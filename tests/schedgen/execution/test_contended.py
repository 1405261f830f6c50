"""Cycles of an iteration with shared units, worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schedgen.errors import SchedgenError
from schedgen.execution.contended import FENCE, cycles_per_iteration
from schedgen.machine_file import read_machine
from schedgen.program.model import Arrive, Fence, FenceKind, Program, Run, Step, Wait, WaitGroup
from schedgen.program.operations import Engine, TileOperation
from tests.schedgen.proof.small import EACH, barrier_of, loop, program

MACHINE = read_machine("h200")
WAIT, ARRIVE = MACHINE.cycles("wait"), MACHINE.cycles("arrive")


def threads(name: str, rest: int = 0, **units: int) -> TileOperation:
    latency = max(units.values(), default=0) + rest
    time = (latency, latency)
    return TileOperation(name, Engine.THREADS, (), time, time, 0, _by(units))


def wgmma(name: str, cycles: int, rest: int = 0, hold: int = 0, **units: int) -> TileOperation:
    latency = (cycles + rest, cycles + rest)
    by = (("TENSOR", cycles), *units.items())
    return TileOperation(name, Engine.WGMMA, (), latency, (hold, hold), cycles, by)


def _by(units: dict[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(units.items(), key=lambda one: -one[1]))


def roles(*operations: TileOperation, of: int = 1) -> Program:
    """Each of ``of`` roles executes operations of its own like these, products to their end."""
    made: dict[str, tuple[Step, ...]] = {}
    own: list[TileOperation] = []
    for number in range(of):
        steps: list[Run | WaitGroup] = []
        for operation in operations:
            name = f"{operation.name}[{number}]"
            own.append(replace(operation, name=name))
            steps.append(Run(name))
            if operation.engine is Engine.WGMMA:
                steps.append(WaitGroup(name))
        made[f"role{number}"] = loop(*steps)
    return program(made, operations=tuple(own))


def both(what: Program) -> tuple[float, float]:
    return (
        cycles_per_iteration(what, MACHINE, "in turn"),
        cycles_per_iteration(what, MACHINE, "in step"),
    )


def test_one_role_takes_its_latencies() -> None:
    assert both(roles(wgmma("P", 512, 75), threads("X", 11, FMA=64))) == (662, 662)


def test_a_product_is_not_complete_before_all_of_it_was_issued() -> None:
    """Eight narrow instructions that take 18 cycles each to issue, and 8 to compute."""
    assert both(roles(wgmma("P", 64, 75, hold=164))) == (239, 239)


def test_roles_in_step_want_the_same_unit_at_the_same_time() -> None:
    """As two warpgroups with row sums on an H200: 333.6 cycles where one takes 215."""
    what = roles(threads("X", 74, FMA=128), of=2)
    assert both(what)[1] == 2 * 128 + 74


def test_roles_in_turn_use_what_the_other_leaves() -> None:
    """Products one after the other: then one role computes while the other multiplies."""
    what = roles(wgmma("P", 100), threads("X", 0, MUFU=100), of=2)
    assert both(what) == pytest.approx((200, 400))


def test_products_take_their_time_from_other_units() -> None:
    """A product reads and writes registers: multiply-adds beside it get half of theirs."""
    first, second = wgmma("P", 200, FMA=100), threads("X", 0, FMA=150)
    what = program({"a": loop(Run("P"), Run("X"), WaitGroup("P"))}, operations=(first, second))
    assert both(what) == (250, 250)


def test_waits_and_arrivals_take_a_role_some_cycles() -> None:
    what = program(
        {"one": loop(Arrive("b", EACH, 1), Wait("b", EACH), Run("X"))},
        (barrier_of("b"),),
        (threads("X", 0, FMA=64),),
    )
    assert both(what) == (64 + WAIT + ARRIVE,) * 2


def test_fences_take_a_role_some_cycles_for_each_warp() -> None:
    """22 cycles of four warps on an H200; a model without the constant has none."""
    fence = Fence(FenceKind.ASYNC_PROXY)
    what = program({"a": loop(Run("X"), fence)}, operations=(threads("X", FMA=64),))
    price = round(what.roles[0].warps * MACHINE.value(FENCE))
    assert both(what) == (64 + price, 64 + price)
    without = tuple(one for one in MACHINE.constants if one.name != FENCE)
    older = replace(MACHINE, constants=without)
    assert cycles_per_iteration(what, older, "in step") == 64


def test_what_seldom_happens_can_be_left_out() -> None:
    what = roles(threads("X", 10, FMA=64), threads("Y", 10, MUFU=64))
    assert cycles_per_iteration(what, MACHINE, "in turn", without={"Y[0]"}) == 74


def test_low_and_high_latencies() -> None:
    what = roles(replace(threads("X", 0, FMA=64), latency=(70, 90), hold=(70, 90)))
    assert cycles_per_iteration(what, MACHINE, "in turn", "low") == 70
    assert cycles_per_iteration(what, MACHINE, "in turn", "high") == 90


def test_a_program_that_stops() -> None:
    what = program({"one": loop(Wait("b", EACH))}, (barrier_of("b"),))
    with pytest.raises(SchedgenError, match="comes to a stop"):
        cycles_per_iteration(what, MACHINE, "in turn")


def test_roles_in_step_begin_each_iteration_together() -> None:
    """Also if one has something of its own to wait for: left alone it would come to lie behind the
    others, and all of them would share nothing but the exclusive unit."""
    what = roles(wgmma("P", 100), threads("X", 0, MUFU=50), of=3)
    own = Step(Arrive("own", EACH, 1)), Step(Wait("own", EACH))
    first = replace(what.roles[0], loop=(own[0], *what.roles[0].loop, own[1]))
    what = replace(what, roles=(first, *what.roles[1:]), barriers=(barrier_of("own"),))
    turn, step = both(what)
    together = 3 * 100 + 3 * 50
    assert turn == 3 * 100
    assert together <= step <= together + WAIT + ARRIVE
