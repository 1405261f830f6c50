"""Random numbers by a counter in numpy (`schedgen.expressions.counters` says which they are)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from schedgen.reference.rounding import Array

Words = npt.NDArray[np.uint32]

ROUNDS = 7
_FIRST, _SECOND = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85


def philox(key: Sequence[Words], counter: Sequence[Words], rounds: int = ROUNDS) -> list[Words]:
    """Four words of Philox4x32 for keys of two words and counters of four, which broadcast."""
    state = [np.atleast_1d(word) for word in counter]  # scalars of numpy warn of what wraps
    for number in range(rounds):
        bump = [np.uint32(number * step & 0xFFFFFFFF) for step in _WEYL]
        keys = [np.atleast_1d(word) + more for word, more in zip(key, bump, strict=True)]
        first = state[0].astype(np.uint64) * _FIRST
        second = state[2].astype(np.uint64) * _SECOND
        state = [
            _upper(second) ^ state[1] ^ keys[0],
            second.astype(np.uint32),
            _upper(first) ^ state[3] ^ keys[1],
            first.astype(np.uint32),
        ]
    return state


def uniform(arguments: Sequence[Array]) -> Array:
    """``uniform(low, high, ..., last)`` of whole numbers below 2^53, which broadcast."""
    words = [as_words(argument) for argument in arguments]
    low, high, *others, last = np.broadcast_arrays(*words)
    zeros = [np.zeros_like(last)] * (3 - len(others))
    found = philox((low, high), [last >> np.uint32(2), *reversed(others), *zeros])
    word = np.choose(last & np.uint32(3), [each.reshape(last.shape) for each in found])
    return (word >> np.uint32(9)).astype(np.float64) * 2.0**-23


def as_words(values: Array) -> Words:
    """Whole numbers of either sign modulo 2^32."""
    return np.asarray(np.mod(values, 2.0**32)).astype(np.uint32)


def _upper(product: npt.NDArray[np.uint64]) -> Words:
    return (product >> np.uint64(32)).astype(np.uint32)
