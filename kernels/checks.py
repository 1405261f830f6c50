"""Checks of arguments that hold on every device, also for tensors without data."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from schedgen.kernels import layouts, plans
from schedgen.kernels.errors import ArgumentTypeError, ArgumentValueError, DeviceError

DTYPES = {torch.bfloat16: "bf16", torch.float16: "fp16"}
"""Data types of operands, with their names in specs."""


def dtypes(**tensors: Tensor | None) -> None:
    """All tensors have the same data type, one that there are kernels for."""
    first: tuple[str, torch.dtype] | None = None
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if tensor.dtype not in DTYPES:
            raise ArgumentTypeError(
                name,
                f"its dtype is {tensor.dtype}",
                "torch.bfloat16, torch.float16",
                f"{name}.to(torch.bfloat16)",
            )
        first = first or (name, tensor.dtype)
        if tensor.dtype != first[1]:
            raise ArgumentTypeError(
                name,
                f"its dtype is {tensor.dtype}",
                f"{first[1]}, the dtype of {first[0]}",
                f"{name}.to({first[1]})",
            )


def dimensions(name: str, tensor: Tensor, count: int, shape: str) -> None:
    """``tensor`` has ``count`` dimensions."""
    if tensor.dim() != count:
        raise ArgumentValueError(
            name, f"it has {tensor.dim()} dimensions", shape, f"reshape {name} to {shape}"
        )


def number(name: str, value: float, *, positive: bool = False) -> None:
    """``value`` is a finite number."""
    if not math.isfinite(value) or (positive and value <= 0):
        allowed = "finite numbers above 0" if positive else "finite numbers"
        raise ArgumentValueError(name, f"it is {value}", allowed, f"pass another {name}")


def devices(**tensors: Tensor | None) -> torch.device:
    """The GPU that all tensors are on."""
    recorder = plans.current()
    if recorder is not None:
        return recorder.device
    first: tuple[str, torch.device] | None = None
    for name, tensor in tensors.items():
        if tensor is None:
            continue
        if tensor.device.type != "cuda":
            if not torch.cuda.is_available():
                raise DeviceError(
                    f"{name} is on {tensor.device}, and there is no GPU here; the kernels run on "
                    "NVIDIA GPUs of the Hopper generation (sm_90a) and later"
                )
            got, fix = f"it is on {tensor.device}", f"{name}.to('cuda')"
            raise ArgumentValueError(name, got, "tensors on a GPU", fix)
        first = first or (name, tensor.device)
        if tensor.device != first[1]:
            got, fix = f"it is on {tensor.device}", f"{name}.to('{first[1]}')"
            raise ArgumentValueError(name, got, f"{first[1]}, where {first[0]} is", fix)
    if first is None:
        raise DeviceError("no tensor says which GPU to use")
    return first[1]


def layout(name: str, tensor: Tensor) -> None:
    """Bulk copies can access ``tensor``."""
    reason = layouts.problem(tensor)
    if reason is not None:
        raise ArgumentValueError(
            name,
            reason,
            "a contiguous last dimension; address and other strides multiples of 16 bytes",
            f"{name}.contiguous(), or .clone() if its address is the problem",
        )
