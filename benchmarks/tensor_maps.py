"""Are the bits of our tensor maps those of the driver?

    python benchmarks/tensor_maps.py [--save]

Needs a CUDA driver and a GPU with tensor maps (compute capability 9.0 or higher), but no CUDA
toolkit and no other package than schedgen. Encodes maps with cuTensorMapEncodeTiled and with
`schedgen.emulator.launch.tensor_map_bits`, and compares the 64 significant bytes, first with one
property changed at a time, then with random ones. Then maps that break one rule: the driver and
our check must both refuse them. An im2col map must be refused by the decoder.

A GPU refuses what it does not have; on an H200 these are elements below a byte and swizzles with
atoms above 16 bytes.
"""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from typing import Any

from report import keep, table

from schedgen.emulator.launch.tensor_map import (
    Element,
    Fill,
    Interleave,
    Promotion,
    TensorMap,
    TensorMapError,
)
from schedgen.emulator.launch.tensor_map_bits import SIGNIFICANT, SIZE, decode, encode
from schedgen.emulator.layouts.swizzle import Swizzle

RANDOM = 5000
BOX = 1 << 17
"""Bytes of random boxes, at most."""
SWIZZLES = [swizzle for swizzle in Swizzle if swizzle is not Swizzle.B96]  # in order of the API
PLAIN = TensorMap(0x7F0000000000, Element.F16, (512, 256), (1024,), (16, 8), (1, 1))
DEEP = TensorMap(
    0x7F0000000000,
    Element.F16,
    (64, 33, 32, 9, 5),
    (128, 1 << 16, 1 << 20, 1 << 24),
    (8, 7, 6, 5, 4),
    (1,) * 5,
)
Encode = Callable[[TensorMap], bytes | None]


class Driver:
    """The CUDA driver, with a context on GPU 0."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, context, number = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_int()
        self._succeed("cuInit", 0)
        self._succeed("cuDriverGetVersion", ctypes.byref(number))
        self.version = number.value
        self._succeed("cuDeviceGet", ctypes.byref(device), 0)
        self._succeed("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._succeed("cuCtxSetCurrent", context)
        name = ctypes.create_string_buffer(256)
        self._succeed("cuDeviceGetName", name, 256, device)
        self.gpu = name.value.decode()
        self._memory = ctypes.create_string_buffer(2 * SIZE)
        self._map = -(-ctypes.addressof(self._memory) // 64) * 64

    def tiled(self, tensor: TensorMap) -> bytes | None:
        """Return the significant bytes of a tiled map, None if the driver refuses it."""
        return self._encode(
            "cuTensorMapEncodeTiled",
            tensor,
            _array(ctypes.c_uint32, tensor.box),
            _array(ctypes.c_uint32, tensor.element_strides),
        )

    def im2col(self, tensor: TensorMap) -> bytes | None:
        """Return the significant bytes of an im2col map with a box of 64 pixels."""
        corner = _array(ctypes.c_int32, (0,) * (tensor.rank - 2))
        return self._encode(
            "cuTensorMapEncodeIm2col",
            tensor,
            corner,
            corner,
            ctypes.c_uint32(tensor.box[0]),
            ctypes.c_uint32(64),
            _array(ctypes.c_uint32, tensor.element_strides),
        )

    def _encode(self, name: str, tensor: TensorMap, *shape: object) -> bytes | None:
        status = getattr(self._cuda, name)(
            ctypes.c_void_p(self._map),
            tensor.element.api,
            tensor.rank,
            ctypes.c_void_p(tensor.address),
            _array(ctypes.c_uint64, tensor.dims),
            _array(ctypes.c_uint64, tensor.strides),
            *shape,
            int(tensor.interleave),
            SWIZZLES.index(tensor.swizzle),
            int(tensor.promotion),
            int(tensor.fill),
        )
        return None if status else ctypes.string_at(self._map, SIGNIFICANT)

    def _succeed(self, name: str, *arguments: object) -> None:
        if status := getattr(self._cuda, name)(*arguments):
            raise SystemExit(f"{name} failed with error {status}")


def single() -> Iterator[tuple[str, TensorMap]]:
    """Yield maps that differ in one property."""
    for element in Element:
        box = (128, 8) if element.bits < 8 else (16, 8)
        yield "element", replace(PLAIN, element=element, strides=(8192,), box=box)
    for swizzle in SWIZZLES:
        yield "swizzle", replace(PLAIN, swizzle=swizzle)
    for promotion in Promotion:
        yield "L2 promotion", replace(PLAIN, promotion=promotion)
    for fill in Fill:
        yield "fill", replace(PLAIN, fill=fill)
    for interleave in Interleave:
        cut = replace(PLAIN, dims=DEEP.dims[:3], strides=DEEP.strides[:2], box=DEEP.box[:3])
        yield "interleave", replace(cut, interleave=interleave, element_strides=(1, 1, 1))
    for rank in range(1, 6):
        yield "rank", cut_to(DEEP, rank)
    for at in range(5):
        steps = tuple(8 if i == at else 1 for i in range(5))
        yield "element stride", replace(DEEP, element_strides=steps)
        yield "extent", replace(DEEP, dims=tuple(1 << 32 if i == at else 9 for i in range(5)))
    for at in range(4):
        strides = ((1 << 40) - 16 if i == at else 128 for i in range(4))
        yield "stride", replace(DEEP, strides=tuple(strides))
    for address in (0, 16, (1 << 57) - 16):
        yield "address", replace(PLAIN, address=address)
    for box in ((8, 1), (256, 256)):
        yield "box", replace(PLAIN, box=box)


def cut_to(tensor: TensorMap, rank: int) -> TensorMap:
    """Return the first dimensions of `tensor`."""
    return replace(
        tensor,
        dims=tensor.dims[:rank],
        strides=tensor.strides[: rank - 1],
        box=tensor.box[:rank],
        element_strides=tensor.element_strides[:rank],
    )


def drawn(seed: int) -> TensorMap:
    """Return a random map, legal or not, of elements and swizzles that every GPU has."""
    draw = random.Random(seed)
    rank = draw.randint(1, 5)
    element = draw.choice([element for element in Element if element.bits >= 8])
    row = draw.choice((16, 32, 64, 128, 48, 8))
    box = [max(1, 8 * row // element.bits)]
    room = BOX // row  # the driver refuses boxes that are much larger than shared memory
    for _ in range(rank - 1):
        box.append(draw.randint(1, min(256, room)))
        room //= box[-1]
    return TensorMap(
        address=draw.randrange(0, 1 << 57, draw.choice((16, 16, 16, 32, 8))),
        element=element,
        dims=tuple(draw.randint(1, 1 << draw.choice((4, 10, 32))) for _ in range(rank)),
        strides=tuple(
            draw.randrange(0, 1 << draw.choice((16, 40)), draw.choice((16, 16, 32, 8)))
            for _ in range(rank - 1)
        ),
        box=tuple(box),
        element_strides=tuple(draw.randint(1, 8) for _ in range(rank)),
        swizzle=draw.choice(SWIZZLES[:4]),
        interleave=draw.choice((Interleave.NONE, Interleave.NONE, *Interleave)),
        fill=draw.choice(list(Fill)) if element.is_float else Fill.ZERO,
        promotion=draw.choice(list(Promotion)),
    )


def broken() -> Iterator[tuple[str, TensorMap]]:
    """Yield maps that break one rule."""
    yield "address not a multiple of 16", replace(PLAIN, address=8)
    yield "address of 2^57", replace(PLAIN, address=1 << 57)
    yield "extent 0", replace(PLAIN, dims=(512, 0))
    yield "extent above 2^32", replace(PLAIN, dims=(512, (1 << 32) + 1))
    yield "stride not a multiple of 16", replace(PLAIN, strides=(1032,))
    yield "stride of 2^40", replace(PLAIN, strides=(1 << 40,))
    yield "box of 0", replace(PLAIN, box=(16, 0))
    yield "box of 257", replace(PLAIN, box=(16, 257))
    yield "row of 8 bytes", replace(PLAIN, box=(4, 8))
    yield "row above the swizzle", replace(PLAIN, box=(32, 8), swizzle=Swizzle.B32)
    yield "element stride 0", replace(PLAIN, element_strides=(1, 0))
    yield "element stride 9", replace(PLAIN, element_strides=(1, 9))
    yield "interleave of 2 dimensions", replace(PLAIN, interleave=Interleave.B16)
    yield "NaN of integers", replace(PLAIN, element=Element.U16, fill=Fill.NAN)


def ours(tensor: TensorMap) -> bytes | None:
    """Return the significant bytes of our map, None if it is refused."""
    try:
        return encode(tensor)[:SIGNIFICANT]
    except TensorMapError:
        return None


def compare(group: str, tensors: list[TensorMap], driver: Encode) -> dict[str, object]:
    """Return a row of the table about maps that both must encode, or both refuse."""
    pairs = [(driver(tensor), ours(tensor)) for tensor in tensors]
    wrong = [tensor for tensor, (a, b) in zip(tensors, pairs, strict=True) if a and b and a != b]
    split = [
        tensor for tensor, (a, b) in zip(tensors, pairs, strict=True) if (a is None) != (b is None)
    ]
    for what, cases in (("differ", wrong), ("are legal only for one", split)):
        for tensor in cases[:4]:
            print(f"{group}, {len(cases)} {what}, such as {tensor}", file=sys.stderr)
    misread = sum(
        decode(a) != tensor for tensor, (a, b) in zip(tensors, pairs, strict=True) if a and b
    )
    return {
        "maps": group,
        "number": len(tensors),
        "same bits": sum(a is not None and a == b for a, b in pairs),
        "other bits": len(wrong),
        "decoded wrongly": misread,
        "refused by both": sum(a is b is None for a, b in pairs),
        "only by the driver": sum(a is None and b is not None for a, b in pairs),
        "only by us": sum(a is not None and b is None for a, b in pairs),
    }


def im2col(driver: Driver) -> dict[str, object]:
    """Return a row about an im2col map, which must be refused."""
    data = driver.im2col(cut_to(DEEP, 4))
    if data is None:
        raise SystemExit("the driver refuses the im2col map of the test")
    try:
        decode(data)
    except TensorMapError:
        return {"maps": "im2col (decoded)", "number": 1, "only by us": 1}
    return {"maps": "im2col (decoded)", "number": 1, "decoded wrongly": 1}


def _array(kind: Any, values: tuple[int, ...]) -> object:
    return (kind * max(1, len(values)))(*values)


def main() -> None:
    """Print the comparison."""
    driver = Driver()
    print(f"{driver.gpu}, driver {driver.version}\n")
    groups: dict[str, list[TensorMap]] = {}
    for group, tensor in single():
        groups.setdefault(group, []).append(tensor)
    groups["random"] = [drawn(seed) for seed in range(RANDOM)]
    rows = [compare(group, tensors, driver.tiled) for group, tensors in groups.items()]
    rows += [compare(rule, [tensor], driver.tiled) for rule, tensor in broken()]
    rows.append(im2col(driver))
    print(table(rows))
    with suppress(ImportError):
        import_module("torch")  # the kept environment then names the GPU
    rows[0]["driver"] = driver.version
    keep("tensor_maps", rows)
    if any(row.get("other bits") or row.get("decoded wrongly") for row in rows):
        raise SystemExit("the bits differ")


if __name__ == "__main__":
    main()
