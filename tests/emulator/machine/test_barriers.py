"""Named barriers, the barrier of a cluster, setmaxnreg: rules N1 to N7."""

from __future__ import annotations

import numpy as np
import pytest

from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.policies import Adversarial, RoundRobin, Seeded
from schedgen.emulator.machine.switches import RepeatedArrival, Switches
from schedgen.emulator.order.checker import Checker
from tests.emulator.machine.running import run, store

WARP = "shr.u32 %r30, %r39, 5;"
"""Number of the warp in %r30."""

EXCHANGE = f"""
    shl.b32 %r1, %r39, 2; mov.b32 %r2, sm; add.s32 %r1, %r1, %r2;
    st.shared.b32 [%r1], %r39;
    bar.sync 0;
    xor.b32 %r3, %r39, 96; shl.b32 %r3, %r3, 2; add.s32 %r3, %r3, %r2;
    ld.shared.b32 %r4, [%r3];
    {store("%r4")}
"""


@pytest.mark.parametrize("policy", [RoundRobin(1), Seeded(1), Adversarial(1), Adversarial(2)])
def test_what_was_written_before_a_barrier_is_read_behind_it(policy: RoundRobin) -> None:
    assert run(EXCHANGE, threads=128, policy=policy).out.tolist() == [i ^ 96 for i in range(128)]


def test_producer_arrives_and_consumer_waits() -> None:
    """bar.arrive does not block; bar.sync of the same barrier waits for it."""
    outcome = run(
        f"""{WARP}
        setp.eq.s32 %p1, %r30, 0;
        @%p1 bra PRODUCE;
        bar.sync 3, 64;
        ld.shared.b32 %r1, [sm];
        bra END;
        PRODUCE:
        mov.b32 %r1, 77;
        st.shared.b32 [sm], %r1;
        bar.arrive 3, 64;
        END: {store("%r1")}""",
        threads=64,
    )
    assert set(outcome.out.tolist()) == {77}


@pytest.mark.parametrize(
    ("form", "value"), [("popc.u32 %r1", 40), ("and.pred %p2", 0), ("or.pred %p2", 1)]
)
def test_reduction_over_a_barrier(form: str, value: int) -> None:
    result = "" if "popc" in form else "selp.b32 %r1, 1, 0, %p2;"
    outcome = run(
        f"setp.lt.u32 %p1, %r39, 40; bar.red.{form}, 1, %p1; {result} {store('%r1')}", threads=64
    )
    assert set(outcome.out.tolist()) == {value}


def test_warps_that_exited_are_not_waited_for() -> None:
    outcome = run(
        f"{WARP} setp.eq.s32 %p1, %r30, 1; @%p1 exit; bar.sync 0; mov.b32 %r1, 5; {store('%r1')}",
        threads=96,
    )
    assert outcome.out.tolist() == [5] * 32 + [0] * 32 + [5] * 32


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bar.sync 1, 40;", "thread count 40 is no positive multiple of 32 .rule N1"),
        ("bar.sync 16;", "barrier 16; there are 0…15 .rule N1"),
        ("bar.sync %r39, 64;", "the barrier differs between the lanes"),
        (
            f"{WARP} setp.eq.s32 %p1, %r30, 0; @%p1 bra A; bar.sync 1, 64; bra E;"
            "A: bar.sync 1, 96; E: mov.b32 %r1, 0;",
            "says that 64 threads take part in named barrier 1 .*begun with 96.*rule N3",
        ),
        (
            f"{WARP} setp.eq.s32 %p1, %r30, 0; @%p1 bra A; bar.red.popc.u32 %r1, 1, 64, %p1; bra E;"
            "A: bar.sync 1, 64; E: mov.b32 %r1, 0;",
            "mixed.*rule N3",
        ),
    ],
)
def test_rules_of_named_barriers(text: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        run(text, threads=64)


TURNS = f"""{WARP}
    mov.b32 %r2, 0; mov.b32 %r3, 0; setp.eq.s32 %p1, %r30, 0;
    @%p1 bar.arrive 1, 64;
    LOOP:
    @%p1 bar.sync 1, 64; @!%p1 bar.sync 2, 64;
    ld.shared.b32 %r1, [sm]; mad.lo.s32 %r1, %r1, 3, %r30; add.s32 %r1, %r1, 1;
    bar.warp.sync -1;
    setp.eq.s32 %p3, %r39, %r31; @%p3 st.shared.b32 [sm], %r1;
    @%p1 bar.arrive 2, 64; @!%p1 bar.arrive 1, 64;
    add.s32 %r3, %r3, 1; setp.lt.s32 %p2, %r3, 4; @%p2 bra LOOP;
    {store("%r1")}
"""
"""Two warps take turns at barriers 1 and 2; the first begins since it arrives at its own barrier
too. Each takes x to 3 x + 1 + its number."""
FIRST = """mov.b32 %r1, 0; and.b32 %r31, %r39, -32;
    setp.eq.s32 %p3, %r39, 0; @%p3 st.shared.b32 [sm], %r1;"""


@pytest.mark.parametrize("policy", [RoundRobin(1), Seeded(1), *map(Adversarial, range(4))])
def test_warps_take_turns_and_the_first_arrives_for_its_own(policy: RoundRobin) -> None:
    value, wanted = 0, list[int]()
    for turn in range(8):
        value = 3 * value + 1 + turn % 2
        wanted.append(value)
    start = f"{FIRST} bar.sync 0;"
    checker = Checker(2)
    out = run(start + TURNS, threads=64, policy=policy, tracker=checker).out
    assert out.tolist() == [wanted[6]] * 32 + [wanted[7]] * 32
    assert not checker.findings, checker.report()


def test_arriving_twice_by_the_letter_of_the_text() -> None:
    strict = Switches(repeated_arrival=RepeatedArrival.ERROR)
    with pytest.raises(EmulationError, match=r"warp 0 of CTA .* arrives again.*rule N3"):
        run("bar.arrive 1, 64; bar.arrive 1, 64;", switches=strict)


def test_a_warp_fills_a_barrier_alone() -> None:
    outcome = run(f"bar.arrive 1, 96; bar.arrive 1, 96; bar.sync 1, 96; {store('%r39')}")
    assert outcome.out.tolist() == list(range(32))


def test_a_deadlock_names_arrivals_of_the_same_warp() -> None:
    with pytest.raises(EmulationError, match=r"64 of 96 threads have arrived: warp 0 .*, warp 0 "):
        run("bar.arrive 1, 96; bar.sync 1, 96;")


def test_votes_are_not_given_twice() -> None:
    """Nor may bar.red follow an arrival of another form (9.7.13.1)."""
    with pytest.raises(EmulationError, match=r"bar.red is mixed with other forms.*rule N3"):
        run("bar.arrive 1, 64; bar.red.popc.u32 %r1, 1, 64, %p1;")


CLUSTER = f"""
    mov.u32 %r1, %cluster_ctarank;
    add.s32 %r2, %r1, 50;
    mov.b32 %r3, sm;
    st.shared.b32 [%r3], %r2;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    xor.b32 %r4, %r1, 1;
    mapa.shared::cluster.u32 %r5, %r3, %r4;
    ld.shared::cluster.b32 %r6, [%r5];
    barrier.cluster.arrive.relaxed.aligned;
    barrier.cluster.wait.aligned;
    {store("%r6")}
"""


def test_cluster_barrier_and_distributed_shared_memory() -> None:
    outcome = run(CLUSTER, ctas=4, cluster=2, threads=64)
    assert outcome.out.reshape(4, 64)[:, 0].tolist() == [51, 50, 51, 50]
    assert outcome.statistics.clusters == 2


def test_arriving_twice_at_the_cluster_barrier() -> None:
    with pytest.raises(EmulationError, match=r"arrives again at the barrier of the cluster.*N6"):
        run("barrier.cluster.arrive; barrier.cluster.arrive;", ctas=2, cluster=2)


def test_waiting_at_the_cluster_barrier_without_having_arrived() -> None:
    meet = "barrier.cluster.arrive.relaxed; barrier.cluster.wait;"
    assert run(meet + meet, ctas=2, cluster=2).statistics.clusters == 1
    with pytest.raises(EmulationError, match=r"barrier of the cluster, generation 1; not arrived"):
        run(meet + "barrier.cluster.wait;", ctas=2, cluster=2)


def test_shared_memory_of_a_cta_that_has_exited() -> None:
    with pytest.raises(EmulationError, match=r"has exited, so its shared memory is gone.*rule N9"):
        run(
            """
            mov.u32 %r1, %cluster_ctarank;
            setp.eq.s32 %p1, %r1, 1; @%p1 exit;
            mov.b32 %r2, 0;
            WAIT: add.s32 %r2, %r2, 1; setp.lt.s32 %p2, %r2, 3000; @%p2 bra WAIT;
            mov.b32 %r3, sm; mapa.shared::cluster.u32 %r5, %r3, 1;
            ld.shared::cluster.b32 %r6, [%r5];
            """,
            ctas=2,
            cluster=2,
        )


REGISTERS = f"""{WARP}
    setp.lt.u32 %p1, %r30, 4;
    @%p1 bra FEW;
    setmaxnreg.inc.sync.aligned.u32 160;
    mov.b32 %r1, 1;
    bra END;
    FEW: {{}}
    mov.b32 %r1, 2;
    END: {store("%r1")}
"""


def test_setmaxnreg_waits_until_others_give_registers() -> None:
    outcome = run(
        REGISTERS.format("setmaxnreg.dec.sync.aligned.u32 32;"), threads=256, registers=96
    )
    assert outcome.out.tolist() == [2] * 128 + [1] * 128


def test_setmaxnreg_that_nobody_gives_registers_for() -> None:
    with pytest.raises(EmulationError, match=r"deadlock(.|\n)*setmaxnreg: 64 more registers"):
        run(REGISTERS.format("mov.b32 %r3, 0;"), threads=256, registers=96)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("setmaxnreg.inc.sync.aligned.u32 40;", "owns 96 registers per thread; .inc to 40"),
        ("setmaxnreg.dec.sync.aligned.u32 100;", "100 is no multiple of 8 in 24…256"),
        (
            f"{WARP} setp.eq.s32 %p1, %r30, 2; @%p1 bra E; setmaxnreg.dec.sync.aligned.u32 40;"
            "E: mov.b32 %r1, 0;",
            "exit.* without executing it",
        ),
        (
            f"{WARP} setp.eq.s32 %p1, %r30, 2; @%p1 bra A; setmaxnreg.dec.sync.aligned.u32 40;"
            "bra E; A: setmaxnreg.dec.sync.aligned.u32 48; E: mov.b32 %r1, 0;",
            r"executes .dec 40, warp 2 of its warpgroup .dec 48|executes .dec 48, warp 0",
        ),
    ],
)
def test_rules_of_setmaxnreg(text: str, message: str) -> None:
    with pytest.raises(EmulationError, match=rf"{message}(.|\n)*N7|N7(.|\n)*{message}"):
        run(text, threads=128, registers=96)


def test_registers_at_launch_follow_from_the_block() -> None:
    """512 threads share 65536 registers: 128 each; 4 warps that give 96 let 4 others have 224."""
    text = f"""{WARP}
        setp.lt.u32 %p1, %r30, 4; @%p1 bra FEW;
        setp.lt.u32 %p1, %r30, 8; @%p1 bra MANY;
        bra END;
        FEW: setmaxnreg.dec.sync.aligned.u32 32; bra END;
        MANY: setmaxnreg.inc.sync.aligned.u32 {{}};
        END: mov.b32 %r1, 1; {store("%r1")}
    """
    assert np.all(run(text.format(224), threads=512).out == 1)
    with pytest.raises(EmulationError, match="deadlock"):
        run(text.format(232), threads=512)
