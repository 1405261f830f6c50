"""Who runs when, deadlocks, kernels that never end, and launches that are not possible."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.operations import Operation
from schedgen.emulator.machine.policies import Adversarial, Policy, RoundRobin, Seeded
from schedgen.emulator.machine.switches import Spurious, Switches
from schedgen.emulator.machine.warp import Warp
from tests.emulator.machine.running import FIRST, run, store
from tests.emulator.machine.test_mbarriers import init, wait

HANDOVER = f"""
    atom.global.add.u32 %r1, [%rd39], 1;
    {store("%r1")}
"""


@pytest.mark.parametrize("make", [Seeded, Adversarial])
def test_the_same_seed_gives_the_same_order(make: type[Seeded]) -> None:
    def order(seed: int) -> list[int]:
        counter = np.zeros(4, np.int32)
        text = f"""mov.b32 %r2, 0;
            L: add.s32 %r2, %r2, 1; setp.lt.s32 %p1, %r2, 40; @%p1 bra L; {HANDOVER}"""
        return run(text, threads=128, ctas=3, source=counter, policy=make(seed)).out.tolist()

    orders = [order(seed) for seed in range(6)]
    assert orders == [order(seed) for seed in range(6)]
    assert len({tuple(one) for one in orders}) > 1
    assert all(sorted(one) == list(range(384)) for one in orders)


SPIN = f"""
    mov.u32 %r1, %ctaid.x;
    SPIN: ld.acquire.gpu.global.b32 %r2, [%rd39];
    setp.ne.s32 %p1, %r2, %r1;
    @%p1 bra SPIN;
    bar.sync 0;
    mov.u32 %r3, %nctaid.x;
    sub.s32 %r4, %r1, 1;
    setp.eq.s32 %p2, %r39, 0;
    @%p2 st.release.gpu.global.b32 [%rd39], %r4;
    {store("%r1")}
"""


@pytest.mark.parametrize("policy", [RoundRobin(), Seeded(3), Adversarial(0), Adversarial(1)])
def test_ctas_that_wait_for_later_ones_in_global_memory(policy: Policy) -> None:
    """CTA i spins until CTA i+1 has passed: all must become resident."""
    token = np.full(4, 3, np.int32)
    outcome = run(SPIN, threads=32, ctas=4, source=token, policy=policy, limit=20_000_000)
    assert outcome.out.reshape(4, 32)[:, 0].tolist() == [0, 1, 2, 3]
    assert token[0] == -1


def test_ctas_that_do_not_fit_at_the_same_time() -> None:
    with pytest.raises(EmulationError, match="it may loop forever"):
        run(SPIN, ctas=4, source=np.full(4, 3, np.int32), processors=2, limit=30_000)


DEADLOCK = f"""{init(2)}
    setp.eq.s32 %p1, %r30, 1; @%p1 bra OTHER;
    @%p11 mbarrier.arrive.expect_tx.shared.b64 _, [%r20], 128;
    {wait("0")}
    bra END;
    OTHER: bar.sync 4, 96;
    END: mov.b32 %r1, 0;
"""


@pytest.mark.parametrize("policy", [RoundRobin(), Seeded(0), Adversarial(3)])
def test_deadlock_says_who_waits_for_what(policy: Policy) -> None:
    with pytest.raises(EmulationError) as caught:
        run(DEADLOCK, threads=64, policy=policy)
    text = str(caught.value)
    assert text.startswith("deadlock: no warp can go on and no asynchronous operation is under way")
    assert "warp 0 of CTA (0,0,0) at PTX line" in text
    assert (
        "waits for phase 0 (parity 0) of the mbarrier at shared offset 0x400 of CTA (0,0,0)" in text
    )
    assert "(initialized in PTX line" in text
    assert "phase 0 lacks 1 of its arrivals and 128 bytes of expected copies" in text
    assert "arrived: warp 0 of CTA (0,0,0) (PTX line" in text
    assert "warp 1 of CTA (0,0,0) at PTX line" in text
    assert "named barrier 4 of CTA (0,0,0), generation 0: 32 of 96 threads have arrived" in text


def test_explanations_name_the_line_of_the_source() -> None:
    with pytest.raises(EmulationError, match=r"lanes 0-31 of warp 0 .*\(kernel.py:71\)"):
        run(".loc 1 71 0\ntrap;")
    with pytest.raises(EmulationError, match=r"bar.sync\n    \(kernel.py:72\)\n    waits for"):
        run(".loc 1 72 0\nbar.sync 1, 64;")


def test_polling_with_test_wait_is_a_deadlock_too() -> None:
    with pytest.raises(EmulationError, match="deadlock"):
        run(f"""{init(1)}
            POLL: mbarrier.test_wait.parity.shared.b64 %p1, [%r20], 0;
            @!%p1 nanosleep.u32 20;
            @!%p1 bra POLL;""")


def test_a_try_wait_that_finds_nothing_gives_up_when_all_else_waits() -> None:
    """Peeking at a barrier must not block what would let others go on."""
    outcome = run(
        f"""{init(1)}
        setp.eq.s32 %p1, %r30, 1; @%p1 bra OTHER;
        mbarrier.try_wait.parity.shared.b64 %p2, [%r20], 0;
        bar.arrive 2, 64;
        {wait("0")}
        selp.b32 %r1, 1, 0, %p2;
        bra END;
        OTHER: bar.sync 2, 64;
        @%p11 mbarrier.arrive.shared.b64 _, [%r20];
        mov.b32 %r1, 5;
        END: {store("%r1")}""",
        threads=64,
        switches=Switches(spurious=Spurious.NEVER),
    )
    assert outcome.out.tolist() == [0] * 32 + [5] * 32


def test_a_loop_without_end() -> None:
    with pytest.raises(EmulationError) as caught:
        run("LOOP: add.s32 %r1, %r1, 1;\nbra LOOP;", limit=5000)
    text = str(caught.value)
    assert "more than 5000 warp instructions" in text
    assert f"× PTX lines {FIRST}–{FIRST + 1}, ending in bra" in text


def test_errors_name_warp_and_lanes() -> None:
    with pytest.raises(EmulationError, match=r"executed by lanes 3 of warp 1 of CTA \(1,0,0\)"):
        run(
            """mov.u32 %r1, %ctaid.x; setp.eq.s32 %p1, %r1, 1; setp.eq.and.s32 %p1, %r39, 35, %p1;
            @%p1 st.global.b32 [%rd1], %r1;""",
            threads=64,
            ctas=2,
        )


def test_trap() -> None:
    with pytest.raises(EmulationError, match="ends itself with a trap"):
        run("trap;")


def test_unknown_instruction() -> None:
    with pytest.raises(EmulationError, match=f"PTX line {FIRST}: frobnicate.b32: .*not supported"):
        run("frobnicate.b32 %r1, %r2;")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 2048}, "2048 threads; allowed are 1 to 1024"),
        ({"threads": 64, "directives": ".reqntid 128, 1, 1"}, "requires blocks of"),
        ({"threads": 64, "directives": ".maxntid 32, 1, 1"}, "allows 32 threads, not 64"),
        ({"ctas": 3, "cluster": 2}, "no multiple of the cluster"),
        ({"dynamic": 300_000}, "a CTA may have 232448"),
    ],
)
def test_launches_that_are_not_possible(options: dict[str, int], message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        run("mov.b32 %r1, 0;", elements=4, **options)  # type: ignore[arg-type]


def test_special_registers() -> None:
    names = ("%ntid.x", "%ctaid.x", "%nctaid.x", "%warpid", "%laneid", "%cluster_ctarank",
             "%cluster_nctarank", "%clusterid.x", "%nclusterid.x", "%dynamic_smem_size",
             "%lanemask_lt", "%is_explicit_cluster")  # fmt: skip
    values: list[int] = []
    for name in names:
        kind = "pred" if name == "%is_explicit_cluster" else "b32"
        read = (
            f"mov.{kind} %p1, {name}; selp.b32 %r1, 1, 0, %p1;"
            if kind == "pred"
            else f"mov.u32 %r1, {name};"
        )
        outcome = run(f"{read} {store('%r1')}", threads=64, ctas=4, cluster=2, dynamic=2048)
        values.append(int(outcome.out.reshape(4, 64)[3, 37]))
    assert values == [64, 3, 4, 1, 5, 1, 2, 1, 2, 2048, 31, 1]


def test_no_clock_stands_still() -> None:
    outcome = run(f"""
        mov.u64 %rd1, %clock64; add.s64 %rd2, %rd1, 1000;
        L: mov.u64 %rd3, %clock64; setp.lt.u64 %p1, %rd3, %rd2; @%p1 bra L;
        mov.b32 %r1, 1; {store("%r1")}""")
    assert set(outcome.out.tolist()) == {1}


def test_late_operations_of_a_kind_come_together() -> None:
    """So that all loads of a ring may be later than what was issued behind them."""
    loads_last = together = 0
    for seed in range(0, 60, 3):
        policy = Adversarial(seed, "late")
        pending: list[Any] = [SimpleNamespace(due=0, name=name) for name in ("load", "product") * 4]
        names = [pending.pop(policy.pick([], pending)).name for _ in range(8)]
        changes = sum(a != b for a, b in pairwise(names))
        together += changes == 1
        loads_last += names[:4] == ["product"] * 4
    assert together > 10
    assert 3 < loads_last < 17


class Noting(RoundRobin):
    """Where warps are that could have a turn."""

    def __init__(self, *stops: int) -> None:
        super().__init__()
        self.stops = frozenset(stops)
        self.places: list[int] = []

    def pick(self, ready: Sequence[Warp], pending: Sequence[Operation]) -> int:
        self.places += [group.pc for warp in ready for group in warp.groups]
        return super().pick(ready, pending)


def test_places_in_front_of_which_turns_end() -> None:
    text = f"""mov.b32 %r1, 0; mov.b32 %r2, 0;
        L: add.s32 %r1, %r1, 1; add.s32 %r2, %r2, 2; setp.lt.s32 %p1, %r1, 3; @%p1 bra L;
        {store("%r2")}"""
    first = 3  # the first three instructions are not of the text
    for stops, met in (
        ((), [0]),
        ((first + 2,), [0, *[first + 2] * 3]),  # behind the branch, too
        ((first + 3,), [0, *[first + 3] * 3]),
        ((first, first + 6), [0, first, first + 6]),
    ):
        policy = Noting(*stops)
        assert run(text, policy=policy).out.tolist() == [6] * 32
        assert policy.places == met


PARTING = f"""
    mov.b32 %r1, %r39; mov.b32 %r2, 0;
    L: add.s32 %r1, %r1, 3; xor.b32 %r1, %r1, 5; mul.lo.s32 %r3, %r1, %r1;
    add.s32 %r2, %r2, 1; setp.lt.s32 %p1, %r2, 8; @%p1 bra L;
    shr.u32 %r4, %r39, 5; setp.eq.s32 %p2, %r4, 2; @%p2 bra ALONE;
    setp.eq.s32 %p3, %r39, 33; @%p3 bra ALONE;
    add.s32 %r3, %r3, 1; mul.lo.s32 %r3, %r3, 7; bra JOIN;
    ALONE: sub.s32 %r3, %r3, 1; xor.b32 %r3, %r3, 9;
    JOIN: bar.sync 0;
    add.s32 %r3, %r3, %r1; add.s32 %r3, %r3, %r2;
    {store("%r3")}
"""


def test_warps_side_by_side() -> None:
    """Results, instructions and turns are those of warps that have turns of their own."""
    alone = RoundRobin()
    alone.together = False
    expected, outcome = run(PARTING, threads=288, policy=alone), run(PARTING, threads=288)
    assert outcome.out.tolist() == expected.out.tolist()
    assert outcome.statistics.instructions == expected.statistics.instructions
    assert outcome.statistics.lines == expected.statistics.lines


def test_an_error_side_by_side_names_the_warp() -> None:
    text = f"""shr.u32 %r1, %r39, 5; setp.eq.s32 %p1, %r1, 2; mov.b64 %rd1, %rd38;
        selp.b64 %rd2, 0, %rd1, %p1; st.global.b32 [%rd2], %r1; {store("%r1")}"""
    with pytest.raises(EmulationError, match="warp 2 of CTA") as caught:
        run(text, threads=128)
    assert f"PTX line {FIRST + 1}" in str(caught.value)
