"""wgmma against integer sums, and what it refuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from schedgen.emulator.instructions.wgmma_mma import Mma
from schedgen.emulator.layouts import fragments
from schedgen.emulator.layouts.descriptors import MatrixDescriptor
from schedgen.emulator.layouts.formats import to_float32
from schedgen.emulator.layouts.swizzle import Swizzle
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.warp import Warp
from tests.emulator.instructions.launches import POLICIES, Order, aligned, launch
from tests.emulator.instructions.matrices import BASE, bring, codes, encoded, put

SIZE = 48 * 1024
FENCE, COMMIT = "wgmma.fence.sync.aligned;", "wgmma.commit_group.sync.aligned;"
B_AT = 16 * 1024


def registers(count: int, first: int = 100) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def store(count: int, first: int = 100) -> str:
    """Every thread stores its registers to ``out``."""
    stores = "".join(f"st.global.b32 [%rd3+{4 * i}], %r{first + i};\n" for i in range(count))
    return f"""ld.param.u64 %rd3, [out]; mul.wide.u32 %rd4, %r2, {4 * count};
    add.u64 %rd3, %rd3, %rd4; {stores}"""


def operands(
    a: str, b: str, n: int, *, mode: Swizzle = Swizzle.B128, mn_major: bool = False
) -> tuple[NDArray[np.uint8], NDArray[Any], NDArray[Any], str]:
    """A shared-memory image, A, B and code that puts their descriptors into %rd10 and %rd11."""
    random = np.random.default_rng(0)
    low = 0 if "u8" in (a, b) else -3
    k = 256 // (8 * codes(np.zeros(1), a).dtype.itemsize)
    left = random.integers(low, 4, (64, k))
    right = random.integers(low, 4, (n, k))
    image = aligned((SIZE,), np.uint8)
    image[...] = 0xFF
    descriptors: list[int] = []
    for start, matrix, format_ in ((0, left, a), (B_AT, right, b)):
        strides = (128, 256) if mode is Swizzle.NONE else (4096, 1024)
        where = MatrixDescriptor(BASE + start, *strides, mode)
        put(image, where, codes(matrix, format_), k_major=not mn_major)
        descriptors.append(encoded(where, tcgen05=False))
    text = f"mov.b64 %rd10, {descriptors[0]}; mov.b64 %rd11, {descriptors[1]};"
    return image, left, right, text


def matrix(out: NDArray[np.uint32], n: int, d: str) -> NDArray[Any]:
    """D from the registers that all threads have stored."""
    found = out.reshape(128, -1).T
    if d == "f16":
        words = fragments.from_accumulator(fragments.halves(np.ascontiguousarray(found)))
        return to_float32(words.astype(np.uint16), "f16")
    return fragments.from_accumulator(found).copy().view(np.float32 if d == "f32" else np.int32)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    ("d", "a", "b", "n", "options"),
    [
        ("f32", "f16", "f16", 64, "1, 1, 0, 0"),
        ("f16", "f16", "f16", 32, "-1, 1, 0, 0"),
        ("f32", "bf16", "bf16", 8, "-1, -1, 0, 0"),
        ("f32", "tf32", "tf32", 24, "1, -1"),
        ("f32", "e4m3", "e5m2", 256, "1, 1"),
        ("s32", "u8", "s8", 48, ""),
    ],
)
def test_all_types(policy: Order, d: str, a: str, b: str, n: int, options: str) -> None:
    image, left, right, text = operands(a, b, n)
    count = n // 4 if d == "f16" else n // 2
    k = left.shape[1]
    mma = f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{d}.{a}.{b} {registers(count)}"
    rest = f", {options}" if options else ""
    # D = A B (+ D, twice): scale-d is false at first
    program = f"""{bring(SIZE)} {text} setp.ne.u32 %p2, 0, 0; setp.eq.u32 %p3, 0, 0;
    {FENCE} {mma}, %rd10, %rd11, %p2{rest}; {mma}, %rd10, %rd11, %p3{rest}; {COMMIT}
    {mma}, %rd10, %rd11, %p3{rest}; {COMMIT}
    wgmma.wait_group.sync.aligned 1; wgmma.wait_group.sync.aligned 0; {store(count)}"""
    out = aligned((128 * count,), np.uint32)
    launch(program, {"image": image, "out": out}, threads=128, target="sm_90a", policy=policy)
    sign = -1 if options.count("-1") == 1 else 1
    assert np.array_equal(matrix(out, n, d), 3 * sign * (left @ right.T))


@pytest.mark.parametrize("mode", [Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128])
def test_transposed_operands(mode: Swizzle) -> None:
    image, left, right, text = operands("f16", "f16", 64, mode=mode, mn_major=True)
    program = f"""{bring(SIZE)} {text} setp.ne.u32 %p2, 0, 0; {FENCE}
    wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {registers(32)}, %rd10, %rd11, %p2, \
1, 1, 1, 1; {COMMIT} wgmma.wait_group.sync.aligned 0; {store(32)}"""
    out = aligned((128 * 32,), np.uint32)
    launch(program, {"image": image, "out": out}, threads=128, target="sm_90a")
    assert np.array_equal(matrix(out, 64, "f32"), left @ right.T)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("a", ["f16", "tf32", "e4m3"])
def test_a_in_registers(policy: Order, a: str) -> None:
    image, left, right, text = operands(a, a, 64)
    k = left.shape[1]
    words = codes(left, a).view(np.uint32)  # (64, 8)
    thread, register = np.meshgrid(np.arange(128), np.arange(4), indexing="ij")
    row = 16 * (thread // 32) + thread // 4 % 8 + 8 * (register % 2)
    held = words[row, thread % 4 + 4 * (register // 2)]
    image[-128 * 16 :] = np.ascontiguousarray(held).view(np.uint8).reshape(-1)
    options = "1, 1" if a != "f16" else "1, 1, 0"
    program = f"""{bring(SIZE)} {text} setp.ne.u32 %p2, 0, 0; shl.b32 %r5, %r2, 4;
    add.u32 %r5, %r5, %r0; ld.shared.v4.b32 {{%r90, %r91, %r92, %r93}}, [%r5+{SIZE - 2048}];
    {FENCE} wgmma.mma_async.sync.aligned.m64n64k{k}.f32.{a}.{a} {registers(32)}, \
{{%r90, %r91, %r92, %r93}}, %rd11, %p2, {options}; {COMMIT}
    wgmma.wait_group.sync.aligned 0; {store(32)}"""
    out = aligned((128 * 32,), np.uint32)
    launch(program, {"image": image, "out": out}, threads=128, target="sm_90a", policy=policy)
    assert np.array_equal(matrix(out, 64, "f32"), left @ right.T)


def attempt(text: str, threads: int = 128, target: str = "sm_90a") -> NDArray[np.uint32]:
    image, _, _, descriptors = operands("f16", "f16", 8)
    program = f"""{bring(SIZE)} {descriptors} setp.ne.u32 %p2, 0, 0; setp.eq.u32 %p3, 0, 0;
    {text}"""
    out = aligned((threads * 4,), np.uint32)
    launch(program, {"image": image, "out": out}, threads=threads, target=target)
    return out


MMA = f"wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {registers(4)}, %rd10, %rd11"
FIRST, AGAIN = f"{MMA}, %p2, 1, 1, 0, 0;", f"{MMA}, %p3, 1, 1, 0, 0;"
WAIT = "wgmma.wait_group.sync.aligned 0;"


def test_results_can_be_changed_between_products() -> None:
    once = attempt(f"{FENCE} {FIRST} {COMMIT} {WAIT} {store(4)}").view(np.float32)
    double = "mov.b32 %f1, %r100; add.f32 %f1, %f1, %f1; mov.b32 %r100, %f1;"
    found = attempt(
        f"{FENCE} {FIRST} {COMMIT} {WAIT} {double} {FENCE} {AGAIN} {COMMIT} {WAIT} {store(4)}"
    ).view(np.float32)
    factors = np.array([3, 2, 2, 2], np.float32)
    assert np.array_equal(found.reshape(-1, 4), once.reshape(-1, 4) * factors)


REFUSED = [
    (f"{FIRST} {COMMIT} {WAIT}", r"%r100 of D: there was no wgmma.fence before.*W2"),
    (
        f"{FENCE} mov.b32 %r101, 5; {FIRST} {COMMIT} {WAIT}",
        r"%r101 of D: a thread has accessed it since the last wgmma.fence.*W2",
    ),
    (
        f"{FENCE} {FIRST} {COMMIT} {WAIT} {store(4)} {AGAIN} {COMMIT} {WAIT}",
        r"a thread has accessed it since the last wgmma.fence",
    ),
    (
        f"{FENCE} {FIRST} {COMMIT} {store(4)}",
        r"st.global.b32: register %r100 belongs to the wgmma.mma_async of PTX line.*W5",
    ),
    (
        f"{FENCE} {FIRST} {WAIT} {store(4)}",
        r"which no wgmma.wait_group has waited for",
    ),
    (
        f"{FENCE} {FIRST} {COMMIT} wgmma.wait_group.sync.aligned 1; add.u32 %r5, %r102, 1;",
        r"add.u32: register %r102 belongs to the wgmma",
    ),
    (FIRST.replace("%p2, 1", "%p2, 2"), "allowed are 1 and -1"),
    (FIRST.replace("n8", "n12"), "no shape m64n12k16 for .f16"),
    (FIRST.replace(".f32.f16.f16", ".f16.bf16.bf16"), "no product of .bf16 and .bf16"),
    (FIRST.replace("n8", "n16"), "4 registers for D, 8 expected"),
    (
        f"mov.b64 %rd11, {(1 << 62) | 0x3FC0 | 64 << 32}; {FENCE} {FIRST}",
        "beyond the 0x[0-9a-f]+ bytes of the CTA",
    ),
    (
        f"shr.u32 %r6, %r2, 5; cvt.u64.u32 %rd12, %r6; add.u64 %rd11, %rd11, %rd12; "
        f"{FENCE} {FIRST}",
        "gives other descriptors or scale-d.*W1",
    ),
    (
        f"setp.lt.u32 %p4, %r2, 32; {FENCE} @%p4 bra A; {FIRST} bra B; A: {FIRST} B: {COMMIT}",
        "executes this, but .* executed PTX line.*W1",
    ),
    (
        f"{FENCE} setp.lt.u32 %p4, %r2, 32; @%p4 bra A; {FIRST} {COMMIT} {WAIT} A:",
        "deadlock",
    ),
    (f"{FENCE} setp.lt.u32 %p4, %r2, 8; @%p4 {FIRST}", "all lanes of the warp"),
]


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        attempt(text)


CHAIN = f"{FENCE} {FIRST} {AGAIN} {COMMIT} {AGAIN} {COMMIT} {WAIT} {FENCE} {AGAIN} {COMMIT} {WAIT}"
HELD = f"""wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {registers(4)}, \
{registers(4, 90)}, %rd11, %p2, 1, 1, 0;"""


@pytest.mark.parametrize(
    "text",
    [
        f"{CHAIN} {store(4)}",
        f"{FENCE} {HELD} {COMMIT} {WAIT} {store(4)}",
        f"{FENCE} mov.b32 %r91, 1; {HELD}",
        f"{FENCE} mov.b32 %r100, 0; {FIRST} {COMMIT} {WAIT} {store(4)}",
        *(text for text, _ in REFUSED),
    ],
)
def test_warps_side_by_side(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They do what they do one after the other."""

    def outcome() -> list[int] | str:
        try:
            return attempt(text).tolist()
        except EmulationError as problem:
            return str(problem)

    found = outcome()

    def apart(*_: object) -> bool:
        return False

    monkeypatch.setattr(Mma, "several", apart)
    assert found == outcome()


def test_warps_are_executed_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    several, done = Mma.several, list[bool]()

    def noted(self: Mma, warps: Sequence[Warp]) -> bool:
        done.append(several(self, warps))
        return done[-1]

    monkeypatch.setattr(Mma, "several", noted)
    attempt(CHAIN)
    assert done == [True] * 4


def test_accumulators_may_be_cleared_behind_the_fence() -> None:
    clear = "mov.b32 %r100, 0; mov.b32 %r101, %r100;"
    attempt(f"{FENCE} {clear} {FIRST} {COMMIT} {WAIT} {store(4)}")


def test_operands_in_registers_stay_as_they_are() -> None:
    mma = f"""wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {registers(4)}, \
{registers(4, 90)}, %rd11, %p2, 1, 1, 0;"""
    with pytest.raises(EmulationError, match=r"%r92 of A was overwritten after.*W5"):
        attempt(f"{FENCE} {mma} {COMMIT} mov.b32 %r92, 1; {WAIT}")
    with pytest.raises(EmulationError, match=r"%r91 of A: a thread has accessed it"):
        attempt(f"{FENCE} mov.b32 %r91, 1; {mma}")


def test_four_warps_and_the_right_target() -> None:
    with pytest.raises(EmulationError, match=r"a warpgroup of 2 warps; wgmma needs four"):
        attempt(FENCE, threads=64)
    with pytest.raises(EmulationError, match="wgmma exists on sm_90a, not on sm_100a"):
        attempt(FENCE, target="sm_100a")
