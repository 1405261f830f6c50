"""What units take, alone and beside products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from schedgen.conform.listing import Control
from schedgen.conform.listing import Machine as Instruction
from schedgen.cycles.prices import Priced, Prices, Unit, priced, prices
from schedgen.cycles.scheduler import Scheduler
from schedgen.errors import SchedgenError
from schedgen.machine_constants import middles
from schedgen.machine_file import read_machine

SAYS: Prices = prices(middles(read_machine("h200")))


def made(name: str, operands: str = "", guarded: bool = False) -> Priced:
    one = Instruction(name, operands, "0x0", guarded, Control(1, -1, -1, ()))
    return priced(one, SAYS, 5.7)


def run(scheduler: Scheduler, names: Sequence[str], start: float = 0.0, warps: int = 4) -> float:
    """Issues all of one warp that depends on nothing; when the last one was."""
    time = start
    for name in names:
        one = made(name)
        time = scheduler.ready(one, time)
        scheduler.issue(one, time, warps)
    return time


def alone() -> Scheduler:
    return Scheduler(SAYS)


@pytest.mark.parametrize(
    ("name", "each"),
    [("FFMA", 1), ("FMNMX", 2), ("IMAD.U32", 2), ("MUFU.EX2", 8), ("UIADD3", 1)],
)
def test_rates(name: str, each: float) -> None:
    assert run(alone(), [name] * 65) == pytest.approx(64 * each, abs=2)


def test_both_halves_of_fma_and_alu_go_on_together() -> None:
    assert run(alone(), ["FFMA", "FMNMX"] * 32) == pytest.approx(63, abs=2)
    assert run(alone(), ["IMAD.U32", "FMNMX"] * 32) == pytest.approx(63, abs=2)


def test_shared_memory_is_a_queue() -> None:
    scheduler = alone()
    assert run(scheduler, ["LDS"] * 6) == 5  # the warp goes on
    assert scheduler.free[Unit.SHARED] == 24
    assert run(scheduler, ["LDSM.16.M88.4"] * 20, 5) > 200  # and waits in the end


@pytest.mark.parametrize(("name", "each"), [("FMNMX", 2), ("IMAD.U32", 2), ("FFMA", 1)])
@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_a_scheduler_stands_still_while_tensor_cores_work(
    name: str, each: float, rate: float
) -> None:
    scheduler = alone()
    for _ in range(8):
        scheduler.multiply(0, 64, 0.75, rate)
    busy = scheduler.says.begin
    took = run(scheduler, [name] * 33, busy) - busy
    assert took == pytest.approx(32 * each / (1 - rate * SAYS.frozen), abs=3)
    assert scheduler.multiply(0, 0, 0, 1) == pytest.approx(busy + 512)


def test_special_functions_beside_products() -> None:
    scheduler = alone()
    for _ in range(8):
        scheduler.multiply(0, 64, 0.75, 1)
    busy = scheduler.says.begin
    assert run(scheduler, ["MUFU.EX2"] * 33, busy) - busy == pytest.approx(
        32 * SAYS.special_beside, abs=3
    )


def test_columns_of_a_product() -> None:
    assert made("HGMMA.64x8x16.F32.BF16").columns == 8
    assert made("QGMMA.64x128x32.F32.E4M3.E4M3").columns == 128
    assert made("FADD").columns == 0


def test_stalls_go_on_where_no_warp_computes() -> None:
    """Loads have instructions of uniform registers only."""
    scheduler = alone()
    scheduler.multiply(0, 64, 0.75, 1)
    busy = scheduler.says.begin
    assert scheduler.slower(busy) == 1
    run(scheduler, ["UIADD3"], busy)
    assert scheduler.slower(busy + 1) == 1
    run(scheduler, ["FADD"], busy + 1)
    assert scheduler.slower(busy + 2) == pytest.approx(1 / (1 - SAYS.frozen))
    assert scheduler.slower(busy + 2 + SAYS.close) == 1
    run(scheduler, ["FADD"], busy + 64)
    assert scheduler.slower(busy + 65) == 1  # products are done


def test_tensor_cores_take_some_products_at_a_time() -> None:
    scheduler, product = alone(), made("HGMMA.64x128x16.F32.BF16")
    ends = [scheduler.multiply(0, 64, 0.5, 1) for _ in range(int(SAYS.queue))]
    assert scheduler.ready(product, 10) == ends[0]


def test_a_left_operand_in_registers_waits_for_other_warps() -> None:
    scheduler = alone()
    product = made("HGMMA.64x64x16.F32.BF16", " R120, R152, gdesc[UR12].tnspB, R120 ")
    end = scheduler.multiply(0, 64, 0.5, 1, "softmax0")
    assert scheduler.ready(product, 5, "softmax1") == end - SAYS.begin
    assert scheduler.ready(product, 5, "softmax0") == 5  # its own are in order
    assert scheduler.ready(product, 5) == 5  # others of its operation follow
    shared = made("HGMMA.64x64x16.F32.BF16", " R120, gdesc[UR12], R120 ")
    assert scheduler.ready(shared, 5, "softmax1") == 5


def test_warps_that_go_on_by_themselves_wait_less_for_shared_memory() -> None:
    begins: list[float] = []
    for apart in (False, True):
        scheduler = alone()
        found = [scheduler.issue(made("LDS.64"), 0, 4, apart=apart) for _ in range(4)]
        begins.append(found[-1])
    assert begins[0] - begins[1] == SAYS.spread


def test_a_question_that_is_not_asked_takes_no_unit() -> None:
    assert made("SYNCS.PHASECHK.TRANS64", guarded=True).unit is None
    assert made("SYNCS.PHASECHK.TRANS64.TRYWAIT").unit is Unit.BARRIER


def test_a_model_without_prices() -> None:
    with pytest.raises(SchedgenError, match="fix: --target h200"):
        prices(read_machine("b200"))
    h200 = read_machine("h200")
    less = replace(h200, constants=tuple(c for c in h200.constants if c.name != "code_frozen"))
    with pytest.raises(SchedgenError, match="code_frozen"):
        prices(less)
