"""Micro-kernels about copies: TMA, bulk copies, cp.async, distributed shared memory, mbarriers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from micro import exchange
from micro.launch import (
    FINISH,
    Array,
    Micro,
    barrier,
    blank,
    bring,
    described,
    dump,
    expect,
    filled,
    map_at,
    numbered,
    reals,
    wait,
)

from schedgen.emulator.launch.tensor_map import Element, Fill
from schedgen.emulator.layouts.swizzle import Swizzle

MODES = (Swizzle.NONE, Swizzle.B32, Swizzle.B64, Swizzle.B128)
_TYPES: dict[Element, Any] = {
    Element.U8: np.uint8, Element.F16: np.uint16, Element.BF16: np.uint16, Element.F32: np.uint32,
    Element.F32_FTZ: np.uint32, Element.TF32: np.uint32, Element.TF32_FTZ: np.uint32,
    Element.U32: np.uint32, Element.S32: np.int32, Element.U64: np.uint64, Element.F64: np.uint64,
}  # fmt: skip


def load(
    name: str, about: str, source: Array, element: Element, box: tuple[int, ...],
    at: tuple[int, ...], *, target: int = 0, size: int = 0, **more: Any,
) -> Micro:  # fmt: skip
    """A tensor copy to shared memory, read back by plain loads."""
    inside = size or int(np.prod(box)) * source.itemsize
    rank = len(box)
    coordinates = "".join(f"mov.b32 %r{20 + i}, {value};" for i, value in enumerate(at))
    names = ", ".join(f"%r{20 + i}" for i in range(rank))
    threads = 128 if inside % 512 == 0 else 32
    text = f"""{barrier()} {map_at("m")} {coordinates} {expect(inside)} add.u32 %r6, %r0, {target};
@%p0 cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes \
[%r6], [%rd0, {{{names}}}], [%r1];
{wait()} {dump(inside, threads=threads, at=target)}"""
    map_ = described(source, element, box, **more)
    return Micro(
        name, about, text, {"a": source}, {"out": blank((inside,), np.uint8)},
        {"m": ("a", map_)}, threads=threads,
    )  # fmt: skip


def loads() -> Iterator[Micro]:
    halves = numbered((40, 72), np.uint16)
    for mode in MODES:
        columns = {Swizzle.NONE: 64, Swizzle.B32: 16, Swizzle.B64: 32, Swizzle.B128: 64}[mode]
        about = f"swizzle {mode.name}"
        yield load(f"tma_load_{mode.name.lower()}", about, halves, Element.F16, (columns, 16),
                   (8, 3), swizzle=mode)  # fmt: skip
    yield load("tma_load_128_off_the_pattern", "the XOR takes bits of the address", halves,
               Element.F16, (64, 16), (0, 0), target=384, swizzle=Swizzle.B128)  # fmt: skip
    yield load("tma_load_32_off_the_pattern", "the XOR takes bits of the address", halves,
               Element.F16, (16, 32), (0, 0), target=128, swizzle=Swizzle.B32)  # fmt: skip
    small = numbered((20, 40), np.uint16)
    for element in (Element.F16, Element.BF16, Element.F32):
        source = small if element is not Element.F32 else numbered((20, 40), np.uint32)
        columns = 64 if element is not Element.F32 else 32
        for fill in Fill:
            yield load(
                f"tma_load_outside_{element.name.lower()}_{fill.name.lower()}",
                f"out of bounds on all sides: {fill.name} of {element.name}, bytes of the full box",
                source, element, (columns, 24), (-8, -2), fill=fill, swizzle=Swizzle.B128,
            )  # fmt: skip
    yield load("tma_load_all_outside", "a box that is nowhere in the tensor", small, Element.F16,
               (32, 8), (64, 40))  # fmt: skip
    yield load("tma_load_steps", "element strides", numbered((24, 32), np.uint16), Element.F16,
               (32, 16), (0, 1), steps=(1, 2), size=512)  # fmt: skip
    yield load("tma_load_1d", "rank 1", numbered((300,), np.uint32), Element.U32, (128,), (200,))
    yield load("tma_load_3d", "rank 3", numbered((6, 9, 32), np.uint16), Element.F16, (32, 8, 2),
               (8, 3, 5), swizzle=Swizzle.B64)  # fmt: skip
    yield load("tma_load_5d", "rank 5", numbered((3, 4, 3, 5, 16), np.uint8), Element.U8,
               (16, 4, 2, 2, 2), (0, 2, 1, 3, 1))  # fmt: skip
    odd = numbered((16, 32), np.uint32)
    odd.reshape(-1)[...] = np.random.default_rng(5).integers(0, 1 << 32, odd.size, np.uint32)
    odd.reshape(-1)[:64] &= np.uint32(0x807FFFFF)  # subnormal numbers
    for element in (Element.F32, Element.F32_FTZ, Element.TF32, Element.TF32_FTZ):
        yield load(f"tma_load_{element.name.lower()}", "what a copy does to values", odd, element,
                   (32, 16), (0, 0), swizzle=Swizzle.B128)  # fmt: skip


def values() -> Iterator[Micro]:
    """Bits that a copy makes: NaNs outside, numbers that it rounds or flushes."""
    for element, kind in ((Element.TF32, np.uint32), (Element.F64, np.uint64)):
        yield load(f"tma_load_outside_{element.name.lower()}_nan", f"the NaN of {element.name}",
                   numbered((16, 16), kind), element, (128 // np.dtype(kind).itemsize, 16), (8, 8),
                   fill=Fill.NAN)  # fmt: skip
    ties = [0x3F801000, 0x3F803000, 0xBF801000, 0xBF803000, 0x3F800FFF, 0x3F801001, 0x7F7FFFFF,
            0xFF7FF000, 0x7F7FEFFF, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC12345, 0x00001000,
            0x00003000, 0x80001000, 0x007FF000, 0x007FFFFF, 0x00000001, 0x00000FFF]  # fmt: skip
    odd = filled(np.resize(np.array(ties, np.uint32), (16, 32)))
    yield load("tma_load_tf32_ties", "how TF32 is rounded", odd, Element.TF32, (32, 16), (0, 0))
    yield store("tma_store_tf32", "a store of TF32", numbered((16, 32), np.uint32), Element.TF32,
                (32, 16), (0, 0), data=odd.reshape(-1).view(np.uint8))  # fmt: skip
    tiny = np.random.default_rng(3).integers(0, 1 << 24, (2, 16, 32)).astype(np.uint32)
    for element in (Element.F32, Element.F32_FTZ):
        yield store(f"tma_reduce_add_tiny_{element.name.lower()}", "sums of subnormal numbers",
                    filled(tiny[0]), element, (32, 16), (0, 0), operation="add",
                    data=filled(tiny[1]).reshape(-1).view(np.uint8))  # fmt: skip


def store(
    name: str, about: str, target: Array, element: Element, box: tuple[int, ...],
    at: tuple[int, ...], *, operation: str = "", data: Array | None = None, **more: Any,
) -> Micro:  # fmt: skip
    """A tensor copy, or a reduction, from shared memory."""
    size = int(np.prod(box)) * target.itemsize
    given = numbered((size,), np.uint8, 7) if data is None else data
    coordinates = "".join(f"mov.b32 %r{20 + i}, {value};" for i, value in enumerate(at))
    names = ", ".join(f"%r{20 + i}" for i in range(len(box)))
    kind = "cp.reduce.async.bulk" if operation else "cp.async.bulk"
    how = f".{operation}" if operation else ""
    text = f"""{bring(size)} {map_at("m")} {coordinates}
@%p0 {kind}.tensor.{len(box)}d.global.shared::cta{how}.tile.bulk_group [%rd0, {{{names}}}], [%r0];
{FINISH}"""
    map_ = described(target, element, box, **more)
    return Micro(name, about, text, {"data": given}, {"c": target}, {"m": ("c", map_)})


def stores() -> Iterator[Micro]:
    for mode in MODES:
        columns = {Swizzle.NONE: 64, Swizzle.B32: 16, Swizzle.B64: 32, Swizzle.B128: 64}[mode]
        yield store(f"tma_store_{mode.name.lower()}", f"swizzle {mode.name}, cut off at the edges",
                    numbered((20, 48), np.uint16), Element.F16, (columns, 16), (40, 8),
                    swizzle=mode)  # fmt: skip
    random = np.random.default_rng(1)
    for element, kind, operations in (
        (Element.U32, np.uint32, ("add", "min", "max", "inc", "dec", "and", "or", "xor")),
        (Element.S32, np.int32, ("add", "min", "max")),
        (Element.U64, np.uint64, ("add", "min", "xor")),
    ):
        per = 128 // np.dtype(kind).itemsize
        for operation in operations:
            old, new = (filled(random.integers(0, 100, (16, per)).astype(kind)) for _ in range(2))
            yield store(f"tma_reduce_{operation}_{element.name.lower()}", "reductions", old,
                        element, (per, 16), (4, 2), operation=operation, data=new)  # fmt: skip
    for element, kind, operations in (
        (Element.F16, np.float16, ("add", "min", "max")),
        (Element.BF16, np.uint16, ("add", "min", "max")),
        (Element.F32, np.float32, ("add",)),
    ):
        for operation in operations:
            old, new = (reals(random, (16, 64), element) for _ in range(2))
            about = "reductions of numbers, rounded once"
            yield store(f"tma_reduce_{operation}_{element.name.lower()}", about, old.view(kind),
                        element, (128 // np.dtype(kind).itemsize, 16), (0, 0), operation=operation,
                        data=new)  # fmt: skip


def cases() -> Iterator[Micro]:
    """All of them."""
    yield from loads()
    yield from values()
    yield from stores()
    yield from exchange.cases()
