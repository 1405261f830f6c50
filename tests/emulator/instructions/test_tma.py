"""Tensor copies, executed by small kernels under several orders of events."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from schedgen.emulator.launch.tensor_map import Element, Fill, TensorMap
from schedgen.emulator.launch.tensor_map_bits import encode
from schedgen.emulator.layouts.formats import from_float32, to_float32
from schedgen.emulator.layouts.swizzle import Swizzle, swizzle
from schedgen.emulator.machine.lanes import EmulationError
from tests.emulator.instructions.launches import POLICIES, Order, aligned, launch

SETUP = """
mov.u32 %r0, smem; add.u32 %r1, %r0, 32768; mov.b64 %rd0, m; mov.u32 %r2, %tid.x;
setp.eq.u32 %p0, %r2, 0; mov.u32 %r3, %cluster_ctarank;
@%p0 mbarrier.init.shared::cta.b64 [%r1], 1;
@%p0 fence.mbarrier_init.release.cluster;
barrier.cluster.arrive; barrier.cluster.wait;
"""
LOAD = "cp.async.bulk.tensor.2d.shared::cta.global.tile.mbarrier::complete_tx::bytes"
WAIT = """
W: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p1, [%r1], 0;
@!%p1 bra W;
"""


def expect(size: int) -> str:
    return f"mov.b32 %r4, {size}; @%p0 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r4;"


def dump(size: int, offset: str = "0") -> str:
    """Copies ``size`` bytes of shared memory to ``out``."""
    return f"""
ld.param.u64 %rd1, [out]; mov.b64 %rd2, {offset}; add.u64 %rd1, %rd1, %rd2; mov.b32 %r5, {size};
@%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r0], %r5;
cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
barrier.cluster.arrive; barrier.cluster.wait;
"""


def tensor(array: NDArray[Any], element: Element, box: tuple[int, ...], **more: Any) -> TensorMap:
    """A map of a C-ordered array."""
    return TensorMap(
        address=int(array.ctypes.data),
        element=element,
        dims=array.shape[::-1],
        strides=array.strides[-2::-1],
        box=box,
        element_strides=more.pop("steps", (1,) * array.ndim),
        **more,
    )


def half(rows: int, columns: int) -> NDArray[np.uint16]:
    array = aligned((rows, columns), np.uint16)
    array[...] = np.arange(rows * columns).reshape(rows, columns) % 60000 + 1
    return array


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("mode", [Swizzle.NONE, Swizzle.B64, Swizzle.B128])
def test_load_fills_what_is_outside(policy: Order, mode: Swizzle) -> None:
    source = half(20, 40)
    columns = 32 if mode is Swizzle.B64 else 64
    map_ = tensor(source, Element.F16, (columns, 24), swizzle=mode)
    size = 24 * columns * 2
    out = aligned((size,), np.uint8)
    text = f"""{SETUP} {expect(size)} mov.b32 %r6, -8; mov.b32 %r7, 3;
    @%p0 {LOAD} [%r0], [%rd0, {{%r6, %r7}}], [%r1];
    {WAIT} {dump(size)}"""
    launch(text, {"out": out, "a": source}, scalars={"m": encode(map_)}, policy=policy)
    expected = np.zeros((24, columns), np.uint16)
    inside = source[3:, : columns - 8]
    expected[: len(inside), 8 : 8 + inside.shape[1]] = inside
    found = out[swizzle(np.arange(size), mode)].view(np.uint16)
    assert np.array_equal(found.reshape(24, columns), expected)


@pytest.mark.parametrize(
    ("element", "bits"), [(Element.U4_PADDED, 4), (Element.U6_PADDED, 6), (Element.U4, 4)]
)
@pytest.mark.parametrize("policy", POLICIES)
def test_the_bytes_of_a_copy_are_those_without_gaps(
    policy: Order, element: Element, bits: int
) -> None:
    """Two rows of 128 elements, 16 bytes for 16 elements in shared memory if they are padded."""
    source = aligned((2, 128 * bits // 8), np.uint8)
    source[...] = np.random.default_rng(bits).integers(0, 256, source.shape)
    map_ = replace(tensor(source, element, (128, 2)), dims=(128, 2))
    row = 128 if element.is_padded else 64
    out = aligned((2, row), np.uint8)
    text = f"""{SETUP} {expect(source.size)} mov.b32 %r6, 0;
    @%p0 {LOAD} [%r0], [%rd0, {{%r6, %r6}}], [%r1];
    {WAIT} {dump(out.size)}"""
    launch(text, {"out": out, "a": source}, scalars={"m": encode(map_)}, policy=policy)
    groups = source.reshape(2, 8, 2 * bits)
    assert np.array_equal(out.reshape(2, 8, -1)[..., : 2 * bits], groups)


def test_nan_filling_and_traversal_strides() -> None:
    source = half(9, 8)
    map_ = tensor(source, Element.F16, (8, 6), steps=(1, 2), fill=Fill.NAN)
    out = aligned((64,), np.uint8)
    text = f"""{SETUP} {expect(48)} mov.b32 %r6, 0; mov.b32 %r7, 6;
    @%p0 {LOAD}.L2::cache_hint [%r0], [%rd0, {{%r6, %r7}}], [%r1], %rd9;
    {WAIT} {dump(48)}"""
    launch(text, {"out": out, "a": source}, scalars={"m": encode(map_)})
    found = out[:48].view(np.uint16).reshape(3, 8)
    assert np.array_equal(found[:2], source[6::2])
    assert np.isnan(found[2].view(np.float16)).all()


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("policy", POLICIES)
def test_multicast(policy: Order, group: int) -> None:
    source = half(16, 64)
    map_ = tensor(source, Element.F16, (64, 8), swizzle=Swizzle.B128)
    out = aligned((4096,), np.uint8)
    # Rank r loads 8 rows for both CTAs. With cta_group::2 all signals go to rank 0.
    awaited = 2048 if group == 1 else 4096
    text = f"""{SETUP}
    setp.eq.u32 %p2, %r3, 0; and.pred %p3, %p2, %p0; mov.pred %p4, %p0;
    mov.b32 %r4, {awaited}; mov.b32 %r8, {1 if group == 2 else 3};
    @{"%p3" if group == 2 else "%p0"} mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r4;
    mov.b32 %r6, 0; shl.b32 %r7, %r3, 3; shl.b32 %r9, %r3, 10; add.u32 %r9, %r0, %r9;
    and.b32 %r10, %r1, {"0xFEFFFFFF" if group == 2 else "0xFFFFFFFF"}; mov.b16 %rs0, 3;
    @%p0 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes\
.multicast::cluster{".cta_group::2" if group == 2 else ""} \
[%r9], [%rd0, {{%r6, %r7}}], [%r10], %rs0;
    {"@!%p2 bra D;" if group == 2 else ""}
    {WAIT}
    D: barrier.cluster.arrive; barrier.cluster.wait;
    mul.wide.u32 %rd8, %r3, 2048; ld.param.u64 %rd1, [out]; add.u64 %rd1, %rd1, %rd8;
    mov.b32 %r5, 2048;
    @%p0 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r0], %r5;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
    """
    arrays = {"out": out, "a": source}
    launch(text, arrays, scalars={"m": encode(map_)}, grid=2, cluster=2, policy=policy)
    places = swizzle(np.arange(2048), Swizzle.B128)
    for rank in range(2):
        found = out[2048 * rank : 2048 * (rank + 1)][places].view(np.uint16)
        assert np.array_equal(found.reshape(16, 64), source)


STORE_SETUP = """
mov.u32 %r0, smem; mov.u32 %r2, %tid.x; shl.b32 %r3, %r2, 2; add.u32 %r3, %r0, %r3;
setp.eq.u32 %p0, %r2, 0; mov.b64 %rd0, m; ld.param.u64 %rd1, [data];
"""


def stage(size: int) -> str:
    """Brings ``size`` bytes of ``data`` into shared memory, by all threads of a warp."""
    steps = "".join(
        f"ld.global.b32 %r10, [%rd4+{at}]; st.shared.b32 [%r3+{at}], %r10;\n"
        for at in range(0, size, 128)
    )
    return f"""{STORE_SETUP} mul.wide.u32 %rd3, %r2, 4; add.u64 %rd4, %rd1, %rd3;
    {steps} fence.proxy.async.shared::cta; bar.sync 0;"""


FINISH = "cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;"


@pytest.mark.parametrize("policy", POLICIES)
def test_store_leaves_out_what_is_outside(policy: Order) -> None:
    data = half(8, 64)
    target = half(6, 48)
    before = target.copy()
    map_ = tensor(target, Element.F16, (64, 8), swizzle=Swizzle.B128)
    text = f"""{stage(1024)} mov.b32 %r6, 16; mov.b32 %r7, 2;
    @%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd0, {{%r6, %r7}}], [%r0];
    {FINISH}"""
    arrays = {"data": data, "c": target}
    launch(text, arrays, scalars={"m": encode(map_)}, policy=policy)
    shared = data.reshape(-1).view(np.uint8)[swizzle(np.arange(1024), Swizzle.B128)]
    expected = before
    expected[2:, 16:] = shared.view(np.uint16).reshape(8, 64)[:4, :32]
    assert np.array_equal(target, expected)


def test_a_store_goes_through_a_map_that_begins_before_its_tensor() -> None:
    """As sequences of different lengths are stored: the coordinate makes up for the shift."""
    rows = 1 << 30
    data, target = half(8, 64), half(6, 64)
    before = target.copy()
    map_ = tensor(target, Element.F16, (64, 8), swizzle=Swizzle.NONE)
    map_ = replace(map_, address=map_.address - rows * 128, dims=(64, rows + 6))
    text = f"""{stage(1024)} mov.b32 %r6, 0; mov.b32 %r7, {rows + 2};
    @%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd0, {{%r6, %r7}}], [%r0];
    {FINISH}"""
    launch(text, {"data": data, "c": target}, scalars={"m": encode(map_)})
    assert np.array_equal(target[2:], data[:4])
    assert np.array_equal(target[:2], before[:2])


def incremented(a: NDArray[np.uint32], b: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return np.where(a >= b, np.uint32(0), a + np.uint32(1))


@pytest.mark.parametrize(
    ("element", "operation", "expected"),
    [
        (Element.F32, "add", np.add),
        (Element.S32, "min", np.minimum),
        (Element.U32, "max", np.maximum),
        (Element.U32, "inc", incremented),
        (Element.U32, "xor", np.bitwise_xor),
    ],
)
def test_reductions(element: Element, operation: str, expected: Any) -> None:
    kind = {Element.F32: np.float32, Element.S32: np.int32, Element.U32: np.uint32}[element]
    random = np.random.default_rng(0)
    data, target = aligned((8, 32), kind), aligned((8, 32), kind)
    data[...] = random.integers(0, 100, (8, 32)).astype(kind)
    target[...] = random.integers(0, 100, (8, 32)).astype(kind)
    wanted = expected(target, data).astype(kind)
    map_ = tensor(target, element, (32, 8))
    text = f"""{stage(1024)} mov.b32 %r6, 0;
    @%p0 cp.reduce.async.bulk.tensor.2d.global.shared::cta.{operation}.tile.bulk_group \
[%rd0, {{%r6, %r6}}], [%r0]; {FINISH}"""
    launch(text, {"data": data, "c": target}, scalars={"m": encode(map_)})
    assert np.array_equal(target, wanted)


def test_bf16_sums_are_rounded() -> None:
    data, target = aligned((8, 64), np.uint16), aligned((8, 64), np.uint16)
    data[...] = from_float32(np.full((8, 64), 1.0, np.float32), "bf16")
    target[...] = from_float32(np.full((8, 64), 257.0, np.float32), "bf16")
    map_ = tensor(target, Element.BF16, (64, 8))
    text = f"""{stage(1024)} mov.b32 %r6, 0;
    @%p0 cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%rd0, {{%r6, %r6}}], \
[%r0]; {FINISH}"""
    launch(text, {"data": data, "c": target}, scalars={"m": encode(map_)})
    assert (to_float32(target, "bf16") == 256.0).all()  # 257 is 256 in bf16, and so is 256 + 1


def test_gather_and_scatter_of_four_rows() -> None:
    source, target = half(16, 64), half(16, 64)
    target[...] = 0
    rows = (9, 2, 30, 5)  # row 30 is outside
    maps = [tensor(one, Element.F16, (64, 1), swizzle=Swizzle.B128) for one in (source, target)]
    coordinates = "{%r6, %r11, %r12, %r13, %r14}"
    moves = "".join(f"mov.b32 %r{11 + at}, {row};" for at, row in enumerate(rows))
    text = f"""{SETUP} {expect(512)} mov.b32 %r6, 0; {moves} mov.b64 %rd5, n;
    @%p0 cp.async.bulk.tensor.2d.shared::cta.global.tile::gather4.mbarrier::complete_tx::bytes \
[%r0], [%rd0, {coordinates}], [%r1];
    {WAIT}
    @%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile::scatter4.bulk_group \
[%rd5, {coordinates}], [%r0]; {FINISH}"""
    scalars = {"m": encode(maps[0]), "n": encode(maps[1])}
    launch(text, {"a": source, "c": target}, scalars=scalars)
    for row in range(16):
        assert np.array_equal(target[row], source[row] if row in rows else np.zeros(64))


def test_prefetches_change_nothing() -> None:
    """Neither what they name in global memory, nor shared memory where a load would put it."""
    source, out = half(8, 64), aligned((256,), np.uint32)
    before = source.copy()
    map_ = tensor(source, Element.F16, (64, 8), swizzle=Swizzle.B128)
    text = f"""{SETUP} mov.b32 %r6, 0; mov.b32 %r5, 64; ld.param.u64 %rd1, [a];
    shl.b32 %r7, %r2, 2; add.u32 %r7, %r7, %r0; add.u32 %r8, %r2, 7000;
    {"".join(f"st.shared.b32 [%r7+{128 * n}], %r8; add.u32 %r8, %r8, 32;" for n in range(8))}
    prefetch.tensormap [%rd0];
    cp.async.bulk.prefetch.tensor.2d.L2.global.tile.L2::cache_hint [%rd0, {{%r6, %r6}}], %rd9;
    cp.async.bulk.prefetch.L2.global [%rd1], %r5;
    fence.proxy.async; bar.sync 0; {dump(1024)}"""
    launch(text, {"a": source, "out": out}, scalars={"m": encode(map_)})
    assert np.array_equal(source, before)
    assert np.array_equal(out, 7000 + np.arange(256))


def load(map_: TensorMap, arrays: dict[str, NDArray[Any]], **parts: str) -> None:
    """One load with something wrong."""
    text = f"""{SETUP} {expect(1024)} mov.b32 %r6, 0; mov.b32 %r7, 0;
    {parts.get("before", "")}
    @%p0 {parts.get("instruction", LOAD)} [{parts.get("target", "%r0")}], \
[%rd0, {{{parts.get("at", "%r6, %r7")}}}], [{parts.get("barrier", "%r1")}];
    {parts.get("after", "")} {WAIT}"""
    launch(text, arrays, scalars={"m": encode(map_)})


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"target": "%r0+64"}, "0x440 is not a multiple of 128 bytes"),
        ({"target": "%r0+65408"}, "1024 bytes at shared offset 0x10380 end beyond"),
        ({"barrier": "%r1+8"}, "no mbarrier is initialized at shared offset"),
        ({"at": "%r6"}, "1 coordinates, 2 expected"),
        ({"instruction": LOAD.replace("tile", "im2col")}, "only tiled tensor maps"),
        ({"target": "%r1"}, "touch the live mbarrier"),
    ],
)
def test_mistakes_in_loads(parts: dict[str, str], message: str) -> None:
    source = half(8, 64)
    map_ = tensor(source, Element.F16, (64, 8), swizzle=Swizzle.B128)
    with pytest.raises(EmulationError, match=message):
        load(map_, {"a": source}, **parts)


def test_maps_that_do_not_fit() -> None:
    source = half(8, 64)
    map_ = tensor(source, Element.F16, (64, 8), swizzle=Swizzle.B128)
    with pytest.raises(EmulationError, match="end 128 bytes behind a"):
        load(replace(map_, address=map_.address + 128), {"a": source})
    one = tensor(source.reshape(-1), Element.F16, (64,))
    with pytest.raises(EmulationError, match="the tensor map has 1 dimensions, not 2"):
        load(one, {"a": source})
    # What is copied may well be inside of a tensor: a GPU refuses the map.
    before = replace(map_, address=map_.address - (1 << 40), dims=(64, 1 << 31))
    with pytest.raises(EmulationError, match=r"the tensor map begins at 0x.*, where no tensor is"):
        load(before, {"a": source})
    short = replace(map_, box=(32, 8))
    with pytest.raises(EmulationError, match="rows of 64 bytes and a swizzle of 128"):
        load(short, {"a": source})


def test_a_map_in_global_memory_must_not_change_under_way() -> None:
    source = half(8, 64)
    map_ = aligned((128,), np.uint8)
    map_[...] = np.frombuffer(encode(tensor(source, Element.F16, (64, 8))), np.uint8)
    text = f"""{SETUP} ld.param.u64 %rd0, [map]; {expect(1024)} mov.b32 %r6, 0;
    @%p0 {LOAD} [%r0], [%rd0, {{%r6, %r6}}], [%r1]; st.global.b32 [%rd0+32], %r6; {WAIT}"""
    arrays = {"a": source, "map": map_}
    with pytest.raises(EmulationError, match=r"rewritten while this copy was under way.*T13"):
        launch(text, arrays, scalars={"m": bytes(128)})


def test_stores_have_no_negative_coordinates() -> None:
    data, target = half(8, 64), half(8, 64)
    map_ = tensor(target, Element.F16, (64, 8))
    text = f"""{stage(1024)} mov.b32 %r6, -1;
    @%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd0, {{%r6, %r6}}], [%r0];
    {FINISH}"""
    with pytest.raises(EmulationError, match="those of a store must not be negative"):
        launch(text, {"data": data, "c": target}, scalars={"m": encode(map_)})


@pytest.mark.parametrize("at", [-7, -4, 1, 4, 12])
def test_boxes_begin_at_multiples_of_16_bytes(at: int) -> None:
    """Loads and stores alike."""
    source = half(8, 64)
    map_ = tensor(source, Element.F16, (64, 8))
    with pytest.raises(EmulationError, match=rf"innermost coordinate {at} is {2 * at} bytes.*T14"):
        load(map_, {"a": source}, before=f"mov.b32 %r6, {at};")
    text = f"""{stage(1024)} mov.b32 %r6, {abs(at)}; mov.b32 %r7, 0;
    @%p0 cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd0, {{%r6, %r7}}], [%r0];
    {FINISH}"""
    with pytest.raises(EmulationError, match=r"rule T14"):
        launch(text, {"data": half(8, 64), "c": source}, scalars={"m": encode(map_)})


def test_rows_begin_anywhere() -> None:
    source = half(8, 64)
    load(
        tensor(source, Element.F16, (64, 8)), {"a": source}, at="%r6, %r8", before="mov.b32 %r8, 5;"
    )


def test_the_mbarrier_is_beside_the_destination_or_in_its_peer() -> None:
    source = half(8, 64)
    map_ = tensor(source, Element.F16, (64, 8))
    text = f"""{SETUP} mov.b32 %r6, 0; and.b32 %r10, %r1, 0xFEFFFFFF;
    @%p0 {LOAD.replace("shared::cta", "shared::cluster")} [%r0], [%rd0, {{%r6, %r6}}], [%r10];
    barrier.cluster.arrive; barrier.cluster.wait;"""
    with pytest.raises(EmulationError, match=r"must be in the same CTA \(rule T3"):
        launch(text, {"a": source}, scalars={"m": encode(map_)}, grid=2, cluster=2)
