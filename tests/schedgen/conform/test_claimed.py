"""Kernels whose blocks claim output tiles are their programs; wrong claims are found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from schedgen.codegen.compiling import compile_file
from schedgen.driver.emitting import emission
from schedgen.driver.proved import QUICK
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Immediate, Instruction, Module, Register
from schedgen.machine_file import read_machine
from schedgen.spec.reader import parse_spec, read_spec
from tests.schedgen.conform.conftest import Compiled

SMALL = {"tile_n": "64", "widest_slice": "32"}


@pytest.fixture(scope="module")
def product(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    folder: Path = tmp_path_factory.mktemp("claimed")
    text = read_spec("gemm").source.text.replace("persistent: true", "claim: dynamic")
    made = emission(parse_spec(text), read_machine("h200"), SMALL, methods=QUICK)
    (folder / made.name).write_text(made.text, "utf-8")
    built = compile_file(folder / made.name, folder, sms=132)
    kernel = made.solution.problem.kernel
    return Compiled(parse(built.ptx.read_text("utf-8")), made.proven.program, kernel)


@pytest.mark.medium
def test_it_is_its_program(product: Compiled) -> None:
    found = product.conforms()
    assert found.holds, found.findings
    assert {role.name for role in found.roles} >= {"load", "epilogue0", "epilogue1", "store"}


def _places(kernel: Compiled, wanted: Callable[[Instruction], bool]) -> list[int]:
    found = [at for at, one in enumerate(kernel.code.body) if wanted(one)]
    assert found
    return found


def _draw(kernel: Compiled) -> int:
    (at,) = _places(kernel, lambda one: one.opcode == "atom")
    return at


def _reads(kernel: Compiled) -> list[int]:
    """Where numbers are read: a shuffle comes right behind."""
    body = kernel.code.body
    at = _places(kernel, lambda one: one.name == "ld.shared.b32")
    return [n for n in at if body[n + 1].opcode == "shfl"]


def _atomics(kernel: Compiled) -> Iterator[Module]:
    """No ticket, one that goes round elsewhere, or of another kind."""
    at = _draw(kernel)
    one = kernel.code.body[at]
    yield kernel.changed(at, None)
    yield kernel.changed(at, replace(one, operands=(*one.operands[:2], Immediate(7))))
    yield kernel.changed(at, replace(one, modifiers=(*one.modifiers[:3], "add", "u32")))


def _limits(kernel: Compiled) -> Iterator[Module]:
    """Tickets that begin anew one tile later."""
    limit = kernel.code.body[_draw(kernel)].operands[2]
    assert isinstance(limit, Register)
    (at,) = _places(kernel, lambda one: one.opcode == "add" and one.operands[:1] == (limit,))
    one = kernel.code.body[at]
    yield kernel.changed(at, replace(one, operands=(*one.operands[:2], Immediate(0))))


def _all_lanes(kernel: Compiled) -> Iterator[Module]:
    """All threads of the warp draw."""
    at = _draw(kernel)
    yield kernel.changed(at - 1, None)


def _tells(kernel: Compiled) -> Iterator[Module]:
    """Another number is told, nothing is, or the warp does not wait for it."""
    (at,) = _places(kernel, lambda one: one.name == "st.shared.b32")
    body = kernel.code.body
    one = body[at]
    yield kernel.changed(at, None)
    yield kernel.changed(at, replace(one, operands=(one.operands[0], Immediate(5))))
    add = body[at - 1]
    assert add.opcode == "add"
    yield kernel.changed(at - 1, replace(add, operands=(*add.operands[:2], Immediate(3))))
    (sync,) = _places(kernel, lambda one: one.name == "bar.warp.sync")
    yield kernel.changed(sync, None)


def _takes(kernel: Compiled) -> Iterator[Module]:
    """A number of another slot is taken, or that of another lane, or none."""
    body = kernel.code.body
    for at in _reads(kernel):
        to, address = body[at].operands
        other = replace(address, offset=address.offset + 4)  # pyright: ignore
        yield kernel.changed(at, replace(body[at], operands=(to, other)))
        yield kernel.changed(at, None)
        shuffle = body[at + 1]
        lane = (*shuffle.operands[:2], Immediate(1), *shuffle.operands[3:])
        yield kernel.changed(at + 1, replace(shuffle, operands=lane))


@pytest.mark.medium
@pytest.mark.parametrize("make", [_atomics, _limits, _all_lanes, _tells, _takes])
def test_mistakes_are_found(
    product: Compiled, make: Callable[[Compiled], Iterator[Module]]
) -> None:
    made = list(make(product))
    assert made
    for module in made:
        assert not product.conforms(module).holds
