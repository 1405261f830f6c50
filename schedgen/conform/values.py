"""Values for all residues at once, and the operators of PTX on them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import gcd

import numpy as np
from numpy.typing import NDArray

AXES = ("earlier", "turn", "tile", "thread")
"""Axes of the arrays."""
Array = NDArray[np.int64]
SHARED_ALIGNMENT = 1024
SHARED_WINDOW = 2**18
"""Addresses of shared memory are below this: 227 KB and what the system takes are less."""


@dataclass(frozen=True, slots=True)
class Value:
    """``array`` plus ``shared`` times the start of shared memory, which is a multiple of 1024,
    divided by `SHARED_ALIGNMENT`, plus ``tensor`` times the start of tensor memory.
    """

    array: Array
    modulus: int = 0
    shared: int = 0
    tensor: int = 0

    @property
    def plain(self) -> bool:
        """Whether it is exact, and no address."""
        return not self.modulus and not self.shared and not self.tensor


def exact(value: int) -> Value:
    return Value(np.full((1, 1, 1, 1), value, np.int64))


def along(axis: str, values: Array, modulus: int = 0) -> Value:
    """A value that differs along one axis."""
    shape = [1, 1, 1, 1]
    shape[AXES.index(axis)] = -1
    return Value(values.reshape(shape), modulus)


_BITS: dict[str, Callable[[Array, Array], Array]] = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


def _bits(how: str, a: Value, b: Value) -> Value | None:
    if b.shared or b.tensor:
        a, b = b, a
    if b.shared or b.tensor or a.tensor or b.modulus:
        return _bits_of_residues(how, a, b)
    mask = b.array
    low, high = int(mask.min()), int(mask.max())
    if a.shared:
        return _bits_of_address(how, a, mask, low, high)
    if not a.modulus:
        return Value(_BITS[how](a.array, mask))
    known = a.modulus & -a.modulus  # the largest power of two that divides it
    if how == "and" and low >= 0 and high < known:
        return Value(a.array & mask)
    if how == "and" and low == high and low < 0 and -low <= known:
        return Value(a.array & mask, a.modulus)
    return _bits_of_residues(how, a, b)


def _bits_of_residues(how: str, a: Value, b: Value) -> Value | None:
    modulus = gcd(a.modulus, b.modulus)
    if a.shared or b.shared or a.tensor or b.tensor or not modulus or modulus & (modulus - 1):
        return None
    return Value(_BITS[how](a.array, b.array) & (modulus - 1), modulus)


def _bits_of_address(how: str, a: Value, mask: Array, low: int, high: int) -> Value | None:
    """The start of shared memory has no bits below its factor."""
    free = a.shared & -a.shared
    if low < 0 or a.modulus:
        return None
    if how != "and":
        return Value(_BITS[how](a.array, mask), 0, a.shared) if high < free else None
    if high < free:
        return Value(a.array & mask)
    # An address, or a part of one: all bits that it may have are in the mask.
    window = SHARED_WINDOW * a.shared // SHARED_ALIGNMENT
    if low != high or int(a.array.min()) < 0 or window & (window - 1):
        return None
    if bool(((a.array & (free - 1)) & ~low).any()):
        return None
    return a if low & (window - free) == window - free else None


def _shifted(a: Value, by: int, signed: bool) -> Value | None:
    """Unsigned where a number of 32 bits may be negative, which only exact ones are."""
    if a.plain and not signed and bool((a.array < 0).any()):
        return Value((a.array % 2**32) >> by)
    return _divided(a, 2**by)


def _halved(a: Value, by: int) -> Value | None:
    """With the sign of 32 bits, to which what is shifted to the left may have come."""
    if a.plain and bool((np.abs(a.array) >= 2**31).any()):
        a = Value((a.array + 2**31) % 2**32 - 2**31)
    return _divided(a, 2**by)


def _divided(a: Value, by: int) -> Value | None:
    if a.tensor or a.modulus % by or a.shared % by:
        return None
    return Value(a.array // by, a.modulus // by, a.shared // by)


def _remainder(a: Value, by: int) -> Value | None:
    if a.tensor or a.modulus % by or a.shared % by:
        return None
    return Value(a.array % by)


def _product(a: Value, b: Value) -> Value | None:
    if a.shared or b.shared or a.tensor or b.tensor:
        return None
    modulus = gcd(a.modulus, b.modulus) if a.modulus and b.modulus else 0
    if not modulus and (a.modulus or b.modulus):
        whole, part = (a, b) if not a.modulus else (b, a)
        common = int(np.gcd.reduce(whole.array, axis=None))
        modulus = abs(common) * part.modulus
    return Value(a.array * b.array, modulus)


def _extreme(how: Callable[..., Array], a: Value, b: Value) -> Value | None:
    return Value(how(a.array, b.array)) if a.plain and b.plain else None


def _compared(how: Callable[..., Array], a: Value, b: Value | None = None) -> Value | None:
    if not a.plain or (b is not None and not b.plain):
        return None
    other = np.zeros((1, 1, 1, 1), np.int64) if b is None else b.array
    return Value(how(a.array, other).astype(np.int64))


def _unsigned(how: Callable[..., Array], a: Value, b: Value) -> Value | None:
    if not a.plain or not b.plain:
        return None
    return Value(how(a.array % 2**32, b.array % 2**32).astype(np.int64))


def _shuffled(a: Value, lane: int) -> Value | None:
    """What lane ``lane`` of each warp has."""
    threads = a.array.shape[-1]
    if threads == 1:
        return a
    return Value(a.array[..., np.arange(threads) // 32 * 32 + lane], a.modulus, a.shared)


def _shuffled_from(a: Value, lane: Value) -> Value | None:
    """What the lane has that each thread names."""
    threads = max(a.array.shape[-1], lane.array.shape[-1])
    if threads == 1:
        return a
    if not lane.plain or lane.array.size != lane.array.shape[-1]:
        return None
    lanes: Array = np.broadcast_to(lane.array.reshape(-1), (threads,)) % 32
    whole = np.broadcast_to(a.array, (*a.array.shape[:-1], threads))
    at: Array = np.arange(threads, dtype=np.int64) // 32 * 32 + lanes
    return Value(whole[..., at], a.modulus, a.shared, a.tensor)


OPERATORS: dict[str, Callable[..., Value | None]] = {
    "and": partial(_bits, "and"),
    "or": partial(_bits, "or"),
    "xor": partial(_bits, "xor"),
    "shr": partial(_shifted, signed=False),
    "sar": _halved,
    "sar64": partial(_shifted, signed=True),
    "div": _divided,
    "mod": _remainder,
    "mul": _product,
    "min": partial(_extreme, np.minimum),
    "max": partial(_extreme, np.maximum),
    "eq": partial(_compared, np.equal),
    "lt": partial(_compared, np.less),
    "le": partial(_compared, np.less_equal),
    "not": partial(_compared, np.equal),
    "and?": partial(_compared, np.logical_and),
    "or?": partial(_compared, np.logical_or),
    "eq?": partial(_compared, np.not_equal),
    "ult": partial(_unsigned, np.less),
    "shfl": _shuffled,
    "shfl from": _shuffled_from,
}
"""Results of operators, given the values of their terms and then their numbers."""
