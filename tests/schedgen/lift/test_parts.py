"""Rings, steps and cutoffs, without a kernel."""

from __future__ import annotations

import pytest

from schedgen.conform.refusal import Refusal
from schedgen.conform.skeleton import Carried, Exit, Loop
from schedgen.conform.terms import Term, Terms
from schedgen.emulator.ptx.tree import Immediate, Instruction, Operand, Register, Vector
from schedgen.lift.breaks import cut, least
from schedgen.lift.cutoff import Limits, Looker
from schedgen.lift.evaluate import Worths
from schedgen.lift.lift import divided, plan
from schedgen.lift.operands import spans_of
from schedgen.lift.rings import rings
from schedgen.lift.rolling import Counted, Sign, agrees, rolled

ONE = Instruction("bra", (), (), 7)
RING = Counted(1, False)
TILE = Counted(1, True)


def test_slots_that_are_gone_through_in_turn_are_a_ring() -> None:
    order = [[0, 8, 16, 0, 8, 16, 0]]
    found = rings([0, 8, 16, 24], dict.fromkeys((0, 8, 16, 24), 1), [order, [[24, 24]]])
    assert [found[at].ring for at in (0, 8, 16, 24)] == [0, 0, 0, 1]
    assert found[16].number(2) == 8


@pytest.mark.parametrize("order", [[0, 16, 8, 24], [0, 16, 0, 16, 8, 24]])
def test_two_rings_side_by_side_are_not_one(order: list[int]) -> None:
    found = rings([0, 8, 16, 24], dict.fromkeys((0, 8, 16, 24), 1), [[order * 3]])
    assert len({found[at].ring for at in (0, 8, 16, 24)}) > 1


def test_a_slot_may_be_left_out_at_first() -> None:
    found = rings([0, 8, 16], dict.fromkeys((0, 8, 16), 1), [[[0, 16, 0, 8, 16, 0]]])
    assert found[8].slots == 3
    assert found[8].late


def pipelined(trips: int) -> list[Sign]:
    """A load and, one iteration behind it, a release; a fence before the loop, a store behind."""

    def moving(kind: str, number: int) -> Sign:
        return Sign((kind,), (RING,), (number,))

    found = [Sign(("fence",), (), ()), moving("load", 0)]
    for i in range(1, trips):
        found += [moving("load", i), moving("release", i - 1)]
    return [*found, moving("release", trips - 1), Sign(("store",), (TILE,), (0,))]


def test_steps_have_shifts_where_the_pipeline_fills_and_drains() -> None:
    steps = rolled(pipelined(8), pipelined(9), 9)
    assert steps is not None
    assert [(step.sign.shape[0], step.shift) for step in steps.loop] == [
        ("load", 0),
        ("release", 1),
    ]
    assert [len(part) for part in (steps.before, steps.after)] == [1, 1]
    assert all(agrees(steps, pipelined(trips), trips) is None for trips in range(1, 20))


def test_another_turn_for_one_trip_count_is_seen() -> None:
    steps = rolled(pipelined(8), pipelined(9), 9)
    assert steps is not None
    odd = pipelined(5)
    odd[3], odd[4] = odd[4], odd[3]
    assert agrees(steps, odd, 5) == 3


def test_turns_that_do_not_repeat_are_no_loop() -> None:
    assert rolled(pipelined(8), [*pipelined(8)[:3], *pipelined(10)[4:]], 9) is None


def test_steps_that_the_last_iteration_goes_without() -> None:
    """Nobody fills the last stage again, so it is not released."""

    def traced(trips: int) -> list[Sign]:
        return [one for one in pipelined(trips) if one != Sign(("release",), (RING,), (trips - 1,))]

    steps = rolled(traced(8), traced(9), 9)
    assert steps is not None
    assert [(step.sign.shape[0], step.guard.high) for step in steps.loop] == [
        ("load", 0),
        ("release", 1),
    ]
    assert all(agrees(steps, traced(trips), trips) is None for trips in range(1, 20))
    assert agrees(steps, pipelined(5), 5) is not None


DESCRIPTOR = 1 << 62 | 64 << 32 | 1 << 16
"""128-byte swizzle, groups of 8 rows 1024 bytes apart."""


def product(operands: tuple[Operand, ...], *trans: int) -> Instruction:
    literals = tuple(Immediate(value) for value in (1, 1, *trans))
    name = "mma_async", "sync", "aligned", "m64n128k16", "f32", "bf16", "bf16"
    return Instruction("wgmma", name, (Vector(()), *operands, Register("%p"), *literals), 7)


def test_a_product_reads_all_columns_of_an_operand_that_is_not_k_major() -> None:
    """The other half of 128 columns of 16 bits is its leading dimension's stride away."""
    one = product((Vector(()), Register("%b")), 1)
    apart = 1 << 62 | 64 << 32 | (16384 >> 4) << 16
    assert spans_of(one, None, apart | 1024 >> 4) == ((1024, 3072), (17408, 19456))


def test_a_product_reads_64_rows_of_a_and_n_of_b() -> None:
    one = product((Register("%a"), Register("%b")), 0, 0)
    (a, b) = spans_of(one, DESCRIPTOR | 1024 >> 4, DESCRIPTOR | 65536 >> 4)
    assert (a[0], b[0]) == (1024, 65536)
    assert 64 * 128 - 128 < a[1] - a[0] <= 64 * 128
    assert 128 * 128 - 128 < b[1] - b[0] <= 128 * 128


def loop(terms: Terms, condition: Term, *, update: Term | None = None) -> Loop:
    counter = terms.symbol("i")
    update = update or terms.sum(((counter, 1),), 1)
    carried = {counter: Carried("%r1", terms.const(0), update)}
    return Loop(terms.symbol("turns"), carried, (Exit(condition, ONE),), ONE)


def test_a_loop_of_four_at_a_time_has_residues_of_four() -> None:
    terms = Terms()
    trip, counter = terms.symbol("n"), terms.symbol("i")
    whole = terms.make("and", trip, terms.const(-4))
    condition = terms.compare("eq", terms.sum(((counter, 1),), 4), whole)
    found = Looker([trip], [3]).limits([(loop(terms, condition),)])
    assert found == Limits(12, 4)
    assert list(plan(found, tiled=False)) == [(trips,) for trips in range(1, 33)]


def test_a_product_with_the_trip_count_in_a_condition_is_refused() -> None:
    terms = Terms()
    trip, counter = terms.symbol("n"), terms.symbol("i")
    odd = terms.make("mulhi", trip, counter, 32)
    condition = terms.compare("eq", counter, odd)
    with pytest.raises(Refusal, match="mulhi"):
        Looker([trip], [3]).limits([(loop(terms, condition),)])


@pytest.mark.parametrize(("bound", "refused"), [(1 << 21, True), ((1 << 31) - 2, False)])
def test_another_behavior_from_a_large_trip_count_on_is_refused(bound: int, refused: bool) -> None:
    """No number of executions would come to it; the end of 32 bits is never reached."""
    terms = Terms()
    trip, counter = terms.symbol("n"), terms.symbol("i")
    early = terms.compare("lt", trip, terms.const(bound))
    condition = terms.make("and?", early, terms.compare("eq", counter, trip))
    looker = Looker([trip], [3])
    if refused:
        with pytest.raises(Refusal, match=f"compared with {bound}"):
            looker.limits([(loop(terms, condition),)])
    else:
        assert looker.limits([(loop(terms, condition),)])


def test_a_slot_that_decides_is_refused() -> None:
    terms = Terms()
    slot = terms.symbol("i")
    wraps = terms.compare("eq", slot, terms.const(2))
    update = terms.select(wraps, terms.const(0), terms.sum(((slot, 1),), 1))
    with pytest.raises(Refusal, match="a slot or phase decides"):
        Looker([terms.symbol("n")], [3]).limits([(loop(terms, wraps, update=update),)])


def test_what_depends_on_data_is_worth_nothing() -> None:
    terms = Terms()
    data = terms.make("loaded?", terms.symbol("parameter 3"), 0)
    worths = Worths(terms.symbol("%tid.x"), 0, terms.symbol("shared"))
    assert worths.of(terms.sum(((data, 1),), 1)) is None
    assert (
        worths.of(terms.select(terms.compare("eq", data, terms.const(0)), terms.const(4), data))
        is None
    )
    both = terms.make("and?", terms.compare("eq", data, terms.const(0)), terms.const(0))
    assert worths.of(both) == 0


def lengths(terms: Terms) -> tuple[Term, Term, list[Term]]:
    """A trip count, where it is divided, and what conditions of two loops depend on."""
    keys, rows = (terms.make("loaded?", terms.symbol(f"parameter {n}"), 0) for n in (0, 1))
    ends = (terms.make("sar", one, 7) for one in (keys, terms.sum(((keys, 1), (rows, -1)), 0)))
    trip = terms.extreme("min", *ends)
    behind = terms.sum(((keys, 1), (rows, -1)), -128)
    place = terms.extreme("max", terms.make("sar", behind, 7), terms.const(0))
    both = terms.extreme("min", terms.sum(((trip, 1),), -1), place)
    return trip, place, [terms.sum(((trip, 1), (place, -1)), 0), both, trip]


def is_no_number(term: Term) -> bool:
    return term.number is None


def test_the_fewest_terms_that_conditions_depend_on_are_found() -> None:
    trip, place, asked = lengths(Terms())
    assert cut(asked, is_no_number, is_no_number) == (trip, place)
    assert least(place) == 0
    assert least(trip) is None


def test_three_places_are_too_many() -> None:
    terms = Terms()
    asked = [terms.make("loaded?", terms.symbol(f"parameter {n}"), 0) for n in range(3)]
    assert cut(asked, is_no_number, is_no_number) is None


def test_a_condition_on_data_itself_has_no_cut() -> None:
    _, _, asked = lengths(Terms())
    assert cut(asked, lambda _: False, is_no_number) is None


def test_divided_loops_are_compared_with_all_places() -> None:
    found = Limits(4, 2, parts=2)
    assert (found.trips, found.beyond) == (20, 6)
    cases = list(divided(found, [0], tiled=False))
    assert cases[0] == ((1,), (0,))
    assert cases[-1] == ((20,), (26,))
    assert ((3,), (9,)) in cases
    assert ((1,), (-6,)) in list(divided(found, [None], tiled=False))


def test_a_multiple_of_a_turn_is_compared_only_where_nothing_is_divided() -> None:
    terms = Terms()
    trip, place = terms.symbol("n"), terms.symbol("m")
    condition = terms.compare("lt", terms.sum(((terms.symbol("i"), 2),), 1), trip)
    assert Looker([trip], [3]).limits([(loop(terms, condition),)])
    with pytest.raises(Refusal, match="multiple of a turn"):
        Looker([trip], [3], [place]).limits([(loop(terms, condition),)])
