"""Functions of torch that make tensors on a device, or ask for one, before its dispatcher does.

Everything that goes through the dispatcher needs no help (`tensors`). What is here asks the CUDA
runtime in C++ before that, which a build of torch without CUDA does not have.
"""

# torch has no types that would say something here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportPrivateUsage=false
# pyright: reportUnknownLambdaType=false

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import wraps
from typing import Any

import torch
from torch.utils._device import _device_constructors

from schedgen.emulator.launch.diversion import set_attribute
from schedgen.emulator.standin.tensors import CPU, DEVICE, CudaTensor, on_cuda

_FROM_DATA = ("tensor", "as_tensor", "asarray")
_PINNED = (
    *("empty", "zeros", "ones", "full", "rand", "randn", "randint", "arange", "empty_like"),
    *("empty_strided", "eye", "linspace"),
)


def divert_factories(stack: ExitStack) -> None:
    """Make ``torch.tensor(…, device="cuda")``, ``Tensor.to`` and the like work."""
    _device_constructors()  # finds the functions of torch once, to which it gives default devices
    stack.callback(_forget)
    for name in _FROM_DATA:
        set_attribute(stack, torch, name, _from_data(getattr(torch, name)))
    for name in _PINNED:
        set_attribute(stack, torch, name, _unpinned(getattr(torch, name)))
    set_attribute(stack, torch.Tensor, "to", _to(torch.Tensor.to))
    set_attribute(stack, torch.Tensor, "cuda", _cuda)
    set_attribute(stack, torch.Tensor, "pin_memory", lambda self, device=None: self)
    set_attribute(stack, torch, "Generator", _Generator)
    for name in (
        *("new_tensor", "new_empty", "new_zeros", "new_ones", "new_full"),
        "new_empty_strided",
    ):
        set_attribute(stack, torch.Tensor, name, _new(name, getattr(torch.Tensor, name)))


def _forget() -> None:
    """What torch.compile has found among torch's functions meanwhile: it would not know the plain
    ones afterwards.
    """
    rules = sys.modules.get("torch._dynamo.trace_rules")
    if rules is not None:
        rules.clear_lru_cache()


def indexed(value: Any) -> Any:
    """`value`, where it is the GPU with its number: torch would ask the runtime for that."""
    if isinstance(value, str) and not value.startswith("cuda"):
        return value  # such as a name of something else
    return DEVICE if isinstance(value, (str, torch.device)) and on_cuda(value) else value


def _from_data(plain: Callable[..., Any]) -> Callable[..., Any]:
    """The function on the CPU, and a copy to the GPU if that is where the result is to be."""

    @wraps(plain)
    def make(data: Any, *arguments: Any, device: Any = None, **options: Any) -> Any:
        if isinstance(data, CudaTensor) and device is None:
            return plain(data, *arguments, **options)
        where = torch.empty(0).device if device is None else device  # the default one
        if not on_cuda(where):
            return plain(data, *arguments, device=device, **options)
        wants = options.pop("requires_grad", False)
        options.pop("pin_memory", None)
        if isinstance(data, torch.Tensor):
            made = data.to(DEVICE, *arguments, **options)
        else:
            made = plain(_numbers(data), *arguments, device=CPU, **options).to(DEVICE)
        return made.requires_grad_() if wants else made

    return make


def _numbers(data: Any) -> Any:
    """Nested lists of tensors on the GPU as such of numbers."""
    if isinstance(data, (list, tuple)):
        return [_numbers(one) for one in data]
    return data.item() if isinstance(data, CudaTensor) else data


def _unpinned(plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def make(*arguments: Any, **options: Any) -> Any:
        if options.get("pin_memory"):
            options["pin_memory"] = False  # nothing is paged out here, and there is no allocator
        if on_cuda(options.get("device")):
            options["device"] = DEVICE
        return plain(*arguments, **options)

    return make


def _to(plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def to(self: Any, *arguments: Any, **options: Any) -> Any:
        if not isinstance(self, CudaTensor):
            given = [indexed(one) for one in arguments]
            if given and isinstance(given[0], int) and not isinstance(given[0], bool):
                given[0] = DEVICE
            return plain(self, *given, **{name: indexed(one) for name, one in options.items()})
        device, dtype, copy, layout = _wanted(arguments, options)
        if device is not None and not on_cuda(device):  # torch would not see that it is elsewhere
            return torch.ops.aten._to_copy.default(
                self, dtype=dtype, device=torch.device(device), memory_format=layout
            )
        return plain(self, dtype=dtype or self.dtype, copy=copy, memory_format=layout)

    return to


def _wanted(arguments: Any, options: dict[str, Any]) -> tuple[Any, Any, bool, Any]:
    """Device, type, whether to copy and layout, of what is given to ``Tensor.to``."""
    device, dtype = options.get("device"), options.get("dtype")
    flags = [one for one in arguments if isinstance(one, bool)]  # non_blocking, copy
    for one in arguments:
        if isinstance(one, torch.Tensor):
            device, dtype = one.device, one.dtype
        elif isinstance(one, torch.dtype):
            dtype = one
        elif isinstance(one, (str, torch.device)) or (type(one) is int):
            device = one
    if isinstance(other := options.get("other"), torch.Tensor):
        device, dtype = other.device, other.dtype
    copy = options.get("copy", len(flags) > 1 and flags[1])
    return device, dtype, copy, options.get("memory_format", torch.preserve_format)


def _cuda(
    self: Any,
    device: Any = None,
    non_blocking: bool = False,
    memory_format: Any = torch.preserve_format,
) -> Any:
    del device, non_blocking
    return self.to(DEVICE, memory_format=memory_format)


def _new(name: str, plain: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(plain)
    def make(self: Any, *arguments: Any, **options: Any) -> Any:
        where = options.get("device")
        if name == "new_tensor" and (isinstance(self, CudaTensor) or on_cuda(where)):
            dtype = options.pop("dtype", None) or self.dtype
            options.pop("device", None)
            return torch.tensor(
                *arguments, dtype=dtype, device=DEVICE if where is None else where, **options
            )
        if name == "new_empty_strided" and where is not None and not on_cuda(where):
            # In C++ autograd asks a tensor on the GPU for a gradient, and says that it is here.
            return torch.empty_strided(*arguments, **{"dtype": self.dtype, **options})
        if where is not None:
            options["device"] = indexed(where)
        return plain(self, *arguments, **options)

    return make


class _Generator(torch._C.Generator):  # pyright: ignore
    """A generator of random numbers, which are drawn on the CPU whatever its device is."""

    def __new__(cls, device: Any = "cpu") -> Any:
        del device
        return super().__new__(cls, device=CPU)  # pyright: ignore[reportCallIssue]
