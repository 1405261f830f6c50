"""Muon beside torch's."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from schedgen.kernels import ArgumentTypeError, ArgumentValueError, Muon


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(a, b, bias=False) for a, b in ((24, 48), (48, 48), (48, 12))))


def trained(net: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> list[float]:
    torch.manual_seed(1)
    losses: list[float] = []
    for _ in range(steps):
        x = torch.randn(32, 24)
        loss = functional.mse_loss(net(x), x[:, :12].sin())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("options", [{}, {"nesterov": False}, {"adjust_lr_fn": "match_rms_adamw"}])
@pytest.mark.parametrize("method", ["standard", "gram"])
def test_updates_are_torchs(options: dict[str, Any], method: str) -> None:
    """Up to what bfloat16, in torch, and float16, here, make of the same polynomials."""
    start = [torch.randn(shape) for shape in ((24, 60), (60, 24), (40, 40))]
    ours, torchs = ([nn.Parameter(x.clone()) for x in start] for _ in range(2))
    optimizers = (
        Muon(ours, lr=0.02, method=method, **options),
        torch.optim.Muon(torchs, lr=0.02, **options),
    )
    for _ in range(2):
        for mine, other in zip(ours, torchs, strict=True):
            mine.grad = other.grad = torch.randn_like(mine)
        for optimizer in optimizers:
            optimizer.step()
    for old, mine, other in zip(start, ours, torchs, strict=True):
        step, apart = ((other - x).square().sum().sqrt() for x in (old, mine))
        assert apart < 0.03 * step


@pytest.mark.slow
def test_losses_follow_torchs() -> None:
    ours, torchs = model(), model()
    mine = trained(ours, Muon(ours.parameters(), lr=0.02), 60)
    other = trained(torchs, torch.optim.Muon(torchs.parameters(), lr=0.02), 60)
    assert mine[-1] < 0.5 * mine[0]
    assert sum(mine[-10:]) == pytest.approx(sum(other[-10:]), rel=0.05)


def test_state_round_trip() -> None:
    net = model()
    optimizer = Muon(net.parameters(), lr=0.02)
    trained(net, optimizer, 3)
    other = copy.deepcopy(net)
    restored = Muon(other.parameters(), lr=0.5)
    restored.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    assert trained(net, optimizer, 3) == trained(other, restored, 3)


def test_pickled() -> None:
    net = model()
    optimizer = Muon(net.parameters(), lr=0.02)
    trained(net, optimizer, 1)
    both = copy.deepcopy((net, optimizer))
    assert trained(net, optimizer, 2) == trained(*both, 2)


def test_groups_and_parameters_without_gradient() -> None:
    first, second, third = (nn.Parameter(torch.randn(8, 16)) for _ in range(3))
    kept = third.detach().clone()
    optimizer = Muon([{"params": [first, third]}, {"params": [second], "lr": 0.0}], lr=0.1)
    first.grad = second.grad = torch.randn(8, 16)
    old = second.detach().clone()
    optimizer.step()
    assert torch.equal(second, old)
    assert torch.equal(third, kept)
    assert third not in optimizer.state


def test_closure_and_compiled_model() -> None:
    net = model()
    optimizer = Muon(net.parameters(), lr=0.02)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = net(torch.ones(4, 24)).square().mean()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() > optimizer.step(closure).item()


def test_equal_shapes_are_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    from schedgen.kernels.newton_schulz import muon

    shapes: list[torch.Size] = []

    def spy(x: Tensor, *arguments: Any, **options: Any) -> Tensor:
        shapes.append(x.shape)
        return torch.zeros_like(x)

    monkeypatch.setattr(muon, "polar", spy)
    params = [nn.Parameter(torch.randn(4, 6)) for _ in range(3)] + [nn.Parameter(torch.randn(6, 4))]
    for p in params:
        p.grad = torch.randn_like(p)
    Muon(params).step()
    assert sorted(shapes) == [(1, 6, 4), (3, 4, 6)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"lr": -1.0}, "lr: it is -1.0"),
        ({"momentum": float("nan")}, "momentum: it is nan"),
        ({"adjust_lr_fn": "none"}, "adjust_lr_fn: it is 'none'"),
        ({"ns_coefficients": (1.0,)}, "three finite numbers"),
        ({"ns_steps": 0}, "steps: it is 0"),
        ({"lr": torch.ones(2)}, "lr: its shape is (2,)"),
        ({"timeout": 0.0}, "timeout: it is 0.0"),
        ({"communication_dtype": torch.float64}, "communication_dtype: it is torch.float64"),
    ],
)
def test_refused(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ArgumentValueError, match=re.escape(says)):
        Muon([nn.Parameter(torch.zeros(2, 2))], **options)


def test_no_process_group() -> None:
    with pytest.raises(ArgumentTypeError, match="process_group: it is no process group"):
        Muon([nn.Parameter(torch.zeros(2, 2))], process_group="world")  # type: ignore[arg-type]


def test_only_matrices() -> None:
    with pytest.raises(ArgumentValueError, match=re.escape("shape (3,)")):
        Muon([nn.Parameter(torch.zeros(3))])
