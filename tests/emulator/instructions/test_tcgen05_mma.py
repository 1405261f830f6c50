"""tcgen05.mma against integer sums: all layouts of D, both groups, A in both memories."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from schedgen.emulator.layouts.descriptors import MatrixDescriptor
from schedgen.emulator.layouts.formats import to_float32
from schedgen.emulator.layouts.swizzle import Swizzle
from schedgen.emulator.layouts.tensor_memory import data_path, from_window, window
from schedgen.emulator.machine.lanes import EmulationError
from schedgen.emulator.machine.policies import RoundRobin
from tests.emulator.instructions.launches import POLICIES, Order, aligned, launch
from tests.emulator.instructions.matrices import BASE, bring, codes, encoded, put

SIZE = 56 * 1024
B_AT, SCALES_AT = 16 * 1024, 40 * 1024
TYPES = {"f16": 0, "bf16": 1, "tf32": 2, "e4m3": 0, "e5m2": 1, "u8": 0, "s8": 1, "e2m1": 1}
RESULTS = {"f16": 0, "f32": 1, "s32": 2}
LENGTHS = {"f16": 16, "tf32": 8, "f8f6f4": 32, "i8": 32, "mxf8f6f4": 32, "mxf4nvf4": 64}


@dataclass
class Case:
    """A product and everything that runs it."""

    kind: str = "f16"
    a: str = "f16"
    b: str = "f16"
    d: str = "f32"
    m: int = 128
    n: int = 64
    group: int = 1
    stationary: bool = False
    transposed: bool = False
    options: int = 0
    modifiers: str = ""
    tail: str = ""
    times: int = 2
    column: int = 0
    lane: int = 0
    left: NDArray[Any] = field(init=False)
    right: NDArray[Any] = field(init=False)

    def __post_init__(self) -> None:
        random = np.random.default_rng(0)
        low = 0 if "u8" in (self.a, self.b) else -3
        self.left = random.integers(low, 4, (self.m, LENGTHS[self.kind]))
        self.right = random.integers(low, 4, (self.n, LENGTHS[self.kind]))

    @property
    def descriptor(self) -> int:
        value = RESULTS[self.d] << 4 | TYPES[self.a] << 7 | TYPES[self.b] << 10
        value |= self.transposed * 3 << 15 | self.n >> 3 << 17 | self.m >> 4 << 24
        return value | self.options

    def matrices(self) -> tuple[NDArray[np.uint8], list[int]]:
        """Shared-memory images of all CTAs, and the descriptors of A and B."""
        image = aligned((self.group * SIZE,), np.uint8)
        image[...] = 0xFF
        mode = Swizzle.B128
        if self.transposed and self.kind == "tf32":
            mode = Swizzle.B128_ATOM32
        found: list[int] = []
        for start, matrix, format_ in ((0, self.left, self.a), (B_AT, self.right, self.b)):
            where = MatrixDescriptor(BASE + start, 4096, 1024, mode)
            elements = codes(matrix, format_)
            if format_ == "e2m1":  # two per byte
                elements = elements[:, ::2] | elements[:, 1::2] << 4
            each = elements.reshape(self.group, -1, elements.shape[1])
            for rank in range(self.group):
                part = image[rank * SIZE : (rank + 1) * SIZE]
                put(part, where, each[rank], k_major=not self.transposed)
            found.append(encoded(where, tcgen05=True))
        return image, found

    def result(self, out: NDArray[np.uint32]) -> NDArray[Any]:
        """D from the tensor memory of all CTAs."""
        path = data_path(self.group, self.m, stationary=self.stationary)
        parts: list[NDArray[Any]] = []
        for words in out.reshape(self.group, 128, 128):
            memory = np.zeros((128, 512), np.uint32)
            memory[:, :128] = words
            width = path.width(self.n)
            parts.append(from_window(path, window(memory, path, self.lane, self.column, width)))
        found = np.concatenate(parts)
        if self.d == "f16":
            return to_float32(found, "f16")
        return found.copy().view(np.float32 if self.d == "f32" else np.int32)


ALLOCATE = """
mov.u32 %r5, %warpid; setp.eq.u32 %p2, %r5, 0; mov.b32 %r6, 256; add.u32 %r7, %r1, 16;
@!%p2 bra ALLOCATED;
tcgen05.alloc.cta_group::{group}.sync.aligned.shared::cta.b32 [%r7], %r6;
tcgen05.relinquish_alloc_permit.cta_group::{group}.sync.aligned;
ALLOCATED: barrier.cluster.arrive; barrier.cluster.wait; ld.shared.b32 %r8, [%r7];
setp.eq.u32 %p3, %r3, 0; and.pred %p3, %p3, %p0; setp.ne.u32 %p4, 0, 0; setp.eq.u32 %p5, 0, 0;
"""
ARRIVE = "tcgen05.commit.cta_group::{group}.mbarrier::arrive::one.shared::cluster"
DONE = """
DONE: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1+8], 0;
@!%p1 bra DONE;
tcgen05.fence::after_thread_sync;
"""
FREE = """
barrier.cluster.arrive; barrier.cluster.wait;
@!%p2 bra END;
tcgen05.dealloc.cta_group::{group}.sync.aligned.b32 %r8, %r6;
END:
"""


def commit(group: int) -> str:
    if group == 1:
        return f"@%p3 {ARRIVE}.b64 [%r1+8];"
    return f"mov.b16 %rs0, 3; @%p3 {ARRIVE}.multicast::cluster.b64 [%r1+8], %rs0;"


def dump() -> str:
    """Stores 128 columns of all lanes to ``out``, after a warpgroup has loaded them."""
    registers = ", ".join(f"%r{100 + i}" for i in range(128))
    stores = "".join(f"st.global.b32 [%rd3+{4 * i}], %r{100 + i};\n" for i in range(128))
    return f"""shl.b32 %r9, %r5, 21; add.u32 %r9, %r9, %r8;
    tcgen05.ld.sync.aligned.32x32b.x128.b32 {{{registers}}}, [%r9];
    tcgen05.wait::ld.sync.aligned;
    tcgen05.fence::before_thread_sync;
    ld.param.u64 %rd3, [out]; mad.lo.u32 %r10, %r3, 128, %r2; mul.wide.u32 %rd4, %r10, 512;
    add.u64 %rd3, %rd3, %rd4; {stores}"""


def program(case: Case, before: str = "", a: str = "%rd10", operands: str = "") -> str:
    group, ws = case.group, ".ws" if case.stationary else ""
    image_descriptors = case.matrices()[1]
    mma = f"tcgen05.mma{ws}.cta_group::{group}.kind::{case.kind}{case.modifiers}"
    where = case.lane << 16 | case.column
    steps = "".join(
        f"@%p3 {mma} [%r11], {a}, %rd11, %r12{operands}, %p{5 if step else 4}{case.tail};\n"
        for step in range(case.times)
    )
    text = f"""{bring(SIZE)} {ALLOCATE} add.u32 %r11, %r8, {where}; mov.b32 %r12, {case.descriptor};
    mov.b64 %rd10, {image_descriptors[0]}; mov.b64 %rd11, {image_descriptors[1]};
    {before} {steps} {commit(group)} {DONE} {dump()} {FREE}"""
    return text.replace("{group}", str(group))


def run(case: Case, policy: Order = RoundRobin, **more: Any) -> NDArray[Any]:
    out = aligned((case.group * 128 * 128,), np.uint32)
    image = more.pop("image", None)
    arrays = {"image": case.matrices()[0] if image is None else image, "out": out}
    launch(
        program(case, **more), arrays, threads=128, grid=case.group, cluster=case.group,
        policy=policy,
    )  # fmt: skip
    return case.result(out)


CASES = {
    "D": Case(),
    "D f16": Case(d="f16", n=16, column=100),
    "D bf16": Case(a="bf16", b="bf16", n=128),
    "D tf32": Case(kind="tf32", a="tf32", b="tf32"),
    "D fp8": Case(kind="f8f6f4", a="e4m3", b="e5m2"),
    "D i8": Case(kind="i8", a="s8", b="u8", d="s32"),
    "D transposed": Case(transposed=True),
    "D tf32 transposed": Case(kind="tf32", a="tf32", b="tf32", transposed=True),
    "F": Case(m=64),
    "F upper": Case(m=64, lane=16),
    "E": Case(m=64, n=128, stationary=True),
    "G": Case(m=32, stationary=True),
    "A": Case(m=256, group=2),
    "A transposed": Case(m=256, n=128, group=2, transposed=True),
    "B": Case(m=128, n=128, group=2),
    "negated": Case(options=1 << 13),
    "collector": Case(modifiers=".collector::a::lastuse"),
}


@pytest.mark.parametrize("name", CASES)
def test_layouts_and_types(name: str) -> None:
    case = CASES[name]
    sign = -1 if case.options else 1
    assert np.array_equal(run(case), sign * 2 * (case.left @ case.right.T))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("group", [1, 2])
def test_orders_of_events(policy: Order, group: int) -> None:
    case = Case(m=128 * group, group=group)
    assert np.array_equal(run(case, policy), 2 * (case.left @ case.right.T))


def test_d_may_be_scaled_down() -> None:
    case = Case(tail=", 1", times=3)
    product = case.left @ case.right.T
    assert np.array_equal(run(case), product * (1 + 0.5 + 0.25))


def test_lanes_may_be_left_out() -> None:
    case = Case(times=2)
    masked = ", {%r20, %r21, %r22, %r23}"
    text = "mov.b32 %r20, 1; mov.b32 %r21, 0; mov.b32 %r22, 0; mov.b32 %r23, 0x80000000;"
    found = run(case, before=text, operands=masked)
    product = 2 * (case.left @ case.right.T)
    assert np.array_equal(found[1:127], product[1:127])
    assert np.isnan(found[[0, 127]]).all()  # never written: poison


def store_words(words: NDArray[np.uint32], column: int, at: int) -> tuple[NDArray[np.uint8], str]:
    """Bytes for the image, and code that puts them, (128, width) words, into tensor memory."""
    width = words.shape[1]
    loads = "".join(f"ld.shared.b32 %r{300 + i}, [%r13+{4 * i}];\n" for i in range(width))
    registers = ", ".join(f"%r{300 + i}" for i in range(width))
    text = f"""mad.lo.u32 %r13, %r2, {4 * width}, %r0; add.u32 %r13, %r13, {at}; {loads}
    shl.b32 %r14, %r5, 21; add.u32 %r14, %r14, %r8; add.u32 %r14, %r14, {column};
    tcgen05.st.sync.aligned.32x32b.x{width}.b32 [%r14], {{{registers}}};
    tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;
    barrier.cluster.arrive; barrier.cluster.wait; tcgen05.fence::after_thread_sync;"""
    return np.ascontiguousarray(words).view(np.uint8).reshape(-1), text


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "case",
    [
        Case(),
        Case(kind="tf32", a="tf32", b="tf32"),
        Case(kind="f8f6f4", a="e4m3", b="e4m3"),
        Case(m=256, group=2, n=32),
        Case(m=128, group=2, n=128),
        Case(m=64),
    ],
)
def test_a_in_tensor_memory(policy: Order, case: Case) -> None:
    rows = case.m // case.group
    image = case.matrices()[0]
    code = ""
    for rank in range(case.group):
        part = codes(case.left[rank * rows : (rank + 1) * rows], case.a)
        words = np.ascontiguousarray(part).view(np.uint32)
        if case.m == 64:  # 16 of each 32 lanes
            wide = np.zeros((4, 32, words.shape[1]), np.uint32)
            wide[:, :16] = words.reshape(4, 16, -1)
            words = wide.reshape(128, -1)
        elif rows == 64:
            words = np.concatenate([words, words])
        data, code = store_words(words, 200, SCALES_AT)
        image[rank * SIZE + SCALES_AT :][: len(data)] = data
    found = run(case, policy, before=f"{code} add.u32 %r15, %r8, 200;", a="[%r15]", image=image)
    assert np.array_equal(found, 2 * (case.left @ case.right.T))


def scale_words(case: Case, rank: int, a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.uint32]:
    """(128, 32) words: scale factors of A from column 0 on, of B from column 8 on."""
    words = np.full((128, 32, 4), 0xFF, np.uint8)
    rows = case.m // case.group
    halves = 2 if (case.m, case.group) == (128, 2) else 1  # of B, in halves of the lanes
    for quarter in range(4):
        for row in range(rows):
            place = 32 * quarter + row % 32, row // 32, case.options >> 29 & 3
            words[place] = 127 + a[rank * rows + row]
        for column in range(case.n):
            part, inside = divmod(column, case.n // halves)
            if halves == 1 or part == quarter // 2:
                place = 32 * quarter + inside % 32, 8 + inside // 32, case.options >> 4 & 3
                words[place] = 127 + b[column]
    return words.reshape(128, 128).view(np.uint32)


@pytest.mark.parametrize(
    ("case", "size"),
    [
        (Case(options=1 << 23 | 2 << 29 | 1 << 4), ""),
        (Case(m=256, group=2, options=1 << 23), ".block32"),
        (Case(m=128, group=2, options=1 << 23), ".scale_vec::1X"),
    ],
)
def test_block_scales(case: Case, size: str) -> None:
    case = replace(case, kind="mxf8f6f4", a="e4m3", b="e4m3", modifiers=f".block_scale{size}")
    random = np.random.default_rng(1)
    scale_a, scale_b = random.integers(0, 3, case.m), random.integers(0, 3, case.n)
    image = case.matrices()[0]
    code = ""
    for rank in range(case.group):
        data, code = store_words(scale_words(case, rank, scale_a, scale_b), 200, SCALES_AT)
        image[rank * SIZE + SCALES_AT :][: len(data)] = data
    value = TYPES[case.a] << 7 | TYPES[case.b] << 10 | case.n >> 3 << 17 | case.m >> 7 << 27
    before = f"""{code} add.u32 %r15, %r8, {200 | case.options >> 29 << 30}; add.u32 %r16, %r8, 208;
    mov.b32 %r12, {value | case.options};"""
    found = run(case, before=before, operands=", [%r15], [%r16]", image=image)
    left = case.left * 2.0 ** scale_a[:, None]
    right = case.right * 2.0 ** scale_b[:, None]
    assert np.array_equal(found, 2 * (left @ right.T))


def test_four_bit_operands_with_four_scales_per_row() -> None:
    case = Case(kind="mxf4nvf4", a="e2m1", b="e2m1", modifiers=".block_scale.scale_vec::4X")
    random = np.random.default_rng(1)
    scale_a, scale_b = random.integers(0, 3, (128, 4)), random.integers(0, 3, (64, 4))
    words = np.zeros((128, 32, 4), np.uint8)
    for lane in range(128):
        for part in range(4):
            words[lane, part] = codes(2.0 ** scale_a[32 * part + lane % 32], "ue4m3")
        for part in range(2):
            words[lane, 8 + part] = codes(2.0 ** scale_b[32 * part + lane % 32], "ue4m3")
    data, code = store_words(words.reshape(128, 128).view(np.uint32), 200, SCALES_AT)
    image = case.matrices()[0]
    image[SCALES_AT:][: len(data)] = data
    value = 1 << 7 | 1 << 10 | case.n >> 3 << 17 | 1 << 27
    before = f"{code} add.u32 %r15, %r8, 200; add.u32 %r16, %r8, 208; mov.b32 %r12, {value};"
    found = run(case, before=before, operands=", [%r15], [%r16]", image=image)
    left = case.left * np.repeat(2.0**scale_a, 16, axis=1)
    right = case.right * np.repeat(2.0**scale_b, 16, axis=1)
    assert np.array_equal(found, 2 * (left @ right.T))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"m": 96}, "M=96, N=64 for kind::f16, cta_group::1"),
        ({"column": 480}, "takes 64 columns from column 480"),
        ({"column": 250}, "in column 256 of CTA .* which is not allocated"),
        ({"lane": 16}, "begins in lane 16; layout D begins in lane 0"),
        ({"options": 1 << 2}, "sparsity, which is not supported"),
    ],
)
def test_mistakes(change: dict[str, Any], message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        run(Case(**change))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"a": "[%rd10]"}, "type|begins in lane"),
        ({"operands": ", {%r20, %r21}"}, "disable-output-lane is a vector of 4 registers"),
        ({"before": "mov.b64 %rd11, 0;"}, "bits 48..46 are 0b000"),
        ({"before": "mov.b64 %rd11, 0x4000404000013FC0;"}, "beyond the 0x.* bytes of the CTA"),
    ],
)
def test_mistakes_in_operands(more: dict[str, Any], message: str) -> None:
    with pytest.raises(EmulationError, match=message):
        run(Case(), **more)
