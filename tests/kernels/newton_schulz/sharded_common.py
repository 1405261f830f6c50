"""What cases of sharded Muon share: who runs them, matrices, comparisons."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from schedgen.kernels import Muon
from schedgen.kernels.newton_schulz.sharded_ranks import RankError

KIND = sys.argv[4] if len(sys.argv) > 4 else "cpu"
CLOSE = 5e-3 if KIND == "cpu" else 2e-2
"""Relative to a step. Rounding to float16 may cost a Gaussian matrix 1e-2, and other batches may
be rounded otherwise on a GPU."""
SHAPES = [(12, 20), (20, 12), (9, 9), (3, 8), (7, 30), (12, 20), (12, 20)]
"""Some do not divide by the number of ranks; of 3 rows, the last of 4 ranks has none."""
RANK, RANKS = map(int, sys.argv[2:4]) if len(sys.argv) > 4 else (0, 1)
"""This process, and how many there are."""


def random(shapes: Sequence[tuple[int, int]], seed: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(KIND) for shape in shapes]


def whole(x: Any) -> Tensor:
    return (x.full_tensor() if isinstance(x, DTensor) else x).detach().clone()


def spread(x: Tensor, mesh: Any, placements: Sequence[Any]) -> nn.Parameter:
    return nn.Parameter(distribute_tensor(x.clone(), mesh, placements))


def same_updates(
    make: Callable[[Tensor, int], nn.Parameter], bound: float = CLOSE, **options: Any
) -> list[Any]:
    """Muon on parameters that ``make`` makes beside Muon in one process; returns the former."""
    start = random(SHAPES, 0)
    alone = [nn.Parameter(x.clone()) for x in start]
    shared = [make(x, n) for n, x in enumerate(start)]

    def groups(params: list[Any]) -> list[dict[str, Any]]:
        last: dict[str, Any] = {"params": params[3:], "nesterov": False, "lr": 0.05}
        return [{"params": params[:3]}, last]

    expected, found = Muon(groups(alone), lr=0.02), Muon(groups(shared), lr=0.02, **options)
    for step in range(3):
        for one, many, grad in zip(alone, shared, random(SHAPES, step + 1), strict=True):
            one.grad = grad.clone()
            given: Any = many
            many.grad = grad.clone()
            if isinstance(given, DTensor):
                many.grad = distribute_tensor(grad, given.device_mesh, given.placements)
        expected.step()
        found.step()
    for x, one, many in zip(start, alone, shared, strict=True):
        apart = (whole(many) - one).square().sum().sqrt()
        assert apart <= bound * (one - x).square().sum().sqrt()
        momenta = found.state[many]["momentum_buffer"], expected.state[one]["momentum_buffer"]
        assert torch.equal(whole(momenta[0]), momenta[1])
    return [found, *shared]


def raises(error: type[Exception], says: str) -> Any:
    """On the last rank ``error``; and what the others are told about it."""
    if RANK == RANKS - 1:
        return pytest.raises(error, match=says)
    told = f"rank {RANKS - 1}: .*{error.__name__}: .*{says}"
    return pytest.raises(RankError, match=told)
