"""Lanes that go different ways, and come together again."""

from __future__ import annotations

import numpy as np
import pytest

from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.machine.running import run, store

LANE = np.arange(32)


def test_both_sides_of_a_branch_run_and_the_lanes_meet() -> None:
    outcome = run(f"""
        setp.lt.u32 %p1, %r39, 7;
        @%p1 bra SMALL;
        mov.b32 %r1, 100;
        bra MEET;
        SMALL: mov.b32 %r1, 200;
        MEET: shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;
        add.s32 %r1, %r1, %r2;
        {store("%r1")}
    """)
    assert outcome.out.tolist() == np.where(LANE < 7, 400, 300).tolist()


def test_each_lane_leaves_a_loop_when_it_is_done() -> None:
    outcome = run(f"""
        mov.b32 %r1, 0; mov.b32 %r2, 0;
        LOOP:
        add.s32 %r2, %r2, %r1;
        add.s32 %r1, %r1, 1;
        setp.le.u32 %p1, %r1, %r39;
        @%p1 bra LOOP;
        {store("%r2")}
    """)
    assert outcome.out.tolist() == (LANE * (LANE + 1) // 2).tolist()


def test_code_after_a_loop_runs_once_for_all_lanes() -> None:
    """Lanes that left the loop wait for the others, although they could go on."""
    text = """
        mov.b32 %r1, 0;
        LOOP:
        add.s32 %r1, %r1, 1;
        setp.lt.u32 %p1, %r1, %r39;
        @%p1 bra LOOP;
        mul.lo.s32 %r2, %r1, 3;
    """
    outcome = run(text)
    lines = outcome.statistics.lines
    behind = max(line for line in lines if lines[line])
    assert lines[behind] == 1  # ret
    assert max(lines.values()) == 31  # the loop, as often as the slowest lane goes through it


def test_a_rare_block_at_the_end_of_the_text_comes_before_what_follows_it() -> None:
    """The elected lane's block is last in the text; bar.sync must still see the whole warp."""
    outcome = run(f"""
        mov.b32 %r1, 1;
        setp.eq.u32 %p1, %r39, 3;
        @%p1 bra RARE;
        BACK:
        mov.b32 %r2, 5;
        bar.sync 0;
        add.s32 %r1, %r1, %r2;
        {store("%r1")}
        ret;
        RARE: mov.b32 %r1, 10;
        bra BACK;
    """)
    assert outcome.out.tolist() == np.where(LANE == 3, 15, 6).tolist()
    assert outcome.statistics.instructions == 18  # each of them once


def test_exited_lanes_are_not_waited_for() -> None:
    outcome = run(
        f"""
        setp.ge.u32 %p1, %r39, 20;
        @%p1 exit;
        bar.sync 0;
        {store("7")}
    """.replace("st.global.b32 [%rd37], 7", "mov.b32 %r1, 7; st.global.b32 [%rd37], %r1")
    )
    assert outcome.out.tolist() == np.where(LANE < 20, 7, 0).tolist()


def test_a_block_that_is_no_multiple_of_32_threads() -> None:
    outcome = run(f"bar.sync 0; {store('%r39')}", threads=40)
    assert outcome.out.tolist() == list(range(40))


def test_indirect_branch() -> None:
    outcome = run(f"""
        rem.u32 %r1, %r39, 3;
        TABLE: .branchtargets ZERO, ONE, TWO;
        brx.idx %r1, TABLE;
        ZERO: mov.b32 %r2, 10; bra END;
        ONE: mov.b32 %r2, 11; bra END;
        TWO: mov.b32 %r2, 12;
        END: bar.warp.sync -1;
        {store("%r2")}
    """)
    assert outcome.out.tolist() == (LANE % 3 + 10).tolist()


def test_aligned_barrier_in_one_branch_only_is_an_error() -> None:
    with pytest.raises(EmulationError, match=r"lanes 0-4 at PTX line \d+: bar.sync.*rule N4"):
        run("""
            setp.lt.u32 %p1, %r39, 5;
            @!%p1 bra ELSE;
            bar.sync 0;
            bra END;
            ELSE: bar.sync 1;
            END: mov.b32 %r1, 0;
        """)


def test_guard_that_holds_in_some_lanes_cannot_guard_a_barrier() -> None:
    with pytest.raises(EmulationError, match=r"some lanes only.*rule N4"):
        run("setp.lt.u32 %p1, %r39, 5; @%p1 bar.sync 0;")


def test_shuffle_waits_for_the_lanes_of_its_mask() -> None:
    """Two halves run different shuffles at different times."""
    outcome = run(f"""
        setp.lt.u32 %p1, %r39, 16;
        @%p1 bra LOW;
        shfl.sync.bfly.b32 %r1, %r39, 1, 31, 0xFFFF0000;
        bra END;
        LOW: shfl.sync.bfly.b32 %r1, %r39, 2, 31, 0x0000FFFF;
        END: mov.b32 %r2, %r1;
        {store("%r2")}
    """)
    assert outcome.out.tolist() == np.where(LANE < 16, LANE ^ 2, LANE ^ 1).tolist()


def test_lanes_that_spin_do_not_starve_those_they_wait_for() -> None:
    """The low lanes spin on global memory until lane 31, held back at first, writes it."""
    outcome = run(
        f"""
        setp.eq.u32 %p1, %r39, 31;
        @%p1 bra WRITE;
        SPIN: ld.volatile.global.b32 %r1, [%rd39];
        setp.eq.s32 %p2, %r1, 0;
        @%p2 bra SPIN;
        bra END;
        WRITE: mov.b32 %r1, 42;
        st.volatile.global.b32 [%rd39], %r1;
        END:
        {store("%r1")}
    """,
        source=np.zeros(4, np.int32),
    )
    assert set(outcome.out.tolist()) == {42}


def test_guarded_instruction_changes_only_the_lanes_whose_guard_holds() -> None:
    outcome = run(f"""
        mov.b32 %r1, 1;
        setp.lt.u32 %p1, %r39, 4;
        @%p1 mov.b32 %r1, 2;
        @!%p1 add.s32 %r1, %r1, 8;
        {store("%r1")}
    """)
    assert outcome.out.tolist() == np.where(LANE < 4, 2, 9).tolist()
