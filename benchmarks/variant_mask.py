"""Masks of documents as flash-attn-4 takes them: functions that CuTe DSL compiles."""

from __future__ import annotations

from typing import Any

import cutlass
from cutlass import cute
from flash_attn.cute import utils  # pyright: ignore

_one: Any = utils.scalar_to_ssa  # pyright: ignore
Given = Any
"""What flash-attn-4 passes: coordinates as tensors of one element, tensors of the caller."""


@cute.jit
def document(
    batch: Given, head: Given, row: Given, column: Given, lengths: Given, tensors: Given
) -> Given:
    """Whether a row and a column are of the same document, of which the first tensor tells."""
    of_row: Given = _one(tensors[0][row[0]], cutlass.Int32)
    return of_row == _one(tensors[0][column[0]], cutlass.Int32)


@cute.jit
def causal_document(
    batch: Given, head: Given, row: Given, column: Given, lengths: Given, tensors: Given
) -> Given:
    """The same, and no column behind the row."""
    of_row: Given = _one(tensors[0][row[0]], cutlass.Int32)
    same: Given = of_row == _one(tensors[0][column[0]], cutlass.Int32)
    return same & (column <= row)
