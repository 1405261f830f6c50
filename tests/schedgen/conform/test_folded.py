"""Loops that only compute: which of them leave the same, and a kernel whose roles search alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from schedgen.codegen.compiling import compile_file
from schedgen.conform.folded import folds
from schedgen.conform.induction import Written
from schedgen.conform.skeleton import Carried
from schedgen.conform.terms import Term, Terms
from schedgen.driver.emitting import emission
from schedgen.driver.proved import QUICK
from schedgen.emulator.ptx.parse import parse
from schedgen.machine_file import read_machine
from schedgen.spec.reader import read_spec
from tests.schedgen.conform.conftest import Compiled


def search(
    terms: Terms, names: tuple[str, str], left: Term, step: int = 32, least: int = 0
) -> Term:
    """What is left of ``left`` by a loop that takes sizes away, in registers of these names."""
    rest, base = (terms.symbol(f"{name} at 5") for name in names)
    size = terms.make("loaded?", terms.sum(((base, 4), (terms.symbol("parameter 1"), 1))), 0)
    less = terms.sum(((rest, 1), (size, -1)))
    carried = {
        rest: Carried(names[0], left, less),
        base: Carried(names[1], terms.const(0), terms.sum(((base, 1),), step)),
    }
    if names[0] > names[1]:  # in the order in which a compiler has them
        carried = dict(reversed(carried.items()))
    leave = terms.compare("lt", less, terms.const(least))
    return folds(terms, carried, leave, [rest])[rest]


def test_the_same_in_other_registers() -> None:
    terms = Terms()
    tile = terms.symbol("%r7 at 2")
    terms.symbol("z at 5")  # made first: sums have it first
    one, other = search(terms, ("a", "b"), tile), search(terms, ("z", "c"), tile)
    assert one is other
    for different in (
        search(terms, ("a", "b"), terms.symbol("%r8 at 2")),
        search(terms, ("a", "b"), tile, step=16),
        search(terms, ("a", "b"), tile, least=1),
    ):
        assert different is not one


def test_terms_from_outside_can_be_renamed() -> None:
    terms = Terms()
    mine, its, tile = map(terms.symbol, ("%r7 at 2", "%r9 at 3", "output tile"))
    found = [
        Written(terms, {name: tile}).term(search(terms, ("a", "b"), name)) for name in (mine, its)
    ]
    assert found[0] is found[1]


@pytest.mark.slow
def test_roles_that_search_for_trip_counts(tmp_path: Path) -> None:
    """Packed sequences, causal: how many iterations a tile has depends on what each role finds."""
    spec = read_spec("attention_varlen")
    made = emission(spec, read_machine("h200"), {"causal": "true"}, methods=QUICK)
    assert made.solution.problem.kernel.tiles == "dense"
    (tmp_path / made.name).write_text(made.text, "utf-8")
    built = compile_file(tmp_path / made.name, tmp_path, sms=132)
    kernel = made.solution.problem.kernel
    one = Compiled(parse(built.ptx.read_text("utf-8")), made.proven.program, kernel)
    found = one.conforms()
    assert found.holds, found.findings


def test_what_is_shared_is_written_once() -> None:
    """Without that a chain of links would be as long as 2 to the power of its links."""
    terms = Terms()
    rest = terms.symbol("a at 5")
    value = rest
    for _ in range(60):
        value = terms.make("xor", value, terms.make("shr", value, 1))
    carried = {rest: Carried("a", terms.const(1), value)}
    found = folds(terms, carried, terms.compare("eq", value, rest), [rest])[rest]
    assert len(str(found.args[0])) < 10_000
