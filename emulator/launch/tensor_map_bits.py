"""The 128 bytes of a tensor map.

NVIDIA publishes no bit layout. This one was found by changing one property at a time, in maps of
the host code that nvidia-cutlass-dsl 4.8.1 compiles, which writes the first 64 bytes itself, and
in maps of ``cuTensorMapEncodeTiled`` (driver 13.0, H200). Both agree; ``benchmarks/tensor_maps.py``
prints the comparison. Swizzles with atoms above 16 bytes and elements below a byte were seen only
in maps of CuTe DSL, because the H200 refuses them.

| bit | content |
|---|---|
| 0..56 | address |
| 65 | set by CuTe DSL, clear in maps of the driver |
| 68..70 | rank - 1 |
| 71..74 | `Element.code` |
| 75..76 | interleave |
| 77..78 | span of the swizzle: none, 32, 64, 128 bytes |
| 79 | fill with NaN |
| 80 | TF32 |
| 81..82 | L2 promotion |
| 83..84 | atom of the swizzle: 16, 32, 32 with 8 flipped, 64 bytes |
| 85 | set by CuTe DSL where the tensor has 128 KiB or more (CUTLASS clears it below) |
| 96 + 32i | stride of dimension i + 1 in units of 16 bytes: its low 32 bits |
| 224 + 4i | its high 4 bits |
| 256 + 32i | extent of dimension i, minus 1 |
| 416 + 3i | element stride of dimension i, minus 1 |
| 440 + 8i | extent of the box along dimension i, minus 1 |
| 512.. | not read: the driver puts two sizes of the box there, CuTe DSL nothing |

CuTe DSL's maps work on the same GPUs with bits 65 and 85 set as the driver's with them clear, so
both are taken to mean nothing for what a copy does.
"""

from __future__ import annotations

from typing import TypeVar

from schedgen.emulator.launch.tensor_map import (
    CHUNK,
    Element,
    Fill,
    Interleave,
    Promotion,
    TensorMap,
    TensorMapError,
)
from schedgen.emulator.layouts.swizzle import Swizzle

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

SIZE = 128
"""Bytes of a tensor map."""
SIGNIFICANT = 64
"""Bytes at its beginning that say something."""

MEANINGLESS = 1 << 65 | 1 << 85
"""Bits that CuTe DSL sets and the driver does not."""
_SWIZZLES = {
    (0, 0): Swizzle.NONE,
    (1, 0): Swizzle.B32,
    (2, 0): Swizzle.B64,
    (3, 0): Swizzle.B128,
    (3, 1): Swizzle.B128_ATOM32,
    (3, 2): Swizzle.B128_ATOM32_FLIP8,
    (3, 3): Swizzle.B128_ATOM64,
}
_SWIZZLE_CODES = {swizzle: code for code, swizzle in _SWIZZLES.items()}
_ELEMENTS = {(element.code, element.tf32): element for element in Element}
# Parts with bits that were never seen set: first bit, number of bits.
_PARTS = ((57, 7), (64, 32), (240, 16), (431, 9), (480, 32))
_SEEN = MEANINGLESS | ((1 << 17) - 1) << 68


def decode(data: bytes) -> TensorMap:
    """Return what the tensor map `data`, at least its first 64 bytes, says.

    Raises:
        TensorMapError: bits are set whose meaning is not known, as in im2col maps, or the map
            breaks a rule of cuTensorMapEncodeTiled.
    """
    if len(data) < SIGNIFICANT:
        raise TensorMapError(f"a tensor map has {SIZE} bytes, this one {len(data)}")
    bits = int.from_bytes(data[:SIGNIFICANT], "little")
    for start, length in _PARTS:
        if unknown := _field(bits & ~_SEEN, start, length):
            raise TensorMapError(
                f"the tensor map sets bits {unknown:#x} from bit {start} on, whose meaning is not "
                "known: only tiled maps, as of CuTe DSL's make_tiled_tma_atom and of "
                "cuTensorMapEncodeTiled, can be decoded"
            )
    rank = _field(bits, 68, 3) + 1
    found = TensorMap(
        address=_field(bits, 0, 57),
        element=_known(_ELEMENTS, (_field(bits, 71, 4), bool(_field(bits, 80, 1))), "element"),
        dims=tuple(_field(bits, 256 + 32 * i, 32) + 1 for i in range(rank)),
        strides=tuple(
            (_field(bits, 96 + 32 * i, 32) | _field(bits, 224 + 4 * i, 4) << 32) * CHUNK
            for i in range(rank - 1)
        ),
        box=tuple(_field(bits, 440 + 8 * i, 8) + 1 for i in range(rank)),
        element_strides=tuple(_field(bits, 416 + 3 * i, 3) + 1 for i in range(rank)),
        swizzle=_known(_SWIZZLES, (_field(bits, 77, 2), _field(bits, 83, 2)), "swizzle"),
        interleave=_known(dict(enumerate(Interleave)), _field(bits, 75, 2), "interleave"),
        fill=Fill(_field(bits, 79, 1)),
        promotion=Promotion(_field(bits, 81, 2)),
    )
    found.check()
    return found


def encode(tensor: TensorMap) -> bytes:
    """Return the 128 bytes of a tensor map as the driver writes the first 64; the rest is zero.

    Raises:
        TensorMapError: the map breaks a rule of cuTensorMapEncodeTiled, or has a swizzle that a
            map cannot hold.
    """
    tensor.check()
    span, atom = _known(_SWIZZLE_CODES, tensor.swizzle, "swizzle")
    fields = [
        (0, tensor.address),
        (68, tensor.rank - 1),
        (71, tensor.element.code),
        (75, int(tensor.interleave)),
        (77, span),
        (79, int(tensor.fill)),
        (80, int(tensor.element.tf32)),
        (81, int(tensor.promotion)),
        (83, atom),
    ]
    for i, stride in enumerate(tensor.strides):
        units = stride // CHUNK
        fields += [(96 + 32 * i, units & 0xFFFF_FFFF), (224 + 4 * i, units >> 32)]
    for i in range(tensor.rank):
        fields += [
            (256 + 32 * i, tensor.dims[i] - 1),
            (416 + 3 * i, tensor.element_strides[i] - 1),
            (440 + 8 * i, tensor.box[i] - 1),
        ]
    return sum(value << start for start, value in fields).to_bytes(SIZE, "little")


def _field(bits: int, start: int, length: int) -> int:
    return bits >> start & ((1 << length) - 1)


def _known(table: dict[_Key, _Value], key: _Key, what: str) -> _Value:
    if key not in table:
        raise TensorMapError(f"{what} {key} of a tensor map is not known")
    return table[key]
