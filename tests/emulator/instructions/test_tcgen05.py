"""tcgen05: allocation, loads, stores, copies, commits, waits, and what they refuse."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from schedgen.emulator.layouts.descriptors import MatrixDescriptor
from schedgen.emulator.layouts.swizzle import Swizzle
from schedgen.emulator.layouts.tensor_memory import COPIES, SHAPES, moved
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.operations import Operation
from schedgen.emulator.machine.policies import Adversarial, RoundRobin
from schedgen.emulator.machine.switches import EmptyCommit, LaneInAddress, Switches
from schedgen.emulator.machine.warp import Warp
from schedgen.emulator.order.checker import Checker
from tests.emulator.instructions.launches import POLICIES, Order, aligned, launch
from tests.emulator.instructions.matrices import BASE, bring, encoded, put

ALLOCATE = """
mov.u32 %r0, smem; mov.u32 %r2, %tid.x; mov.u32 %r5, %warpid; mov.b32 %r6, 256;
setp.eq.u32 %p2, %r5, 0; setp.eq.u32 %p0, %r2, 0;
@!%p2 bra ALLOCATED;
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0+60000], %r6;
ALLOCATED: bar.sync 0; ld.shared.b32 %r8, [%r0+60000]; shl.b32 %r9, %r5, 21; add.u32 %r9, %r9, %r8;
"""
FREE = """
bar.sync 0; @!%p2 bra END;
tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, %r6;
END:
"""
WAIT_LOAD, WAIT_STORE = "tcgen05.wait::ld.sync.aligned;", "tcgen05.wait::st.sync.aligned;"


def names(count: int, first: int = 100) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def number(count: int, first: int = 100) -> str:
    """Registers get 1000 * thread + register."""
    return "mul.lo.u32 %r10, %r2, 1000;" + "".join(
        f"add.u32 %r{first + i}, %r10, {i};" for i in range(count)
    )


def save(count: int, first: int = 100) -> str:
    return f"""ld.param.u64 %rd3, [out]; mul.wide.u32 %rd4, %r2, {4 * count};
    add.u64 %rd3, %rd3, %rd4;""" + "".join(
        f"st.global.b32 [%rd3+{4 * i}], %r{first + i};" for i in range(count)
    )


def run(text: str, threads: int = 128, count: int = 128, **more: Any) -> NDArray[np.uint32]:
    """(threads, count) words that the program has stored to ``out``."""
    out = aligned((threads, count), np.uint32)
    launch(text, {"out": out, **more.pop("arrays", {})}, threads=threads, **more)
    return out


SIZES = [(shape, number) for shape, form in SHAPES.items() for number in (1, 4, form.most // 4)]


@pytest.mark.parametrize(("shape", "times"), SIZES)
def test_stores_and_loads_of_all_shapes(shape: str, times: int) -> None:
    """A store in one shape, a load of whole lanes."""
    count = SHAPES[shape].registers * times
    half = times + 1 if shape == "16x32bx2" else 0
    split = f", {half}" if half else ""
    width = 128
    text = f"""{ALLOCATE} {number(count)}
    tcgen05.st.sync.aligned.{shape}.x{times}.b32 [%r9]{split}, {names(count)}; {WAIT_STORE}
    tcgen05.ld.sync.aligned.32x32b.x{width}.b32 {names(width)}, [%r9]; {WAIT_LOAD}
    {save(width)} {FREE}"""
    found = run(text, count=width)
    expected = np.full((128, 512), 0xFFFFFFFF, np.uint32)
    cells = moved(shape, times, half=half)
    for warp in range(4):
        thread = 32 * warp + np.arange(32)
        values = 1000 * thread[None, :] + np.arange(count)[:, None]
        expected.reshape(-1)[cells + 32 * warp * 512] = values
    assert np.array_equal(found, expected[:, :width])


@pytest.mark.parametrize("shape", SHAPES)
def test_loads_are_the_inverse_of_stores(shape: str) -> None:
    times = 4
    count = SHAPES[shape].registers * times
    split = ", 8" if shape == "16x32bx2" else ""
    text = f"""{ALLOCATE} {number(count)}
    tcgen05.st.sync.aligned.{shape}.x{times}.unpack::16b.b32 [%r9]{split}, {names(count)};
    {WAIT_STORE}
    tcgen05.ld.sync.aligned.{shape}.x{times}.pack::16b.b32 {names(count, 200)}, [%r9]{split};
    {WAIT_LOAD} {save(count, 200)} {FREE}"""
    found = run(text, count=count)
    assert np.array_equal(found, 1000 * np.arange(128)[:, None] + np.arange(count))


@pytest.mark.parametrize(("shape", "lane"), [("32x32b", 0), ("16x64b", 0), ("16x64b", 16)])
def test_lanes_of_the_address_are_the_own_of_a_warp(shape: str, lane: int) -> None:
    """As epilogues of DeepGEMM have it: no warp adds its first lane (S27)."""
    text = f"""{ALLOCATE} {number(2)}
    add.u32 %r9, %r9, {lane << 16}; add.u32 %r12, %r8, {lane << 16};
    tcgen05.st.sync.aligned.{shape}.x2.b32 [%r12], {names(2)}; {WAIT_STORE}
    tcgen05.ld.sync.aligned.{shape}.x2.b32 {names(2, 200)}, [%r9]; {WAIT_LOAD}
    tcgen05.ld.sync.aligned.{shape}.x2.b32 {names(2, 202)}, [%r12]; {WAIT_LOAD}
    {save(4, 200)} {FREE}"""
    found = run(text, count=4)
    assert np.array_equal(found, 1000 * np.arange(128)[:, None] + np.array([0, 1, 0, 1]))
    with pytest.raises(EmulationError, match=r"begins in lane \d+; warp [123] .*rule C16"):
        run(text, switches=Switches(lane_in_address=LaneInAddress.AS_WRITTEN))


def test_unpacking_puts_halves_into_two_columns() -> None:
    text = f"""{ALLOCATE} mov.b32 %r100, 0x00020001; mov.b32 %r101, 0x00040003;
    tcgen05.st.sync.aligned.32x32b.x2.unpack::16b.b32 [%r9], {names(2)}; {WAIT_STORE}
    tcgen05.ld.sync.aligned.32x32b.x4.b32 {names(4, 200)}, [%r9]; {save(4, 200)} {FREE}"""
    assert (run(text, count=4) == [1, 2, 3, 4]).all()


@pytest.mark.parametrize("policy", POLICIES)
def test_a_register_of_a_load_may_be_used_without_a_wait(policy: Order) -> None:
    """Every way to touch a register, the load being as late as possible."""
    text = f"""{ALLOCATE} {number(8)}
    tcgen05.st.sync.aligned.32x32b.x8.b32 [%r9], {names(8)}; {WAIT_STORE}
    tcgen05.ld.sync.aligned.32x32b.x8.b32 {names(8, 200)}, [%r9];
    mov.b32 %r300, %r200;
    add.u32 %r301, %r201, 1;
    cvt.rn.f32.u32 %f2, %r202; mov.b32 %r302, %f2;
    mul.wide.u32 %rd10, %r2, 4; cvt.u32.u64 %r20, %rd10; add.u32 %r20, %r20, %r0;
    st.shared.b32 [%r20], %r203; ld.shared.b32 %r303, [%r20];
    shfl.sync.idx.b32 %r304, %r204, 0, 31, -1;
    setp.gt.u32 %p4, %r205, 5; selp.b32 %r305, %r205, 0, %p4;
    setp.lt.u32 %p5, %r2, 16; @%p5 mov.b32 %r206, 7; mov.b32 %r306, %r206;
    prmt.b32 %r307, %r207, %r207, 0x1032;
    {WAIT_LOAD} {save(8, 300)} {FREE}"""
    found = run(text, count=8, policy=policy)
    thread = np.arange(128, dtype=np.uint32)
    start = 1000 * thread
    assert np.array_equal(found[:, 0], start)
    assert np.array_equal(found[:, 1], start + 2)
    assert np.array_equal(found[:, 2].view(np.float32), start + 2)
    assert np.array_equal(found[:, 3], start + 3)
    assert np.array_equal(found[:, 4], 1000 * (thread // 32 * 32) + 4)
    assert np.array_equal(found[:, 5], np.where(start + 5 > 5, start + 5, 0))
    assert np.array_equal(found[:, 6], np.where(thread < 16, 7, start + 6))
    swapped = (start + 7) >> 16 | (start + 7) << 16
    assert np.array_equal(found[:, 7], swapped)


def test_a_late_load_sees_what_overwrites_its_cells() -> None:
    """Without wait::ld nothing orders the load before a store to the same cells (C8)."""
    text = f"""{ALLOCATE} {number(1)} {number(1, 101)}
    tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {names(1)}; {WAIT_STORE}
    tcgen05.ld.sync.aligned.32x32b.x1.b32 {names(1, 200)}, [%r9];
    mov.b32 %r101, 5; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {names(1, 101)}; {WAIT_STORE}
    {save(1, 200)} {FREE}"""
    found = {
        int(run(text, count=1, policy=partial(Adversarial, seed, "mixed"))[3, 0])
        for seed in range(12)
    }
    assert found == {3000, 5}


@pytest.mark.parametrize("key", COPIES)
@pytest.mark.parametrize("mode", [Swizzle.NONE, Swizzle.B128])
def test_copies_from_shared_memory(key: tuple[str, str], mode: Swizzle) -> None:
    shape, multicast = key
    copy = COPIES[key]
    random = np.random.default_rng(0)
    words = random.integers(0, 1 << 32, (copy.rows, copy.bits // 32), np.uint32)
    image = aligned((32 * 1024,), np.uint8)
    strides = (2048, 128) if mode is Swizzle.NONE else (16, 1024)
    matrix = MatrixDescriptor(BASE, *strides, mode)
    put(image, matrix, words.view(np.uint8), k_major=True)
    name = f"tcgen05.cp.cta_group::1.{shape}{'.' + multicast if multicast else ''}"
    text = f"""{bring(32 * 1024)} {ALLOCATE}
    mov.b64 %rd10, {encoded(matrix, tcgen05=True)}; add.u32 %r11, %r8, 3;
    @%p0 {name} [%r11], %rd10;
    @%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1+8];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1+8], 0;
    @!%p1 bra W;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x16.b32 {names(16)}, [%r9]; {WAIT_LOAD} {save(16)} {FREE}"""
    found = run(text, count=16, arrays={"image": image})
    expected = np.full((128, 16), 0xFFFFFFFF, np.uint32)
    for lanes in copy.lanes:
        expected[list(lanes), 3 : 3 + copy.bits // 32] = words
    assert np.array_equal(found, expected)


@pytest.mark.parametrize(("format_", "bits"), [("b4x16_p64", 4), ("b6x16_p32", 6)])
def test_copies_that_decompress_put_codes_into_the_middle_of_bytes(format_: str, bits: int) -> None:
    copy = COPIES["128x256b", ""]
    random = np.random.default_rng(0)
    codes = random.integers(0, 1 << bits, (copy.rows, copy.bits // 8), np.uint8)
    packed = [
        sum(int(code) << bits * n for n, code in enumerate(group)).to_bytes(16, "little")
        for group in codes.reshape(-1, 16)
    ]
    rows = np.frombuffer(b"".join(packed), np.uint8).reshape(codes.shape)
    image = aligned((32 * 1024,), np.uint8)
    matrix = MatrixDescriptor(BASE, 2048, 128, Swizzle.NONE)
    put(image, matrix, rows, k_major=True)
    text = f"""{bring(32 * 1024)} {ALLOCATE}
    mov.b64 %rd10, {encoded(matrix, tcgen05=True)};
    @%p0 tcgen05.cp.cta_group::1.128x256b.b8x16.{format_} [%r8], %rd10;
    @%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r1+8];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1+8], 0;
    @!%p1 bra W;
    tcgen05.fence::after_thread_sync;
    tcgen05.ld.sync.aligned.32x32b.x8.b32 {names(8)}, [%r9]; {WAIT_LOAD} {save(8)} {FREE}"""
    found = run(text, count=8, arrays={"image": image})
    assert np.array_equal(found.view(np.uint8), codes << (8 - bits) // 2)


def test_allocation_blocks_until_columns_are_free() -> None:
    """Two warps want all columns; the second gets them when the first has freed them: a counter of
    warps that have columns is never seen above one.
    """
    text = f"""
    mov.u32 %r0, smem; mov.u32 %r2, %tid.x; mov.u32 %r5, %warpid; mov.b32 %r6, 512;
    setp.eq.u32 %p2, %r2, 0; and.b32 %r3, %r2, 31; setp.eq.u32 %p0, %r3, 0;
    @%p2 st.shared.b32 [%r0+64], 0; bar.sync 0;
    shl.b32 %r7, %r5, 2; add.u32 %r7, %r7, %r0;
    tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r7], %r6;
    ld.shared.b32 %r100, [%r7];
    @%p0 atom.shared.add.u32 %r12, [%r0+64], 1; bar.warp.sync -1;
    ld.shared.b32 %r101, [%r0+64]; bar.warp.sync -1;
    ld.shared.b32 %r102, [%r0+64]; bar.warp.sync -1;
    @%p0 atom.shared.add.u32 %r12, [%r0+64], -1; bar.warp.sync -1;
    tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r100, %r6;
    {save(3)}
    """
    for policy in POLICIES:
        found = run(text, threads=64, count=3, policy=policy)
        assert found.tolist() == [[0, 1, 1]] * 64


PAIR = """
mov.u32 %r0, smem; mov.u32 %r2, %tid.x; mov.u32 %r3, %cluster_ctarank; mov.b32 %r6, 128;
tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r0], %r6;
ld.shared.b32 %r8, [%r0];
{middle}
tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r8, %r6;
{end}
"""
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"


@pytest.mark.parametrize("policy", POLICIES)
def test_pairs_allocate_together(policy: Order) -> None:
    text = PAIR.format(middle=MEET, end="")
    run(text, threads=32, grid=2, cluster=2, policy=policy)


class Sticky(RoundRobin):
    """The same warp as long as it can run: who meets it in an allocation falls behind."""

    def __init__(self) -> None:
        super().__init__(quantum=1)
        self._last: Warp | None = None

    def pick(self, ready: Sequence[Warp], pending: Sequence[Operation]) -> int:
        if pending:
            return len(ready)
        at = next((n for n, warp in enumerate(ready) if warp is self._last), 0)
        self._last = ready[at]
        return at


def test_the_columns_of_a_pair_are_allocated_at_once() -> None:
    """A CTA that returns from the allocation may copy into both, wherever the peer's warp is."""
    middle = f"""@%p0 tcgen05.cp.cta_group::2.4x256b [%r8], %rd10;
    @%p0 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%r1];
    W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], 0; @!%p1 bra W; {MEET}"""
    setup = """mov.u32 %r1, smem; add.u32 %r1, %r1, 8192; mov.u32 %r2, %tid.x;
    setp.eq.u32 %p0, %r2, 0; @%p0 mbarrier.init.shared::cta.b64 [%r1], 1;
    barrier.cluster.arrive; barrier.cluster.wait;"""
    matrix = MatrixDescriptor(BASE, 128, 128, Swizzle.NONE)
    descriptor = f"mov.b64 %rd10, {encoded(matrix, tcgen05=True)};"
    text = f"{setup} {descriptor} {PAIR.format(middle=middle, end='')}"
    run(text, threads=32, grid=2, cluster=2, policy=Sticky)


def test_deallocation_in_one_cta_before_the_barrier_hangs() -> None:
    """The ISA's example of a nondeterministic hang (C14, Table 48)."""
    text = PAIR.format(
        middle=f"setp.eq.u32 %p0, %r3, 0; @!%p0 bra ODD; {MEET} ODD:",
        end=f"@%p0 bra EVEN; {MEET} EVEN:",
    )
    with pytest.raises(EmulationError, match=r"tcgen05\.dealloc number 1 in the peer of CTA"):
        run(text, threads=32, grid=2, cluster=2)
    run(text, threads=32, grid=2, cluster=2, switches=Switches(dealloc_blocks=False))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ALLOCATE, r"256 columns at column 0 are not deallocated.*C14"),
        (ALLOCATE.replace("256", "96"), r"96 columns; allowed are powers of two in 32…512.*C12"),
        (
            f"{ALLOCATE} tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r8, 128;",
            r"128 columns at column 0 are no allocation",
        ),
        *(
            (
                f"""{ALLOCATE} add.u32 %r12, %r8, {more};
                tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r12, 64;""",
                rf"dealloc.*: 64 columns at column {column} are no allocation; allocated: 256",
            )
            for more, column in ((480, 480), (600, 600), (-1, 0xFFFFFFFF), (1 << 21, 1 << 21))
        ),
        (
            f"{ALLOCATE} tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;",
            r"cta_group::2, but PTX line \d+ uses cta_group::1.*C15",
        ),
        (
            f"""{ALLOCATE} tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
            tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r0], 32;""",
            r"allocation after relinquish_alloc_permit",
        ),
        (
            f"{ALLOCATE} tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r100}}, [%r8+2097152];",
            r"lane 32; .*reaches lanes \d+ to \d+ and \.32x32b begins in lane \d+ \(rule C16\)",
        ),
        (
            f"{ALLOCATE} tcgen05.ld.sync.aligned.16x64b.x1.b32 {{%r100}}, [%r9+524288];",
            r"\.16x64b begins in lane \d+ or \d+ \(rule C16\)",
        ),
        (
            f"{ALLOCATE} tcgen05.ld.sync.aligned.32x32b.x2.b32 {names(2)}, [%r9+255];",
            r"\.32x32b in column 256 of CTA .* not allocated",
        ),
        (
            f"{ALLOCATE} tcgen05.ld.sync.aligned.32x32b.x2.b32 {names(2)}, [%r9+511];",
            r"columns 511 to 512 of tensor memory, which has 512",
        ),
        (
            f"{ALLOCATE} add.u32 %r9, %r9, %r2; "
            "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r100}, [%r9];",
            r"taddr differs between the lanes",
        ),
        (
            f"{ALLOCATE} tcgen05.ld.sync.aligned.32x32b.x4.b32 {names(3)}, [%r9];",
            r"3 registers; \.32x32b\.x4 moves 4",
        ),
        (
            f"{ALLOCATE} tcgen05.ld.sync.aligned.16x256b.x64.b32 {names(3)}, [%r9];",
            r"\.16x256b has no \.x64",
        ),
        (
            f"""{ALLOCATE} tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%r100}}, [%r9]; {FREE}
            add.u32 %r101, %r100, 1;""",
            r"which was deallocated while this was under way",
        ),
        (
            f"{ALLOCATE} @%p0 tcgen05.cp.cta_group::1.64x128b [%r8], %rd10;",
            r"\.64x128b needs a multicast of \.warpx2::02_13 or \.warpx2::01_23",
        ),
        (
            f"""{ALLOCATE} @%p0 tcgen05.commit.cta_group::1.mbarrier::arrive::one\
.shared::cluster.b64 [%r0];""",
            r"no mbarrier is initialized at shared offset 0x400",
        ),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        run(text, threads=128, policy=partial(Adversarial, 0, "late"), tracker=Checker(4))


def test_tensor_memory_needs_blackwell() -> None:
    with pytest.raises(EmulationError, match="tcgen05 needs sm_100a, not sm_90a"):
        run(ALLOCATE, target="sm_90a")


def empty_commit(switches: Switches) -> None:
    """Rank 0 commits to both CTAs without any product; both wait."""
    text = f"""
    mov.u32 %r0, smem; mov.u32 %r2, %tid.x; mov.u32 %r3, %cluster_ctarank;
    setp.eq.u32 %p0, %r2, 0; setp.eq.u32 %p2, %r3, 0; and.pred %p3, %p0, %p2; mov.b16 %rs0, 3;
    @%p0 mbarrier.init.shared::cta.b64 [%r0], 1; @%p0 fence.mbarrier_init.release.cluster; {MEET}
    @%p3 tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 \
[%r0], %rs0;
    W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r0], 0;
    @!%p1 bra W; {MEET}"""
    run(text, threads=32, grid=2, cluster=2, switches=switches)


def test_a_commit_with_nothing_to_track_signals_the_own_cta() -> None:
    with pytest.raises(EmulationError, match="deadlock"):
        empty_commit(Switches())
    empty_commit(Switches(empty_commit=EmptyCommit.ALL))
