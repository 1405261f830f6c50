"""Running numbers in generated files: divided by slots, or carried from turn to turn."""

from __future__ import annotations

import pytest

from schedgen.codegen.ir import Phase, Stage, code
from schedgen.codegen.library import COMMON
from schedgen.codegen.lowering import advance, begin
from schedgen.codegen.names import plain
from schedgen.codegen.printing import expression
from schedgen.codegen.running import Carried, Iteration, PipelineState, Running, states_of, steady
from schedgen.program.operations import Number
from tests.codegen.dsl import library, run, value


def carried(*numbers: Running) -> dict[Carried, PipelineState]:
    found = states_of(numbers, lambda state, name: plain(name))
    return {state.carried: state for state in found}


def both(number: Running, states: dict[Carried, PipelineState]) -> list[str]:
    """Slot and phase as text."""
    return [expression(code("{}", kind(number)), states) for kind in (Stage, Phase)]


def turn(number: Number, slots: int, shift: int = 0, *of: str) -> Running:
    return Running(number, slots, Iteration("turn", -shift), of)


@pytest.mark.parametrize("offset", [-5, -1, 0, 3])
@pytest.mark.parametrize("slots", [1, 2, 3])
@pytest.mark.parametrize("scale", [1, 2])
def test_number(offset: int, slots: int, scale: int) -> None:
    """Never negative, in the same slot, in a phase of the same parity."""
    text = turn(Number(scale, offset), slots).text
    for first in range(6):
        found = value(text, {"first": first, "turn": 1})
        wanted = scale * (first + 1) + offset
        assert found >= 0
        assert (found - wanted) % (2 * slots) == 0


def test_number_of_a_tile() -> None:
    assert Running(Number(1, 2, per_tile=True), 3, None).text == "t + 2"
    found = turn(Number(2, 1, per_tile=True), 3)
    assert both(found, carried(found)) == ["slot(2 * t + 1, 3)", "phase(2 * t + 1, 3)"]


def test_number_of_an_iteration_outside_of_the_loop() -> None:
    with pytest.raises(ValueError, match=r"number 2c\+1 has no iteration here"):
        _ = Running(Number(2, 1), 3, None).text


@pytest.mark.parametrize("offset", [-4, -1, 0, 1, 5])
@pytest.mark.parametrize("slots", [1, 2, 3, 5])
@pytest.mark.parametrize("scale", [1, 2, 3])
@pytest.mark.parametrize("shift", [0, 1, 2])
def test_loop(offset: int, slots: int, scale: int, shift: int) -> None:
    """In each turn the slot and the parity of the number, whatever came before the loop."""
    number = turn(Number(scale, offset), slots, shift)
    rings = carried(number)
    texts = both(number, rings)
    assert len(rings) == (1 < slots >= scale)
    for first in range(4):
        scope = library(COMMON) | {"first": first}
        for state in rings.values():
            scope = run(expression(begin(state, shift)), scope)
        for now in range(shift, shift + 2 * slots + 3):
            wanted = scale * (first + now - shift) + offset
            found = [value(text, scope | {"turn": now}) for text in texts]
            assert found == [wanted % slots, wanted // slots % 2]
            for state in rings.values():
                scope = run(expression(advance(state)), scope)


def test_one_pair_for_a_ring() -> None:
    """A turn of the ring later the slot is the same, and the phase the other one."""
    one, later = turn(Number(), 3, 0, "kv"), turn(Number(1, 3), 3, 0, "kv")
    states = carried(one, later)
    assert len(states) == 1
    assert both(one, states) == ["kv_stage", "kv_phase"]
    assert both(later, states) == ["kv_stage", "1 - kv_phase"]
    [state] = carried(turn(Number(2, -5), 3, 0, "kv")).values()
    assert expression(begin(state, 0)) == (
        "kv_stage_next, kv_phase_next = slot(2 * first + 1, 3), phase(2 * first + 1, 3)"
    )
    later = " = slot(2 * first + 5, 3), phase(2 * first + 5, 3)"
    assert expression(begin(state, 2)).endswith(later)
    assert expression(advance(state)) == (
        "kv_stage_next, kv_phase_next = advance(kv_stage_next, kv_phase_next, 3, 2)"
    )


@pytest.mark.parametrize(
    ("ahead", "slots", "wanted"),
    [
        (0, 2, "kv_stage"),
        (1, 2, "kv_stage_next"),
        (2, 3, "kv_stage_before"),
        (2, 6, "kv_stage_next_2"),
        (4, 6, "kv_stage_before_2"),
    ],
)
def test_names_say_which_number(ahead: int, slots: int, wanted: str) -> None:
    [state] = carried(turn(Number(1, ahead), slots, 0, "kv")).values()
    assert state.stage == wanted


def test_names_of_what_rings_share() -> None:
    """Two stores give theirs; more have only their slots in common."""
    rings = [turn(Number(), 4, 0, allocation) for allocation in ("sB", "sA", "sC")]
    assert next(iter(carried(*rings[:2]).values())).stage == "sA_sB_stage"
    assert next(iter(carried(*rings).values())).phase == "ring_of_4_phase"


def test_what_is_not_carried() -> None:
    """Numbers at the ends of the loop, and what has a single slot."""
    assert steady(Running(Number(), 3, Iteration("trips", -1))) is None
    assert steady(Running(Number(), 3, Iteration("", 0))) is None
    assert steady(turn(Number(), 1)) is None
    number = turn(Number(1, 1), 3)
    assert both(number, {}) == ["slot(first + turn + 1, 3)", "phase(first + turn + 1, 3)"]
