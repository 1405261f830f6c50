"""ld, st, atom, red, cp.async, address spaces."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.policies import Adversarial
from tests.emulator.machine.running import aligned, run, store

LANE = np.arange(32)
ADDRESS = "mul.wide.u32 %rd1, %r39, {0}; add.s64 %rd2, %rd39, %rd1; add.s64 %rd3, %rd38, %rd1;"
"""%rd2: the lane's place in the source, %rd3 in the output, at ``{0}`` bytes per lane."""
SHARED = "mov.b32 %r20, sm; shl.b32 %r21, %r39, 4; add.s32 %r21, %r21, %r20;"
"""%r21: the lane's 16 bytes of shared memory."""


def random(count: int) -> NDArray[np.int32]:
    return np.random.default_rng(count).integers(-(2**31), 2**31, count, dtype=np.int32)


@pytest.mark.parametrize(
    ("vector", "count"), [("b32", 1), ("v2.b32", 2), ("v4.b32", 4), ("v8.b32", 8)]
)
def test_vectors_through_global_memory(vector: str, count: int) -> None:
    source = random(32 * count)
    registers = ", ".join(f"%r{index}" for index in range(count))
    operand = f"{{{registers}}}" if count > 1 else registers
    outcome = run(
        f"""{ADDRESS.format(4 * count)}
        ld.global.L1::no_allocate.{vector} {operand}, [%rd2];
        st.global.{vector} [%rd3], {operand};""",
        elements=32 * count,
        source=aligned(source),
    )
    assert np.array_equal(outcome.out, source)


def test_vectors_through_shared_memory() -> None:
    outcome = run(f"""{SHARED}
        add.s32 %r1, %r39, 100; add.s32 %r2, %r39, 200; add.s32 %r3, %r39, 300;
        st.shared.v4.b32 [%r21], {{%r39, %r1, %r2, %r3}};
        ld.shared.v2.b64 {{%rd1, %rd2}}, [%r21];
        mov.b64 {{%r4, %r5}}, %rd2;
        ld.shared.b32 %r6, [%r21+4];
        add.s32 %r6, %r6, %r5; {store("%r6")}""")
    assert outcome.out.tolist() == (LANE + 100 + LANE + 300).tolist()


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [("s8", 0x1FF, -1), ("u8", 0x1FF, 0xFF), ("s16", 0x18000, -0x8000), ("b16", 0x18000, 0x8000)],
)
def test_narrow_elements_are_extended_by_their_type(type_: str, value: int, expected: int) -> None:
    width = type_[1:]
    outcome = run(f"""{SHARED}
        mov.b32 %r1, {value};
        st.shared.b{width} [%r21], %r1;
        ld.shared.{type_} %r2, [%r21]; {store("%r2")}""")
    assert set(outcome.out.tolist()) == {expected}


def test_lanes_that_do_not_execute_keep_their_registers_and_touch_nothing() -> None:
    outcome = run(f"""{SHARED}
        mov.b32 %r1, -1; mov.b32 %r2, 7;
        setp.lt.u32 %p1, %r39, 3;
        st.shared.b32 [%r21], %r1;
        @%p1 st.shared.b32 [%r21], %r39;
        @!%p1 mov.b32 %r21, 4000000;
        @%p1 ld.shared.b32 %r2, [%r21]; {store("%r2")}""")
    assert outcome.out.tolist() == np.where(LANE < 3, LANE, 7).tolist()


def test_of_lanes_that_store_to_one_address_one_wins() -> None:
    outcome = run(f"st.shared.b32 [sm], %r39; ld.shared.b32 %r1, [sm]; {store('%r1')}")
    assert set(outcome.out.tolist()) == {31}


def test_uninitialized_shared_memory_is_nan() -> None:
    outcome = run(f"ld.shared.b32 %r1, [sm+16]; {store('%r1')}")
    assert np.isnan(outcome.out.view(np.float32)).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("st.global.b32 [%rd38+132], %r1;", "it is 4 bytes behind the end of tensor 'out'"),
        (
            ".reg .b128 %q; ld.global.b128 %q, [%rd38+120];",
            "16 bytes at offset 120 of tensor 'out', which has 128",
        ),
        ("ld.global.b32 %r1, [%rd1];", "address 0x0 is in no registered tensor; it is"),
        ("ld.global.b32 %r1, [%rd38+2];", "not a multiple of 4 bytes"),
        ("st.shared.v4.b32 [sm+8], {%r1, %r2, %r3, %r4};", "not a multiple of 16 bytes"),
        ("ld.shared.b32 %r1, [sm+1024];", "shared memory of CTA .0,0,0., which has 2048 bytes"),
        ("mov.b32 %r1, 0; ld.local.b32 %r2, [%r1];", "declares no .local variable"),
        ("ld.global.v3.b32 %r1, [%rd38];", "not supported"),
    ],
)
def test_wrong_accesses(text: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        run(text, elements=32)


def test_generic_addresses_lead_to_the_space_they_come_from() -> None:
    outcome = run(
        f"""
        mov.b64 %rd1, sm; cvta.shared.u64 %rd1, %rd1;
        isspacep.shared %p1, %rd1; isspacep.global %p2, %rd1; isspacep.global %p3, %rd39;
        and.pred %p1, %p1, %p3; not.pred %p2, %p2; and.pred %p1, %p1, %p2;
        mul.wide.u32 %rd4, %r39, 4; add.s64 %rd2, %rd1, %rd4; add.s64 %rd3, %rd39, %rd4;
        and.b32 %r1, %r39, 1; setp.eq.s32 %p4, %r1, 1;
        selp.b64 %rd2, %rd2, %rd3, %p4;
        st.b32 [%rd2], %r39;
        ld.b32 %r2, [%rd2];
        @!%p1 mov.b32 %r2, -1;
        cvta.to.shared.u64 %rd5, %rd1; cvt.u32.u64 %r3, %rd5; mov.b32 %r4, sm;
        setp.ne.s32 %p5, %r3, %r4; @%p5 mov.b32 %r2, -2; {store("%r2")}""",
        source=(source := np.zeros(32, np.int32)),
    )
    assert outcome.out.tolist() == LANE.tolist()
    assert source.tolist() == np.where(LANE % 2, 0, LANE).tolist()


def test_local_memory_is_each_threads_own() -> None:
    outcome = run(f"""
        .local .align 8 .b8 depot[16];
        mov.b64 %rd1, depot; cvta.local.u64 %rd2, %rd1;
        st.b32 [%rd2+4], %r39;
        ld.local.b32 %r1, [%rd1+4]; {store("%r1")}""")
    assert outcome.out.tolist() == LANE.tolist()


def test_address_of_another_cta_needs_the_cluster_space() -> None:
    with pytest.raises(EmulationError, match=r"use \.shared::cluster"):
        run(
            "mov.b32 %r1, sm; mapa.shared::cluster.u32 %r2, %r1, 1; ld.shared.b32 %r3, [%r2];",
            ctas=2,
            cluster=2,
        )


def test_rank_is_in_the_upper_bits_of_a_shared_address() -> None:
    """CUTLASS clears bit 24 to reach the even CTA of a pair."""
    outcome = run(
        f"""mov.b32 %r1, sm; shr.u32 %r2, %r1, 24;
        st.shared.b32 [sm], %r2;
        barrier.cluster.arrive; barrier.cluster.wait;
        and.b32 %r3, %r1, 0xFEFFFFFF; ld.shared::cluster.b32 %r4, [%r3];
        getctarank.shared::cluster.u32 %r5, %r1;
        mad.lo.s32 %r5, %r5, 10, %r4; {store("%r5")}
        barrier.cluster.arrive; barrier.cluster.wait;""",
        ctas=2,
        cluster=2,
    )
    assert outcome.out.reshape(2, 32)[:, 0].tolist() == [0, 10]


@pytest.mark.parametrize(
    ("operation", "operand", "start", "expected"),
    [
        ("add.u32", "%r39", 5, 5 + sum(range(32))),
        ("min.s32", "%r39", 5, 0),
        ("max.u32", "%r39", 5, 31),
        ("or.b32", "%r39", 0, 31),
        ("xor.b32", "%r39", 1, 1),
        ("inc.u32", "40", 40, 31),  # 40, then 0, 1, …
        ("dec.u32", "40", 0, 9),  # 0, then 40, 39, …
    ],
)
def test_reductions_of_all_lanes_on_one_word(
    operation: str, operand: str, start: int, expected: int
) -> None:
    source = np.array([start, 0, 0, 0], np.int32)
    run(f"red.global.{operation} [%rd39], {operand};", source=source)
    assert source[0] == expected


def test_exchange() -> None:
    source = np.array([5, 0, 0, 0], np.int32)
    outcome = run(f"atom.global.exch.b32 %r1, [%rd39], %r39; {store('%r1')}", source=source)
    assert outcome.out.tolist() == [5, *range(31)]
    assert source[0] == 31


def test_atomic_returns_the_old_value_lane_by_lane() -> None:
    outcome = run(f"atom.global.add.u32 %r1, [%rd39], 2; {store('%r1')}")
    assert outcome.out.tolist() == (2 * LANE).tolist()


def test_compare_and_swap() -> None:
    source = np.zeros(4, np.int32)
    outcome = run(
        f"add.s32 %r1, %r39, 1; atom.global.cas.b32 %r2, [%rd39], %r39, %r1; {store('%r2')}",
        source=source,
    )
    assert outcome.out.tolist() == LANE.tolist()
    assert source[0] == 32


def test_floating_point_reductions() -> None:
    source = np.zeros(8, np.float32)
    run("cvt.rn.f32.u32 %f1, %r39; red.global.add.f32 [%rd39], %f1;", source=source)
    assert source[0] == sum(range(32))
    halves = np.zeros(8, np.float16)
    run(
        """mov.b32 %r1, 0x40003C00;
        red.global.add.noftz.f16x2 [%rd39], %r1;
        red.global.add.noftz.v2.f16x2 [%rd39+8], {%r1, %r1};""",
        source=halves,
    )
    assert halves.tolist() == [32, 64, 0, 0, 32, 64, 32, 64]
    bits = np.zeros(8, np.uint16)
    run("mov.b16 %rs1, 0x3F80; red.global.add.noftz.bf16 [%rd39], %rs1;", source=bits)
    assert bits[0] == 0x4200  # 32.0 in bf16


def test_atomics_in_shared_memory() -> None:
    outcome = run(f"""
        mov.b32 %r1, 0; st.shared.b32 [sm], %r1; bar.sync 0;
        red.shared.add.u32 [sm], 3; bar.sync 0;
        ld.shared.b32 %r2, [sm]; {store("%r2")}""", threads=64)  # fmt: skip
    assert set(outcome.out.tolist()) == {192}


COPY = f"""{ADDRESS.format(16)}{SHARED}
    cp.async.cg.shared.global [%r21], [%rd2], 16{{0}};
    cp.async.commit_group;
    cp.async.wait_group 0;
    ld.shared.b32 %r1, [%r21+4]; {store("%r1")}
"""


@pytest.mark.parametrize("seed", range(3))
def test_cp_async(seed: int) -> None:
    source = aligned(random(128))
    policy = Adversarial(seed)
    assert np.array_equal(run(COPY.format(""), source=source, policy=policy).out, source[1::4])
    assert not run(COPY.format(", 4"), source=source, policy=policy).out.any()


def test_cp_async_is_late_unless_it_is_waited_for() -> None:
    source = aligned(random(128))
    text = COPY.format("").replace("cp.async.wait_group 0;", "cp.async.wait_group 1;")
    late = run(text, source=source, policy=Adversarial(0, delay="late")).out
    assert set(late.tolist()) == {-1}


def test_cp_async_may_ignore_its_source() -> None:
    source = aligned(random(128))
    text = COPY.format(", %p1").replace("cp.async.cg", "setp.lt.u32 %p1, %r39, 5; cp.async.cg")
    expected = np.where(LANE < 5, 0, source[1::4])
    assert np.array_equal(run(text, source=source).out, expected)


def test_mbarrier_tracks_cp_async() -> None:
    source = aligned(random(128))
    outcome = run(
        f"""{ADDRESS.format(16)}{SHARED}
        setp.eq.s32 %p1, %r39, 0;
        @%p1 mbarrier.init.shared.b64 [%r20+512], 64;
        bar.sync 0;
        cp.async.ca.shared.global [%r21], [%rd2], 8;
        cp.async.mbarrier.arrive.noinc.shared.b64 [%r20+512];
        mbarrier.arrive.shared.b64 _, [%r20+512];
        W: mbarrier.try_wait.parity.shared.b64 %p2, [%r20+512], 0;
        @!%p2 bra W;
        ld.shared.b32 %r1, [%r21]; {store("%r1")}""",
        source=source,
        policy=Adversarial(0, delay="late"),
    )
    assert np.array_equal(outcome.out, source[0::4])


def test_st_async_completes_on_the_remote_mbarrier() -> None:
    outcome = run(
        f"""{SHARED}
        setp.eq.s32 %p1, %r39, 0; mov.u32 %r1, %cluster_ctarank;
        @%p1 mbarrier.init.shared.b64 [%r20+512], 1;
        @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r20+512], 128;
        barrier.cluster.arrive; barrier.cluster.wait;
        xor.b32 %r2, %r1, 1; mad.lo.s32 %r3, %r1, 100, %r39;
        mapa.shared::cluster.u32 %r4, %r20, %r2;
        shl.b32 %r5, %r39, 2; add.s32 %r5, %r5, %r4; add.s32 %r6, %r4, 512;
        st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%r5], %r3, [%r6];
        W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [%r20+512], 0;
        @!%p2 bra W;
        shl.b32 %r5, %r39, 2; add.s32 %r5, %r5, %r20; ld.shared.b32 %r7, [%r5]; {store("%r7")}
        barrier.cluster.arrive; barrier.cluster.wait;""",
        ctas=2,
        cluster=2,
        policy=Adversarial(1),
    )
    assert np.array_equal(outcome.out, np.concatenate([LANE + 100, LANE]))


def test_vectors_of_registers() -> None:
    """As inline assembly of quack and Triton writes them (PTX ISA 5.4.2)."""
    source = random(128)
    outcome = run(
        f"""{ADDRESS.format(16)}{SHARED}
        .reg .v4 .b32 %v, %w; .reg .v2 .b32 %u;
        ld.global.v4.b32 %v, [%rd2]; mov.v4.b32 %w, 0; mov.v4.u32 %w, %v;
        mov.v2.b32 {{%v.x, %v.y}}, {{%v.y, %v.x}}; add.s32 %w.z, %v.r, %w.b;
        mov.b64 %rd4, {{%w.z, %w.w}}; mov.b64 %u, %rd4; mov.v2.b32 {{%r1, %r2}}, %u;
        st.shared.v4.b32 [%r21], {{%v.x, %v.y, %u.x, %u.y}};
        ld.shared.v4.b32 %w, [%r21]; st.global.v4.b32 [%rd3], %w;""",
        elements=128,
        source=aligned(source),
    )
    x, y, z, w = source.reshape(32, 4).T
    with np.errstate(over="ignore"):
        assert np.array_equal(outcome.out.reshape(32, 4).T, [y, x, z + y, w])


@pytest.mark.parametrize(
    ("move", "message"),
    [("mov.v4.b32 %v, %r1;", "a vector or a literal"), ("mov.v2.b32 %v, 0;", "of 2 elements"),
     ("mov.v4.b32 %v, {%r1, %r2};", "of 4 elements"), ("add.s32 %v, %r1, 1;", "operand of type")],
)  # fmt: skip
def test_vectors_that_do_not_fit(move: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        run(f".reg .v4 .b32 %v; {move}")
