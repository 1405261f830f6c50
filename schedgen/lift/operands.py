"""Which bytes of shared memory a product reads, from its descriptors.

The layouts are those of the emulator (`schedgen.emulator.layouts.descriptors`), which has the
sections of the PTX ISA.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache

import numpy as np

from schedgen.conform.refusal import Refusal
from schedgen.emulator.layouts.descriptors import CHUNK, decode_wgmma, touched
from schedgen.emulator.layouts.errors import LayoutError
from schedgen.emulator.ptx.tree import Immediate, Instruction, Vector

Span = tuple[int, int]
"""The first byte, and the one behind the last."""
_SHAPE = re.compile(r"m64n(\d+)k(\d+)")
_ROWS = 64
_K_BITS = 256
"""Of a row of a product: k times the bits of an element, for all types."""
_LINE = 256
"""Bytes of two rows of the widest swizzle: what a product leaves out between touched bytes of one
row and of the next is read by another one of the same tile."""


def spans_of(one: Instruction, left: int | None, right: int) -> tuple[Span, ...]:
    """What a ``wgmma.mma_async`` reads: spans of shared addresses, ascending and apart.

    Args:
        left, right: descriptors; ``left`` is None where A is in registers.

    Raises:
        Refusal: the shape or a descriptor has no meaning.
    """
    shape = next((m for m in map(_SHAPE.fullmatch, one.modifiers) if m), None)
    if shape is None:
        raise Refusal("a product without a shape", one)
    n, k = int(shape[1]), int(shape[2])
    turned = _turned(one, k)
    given = [(left, _ROWS, turned[0])] if left is not None else []
    try:
        return joined(
            span
            for value, rows, transposed in (*given, (right, n, turned[1]))
            for span in _operand(value % 2**64, rows, k, transposed=transposed)
        )
    except LayoutError as error:
        raise Refusal(f"where a product reads is not known: {error}", one) from None


def _turned(one: Instruction, k: int) -> tuple[bool, bool]:
    """Whether A and B are not K-major: literals that only products of 16-bit types have."""
    if _K_BITS // k != 16:
        return False, False
    literals = [int(o.value) for o in one.operands[4:] if isinstance(o, Immediate)]
    flags = [bool(value) for value in literals[2:]]
    if isinstance(one.operands[1], Vector):
        flags.insert(0, False)
    return (flags[0], flags[1]) if len(flags) == 2 else (False, False)


@lru_cache(maxsize=4096)
def _operand(value: int, rows: int, k: int, *, transposed: bool) -> tuple[Span, ...]:
    chunks = touched(decode_wgmma(value), rows, k, _K_BITS // k, k_major=not transposed)
    cuts = np.flatnonzero(np.diff(chunks) > _LINE) + 1
    return tuple((int(part[0]), int(part[-1]) + CHUNK) for part in np.split(chunks, cuts))


def joined(spans: Iterable[Span]) -> tuple[Span, ...]:
    """The same bytes in as few spans as there can be, ascending; gaps inside of a line are none."""
    return tuple(_joined(spans))


def _joined(spans: Iterable[Span]) -> Iterator[Span]:
    last: Span | None = None
    for begin, end in sorted(set(spans)):
        if last is not None and begin - last[1] < _LINE:
            last = last[0], max(end, last[1])
            continue
        if last is not None:
            yield last
        last = begin, end
    if last is not None:
        yield last
