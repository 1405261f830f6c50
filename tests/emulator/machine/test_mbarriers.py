"""The mbarrier object: rules B1 to B15."""

from __future__ import annotations

import pytest

from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.policies import Adversarial, Seeded
from schedgen.emulator.machine.switches import Switches, Verdict
from tests.emulator.machine.running import run, store

WARP = "shr.u32 %r30, %r39, 5; setp.eq.s32 %p10, %r30, 0; elect.sync %r29|%p11, -1;"
"""%p10: warp 0; %p11: one lane of each warp."""


def init(count: int, offset: int = 0) -> str:
    """Text that initializes an mbarrier in sm, in one thread, and lets all see it."""
    return f"""{WARP}
        setp.eq.s32 %p12, %r39, 0;
        mov.b32 %r20, sm;
        @%p12 mbarrier.init.shared.b64 [%r20+{offset}], {count};
        bar.sync 0;
    """


def wait(parity: str, offset: int = 0) -> str:
    """A wait as CuTe DSL writes it."""
    return f"""{{
        .reg .pred P1;
        LAB_WAIT: mbarrier.try_wait.parity.shared.b64 P1, [%r20+{offset}], {parity}, 10000000;
        @P1 bra.uni DONE;
        bra.uni LAB_WAIT;
        DONE: }}"""


PING_PONG = f"""
    {WARP}
    mov.b32 %r20, sm;
    setp.eq.s32 %p12, %r39, 0;
    @%p12 mbarrier.init.shared.b64 [%r20], 1;
    @%p12 mbarrier.init.shared.b64 [%r20+8], 32;
    bar.sync 0;
    mov.b32 %r1, 0; mov.b32 %r2, 0; mov.b32 %r3, 0;
    LOOP:
    and.b32 %r4, %r1, 1; xor.b32 %r5, %r4, 1;
    @!%p10 bra CONSUME;
    {wait("%r5", 8)}
    @%p11 st.shared.b32 [%r20+16], %r1;
    @%p11 mbarrier.arrive.shared.b64 %rd1, [%r20];
    bra NEXT;
    CONSUME:
    {wait("%r4")}
    ld.shared.b32 %r6, [%r20+16];
    mad.lo.s32 %r2, %r2, 3, %r6;
    mbarrier.arrive.shared.b64 _, [%r20+8];
    NEXT:
    add.s32 %r1, %r1, 1;
    setp.lt.s32 %p1, %r1, 10;
    @%p1 bra LOOP;
    {store("%r2")}
"""


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_producer_and_consumer_hand_a_slot_back_and_forth(seed: int | None) -> None:
    expected = 0
    for value in range(10):
        expected = expected * 3 + value
    policies = [None] if seed is None else [Seeded(seed), Adversarial(seed)]
    for policy in policies:
        outcome = run(PING_PONG, threads=64, policy=policy)
        assert outcome.out.tolist() == [0] * 32 + [expected] * 32


def test_a_phase_needs_its_arrivals_and_its_bytes() -> None:
    """complete_tx before expect_tx makes the count negative; arrivals keep the phase open (B5)."""
    outcome = run(f"""{init(2)}
        @%p11 mbarrier.complete_tx.shared.b64 [%r20], 64;
        @%p11 mbarrier.arrive.shared.b64 %rd1, [%r20];
        mbarrier.test_wait.parity.shared.b64 %p1, [%r20], 0;
        @%p11 mbarrier.arrive.expect_tx.shared.b64 %rd1, [%r20], 96;
        mbarrier.test_wait.parity.shared.b64 %p2, [%r20], 0;
        @%p11 mbarrier.complete_tx.shared.b64 [%r20], 32;
        mbarrier.test_wait.parity.shared.b64 %p3, [%r20], 0;
        selp.b32 %r1, 100, 0, %p1; selp.b32 %r2, 10, 0, %p2; selp.b32 %r3, 1, 0, %p3;
        add.s32 %r1, %r1, %r2; add.s32 %r1, %r1, %r3; {store("%r1")}""")
    assert set(outcome.out.tolist()) == {1}


def test_state_of_an_arrive_is_waited_for() -> None:
    outcome = run(f"""{init(32)}
        mbarrier.arrive.shared.b64 %rd1, [%r20];
        mbarrier.try_wait.shared.b64 %p1, [%r20], %rd1;
        selp.b32 %r1, 1, 0, %p1; {store("%r1")}""")
    assert set(outcome.out.tolist()) == {1}


def test_dropped_arrivals_are_not_expected_again() -> None:
    outcome = run(f"""{init(2)}
        @%p11 mbarrier.arrive_drop.shared.b64 %rd1, [%r20];
        @%p11 mbarrier.arrive.shared.b64 %rd1, [%r20];
        {wait("0")}
        @%p11 mbarrier.arrive.shared.b64 %rd1, [%r20];
        mbarrier.test_wait.parity.shared.b64 %p1, [%r20], 1;
        selp.b32 %r1, 1, 0, %p1; {store("%r1")}""")
    assert set(outcome.out.tolist()) == {1}


def test_pending_count_of_a_state() -> None:
    outcome = run(f"""{init(5)}
        setp.lt.u32 %p1, %r39, 3;
        @%p1 mbarrier.arrive.noComplete.shared.b64 %rd1, [%r20], 1;
        @%p1 mbarrier.pending_count.b64 %r1, %rd1;
        {store("%r1")}""")
    assert outcome.out[:3].tolist() == [5, 5, 5]


def test_arrive_at_the_other_cta_of_the_cluster() -> None:
    outcome = run(
        f"""{init(2)}
        barrier.cluster.arrive; barrier.cluster.wait;
        mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1;
        mapa.shared::cluster.u32 %r3, %r20, %r2;
        @%p11 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r3];
        @%p11 mbarrier.arrive.shared.b64 _, [%r20];
        {wait("0")}
        add.s32 %r1, %r1, 7; {store("%r1")}
        barrier.cluster.arrive; barrier.cluster.wait;""",
        ctas=2,
        cluster=2,
    )
    assert outcome.out[0] == 7
    assert outcome.out[32] == 8


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (init(0), "arrival count 0 is not in 1…1048575 .rule B1"),
        (f"{init(1)} @%p11 mbarrier.expect_tx.shared.b64 [%r20], 1048576;", "must stay.*rule B1"),
        (f"{init(1)} @%p12 mbarrier.init.shared.b64 [%r20], 1;", "is live.*rule B2"),
        ("mov.b32 %r20, sm; mbarrier.arrive.shared.b64 _, [%r20];", "no mbarrier is .*rule B2"),
        (f"{init(1)} st.shared.b32 [%r20+4], %r1;", "touch the live mbarrier.*rule B2"),
        (f"{init(1)} ld.shared.b64 %rd1, [%r20];", "touch the live mbarrier.*rule B2"),
        (f"{init(4)} mbarrier.arrive.shared.b64 _, [%r20];", "takes only 4 more.*rule B6"),
        (
            f"{init(1)} @%p11 mbarrier.arrive.noComplete.shared.b64 %rd1, [%r20], 1;",
            "noComplete completes.*rule B6",
        ),
        (
            f"{init(1)} @%p11 mbarrier.arrive.shared.b64 _, [%r20];"
            "@%p11 mbarrier.arrive.shared.b64 _, [%r20];",
            "no wait has seen phase 0 complete.*rule B7",
        ),
        (
            f"""{init(1)} @%p11 mbarrier.arrive.shared.b64 %rd1, [%r20];
            shfl.sync.idx.b32 %r1, %r39, 0, 31, -1;
            {wait("0")} @%p11 mbarrier.arrive.shared.b64 _, [%r20];
            {wait("1")} @%p11 mbarrier.test_wait.shared.b64 %p1, [%r20], %rd1;""",
            "two phases behind.*rule B9",
        ),
        (
            f"{init(1)} mov.b64 %rd1, 0; mbarrier.pending_count.b64 %r1, %rd1;",
            "rule B15",
        ),
        (f"{init(1)} mbarrier.inval.shared.b64 [%r20]; mbarrier.inval.shared.b64 [%r20];", "B2"),
    ],
)
def test_rules(text: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        run(text)


def test_remote_wait_is_an_error() -> None:
    with pytest.raises(EmulationError, match=r"only arrive, expect_tx and complete_tx.*rule B8"):
        run(
            f"""{init(1)} barrier.cluster.arrive; barrier.cluster.wait;
            mapa.shared::cluster.u32 %r3, %r20, 1;
            mbarrier.test_wait.parity.shared.b64 %p1, [%r3], 0;""",
            ctas=2,
            cluster=2,
        )


def test_unseen_phase_is_tolerated_when_the_switch_says_so() -> None:
    text = (
        f"{init(1)} @%p11 mbarrier.arrive.shared.b64 _, [%r20];"
        "@%p11 mbarrier.arrive.shared.b64 _, [%r20];"
    )
    warned = run(text, switches=Switches(consumption=Verdict.WARNING))
    assert "rule B7" in warned.statistics.warnings[0]
    assert not run(text, switches=Switches(consumption=Verdict.OFF)).statistics.warnings


def test_wide_parity_counts_by_its_lowest_bit() -> None:
    text = f"""{init(1)} mbarrier.test_wait.parity.shared.b64 %p1, [%r20], 2;
        mbarrier.test_wait.parity.shared.b64 %p2, [%r20], 3;
        selp.b32 %r1, 1, 0, %p1; selp.b32 %r2, 2, 0, %p2; add.s32 %r1, %r1, %r2; {store("%r1")}"""
    warned = run(text)
    assert warned.out[0] == 2
    assert "phase parity 2; it is 0 or 1" in warned.statistics.warnings[0]
    assert not run(text, switches=Switches(wide_parity=Verdict.OFF)).statistics.warnings
    with pytest.raises(
        EmulationError,
        match=r"parity 2; it is 0 or 1, and machine code takes the lowest bit .rule B9",
    ):
        run(text, switches=Switches(wide_parity=Verdict.ERROR))


def test_invalidated_object_is_ordinary_memory_again() -> None:
    outcome = run(
        f"""{init(1)}
        @%p12 mbarrier.inval.shared.b64 [%r20];
        bar.sync 0;
        @%p12 st.shared.b32 [%r20], 9;
        bar.sync 0;
        ld.shared.b32 %r1, [%r20]; {store("%r1")}""".replace(
            "st.shared.b32 [%r20], 9", "st.shared.b32 [%r20], %r29"
        )
    )
    assert set(outcome.out.tolist()) == {0}


def test_waiter_that_missed_a_phase_is_found() -> None:
    """Warp 2 waits for phase 0 but is not among those whose arrivals phase 1 needs."""
    text = f"""
        shr.u32 %r30, %r39, 5; elect.sync %r29|%p11, -1; mov.b32 %r20, sm;
        setp.eq.s32 %p12, %r39, 0;
        @%p12 mbarrier.init.shared.b64 [%r20], 1;
        bar.sync 0;
        setp.eq.s32 %p1, %r30, 1; @%p1 bra WATCH;
        @%p11 mbarrier.arrive.shared.b64 _, [%r20];
        {wait("0")}
        @%p11 mbarrier.arrive.shared.b64 _, [%r20];
        {wait("1")}
        bra END;
        WATCH: {wait("0")}
        END: mov.b32 %r1, 0;
    """
    found = {_problem(text, seed) for seed in range(12)}
    assert "deadlock" in found
    assert any("two phases behind" in problem for problem in found)


def _problem(text: str, seed: int) -> str:
    try:
        run(text, threads=64, policy=Adversarial(seed))
    except EmulationError as error:
        return "deadlock" if "deadlock" in str(error) else str(error)
    return "none"


def test_wait_in_lanes_for_different_objects() -> None:
    outcome = run(f"""{init(1)}
        @%p12 mbarrier.init.shared.b64 [%r20+8], 1;
        bar.sync 0;
        @%p12 mbarrier.arrive.shared.b64 _, [%r20+8];
        and.b32 %r1, %r39, 1; shl.b32 %r1, %r1, 3; add.s32 %r1, %r1, %r20;
        mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0;
        selp.b32 %r2, 1, 0, %p1; {store("%r2")}""")
    assert outcome.out.tolist() == [0, 1] * 16
