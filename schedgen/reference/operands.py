"""Operands of products in float64: what tensor cores make of them, and factors of their blocks.

PTX ISA, tcgen05.mma with scale factors: 128 rows and 4 blocks along k have 512 bytes, of which byte
16 (row % 32) + 4 (row // 32) + block is the factor of a row's block; of more rows, and then of more
blocks, others lie beside those. OCP Microscaling Formats: numbers of 4 bits are ordered as integers
without their sign.
"""

from __future__ import annotations

import numpy as np

from schedgen.reference.estimate import UNIT, Estimate, exact, loosened
from schedgen.reference.rounding import Array

_ROWS, _LANES, _WIDTH, _BLOCKS = 128, 32, 16, 4


def factor(number: Estimate, dtype: str, scale: Estimate | None) -> Estimate:
    """A factor of a product with those of its blocks; of tf32 the hardware takes 11 bits, rounded
    or cut off.
    """
    if dtype == "e2m1x2":
        number = exact(halves(number.value))
    if dtype == "tf32":
        number = loosened(number, 2.0**-10 * np.abs(number.value))
    return number if scale is None else with_factors(number, scale)


def unit(result: str, dtype: str) -> float:
    """The relative error of each addition: sums of products of 8 and 4 bits have 14 bits."""
    if result == "fp16":
        return 2.0**-10
    return 2.0**-13 if dtype in ("e4m3", "e5m2", "e2m1x2") else UNIT


def halves(pairs: Array) -> Array:
    """Numbers of 4 bits, two of each byte, the lower half first."""
    codes = pairs.astype(np.int64)
    found = np.empty((codes.shape[0], 2 * codes.shape[1]))
    found[:, 0::2], found[:, 1::2] = _number(codes % 16), _number(codes // 16)
    return found


def whole_halves(pairs: Estimate) -> Estimate:
    """The same of whole numbers in two's complement."""
    codes = np.nan_to_num(pairs.value).astype(np.int64)
    found = np.stack((codes % 16, codes // 16), axis=-1).reshape(codes.shape[0], -1)
    return exact(np.where(found > 7, found - 16, found).astype(np.float64))


def _number(code: np.ndarray) -> Array:
    """E2M1: a sign, two bits of an exponent with a bias of 1, one bit behind the point."""
    sign, exponent, half = code // 8, code // 2 % 4, code % 2
    normal = (1 + half / 2) * 2.0 ** (exponent - 1.0)
    return np.where(sign, -1.0, 1.0) * np.where(exponent == 0, half / 2, normal)


def with_factors(operand: Estimate, factors: Estimate) -> Estimate:
    """An operand [rows, k], each block along k times its factor."""
    rows, k = operand.value.shape
    tall = -(-rows // _ROWS)
    blocks = factors.value.shape[1] // (_WIDTH * tall) * _BLOCKS
    row, column = np.indices((rows, k))
    block = column * blocks // k
    group = block // _BLOCKS * tall + row // _ROWS
    lane, byte = row % _LANES, row % _ROWS // _LANES * _BLOCKS + block % _BLOCKS
    scale = factors.value[lane, _WIDTH * group + byte]
    return Estimate(operand.value * scale, operand.magnitude * scale, operand.error * scale)


def taking_turns(factors: Estimate, parts: int) -> Estimate:
    """Groups of 32 lanes that lie below each other, part by part, side by side: one of each part,
    then the next one of each.
    """

    def moved(field: Array) -> Array:
        groups = field.shape[0] // _LANES
        order = [
            part * (groups // parts) + n for n in range(groups // parts) for part in range(parts)
        ]
        return np.hstack([field[_LANES * group : _LANES * (group + 1)] for group in order])

    return Estimate(*(moved(field) for field in (factors.value, factors.magnitude, factors.error)))


def as_results(columns: int) -> list[int]:
    """Columns of a left operand in the order in which a thread of four has those of a result: two
    of eight, and two of the eight behind them (PTX ISA, register fragments of wgmma).
    """
    blocks = np.arange(columns).reshape(-1, 2, 4, 2)
    return blocks.transpose(0, 2, 1, 3).reshape(-1).tolist()
