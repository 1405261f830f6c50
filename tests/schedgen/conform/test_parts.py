"""A tile's loop that is several loops: a kernel with peeled masks, and what is wrong in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from schedgen import read_machine, read_spec
from schedgen.benchmarks.mutants.kernels import mutants
from schedgen.codegen.compiling import compile_file
from schedgen.codegen.style import Style
from schedgen.conform.cases import END, MIDDLE, Case, Turn
from schedgen.conform.parts import View, in_order, stops
from schedgen.conform.terms import Terms
from schedgen.driver.emitting import emission, restyled
from schedgen.driver.proved import QUICK
from schedgen.emulator.ptx.parse import parse
from schedgen.emulator.ptx.tree import Immediate, Module
from tests.codegen.examples import SPECS
from tests.schedgen.conform.conftest import Compiled

CASE = Case(None, least=9, shifts=1, modulus=4, ends=3, repeated=4)


@pytest.fixture(scope="module")
def peeled(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Attention with a mask at the end of a row, in two loops."""
    spec = read_spec(str(SPECS / "gated_attention.yaml"))
    made = emission(spec, read_machine("h200"), {}, methods=QUICK)
    made = restyled(made, Style(peeled=True))
    path: Path = tmp_path_factory.mktemp("peeled") / "kernel.py"
    path.write_text(made.text, "utf-8")
    built = compile_file(path, path.parent, sms=132)
    kernel = made.solution.problem.kernel
    return Compiled(parse(built.ptx.read_text("utf-8")), made.proven.program, kernel)


def _bounds(kernel: Compiled) -> Iterator[Module]:
    """Where the first loop ends, and so where the second one begins, is not within the turns."""
    for at, one in enumerate(kernel.code.body):
        if one.name in ("min.s32", "min.relu.s32", "max.s32"):
            yield kernel.changed(at, replace(one, opcode="max" if one.opcode == "min" else "min"))
        if one.name == "max.s32" and one.operands[-1] == Immediate(1):
            for other in (0, 2):
                yield kernel.changed(
                    at, replace(one, operands=(*one.operands[:-1], Immediate(other)))
                )


@pytest.mark.slow
def test_it_is_its_program(peeled: Compiled) -> None:
    found = peeled.conforms()
    assert found.holds, [one.text for one in found.findings]
    products = [at for at, one in enumerate(peeled.code.body) if one.opcode == "wgmma"]
    assert len(products) > 3  # of the loop: both parts are there


@pytest.mark.slow
def test_other_bounds_are_refused(peeled: Compiled) -> None:
    """But for a first loop of one turn more, where masks are wrong and nothing else, and for what
    says of a loop that has turns that it has one at least.
    """
    found = [peeled.conforms(module).holds for module in _bounds(peeled)]
    assert found.count(False) >= 6
    assert found.count(True) <= 2


@pytest.mark.slow
def test_mutants_of_both_loops_are_refused(peeled: Compiled) -> None:
    """One of each operator for every third of the text."""
    seen: set[tuple[str, int]] = set()
    last = peeled.code.body[-1].line
    for mutant in mutants(peeled.code):
        which = mutant.operator, 3 * mutant.instruction.line // last
        if which not in seen:
            seen.add(which)
            found = peeled.conforms(mutant.module(peeled.module))
            assert not found.holds, (mutant.operator, mutant.instruction.line)
    assert len(seen) > 20


def test_loops_in_order() -> None:
    """Those that end within the turns; not where nobody knows, or where one may end too early."""
    terms = Terms()
    count, a, b = (terms.symbol(name) for name in ("n", "a", "b"))
    one = terms.const(1)
    first = terms.extreme("min", count, terms.extreme("max", a, one))
    second = terms.extreme("min", count, terms.extreme("max", b, first))
    assert in_order(terms, (first, second, count), 1)
    assert in_order(terms, (count,), 1)
    assert not in_order(terms, (second, first, count), 1)
    assert not in_order(terms, (a, count), 1)
    assert not in_order(terms, (first, count), 2)  # a turn in front of the loop's first one
    assert not in_order(terms, (terms.extreme("max", a, one), count), 1)  # more than there are


def test_where_a_loop_may_end() -> None:
    """Before each turn that is laid out, for all numbers that this may be."""
    assert [*stops(CASE, 1)] == [()]
    steady = CASE.steady()
    assert len([*stops(CASE, 3)]) == (len(steady) + 1) * (len(steady) + 2) // 2
    for divided in stops(CASE, 3):
        for at in range(len(steady)):
            count, turn, ends = View(CASE, divided, at).forms()
            assert turn is not None
            assert (count.plus(turn, -1).at_least or 0) > 0
            bounds = [turn.plus(end, -1) for end in ends]
            for bound, index in zip(bounds, divided, strict=True):
                if index <= at:
                    assert bound.at_least is not None
                    assert bound.at_least >= 0
                else:
                    assert bound.at_most is not None
                    assert bound.at_most < 0
                if index == at + 1:  # the last turn of a loop: it ends right behind
                    assert (bound.at_least, bound.at_most) == (-1, -1)
            for one, other in pairwise([*ends, count]):
                assert other.plus(one, -1).at_least is not None


def test_how_far_turns_are_apart() -> None:
    between, last = Turn(0, MIDDLE), Turn(-1, END)
    view = View(CASE, (2,), 5)
    assert view.turn == between
    assert view.known(last) is None
    assert view.apart(between, Turn(1)) is not None
    assert view.apart(between, between) is None
    view = View(CASE, (len(CASE.steady()) - 2,), len(CASE.steady()) - 1)
    found = view.apart(last, view.begin(1))
    assert found is not None
    assert found.plain
    assert int(found.array.flat[0]) == 1
