"""`stand_in`: inside of it, torch finds a GPU, and tensors on it lie in memory of this process."""

# torch has no types that would say something here.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportPrivateUsage=false

from __future__ import annotations

import warnings
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
import torch.profiler

from schedgen.emulator.launch.diversion import set_attribute, set_environment
from schedgen.emulator.launch.targets import Target
from schedgen.emulator.standin.bindings import divert_bindings
from schedgen.emulator.standin.cuda import divert_cuda
from schedgen.emulator.standin.factories import divert_factories
from schedgen.emulator.standin.graphs import divert_graphs
from schedgen.emulator.standin.tensors import MEMORY, dispatch

_MAKERS = (
    *("empty.memory_format", "empty_strided", "tril_indices", "triu_indices"),
    "_efficientzerotensor",
)
"""Operations that have no tensor among their arguments, and kernels in builds of torch with CUDA;
what else makes tensors is made of them. Builds without CUDA have kernels of none."""


@contextmanager
def stand_in(gpu: Target) -> Generator[None]:
    """Let torch find `gpu`, as long as the context lasts.

    Kernels are the business of `schedgen.emulator.emulation.device`. ``torch.compile`` does
    nothing inside: what it would generate are kernels for a GPU that is not there. Profiles are of
    operations on the CPU.
    """
    with ExitStack() as stack:
        set_environment(stack, "TORCHDYNAMO_DISABLE", "1")
        set_attribute(stack, torch, "compile", _compiled)
        set_attribute(stack, torch.profiler, "profile", _Profile)
        _divert_dispatch(stack)
        # Modules that are moved get new parameters: the data of a plain one cannot be on the GPU.
        future = torch.__future__
        stack.callback(
            future.set_overwrite_module_params_on_conversion,
            future.get_overwrite_module_params_on_conversion(),
        )
        future.set_overwrite_module_params_on_conversion(True)
        divert_cuda(stack, gpu)
        divert_graphs(stack)
        divert_bindings(stack, gpu, MEMORY)
        divert_factories(stack)
        yield


def _divert_dispatch(stack: ExitStack) -> None:
    """Let operations that make tensors on the GPU come to `dispatch`.

    All others have a tensor on the GPU among their arguments, and come there by its class.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # builds with CUDA have kernels already
        for namespace, names in (("_", ()), ("aten", _MAKERS)):
            library = torch.library.Library(namespace, "IMPL")
            stack.callback(library._destroy)  # what was there before is there again
            for name in names:
                library.impl(name, _kernel(name), "CUDA")
            if not names:
                library.fallback(lambda op, *a, **k: dispatch(op, a, k), "CUDA")


def _kernel(name: str) -> Any:
    packet, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, packet), overload or "default")
    return lambda *arguments, **options: dispatch(operator, arguments, options)


class _Profile(torch.profiler.profile):
    """Records operations of the CPU whatever it is asked for: nothing runs on a GPU."""

    def __init__(self, *, activities: Any = None, **options: Any) -> None:
        del activities
        super().__init__(activities=[torch.profiler.ProfilerActivity.CPU], **options)


def _compiled(model: Any = None, **_: Any) -> Any:
    return (lambda function: function) if model is None else model
