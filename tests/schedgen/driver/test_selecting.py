"""Which attempts are made at a kernel, with a compiler that is told what it makes of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from schedgen import read_machine, read_spec
from schedgen.codegen.errors import EmitError
from schedgen.codegen.facts import RoleFacts
from schedgen.codegen.style import PLAIN, Style
from schedgen.conform.overlap import Overlap
from schedgen.driver import refusing, selecting
from schedgen.driver.attempts import Attempt
from schedgen.driver.emitting import Emission
from schedgen.driver.found import Infeasible
from schedgen.driver.variations import STEP, Variation
from tests.schedgen.driver.test_attempts import GOOD, SPILLS, attempt, overlap

BLOCKS = Style(blocks=True)


def emitted(text: str, style: Style = PLAIN) -> Emission:
    even = SimpleNamespace(kernel=SimpleNamespace(tile_range=(), walk=None))
    program = SimpleNamespace(roles=(), ii_cycles=1000)
    nothing: Any = SimpleNamespace(program=program, problem=even)
    return Emission("x.py", text, text, nothing, nothing, nothing, style)


class Driver:
    """Outcomes of attempts, one after the other; which were asked for."""

    def __init__(self, patch: pytest.MonkeyPatch, outcomes: Sequence[Attempt]) -> None:
        self.outcomes, self.asked = list(outcomes), list[Variation]()
        patch.setattr(selecting, "compiled", self.compiled)
        patch.setattr(selecting, "emission", self.emission)
        patch.setattr(selecting, "written", self.written)
        patch.setattr(selecting, "restyled", self.restyled)
        self.same = False

    def emission(self, spec: object, machine: Any, *_: object, **__: object) -> Emission:
        del spec
        return emitted(f"{machine.role['vector'].registers}")

    def written(self, *_: object, **__: object) -> Emission:
        return emitted("early")

    def restyled(self, one: Emission, style: Style, **_: object) -> Emission:
        words = f" with {', '.join(style.words)}" if style.words else ""
        return one if self.same else emitted(f"{one.text.split(' with')[0]}{words}", style)

    def compiled(self, made: Emission, variation: Variation, *_: object, **__: object) -> Attempt:
        self.asked.append(variation)
        found = self.outcomes.pop(0)
        return replace(found, variation=variation)

    def run(self) -> tuple[Emission, tuple[Attempt, ...]]:
        spec, machine = read_spec("gemm_chain"), read_machine("h200")
        return selecting.compiled_emission(spec, machine, {})


def test_taken_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch, [attempt(overlap(100, 2))])
    made, (only,) = driver.run()
    assert only.chosen
    assert made.style == PLAIN


def test_another_way_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is not tried."""
    driver = Driver(monkeypatch, [attempt(overlap(100, 50)), attempt(overlap(100, 0))])
    made, attempts = driver.run()
    assert driver.asked == [Variation(), Variation(style=BLOCKS)]
    assert [one.chosen for one in attempts] == [False, True]
    assert made.style == BLOCKS


def timed(cycles: float | None) -> Attempt:
    return replace(attempt(overlap(100, 2)), cycles=cycles)


@pytest.mark.parametrize(
    ("cycles", "asked", "taken"),
    [
        ([None], [()], ()),
        ([1030], [()], ()),  # in time
        ([1200, 1100], [(), ("prompt",)], ("prompt",)),
        ([1200, 1250], [(), ("prompt",)], ()),
        ([1200, 1195], [(), ("prompt",)], ()),  # as good as the first
    ],
)
def test_ways_that_only_machine_code_tells(
    monkeypatch: pytest.MonkeyPatch,
    cycles: list[float | None],
    asked: list[tuple[str, ...]],
    taken: tuple[str, ...],
) -> None:
    """Waits are written in another way if iterations take longer than the schedule."""
    driver = Driver(monkeypatch, [timed(one) for one in cycles])
    made, attempts = driver.run()
    assert [one.style.words for one in driver.asked] == asked
    assert made.style.words == taken
    assert [one.chosen for one in attempts].count(True) == 1


def test_without_products_machine_code_says_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = replace(attempt(Overlap(())), cycles=1200.0)
    driver = Driver(monkeypatch, [nothing])
    driver.run()
    assert len(driver.asked) == 1


def test_a_style_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch, [timed(1200)])
    spec, machine = read_spec("gemm_chain"), read_machine("h200")
    made, _ = selecting.compiled_emission(spec, machine, {}, style=PLAIN)
    assert (made.style, len(driver.asked)) == (PLAIN, 1)


def test_all_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three further attempts, and the best of all four."""
    lost = [attempt(overlap(100, each)) for each in (50, 60, 40, 70)]
    driver = Driver(monkeypatch, lost)
    made, attempts = driver.run()
    assert [one.early for one in driver.asked] == [False, False, True, True]
    assert [one.chosen for one in attempts] == [False, False, True, False]
    assert made.text == "early"


def test_what_plans_less_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does it end the search."""
    outcomes = [overlap(100, 50), overlap(10, 0), overlap(20, 0), overlap(100, 30)]
    driver = Driver(monkeypatch, [attempt(one) for one in outcomes])
    assert [one.chosen for one in driver.run()[1]] == [False, False, False, True]


def test_no_text_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch, [attempt(overlap(100, 50)), attempt(overlap(100, 60))])
    driver.same = True
    assert [one.chosen for one in driver.run()[1]] == [True, False]
    assert driver.asked == [Variation(), Variation(early=True)]


def test_more_registers_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schedule that is acceptable is the one that is written in other ways."""
    outcomes = [SPILLS, attempt(overlap(100, 90)), attempt(overlap(100, 0))]
    driver = Driver(monkeypatch, outcomes)
    assert driver.run()[1][-1].chosen
    assert driver.asked == [Variation(), Variation(16), Variation(16, style=BLOCKS)]


def test_single_warps_that_spill_get_more_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to `MOST_NARROW`; then there is more beside tiles."""
    roles = (RoleFacts("r", 4, 100), RoleFacts("issue", 1, 30))
    facts = replace(SPILLS.report.facts, roles=roles)
    narrow = replace(SPILLS.report, facts=facts, spilling=frozenset({32}))
    assert narrow.narrow_spills
    spills = replace(SPILLS, report=narrow)
    driver = Driver(monkeypatch, [spills, spills, attempt(overlap(100, 0))])
    assert driver.run()[1][-1].chosen
    assert driver.asked == [Variation(), Variation(0, 16), Variation(0, 32)]
    driver = Driver(monkeypatch, [*[spills] * 5, attempt(overlap(100, 0))])
    assert driver.run()[1][-1].chosen
    assert driver.asked[3:] == [Variation(0, 48), Variation(16, 48), Variation(32, 48)]


def test_the_first_schedule_in_other_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all of them spill."""
    driver = Driver(monkeypatch, [*[SPILLS] * 5, attempt(overlap(100, 0))])
    made, attempts = driver.run()
    assert driver.asked[selecting.ROUNDS :] == [Variation(style=BLOCKS), Variation(early=True)]
    assert attempts[-1].chosen
    assert made.text == "early"


def test_nothing_is_acceptable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bounded number of attempts; what they lack is said of each."""
    driver = Driver(monkeypatch, [SPILLS] * (7 + selecting.ROUNDS))

    def held(_: object) -> str:
        return "use less"

    monkeypatch.setattr(refusing, "_held", held)
    with pytest.raises(EmitError, match=r"8 bytes .* with 16 more.*with blocks(?s:.*)use less"):
        driver.run()
    assert not driver.outcomes
    driver = Driver(monkeypatch, [SPILLS] * 7)
    spec, machine = read_spec("gemm_chain"), read_machine("h200")
    with pytest.raises(EmitError, match="use less"):  # of a style that was asked for
        selecting.compiled_emission(spec, machine, {}, style=PLAIN)


def test_an_assembler_that_moves_less(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nothing else suffices, of schedules in their order."""
    driver = Driver(monkeypatch, [*[SPILLS] * 8, attempt(overlap(100, 0))])
    made, attempts = driver.run()
    first = Style(o1=True)
    assert driver.asked[7:] == [Variation(style=first), Variation(STEP, style=first)]
    assert attempts[-1].chosen
    assert made.style == first


def test_another_program_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """If it is the first one; of other ways it is not taken."""
    differs = Attempt(Variation(), GOOD, overlap(100, 0), ("line 1: another",))
    with pytest.raises(EmitError, match="not its program"):
        Driver(monkeypatch, [differs]).run()
    driver = Driver(monkeypatch, [attempt(overlap(100, 50)), differs, differs, differs])
    assert [one.chosen for one in driver.run()[1]] == [True, False, False, False]


def test_long_loops_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where equal roles have more instructions than caches hold; what has the fewest is taken."""
    driver = Driver(monkeypatch, [attempt(overlap(100, 0, 1200)), attempt(overlap(100, 0, 600))])
    made, found = driver.run()
    assert [one.style.words for one in driver.asked] == [(), ("shared",)]
    assert (made.style.words, found[1].chosen) == (("shared",), True)
    driver = Driver(monkeypatch, [attempt(overlap(100, 0, 1200)), SPILLS])
    assert driver.run()[0].style == PLAIN
    driver = Driver(monkeypatch, [attempt(overlap(100, 0, 1000))])
    assert len(driver.run()[1]) == 1
    driver = Driver(monkeypatch, [attempt(overlap(100, 0, 1200))])
    driver.same = True  # no roles are equal
    assert len(driver.run()[1]) == 1


def test_half_a_step_where_there_are_no_more_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = Driver(monkeypatch, [SPILLS, attempt(overlap(100, 0))])
    made = driver.emission

    def emission(spec: object, machine: Any, *_: object, **__: object) -> Emission:
        if machine.role["vector"].registers > 24 + STEP // 2:
            raise Infeasible("there is no room")
        return made(spec, machine)

    monkeypatch.setattr(selecting, "emission", emission)
    assert driver.run()[1][-1].chosen
    assert driver.asked == [Variation(), Variation(STEP // 2)]
