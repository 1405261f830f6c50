"""Whether accesses of an operation touch all that it touches: none of several may be lost."""

from __future__ import annotations

import re

import numpy as np

from schedgen.conform.footprints import Footprint
from schedgen.conform.values import Array
from schedgen.emulator.ptx.tree import Immediate, Instruction

_WARP = 32
_MATRIX_ROWS, _MATRIX_ROW_BYTES = 8, 16
"""Of one matrix of ``ldmatrix`` and ``stmatrix``, whose rows lie at the addresses of its lanes."""


def reach(one: Instruction) -> tuple[int, int] | None:
    """How many bytes or columns an access touches at the address of each lane, and how many lanes
    of a warp give one. None: that is not known (PTX ISA, tcgen05.ld, ldmatrix, vector types).
    """
    modifiers = one.modifiers
    count = next((int(m[1:]) for m in modifiers if re.fullmatch(r"[xv][0-9]+", m)), 1)
    if one.opcode == "tcgen05":
        plain = "32x32b" in modifiers and not {"pack::16b", "unpack::16b"} & {*modifiers}
        return (count, _WARP) if plain else None
    if one.opcode in ("ldmatrix", "stmatrix"):
        return (_MATRIX_ROW_BYTES, _MATRIX_ROWS * count) if "m8n8" in modifiers else None
    if one.opcode == "cp":
        size = one.operands[2]
        return (int(size.value), _WARP) if isinstance(size, Immediate) else None
    bits = re.fullmatch(r"[bsuf]([0-9]+)", modifiers[-1]) if modifiers else None
    return (int(bits[1]) // 8 * count, _WARP) if bits else None


def missing(footprint: Footprint, accesses: list[tuple[Instruction, Array]]) -> int:
    """How many bytes or columns of ``footprint`` no access touches; 0 if that is not known.

    Each access has the addresses of all threads, in its last axis.
    """
    reaches = [(found, addresses) for one, addresses in accesses if (found := reach(one))]
    if len(reaches) < len(accesses):
        return 0
    touched = np.zeros(footprint.size + max(size for (size, _), _ in reaches), bool)
    for (size, lanes), addresses in reaches:
        at = (addresses - footprint.first)[0, 0, 0]
        if at.size > 1:
            at = at[np.arange(at.size) % _WARP < lanes]
        touched[(at[:, None] + np.arange(size)).reshape(-1)] = True
    return max(footprint.touched - int(np.count_nonzero(touched[: footprint.size])), 0)
