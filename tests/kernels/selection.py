"""Which of the shipped kernels slow tests take: all of them would be hours of CI."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def one_of_halves(
    kernels: Iterable[T], name: Callable[[T], str], kind: Callable[[T], object]
) -> list[T]:
    """All kernels but those in fp16, and the first of these for each ``kind``, a spec and a target:
    the others are those in bf16 but for conversions.
    """
    kept: list[T] = []
    seen: set[object] = set()
    for one in kernels:
        if "_fp16" in name(one):
            if kind(one) in seen:
                continue
            seen.add(kind(one))
        kept.append(one)
    return kept


def ends(things: Sequence[T], kind: Callable[[T], object]) -> list[T]:
    """The first and the last thing of each kind."""
    first = {kind(one): one for one in reversed(things)}
    last = {kind(one): one for one in things}
    return [one for one in things if one is first[kind(one)] or one is last[kind(one)]]
