"""Muon on models of FSDP2, DDP and tensor parallelism: training, and saving its state."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from schedgen.kernels import Muon
from tests.kernels.newton_schulz.sharded_common import (
    CLOSE,
    KIND,
    RANK,
    RANKS,
    random,
    whole,
)


def net() -> nn.Sequential:
    torch.manual_seed(0)
    sizes = ((6, 14), (14, 11), (11, 3))
    return nn.Sequential(*(nn.Linear(a, b, bias=False) for a, b in sizes)).to(KIND)


def trained(model: nn.Module, optimizer: Muon, steps: int, first: int = 0) -> None:
    """Each rank has a batch of its own."""
    for step in range(first, first + steps):
        torch.manual_seed(step)
        inputs = torch.randn(RANKS, 16, 6).to(KIND)
        losses = [model(x).square().mean() for x in (inputs if alone(model) else [inputs[RANK]])]
        optimizer.zero_grad()
        torch.stack(losses).mean().backward()
        optimizer.step()


def alone(model: nn.Module) -> bool:
    return not any(isinstance(p, DTensor) for p in model.parameters())


def fsdp(model: nn.Sequential) -> nn.Sequential:
    for layer in model:
        fully_shard(layer)
    return fully_shard(model)  # type: ignore[return-value]


def fsdp_compiled() -> None:
    model = fsdp(net())
    compiled: Any = torch.compile(model, backend="eager")
    trained(compiled, Muon(model.parameters(), lr=0.02), 3)
    as_in_one_process(model)


def ddp_compiled() -> None:
    model = DistributedDataParallel(net())
    compiled: Any = torch.compile(model, backend="eager")
    optimizer = Muon(model.parameters(), lr=0.02, process_group=dist.group.WORLD)
    for step in range(3):
        torch.manual_seed(step)
        optimizer.zero_grad()
        compiled(torch.randn(RANKS, 16, 6).to(KIND)[RANK]).square().mean().backward()
        optimizer.step()
    as_in_one_process(model)


def as_in_one_process(model: nn.Module) -> None:
    """After three steps."""
    start, expected = net(), net()
    trained(expected, Muon(expected.parameters(), lr=0.02), 3)
    triples = zip(start.parameters(), expected.parameters(), model.parameters(), strict=True)
    for x, one, many in triples:
        # Gradients are means in another order, and then other ones.
        step = (one - x).square().sum().sqrt()
        assert (whole(many) - one).square().sum().sqrt() <= 2 * CLOSE * step


def fsdp_over_tensor_parallelism() -> None:
    """Placements are strided: rows are split across the inner dimension of the mesh first."""
    if RANKS < 4:
        return
    mesh = init_device_mesh(KIND, (2, RANKS // 2), mesh_dim_names=("dp", "tp"))
    model = nn.Sequential(nn.Linear(8, 10, bias=False)).to(KIND)
    parallelize_module(model, mesh["tp"], {"0": ColwiseParallel()})
    fully_shard(model, mesh=mesh["dp"])
    param: Any = model[0].weight
    assert hasattr(param.placements[0], "split_factor")
    x = whole(param)
    model(random([(16, 8)], 1)[0]).square().mean().backward()
    expected = nn.Parameter(x.clone())
    expected.grad = whole(param.grad)
    for optimizer in (Muon([expected], lr=0.02), Muon([param], lr=0.02)):
        optimizer.step()
    step = (expected - x).square().sum().sqrt()
    assert (whole(param) - expected).square().sum().sqrt() <= CLOSE * step


def state_round_trip() -> None:
    model = fsdp(net())
    optimizer = Muon(model.parameters(), lr=0.02)
    trained(model, optimizer, 2)
    state = optimizer.state_dict()
    momenta = [s["momentum_buffer"] for s in state["state"].values()]
    assert all(isinstance(m, DTensor) and m.placements == (Shard(0),) for m in momenta)
    other = fsdp(net())
    for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
        mine.data.copy_(theirs.data)
    restored = Muon(other.parameters(), lr=0.5)
    restored.load_state_dict({**state, "state": {n: dict(s) for n, s in state["state"].items()}})
    for momentum in momenta:
        momentum.zero_()  # what was loaded is a copy, or this shows
    restored.load_state_dict(optimizer_state := restored.state_dict())
    assert optimizer_state["param_groups"][0]["lr"] == 0.02


def checkpoint_of_one_process() -> None:
    """A full state dict, of torch.distributed.checkpoint, goes to one process and back."""
    model, full = fsdp(net()), StateDictOptions(full_state_dict=True)
    optimizer = Muon(model.parameters(), lr=0.02)
    trained(model, optimizer, 2)
    saved = get_optimizer_state_dict(model, optimizer, options=full)
    expected = [whole(s["momentum_buffer"]) for s in optimizer.state.values()]
    if RANK == 0:
        single = net()
        other = Muon(single.parameters(), lr=0.02)
        set_optimizer_state_dict(single, other, saved)
        found = [s["momentum_buffer"] for s in other.state.values()]
        assert all(map(torch.equal, found, expected))
    again = fsdp(net())
    restored = Muon(again.parameters(), lr=0.5)
    set_optimizer_state_dict(again, restored, saved, options=StateDictOptions(full_state_dict=True))
    for mine, theirs in zip(again.parameters(), model.parameters(), strict=True):
        mine.data.copy_(theirs.data)
    trained(model, optimizer, 2, first=2)
    trained(again, restored, 2, first=2)
    pairs = zip(again.parameters(), model.parameters(), strict=True)
    assert all(torch.equal(whole(a), whole(b)) for a, b in pairs)
