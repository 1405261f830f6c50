"""Zeros by which output tiles of a kernel take turns to add (`schedgen.ordered`)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor

from schedgen.codegen.facts import Facts
from schedgen.expressions import parse
from schedgen.ordered import words


def zeros(facts: Facts, extents: Mapping[str, int], like: Tensor) -> dict[str, Tensor]:
    """The arrays that a kernel needs for a problem of ``extents``, by their names, where ``like``
    is.
    """
    return {
        name: like.new_empty(count, dtype=torch.int32).zero_()
        for name, count in counts(facts, extents).items()
    }


def counts(facts: Facts, extents: Mapping[str, int]) -> dict[str, int]:
    """How many words these arrays have."""
    given = tuple(extents.items())
    return {name: _words(of, trips, given) for name, of, trips in facts.turns}


def begin(facts: Facts, tensors: Mapping[str, Tensor]) -> None:
    """Zeros again, in the arrays of turns among ``tensors``: a launch leaves other numbers, with
    which the next one would wait for ever.
    """
    for name, *_ in facts.turns:
        tensors[name].zero_()


@cache
def _words(
    of: tuple[tuple[str, int], ...], trips: str, extents: tuple[tuple[str, int], ...]
) -> int:
    return words(of, parse(trips), dict(extents), {})
