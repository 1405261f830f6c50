"""Calls of functions that were compiled for apache-tvm-ffi (``--enable-tvm-ffi``), diverted.

Such a function checks its arguments and starts its kernels in its own compiled code. It is given
another engine, whose CUDA functions are ours (`host_code`), and everything else stays as it is.
"""

# The packages have no types that would say something here.
# pyright: reportMissingImports=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from typing import Any, Protocol

import torch

from schedgen.emulator.launch.diversion import set_attribute
from schedgen.emulator.launch.exchange import Exchanged


class FfiReceiver(Protocol):
    """Who gets calls of functions of apache-tvm-ffi."""

    def ffi(self, function: Any) -> Any:
        """Return `function` as one of apache-tvm-ffi whose launches come to the receiver."""
        ...

    def call_ffi(
        self, function: Any, arguments: Iterable[tuple[str, Any]], call: Callable[[], Any]
    ) -> Any:
        """Return the result of `call`, which calls what `ffi` returned for `function`."""
        ...


def divert_ffi(stack: ExitStack, receiver: FfiReceiver) -> None:
    """Make functions that are compiled for apache-tvm-ffi launch by `receiver`.

    Without apache-tvm-ffi, which the DSL then refuses to compile for, there is nothing to do.
    """
    if find_spec("tvm_ffi") is None:
        return
    from cutlass.cutlass_dsl import tvm_ffi_provider as provider

    def create(self: Any) -> Any:
        return None if self.ir_module is None else receiver.ffi(self)

    def diverted(plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, *arguments: Any, **named: Any) -> Any:
            return called(receiver, self, partial(plain, self), arguments, named)

        return call

    base = provider.TVMFFIJitCompiledFunctionBase
    set_attribute(stack, base, "_create_tvm_ffi_function", create)
    for kind in (provider.TVMFFIJitCompiledFunction, provider.TVMFFIJitCompiledFunctionWithKwargs):
        set_attribute(stack, kind, "__call__", diverted(kind.__call__))
    exchange_as_on_gpu(stack)


def exchange_as_on_gpu(stack: ExitStack) -> None:
    """Make tensors of the stand-in for a GPU be on it also where only their memory is asked for."""
    import tvm_ffi

    plain = tvm_ffi.from_dlpack

    def from_dlpack(tensor: Any, **options: Any) -> Any:
        own = getattr(tensor, "plain", None)
        return plain(tensor if own is None else Exchanged(own.detach()), **options)

    set_attribute(stack, tvm_ffi, "from_dlpack", from_dlpack)


def called(
    receiver: FfiReceiver, function: Any, call: Callable[..., Any], arguments: Any, named: Any
) -> Any:
    """The result of `call`, a function of apache-tvm-ffi; `function` is known to `receiver`."""
    given = [(f"argument {at}", one) for at, one in enumerate(arguments)]
    run = partial(call, *map(_on_gpu, arguments), **{k: _on_gpu(v) for k, v in named.items()})
    return receiver.call_ffi(function, [*given, *named.items()], run)


def _on_gpu(value: Any) -> Any:
    """`value`, with tensors as they would be on a GPU: functions refuse those on the CPU."""
    from tvm_ffi import from_dlpack

    if isinstance(value, torch.Tensor):
        plain = getattr(value, "plain", value)
        return from_dlpack(Exchanged(plain.detach()))  # pyright: ignore
    if type(value) in (list, tuple):
        return type(value)(_on_gpu(one) for one in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_on_gpu, value))
    return value
