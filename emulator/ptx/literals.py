"""Literals of PTX (PTX ISA 4.5) as numbers, and initializers (5.4.4) as bytes."""

from __future__ import annotations

import struct
from math import prod

from schedgen.emulator.ptx.syntax import Value
from schedgen.emulator.ptx.tree import Symbol

_FLOAT_FORMATS = {"f32": "<f", "f64": "<d"}


def bits_of_type(type_: str) -> int:
    """Return the width of a fundamental type as ``b32`` or ``f16x2``; of ``pred``, one byte."""
    if type_ == "pred":
        return 8
    base, _, count = type_.lstrip("bfsu").partition("x")
    return int(base) * int(count or 1)


def parse_integer(text: str) -> int:
    """Return the value of ``42``, ``0x2aU``, ``052``, ``0b101010``, with a sign and blanks or not.

    Raises:
        ValueError: on anything else, ``08`` for one.
    """
    compact = "".join(text.split()).rstrip("U").removeprefix("+")
    digits = compact.removeprefix("-")
    base = 8 if digits[0] == "0" and digits.isdigit() else 0
    value = int(digits, base)
    return -value if compact[0] == "-" else value


def parse_number(text: str) -> int | float:
    """Return the value of an integer or floating-point literal.

    A float for ``0f3F800000``, ``0d3FF0000000000000``, ``1.0`` and ``1e3``, else an int. A NaN in
    ``0f`` notation keeps its payload, but a signalling one becomes quiet.

    Raises:
        ValueError: as `parse_integer`.
    """
    digits = text.lstrip("- \t\n\r")
    sign = -1 if text[0] == "-" else 1
    match digits[:2]:
        case "0f" | "0F":
            return sign * float(struct.unpack(">f", bytes.fromhex(digits[2:]))[0])
        case "0d" | "0D":
            return sign * float(struct.unpack(">d", bytes.fromhex(digits[2:]))[0])
        case "0x" | "0X" | "0b" | "0B":
            return parse_integer(text)
        case _:
            if digits.rstrip("U").isdigit():
                return parse_integer(text)
            return sign * float(digits)


def encode(value: Value, type_: str, vector: int, shape: tuple[int | None, ...]) -> bytes:
    """Return the bytes of an initializer, shorter than the variable where zeros follow.

    Args:
        value: a number for a scalar, nested lists for vectors and arrays.
        type_: the element type, as ``u32``.
        vector: 1, or the elements of a vector type, which are one more list.
        shape: of the array; only its first entry may be None.

    Raises:
        ValueError: with a message for people, on an address or a list of the wrong form.
    """
    extents = (*shape, vector) if vector > 1 else shape
    return _encode(value, type_, extents)


def _encode(value: Value, type_: str, extents: tuple[int | None, ...]) -> bytes:
    if not extents:
        return _scalar(value, type_)
    if not isinstance(value, list):
        raise ValueError("an array or a vector needs a list in braces")
    first, rest = extents[0], extents[1:]
    if first is not None and len(value) > first:
        raise ValueError(f"{len(value)} values for {first} elements")
    size = bits_of_type(type_) // 8 * prod(extent or 0 for extent in rest)
    return b"".join(_encode(item, type_, rest).ljust(size, b"\0") for item in value)


def _scalar(value: Value, type_: str) -> bytes:
    if isinstance(value, Symbol):
        raise ValueError(f"the address of '{value.name}' is not known before a launch")
    if isinstance(value, list):
        raise ValueError("a list stands where a number should")
    if type_ in _FLOAT_FORMATS:
        return struct.pack(_FLOAT_FORMATS[type_], value)
    bits = bits_of_type(type_)
    if isinstance(value, float):
        if type_ not in ("b32", "b64"):
            raise ValueError(f"the floating-point number {value} for the type .{type_}")
        return struct.pack(_FLOAT_FORMATS[type_.replace("b", "f")], value)
    return (value & ((1 << bits) - 1)).to_bytes(bits // 8, "little")
