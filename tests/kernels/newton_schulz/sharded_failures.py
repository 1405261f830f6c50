"""Muon where a rank has no gradient, fails, does not come or dies."""

from __future__ import annotations

import os
from time import monotonic, sleep
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from schedgen.kernels import ArgumentTypeError, ArgumentValueError, Muon
from schedgen.kernels.newton_schulz import muon
from schedgen.kernels.newton_schulz.sharded_ranks import RankError
from tests.kernels.newton_schulz.sharded_common import (
    CLOSE,
    KIND,
    RANK,
    RANKS,
    raises,
    random,
    spread,
    whole,
)

# -- gradients that are missing -------------------------------------------------------------------


def no_gradient_on_some_ranks() -> None:
    """The rank's part counts as zeros."""
    mesh = init_device_mesh(KIND, (RANKS,))
    start, grad = random([(8, 12)] * 2, 0), random([(8, 12)], 1)[0]
    first, second = (spread(x, mesh, [Shard(0)]) for x in start)
    if RANK:
        first.grad = distribute_tensor(grad, mesh, [Shard(0)], src_data_rank=None)
    optimizer = Muon([first, second], lr=0.02)
    optimizer.step()
    grad[: 8 // RANKS] = 0
    expected = nn.Parameter(start[0].clone())
    expected.grad = grad
    other = Muon([expected], lr=0.02)
    other.step()
    step = (expected - start[0]).square().sum().sqrt()
    assert (whole(first) - expected).square().sum().sqrt() <= CLOSE * step
    momenta = [o.state[p]["momentum_buffer"] for o, p in ((optimizer, first), (other, expected))]
    assert torch.equal(whole(momenta[0]), momenta[1])  # ranks agreed after a second try
    assert torch.equal(whole(second), start[1])
    assert second not in optimizer.state


def no_gradient_on_some_replicas() -> None:
    param = nn.Parameter(torch.ones(4, 6, device=KIND))
    param.grad = None if RANK else torch.ones_like(param)
    with pytest.raises(ArgumentValueError, match="on some of its replicas only"):
        Muon([param], process_group=dist.group.WORLD).step()


# -- failures -------------------------------------------------------------------------------------


def failing() -> tuple[list[nn.Parameter], Muon]:
    """On more than one matrix for each rank, so that all have something to do."""
    mesh = init_device_mesh(KIND, (RANKS,))
    params = [spread(x, mesh, [Shard(0)]) for x in random([(8, 12)] * 2 * RANKS, 0)]
    for p in params:
        p.grad = torch.ones_like(p)
    return params, Muon(params, timeout=20)


def a_closure_fails() -> None:
    _, optimizer = failing()

    def closure() -> None:
        if RANK == RANKS - 1:
            raise ZeroDivisionError("of its own")

    with raises(ZeroDivisionError, "of its own"):
        optimizer.step(closure)
    optimizer.step()  # the groups are still in order


def a_gradient_is_wrong() -> None:
    params, optimizer = failing()
    if RANK == RANKS - 1:
        params[1].grad = torch.ones(8, 12, device=KIND).to_sparse()
    with raises(ArgumentTypeError, "sparse"):
        optimizer.step()


def an_iteration_fails() -> None:
    for name in ("polar", "_adjustment"):  # before and after the last exchange
        params, optimizer = failing()
        before = [whole(p) for p in params]

        def fail(*arguments: Any, **options: Any) -> Tensor:
            raise torch.OutOfMemoryError("no memory left")

        with pytest.MonkeyPatch.context() as patch:
            if RANK == RANKS - 1:
                patch.setattr(muon, name, fail)
            with raises(torch.OutOfMemoryError, "no memory left"):
                optimizer.step()
        if name == "polar":
            assert all(torch.equal(whole(p), x) for p, x in zip(params, before, strict=True))


def other_parameters() -> None:
    mesh = init_device_mesh(KIND, (RANKS,))
    params = [spread(x, mesh, [Shard(0)]) for x in random([(8, 12), (12, 8)], 0)]
    for p in params:
        p.grad = torch.ones_like(p)
    with pytest.raises(RankError, match="have different matrices"):
        Muon(params[::-1] if RANK else params, timeout=20).step()


def a_rank_does_not_come() -> None:
    params, optimizer = failing()
    optimizer = Muon(params, timeout=1)
    optimizer.step()
    if RANK == RANKS - 1:
        sleep(3)
        return
    begin = monotonic()
    with pytest.raises(RankError, match=r"did not report within 1 s"):
        optimizer.step()
    assert monotonic() - begin < 3


def a_rank_dies() -> None:
    _, optimizer = failing()
    optimizer.step()
    if RANK == RANKS - 1:
        os._exit(0)
    with pytest.raises(RankError, match="is gone"):
        optimizer.step()
