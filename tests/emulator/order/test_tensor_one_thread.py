"""Tensor memory: what one warp issued, in which order it takes effect (C1 to C5, C8)."""

from __future__ import annotations

from typing import Any

import pytest

from schedgen.emulator.machine.switches import (
    ProductOrder,
    TensorFences,
)
from schedgen.emulator.order.findings import Missing
from tests.emulator.order.kernel import Kernel
from tests.emulator.order.test_tensor import ACC, BAR, BOTH, OTHER, start


@BOTH
@pytest.mark.parametrize(("first", "second"), [("st", "ld"), ("ld", "st"), ("st", "st")])
def test_c1_c8_one_warp(fences: TensorFences, first: str, second: str) -> None:
    def run(*, wait: bool) -> Kernel:
        k = start(fences)
        (k.st if first == "st" else k.ld)(4, ACC)
        if wait:
            (k.wait_st if first == "st" else k.wait_ld)(4)
        (k.st if second == "st" else k.ld)(4, ACC)
        return k

    assert run(wait=True).clean()
    race = run(wait=False).race()
    assert race.missing is Missing.TENSOR_WAIT
    assert race.needs == f"tcgen05.wait::{first} in warp 4 after line 3 and before line 4"


def test_reads_of_one_place_do_not_race() -> None:
    k = start()
    k.ld(4, ACC)
    k.ld(4, ACC)
    assert k.clean()


@pytest.mark.parametrize("order", list(ProductOrder))
def test_c2_products_of_one_accumulator(order: ProductOrder) -> None:
    k = start(product_order=order)
    for _ in range(3):
        k.mma(2, ACC, chain="S")
    k.copy_in(2, OTHER)
    k.mma(2, ACC, probabilities=OTHER, chain="S")
    assert k.clean()


def test_c2_c4_products_of_two_accumulators() -> None:
    """The next S overwrites P behind the product that reads P."""

    def run(**settings: Any) -> Kernel:
        k = start(**settings)
        k.mma(2, OTHER, probabilities=ACC, chain="O")
        k.mma(2, ACC, chain="S")
        return k

    assert run().clean()
    race = run(product_order=ProductOrder.ACCUMULATOR).race()
    assert (race.missing, race.switch) == (Missing.COMMIT, "S22 product_order")


def test_c4_p21_copy_behind_a_product() -> None:
    """Scale factors are overwritten while the product that reads them is under way."""

    def run(**settings: Any) -> Kernel:
        k = start(**settings)
        k.mma(2, ACC, probabilities=OTHER, chain="acc")
        k.copy_in(2, OTHER)
        return k

    assert run().clean()
    assert not run(product_order=ProductOrder.ACCUMULATOR).clean()


def test_c4_load_then_product_in_one_warp() -> None:
    k = start()
    k.ld(4, ACC)
    k.mma(4, ACC)
    assert k.race().missing is Missing.TENSOR_WAIT
    k = start()
    k.ld(4, ACC)
    k.wait_ld(4)
    k.mma(4, ACC)
    assert k.clean()


def test_products_of_two_warps() -> None:
    k = start()
    k.mma(2, ACC)
    k.mma(3, ACC)
    assert k.race().missing is Missing.COMMIT


def test_c5_a_commit_tracks_what_was_issued_before_it() -> None:
    """The commit executes late; what was issued after it is not covered."""

    def run(out: tuple[int, int]) -> Kernel:
        k = start()
        k.mma(2, ACC)
        ticket = k.checker.issue(2, k.MMA, k.at())
        k.mma(2, out)
        k.checker.commit(2, (0, BAR), 0, line=k.at(), operation=ticket)
        k.wait(4, BAR)
        k.after(4)
        k.ld(4, ACC)
        return k

    assert run(OTHER).clean()
    assert run(ACC).race().missing is Missing.COMMIT


def test_c5_without_a_ticket_a_commit_tracks_what_was_issued_by_now() -> None:
    k = start()
    k.mma(2, ACC)
    k.checker.commit(2, (0, BAR), 0, line=k.at())
    k.wait(4, BAR)
    k.after(4)
    k.ld(4, ACC)
    assert k.clean()
