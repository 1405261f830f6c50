"""Factors of blocks of a product's operands, as tcgen05.mma reads them from tensor memory.

A tile of factors has 32 rows, which are lanes, of 16 bytes for each 128 rows of the operand and
each 4 blocks along k: byte 4 c + j of lane i is for row 32 c + i and block j. Such groups of 16
bytes lie beside each other, first those of all rows (PTX ISA, scale factors of tcgen05.mma).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from schedgen.kernel import Space
from schedgen.layouts import PACKED, SCALE_BYTES, SCALE_LANES, SCALED_ROWS
from schedgen.operations.base import size
from schedgen.operations.contexts import Shapes

if TYPE_CHECKING:
    import torch

BLOCKS = 4
"""Blocks along k of which a group of 16 bytes has the factors."""
FORMATS = {
    ("e4m3", "e8m0"): 32,
    ("e5m2", "e8m0"): 32,
    ("e2m1x2", "e8m0"): 32,
    ("e2m1x2", "e4m3"): 16,
}
"""Data types of operands and of their factors -> numbers in a block: MXFP8, MXFP4, NVFP4."""


def scales_fit(shapes: Shapes, given: list[str], along_k: Mapping[str, bool]) -> bool:
    """Whether a product has both factors or none, of the data type and shape that it needs;
    ``along_k`` says of both operands whether their rows lie along k.
    """
    packed = shapes.dtype("a") in PACKED
    if not given:
        if not packed:
            return True
        message = f"products of {shapes.dtype('a')} have factors of blocks, and there are none"
        fix = "add 'scale_a' and 'scale_b'"
        return shapes.fail("missing-scale", message, "a", fix)
    if len(given) == 1:
        other = "scale_b" if given[0] == "scale_a" else "scale_a"
        message = f"'{given[0]}' is given, and '{other}' is not"
        return shapes.fail("missing-scale", message, given[0], f"add '{other}'")
    fixes = {
        "a": "load a as [m, k], without 'transpose_a'",
        "b": "load b as [n, k], with 'transpose_b: true'",
    }
    for operand, fix in fixes.items():
        if not along_k[operand]:
            message = f"blocks that have a factor lie along k, and the rows of {operand} do not"
            return shapes.fail("bad-scale", message, operand, fix)
    return all(_scale_fits(shapes, name) for name in ("scale_a", "scale_b"))


def _scale_fits(shapes: Shapes, name: str) -> bool:
    of = name[-1]
    dtype, factors = shapes.dtype(of), shapes.dtype(name)
    block = FORMATS.get((dtype, factors))
    if block is None:
        known = ", ".join(f"{a} with {s}" for a, s in FORMATS)
        message = f"there are no products of {dtype} with factors of {factors}"
        return shapes.fail("bad-scale", message, name, f"use one of: {known}")
    if factors != shapes.dtype("scale_a"):
        message = f"factors of a are {shapes.dtype('scale_a')}, those of b are {factors}"
        return shapes.fail("dtype-mismatch", message, name, "use one data type")
    if shapes.space(name) is not Space.TMEM:
        message = f"factors are read from tensor memory, and this is in {shapes.space(name)}"
        fix = "copy it from there to a buffer with 'space: tmem'"
        return shapes.fail("wrong-space", message, name, fix)
    rows, columns = shapes.shape(of)
    numbers = columns * PACKED.get(dtype, 1)
    along = BLOCKS * block
    if numbers % along:
        message = f"'{of}' has {numbers} numbers along k, and {BLOCKS} blocks have {along}"
        return shapes.fail("bad-scale", message, of, f"make it a multiple of {along}")
    wanted = (SCALE_LANES, SCALE_BYTES * -(-rows // SCALED_ROWS) * (numbers // along))
    if shapes.shape(name) != wanted:
        message = f"this is {size(shapes.shape(name))}, and '{of}' is {size((rows, columns))}"
        fix = f"make its shape {list(wanted)}: 16 bytes for 128 rows and {along} numbers"
        return shapes.fail("shape-mismatch", message, name, fix)
    return True


def of_rows(scale: torch.Tensor, rows: int) -> torch.Tensor:
    """A tile of factors as [rows, blocks along k]."""
    groups = -(-rows // SCALED_ROWS)
    blocks = scale.shape[1] // (SCALE_BYTES * groups)
    tile = scale.reshape(SCALE_LANES, blocks, groups, SCALED_ROWS // SCALE_LANES, BLOCKS)
    return tile.permute(2, 3, 0, 1, 4).reshape(SCALED_ROWS * groups, BLOCKS * blocks)[:rows]


def scaled(factor: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """An operand [rows, k] of a product, each of its blocks times its factor."""
    by_row = of_rows(scale, factor.shape[0])
    block = factor.shape[1] // by_row.shape[1]
    return factor * by_row.repeat_interleave(block, dim=1)
