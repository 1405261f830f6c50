"""Random numbers by a counter, on torch tensors (`schedgen.expressions.counters`)."""

from __future__ import annotations

from collections.abc import Sequence

import torch

_ROUNDS = 7
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_WORD = 0xFFFFFFFF


def philox(key: Sequence[torch.Tensor], counter: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Four words of Philox4x32-7 for two words of key and four of counter, which broadcast.

    Words are int64 from 0 to 2^32 - 1. A product of two is right modulo 2^64, whatever its sign.
    """
    k0, k1 = key
    c0, c1, c2, c3 = counter
    for _ in range(_ROUNDS):
        first, second = c0 * _FACTORS[0], c2 * _FACTORS[1]
        c0, c1 = _high(second) ^ c1 ^ k0, second & _WORD
        c2, c3 = _high(first) ^ c3 ^ k1, first & _WORD
        k0, k1 = (k0 + _WEYL[0]) & _WORD, (k1 + _WEYL[1]) & _WORD
    return [c0, c1, c2, c3]


def uniform(arguments: Sequence[torch.Tensor]) -> torch.Tensor:
    """``uniform(low, high, ..., last)`` of whole numbers, int64, which broadcast: float32."""
    low, high, *others, last = (argument & _WORD for argument in arguments)
    zero = torch.zeros((), dtype=torch.int64, device=last.device)
    counter = [last >> 2, *reversed(others), *[zero] * (3 - len(others))]
    w0, w1, w2, w3 = philox((low, high), counter)
    odd, upper = (last & 1).bool(), (last & 2).bool()
    word = torch.where(upper, torch.where(odd, w3, w2), torch.where(odd, w1, w0))
    return (word >> 9).to(torch.float32) * 2.0**-23


def _high(product: torch.Tensor) -> torch.Tensor:
    return (product >> 32) & _WORD
