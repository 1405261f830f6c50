"""Fields of the 128 bytes of a tensor map, one at a time, as ``tensormap.replace`` writes them.

A map that is written field by field, as Triton does with one that begins as zeros, need not be
legal before it is used. Source: PTX ISA 9.7.9.28 (fields, ordinals and codes); `tensor_map_bits`.
"""

from __future__ import annotations

from collections.abc import Sequence

from schedgen.emulator.launch.tensor_map import CHUNK, MOST_RANK, Element, TensorMapError

_ELEMENTS = (
    Element.U8, Element.U16, Element.U32, Element.S32, Element.U64, Element.S64, Element.F16,
    Element.F32, Element.F32_FTZ, Element.F64, Element.BF16, Element.TF32, Element.TF32_FTZ,
    Element.U4, Element.U4_PADDED, Element.U6_PADDED,
)  # fmt: skip
"""By the code of ``.elemtype`` (Table 33)."""
PLAIN = {
    "global_address": (0, 57), "rank": (68, 3), "interleave_layout": (75, 2),
    "swizzle_mode": (77, 2), "swizzle_atomicity": (83, 2), "fill_mode": (79, 1),
}  # fmt: skip
"""First bit and number of bits. ``rank`` counts from zero, as in the instruction."""
BY_DIMENSION = {"box_dim": (440, 8), "global_dim": (256, 32), "element_stride": (416, 3)}
"""Those of dimension 0; the others follow. What is kept is one less."""
FIELDS = (*PLAIN, "elemtype", *BY_DIMENSION, "global_stride")
ORDERED = (*BY_DIMENSION, "global_stride")
"""Fields with an ordinal."""
_LAST_STRIDE = MOST_RANK - 2


def with_field(data: bytes, field: str, ordinal: int, value: int) -> bytes:
    """Return the map `data` with another value of a field; ``ordinal`` is 0 where there is none.

    Strides are in bytes, extents and element strides as they are.

    Raises:
        TensorMapError: there is no such entry, or the field has no room for the value.
    """
    bits = int.from_bytes(data, "little")
    for start, length, part in _parts(field, ordinal, value):
        bits = bits & ~(((1 << length) - 1) << start) | part << start
    return bits.to_bytes(len(data), "little")


def _parts(field: str, ordinal: int, value: int) -> Sequence[tuple[int, int, int]]:
    """First bit, number of bits, content."""
    if field in ORDERED and not 0 <= ordinal < MOST_RANK:
        raise TensorMapError(f"ordinal {ordinal} of a field that has {MOST_RANK} entries")
    if field in BY_DIMENSION:
        first, length = BY_DIMENSION[field]
        if not 1 <= value <= 1 << length:
            raise TensorMapError(f"{field} {value} is not in 1..{1 << length}")
        return [(first + length * ordinal, length, value - 1)]
    if field == "global_stride":
        if value % CHUNK or not 0 <= value < 1 << 40:
            raise TensorMapError(f"{field} {value} is no multiple of {CHUNK} below 2^40")
        if ordinal > _LAST_STRIDE:  # nobody reads it
            return []
        units = value // CHUNK
        return [(96 + 32 * ordinal, 32, units & 0xFFFF_FFFF), (224 + 4 * ordinal, 4, units >> 32)]
    if field == "elemtype":
        if value >= len(_ELEMENTS):
            raise TensorMapError(f"{field} {value} is not in 0..{len(_ELEMENTS) - 1}")
        return [(71, 4, _ELEMENTS[value].code), (80, 1, int(_ELEMENTS[value].tf32))]
    first, length = PLAIN[field]
    if value >> length:
        raise TensorMapError(f"{field} {value} is not in 0..{(1 << length) - 1}")
    return [(first, length, value)]
