"""Unordered writes that leave the same bytes: S30."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from schedgen.emulator.machine.policies import Policy, RoundRobin, Seeded
from schedgen.emulator.machine.switches import Verdict
from schedgen.emulator.order.checker import Checker
from schedgen.emulator.order.findings import Race
from tests.emulator.machine.running import run
from tests.emulator.order.kernel import Kernel

WORD = (512, 4)
FIRST, SECOND = (512, 64), (480, 64)
"""Writes of which the second one begins before the first one and ends inside of it."""
BEYOND = range(480, 512)


@pytest.mark.parametrize("verdict", [Verdict.WARNING, Verdict.ERROR, Verdict.OFF])
def test_s29_writes_of_the_same_bytes(verdict: Verdict) -> None:
    k = Kernel(same_value=verdict)
    k.write(3, WORD)
    k.write(4, WORD, same=True)
    k.write(5, WORD, same=True)
    k.sync(3, 4, 5)
    k.read(5, WORD)
    if verdict is Verdict.OFF:
        assert k.clean()
        return
    races = k.races()
    assert {(race.severity.value, race.switch) for race in races} == {
        (verdict.value, "S30 same_value")
    }
    assert {(race.earlier.warp, race.later.warp) for race in races} == {(3, 4), (4, 5)}


def test_s29_is_not_about_other_accesses() -> None:
    k = Kernel()
    k.write(3, WORD)
    k.read(4, WORD)
    k.write(4, WORD, same=True)
    assert [race.severity.value for race in k.races()] == ["error", "warning"]


def test_s29_both_writes_count_for_what_follows() -> None:
    k = Kernel(same_value=Verdict.OFF)
    k.write(3, WORD)
    k.write(4, WORD, same=True)
    k.sync(4, 5)
    k.write(5, WORD)
    assert [(race.earlier.warp, race.later.warp) for race in k.races()] == [(3, 5)]
    k = Kernel(same_value=Verdict.OFF)
    k.write(3, WORD)
    k.write(4, WORD, same=True)
    k.sync(3, 5)
    k.write(5, WORD)
    assert [(race.earlier.warp, race.later.warp) for race in k.races()] == [(4, 5)]


@pytest.mark.parametrize("verdict", [Verdict.WARNING, Verdict.ERROR, Verdict.OFF])
def test_s30_same_bytes_where_both_write(verdict: Verdict) -> None:
    k = Kernel(same_value=verdict)
    k.write(3, FIRST)
    k.write(4, SECOND, changed=BEYOND)
    if verdict is Verdict.OFF:
        assert k.clean()
        return
    race = k.race()
    assert (race.severity.value, race.switch) == (verdict.value, "S30 same_value")
    assert (race.low, race.high, race.cells) == (512, 543, 32)


@pytest.mark.parametrize("verdict", [Verdict.WARNING, Verdict.OFF])
def test_s30_one_byte_differs_where_both_write(verdict: Verdict) -> None:
    k = Kernel(same_value=verdict)
    k.write(3, FIRST)
    k.write(4, SECOND, changed=[*BEYOND, 517])
    race = k.race()
    assert (race.severity.value, race.switch) == ("error", None)


def test_s30_an_error_behind_many_warnings_of_the_same_lines() -> None:
    k = Kernel()
    for at in range(1024, 1024 + 128 * 40, 128):
        k.write(3, (at, 64), line=5)
        k.write(4, (at + 32, 64), changed=range(at + 64, at + 96), line=6)
    assert {race.severity.value for race in k.races()} == {"warning"}
    k.write(3, FIRST, line=5)
    k.write(4, SECOND, changed=[*BEYOND, 517], line=6)
    assert [race.severity.value for race in k.races()] == ["warning", "error"]


def test_s30_what_a_write_in_part_leaves() -> None:
    """Beside the first write where both leave the same, in place of what was there elsewhere."""
    for follows, changed, raced in (
        ((512, 4), BEYOND, [3]),
        ((540, 8), BEYOND, [3]),
        ((480, 4), BEYOND, []),
        ((516, 4), [*BEYOND, *range(516, 520)], []),
    ):
        k = Kernel(same_value=Verdict.OFF)
        k.write(2, (448, 256))
        k.sync(2, 3, 4)
        k.write(3, FIRST)
        k.write(4, SECOND, changed=changed)
        before = len(k.races())
        k.sync(4, 5)
        k.write(5, follows)
        assert [race.earlier.warp for race in k.races()[before:]] == raced
    k = Kernel(same_value=Verdict.OFF)
    k.write(3, FIRST)
    k.write(4, SECOND, changed=BEYOND)
    k.sync(3, 5)
    k.read(5, (520, 4))
    assert [race.earlier.warp for race in k.races()] == [4]


def test_s30_what_differs_in_one_byte_is_no_write_of_the_same_in_the_others() -> None:
    k = Kernel()
    k.write(3, WORD)
    k.write(4, WORD, changed=[512])
    k.write(5, WORD, same=True)
    assert [(race.earlier.warp, race.later.warp, race.severity.value) for race in k.races()] == [
        (3, 4, "error"), (4, 5, "warning"),
    ]  # fmt: skip


SHIFT = """mov.u32 %r1, sm; shr.u32 %r2, %r39, 5; shl.b32 %r2, %r2, 6; and.b32 %r3, %r39, 31;
shl.b32 %r3, %r3, 2; sub.s32 %r2, %r3, %r2; add.s32 %r2, %r2, 64; add.s32 %r3, %r1, %r2;
cvt.u64.u32 %rd1, %r2; add.s64 %rd1, %rd38, %rd1;"""
"""Warp 1 begins 64 bytes before warp 0: %r3 and %rd1 are addresses, %r2 the place of both."""
SPACES = {"shared": "[%r3]", "global": "[%rd1]"}


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("policy", [RoundRobin, lambda: Seeded(1), lambda: Seeded(2)])
@pytest.mark.parametrize("differs", ["", "another place", "the same place"])
def test_s30_executed(space: str, policy: Callable[[], Policy], differs: str) -> None:
    # Thread 4 of warp 0 writes where thread 20 of warp 1 does; thread 20 of warp 0 is alone.
    one = {"": 64, "another place": 20, "the same place": 4}[differs]
    value = f"setp.eq.u32 %p1, %r39, {one}; selp.b32 %r5, 1, 7, %p1; add.s32 %r4, %r2, %r5;"
    text = f"{SHIFT} {value} st.{space}.b32 {SPACES[space]}, %r4;"
    wanted = "error" if differs == "the same place" else "warning"
    assert _severities(text, policy()) == [wanted]


def test_s30_bytes_of_an_element() -> None:
    """The second write changes one half of a word, and the first one wrote the other half."""
    text = """mov.u32 %r3, sm; setp.lt.u32 %p1, %r39, 32; @%p1 bra HALF; nanosleep.u32 1;
        mov.u32 %r4, {word}; st.shared.b32 [%r3], %r4; bra END;
        HALF: mov.u16 %rs1, 5; st.shared.b16 [%r3], %rs1; END:"""
    assert _severities(text.format(word="0x70005"), RoundRobin()) == ["warning"]
    assert _severities(text.format(word="0x70006"), RoundRobin()) == ["error"]


def _severities(text: str, policy: Policy) -> list[str]:
    checker = Checker(2)
    run(f"{text} mov.u32 %r7, 0;", threads=64, elements=64, policy=policy, tracker=checker)
    print(checker.report())
    return [one.severity.value for one in checker.findings if isinstance(one, Race)]
