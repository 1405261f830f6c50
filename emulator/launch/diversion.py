"""Changes to the DSL that last as long as a device is in use.

Each function takes the stack that undoes what it changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import ExitStack
from copy import deepcopy
from typing import Any, Protocol, cast

from schedgen.emulator.launch.dsl import Dsl
from schedgen.emulator.launch.targets import Target


class Receiver(Protocol):
    """Who gets calls of compiled functions."""

    def note_arguments(self, arguments: Iterable[tuple[str, Any]]) -> None:
        """Remember names and values of what the next call passes."""
        ...

    def call(self, function: Any, arguments: list[Any]) -> int | None:
        """Run the host code of `function`; `arguments` are as the DSL packs them."""
        ...


def compile_for(stack: ExitStack, dsl: Dsl, gpu: Target, folder: str, *, lines: bool) -> None:
    """Make the DSL compile for `gpu` and keep PTX, which it writes to `folder` and reads back."""
    set_environment(stack, "CUTE_DSL_ARCH", gpu.name)  # read by cutlass.utils.blackwell_helpers
    for singleton in dsl.singletons:  # they read the environment only once, on import
        for key, value in (
            ("_arch", gpu.name),
            ("keep_ptx", True),
            ("dump_dir", folder),
            ("no_cache", True),  # implied by keep_ptx, which otherwise warns about it
            ("lineinfo", lines),
            ("compiler_backend", "legacy"),  # the default; functions of another are not diverted
        ):
            set_attribute(stack, singleton.envar, key, value)
    plain_apply: Any = dsl.options.apply_envar_settings
    copied: set[int] = set()

    def apply(self: Any, settings: Any, function: str) -> None:
        # cute.compile has options that outlive the compilation, and settings stay in them.
        if id(self) not in copied:
            copied.add(id(self))
            set_attribute(stack, self, "options", deepcopy(self.options))
        plain_apply(self, settings, function)

    set_attribute(stack, dsl.options, "apply_envar_settings", apply)


def place_in_global_memory(stack: ExitStack, dsl: Dsl) -> None:
    """Make the DSL take tensors on the CPU for tensors on a GPU.

    It gives the former the generic address space, for which other instructions are chosen, and
    which some copies refuse.
    """
    plain_type: Any = dsl.tensor.mlir_type.fget

    def mlir_type(self: Any) -> Any:
        return dsl.parse_type(str(plain_type(self)).replace(", generic,", ", gmem,", 1))

    def memspace(self: Any) -> Any:
        del self
        return dsl.global_space

    set_attribute(stack, dsl.tensor, "mlir_type", property(mlir_type))
    set_attribute(stack, dsl.tensor, "memspace", property(memspace))


def divert_calls(stack: ExitStack, dsl: Dsl, receiver: Receiver) -> None:
    """Make calls of compiled functions, and of functions compiled on the fly, end in `receiver`."""
    plain_call: Any = dsl.function.__call__
    plain_extract: Any = dsl.tracer.extract_dynamic_args

    def call(self: Any, *arguments: Any, **named: Any) -> int | None:
        bound = self.execution_args.bound_call_arguments(arguments, named)
        receiver.note_arguments(bound.items())
        # The executor of an earlier call, on a real GPU, would be taken without asking `run`.
        executor, self._default_executor = self._default_executor, None
        try:
            return plain_call(self, *arguments, **named)
        finally:
            self._default_executor = executor

    def extract(self: Any, function: Any, arguments: Any, named: Any, signature: Any) -> Any:
        names = list(signature.parameters)
        receiver.note_arguments(zip(names, (*arguments, *named.values()), strict=False))
        return plain_extract(self, function, arguments, named, signature)

    def run(self: Any, arguments: list[Any]) -> int | None:
        return receiver.call(self, arguments)

    def to(self: Any, device: Any = None) -> Any:
        del device  # there is one
        return self

    set_attribute(stack, dsl.function, "__call__", call)
    set_attribute(stack, dsl.function, "run_compiled_program", run)
    set_attribute(stack, dsl.function, "to", to)
    set_attribute(stack, dsl.tracer, "extract_dynamic_args", extract)


def answer_hardware(stack: ExitStack, dsl: Dsl, gpu: Target) -> None:
    """Make ``cutlass.utils.HardwareInfo`` answer for `gpu` instead of asking the driver."""

    def init(self: Any, device_id: int = 0) -> None:
        self.device_id = device_id

    def clusters(self: Any, cluster_size: int, stream: Any = None) -> int:
        del self, stream
        return gpu.clusters(cluster_size)

    def sms(self: Any) -> int:
        del self
        return gpu.sms

    set_attribute(stack, dsl.hardware, "__init__", init)
    set_attribute(stack, dsl.hardware, "get_max_active_clusters", clusters)
    set_attribute(stack, dsl.hardware, "get_device_multiprocessor_count", sms)


def set_attribute(stack: ExitStack, owner: Any, name: str, value: Any) -> None:
    """Set an attribute; one that was inherited will be inherited again."""
    own = cast(dict[str, Any], vars(owner))
    if name in own:
        stack.callback(setattr, owner, name, own[name])
    else:
        stack.callback(delattr, owner, name)
    setattr(owner, name, value)


def set_environment(stack: ExitStack, name: str, value: str) -> None:
    """Set an environment variable."""
    before = os.environ.get(name)
    os.environ[name] = value
    if before is None:
        stack.callback(os.environ.pop, name, None)
    else:
        stack.callback(os.environ.__setitem__, name, before)
