"""How many output tiles there are may be computed from data, if all threads find the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from schedgen.codegen.compiling import compile_file
from schedgen.conform.alike import for_all_threads, for_all_warps
from schedgen.conform.terms import Terms
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Immediate, Register
from tests.codegen.test_dense import emitted
from tests.schedgen.conform.conftest import Compiled


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    folder: Path = tmp_path_factory.mktemp("dense")
    made = emitted("dynamic")
    (folder / made.name).write_text(made.text, "utf-8")
    built = compile_file(folder / made.name, folder, sms=132)
    kernel = made.solution.problem.kernel
    return Compiled(parse(built.ptx.read_text("utf-8")), made.proven.program, kernel)


def test_it_is_its_program(product: Compiled) -> None:
    found = product.conforms()
    assert found.holds, found.findings


def test_sums_of_some_lanes_or_by_thread_are_found(product: Compiled) -> None:
    body = product.code.body
    (at,) = (n for n, one in enumerate(body) if one.opcode == "redux")
    to, value, _ = body[at].operands
    some = replace(body[at], operands=(to, value, Immediate(7)))
    alone = replace(body[at], opcode="mov", modifiers=("b32",), operands=(to, value))
    lane = next(n for n, one in enumerate(body) if Register("%laneid") in one.operands)
    thread = replace(body[lane], operands=(body[lane].operands[0], Register("%tid.x")))
    for changed in (
        product.changed(at, some),
        product.changed(at, alone),
        product.changed(lane, thread),
    ):
        found = product.conforms(changed)
        assert not found.holds
        assert any("how many tiles there are" in one.message for one in found.findings)


def test_terms() -> None:
    terms = Terms()
    lane, thread = terms.symbol("%laneid"), terms.symbol("%tid.x")
    size = terms.symbol("parameter 3")
    for sum_of, right in ((lane, True), (thread, False), (terms.unknown(), False)):
        found = terms.make("fold", "#0; ...", sum_of, size)
        together = terms.make("redux.sync.add.s32?", found, terms.const(-1))
        assert for_all_warps(found) is right
        assert for_all_threads(together) is right
        assert for_all_threads(terms.product(together, size)) is right
        assert not for_all_threads(found)
    assert not for_all_threads(lane)
    assert for_all_threads(terms.symbol("%nctaid.x"))
