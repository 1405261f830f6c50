"""Torch on a GPU that is not there."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

import copy
from collections.abc import Generator
from typing import Any

import pytest
import torch

from schedgen.emulator.launch.targets import target
from schedgen.emulator.standin.memory import ALIGNMENT, GlobalMemory
from schedgen.emulator.standin.tensors import MEMORY, CudaTensor
from schedgen.emulator.standin.torch_standin import stand_in

BEFORE = torch.Tensor.to, torch.tensor, torch.cuda.synchronize, torch.Generator


@pytest.fixture(autouse=True)
def gpu() -> Generator[None]:
    with stand_in(target("sm_100a", 4)):
        yield
    assert (torch.Tensor.to, torch.tensor, torch.cuda.synchronize, torch.Generator) == BEFORE


def on_gpu(tensor: torch.Tensor) -> bool:
    return (
        isinstance(tensor, CudaTensor)
        and tensor.is_cuda
        and tensor.device == torch.device("cuda", 0)
        and (not tensor.numel() or tensor.untyped_storage().data_ptr() in MEMORY)
    )


def test_queries() -> None:
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == 1
    assert torch.cuda.get_device_capability() == (10, 0)
    assert torch.cuda.get_device_properties(0).multi_processor_count == 4
    assert torch.cuda.current_stream().cuda_stream == 0
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    end.record()
    torch.cuda.synchronize()
    assert begin.elapsed_time(end) > 0


@pytest.mark.parametrize("name", ["empty", "zeros", "ones", "rand", "randn"])
def test_factories(name: str) -> None:
    for device in ("cuda", "cuda:0", torch.device("cuda"), 0):
        made = getattr(torch, name)(3, 5, device=device)
        assert on_gpu(made)
        assert made.data_ptr() % ALIGNMENT == 0


def test_further_factories() -> None:
    like = torch.randn(4, 6, device="cuda")
    for made in (
        torch.tensor([1, 2], device="cuda"),
        torch.full((2,), 3.0, device="cuda"),
        torch.arange(5, device="cuda"),
        torch.empty_strided((2, 3), (1, 2), device="cuda"),
        torch.empty_like(like),
        like.new_zeros(3),
        like.new_tensor([1.0]),
        torch.randperm(5, device="cuda"),
        torch.triu_indices(3, 3, device="cuda"),
        torch.rand(3, generator=torch.Generator(device="cuda").manual_seed(1), device="cuda"),
        torch.randn(3).cuda(),
        torch.randn(3).to("cuda"),
        torch.randn(3).to(device="cuda", dtype=torch.float16),
        torch.nn.Linear(3, 3, device="cuda").weight.data,
        torch.nn.Linear(3, 3).cuda().weight.data,
    ):
        assert on_gpu(made)
    with torch.device("cuda"):
        assert on_gpu(torch.ones(2))
        assert on_gpu(torch.tensor([1.0]))
    assert not torch.ones(2).is_cuda


def test_arithmetic_and_views() -> None:
    a = torch.randn(8, 6, device="cuda")
    view = a.mT[1:3, ::2]
    assert on_gpu(view)
    assert view.data_ptr() == a.data_ptr() + 4
    assert view.stride() == (1, 12)
    view.fill_(7)
    torch.testing.assert_close(a.cpu()[::2, 1:3], torch.full((4, 2), 7.0))
    torch.testing.assert_close((a @ a.mT).cpu(), a.cpu() @ a.cpu().mT)
    assert a.add_(1) is a
    a.t_()
    assert a.shape == (6, 8)
    assert a.plain.shape == (6, 8)  # pyright: ignore


def test_devices_are_apart() -> None:
    a = torch.randn(4, device="cuda")
    assert a.to("cuda") is a
    assert a.cuda() is a
    host = a.cpu()
    assert not host.is_cuda
    host.zero_()
    assert a.abs().sum() > 0
    assert a.to(torch.float16).dtype is torch.float16
    assert on_gpu(a.to(torch.float16))
    assert not a.to("cpu", torch.float16).is_cuda
    with pytest.raises(TypeError, match=r"Use Tensor\.cpu\(\)"):
        a.numpy()
    assert "device='cuda:0'" in repr(a)
    assert f"{a[0]:.3f}" == f"{a[0].item():.3f}"


def test_autograd() -> None:
    a = torch.randn(3, 4, device="cuda", requires_grad=True)
    b = torch.randn(4, 2).cuda().requires_grad_()
    (a @ b).sum().backward()
    assert a.grad is not None
    assert on_gpu(a.grad)
    torch.testing.assert_close(a.grad.cpu(), b.detach().cpu().sum(1).expand(3, 4))
    copied = copy.deepcopy(torch.nn.Linear(2, 2).cuda())
    assert on_gpu(copied.weight)
    assert isinstance(copied.weight, torch.nn.Parameter)


def test_gradients_of_transposed_views() -> None:
    q, k = (torch.randn(2, 8, 4, device="cuda") for _ in range(2))
    k.requires_grad_()
    torch.matmul(q, k.transpose(1, 2)).sum().backward()
    assert k.grad is not None
    assert on_gpu(k.grad)
    assert on_gpu(q.new_empty_strided((2, 3), (3, 1)))
    assert not q.new_empty_strided((2, 3), (3, 1), device="cpu").is_cuda


def test_operator_for_gpus() -> None:
    """Operators whose only kernel is for GPUs are called with tensors on one."""
    seen: list[Any] = []

    @torch.library.custom_op("schedgen_test::fill", mutates_args={"a"}, device_types="cuda")
    def fill(a: torch.Tensor) -> None:
        seen.append(a.device.type)
        a.fill_(3)

    a = torch.zeros(4, device="cuda")
    fill(a)
    assert seen == ["cuda"]
    assert a.tolist() == [3.0] * 4


def test_memory_is_given_back() -> None:
    a = torch.zeros(1000, device="cuda")
    address = a.data_ptr()
    view = a[10:]
    del a
    assert address in MEMORY
    assert not MEMORY.released(address + 16)
    del view
    assert address not in MEMORY
    assert MEMORY.released(address + 16)
    kept = {one.start: one.released for one in MEMORY.allocations()}
    assert kept[address]
    other = torch.zeros(10, device="cuda")
    assert not {one.start: one.released for one in MEMORY.allocations()}[other.data_ptr()]
    del other
    large = torch.zeros(8 << 20, device="cuda")  # more than is kept
    del large
    assert address not in {one.start for one in MEMORY.allocations()}
    assert MEMORY.released(address + 16)


def test_memory_that_is_used_again_is_not_released() -> None:
    memory = GlobalMemory()
    first = memory.allocate(4096)
    address = first.data_ptr()
    del first
    assert memory.released(address + 1024)
    memory._sizes[address + 512] = 1024  # pyright: ignore[reportPrivateUsage]
    assert not memory.released(address + 1024)
    assert memory.released(address + 2048)


def test_exchange() -> None:
    a = torch.arange(4, device="cuda")
    assert a.__dlpack_device__() == (2, 0)


def test_out_of_another_size() -> None:
    made = torch.arange(1024, dtype=torch.float32, device="cuda")  # an ``out`` of no elements
    assert made.shape == (1024,)
    assert made.data_ptr() in MEMORY
    room = torch.empty(0, device="cuda")
    assert torch.mul(made, 2, out=room) is room
    assert room.data_ptr() in MEMORY
    room[3] = 5
    assert room[:4].tolist() == [0, 2, 4, 5]
