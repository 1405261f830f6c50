"""What waits and barriers tell, and whether anything needs it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.emulator.mutants.campaigns import benchmark, campaign, line

START = "@!%p1 mbarrier.init.shared.b64 [bar], 64;\nbar.sync 0;"
WRITE, READ = "st.shared.b32 [%r3], %r1;", "ld.shared.b32 %r7, [%r6];"
ARRIVE = "mbarrier.arrive.shared.b64 _, [bar];"
WAIT = """W:
mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;
@!%p3 bra W;"""
EXCHANGE = f"{START}\n{WRITE}\n{ARRIVE}\n{WAIT}\n{READ}"


def why(text: str, *lines: int, absent: bool = True) -> str:
    deaf, one = benchmark("emulated_mutants.deaf"), campaign(text)
    found = deaf.Deaf(frozenset(lines), absent)
    return deaf.superfluous_order(one, one.kernels[0], found, [0], (0, 1, 2))


def test_a_wait_that_is_needed() -> None:
    assert why(EXCHANGE) != ""
    assert why(EXCHANGE, line(EXCHANGE, "try_wait")) == ""


def test_a_wait_whose_news_somebody_else_tells() -> None:
    text = EXCHANGE.replace(READ, f"bar.sync 0;\n{READ}")
    other = line(text, "bar.sync", 1)
    assert f"line {other} tells it" in why(text, line(text, "try_wait"))
    assert why(text, line(text, "try_wait"), other) == ""


def test_a_wait_whose_news_nobody_uses() -> None:
    text = EXCHANGE.replace(READ, "mov.b32 %r7, 0;")
    assert "nobody uses it" in why(text, line(text, "try_wait"))


def test_the_first_of_two_barriers() -> None:
    text = f"{WRITE}\nbar.sync 0;\nmov.b32 %r7, 0;\nbar.sync 0;\n{READ}"
    first, second = line(text, "bar.sync"), line(text, "bar.sync", 1)
    assert f"line {second} tells it" in why(text, first)
    assert why(text, first, second) == ""


@pytest.mark.parametrize(
    ("second", "found"), [("bar.sync 1, 64;", False), ("bar.sync 2, 64;", True)]
)
def test_arriving_twice_at_a_barrier(second: str, found: bool) -> None:
    """Whoever does not wait at the first one could be counted twice at the same barrier."""
    text = f"{WRITE}\nbar.sync 1, 64;\nmov.b32 %r7, 0;\n{second}\n{READ}"
    assert bool(why(text, line(text, "bar.sync 1"), absent=False)) == found


@pytest.mark.parametrize(("between", "found"), [("", False), ("bar.sync 0;", True)])
def test_barriers_at_which_others_meet(between: str, found: bool) -> None:
    """Warps that meet at the same barrier one after the other must not be able to meet at once,
    when the barrier that told the second ones of the first is gone."""
    alone = "bar.sync 1, 32;"
    text = (
        f"{WRITE}\nbar.sync 0;\n@%p2 bra ONE;\n{alone}\nONE:\n{between}\nbar.sync 1, 64;\n"
        f"@!%p2 bra TWO;\n{alone}\nTWO:\n{READ}"
    )
    assert bool(why(text, line(text, "bar.sync 1, 64"))) == found


def test_a_barrier_that_nobody_else_is_left_at() -> None:
    text = f"{WRITE}\nbar.sync 1, 64;\nbar.sync 0;\n{READ}\n@%p2 bra END;\nbar.sync 1, 32;\nEND:"
    assert why(text, line(text, "bar.sync 1")) != ""


# -- observe ---------------------------------------------------------------------------------------


def seen(*texts: str) -> Any:
    observe, one = benchmark("emulated_mutants.observe"), campaign(*texts)
    return observe.observed(one, one.kernels[0], range(len(texts)))


def test_waits_that_tell_something() -> None:
    waits = seen(EXCHANGE)
    at = line(EXCHANGE, "try_wait")
    assert waits.waits[at]
    assert at in waits.used


def test_waits_that_tell_what_is_known() -> None:
    text = EXCHANGE.replace(ARRIVE, f"{ARRIVE}\nbar.sync 0;")
    found = seen(text)
    assert found.waits[line(text, "try_wait")] is False
    assert found.waits[line(text, "bar.sync", 1)] is True


def test_waits_behind_which_nothing_is_done() -> None:
    text = f"{START}\n{ARRIVE}\n{WAIT}\nbar.sync 0;\n{READ}".replace(READ, "mov.b32 %r7, 0;")
    found = seen(text)
    assert line(text, "try_wait") not in found.used


def test_phases_that_nobody_waits_for() -> None:
    text = f"{EXCHANGE}\nbar.sync 0;\n{ARRIVE}"
    found = seen(text)
    first, last = (found.arrivals[line(text, "mbarrier.arrive", n)] for n in (0, 1))
    assert not found.unobserved(first)
    assert found.unobserved(last)


def test_launches_are_told_apart() -> None:
    """In each launch the second arrive is for a phase that nobody waits for, whatever phase the
    object had in another launch."""
    text = f"{EXCHANGE}\nbar.sync 0;\n{ARRIVE}"
    found = seen(text, text)
    assert found.unobserved(found.arrivals[line(text, "mbarrier.arrive", 1)])
    assert not found.unobserved(found.arrivals[line(text, "mbarrier.arrive", 0)])


def test_a_wait_behind_the_one_that_takes_its_place() -> None:
    observe, one = benchmark("emulated_mutants.observe"), campaign(EXCHANGE)
    mutant = next(m for m in one.mutants if m.operator == "M12 wait for the next barrier")
    both = observe.both(mutant)
    waits = [i for i in both.body if i.opcode == "mbarrier" and i.modifiers[0] == "try_wait"]
    at = line(EXCHANGE, "try_wait")
    assert [i.line for i in waits] == [at, at + observe.BEHIND]
    assert [i.operands[1].offset for i in waits] == [8, 0]


# -- settled ---------------------------------------------------------------------------------------

PEEK = """mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;
@%p3 bra DONE;
W:
mbarrier.try_wait.parity.shared.b64 %p3, [bar], 0;
@!%p3 bra W;
DONE:"""


@pytest.mark.parametrize(("between", "found"), [("bar.sync 0;", True), ("mov.b32 %r7, 0;", False)])
def test_a_test_that_always_finds_its_phase_complete(between: str, found: bool) -> None:
    """Behind a barrier at which all warps meet after they arrived; or at any time."""
    text = f"{START}\n{ARRIVE}\n{between}\n{PEEK}"
    one = campaign(text)
    flipped = next(m for m in one.mutants if m.operator == "M10 parity flipped")
    assert flipped.instruction.line == line(text, "try_wait")
    assert bool(benchmark("emulated_mutants.settled").settled(one, flipped, [0])) == found


def test_a_test_of_a_phase_that_never_completes() -> None:
    """Nobody arrives before it, so that the phase before the first one is what it finds."""
    text = f"{START}\n{PEEK.replace('[bar], 0', '[bar], 1')}\n{ARRIVE}"
    one = campaign(text)
    flipped = next(m for m in one.mutants if m.operator == "M10 parity flipped")
    assert benchmark("emulated_mutants.settled").settled(one, flipped, [0])


TWO = """@!%p1 mbarrier.init.shared.b64 [bar], 64;
@!%p1 mbarrier.init.shared.b64 [bar+8], 64;
bar.sync 0;"""


@pytest.mark.parametrize(
    ("first", "found"),
    [
        ("mbarrier.arrive.shared.b64 _, [bar+8];", True),  # completes together with the other one
        ("mov.b32 %r7, 0;", False),  # never completes
    ],
)
def test_a_wait_for_the_next_mbarrier(first: str, found: bool) -> None:
    text = f"{TWO}\n{WRITE}\n{first}\n{ARRIVE}\n{WAIT}\n{READ}"
    one = campaign(text)
    other = next(m for m in one.mutants if m.operator == "M12 wait for the next barrier")
    assert bool(benchmark("emulated_mutants.settled").same_phases(one, other, [0])) == found


def test_a_wait_for_the_next_mbarrier_that_may_find_another_phase() -> None:
    """The next one is used on and on by warp 1, and warp 0 finds what it has come to."""
    again = "mbarrier.arrive.shared.b64 _, [bar+8];"
    text = f"""{TWO.replace("[bar+8], 64", "[bar+8], 32")}
@%p2 bra OTHER;
{WAIT}
bra END;
OTHER:
{again}
V:
mbarrier.try_wait.parity.shared.b64 %p3, [bar+8], 0;
@!%p3 bra V;
{again}
X:
mbarrier.try_wait.parity.shared.b64 %p3, [bar+8], 1;
@!%p3 bra X;
{again}
END:
{ARRIVE}"""
    one = campaign(text)
    other = next(m for m in one.mutants if m.operator == "M12 wait for the next barrier")
    assert not benchmark("emulated_mutants.settled").same_phases(one, other, [0])


TURNS = """@%p2 bra ONE;
bar.sync 2, 64;
bar.arrive 3, 64;
bra END;
ONE:
bar.arrive 2, 64;
bar.sync 3, 64;
bar.arrive 2, 64;
END:
"""
"""Warp 0 goes first, since warp 1 arrives for it before its own turn."""


def reasons(text: str) -> dict[tuple[str, int], str]:
    """By operator and line, why mutants that nothing shows are equivalent."""
    one = campaign(text)
    found = benchmark("emulated_mutants.why")._Reasons(one, [])
    return {
        (m.operator, m.instruction.line): found.reason(m)
        for m in one.mutants[1:]
        if one.end(m).end == "undetected"
    }


def test_turns_that_nothing_needs() -> None:
    kick = line(TURNS, "bar.arrive 2")
    assert "only who goes first" in reasons(TURNS)["M12 other barrier", kick]
    needed = TURNS.replace("bar.arrive 3", f"{WRITE}\nbar.arrive 3")
    needed = needed.replace("bar.sync 3, 64;", f"bar.sync 3, 64;\n{READ}")
    kick = line(needed, "bar.arrive 2")
    assert not reasons(needed).get(("M12 other barrier", kick))


def test_a_barrier_at_which_nobody_else_waits() -> None:
    """Who meets whom there makes no difference when the wait is gone, however often they arrive."""
    text = "bar.sync 1, 64;\n@!%p2 bar.arrive 1, 64;\n@%p2 bar.arrive 1, 64;\nbar.sync 0;"
    assert why(text, line(text, "bar.sync 1"))
    again = text.replace("bar.sync 0;", "bar.sync 1, 64;")
    assert not why(again, line(again, "bar.sync 1"))
